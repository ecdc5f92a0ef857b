//! Markdown for people: the board of a project, and its status. What others wrote is escaped: it is data, and can make no
//! heading, link, tag or terminal sequence.

use std::fmt::Write;

use tools::serve::call::Problem;

use super::ItemLine;
use super::status::StatusAnswer;
use crate::model::{Project, Status};
use crate::store::Tx;

/// Items of each column, at most.
const COLUMN_MAX: usize = 50;

/// The board of a project: a column for each status that is not over, and what was done last.
pub fn board(tx: &Tx<'_>, project: &Project) -> Result<String, Problem> {
    let mut text = format!("# {}\n", escaped(&project.name));
    let columns = [
        ("Active", Status::Active),
        ("Blocked", Status::Blocked),
        ("Planned", Status::Planned),
        ("Completed", Status::Completed),
    ];
    for (title, status) in columns {
        let items = tx.by_urgency(&project.stamp.id, status, COLUMN_MAX + 1)?;
        let more = items.len() > COLUMN_MAX;
        let lines: Vec<ItemLine> = items.iter().take(COLUMN_MAX).map(ItemLine::from).collect();
        section(&mut text, title, &lines);
        if more {
            text.push_str("- and more\n");
        }
    }
    Ok(text)
}

/// The status of a project.
pub fn status(of: &StatusAnswer) -> String {
    let mut text = format!("# Project Status: {}\n\n", escaped(&of.project.name));
    let _ = writeln!(
        text,
        "{} items, {} open; as of {}",
        of.items.total, of.items.open, of.as_of
    );
    if let Some(trouble) = &of.trouble {
        let _ = writeln!(text, "\n**{}**", escaped(trouble));
    }
    if let Some(vendors) = &of.vendors {
        let _ = writeln!(
            text,
            "\n## Vendors\n\n{} of {} operational ({} %)",
            vendors.operational, vendors.total, vendors.operational_percent
        );
    }
    section(&mut text, "Active", &of.active);
    section(&mut text, "Ready", &of.ready);
    section(&mut text, "Blocked", &of.blocked);
    text.push_str("\n## Deployments\n\n");
    for line in &of.deployments {
        let _ = writeln!(
            text,
            "- {} {} {} ({}, {} items)",
            line.deployed_at,
            line.environment.as_str(),
            &line.commit_sha[..line.commit_sha.len().min(12)],
            line.status.as_str(),
            line.work_items
        );
    }
    if of.deployments.is_empty() {
        text.push_str("none\n");
    }
    text
}

fn section(text: &mut String, title: &str, lines: &[ItemLine]) {
    let _ = write!(text, "\n## {title}\n\n");
    for line in lines {
        let _ = writeln!(text, "{}", self::line(line));
    }
    if lines.is_empty() {
        text.push_str("none\n");
    }
}

/// An item as an entry of a task list.
pub fn line(of: &ItemLine) -> String {
    let mark = if of.status == Status::Completed {
        'x'
    } else {
        ' '
    };
    let who = of
        .assignee
        .as_deref()
        .map(|who| format!(" @{}", escaped(who)))
        .unwrap_or_default();
    let why = of
        .blocked_reason
        .as_deref()
        .map(|why| format!(": {}", escaped(why)))
        .unwrap_or_default();
    format!(
        "- [{mark}] \\#{} {} (P{}, {}){who}{why}",
        of.number,
        escaped(&of.title),
        of.priority,
        of.item_type.as_str()
    )
}

/// A text of others inside a line of Markdown (CommonMark 0.31.2, 2.4 and 6.6).
pub fn escaped(text: &str) -> String {
    let mut all = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' | '`' | '*' | '_' | '{' | '}' | '[' | ']' | '(' | ')' | '#' | '+' | '!' | '|'
            | '~' | '$' => {
                all.push('\\');
                all.push(c);
            }
            '<' => all.push_str("&lt;"),
            '>' => all.push_str("&gt;"),
            '&' => all.push_str("&amp;"),
            c if hides(c) => all.push(' '),
            c => all.push(c),
        }
    }
    all
}

/// Characters that move a terminal's cursor, or that change the order of what is read.
fn hides(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::escaped;

    #[test]
    fn what_others_wrote_stays_one_line_of_text() {
        let text = escaped("a\n# b <script>[x](javascript:y) \u{1b}[2J `c` \u{202e}d");
        assert!(!text.contains(['\n', '\u{1b}', '<', '\u{202e}']), "{text}");
        assert_eq!(
            text,
            "a \\# b &lt;script&gt;\\[x\\]\\(javascript:y\\)  \\[2J \\`c\\`  d"
        );
    }
}
