//! Each call by itself, and what it refuses.

use super::*;
use crate::code::api::{Detail, SymbolWant};

const POOL: &str = "/// Keeps connections that are idle.\npub struct Pool {\n    idle: Vec<u32>,\n}\n\nimpl Pool {\n    /// Takes a connection that somebody gave back.\n    pub fn take(&mut self) -> Option<u32> {\n        self.idle.pop()\n    }\n}\n";
const USER: &str = "use crate::pool::Pool;\n\n/// Answers one request.\nfn answer(pool: &mut Pool) {\n    let connection = pool.take();\n    drop(connection);\n}\n";
const RETRY: &str = "def retry_with_backoff(call, attempts):\n    \"\"\"Calls again after a failure, each time later.\"\"\"\n    for attempt in range(attempts):\n        call()\n";

fn bed() -> Bed {
    Bed::new(&[
        ("src/pool.rs", POOL),
        ("src/user.rs", USER),
        ("lib/retry.py", RETRY),
        (
            "tests/test_retry.py",
            "def test_retry_with_backoff():\n    retry_with_backoff(lambda: 1, 3)\n",
        ),
        ("README.md", "# Pools\n\nConnections are kept in a pool.\n"),
        ("logo.bin", "\0\0\0"),
    ])
}

#[test]
fn words_find_what_they_are_about() {
    let bed = bed();
    let answer = bed.search("call again after a failure", Mode::Auto);
    assert_eq!(answer.understood, "words");
    assert_eq!(paths(&answer)[0], "lib/retry.py");
    let text = answer.hits[0].text.as_deref().unwrap();
    assert!(text.contains("Calls again after a failure"));
    assert_eq!(
        (answer.standing.coverage, answer.standing.pending),
        (1.0, 0)
    );
    assert!(bed.search("retries with backof", Mode::Auto).hits.len() >= 2);
    assert!(bed.search("zzzqqqy", Mode::Auto).hits.is_empty());
}

#[test]
fn exact_text_and_expressions_find_lines() {
    let bed = bed();
    let answer = bed.search("pool.take()", Mode::Text);
    assert_eq!((answer.total, answer.total_exact), (1, true));
    assert_eq!(
        (answer.hits[0].path.as_str(), answer.hits[0].start_line),
        ("src/user.rs", 5)
    );
    assert_eq!(bed.search("\"pool.take()\"", Mode::Auto).understood, "text");
    assert_eq!(bed.search(r"^(pub )?fn \w+", Mode::Regex).total, 1);
    let mut ask = Search {
        query: "POOL.TAKE()".to_owned(),
        mode: Mode::Text,
        ..Search::default()
    };
    assert_eq!(bed.engine.search(&ask, &Cancel::new()).unwrap().total, 0);
    ask.ignore_case = true;
    assert_eq!(bed.engine.search(&ask, &Cancel::new()).unwrap().total, 1);
}

#[test]
fn files_are_found_and_read() {
    let bed = bed();
    let ask = |query: &str| FilesAsk {
        query: query.to_owned(),
        ..FilesAsk::default()
    };
    let found = bed.engine.files(&ask("retry"), &Cancel::new()).unwrap();
    assert_eq!(found.files[0].path, "lib/retry.py");
    let all = bed.engine.files(&ask(""), &Cancel::new()).unwrap();
    assert_eq!(all.total, 6);
    let note = all
        .files
        .iter()
        .find(|file| file.path == "logo.bin")
        .unwrap();
    assert!(note.note.as_deref().unwrap().contains("not text"));
    assert_eq!(
        bed.engine
            .files(&ask("**/*.rs"), &Cancel::new())
            .unwrap()
            .total,
        2
    );
    let hit = &bed.search("pool.take()", Mode::Text).hits[0];
    let ask = ReadAsk {
        reference: Some(hit.reference.clone()),
        context: Some(1),
        ..ReadAsk::default()
    };
    let read = bed.engine.read(&ask).unwrap();
    assert_eq!(
        (read.start_line, read.end_line, read.changed),
        (4, 6, false)
    );
    assert!(read.text.contains("pool.take()"));
    for (path, start_line) in [
        ("logo.bin", None),
        ("none", None),
        ("../data", None),
        ("src/pool.rs", Some(999)),
    ] {
        let ask = ReadAsk {
            path: Some(path.to_owned()),
            start_line,
            ..ReadAsk::default()
        };
        assert!(bed.engine.read(&ask).is_err(), "{path}");
    }
}

#[test]
fn what_is_asked_wrongly_is_refused_with_the_way_to_mend_it() {
    let bed = bed();
    let refused = |change: &dyn Fn(&mut Search)| {
        let mut ask = Search {
            query: "pool".to_owned(),
            ..Search::default()
        };
        change(&mut ask);
        let error = bed.engine.search(&ask, &Cancel::new()).unwrap_err();
        let about_the_ask = matches!(
            error,
            Error::Ask { .. }
                | Error::NotAllowed(_)
                | Error::NoRepository { .. }
                | Error::NoJob(_)
                | Error::NoFile(_)
        );
        assert!(about_the_ask, "{error}");
        error.to_string()
    };
    assert!(refused(&|ask| ask.query = "  ".to_owned()).contains("empty"));
    assert!(refused(&|ask| ask.limit = Some(51)).contains("1 to 50"));
    assert!(refused(&|ask| ask.file_type = Some(".rs".to_owned())).contains("dot"));
    assert!(refused(&|ask| ask.directory = Some(String::new())).contains("empty"));
    assert!(refused(&|ask| ask.repositories = vec!["x".to_owned()]).contains("tree"));
    assert!(refused(&|ask| ask.symbol_kind = Some("x".to_owned())).contains("function"));
    assert!(refused(&|ask| ask.cursor = Some("x".to_owned())).contains("cursor"));
    assert!(refused(&|ask| (ask.query, ask.mode) = ("(".to_owned(), Mode::Regex)).contains("text"));
    assert!(matches!(bed.engine.cancel("none"), Err(Error::NoJob(_))));
    let cancel = Cancel::new();
    cancel.cancel();
    let ask = Search {
        query: "pool".to_owned(),
        mode: Mode::Text,
        ..Search::default()
    };
    assert_eq!(bed.engine.search(&ask, &cancel), Err(Error::Cancelled));
}

