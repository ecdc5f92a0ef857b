//! Where a run's result goes: what is printed, and which files are written.
//!
//! It is printed first, so that a full disk costs a file and not the result. Every file is tried, and every failure
//! told.

use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use super::hlog::HistogramLog;
use super::{All, Look, artefact, csv, json, junit, k6, markdown, may_colour, screen, summary};
use crate::exit::Failure;
use crate::plan::Plan;
use crate::result::Run;

/// The names in a run's folder.
pub const RUN_FILE: &str = "run.json";
pub const HISTOGRAM_FILE: &str = "intervals.hlog";
pub const MATRIX_FILE: &str = "matrix.json";
pub const K6_FILE: &str = "k6-summary.json";
pub const K6_DATA_FILE: &str = "k6-data.json";
pub const JUNIT_FILE: &str = "junit.xml";
pub const MARKDOWN_FILE: &str = "report.md";
/// Most characters of a cell's label in a file's name.
const LABEL_MAX: usize = 60;

/// What is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// One JSON object on standard output instead of text.
    pub json: bool,
    /// Nobody looks on while it runs; the result is printed all the same.
    pub quiet: bool,
    /// Lines instead of the live view, on a terminal too.
    pub no_live: bool,
    /// A folder for `run.json`, `intervals.hlog`, k6's summary, JUnit XML and Markdown; made when it is missing. Cells of a matrix have a folder each
    /// in it, beside `matrix.json`.
    pub out: Option<PathBuf>,
    /// The histograms of each interval, beside or instead of those in `out`.
    pub hlog: Option<PathBuf>,
    /// k6's `--summary-export`.
    pub summary_export: Option<PathBuf>,
    /// Stages here, the time series beside it.
    pub csv: Option<PathBuf>,
    /// JUnit XML.
    pub junit: Option<PathBuf>,
    /// Markdown.
    pub markdown: Option<PathBuf>,
}

impl Wanted {
    /// Makes the folder and finds out whether every file can be written, before load is sent.
    ///
    /// # Errors
    ///
    /// All that cannot be.
    pub fn check(&self) -> Result<(), Vec<Failure>> {
        let mut checks = Vec::new();
        if let Some(out) = &self.out {
            checks.push(make(out).and_then(|()| artefact::check(&out.join(RUN_FILE))));
        }
        let files = [
            &self.hlog,
            &self.summary_export,
            &self.csv,
            &self.junit,
            &self.markdown,
        ];
        checks.extend(
            files
                .into_iter()
                .flatten()
                .map(|file| artefact::check(file)),
        );
        if let Some(file) = &self.csv {
            checks.push(artefact::check(&csv::series_path(file)));
        }
        failures(checks)
    }

    /// Where the interval histograms of a run go: of a cell of a matrix, when it has a number and a label.
    fn histogram_paths(&self, cell: Option<(usize, &str)>) -> Vec<PathBuf> {
        let in_folder = |out: &PathBuf| match cell {
            Some((number, label)) => folder_of(out, number, label).join(HISTOGRAM_FILE),
            None => out.join(HISTOGRAM_FILE),
        };
        let beside = |file: &PathBuf| match cell {
            Some((number, label)) => file_of(file, number, label),
            None => file.clone(),
        };
        let out = self.out.iter().map(in_folder);
        out.chain(self.hlog.iter().map(beside)).collect()
    }

    /// Who looks on while a run goes on: the screen, and the logs of interval histograms. The cell is its number,
    /// from 1, and its label; none without a matrix. [`super::Observer::finish`] ends the logs; without it they are
    /// thrown away.
    ///
    /// # Errors
    ///
    /// A log cannot be begun.
    pub fn observer(&self, plan: &Plan, cell: Option<(usize, &str)>) -> Result<All, Failure> {
        let look = match (self.quiet, self.no_live) {
            (true, _) => Look::Away,
            (false, true) => Look::Lines,
            (false, false) => Look::Best,
        };
        let mut all = All(vec![screen(plan, look)]);
        for path in self.histogram_paths(cell) {
            if let Some(folder) = path.parent().filter(|_| self.out.is_some()) {
                make(folder)?;
            }
            all.0.push(Box::new(HistogramLog::begin(&path)?));
        }
        Ok(all)
    }

    /// Prints one run's result and writes its files.
    ///
    /// # Errors
    ///
    /// All that could not be written. A reader of standard output that went away is none.
    pub fn deliver(&self, run: &Run, out: &mut dyn Write) -> Result<(), Vec<Failure>> {
        let mut done =
            vec![self.print(out, || json::run(run), |colour| summary::text(run, colour))];
        if let Some(folder) = &self.out {
            done.push(json::write_run(run, &folder.join(RUN_FILE)));
            done.push(k6::write(run, &folder.join(K6_FILE)));
            done.push(k6::write_data(run, &folder.join(K6_DATA_FILE)));
        }
        if let Some(file) = &self.summary_export {
            done.push(k6::write(run, file));
        }
        self.shared(&[(String::new(), run.clone())], &mut done);
        failures(done)
    }

