//! Tables of values, read whole and bounded before the run.

use std::path::Path as FilePath;
use std::sync::Arc;

use serde_json::Value;

use super::check::One;
use super::file;
use super::read;
use crate::template::{FEED_COLUMNS_MAX, FEED_ROWS_MAX, Feed, Order};

/// Most feeds of one scenario.
pub(super) const FEEDS_MAX: usize = 16;
/// Largest feed, in bytes.
pub(super) const FEED_BYTES_MAX: usize = 128 << 20;

/// A feed's columns and rows.
type Table = (Vec<String>, Vec<Vec<Arc<str>>>);

/// Reads a scenario's feeds. Where values would break JSON texts, a second feed named `NAME in JSON` follows,
/// with the values escaped; bodies of JSON take theirs from it.
pub(super) fn feeds(one: &mut One) -> Option<Vec<Feed>> {
    let scenario = one.scenario;
    let Some(named) = &scenario.feeds else {
        return Some(Vec::new());
    };
    if named.0.len() > FEEDS_MAX {
        one.say("feeds", format!("there are more than {FEEDS_MAX}"), "");
        return None;
    }
    let read = named.0.iter();
    let read: Vec<_> = read
        .map(|(name, written)| feed(one, name, written))
        .collect();
    let mut feeds = read.into_iter().collect::<Option<Vec<Feed>>>()?;
    let escaped: Vec<Feed> = feeds.iter().filter_map(escaped).collect();
    feeds.extend(escaped);
    Some(feeds)
}

fn feed(one: &mut One, name: &str, written: &file::Feed) -> Option<Feed> {
    let path = one.path.key("feeds").key(name);
    let fits = !name.is_empty() && name != "env";
    if !fits || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
        let message = "a feed's name has letters, digits and _, and is not env";
        one.check.say(&path, message, "");
        return None;
    }
    let Some(file) = &written.file else {
        one.check
            .say(&path, "needs `file`", "write { file: words.csv }");
        return None;
    };
    let at = path.key("file");
    let file = one.check.beside(&at, &file.0);
    match table(&file) {
        Ok((columns, rows)) => Some(Feed {
            name: name.to_owned(),
            columns,
            rows,
            order: match written.order {
                Some(file::Order::Random) => Order::Random,
                Some(file::Order::Sequential) | None => Order::Sequential,
            },
        }),
        Err(message) => {
            one.check.say(&at, message, "");
            None
        }
    }
}

fn table(file: &FilePath) -> Result<Table, String> {
    let text = read::text(file, FEED_BYTES_MAX)?;
    let extension = file.extension().and_then(|e| e.to_str());
    let found = match extension {
        Some("jsonl" | "ndjson") => json_lines(&text),
        _ => csv_rows(&text),
    };
    let name = file.display();
    let (columns, rows) = found.map_err(|why| format!("the file {name} {why}"))?;
    match () {
        () if rows.is_empty() => Err(format!("the file {name} has no rows")),
        () if rows.len() > FEED_ROWS_MAX => Err(format!(
            "the file {name} has more than {FEED_ROWS_MAX} rows"
        )),
        () if columns.len() > FEED_COLUMNS_MAX => Err(format!(
            "the file {name} has more than {FEED_COLUMNS_MAX} columns"
        )),
        () => Ok((columns, rows)),
    }
}

fn csv_rows(text: &str) -> Result<Table, String> {
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let wrong = |e: csv::Error| format!("is not CSV with a header row: {e}");
    let columns = reader.headers().map_err(wrong)?;
    let columns = columns.iter().map(|c| c.trim().to_owned()).collect();
    let mut rows = Vec::new();
    for record in reader.records().take(FEED_ROWS_MAX + 1) {
        rows.push(record.map_err(wrong)?.iter().map(Arc::from).collect());
    }
    Ok((columns, rows))
}

fn json_lines(text: &str) -> Result<Table, String> {
    let (mut columns, mut rows): (Vec<String>, Vec<_>) = (Vec::new(), Vec::new());
    let lines = text.lines().enumerate();
    let lines = lines.filter(|(_, line)| !line.trim().is_empty());
    for (at, line) in lines.take(FEED_ROWS_MAX + 1) {
        let line_number = at + 1;
        let row: serde_json::Map<String, Value> = serde_json::from_str(line)
            .map_err(|e| format!("has no JSON object in line {line_number}: {e}"))?;
        if columns.is_empty() {
            columns = row.keys().cloned().collect();
        }
        let value = |column: &String| match row.get(column) {
            Some(Value::String(text)) => Ok(Arc::from(text.as_str())),
            Some(other) if !other.is_null() => Ok(Arc::from(other.to_string())),
            _ => Err(format!("has no `{column}` in line {line_number}")),
        };
        rows.push(columns.iter().map(value).collect::<Result<Vec<_>, _>>()?);
    }
    Ok((columns, rows))
}

/// The name of the feed that holds another's values escaped for JSON.
fn escaped_name(name: &str) -> String {
    format!("{name} in JSON")
}

/// A feed with its values as they stand between the quotes of a JSON text; nothing if that changes none.
fn escaped(feed: &Feed) -> Option<Feed> {
    let plain = |value: &Arc<str>| !value.contains(|c: char| c < ' ' || matches!(c, '"' | '\\'));
    if feed.rows.iter().flatten().all(plain) {
        return None;
    }
    let row = |row: &Vec<Arc<str>>| row.iter().map(|value| Arc::from(in_json(value))).collect();
    Some(Feed {
        name: escaped_name(&feed.name),
        columns: feed.columns.clone(),
        rows: feed.rows.iter().map(row).collect(),
        order: feed.order,
    })
}

/// A text as it stands between the quotes of a JSON text.
pub(super) fn in_json(text: &str) -> String {
    let quoted = Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

/// The feeds by the names that a JSON body knows them by, without their rows.
pub(super) fn names_in_json(feeds: &[Feed]) -> Vec<Feed> {
    let name = |feed: &Feed| {
        let has_escaped = feeds
            .iter()
            .any(|other| other.name == escaped_name(&feed.name));
        match feed.name.strip_suffix(" in JSON") {
            Some(plain) => plain.to_owned(),
            None if has_escaped => String::new(),
            None => feed.name.clone(),
        }
    };
    let view = |feed: &Feed| Feed {
        name: name(feed),
        columns: feed.columns.clone(),
        rows: Vec::new(),
        order: feed.order,
    };
    feeds.iter().map(view).collect()
}
