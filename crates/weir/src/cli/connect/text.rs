//! The text of a client's configuration, with entries put in and taken out; every other byte stays as it is.
//!
//! JSON is edited by [`config::edit`]. In TOML each entry is a table of its own at the end of the text, or a key at its beginning. What was written is read
//! again each time, and has to say what it said before, and what was to be added.

use ::config::edit;
use serde_json::Value;

use super::clients::{Client, Format};

/// The text with the entries in it, below a name or at its top. The error reads behind the name of a file.
pub(super) fn insert(
    format: Format,
    root: &str,
    text: &str,
    entries: &[(String, Value)],
) -> Result<String, String> {
    match format {
        Format::Json => {
            let with = edit::insert(text, root, entries);
            with.map_err(|error| error.to_string())
        }
        Format::Toml if root.is_empty() => insert_toml_keys(text, entries),
        Format::Toml => insert_toml(text, root, entries),
        Format::Variables => insert_variables(text, entries),
    }
}

/// The text without those entries. `and_root`: what holds them goes too, if nothing is left in it.
pub(super) fn remove(
    format: Format,
    root: &str,
    text: &str,
    names: &[String],
    and_root: bool,
) -> Result<String, String> {
    match format {
        Format::Json => {
            let without = edit::remove(text, root, names, and_root);
            without.map_err(|error| error.to_string())
        }
        Format::Toml if root.is_empty() => remove_toml_keys(text, names),
        Format::Toml => remove_toml(text, root, names),
        Format::Variables => Ok(remove_variables(text, names)),
    }
}

/// Whether the text has what holds the entries.
pub(super) fn has_root(format: Format, root: &str, text: &str) -> bool {
    match format {
        Format::Variables => true,
        _ if root.is_empty() => true,
        format => whole(format, text).is_ok_and(|whole| whole.get(root).is_some()),
    }
}

/// What holds the servers of a program, if the text has it.
pub(in crate::cli) fn servers(client: &Client, text: &str) -> Result<Option<Value>, String> {
    Ok(whole(client.format, text)?
        .get_mut(client.root)
        .map(Value::take))
}

fn whole(format: Format, text: &str) -> Result<Value, String> {
    match format {
        Format::Json => {
            let strict = edit::strict(text).map_err(|error| error.to_string())?;
            serde_json::from_str(&strict).map_err(|error| format!("cannot be read: {error}"))
        }
        Format::Toml => {
            let table = toml(text)?;
            serde_json::to_value(table).map_err(|error| format!("cannot be read: {error}"))
        }
        Format::Variables => Ok(Value::Null),
    }
}

fn toml(text: &str) -> Result<toml::Table, String> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    text.parse().map_err(|error: toml::de::Error| {
        let at = error.span().map_or(0, |span| span.start);
        let line = text.as_bytes()[..at.min(text.len())].iter();
        let line = line.filter(|byte| **byte == b'\n').count() + 1;
        format!("is not TOML: line {line}: {}", error.message())
    })
}

/// What holds the entries of a TOML text; empty where it is not there.
fn toml_root<'t>(table: &'t toml::Table, root: &str) -> Result<Option<&'t toml::Table>, String> {
    match table.get(root) {
        None => Ok(None),
        Some(toml::Value::Table(servers)) => Ok(Some(servers)),
        Some(_) => Err(format!("has a {root:?} that is no table")),
    }
}

fn insert_toml(text: &str, root: &str, entries: &[(String, Value)]) -> Result<String, String> {
    let before = toml(text)?;
    let mut wanted = before.clone();
    let servers = toml_root(&before, root)?;
    let there = entries
        .iter()
        .find(|(name, _)| servers.is_some_and(|servers| servers.contains_key(name)));
    if let Some((name, _)) = there {
        return Err(format!("has an entry {name:?} already"));
    }
    let line_break = if text.contains("\r\n") { "\r\n" } else { "\n" };
    let mut with = text.to_owned();
    let root_table = wanted
        .entry(root)
        .or_insert_with(|| toml::Value::Table(toml::Table::new()));
    for (name, entry) in entries {
        if !with.is_empty() && !with.ends_with('\n') {
            with.push_str(line_break);
        }
        if !with.trim_start_matches('\u{feff}').is_empty() {
            with.push_str(line_break);
        }
        // A name may hold dots, which would be tables in tables.
        let quoted = Value::from(name.as_str());
        let key = if name.contains('.') {
            quoted.to_string()
        } else {
            name.clone()
        };
        with.push_str(&format!("[{root}.{key}]{line_break}"));
        let mut table = toml::Table::new();
        for (key, value) in entry.as_object().into_iter().flatten() {
            // A JSON string is a TOML basic string; entries hold no control characters.
            with.push_str(&format!("{key} = {value}{line_break}"));
            table.insert(key.clone(), toml_text(value));
        }
        if let Some(servers) = root_table.as_table_mut() {
            servers.insert(name.clone(), toml::Value::Table(table));
        }
    }
    match toml(&with) {
        Ok(read) if read == wanted => Ok(with),
        _ => Err(format!(
            "writes {root} in one line; write each server as a table [{root}.NAME]"
        )),
    }
}

fn toml_text(value: &Value) -> toml::Value {
    match value {
        Value::Bool(is) => toml::Value::Boolean(*is),
        value => toml::Value::String(value.as_str().unwrap_or_default().to_owned()),
    }
}

