//! A run as two tables: `FILE` has one row for each stage of each flow, and `FILE-series` one for each interval.
//!
//! The second name has `-series` before its ending: `out.csv` and `out-series.csv`. Both begin with the cell of the
//! matrix, empty without one. Latencies are in microseconds. What was not measured is empty, never zero.

use std::path::{Path, PathBuf};

use csv::{ReaderBuilder, WriterBuilder};

use super::artefact;
use crate::exit::Failure;
use crate::result::{FlowResult, Point, Quantiles, Run, StepResult};
use crate::tally::Fault;

/// The histograms that a stage's row has, each with [`QUANTILES`].
const METRICS: [&str; 5] = ["response", "service", "lag", "first_token", "token_gap"];
const QUANTILES: [&str; 9] = [
    "mean", "min", "p50", "p75", "p90", "p95", "p99", "p999", "max",
];
const STEP_HEAD: [&str; 21] = [
    "cell",
    "flow",
    "protocol",
    "model",
    "step",
    "kind",
    "from",
    "to",
    "begin_s",
    "seconds",
    "requests",
    "good",
    "failed",
    "dropped",
    "queued",
    "rate",
    "rate_planned",
    "bytes_out",
    "bytes_in",
    "generator_cpu_us",
    "watched_cpu_us",
];
const SERIES_HEAD: [&str; 14] = [
    "cell",
    "flow",
    "t_s",
    "seconds",
    "sent",
    "completed",
    "failed",
    "dropped",
    "in_flight",
    "waiting",
    "p50_us",
    "p90_us",
    "p99_us",
    "max_us",
];

/// Writes both files.
///
/// # Errors
///
/// One of them cannot be written; the other may have been.
pub fn write(cells: &[(String, Run)], path: &Path) -> Result<(), Failure> {
    put(path, &steps(cells))?;
    put(&series_path(path), &series(cells))
}

/// Where the time series goes.
pub fn series_path(path: &Path) -> PathBuf {
    let mut name = path.file_stem().unwrap_or_default().to_owned();
    name.push("-series");
    if let Some(ending) = path.extension() {
        name.push(".");
        name.push(ending);
    }
    path.with_file_name(name)
}

fn put(path: &Path, rows: &[Vec<String>]) -> Result<(), Failure> {
    let mut writer = WriterBuilder::new().from_writer(Vec::new());
    for row in rows {
        writer
            .write_record(row)
            .expect("all rows have one length, and a vector takes any bytes");
    }
    let bytes = writer.into_inner().expect("a vector takes any bytes");
    artefact::replace(path, &bytes, |draft| {
        let fail = |e: csv::Error| Failure::new(e.to_string(), "");
        let mut reader = ReaderBuilder::new()
            .has_headers(false)
            .from_path(draft)
            .map_err(fail)?;
        for (index, row) in rows.iter().enumerate() {
            let mut back = csv::StringRecord::new();
            if !reader.read_record(&mut back).map_err(fail)? || !back.iter().eq(row) {
                return Err(Failure::new(format!("row {} is another", index + 1), ""));
            }
        }
        Ok(())
    })
}

/// The table of stages, its head first.
fn steps(cells: &[(String, Run)]) -> Vec<Vec<String>> {
    let mut head: Vec<String> = STEP_HEAD.map(str::to_owned).to_vec();
    for metric in METRICS {
        head.extend(QUANTILES.map(|quantile| format!("{metric}_{quantile}_us")));
    }
    let classes = Fault::ALL.iter();
    head.extend(classes.map(|fault| format!("error_{}", fault.as_str())));
    let mut rows = vec![head];
    for (cell, run) in cells {
        for flow in &run.flows {
            rows.extend(flow.steps.iter().map(|step| step_row(cell, flow, step)));
        }
    }
    rows
}

fn step_row(cell: &str, flow: &FlowResult, step: &StepResult) -> Vec<String> {
    let summary = &step.summary;
    let texts = [
        cell,
        &flow.name,
        &flow.protocol,
        &flow.model,
        &step.name,
        &step.kind,
    ];
    let mut row = texts.map(str::to_owned).to_vec();
    row.extend([step.from, step.to, step.begin_s, summary.seconds].map(|n| n.to_string()));
    let counts = [
        summary.requests,
        summary.good,
        summary.failed,
        summary.dropped,
        summary.queued,
    ];
    row.extend(counts.map(|n| n.to_string()));
    row.extend([Some(summary.rate), summary.rate_planned].map(or_empty));
    row.extend([summary.bytes_out, summary.bytes_in].map(|n| n.to_string()));
    row.extend([summary.generator_cpu_us, summary.watched_cpu_us].map(or_empty));
    for metric in METRICS {
        row.extend(quantiles(summary.latency.get(metric)));
    }
    row.extend(Fault::ALL.iter().map(|fault| {
        let n = summary.errors.get(fault.as_str());
        n.copied().unwrap_or(0).to_string()
    }));
    row
}

/// In the order of [`QUANTILES`].
fn quantiles(found: Option<&Quantiles>) -> [String; QUANTILES.len()] {
    let Some(q) = found else {
        return Default::default();
    };
    let known = [q.mean, q.min, q.p50, q.p75, q.p90, q.p95, q.p99].map(Some);
    let [a, b, c, d, e, f, g] = known;
    [a, b, c, d, e, f, g, q.p999, Some(q.max)].map(or_empty)
}

/// The table of intervals, its head first.
fn series(cells: &[(String, Run)]) -> Vec<Vec<String>> {
    let mut rows = vec![SERIES_HEAD.map(str::to_owned).to_vec()];
    for (cell, run) in cells {
        for flow in &run.flows {
            let points = flow.series.iter();
            rows.extend(points.map(|point| point_row(cell, &flow.name, point)));
        }
    }
    rows
}

fn point_row(cell: &str, flow: &str, point: &Point) -> Vec<String> {
    let mut row = vec![cell.to_owned(), flow.to_owned()];
    row.extend([point.t_s, point.seconds].map(|n| n.to_string()));
    let counts = [
        point.sent,
        point.completed,
        point.failed,
        point.dropped,
        point.in_flight,
        point.waiting,
    ];
    row.extend(counts.map(|n| n.to_string()));
    row.extend([point.p50_us, point.p90_us, point.p99_us, point.max_us].map(or_empty));
    row
}

fn or_empty(value: Option<f64>) -> String {
    value.map_or_else(String::new, |n| n.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_as_long_as_its_head() {
        let flow = FlowResult {
            name: "a,\"b\"\nc".to_owned(),
            steps: vec![StepResult::default()],
            series: vec![Point::default()],
            ..FlowResult::default()
        };
        let run = Run {
            flows: vec![flow],
            ..Run::default()
        };
        for rows in [
            steps(&[(String::new(), run.clone())]),
            series(&[("x".to_owned(), run)]),
        ] {
            assert_eq!(rows.len(), 2);
            assert_eq!(rows[0].len(), rows[1].len());
        }
    }

    #[test]
    fn the_series_stands_beside() {
        let cases = [
            ("a/out.csv", "a/out-series.csv"),
            ("out", "out-series"),
            ("a.b.c", "a.b-series.c"),
        ];
        for (path, expected) in cases {
            assert_eq!(series_path(Path::new(path)), Path::new(expected));
        }
    }
}
