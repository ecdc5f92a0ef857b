//! What is to be written, file by file: all of it or nothing, and undone as one.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::Failure;
use super::clients::{Client, Format};
use super::file::{self, Held, Note, NoteSection, OWNER_ONLY};
use super::text;

/// One entry.
pub(super) struct PlannedEntry {
    pub name: String,
    pub value: Value,
    /// The same with a mark in the key's place.
    pub masked: Value,
    /// Where it leads.
    pub leads_to: String,
}

/// Entries below one name of a file; below none they stand at its top.
pub(super) struct PlannedSection {
    pub root: &'static str,
    pub entries: Vec<PlannedEntry>,
}

/// What is to be written to one file.
pub(super) struct FilePlan {
    pub path: PathBuf,
    pub format: Format,
    pub sections: Vec<PlannedSection>,
    /// What is to be known of the key.
    pub hint: String,
}

/// A file that was read, and what it will be.
pub(super) struct ReadyFile<'p> {
    pub plan: &'p FilePlan,
    found: Option<Held>,
    before: Option<String>,
    with: String,
    mode: u32,
    note: Note,
}

impl FilePlan {
    fn entries(&self) -> impl Iterator<Item = &PlannedEntry> {
        self.sections.iter().flat_map(|section| &section.entries)
    }

    /// The entries alone, as they would stand in a file of nothing else. The key is not shown.
    pub(super) fn shown(&self, masks: bool) -> String {
        let sections = self.sections.iter();
        sections.fold(String::new(), |text, section| {
            let entries = section.entries.iter();
            let entries: Vec<(String, Value)> = entries
                .map(|entry| match masks {
                    true => (entry.name.clone(), entry.masked.clone()),
                    false => (entry.name.clone(), entry.value.clone()),
                })
                .collect();
            let with = text::insert(self.format, section.root, &text, &entries);
            with.expect("entries go into an empty text")
        })
    }

    /// Reads the file, and makes what it will be. Nothing is changed.
    pub(super) fn ready(&self, client: &Client, has_key: bool) -> Result<ReadyFile<'_>, Failure> {
        let (found, old) = (file::read(&self.path)?, file::read_note(&self.path)?);
        let edited = |why: String| {
            let what = format!("{} {why}; nothing was changed", self.path.display());
            Failure::new(what, "Mend it, or name another file with --file.")
        };
        // What an earlier run wrote goes first, so that a second run is as the first.
        let before = before(
            client,
            self.format,
            &self.path,
            found.as_ref(),
            old.as_ref(),
        );
        let before = before.map_err(edited)?;
        let mut with = before.clone().unwrap_or_default();
        let mut sections = Vec::new();
        for section in &self.sections {
            let is_ours = !text::has_root(self.format, section.root, &with);
            let entries = section.entries.iter();
            let entries: Vec<(String, Value)> = entries
                .map(|entry| (entry.name.clone(), entry.value.clone()))
                .collect();
            with = text::insert(self.format, section.root, &with, &entries).map_err(edited)?;
            sections.push(NoteSection {
                root: section.root.to_owned(),
                entries: entries.into_iter().map(|(name, _)| name).collect(),
                is_ours,
            });
        }
        let mode = old.as_ref().map(|note| note.mode);
        let mode = mode.or(found.as_ref().map(|held| held.mode));
        let mode = mode.unwrap_or(OWNER_ONLY);
        let digest = before.as_deref().map(file::digest);
        Ok(ReadyFile {
            plan: self,
            note: note(client, digest, file::digest(&with), mode, sections),
            mode: if has_key { OWNER_ONLY } else { mode },
            found,
            before,
            with,
        })
    }
}

/// The note of what is written: the servers in the members that it always had, all else behind them.
fn note(
    client: &Client,
    before: Option<String>,
    after: String,
    mode: u32,
    mut sections: Vec<NoteSection>,
) -> Note {
    let servers = sections
        .iter()
        .position(|section| section.root == client.root);
    let servers = servers.map(|at| sections.remove(at));
    let (entries, root) = servers.map_or((Vec::new(), false), |of| (of.entries, of.is_ours));
    Note {
        before,
        after,
        mode,
        entries,
        root,
        more: sections,
    }
}