/// Keys of the top stand before all tables: at the beginning of the text.
fn insert_toml_keys(text: &str, entries: &[(String, Value)]) -> Result<String, String> {
    let mut wanted = toml(text)?;
    let line_break = if text.contains("\r\n") { "\r\n" } else { "\n" };
    let (mark, rest) = match text.strip_prefix('\u{feff}') {
        Some(rest) => ("\u{feff}", rest),
        None => ("", text),
    };
    let mut with = mark.to_owned();
    for (name, value) in entries {
        if wanted.insert(name.clone(), toml_text(value)).is_some() {
            return Err(format!("has an entry {name:?} already"));
        }
        with.push_str(&format!("{name} = {value}{line_break}"));
    }
    with.push_str(rest);
    match toml(&with) {
        Ok(read) if read == wanted => Ok(with),
        _ => Err("cannot take a key at its beginning".to_owned()),
    }
}

fn remove_toml_keys(text: &str, names: &[String]) -> Result<String, String> {
    let mut wanted = toml(text)?;
    wanted.retain(|name, _| !names.iter().any(|gone| gone == name));
    let is_ours = |line: &str| {
        let key = line.split_once('=').map(|(key, _)| key.trim());
        key.is_some_and(|key| {
            names
                .iter()
                .any(|name| name == key.trim_start_matches('\u{feff}'))
        })
    };
    let (mut without, mut is_top) = (String::new(), true);
    for line in text.split_inclusive('\n') {
        is_top &= !line.trim_start().starts_with('[');
        if !(is_top && is_ours(line)) {
            without.push_str(line);
        } else if line.starts_with('\u{feff}') {
            without.push('\u{feff}');
        }
    }
    match toml(&without) {
        Ok(read) if read == wanted => Ok(without),
        _ => Err(format!(
            "was laid out anew, so {} has to be taken out by hand",
            names.join(", ")
        )),
    }
}

/// Variables, each on a line of its own at the end of the text.
fn insert_variables(text: &str, entries: &[(String, Value)]) -> Result<String, String> {
    let mut with = text.to_owned();
    for (name, value) in entries {
        if with.lines().any(|line| variable_of(line) == Some(name)) {
            return Err(format!("has an entry {name:?} already"));
        }
        if !with.is_empty() && !with.ends_with('\n') {
            with.push('\n');
        }
        with.push_str(&format!("{name}={}\n", value.as_str().unwrap_or_default()));
    }
    Ok(with)
}

fn remove_variables(text: &str, names: &[String]) -> String {
    let is_ours = |line: &&str| {
        let variable = variable_of(line);
        variable.is_some_and(|variable| names.iter().any(|name| name == variable))
    };
    text.split_inclusive('\n')
        .filter(|line| !is_ours(line))
        .collect()
}

/// The variable that a line sets.
fn variable_of(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let line = line.strip_prefix("export ").unwrap_or(line);
    line.split_once('=').map(|(name, _)| name.trim())
}

fn remove_toml(text: &str, root: &str, names: &[String]) -> Result<String, String> {
    let before = toml(text)?;
    let mut wanted = before.clone();
    if toml_root(&before, root)?.is_none() {
        return Ok(text.to_owned());
    }
    if let Some(servers) = wanted.get_mut(root).and_then(toml::Value::as_table_mut) {
        servers.retain(|name, _| !names.iter().any(|gone| gone == name));
    }
    let (mut without, mut blank, mut skips) = (String::new(), String::new(), false);
    for line in text.split_inclusive('\n') {
        let trimmed = line.trim();
        if trimmed.starts_with('[') {
            skips = names.iter().any(|name| is_of(trimmed, root, name));
            if skips {
                without.push_str(without_last_empty_line(&blank));
                blank.clear();
            }
        }
        // What stands behind the table's last key, such as a comment, is the next table's.
        if skips && !trimmed.is_empty() && !trimmed.starts_with('#') {
            blank.clear();
            continue;
        }
        blank.push_str(line);
        if !skips && !trimmed.is_empty() {
            without.push_str(&std::mem::take(&mut blank));
        }
    }
    without.push_str(&blank);
    let left = toml(&without).ok().filter(|left| {
        let is_same = |left: &toml::Table| *left == wanted;
        let has_none = wanted.get(root).and_then(toml::Value::as_table);
        let mut bare = wanted.clone();
        bare.remove(root);
        is_same(left) || (has_none.is_some_and(toml::Table::is_empty) && *left == bare)
    });
    match left {
        Some(_) => Ok(without),
        None => Err(format!(
            "was laid out anew, so the entries {} have to be taken out by hand",
            names.join(", ")
        )),
    }
}

/// The lines without the empty one at their end, which came with the table behind them.
fn without_last_empty_line(lines: &str) -> &str {
    let rest = lines.strip_suffix('\n').unwrap_or(lines);
    let rest = rest.strip_suffix('\r').unwrap_or(rest);
    match rest.is_empty() || rest.ends_with('\n') {
        true => rest,
        false => lines,
    }
}

/// Whether a line is the head of that table, or of one within it.
fn is_of(line: &str, root: &str, name: &str) -> bool {
    let head = line.trim_start_matches('[');
    let plain: String = head
        .chars()
        .filter(|c| !c.is_whitespace() && !"\"'".contains(*c))
        .collect();
    let rest = plain
        .strip_prefix(root)
        .and_then(|rest| rest.strip_prefix('.'));
    let rest = rest.and_then(|rest| rest.strip_prefix(name));
    rest.is_some_and(|rest| rest.starts_with([']', '.']))
}
