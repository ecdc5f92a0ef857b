//! Task lists in Markdown, and `.project_status.md`.
//!
//! `- [ ] title` is a task that is planned, `- [x] title` one that is completed, and what is indented below one stands below
//! it. A heading is an item of type project that what follows stands below. `(P1)` in a title is its priority, `@name` at its
//! end who has it. Any other text is kept in the description of what it stands below, so that nothing is lost. In a file
//! that begins with `# Project Status`, plain entries are tasks too.

use serde_json::{Map, Value, json};
use tools::serve::call::Problem;

use super::Record;
use crate::model::{ObjectKind, bounds};
use crate::ops::new_id;

/// Characters of indentation that make a level, at least.
const INDENT_MIN: usize = 2;

/// An item that more may stand below.
struct OpenItem {
    indent: usize,
    index: usize,
}

/// Reads a file.
pub(super) fn read(text: &str) -> Result<Vec<Record>, Problem> {
    let is_status = text
        .trim_start()
        .to_ascii_lowercase()
        .starts_with("# project status");
    let mut items: Vec<Map<String, Value>> = Vec::new();
    let mut heading: Option<usize> = None;
    let mut open: Vec<OpenItem> = Vec::new();
    for line in text.lines() {
        let indent = line.len() - line.trim_start().len();
        let entry = line.trim();
        if let Some(title) = headed(entry) {
            open.clear();
            heading = Some(items.len());
            items.push(item(title, "project", false, None));
            continue;
        }
        let Some((title, done)) = task(entry, is_status) else {
            note(
                &mut items,
                open.last().map(|of| of.index).or(heading),
                entry,
            );
            continue;
        };
        while open
            .last()
            .is_some_and(|above| indent < above.indent + INDENT_MIN)
        {
            open.pop();
        }
        let depth = open.len() + usize::from(heading.is_some());
        if depth >= usize::try_from(bounds::DEPTH_MAX).unwrap_or_default() {
            open.truncate(open.len().saturating_sub(1));
        }
        let above = open.last().map(|above| above.index).or(heading);
        let parent = above.and_then(|index| items[index]["id"].as_str().map(str::to_owned));
        let kind = if open.is_empty() { "task" } else { "subtask" };
        open.push(OpenItem {
            indent,
            index: items.len(),
        });
        items.push(item(title, kind, done, parent));
    }
    let records = items.into_iter().map(|doc| Record {
        kind: ObjectKind::Item,
        doc,
    });
    Ok(records.collect())
}

fn headed(entry: &str) -> Option<&str> {
    let rest = entry.trim_start_matches('#');
    let level = entry.len() - rest.len();
    ((1..=6).contains(&level) && rest.starts_with(' ')).then(|| rest.trim())
}

/// The title of an entry, and whether it is done.
fn task(entry: &str, plain: bool) -> Option<(&str, bool)> {
    let rest = entry
        .strip_prefix("- ")
        .or(entry.strip_prefix("* "))
        .or(entry.strip_prefix("+ "))?;
    let rest = rest.trim_start();
    for (mark, done) in [("[ ]", false), ("[x]", true), ("[X]", true)] {
        if let Some(title) = rest.strip_prefix(mark) {
            return Some((title.trim(), done)).filter(|(title, _)| !title.is_empty());
        }
    }
    (plain && !rest.is_empty()).then_some((rest, false))
}

/// Keeps what is no entry.
fn note(items: &mut [Map<String, Value>], index: Option<usize>, text: &str) {
    if let Some(doc) = index.and_then(|index| items.get_mut(index))
        && !text.is_empty()
    {
        let before = doc["description"].as_str().unwrap_or_default();
        let joined = format!("{before}\n{text}");
        doc.insert("description".to_owned(), joined.trim().into());
    }
}

fn item(text: &str, kind: &str, done: bool, parent: Option<String>) -> Map<String, Value> {
    let text = unescaped(text);
    let (text, assignee) = match text.rsplit_once(" @") {
        Some((rest, who)) if !who.is_empty() && !who.contains(' ') => {
            (rest.to_owned(), Some(who.to_owned()))
        }
        _ => (text, None),
    };
    let (text, priority) = urgency(&text);
    let (title, more) = match text.char_indices().nth(bounds::TITLE_CHARS_MAX) {
        Some((at, _)) => (text[..at].to_owned(), text.clone()),
        None => (text.clone(), String::new()),
    };
    let status = if done { "completed" } else { "planned" };
    let doc = json!({
        "id": new_id(), "number": 0, "type": kind, "title": title, "description": more, "status": status, "priority": priority,
        "parent": parent, "assignee": assignee,
    });
    match doc {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

/// The title without what our board writes around it, and the priority that this says.
fn urgency(text: &str) -> (String, u8) {
    let rest = match text.strip_prefix('#').and_then(|rest| rest.split_once(' ')) {
        Some((number, rest)) if number.parse::<u32>().is_ok() => rest,
        _ => text,
    };
    if let Some((before, after)) = rest.rsplit_once(" (P")
        && let Some(priority) = after.chars().next().and_then(|digit| digit.to_digit(10))
        && let Some((_, behind)) = after.split_once(')')
    {
        let priority = u8::try_from(priority).unwrap_or(3).clamp(1, 5);
        return (format!("{before}{behind}").trim().to_owned(), priority);
    }
    (rest.trim().to_owned(), 3)
}

/// Escapes of Markdown undone (CommonMark 0.31.2, 2.4).
fn unescaped(text: &str) -> String {
    let mut all = String::new();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match (c, chars.peek()) {
            ('\\', Some(next)) if next.is_ascii_punctuation() => {}
            (c, _) => {
                all.push(c);
                continue;
            }
        }
        all.extend(chars.next());
    }
    all.replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&amp;", "&")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str) -> Vec<String> {
        let records = read(text).unwrap();
        let title = |id: &Value| {
            let found = records.iter().find(|record| record.doc["id"] == *id);
            found
                .map(|record| record.doc["title"].as_str().unwrap().to_owned())
                .unwrap_or_default()
        };
        let line = |record: &Record| {
            let doc = &record.doc;
            format!(
                "{}>{} {} P{} @{}",
                title(&doc["parent"]),
                doc["title"].as_str().unwrap(),
                doc["status"].as_str().unwrap(),
                doc["priority"],
                doc["assignee"].as_str().unwrap_or("-")
            )
        };
        records.iter().map(line).collect()
    }

    #[test]
    fn lists_become_items_and_nothing_is_lost() {
        let text = "# Release\n\nSome words.\n- [x] one (P1)\n  - [ ] two @bob\n    more about two\n- [ ] \\#7 \\[three\\] &lt;b&gt;\n";
        assert_eq!(
            told(text),
            [
                "> Release planned P3 @-".replace("> ", ">"),
                "Release>one completed P1 @-".into(),
                "one>two planned P3 @bob".into(),
                "Release>[three] <b> planned P3 @-".into(),
            ]
        );
        let records = read(text).unwrap();
        assert_eq!(records[0].doc["description"], "Some words.");
        assert_eq!(records[2].doc["description"], "more about two");
        let status = "# Project Status\n## Vendors\n- Acme: operational\n## Future Enhancements\n- [ ] search (P2)\n";
        assert_eq!(told(status).len(), 5);
        assert!(told(status).contains(&"Vendors>Acme: operational planned P3 @-".to_owned()));
    }
}
