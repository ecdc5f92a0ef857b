//! Import and export: what goes in or out as a whole.
//!
//! Whatever a file is, it becomes records first (`read`), and records are imported in one transaction: a record that does not
//! fit, a reference to what is not there, or a file that was cut leaves nothing behind. An export of ours that is imported
//! again keeps ids, versions and authors; what is there already, to the byte, is left out.

mod markdown;
mod tracker;
mod workflow;
mod write;

use std::collections::{BTreeMap, HashMap, HashSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tools::serve::call::Problem;

use crate::model::entity::{check, compile};
use crate::model::{
    Deployment, Document, Entity, EntityType, ObjectKind, Project, Stamp, WorkItem, bounds, problem,
};
use crate::ops::{self, projects};
use crate::store::Tx;

pub use write::{export_jsonl, export_markdown, export_workflow};

/// Largest import, in bytes of its records.
pub const IMPORT_BYTES_MAX: usize = 12 << 20;
/// Most records of one import.
pub const RECORDS_MAX: usize = 50_000;

/// One object of an import.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Record {
    /// What it is.
    pub kind: ObjectKind,
    /// Its document. What it does not say of its stamp is filled in.
    pub doc: Map<String, Value>,
}

/// What is imported.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ImportCall {
    /// The project that records go to which bring none of their own; made where there is none of the name.
    pub project: Option<String>,
    /// The records.
    pub records: Vec<Record>,
}

/// What was imported.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ImportAnswer {
    /// How many objects were written, by kind.
    pub written: BTreeMap<String, u64>,
    /// How many were there already.
    pub known: u64,
}

/// What kind of file it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileFormat {
    /// Lines of JSON: of our own export, or of the peer's tables.
    Jsonl,
    /// Task lists in Markdown, or a `.project_status.md`.
    Markdown,
    /// A SQLite database of simple-task-tracker.
    Tracker,
}

/// The records of a file.
///
/// # Errors
///
/// What is wrong with it, and where.
pub fn read(format: FileFormat, path: &std::path::Path) -> Result<Vec<Record>, Problem> {
    let bytes = std::fs::metadata(path)
        .map_err(|error| Problem::argument(format!("{}: {error}", path.display())))?
        .len();
    if bytes > IMPORT_BYTES_MAX as u64 * 4 {
        return Err(Problem::argument(format!(
            "{} has {bytes} bytes; import it in parts",
            path.display()
        )));
    }
    let text = || {
        std::fs::read_to_string(path)
            .map_err(|error| Problem::argument(format!("{}: {error}", path.display())))
    };
    let records = match format {
        FileFormat::Jsonl | FileFormat::Markdown => read_text(format, &text()?)?,
        FileFormat::Tracker => tracker::read(path)?,
    };
    let size: usize = records
        .iter()
        .map(|record| json!(record.doc).to_string().len())
        .sum();
    if records.is_empty() || records.len() > RECORDS_MAX || size > IMPORT_BYTES_MAX {
        return Err(Problem::argument(format!(
            "{} has {} records of {size} bytes; an import has 1 to {RECORDS_MAX}, of at most {IMPORT_BYTES_MAX} bytes",
            path.display(),
            records.len()
        )));
    }
    Ok(records)
}

/// The records of a text.
///
/// # Errors
///
/// What is wrong with it, and where; and a format that is no text.
pub fn read_text(format: FileFormat, text: &str) -> Result<Vec<Record>, Problem> {
    match format {
        FileFormat::Jsonl => lines(text),
        FileFormat::Markdown => markdown::read(text),
        FileFormat::Tracker => Err(Problem::argument("a database is no text")),
    }
}

/// Lines of JSON. Our own begin with a line that says so and end with one that counts them, so that a cut file is known.
fn lines(text: &str) -> Result<Vec<Record>, Problem> {
    let mut all = Vec::new();
    let mut rows = Vec::new();
    let mut counted = None;
    let mut is_ours = false;
    for (number, line) in text
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty())
    {
        let wrong = |what: String| Problem::argument(format!("line {}: {what}", number + 1));
        let value: Map<String, Value> =
            serde_json::from_str(line).map_err(|error| wrong(error.to_string()))?;
        if value.contains_key("weir_flow") {
            is_ours = true;
        } else if let Some(end) = value.get("end") {
            counted = end.as_u64();
        } else if value.contains_key("table") {
            rows.push(value);
        } else {
            let record = serde_json::from_value(Value::Object(value))
                .map_err(|error| wrong(error.to_string()))?;
            all.push(record);
        }
    }
    if is_ours && counted != Some(all.len() as u64) {
        return Err(Problem::argument(
            "the file was cut: its last line does not count its records",
        ));
    }
    match (all.is_empty(), rows.is_empty()) {
        (_, true) => Ok(all),
        (true, false) => workflow::read(rows),
        (false, false) => Err(Problem::argument("the file has lines of two kinds")),
    }
}

