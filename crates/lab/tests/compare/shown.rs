//! What is printed, whole, from made-up machines: `UPDATE=1` rewrites the expected side.

use std::path::Path;

use lab::exit::Failure;
use lab::experiments::compare::answer::Rule;
use lab::experiments::compare::blocks::{Bench, Block, Count, Side, interleave};
use lab::experiments::compare::comparison::{Comparison, Question};
use lab::experiments::compare::imports;
use lab::experiments::compare::metrics::{METRIC, Measured, place};
use lab::experiments::compare::table::table;
use lab::report::html_of_comparisons;
use lab::report::plots::effects;

use super::world::{NOISY, Noise, QUIET, World};

fn check(name: &str, shown: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("cases/compare/{name}.txt"));
    if std::env::var_os("UPDATE").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, shown).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(shown, expected, "{}; UPDATE=1 rewrites it", path.display());
}

fn rule() -> Rule {
    let names = [
        "cpu_us_per_request",
        "service_us_p50",
        "service_us_p99",
        "requests_per_second",
        "rss_bytes",
    ];
    Rule {
        alpha: 0.05,
        margin: 0.05_f64.ln_1p(),
        judged: names.map(|name| place(name).unwrap()).to_vec(),
    }
}

fn question() -> Question {
    Question {
        a: "weir serve --config a.yaml".to_owned(),
        b: "weir serve --config b.yaml".to_owned(),
        alpha: 0.05,
        margin: 0.05,
        seed: 1,
    }
}

/// A world in values that look like a server's, where every fifth run finds the host busy.
struct Dressed {
    world: World,
    busy_every: usize,
}

impl Bench for Dressed {
    fn measure(&mut self, side: Side, run: usize) -> Result<Measured, Failure> {
        let mut measured = self.world.measure(side, run)?;
        for (value, metric) in measured.values.iter_mut().zip(METRIC) {
            let scale = match metric.name {
                "cpu_us_per_request" => 0.1,
                "requests_per_second" => 80.0,
                "rss_bytes" => 1e5,
                "service_us_p99" => 9.0,
                _ => 2.0,
            };
            *value = value.map(|value| value * scale);
        }
        if run % self.busy_every == self.busy_every - 1 {
            measured.unfit = Some("noisy-host: others used 31 % of the host".to_owned());
        }
        Ok(measured)
    }

    fn after(&mut self, block: &Block) {
        assert!(block.number < 40, "it ends");
    }
}

fn compared(noise: Noise, effect: f64, count: Count, busy_every: usize) -> Comparison {
    let mut bench = Dressed {
        world: World::new(noise, effect, 7),
        busy_every,
    };
    let interleaved = interleave(count, &rule(), 1, &mut bench).unwrap();
    Comparison::of_blocks(&question(), &interleaved)
}

fn shown(noise: Noise, effect: f64, count: Count, busy_every: usize) -> String {
    let comparison = compared(noise, effect, count, busy_every);
    let json = serde_json::to_string(&comparison).unwrap();
    let back: Comparison = serde_json::from_str(&json).unwrap();
    assert_eq!(table(&back), table(&comparison), "the file says the same");
    table(&comparison)
}

#[test]
fn a_slower_side_is_shown() {
    check("slower", &shown(QUIET, 0.18, Count::Fixed(12), 11));
}

#[test]
fn a_faster_side_is_shown() {
    check(
        "faster",
        &shown(QUIET, -0.5, Count::Auto { most: 24 }, 1000),
    );
}

#[test]
fn the_same_is_shown() {
    let still = Noise {
        pair: 0.02,
        ..QUIET
    };
    check("same", &shown(still, 0.0, Count::Fixed(8), 1000));
}

#[test]
fn what_cannot_be_told_is_shown() {
    check("cannot-tell", &shown(NOISY, 0.05, Count::Fixed(6), 1000));
}

#[test]
fn a_host_that_never_rests_ends_the_comparison() {
    check("too-busy", &shown(QUIET, 0.0, Count::Fixed(6), 2));
}

#[test]
fn too_many_dropped_blocks_are_told_from_an_answer_that_is_not_known() {
    let dropped = |noise, effect, blocks, busy_every| {
        compared(noise, effect, Count::Fixed(blocks), busy_every).dropped_too_many()
    };
    // Every block meets a busy host.
    assert_eq!(dropped(QUIET, 0.0, 6, 2), Some(13));
    // Noise alone: more blocks would help, and a quieter machine would not.
    assert_eq!(dropped(NOISY, 0.05, 6, 1000), None);
    // What was dropped could be made up for.
    assert_eq!(dropped(QUIET, 0.18, 12, 11), None);
}

#[test]
fn a_page_shows_each_change_with_its_interval() {
    let slower = compared(QUIET, 0.18, Count::Fixed(12), 11);
    check("effects", &(effects::draw(&slower).svg + "\n"));
    let mut hostile = compared(NOISY, 0.05, Count::Fixed(6), 1000);
    hostile.a = "<script>alert(1)</script>\u{202e}".to_owned();
    hostile.notes = vec![hostile.a.clone()];
    let mut points = slower.clone();
    points
        .metrics
        .iter_mut()
        .for_each(|metric| metric.sure = None);
    let page = html_of_comparisons(&[slower, hostile, points]);
    for text in [
        "B is WORSE than A",
        "CANNOT TELL whether B differs",
        "CPU per request",
        "no change",
        "dropped: ",
        "noisy-host: others used 31 % of the host",
        "No interval is possible",
        "&lt;script&gt;",
    ] {
        assert!(page.contains(text), "{text}");
    }
    let lower = page.to_lowercase();
    for forbidden in ["<script", " src=", "url(", "@import", "href=", "\u{202e}"] {
        assert!(!lower.contains(forbidden), "{forbidden}");
    }
}

#[test]
fn k6_summaries_have_changes_and_no_interval() {
    let folder = tempfile::tempdir().unwrap();
    let summary = |med: f64, failed: u64| {
        format!(
            r#"{{"metrics": {{"http_req_duration": {{"med": {med}, "p(90)": {}, "p(95)": 9.0}},
            "http_reqs": {{"count": 5000, "rate": 250.0}}, "http_req_failed": {{"passes": {failed}, "fails": 1, "value": 0}}}}}}"#,
            2.0 * med
        )
    };
    let write = |name: &str, text: String| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        let mut import = imports::read(&path).unwrap();
        import.label = name.to_owned();
        import
    };
    let (a, b) = (
        write("a.json", summary(2.0, 0)),
        write("b.json", summary(3.0, 1)),
    );
    let comparison = imports::compare(&a, &b, &question(), &rule());
    check("k6", &table(&comparison));
}

#[test]
fn what_is_no_run_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let check = |text: &str, why: &str| {
        let path = folder.path().join("x.json");
        std::fs::write(&path, text).unwrap();
        let failure = imports::read(&path).err().unwrap().to_string();
        assert!(failure.contains(why), "{failure}");
        assert!(
            failure.contains("k6 summary"),
            "says what to give: {failure}"
        );
    };
    check("", "is not JSON");
    check("{\"a\": ", "is not JSON");
    check("{}", "is neither a run of ours nor a k6 summary");
    check("{\"schema\": \"weir-lab-run/99\"}", "weir-lab-run/99");
    check("{\"schema\": \"weir-lab-run/1\"}", "missing field");
    let failure = imports::read(&folder.path().join("none")).err().unwrap();
    assert!(failure.to_string().contains("none"), "{failure}");
    let failure = imports::read(folder.path()).err().unwrap();
    assert!(failure.to_string().contains("run.json"), "{failure}");
}
