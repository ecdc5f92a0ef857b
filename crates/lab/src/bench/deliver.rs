//! Where an experiment's facts and its sheet go: to standard output, to a folder, to a page.
//!
//! A folder gets `facts.json`, `report.html`, `report.md`, a CSV file for each table and an SVG file for each picture,
//! each whole or not at all. What was measured is printed before anything is written, so that a full disk costs a file
//! and not the answer.

use std::path::Path;

use super::asked::AskedServer;
use crate::exit::Failure;
use crate::facts::{FACTS_FILE, Facts};
use crate::output::{self, artefact};
use crate::report::sheet::{self, Sheet};

/// The names of the sheet's files.
pub const PAGE_FILE: &str = "report.html";
pub const MARKDOWN_FILE: &str = "report.md";

/// Finds out before anything is measured whether it can be written.
///
/// # Errors
///
/// A folder or a file cannot be written.
pub fn check(asked: &AskedServer) -> Result<(), Failure> {
    if let Some(file) = asked.flag("html") {
        artefact::check(Path::new(file))?;
    }
    if let Some(file) = asked.flag("csv") {
        artefact::check(Path::new(file))?;
    }
    match asked.out() {
        Some(folder) => open_folder(&folder, FACTS_FILE),
        None => Ok(()),
    }
}

/// Makes a folder, and finds out whether a file can be written in it.
///
/// # Errors
///
/// It cannot.
pub fn open_folder(folder: &Path, file: &str) -> Result<(), Failure> {
    std::fs::create_dir_all(folder).map_err(|error| {
        Failure::new(
            format!("{}: {error}", folder.display()),
            "name a folder that can be made and written",
        )
    })?;
    artefact::check(&folder.join(file))
}

/// Prints and writes everything that was asked for.
///
/// # Errors
///
/// Something could not be written; everything else was.
pub fn deliver(asked: &AskedServer, facts: &Facts, sheet: &Sheet) -> Result<(), Failure> {
    let json = facts.json()?;
    let shown = if asked.json { json } else { sheet::text(sheet) };
    let mut failures: Vec<Failure> = output::say(&mut std::io::stdout(), &shown)
        .err()
        .into_iter()
        .collect();
    if let Some(file) = asked.flag("html") {
        failures.extend(write(Path::new(file), &sheet::page(sheet)).err());
    }
    if let Some(file) = asked.flag("csv") {
        let tables: Vec<String> = sheet.grids().map(sheet::Grid::csv).collect();
        failures.extend(write(Path::new(file), &tables.join("\r\n")).err());
    }
    if let Some(folder) = asked.out() {
        failures.extend(facts.write(&folder.join(FACTS_FILE)).err());
        failures.extend(files(&folder, sheet));
    }
    match failures.is_empty() {
        true => Ok(()),
        false => {
            let texts: Vec<String> = failures.iter().map(Failure::to_string).collect();
            Err(Failure::new(texts.join("\n"), ""))
        }
    }
}

/// Writes a sheet's files into a folder; what could not be written.
pub fn files(folder: &Path, sheet: &Sheet) -> Vec<Failure> {
    let mut wrote = vec![
        write(&folder.join(PAGE_FILE), &sheet::page(sheet)),
        write(&folder.join(MARKDOWN_FILE), &sheet::markdown(sheet)),
    ];
    for grid in sheet.grids() {
        wrote.push(write(
            &folder.join(format!("{}.csv", grid.name)),
            &grid.csv(),
        ));
    }
    for (name, figure) in sheet.figures() {
        let file = folder.join(format!("{name}.svg"));
        wrote.push(write(&file, &sheet::standing_alone(&figure.svg)));
    }
    wrote.into_iter().filter_map(Result::err).collect()
}

/// Writes a text, whole or not at all.
///
/// # Errors
///
/// It cannot be written, or does not read back.
pub fn write(file: &Path, text: &str) -> Result<(), Failure> {
    artefact::replace(file, text.as_bytes(), |draft| {
        let back = std::fs::read(draft).map_err(|e| Failure::new(e.to_string(), ""))?;
        match back == text.as_bytes() {
            true => Ok(()),
            false => Err(Failure::new("it is not what was written", "")),
        }
    })
}
