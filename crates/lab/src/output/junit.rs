//! A run as JUnit XML, which CI systems show: whether the numbers mean anything, whether every answer was right, and each threshold.
//!
//! A case is a yes or a no that the run answered. Latencies and rates are properties of the suite, and no cases.

use std::fmt::Write as _;
use std::path::Path;

use super::artefact;
use crate::exit::Failure;
use crate::result::{Run, Verdict};
use crate::tally::Fault;

/// Writes the file: one suite for each run.
///
/// # Errors
///
/// It cannot be written.
pub fn write(cells: &[(String, Run)], path: &Path) -> Result<(), Failure> {
    let text = text(cells);
    artefact::replace(path, text.as_bytes(), |draft| {
        let back = std::fs::read(draft).map_err(|e| Failure::new(e.to_string(), ""))?;
        match back == text.as_bytes() {
            true => Ok(()),
            false => Err(Failure::new("it is not what was written", "")),
        }
    })
}

/// A yes or a no.
struct Case {
    class: &'static str,
    name: String,
    /// What is wrong, where it is.
    wrong: Option<String>,
}

/// The whole file.
pub fn text(cells: &[(String, Run)]) -> String {
    let (mut suites, mut all, mut failed) = (String::new(), 0, 0);
    for (label, run) in cells {
        let cases = cases(run);
        let wrong = cases.iter().filter(|case| case.wrong.is_some()).count();
        (all, failed) = (all + cases.len(), failed + wrong);
        let name = [run.meta.name.as_str(), label.as_str()]
            .into_iter()
            .filter(|text| !text.is_empty());
        let name = name.collect::<Vec<&str>>().join(" ");
        let _ = writeln!(
            suites,
            r#"  <testsuite name="{}" tests="{}" failures="{wrong}" errors="0" skipped="0" time="{:.3}" timestamp="{}">"#,
            escaped(&name),
            cases.len(),
            run.meta.seconds,
            escaped(run.meta.started.trim_end_matches('Z')),
        );
        properties(run, &mut suites);
        for case in cases {
            one(&case, &mut suites);
        }
        suites += "  </testsuite>\n";
    }
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"weir lab load\" tests=\"{all}\" failures=\"{failed}\" errors=\"0\">\n{suites}</testsuites>\n"
    )
}

fn cases(run: &Run) -> Vec<Case> {
    let verdict = run.validity.verdict;
    let broken = run
        .validity
        .criteria
        .iter()
        .filter(|criterion| !criterion.holds);
    let evidence: Vec<&str> = broken
        .map(|criterion| criterion.evidence.as_str())
        .collect();
    let invalid = (verdict != Verdict::Valid)
        .then(|| format!("{}: {}", verdict.as_str(), evidence.join("; ")));
    let wrong = run
        .total
        .errors
        .get(Fault::Integrity.as_str())
        .copied()
        .unwrap_or(0);
    let twice = run.origin.as_ref().map_or(0, |origin| origin.duplicates);
    let integrity = (wrong + twice > 0).then(|| {
        format!("{wrong} answers were not what was sent, {twice} requests were executed twice")
    });
    let mut cases = vec![
        Case {
            class: "validity",
            name: "the numbers can be used".to_owned(),
            wrong: invalid,
        },
        Case {
            class: "integrity",
            name: "every answer is right".to_owned(),
            wrong: integrity,
        },
    ];
    cases.extend(run.thresholds.iter().map(|threshold| {
        let found = threshold
            .found
            .map_or("nothing was found".to_owned(), |found| {
                format!("found {found}")
            });
        Case {
            class: "threshold",
            name: format!("{} {}", threshold.metric, threshold.expression),
            wrong: (!threshold.ok).then(|| format!("{found} ({})", threshold.window)),
        }
    }));
    cases
}

fn properties(run: &Run, out: &mut String) {
    let measured = &run.measured;
    let mut all = vec![
        ("requests".to_owned(), measured.requests.to_string()),
        ("requests_per_second".to_owned(), measured.rate.to_string()),
        ("failed".to_owned(), measured.failed.to_string()),
    ];
    if let Some(response) = measured.latency.get("response") {
        for (name, us) in [
            ("p50", response.p50),
            ("p95", response.p95),
            ("p99", response.p99),
        ] {
            all.push((format!("response_{name}_ms"), (us / 1e3).to_string()));
        }
    }
    *out += "    <properties>\n";
    for (name, value) in all {
        let _ = writeln!(out, r#"      <property name="{name}" value="{value}"/>"#);
    }
    *out += "    </properties>\n";
}

fn one(case: &Case, out: &mut String) {
    let _ = write!(
        out,
        r#"    <testcase classname="{}" name="{}" time="0""#,
        case.class,
        escaped(&case.name)
    );
    match &case.wrong {
        Some(wrong) => {
            let _ = writeln!(
                out,
                ">\n      <failure type=\"{}\" message=\"{}\"/>\n    </testcase>",
                case.class,
                escaped(wrong)
            );
        }
        None => *out += "/>\n",
    }
}

/// A text as the value of an attribute. What XML 1.0 cannot hold is left out.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            '\t' | '\n' | '\r' => out.push(' '),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => {}
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::ThresholdResult;

    #[test]
    fn a_breach_is_a_failure_and_names_cannot_break_out() {
        let mut run = Run::default();
        run.meta.name = "a\"><b&\u{1}".to_owned();
        let threshold = |ok| ThresholdResult {
            metric: "http_req_duration".to_owned(),
            expression: "p(95)<250".to_owned(),
            found: Some(300.0),
            ok,
            ..ThresholdResult::default()
        };
        run.thresholds = vec![threshold(true), threshold(false)];
        let text = text(&[(String::new(), run)]);
        assert!(
            text.contains(r#"<testsuite name="a&quot;&gt;&lt;b&amp;" tests="4" failures="1""#),
            "{text}"
        );
        assert!(
            text.contains(r#"name="http_req_duration p(95)&lt;250" time="0"/>"#),
            "{text}"
        );
        assert!(
            text.contains(r#"<failure type="threshold" message="found 300 ()"/>"#),
            "{text}"
        );
    }
}
