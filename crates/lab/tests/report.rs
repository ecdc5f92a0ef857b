//! The report of a recorded run: every plot as it was reviewed, and what no page may hold.
//!
//! `UPDATE=1` writes the recorded run anew, from the simulation beside it, and the pictures; the diff is the review.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

#[path = "report/simulation.rs"]
mod simulation;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use clap::Parser;
use lab::exit::{Exit, Failure};
use lab::experiments::Experiment;
use lab::report::html;
use lab::report::plots::{Figure, PLOTS, cells};
use lab::result::{FlowResult, Point, Run, StepResult};

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/report")
}

fn update() -> bool {
    std::env::var_os("UPDATE").is_some()
}

/// The recorded run, written anew first if that is asked for.
fn recorded() -> Run {
    let file = folder().join("run.json");
    if update() {
        let text = serde_json::to_string(&simulation::run()).unwrap();
        let part = folder().join(format!("run.{:?}.part", std::thread::current().id()));
        std::fs::write(&part, text + "\n").unwrap();
        std::fs::rename(&part, &file).unwrap();
    }
    Run::read(&file).unwrap()
}

fn same_as_reviewed(name: &str, found: &str) {
    let file = folder().join(name);
    if update() {
        std::fs::write(&file, found).unwrap();
    }
    let reviewed = std::fs::read_to_string(&file).unwrap();
    assert!(
        found == reviewed,
        "{name} is not as reviewed: UPDATE=1 writes it anew, then look at it"
    );
}

/// Every figure of a run, with the name of its plot.
fn figures(run: &Run) -> Vec<(String, Figure)> {
    let all = PLOTS.iter().flat_map(|plot| {
        let figures = (plot.draw)(run).into_iter().enumerate();
        figures.map(|(i, figure)| (format!("{}-{i}", plot.name), figure))
    });
    all.collect()
}

#[test]
fn plots_are_as_reviewed() {
    let run = recorded();
    for (name, figure) in figures(&run) {
        well_formed(&figure.svg);
        same_as_reviewed(&format!("{name}.svg"), &figure.svg);
    }
    let mut slow = run.clone();
    slow.measured.rate /= 3.0;
    let figure = cells::draw(&[("64 connections", &run), ("128 connections", &slow)]).remove(0);
    well_formed(&figure.svg);
    same_as_reviewed("cells-0.svg", &figure.svg);
}

/// Each `<name …>` is closed, in order; attributes are quoted, once each; text is escaped.
fn well_formed(svg: &str) {
    let mut open: Vec<&str> = Vec::new();
    let mut rest = svg;
    while let Some(at) = rest.find('<') {
        let text = &rest[..at];
        assert!(!text.contains('>') && entities_are_known(text), "{text}");
        let (tag, after) = rest[at + 1..].split_once('>').unwrap();
        rest = after;
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name));
            continue;
        }
        let (body, alone) = match tag.strip_suffix('/') {
            Some(body) => (body, true),
            None => (tag, false),
        };
        let (name, attributes) = body.split_once(' ').unwrap_or((body, ""));
        let mut keys = BTreeSet::new();
        let mut left = attributes;
        while !left.is_empty() {
            let (key, value) = left.split_once("=\"").unwrap();
            let (value, more) = value.split_once('"').unwrap();
            assert!(keys.insert(key), "{key} twice in {tag}");
            assert!(!value.contains('<') && entities_are_known(value), "{tag}");
            left = more.trim_start();
        }
        if !alone {
            open.push(name);
        }
    }
    assert!(open.is_empty() && rest.trim().is_empty(), "{open:?} {rest}");
}

fn entities_are_known(text: &str) -> bool {
    let known = ["amp;", "lt;", "gt;", "quot;", "apos;"];
    let mut parts = text.split('&');
    parts.next();
    parts.all(|part| known.iter().any(|entity| part.starts_with(entity)))
        && !text.chars().any(|c| c.is_control() && c != '\n')
}