/// Writes all files, or none: where one cannot be written, those before it become what they were.
pub(super) fn write(files: &[ReadyFile<'_>], is_project: bool) -> Result<(), Failure> {
    for ready in files {
        super::make_folder(&ready.plan.path, is_project)?;
    }
    for (at, ready) in files.iter().enumerate() {
        if let Err(failure) = ready.write() {
            files[..at].iter().for_each(ReadyFile::take_back);
            return Err(failure);
        }
    }
    Ok(())
}

impl ReadyFile<'_> {
    fn write(&self) -> Result<(), Failure> {
        let (found, before) = (self.found.as_ref(), self.before.as_deref());
        file::write(
            &self.plan.path,
            found,
            before,
            &self.with,
            self.mode,
            &self.note,
        )
    }

    fn take_back(&self) {
        let held = Held {
            text: self.with.clone(),
            mode: self.mode,
        };
        // The failure that is told says that it was not all done.
        let before = self.before.as_deref();
        let _ = file::restore(&self.plan.path, Some(&held), before, self.note.mode);
    }

    pub(super) fn to_text(&self, is_shown_only: bool, has_key: bool) -> String {
        let (path, plan) = (self.plan.path.display(), self.plan);
        if is_shown_only {
            // What is shown may be kept by a terminal; the key is not.
            let shown = plan.shown(has_key);
            return format!("{path} would have:\n\n{shown}\nkey     {}\n", plan.hint);
        }
        let mut said = format!("wrote   {path}\n");
        for entry in plan.entries() {
            said.push_str(&format!("entry   {}  {}\n", entry.name, entry.leads_to));
        }
        if self.before.is_some() {
            let backup = file::backup(&plan.path);
            said.push_str(&format!("backup  {}\n", backup.display()));
        }
        said.push_str(&format!("key     {}\n", plan.hint));
        said
    }

    pub(super) fn to_json(&self) -> Value {
        let entries = self.plan.entries();
        let entries: Vec<Value> = entries
            .map(|entry| json!({ "name": entry.name, "url": entry.leads_to }))
            .collect();
        let backup = self.before.is_some();
        let backup = backup.then(|| file::backup(&self.plan.path).display().to_string());
        json!({
            "file": self.plan.path.display().to_string(),
            "entries": entries,
            "backup": backup,
            "hint": self.plan.hint,
        })
    }
}

/// What was taken out of one file.
pub(super) struct Undone {
    path: PathBuf,
    names: Vec<String>,
    /// It is what it was before, to the byte.
    is_whole: bool,
    is_gone: bool,
}

/// Takes out of a file what was written to it; nothing where nothing was.
pub(super) fn undo(
    client: &Client,
    format: Format,
    path: &Path,
    is_shown_only: bool,
) -> Result<Option<Undone>, Failure> {
    let Some(note) = file::read_note(path)? else {
        return Ok(None);
    };
    let found = file::read(path)?;
    let is_ours = found
        .as_ref()
        .is_some_and(|held| file::digest(&held.text) == note.after);
    let edited = |why: String| Failure::new(format!("{} {why}", path.display()), "");
    let text = before(client, format, path, found.as_ref(), Some(&note)).map_err(edited)?;
    let is_whole = is_ours && text.as_deref().map(file::digest) == note.before;
    let mode = match (is_whole, &found) {
        (false, Some(held)) => held.mode,
        _ => note.mode,
    };
    if !is_shown_only {
        file::restore(path, found.as_ref(), text.as_deref(), mode)?;
    }
    let more = note.more.into_iter().flat_map(|section| section.entries);
    Ok(Some(Undone {
        path: path.to_owned(),
        names: note.entries.into_iter().chain(more).collect(),
        is_whole,
        is_gone: text.is_none(),
    }))
}

impl Undone {
    pub(super) fn to_text(&self, is_shown_only: bool) -> String {
        let done = match (self.is_gone, self.is_whole) {
            (true, _) => "removed, since weir connect made it",
            (false, true) => "put back as it was, byte for byte",
            (false, false) => "left as it was changed since, but for the entries of weir",
        };
        let would = if is_shown_only { "would be " } else { "" };
        let names = self.names.join(", ");
        format!(
            "{}: {would}{done}; taken out: {names}\n",
            self.path.display()
        )
    }

    pub(super) fn to_json(&self) -> Value {
        json!({
            "file": self.path.display().to_string(), "removed": self.names, "restored": self.is_whole,
        })
    }
}

/// What the file held before weir wrote to it: the backup where nothing else changed it, else what it holds without our entries.
fn before(
    client: &Client,
    format: Format,
    path: &Path,
    found: Option<&Held>,
    note: Option<&Note>,
) -> Result<Option<String>, String> {
    let (Some(held), Some(note)) = (found, note) else {
        return Ok(found.map(|held| held.text.clone()));
    };
    if file::digest(&held.text) == note.after {
        match note.before {
            None => return Ok(None),
            Some(_) => {
                if let Some(text) = file::read_backup(path, note) {
                    return Ok(Some(text));
                }
            }
        }
    }
    let mut text = text::remove(format, client.root, &held.text, &note.entries, note.root)?;
    for section in &note.more {
        let (root, names) = (section.root.as_str(), &section.entries);
        text = text::remove(format, root, &text, names, section.is_ours)?;
    }
    Ok(Some(text))
}