/// Imports records, all or none.
///
/// # Errors
///
/// The record that does not fit, and why.
pub fn import(tx: &Tx<'_>, call: &ImportCall) -> Result<ImportAnswer, Problem> {
    let mut answer = ImportAnswer::default();
    let brings_own = call
        .records
        .iter()
        .any(|record| record.kind == ObjectKind::Project);
    let target = match (&call.project, brings_own) {
        (_, true) => None,
        (Some(name), false) => Some(match ops::find_project(tx, name) {
            Ok(project) => project,
            Err(problem) if problem.code == "not_found" => projects::create(tx, name, "")?,
            Err(problem) => return Err(problem),
        }),
        (None, false) => Some(ops::project(tx, None, None)?),
    };
    if let Some(project) = &target {
        ops::writable(project)?;
    }
    for (index, record) in ordered(&call.records)? {
        let known = one(tx, target.as_ref(), record).map_err(|problem| Problem {
            message: format!(
                "record {} ({}): {}",
                index + 1,
                record.kind.as_str(),
                problem.message
            ),
            ..problem
        })?;
        match known {
            true => answer.known += 1,
            false => {
                *answer
                    .written
                    .entry(record.kind.as_str().to_owned())
                    .or_default() += 1
            }
        }
    }
    for (index, record) in call
        .records
        .iter()
        .enumerate()
        .filter(|(_, record)| record.kind == ObjectKind::Item)
    {
        refers(tx, record).map_err(|problem| Problem {
            message: format!("record {} (item): {}", index + 1, problem.message),
            ..problem
        })?;
    }
    Ok(answer)
}

/// The records in the order in which they can be written: what others stand in first, an item behind the one above it.
fn ordered(records: &[Record]) -> Result<Vec<(usize, &Record)>, Problem> {
    let mut all = Vec::new();
    for kind in ObjectKind::ALL {
        let of_kind = records
            .iter()
            .enumerate()
            .filter(|(_, record)| record.kind == kind);
        if kind != ObjectKind::Item {
            all.extend(of_kind);
            continue;
        }
        let mut left: Vec<(usize, &Record)> = of_kind.collect();
        let mut open: HashSet<&str> = left
            .iter()
            .filter_map(|(_, record)| word(&record.doc, "id"))
            .collect();
        while !left.is_empty() {
            let (ready, rest): (Vec<_>, Vec<_>) = left.into_iter().partition(|(_, record)| {
                word(&record.doc, "parent").is_none_or(|parent| !open.contains(parent))
            });
            if ready.is_empty() {
                return Err(problem(
                    "cycle",
                    "items of the file stand below each other in a circle",
                ));
            }
            for (_, record) in &ready {
                word(&record.doc, "id").map(|id| open.remove(id));
            }
            all.extend(ready);
            left = rest;
        }
    }
    Ok(all)
}

fn word<'m>(map: &'m Map<String, Value>, name: &str) -> Option<&'m str> {
    map.get(name).and_then(Value::as_str)
}

/// Writes one record; whether it was there already.
fn one(tx: &Tx<'_>, target: Option<&Project>, record: &Record) -> Result<bool, Problem> {
    let mut doc = record.doc.clone();
    let blank = json!(Stamp::default());
    for (name, value) in blank.as_object().into_iter().flatten() {
        doc.entry(name.clone()).or_insert_with(|| value.clone());
    }
    if let Some(project) = target {
        doc.insert("project".to_owned(), project.stamp.id.clone().into());
    }
    if word(&doc, "id").is_none_or(str::is_empty) {
        doc.insert("id".to_owned(), ops::new_id().into());
    }
    match record.kind {
        ObjectKind::Project => {
            written::<Project>(tx, doc, |_, of| bounds::title("name", &of.name).map(drop))
        }
        ObjectKind::Item => written::<WorkItem>(tx, doc, item),
        ObjectKind::EntityType => {
            written::<EntityType>(tx, doc, |_, of| compile(&of.schema).map(drop))
        }
        ObjectKind::Entity => written::<Entity>(tx, doc, entity),
        ObjectKind::Deployment => written::<Deployment>(tx, doc, |_, of| {
            bounds::commit("commit_sha", &of.commit_sha)?;
            bounds::json("metadata", &Value::Object(of.metadata.clone()))
        }),
        // Who holds what is of the moment.
        ObjectKind::Lease => Ok(true),
    }
}

