//! What work tracking reads of others: filters, schemas, merge patches, and files that are imported.

use flow::exchange::{FileFormat, read_text};
use flow::model::contains::contains;
use flow::model::filter::{FactTest, FactValue, Filter, STEPS_MAX, facts};
use flow::model::{entity, evolve, patch};
use serde_json::Value;

/// Two documents on two lines: a filter and what it is asked of; a schema and its next; a patch and its target.
pub fn flow_documents(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let mut lines = text
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let (Some(first), Some(second)) = (lines.next(), lines.next()) else {
        return;
    };
    let itself = contains(&second, &second, &mut { STEPS_MAX });
    assert_ne!(itself, Some(false), "a document contains itself");
    if let Ok(filter) = Filter::read(&first)
        && filter.holds(&second, &mut { STEPS_MAX }) == Some(true)
    {
        let (known, whole) = facts(&second);
        for test in filter.tests().into_iter().filter(|_| whole) {
            let passes = known
                .iter()
                .any(|(place, value)| passes(&test, place, value));
            assert!(passes, "the index leaves out what fits");
        }
    }
    if let (Some(old), Some(new)) = (first.as_object(), second.as_object()) {
        assert!(
            evolve::narrowing(old, old).is_empty(),
            "a schema is not narrower than itself"
        );
        let is_wider = evolve::narrowing(old, new).is_empty();
        if let (true, Ok(old), Ok(new)) = (is_wider, entity::compile(old), entity::compile(new)) {
            let none = serde_json::Map::new();
            let broken =
                entity::wrong(&old, &none).is_none() && entity::wrong(&new, &none).is_some();
            assert!(!broken, "a wider schema takes less");
        }
        let mut merged = old.clone();
        patch::merge(&mut merged, new);
        let mut again = merged.clone();
        patch::merge(&mut again, new);
        assert_eq!(merged, again, "a patch that is applied twice");
    }
}

fn passes(test: &FactTest, place: &str, value: &FactValue) -> bool {
    match (test, value) {
        (FactTest::AnyOf(at, values), value) => at == place && values.contains(value),
        (FactTest::Above(at, FactValue::Number(than)), FactValue::Number(own)) => {
            at == place && own > than
        }
        // A text is indexed by its beginning.
        (FactTest::Above(at, FactValue::Text(than)), FactValue::Text(own)) => {
            at == place && own >= than
        }
        (FactTest::Above(..), _) => false,
    }
}

/// A file that is imported, as lines of JSON and as Markdown.
pub fn flow_import(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    for format in [FileFormat::Jsonl, FileFormat::Markdown] {
        if let Ok(records) = read_text(format, &text) {
            assert!(
                records.len() <= text.lines().count(),
                "more records than lines"
            );
        }
    }
}