    /// Prints the results of a matrix and writes their files. Cells are numbered from 1.
    ///
    /// # Errors
    ///
    /// As [`Wanted::deliver`].
    pub fn deliver_matrix(
        &self,
        cells: &[(String, Run)],
        out: &mut dyn Write,
    ) -> Result<(), Vec<Failure>> {
        let text = |_| summary::matrix(cells);
        let mut done = vec![self.print(out, || json::matrix(cells), text)];
        if let Some(folder) = &self.out {
            done.push(json::write_matrix(cells, &folder.join(MATRIX_FILE)));
        }
        for (index, (label, run)) in cells.iter().enumerate() {
            if let Some(folder) = &self.out {
                let folder = folder_of(folder, index + 1, label);
                let written = |()| json::write_run(run, &folder.join(RUN_FILE));
                done.push(make(&folder).and_then(written));
                done.push(k6::write(run, &folder.join(K6_FILE)));
                done.push(k6::write_data(run, &folder.join(K6_DATA_FILE)));
            }
            if let Some(file) = &self.summary_export {
                done.push(k6::write(run, &file_of(file, index + 1, label)));
            }
        }
        self.shared(cells, &mut done);
        failures(done)
    }

    /// Writes the files that hold all runs.
    fn shared(&self, cells: &[(String, Run)], done: &mut Vec<Result<(), Failure>>) {
        if let Some(file) = &self.csv {
            done.push(csv::write(cells, file));
        }
        let beside = |name: &'static str| self.out.iter().map(move |out| out.join(name));
        let junit = self.junit.iter().cloned().chain(beside(JUNIT_FILE));
        done.extend(junit.map(|file| junit::write(cells, &file)));
        let markdown = self.markdown.iter().cloned().chain(beside(MARKDOWN_FILE));
        done.extend(markdown.map(|file| markdown::write(cells, &file)));
    }

    fn print(
        &self,
        out: &mut dyn Write,
        json: impl FnOnce() -> Result<String, Failure>,
        text: impl FnOnce(bool) -> String,
    ) -> Result<(), Failure> {
        let text = if self.json {
            json()?
        } else {
            text(may_colour() && is_terminal())
        };
        say(out, &text)
    }
}

fn make(folder: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(folder).map_err(|e| {
        Failure::new(
            format!("{}: {e}", folder.display()),
            "name a folder that can be made and written",
        )
    })
}

fn is_terminal() -> bool {
    io::IsTerminal::is_terminal(&io::stdout())
}

/// Writes text to standard output. A reader that has enough, such as `head`, may go away.
///
/// # Errors
///
/// It cannot be written for any other reason.
pub fn say(out: &mut dyn Write, text: &str) -> Result<(), Failure> {
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::new(format!("standard output: {e}"), ""))
        }
        _ => Ok(()),
    }
}

/// The folder of a cell: `02-connections=50`.
pub fn folder_of(out: &Path, number: usize, label: &str) -> PathBuf {
    out.join(named(number, label))
}

/// A file of a cell, beside where the file of a single run would be: `k6-02-connections=50.json`.
pub fn file_of(file: &Path, number: usize, label: &str) -> PathBuf {
    let mut name = file.file_stem().unwrap_or_default().to_owned();
    name.push(format!("-{}", named(number, label)));
    if let Some(ending) = file.extension() {
        name.push(".");
        name.push(ending);
    }
    file.with_file_name(name)
}

/// A cell's label as a part of a file's name. The number tells apart those that look alike then.
fn named(number: usize, label: &str) -> String {
    let fit = |c: char| {
        if c.is_ascii_alphanumeric() || "-_=.".contains(c) {
            c
        } else {
            '-'
        }
    };
    let label: String = label.chars().map(fit).take(LABEL_MAX).collect();
    format!("{number:02}-{label}")
}

fn failures(done: Vec<Result<(), Failure>>) -> Result<(), Vec<Failure>> {
    let failures: Vec<Failure> = done.into_iter().filter_map(Result::err).collect();
    if failures.is_empty() {
        Ok(())
    } else {
        Err(failures)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_cannot_leave_its_folder() {
        let out = Path::new("out");
        assert_eq!(
            folder_of(out, 2, "connections=50,url=http://a/../b"),
            Path::new("out/02-connections=50-url=http---a-..-b")
        );
        assert_eq!(
            file_of(Path::new("x/k6.json"), 12, "../c"),
            Path::new("x/k6-12-..-c.json")
        );
    }

    #[test]
    fn a_reader_that_goes_away_is_no_failure_and_a_full_disk_is() {
        let (reader, mut writer) = io::pipe().unwrap();
        drop(reader);
        assert_eq!(say(&mut writer, "text"), Ok(()));
        let mut full = std::fs::File::options()
            .write(true)
            .open("/dev/full")
            .unwrap();
        let said = say(&mut full, "text").unwrap_err().to_string();
        assert!(said.starts_with("standard output: No space left"), "{said}");
    }
}