fn written<T: Document>(
    tx: &Tx<'_>,
    doc: Map<String, Value>,
    fits: impl Fn(&Tx<'_>, &mut T) -> Result<(), Problem>,
) -> Result<bool, Problem> {
    let mut object: T = serde_json::from_value(Value::Object(doc))
        .map_err(|error| Problem::argument(error.to_string()))?;
    fits(tx, &mut object)?;
    let stamp = object.stamp();
    bounds::title("id", &stamp.id)?;
    if stamp.version < 0 {
        return Err(Problem::argument("`version`: may not be negative"));
    }
    if tx.version_of(&stamp.id)? > 0 {
        let same = tx
            .find::<T>(&stamp.id)?
            .is_some_and(|there| json!(there) == json!(object));
        return match same {
            true => Ok(true),
            false => Err(problem(
                "exists",
                format!("`id`: {} is there already, and is another", stamp.id),
            )),
        };
    }
    if T::KIND != ObjectKind::Project && tx.find::<Project>(&stamp.project)?.is_none() {
        return Err(problem(
            "not_found",
            format!("`project`: there is no project {}", stamp.project),
        ));
    }
    if stamp.version == 0 {
        tx.put(&mut object)?;
    } else {
        tx.put_document(T::KIND, &json!(object).to_string())?;
    }
    Ok(false)
}

fn item(tx: &Tx<'_>, of: &mut WorkItem) -> Result<(), Problem> {
    of.title = bounds::title("title", &of.title)?;
    bounds::within(
        "description",
        &of.description,
        bounds::DESCRIPTION_CHARS_MAX,
    )?;
    bounds::json("metadata", &Value::Object(of.metadata.clone()))?;
    bounds::words("tags", &of.tags)?;
    of.set_priority(of.priority.into())?;
    if of.number < 0 {
        return Err(Problem::argument("`number`: may not be negative"));
    }
    if of.number == 0 {
        of.number = tx.next_number(&of.stamp.project)?;
    }
    match tx.id_of_number(&of.stamp.project, of.number)? {
        Some(id) if id != of.stamp.id => Err(problem(
            "exists",
            format!("`number`: {} is another item's", of.number),
        )),
        _ => Ok(()),
    }
}

fn entity(tx: &Tx<'_>, of: &mut Entity) -> Result<(), Problem> {
    of.name = bounds::title("name", &of.name)?;
    bounds::json("data", &Value::Object(of.data.clone()))?;
    bounds::words("tags", &of.tags)?;
    let project = tx.find::<Project>(&of.stamp.project)?;
    let project =
        project.ok_or_else(|| problem("not_found", "`project`: there is no such project"))?;
    let its = ops::types::find(tx, &project, &of.entity_type)?;
    check(&its, &of.data)
}

/// Refuses an item that depends on what is not there, or that stands below another project's.
fn refers(tx: &Tx<'_>, record: &Record) -> Result<(), Problem> {
    let Some(id) = word(&record.doc, "id") else {
        return Ok(());
    };
    let Some(of) = tx.find::<WorkItem>(id)? else {
        return Ok(());
    };
    let on = of.depends_on.iter().map(|edge| &edge.id).chain(&of.parent);
    for other in on {
        let there = tx.find::<WorkItem>(other)?;
        if there.is_none_or(|there| there.stamp.project != of.stamp.project) {
            return Err(problem(
                "not_found",
                format!("it names item {other}, which its project does not have"),
            ));
        }
    }
    Ok(())
}

/// New ids for those of another program.
#[derive(Default)]
struct NewIds(HashMap<String, String>);

impl NewIds {
    /// The id that stands for another program's.
    fn of(&mut self, old: &str) -> String {
        self.0
            .entry(old.to_owned())
            .or_insert_with(ops::new_id)
            .clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_export_that_was_cut_is_known() {
        let whole =
            "{\"weir_flow\":1}\n{\"kind\":\"project\",\"doc\":{\"name\":\"a\"}}\n{\"end\":1}\n";
        assert_eq!(lines(whole).unwrap().len(), 1);
        for cut in 1..whole.len() - 1 {
            let part = &whole[..cut];
            let read = lines(part);
            assert!(read.is_err() || read.unwrap().is_empty(), "{part}");
        }
        assert!(lines("not json").unwrap_err().message.contains("line 1"));
        assert!(lines("{\"kind\":\"epic\",\"doc\":{}}").is_err());
    }
}
