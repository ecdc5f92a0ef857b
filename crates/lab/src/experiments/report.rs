//! `weir lab report`: what was found before, shown again. Runs become one page of HTML; the facts of a sweep, a soak, a
//! certificate or a size become the same page, Markdown or text as when they were measured.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;

use crate::exit::{Ended, Exit, Failure};
use crate::facts::{FACTS_FILE, Facts};
use crate::report::sheet::{self, Sheet};
use crate::report::{RUNS_MAX, experiments, html, words};
use crate::result::Run;

/// Shows what runs found, as one HTML file
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  weir lab report run --output report.html\n  weir lab report sweep/facts.json --output sweep.md\n\nExit codes: 0 written, 2 it could not be done."
)]
pub struct Report {
    /// A run.json, a folder with one, or a folder of such folders; or the facts.json of one experiment
    #[arg(value_name = "RUN", required = true)]
    runs: Vec<PathBuf>,
    /// The file to write; `-` writes to standard output. Facts are also written as .md and .txt
    #[arg(short, long, value_name = "FILE.html")]
    output: PathBuf,
}

impl Report {
    pub fn run(self) -> Ended {
        if let [path] = self.runs.as_slice()
            && is_facts(path)
        {
            let page = self.of_facts(&Facts::read(path)?)?;
            self.write(&page)?;
            return Ok(Exit::Pass);
        }
        let files = files(&self.runs)?;
        let mut runs = Vec::new();
        for file in &files {
            runs.push(Run::read(file)?);
        }
        let names = names(&files, &runs);
        let named: Vec<(&str, &Run)> = names.iter().map(String::as_str).zip(&runs).collect();
        let page = html(&named);
        self.write(&page)?;
        if self.output == Path::new("-") {
            return Ok(Exit::Pass);
        }
        let shown = self.output.display();
        let size = words::bytes(page.len() as u64);
        println!("{shown}: {}, {size}", words::plural(runs.len(), "run"));
        Ok(Exit::Pass)
    }
}

impl Report {
    fn write(&self, page: &str) -> Result<(), Failure> {
        if self.output != Path::new("-") {
            return write(&self.output, page);
        }
        let mut out = std::io::stdout().lock();
        let written = out.write_all(page.as_bytes()).and_then(|()| out.flush());
        written.map_err(|e| Failure::new(format!("standard output: {e}"), ""))
    }

    /// The one experiment of a tree, in the form that the file's ending says.
    fn of_facts(&self, facts: &Facts) -> Result<String, Failure> {
        let sweeps = facts.sweeps.iter().map(experiments::sweep::sheet);
        let soaks = facts.soaks.iter().map(experiments::soak::sheet);
        let certificates = facts
            .certificates
            .iter()
            .map(experiments::certificate::sheet);
        let sizes = facts.sizes.iter().map(experiments::size::sheet);
        let sheets: Vec<Sheet> = sweeps
            .chain(soaks)
            .chain(certificates)
            .chain(sizes)
            .collect();
        let [one] = sheets.as_slice() else {
            let what = format!(
                "these facts hold {} experiments, and a report of facts shows one",
                sheets.len()
            );
            return Err(Failure::new(what, "name the facts.json of one experiment"));
        };
        let ending = self.output.extension().and_then(|ending| ending.to_str());
        Ok(match ending {
            Some("md") => sheet::markdown(one),
            Some("txt") => sheet::text(one),
            _ => sheet::page(one),
        })
    }
}

/// Whether a path means facts and not runs.
fn is_facts(path: &Path) -> bool {
    match path.is_dir() {
        true => path.join(FACTS_FILE).is_file() && !path.join("run.json").is_file(),
        false => path.file_name().is_some_and(|name| name == FACTS_FILE),
    }
}

/// The files that were meant: a folder without a run of its own stands for the runs in it.
fn files(given: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let mut files = Vec::new();
    for path in given {
        if !path.is_dir() {
            files.push(path.clone());
        } else if path.join("run.json").is_file() {
            files.push(path.join("run.json"));
        } else {
            files.extend(below(path)?);
        }
    }
    if files.len() > RUNS_MAX {
        return Err(Failure::new(
            format!("{} runs are more than a report shows", files.len()),
            format!("name at most {RUNS_MAX}"),
        ));
    }
    Ok(files)
}

/// The runs in a folder's folders, by name.
fn below(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let fail = |e: std::io::Error| Failure::new(format!("{}: {e}", folder.display()), "");
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(fail)? {
        let file = entry.map_err(fail)?.path().join("run.json");
        if file.is_file() {
            files.push(file);
        }
    }
    if files.is_empty() {
        return Err(Failure::new(
            format!("{}: holds no run.json", folder.display()),
            "name a run.json, a folder with one, or a folder of such folders",
        ));
    }
    files.sort();
    Ok(files)
}

/// What each run is called: its own name where no other has it, otherwise its folder's or its file's.
fn names(files: &[PathBuf], runs: &[Run]) -> Vec<String> {
    let own: Vec<&str> = runs.iter().map(|run| run.meta.name.as_str()).collect();
    let alone = |name: &str| !name.is_empty() && own.iter().filter(|n| **n == name).count() == 1;
    let pairs = files.iter().zip(&own);
    let names = pairs.map(|(file, name)| {
        if alone(name) {
            return (*name).to_owned();
        }
        let folder = file.parent().and_then(Path::file_name);
        let named = match file.file_name() {
            Some(base) if base != "run.json" => Some(base),
            base => folder.or(base),
        };
        named.map_or_else(|| "run".to_owned(), |n| n.to_string_lossy().into_owned())
    });
    names.collect()
}

/// Writes beside the file first, so that a full disk leaves what was there.
fn write(file: &Path, page: &str) -> Result<(), Failure> {
    let mut part = file.as_os_str().to_owned();
    part.push(".part");
    let part = PathBuf::from(part);
    let written = std::fs::write(&part, page).and_then(|()| std::fs::rename(&part, file));
    written.map_err(|e| {
        // It may be what failed, and the first failure is the one to tell.
        let _ = std::fs::remove_file(&part);
        Failure::new(
            format!("{}: {e}", file.display()),
            "the report was not written",
        )
    })
}
