//! The sheet of a certificate: PASS or FAIL, each criterion with what it rests on, and every stage.

use super::common::{below, ending, micros_or_none, notes};
use crate::facts::certificate::Certificate;
use crate::output::units;
use crate::report::sheet::{Grid, Sheet, SheetBlock, SheetPart};
use crate::report::standing::Grade;
use crate::report::words::{NONE, count, number, seconds};

const DAY_S: f64 = 86_400.0;

/// The sheet.
pub fn sheet(certificate: &Certificate) -> Sheet {
    let setting = &certificate.setting;
    let failed: Vec<&str> = certificate
        .criteria
        .iter()
        .filter(|c| !c.holds)
        .map(|c| c.text.as_str())
        .collect();
    let answer = match certificate.passed {
        true => format!(
            "PASS: {} requests, 0 failed, every byte compared, through overload.",
            count(certificate.totals.requests)
        ),
        false => format!("FAIL: {}.", failed.join("; ")),
    };
    let mut parts = vec![criteria(certificate)];
    if !certificate.wrong.is_empty() {
        parts.push(wrong(certificate));
    }
    parts.extend([
        stages(certificate),
        headline(certificate),
        seal(certificate),
    ]);
    parts.extend(ending(setting, &not_measured(certificate)));
    let highest = certificate
        .stages
        .iter()
        .map(|s| s.found.rate)
        .reduce(f64::max);
    Sheet {
        kind: "certificate".to_owned(),
        title: setting.name.clone(),
        below: below(setting),
        grade: if certificate.passed {
            Grade::Good
        } else {
            Grade::Bad
        },
        answer,
        notes: notes(setting, highest),
        parts,
    }
}

fn criteria(certificate: &Certificate) -> SheetPart {
    let mut grid = Grid::new("criteria", 3, ["criterion", "holds", "evidence"]);
    for criterion in &certificate.criteria {
        let holds = if criterion.holds { "✓ yes" } else { "✗ no" };
        grid.row([
            criterion.text.clone(),
            holds.to_owned(),
            criterion.evidence.clone(),
        ]);
    }
    SheetPart {
        name: "criteria",
        title: "What had to hold?".to_owned(),
        blocks: vec![SheetBlock::Grid(grid)],
    }
}

fn wrong(certificate: &Certificate) -> SheetPart {
    let mut grid = Grid::new(
        "wrong",
        2,
        [
            "class", "what", "request", "at", "offset", "expected", "received",
        ],
    );
    for note in &certificate.wrong {
        grid.row([
            note.fault.clone(),
            note.what.clone(),
            note.number.to_string(),
            seconds(note.t_s),
            note.offset
                .map_or(NONE.to_owned(), |offset| offset.to_string()),
            note.expected_hex.clone().unwrap_or(NONE.to_owned()),
            note.received_hex.clone().unwrap_or(NONE.to_owned()),
        ]);
    }
    SheetPart {
        name: "wrong",
        title: "Which requests failed?".to_owned(),
        blocks: vec![
            SheetBlock::Words("The first of each thread. Numbers count within a stage.".to_owned()),
            SheetBlock::Grid(grid.without_empty_columns()),
        ],
    }
}

fn stages(certificate: &Certificate) -> SheetPart {
    let mut grid = Grid::new(
        "stages",
        2,
        [
            "stage",
            "load",
            "seconds",
            "requests",
            "good/s",
            "mean",
            "p90",
            "p99",
            "max",
            "failed",
            "never sent",
            "verdict",
        ],
    );
    for stage in &certificate.stages {
        let found = &stage.found;
        grid.row([
            stage.label.clone(),
            stage.load.clone(),
            number(found.seconds),
            count(found.requests),
            number(found.rate),
            micros_or_none(found.mean_us),
            micros_or_none(found.p90_us),
            micros_or_none(found.p99_us),
            micros_or_none(found.max_us),
            found.failed.to_string(),
            found.dropped.to_string(),
            found.verdict.as_str().to_owned(),
        ]);
    }
    SheetPart {
        name: "stages",
        title: "What was it asked for?".to_owned(),
        blocks: vec![SheetBlock::Grid(grid)],
    }
}

/// The numbers that such a page begins with.
fn headline(certificate: &Certificate) -> SheetPart {
    let knee = certificate
        .stages
        .iter()
        .find(|stage| stage.label.starts_with("the knee"));
    let mut grid = Grid::new("headline", 1, ["what", "value"]);
    let mut row = |what: &str, value: String| grid.row([what.to_owned(), value]);
    let totals = &certificate.totals;
    row("requests in all", count(totals.requests));
    row(
        "failed",
        units::failed_share(totals.failed, totals.requests.max(totals.failed)),
    );
    row("compared byte for byte", count(totals.compared));
    if let Some(distinct) = totals.origin_distinct {
        row("at the origin, distinct", count(distinct));
    }
    if let Some(duplicates) = totals.origin_duplicates {
        row("at the origin, more than once", count(duplicates));
    }
    if let Some(stage) = knee {
        let found = &stage.found;
        row("good answers a second at the knee", number(found.rate));
        row("that is, a day", count((found.rate.floor() * DAY_S) as u64));
        let seconds = found.seconds.max(f64::MIN_POSITIVE);
        row(
            "bytes to and from it, a second",
            format!(
                "{}/s",
                units::bytes((found.bytes_in + found.bytes_out) as f64 / seconds)
            ),
        );
    }
    SheetPart {
        name: "headline",
        title: "How much was that?".to_owned(),
        blocks: vec![SheetBlock::Grid(grid)],
    }
}

fn seal(certificate: &Certificate) -> SheetPart {
    SheetPart {
        name: "seal",
        title: "Has it been edited?".to_owned(),
        blocks: vec![
            SheetBlock::Words(
                "The certificate's JSON holds the SHA-256 of its own canonical form. It shows that nothing was edited since; it has \
                 no key, so it does not show who wrote it."
                    .to_owned(),
            ),
            SheetBlock::Code(format!("{}\nweir lab verify certificate.json", certificate.sha256)),
        ],
    }
}

fn not_measured(certificate: &Certificate) -> Vec<String> {
    let mut lines = Vec::new();
    if !certificate.criteria.iter().any(|c| c.id == "once") {
        lines.push("Whether any request was executed twice: give --origin URL.".to_owned());
    }
    if certificate.setting.seconds < 3600.0 {
        lines.push("An hour: give -d 10m.".to_owned());
    }
    lines
}
