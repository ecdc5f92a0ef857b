//! `run.json`, and the one object that `--json` prints, which are the same bytes.
//!
//! The outer levels have a line for each field, so two files can be compared with `diff`; what is deeper, such as a
//! point of a series, is one line. A matrix is one object too: `{schema, requests, cells: [{label, run}]}`.

use std::io::{self, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::ser::Formatter;

use super::artefact;
use crate::exit::Failure;
use crate::result::Run;

/// The format's name and version of a matrix.
pub const MATRIX_SCHEMA: &str = "weir-lab-matrix/1";
/// The outer levels that have a line for each field.
const OPEN_LEVELS: usize = 4;

/// Many runs as one object.
#[derive(Serialize)]
struct Matrix<'a> {
    schema: &'static str,
    /// Completed in all cells together.
    requests: u64,
    cells: Vec<Cell<'a>>,
}

#[derive(Serialize)]
struct Cell<'a> {
    label: &'a str,
    run: &'a Run,
}

/// A run as JSON, ending in a line feed.
///
/// # Errors
///
/// It does not read back, since a number in it is not finite.
pub fn run(run: &Run) -> Result<String, Failure> {
    let text = laid_out(run);
    read_back::<Run>(&text)?;
    Ok(text)
}

/// The cells of a matrix as one JSON object, ending in a line feed.
///
/// # Errors
///
/// It does not read back.
pub fn matrix(cells: &[(String, Run)]) -> Result<String, Failure> {
    let text = laid_out(&Matrix {
        schema: MATRIX_SCHEMA,
        requests: cells.iter().map(|(_, run)| run.requests).sum(),
        cells: cells
            .iter()
            .map(|(label, run)| Cell { label, run })
            .collect(),
    });
    matrix_reads_back(&text, cells)?;
    Ok(text)
}

/// Writes a matrix, whole or not at all.
///
/// # Errors
///
/// It cannot be written, or does not read back.
pub fn write_matrix(cells: &[(String, Run)], path: &Path) -> Result<(), Failure> {
    artefact::replace(path, matrix(cells)?.as_bytes(), |draft| {
        let text = std::fs::read_to_string(draft);
        let text = text.map_err(|e| Failure::new(e.to_string(), ""))?;
        matrix_reads_back(&text, cells)
    })
}

fn matrix_reads_back(text: &str, cells: &[(String, Run)]) -> Result<(), Failure> {
    #[derive(Deserialize)]
    struct Back {
        cells: Vec<BackCell>,
    }
    #[derive(Deserialize)]
    struct BackCell {
        run: Run,
    }
    let back: Back = read_back(text)?;
    let requests = back.cells.iter().map(|cell| cell.run.requests);
    if requests.eq(cells.iter().map(|(_, run)| run.requests)) {
        Ok(())
    } else {
        Err(Failure::new("it reads as another matrix", ""))
    }
}

/// Writes a `run.json`, whole or not at all, and only if `Run::read` reads it.
///
/// # Errors
///
/// It cannot be written, or does not read back.
pub fn write_run(run: &Run, path: &Path) -> Result<(), Failure> {
    artefact::replace(path, self::run(run)?.as_bytes(), |draft| {
        let back = Run::read(draft)?;
        if back.requests == run.requests && back.flows.len() == run.flows.len() {
            Ok(())
        } else {
            Err(Failure::new("it reads as another run", ""))
        }
    })
}

fn read_back<T: for<'a> Deserialize<'a>>(text: &str) -> Result<T, Failure> {
    serde_json::from_str(text).map_err(|e| {
        Failure::new(
            format!("the run's JSON does not read back: {e}"),
            "this is a fault of weir lab",
        )
    })
}

pub(crate) fn laid_out(value: &impl Serialize) -> String {
    let mut bytes = Vec::new();
    let mut serializer = serde_json::Serializer::with_formatter(&mut bytes, Layout::default());
    let done = value.serialize(&mut serializer);
    done.expect("a run has text keys only, and a vector takes any bytes");
    bytes.push(b'\n');
    String::from_utf8(bytes).expect("JSON of texts is text")
}

/// Open on the outer levels, one line further in.
#[derive(Default)]
struct Layout {
    level: usize,
    empty: bool,
}

impl Layout {
    fn begin<W: ?Sized + Write>(&mut self, out: &mut W, bracket: &[u8]) -> io::Result<()> {
        self.level += 1;
        self.empty = true;
        out.write_all(bracket)
    }

    fn end<W: ?Sized + Write>(&mut self, out: &mut W, bracket: &[u8]) -> io::Result<()> {
        self.level -= 1;
        if self.level < OPEN_LEVELS && !self.empty {
            line(out, self.level)?;
        }
        self.empty = false;
        out.write_all(bracket)
    }

    fn next<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        self.empty = false;
        match (self.level <= OPEN_LEVELS, first) {
            (true, true) => line(out, self.level),
            (true, false) => out.write_all(b",").and_then(|()| line(out, self.level)),
            (false, true) => Ok(()),
            (false, false) => out.write_all(b", "),
        }
    }
}

fn line<W: ?Sized + Write>(out: &mut W, level: usize) -> io::Result<()> {
    write!(out, "\n{:1$}", "", level * 2)
}

impl Formatter for Layout {
    fn begin_array<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.begin(out, b"[")
    }

    fn end_array<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.end(out, b"]")
    }

    fn begin_array_value<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        self.next(out, first)
    }

    fn begin_object<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.begin(out, b"{")
    }

    fn end_object<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.end(out, b"}")
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        self.next(out, first)
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        out.write_all(b": ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outer_levels_have_lines_and_inner_ones_do_not() {
        let value = serde_json::json!({"a": {"b": {"c": {"d": {"e": [1, {}]}, "f": []}}}, "g": {}});
        let text = laid_out(&value);
        let lines = [
            "{",
            "  \"a\": {",
            "    \"b\": {",
            "      \"c\": {",
            "        \"d\": {\"e\": [1, {}]},",
            "        \"f\": []",
            "      }",
            "    }",
            "  },",
            "  \"g\": {}",
            "}",
            "",
        ];
        assert_eq!(text, lines.join("\n"));
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&text).unwrap(),
            value
        );
    }

    #[test]
    fn a_number_that_json_cannot_hold_is_refused_before_it_is_written() {
        let mut bad = Run::default();
        bad.measured.rate = f64::NAN;
        let said = run(&bad).unwrap_err().to_string();
        assert!(said.contains("does not read back"), "{said}");
        let folder = tempfile::tempdir().unwrap();
        assert!(write_run(&bad, &folder.path().join("run.json")).is_err());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
