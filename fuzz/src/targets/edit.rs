//! The editor of other programs' configurations: what is added is added, what is taken out is gone, all else stays.

use config::edit;
use serde_json::{Value, json};

/// A JSON text, with comments or without: one member is put in and taken out again.
pub fn config_edit(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let member = [("weir".to_owned(), json!({ "url": "u", "args": ["a", "b"] }))];
    let names = ["weir".to_owned()];
    let Ok(with) = edit::insert(text, "s", &member) else {
        return;
    };
    let mut rest = with.chars();
    let is_kept = text.trim().is_empty() || text.chars().all(|wanted| rest.any(|c| c == wanted));
    assert!(is_kept, "something of the text is gone");
    assert_eq!(
        edit::insert(&with, "s", &member),
        Err(edit::EditError::Exists("weir".to_owned())),
        "an entry was replaced"
    );
    let without = edit::remove(&with, "s", &names, false).expect("what was written can be read");
    let Some(mut wanted) = read(text) else { return };
    let mut got = read(&without).expect("what is left is JSON");
    let added = read(&with).expect("what was written is JSON");
    assert_eq!(
        added["s"]["weir"], member[0].1,
        "the member is not as it was given"
    );
    // The object that was made for the member stays, and is empty.
    let made = wanted.as_object_mut().expect("it was taken as an object");
    made.entry("s").or_insert_with(|| json!({}));
    assert_eq!(got, wanted, "something else was changed");
    got["s"]["weir"] = member[0].1.clone();
    assert_eq!(got, added, "something else was added");
}

/// The text as serde_json has it; nothing where that has a bound of its own.
fn read(text: &str) -> Option<Value> {
    let strict = edit::strict(text).ok();
    match strict {
        Some(strict) => serde_json::from_str(&strict).ok(),
        None => Some(json!({})),
    }
}
