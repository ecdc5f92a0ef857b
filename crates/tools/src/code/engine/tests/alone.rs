//! Tenants, roots, links: nothing is seen that is not to be seen.

use super::*;
use std::os::unix::fs::symlink;

#[test]
fn tenants_share_nothing() {
    let made = tempfile::tempdir().unwrap();
    let top = made.path().canonicalize().unwrap();
    write_all(&top.join("a"), &[("a.rs", "fn canary_of_a() {}\n")]);
    write_all(&top.join("b"), &[("b.rs", "fn canary_of_b() {}\n")]);
    let engine = |tenant: &str, root: &str| {
        let mut settings = settings(&top.join("data"), &[top.join(root)]);
        tenant.clone_into(&mut settings.tenant);
        Engine::open(settings).unwrap()
    };
    let (a, b) = (engine("a", "a"), engine("../a", "b"));
    index(&a, "");
    index(&b, "");
    for (engine, mine, theirs) in [
        (&a, "canary_of_a", "canary_of_b"),
        (&b, "canary_of_b", "canary_of_a"),
    ] {
        for mode in [
            Mode::Auto,
            Mode::Text,
            Mode::Regex,
            Mode::Symbol,
            Mode::Semantic,
        ] {
            let found = search(engine, mine, mode);
            assert!(
                found
                    .hits
                    .iter()
                    .any(|hit| hit.text.as_deref().is_some_and(|text| text.contains(mine))),
                "{mode:?}"
            );
            let found = search(engine, theirs, mode);
            assert!(
                !format!("{found:?}").contains(&format!("fn {theirs}")),
                "{mode:?}"
            );
        }
        assert_eq!(engine.repositories(None).unwrap().repositories.len(), 1);
    }
    let id = a.status(&StatusAsk::default()).unwrap().jobs[0].id.clone();
    assert!(b.cancel(&format!("{id}x")).is_err());
}

#[test]
fn projects_are_apart() {
    let made = tempfile::tempdir().unwrap();
    let top = made.path().canonicalize().unwrap();
    write_all(
        &top,
        &[
            ("one/a.rs", "fn in_one() {}\n"),
            ("two/a.rs", "fn in_two() {}\n"),
        ],
    );
    let engine = Engine::open(settings(&top.join("data"), std::slice::from_ref(&top))).unwrap();
    for project in ["one", "two"] {
        let ask = IndexAsk {
            path: project.to_owned(),
            project: Some(project.to_owned()),
            ..IndexAsk::default()
        };
        let job = engine.index(&ask).unwrap();
        engine.progress(&job.id).unwrap().last().unwrap();
    }
    let ask = Search {
        query: "in_two".to_owned(),
        project: Some("one".to_owned()),
        mode: Mode::Text,
        ..Search::default()
    };
    assert_eq!(engine.search(&ask, &Cancel::new()).unwrap().total, 0);
    assert_eq!(search(&engine, "in_two", Mode::Text).total, 1);
}

#[test]
fn nothing_outside_the_roots_is_indexed() {
    let made = tempfile::tempdir().unwrap();
    let top = made.path().canonicalize().unwrap();
    write_all(
        &top,
        &[
            ("in/a.rs", "fn inside() {}\n"),
            ("out/b.rs", "fn canary() {}\n"),
        ],
    );
    symlink(top.join("out"), top.join("in/way")).unwrap();
    symlink(top.join("out/b.rs"), top.join("in/link.rs")).unwrap();
    let engine = Engine::open(settings(&top.join("data"), &[top.join("in")])).unwrap();
    let out = top.join("out");
    for path in [out.to_str().unwrap(), "way", "/", "../out", "/etc"] {
        let ask = IndexAsk {
            path: path.to_owned(),
            ..IndexAsk::default()
        };
        assert!(engine.index(&ask).is_err(), "{path}");
    }
    index(&engine, "");
    assert_eq!(search(&engine, "canary", Mode::Text).total, 0);
    assert_eq!(search(&engine, "inside", Mode::Text).total, 1);
    // A directory that becomes a way out is not gone through.
    std::fs::rename(top.join("in"), top.join("was")).unwrap();
    symlink(top.join("out"), top.join("in")).unwrap();
    let after = engine.search(
        &Search {
            query: "canary".to_owned(),
            ..Search::default()
        },
        &Cancel::new(),
    );
    assert!(!format!("{after:?}").contains("fn canary"));
}

#[test]
fn no_path_of_the_host_is_answered() {
    let bed = Bed::new(&[("a.rs", "fn pool() {}\n")]);
    let host = bed.top.to_str().unwrap();
    let answers = [
        format!("{:?}", bed.search("pool", Mode::Auto)),
        format!("{:?}", bed.engine.repositories(None).unwrap()),
        format!("{:?}", bed.engine.status(&StatusAsk::default()).unwrap()),
        format!(
            "{:?}",
            bed.engine
                .files(&FilesAsk::default(), &Cancel::new())
                .unwrap()
        ),
    ];
    for answer in answers {
        assert!(!answer.contains(host), "{answer}");
    }
}

/// Roots that become fewer: what was indexed of the others is not told either, not even the names.
#[test]
fn what_is_no_root_any_more_is_not_told() {
    let made = tempfile::tempdir().unwrap();
    let top = made.path().canonicalize().unwrap();
    write_all(
        &top,
        &[
            ("one/a.rs", "fn in_one() {}\n"),
            ("two/canary.rs", "fn in_two() {}\n"),
        ],
    );
    let data = top.join("data");
    let both = Engine::open(settings(&data, &[top.join("one"), top.join("two")])).unwrap();
    for root in ["one", "two"] {
        index(&both, top.join(root).to_str().unwrap());
    }
    assert_eq!(both.repositories(None).unwrap().repositories.len(), 2);
    drop(both);
    let one = Engine::open(settings(&data, &[top.join("one")])).unwrap();
    let told = [
        format!("{:?}", one.repositories(None).unwrap()),
        format!("{:?}", one.status(&StatusAsk::default()).unwrap()),
        format!(
            "{:?}",
            one.files(&FilesAsk::default(), &Cancel::new()).unwrap()
        ),
        format!("{:?}", search(&one, "in_two", Mode::Symbol)),
    ];
    assert!(told.iter().all(|told| !told.contains("canary")), "{told:?}");
    assert_eq!(search(&one, "fn in_one", Mode::Text).total, 1);
}