#[test]
fn a_page_holds_all_that_it_shows() {
    let run = recorded();
    let page = html(&[("a", &run), ("b", &run)]);
    stands_alone(&page);
    assert!(page.contains(r#"content="default-src 'none'; style-src 'unsafe-inline'""#));
    let ids: Vec<&str> = page
        .split(" id=\"")
        .skip(1)
        .map(|s| s.split('"').next().unwrap())
        .collect();
    let distinct: BTreeSet<&str> = ids.iter().copied().collect();
    assert_eq!(ids.len(), distinct.len(), "{ids:?}");
    assert_eq!(page, html(&[("a", &run), ("b", &run)]));
}

/// Nothing runs and nothing is fetched.
fn stands_alone(page: &str) {
    let lower = page.to_lowercase();
    for forbidden in [
        "<script",
        "<img",
        "<link",
        "<iframe",
        "<object",
        " src=",
        "url(",
        "@import",
        "javascript:",
    ] {
        assert!(!lower.contains(forbidden), "{forbidden}");
    }
    for reference in lower.split("href=\"").skip(1) {
        assert!(reference.starts_with('#'), "{}", &reference[..20]);
    }
}

/// What somebody might call a flow.
const HOSTILE: &str = "</title></svg><script>alert(1)</script><img src=x onerror=\"alert('2')\"> &amp; \u{0}\u{202e}\n]]>";

#[test]
fn hostile_names_stay_text() {
    let mut run = recorded();
    let hostile = || HOSTILE.to_owned();
    run.meta.name = hostile();
    run.meta.description = hostile();
    run.meta.command = vec![hostile()];
    run.meta.machine.cpu = hostile();
    run.warnings = vec![hostile()];
    run.validity.criteria[0].evidence = hostile();
    run.thresholds[0].metric = hostile();
    run.notes[0].what = hostile();
    run.notes[0].expected_hex = Some(hostile());
    run.watched.subjects[0].name = hostile();
    run.total.errors.insert(hostile(), 3);
    for flow in &mut run.flows {
        flow.name = hostile();
        flow.protocol = hostile();
        flow.targets = vec![hostile()];
        flow.steps[0].name = hostile();
        flow.steps[0].kind = hostile();
        flow.series[0].errors.insert(hostile(), 3);
    }
    for (_, figure) in figures(&run) {
        well_formed(&figure.svg);
    }
    let page = html(&[(HOSTILE, &run), ("other", &run)]);
    let tag = |name: &str| page.to_lowercase().contains(name);
    assert!(!tag("<script") && !tag("<img") && !page.contains(['\u{0}', '\u{202e}']));
    assert!(page.contains("&lt;script&gt;"));
}

fn with_points(points: Vec<Point>) -> Run {
    Run {
        flows: vec![FlowResult {
            name: "f".into(),
            model: "open".into(),
            steps: vec![StepResult::default()],
            series: points,
            spectrum: [("response".to_owned(), vec![(0.0, 5.0), (1.0, 5.0)])].into(),
            ..FlowResult::default()
        }],
        ..Run::default()
    }
}

fn point(t_s: f64, completed: u64, cells: &[(u16, u64)]) -> Point {
    Point {
        t_s,
        seconds: 1.0,
        sent: completed,
        completed,
        cells: cells.to_vec(),
        errors: [("reset".to_owned(), completed)].into(),
        ..Point::default()
    }
}

#[test]
fn runs_without_much_in_them_are_shown_too() {
    let equal = (1..=5).map(|t| point(f64::from(t), 10, &[(80, 10)]));
    let huge = vec![
        point(1.0, 1, &[(0, 1), (u16::MAX, u64::MAX / 8)]),
        point(1e15, u64::MAX / 8, &[(300, 1)]),
        point(f64::NAN, 1, &[(40, 1)]),
    ];
    let runs = [
        Run::default(),
        with_points(Vec::new()),
        with_points(vec![point(1.0, 1, &[(80, 1)])]),
        with_points(equal.collect()),
        with_points(huge),
    ];
    for run in &runs {
        for (_, figure) in figures(run) {
            well_formed(&figure.svg);
            assert!(!figure.svg.contains("NaN") && !figure.svg.contains("inf"));
            assert!(!figure.caption.is_empty());
        }
        stands_alone(&html(&[("run", run)]));
    }
    stands_alone(&html(&[]));
    let all: Vec<(&str, &Run)> = runs.iter().map(|run| ("same name", run)).collect();
    stands_alone(&html(&all));
}

#[test]
fn a_partial_run_says_so_first() {
    let mut run = recorded();
    run.meta.partial = true;
    let page = html(&[("run", &run)]);
    let said = page.find("Interrupted: a partial result").unwrap();
    assert!(said < page.find("<h3>").unwrap());
    assert!(!page.contains("Valid, and within"));
}

#[derive(Parser)]
struct Line {
    #[command(subcommand)]
    experiment: Experiment,
}

fn command(words: &[&str]) -> Result<Exit, Failure> {
    let line = ["lab", "report"].iter().chain(words);
    Line::try_parse_from(line).unwrap().experiment.run(&[])
}

#[test]
fn the_command_writes_one_file() {
    let out = tempfile::tempdir().unwrap();
    for cell in ["b", "a"] {
        std::fs::create_dir(out.path().join(cell)).unwrap();
        let text = serde_json::to_vec(&recorded()).unwrap();
        std::fs::write(out.path().join(cell).join("run.json"), text).unwrap();
    }
    let page = out.path().join("report.html");
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    let ended = command(&[&text(out.path()), "-o", &text(&page)]);
    assert_eq!(ended, Ok(Exit::Pass));
    let page = std::fs::read_to_string(page).unwrap();
    // Both have one name, so each goes by its folder's, in order.
    let at = |id: &str| {
        page.find(&format!("<article id=\"{id}\"><h2 class=\"run\">"))
            .unwrap()
    };
    assert!(page[at("run1")..].starts_with("<article id=\"run1\"><h2 class=\"run\">a</h2>"));
    assert!(page[at("run2")..].starts_with("<article id=\"run2\"><h2 class=\"run\">b</h2>"));
    assert_eq!(std::fs::read_dir(out.path()).unwrap().count(), 3);
}

#[test]
fn what_is_no_run_is_refused_with_its_name() {
    let out = tempfile::tempdir().unwrap();
    let at = |name: &str| out.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(at("run.json"), r#"{"schema":"other/9"}"#).unwrap();
    std::fs::write(at("text"), "no JSON").unwrap();
    std::fs::create_dir(at("empty")).unwrap();
    let page = at("report.html");
    for name in ["run.json", "text", "empty", "missing"] {
        let failure = command(&[&at(name), "-o", &page]).unwrap_err();
        assert!(failure.to_string().contains(name), "{failure}");
    }
    assert!(!Path::new(&page).exists());
    let good = folder().join("run.json");
    let lost = at("no/such/folder/report.html");
    let failure = command(&[good.to_str().unwrap(), "-o", &lost]).unwrap_err();
    assert!(failure.to_string().contains("no/such/folder"), "{failure}");
}