#[test]
fn filters_are_inside_the_search() {
    let bed = bed();
    let count = |change: &dyn Fn(&mut Search)| {
        let mut ask = Search {
            query: "retry".to_owned(),
            detail: Detail::Paths,
            ..Search::default()
        };
        change(&mut ask);
        bed.engine.search(&ask, &Cancel::new()).unwrap().hits.len()
    };
    assert_eq!(count(&|_| {}), 2);
    assert_eq!(count(&|ask| ask.directory = Some("lib".to_owned())), 1);
    assert_eq!(count(&|ask| ask.paths = vec!["!tests/**".to_owned()]), 1);
    assert_eq!(count(&|ask| ask.languages = vec!["rust".to_owned()]), 0);
    assert_eq!(count(&|ask| ask.file_type = Some("py".to_owned())), 2);
}

#[test]
fn a_job_is_one_for_a_tree_and_tells_how_far_it_is() {
    let bed = bed();
    let again = bed.index("");
    assert_eq!((again.files_indexed, again.files_seen), (0, 6));
    assert!(again.message.contains("nothing changed"));
    let ask = IndexAsk {
        force: true,
        ..IndexAsk::default()
    };
    let job = bed.engine.index(&ask).unwrap();
    let states: Vec<Job> = bed.engine.progress(&job.id).unwrap().collect();
    let last = states.last().unwrap();
    assert_eq!(
        (last.state, last.files_indexed, last.files_skipped),
        (JobState::Done, 5, 1)
    );
    assert_eq!(bed.search("pool.take()", Mode::Text).total, 1);
    let status = bed.engine.status(&StatusAsk::default()).unwrap();
    assert_eq!(status.repositories[0].files, 6);
    assert!(!status.vectors.configured);
    assert!(status.jobs.iter().any(|known| known.id == job.id));
    let removed = bed.engine.remove(&Remove {
        repository: "tree".to_owned(),
        project: None,
    });
    assert_eq!(removed.unwrap().files, 6);
    assert!(matches!(bed.engine.repositories(None), Ok(none) if none.repositories.is_empty()));
    bed.index("");
    assert_eq!(bed.search("pool.take()", Mode::Text).total, 1);
}

#[test]
fn an_outline_needs_a_file_and_names_need_a_name() {
    let bed = bed();
    let ask = |want: SymbolWant, name: Option<&str>, path: Option<&str>| {
        let ask = SymbolAsk {
            want,
            name: name.map(str::to_owned),
            path: path.map(str::to_owned),
            ..SymbolAsk::default()
        };
        bed.engine.symbol(&ask, &Cancel::new())
    };
    assert!(ask(SymbolWant::Outline, None, None).is_err());
    assert!(ask(SymbolWant::Outline, None, Some("none.rs")).is_err());
    assert!(ask(SymbolWant::Definition, Some(" "), None).is_err());
    assert!(ask(SymbolWant::Outline, None, Some("src/pool.rs")).is_ok());
    let references = ask(SymbolWant::References, Some("take"), None).unwrap();
    assert!(references.hits.iter().any(|hit| hit.path == "src/user.rs"));
}

#[test]
fn pages_go_on_where_the_last_one_ended() {
    let files: Vec<(String, String)> = (0..120)
        .map(|i| (format!("f{i:03}.txt"), format!("needle {i}\n")))
        .collect();
    let files: Vec<(&str, &str)> = files
        .iter()
        .map(|(path, text)| (path.as_str(), text.as_str()))
        .collect();
    let bed = Bed::new(&files);
    for mode in [Mode::Text, Mode::Auto] {
        let ask = Search {
            query: "needle".to_owned(),
            mode,
            ..Search::default()
        };
        let hits = all_hits(&bed.engine, &ask);
        let distinct: std::collections::HashSet<&str> =
            hits.iter().map(|hit| hit.path.as_str()).collect();
        assert_eq!((hits.len(), distinct.len()), (120, 120));
    }
}

#[test]
fn a_hit_leads_to_its_like() {
    let bed = bed();
    let hit = bed.search("retry_with_backoff", Mode::Auto).hits.remove(0);
    let ask = Related {
        reference: hit.reference.clone(),
        ..Related::default()
    };
    let like = bed.engine.related(&ask, &Cancel::new()).unwrap();
    assert!(!like.hits.is_empty());
    assert!(like.hits.iter().all(|like| like.path != hit.path));
    let wrong = Related {
        reference: "tree:none@0123456789abcdef".to_owned(),
        ..Related::default()
    };
    assert!(matches!(
        bed.engine.related(&wrong, &Cancel::new()),
        Err(Error::NoFile(_))
    ));
}
