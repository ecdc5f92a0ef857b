//! Earlier runs, read from files: ours with their series, and k6 summaries, which are totals only.
//!
//! A series is cut into a few parts, and the parts are the samples: neighbours in a series are alike, so neither its
//! points nor its requests may be counted as if each were news. Bytes from outside never panic; what a file lacks is
//! left out.

mod k6;
mod series;

use std::path::Path;

use super::answer::{Rule, judge_unpaired};
use super::comparison::{Comparison, Question};
use super::metrics::{Errors, Measured};
use crate::exit::Failure;
use crate::result::{RUN_BYTES_MAX, Run, SCHEMA};

/// Most runs that are compared at once.
pub const RUNS_MAX: usize = 100;

/// An earlier run.
pub struct Import {
    pub label: String,
    pub totals: Measured,
    /// Samples by the order of the metrics; empty where there is no series.
    pub parts: Vec<Vec<f64>>,
    /// What does not let it be trusted.
    pub warnings: Vec<String>,
    /// What must be the same for two runs to be comparable, where it is known.
    machine: Option<String>,
}

/// Reads a `run.json`, a folder that holds one, or a k6 summary.
///
/// # Errors
///
/// The file cannot be read, is too large, or is none of these.
pub fn read(path: &Path) -> Result<Import, Failure> {
    let file = if path.is_dir() {
        path.join("run.json")
    } else {
        path.to_owned()
    };
    let fail = |why: String| {
        Failure::new(
            format!("{}: {why}", file.display()),
            "give a run.json, a folder with one, or a k6 summary",
        )
    };
    let size = std::fs::metadata(&file)
        .map_err(|e| fail(e.to_string()))?
        .len();
    if size > RUN_BYTES_MAX {
        return Err(fail(format!("is larger than {RUN_BYTES_MAX} bytes")));
    }
    let bytes = std::fs::read(&file).map_err(|e| fail(e.to_string()))?;
    let json: serde_json::Value =
        serde_json::from_slice(&bytes).map_err(|e| fail(format!("is not JSON: {e}")))?;
    let label = path.display().to_string();
    if let Some(schema) = json.get("schema").and_then(|schema| schema.as_str()) {
        if schema != SCHEMA {
            return Err(fail(format!("is `{schema}`, not `{SCHEMA}`")));
        }
        let run: Run = serde_json::from_value(json).map_err(|e| fail(e.to_string()))?;
        return Ok(Import::of_run(label, &run));
    }
    let Some(totals) = k6::totals(&json) else {
        return Err(fail("is neither a run of ours nor a k6 summary".to_owned()));
    };
    Ok(Import {
        label: format!("{label} (k6)"),
        totals,
        parts: Vec::new(),
        warnings: Vec::new(),
        machine: None,
    })
}

impl Import {
    fn of_run(label: String, run: &Run) -> Import {
        let totals = Measured::of(run, &[]);
        let mut warnings = Vec::new();
        if let Some(unfit) = &totals.unfit {
            warnings.push(format!("{label} is not valid: {unfit}"));
        }
        if run.meta.partial {
            warnings.push(format!("{label} was stopped before its end"));
        }
        let machine = &run.meta.machine;
        Import {
            parts: series::parts(run),
            totals,
            warnings,
            machine: (!machine.cpu.is_empty()).then(|| {
                format!(
                    "{}, {} cores, {}",
                    machine.cpu, machine.cores_logical, machine.kernel
                )
            }),
            label,
        }
    }
}

/// Compares B with A: by parts where both have them, else by totals without an interval.
pub fn compare(a: &Import, b: &Import, question: &Question, rule: &Rule) -> Comparison {
    let both_have_parts = [a, b]
        .iter()
        .all(|import| import.parts.iter().any(|p| !p.is_empty()));
    let mut comparison = if both_have_parts {
        let errors: (Errors, Errors) = (a.totals.errors, b.totals.errors);
        let judged = judge_unpaired(&a.parts, &b.parts, errors, rule);
        Comparison::of_parts(question, &judged)
    } else {
        Comparison::of_points(question, &a.totals, &b.totals)
    };
    let warnings = a.warnings.iter().chain(&b.warnings);
    comparison.notes.extend(warnings.cloned());
    if let (Some(on_a), Some(on_b)) = (&a.machine, &b.machine)
        && on_a != on_b
    {
        let note = format!("A ran on {on_a}, B on {on_b}: a difference may be the machine's");
        comparison.notes.push(note);
    }
    comparison
}
