//! What is too large, too deep or of the wrong kind.

use serde_json::{Value, json};

use super::{ada, has_no_file, house, titles};
use crate::store::{Durability, FILE, Store, StorePlace};

#[test]
fn what_is_too_large_is_refused_with_its_bound() {
    let ada = ada();
    let mut deep = json!(1);
    for _ in 0..100 {
        deep = json!({"a": deep});
    }
    let wide: serde_json::Map<String, Value> =
        (0..20_000).map(|n| (format!("k{n}"), json!(n))).collect();
    for (name, value) in [
        ("title", json!("x".repeat(201))),
        ("title", json!("  ")),
        ("title", json!("a\u{0}b")),
        ("description", json!("x".repeat(20_001))),
        ("metadata", deep),
        ("metadata", Value::Object(wide)),
        ("metadata", json!({"a": "x".repeat(300_000)})),
        ("metadata", json!({"a": "\u{0}"})),
        ("metadata", json!([1])),
        ("tags", json!(vec!["t"; 201])),
        ("tags", json!([""])),
        ("commits", json!(["HEAD"])),
        ("priority", json!(6)),
        ("priority", json!("high")),
        ("type", json!("epic")),
        ("status", json!("done")),
        ("unknown", json!(1)),
        ("code_refs", json!([{"repo": "", "path": "a"}])),
    ] {
        let mut call = json!({"title": "t"});
        call[name] = value;
        let problem = ada.refused("work_item_create", call, "bad_argument");
        assert!(
            problem.message.contains(name),
            "{name}: {}",
            problem.message
        );
        assert!(problem.message.len() < 1000, "{}", problem.message.len());
    }
    assert_eq!(
        titles(&ada.ok("work_item_query", json!({}))),
        Vec::<String>::new()
    );
}

#[test]
fn many_children_are_listed_in_pages() {
    let ada = ada();
    let parent = ada.task("parent");
    for number in 0..300 {
        ada.ok(
            "work_item_create",
            json!({"title": format!("child {number}"), "parent": parent}),
        );
    }
    let got = ada.ok("work_item_get", json!({"id": parent}));
    assert_eq!(got["children"].as_array().unwrap().len(), 50);
    assert_eq!(got["roll_up"]["total"], 300);
    assert_eq!(
        ada.ok("work_item_query", json!({"parent": parent, "limit": 100}))["items"]
            .as_array()
            .unwrap()
            .len(),
        100
    );
    assert_eq!(
        titles(&ada.ok("work_item_query", json!({"parent": "none"}))),
        ["parent"]
    );
}

#[test]
fn another_programs_database_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(FILE);
    let other = rusqlite::Connection::open(&path).unwrap();
    other
        .execute_batch("CREATE TABLE tasks(id INTEGER)")
        .unwrap();
    drop(other);
    let before = std::fs::read(&path).unwrap();
    let problem = Store::open(&StorePlace::Folder(folder.path().into(), Durability::Os))
        .err()
        .unwrap();
    assert_eq!(problem.code, "other_database");
    assert_eq!(std::fs::read(&path).unwrap(), before);
    std::fs::write(
        &path,
        b"no database at all, and long enough to be read as one",
    )
    .unwrap();
    assert_eq!(
        Store::open(&StorePlace::Folder(folder.path().into(), Durability::Os))
            .err()
            .unwrap()
            .code,
        "unavailable"
    );
}

#[test]
fn a_newer_database_is_refused_and_an_older_one_goes_on() {
    if has_no_file() {
        return;
    }
    let house = house();
    let ada = house.agent("ada");
    ada.ok("project", json!({"action": "create", "name": "P"}));
    let path = house.folder.path().join(FILE);
    // A second opening finds what the first wrote.
    let again = Store::open(&StorePlace::Folder(
        house.folder.path().into(),
        Durability::Fsync,
    ))
    .unwrap();
    assert_eq!(again.last_event(), 1);
    let db = rusqlite::Connection::open(path).unwrap();
    db.pragma_update(None, "user_version", 99).unwrap();
    let problem = Store::open(&StorePlace::Folder(
        house.folder.path().into(),
        Durability::Os,
    ))
    .err()
    .unwrap();
    assert_eq!(problem.code, "newer_database");
    assert!(problem.message.contains("99"), "{}", problem.message);
}

#[test]
fn a_write_that_cannot_be_kept_is_told() {
    if has_no_file() {
        return;
    }
    let ada = ada();
    ada.task("kept");
    // Nothing can be added: the database may not grow beyond what it has.
    let store = &ada.house.store;
    let path = ada.house.folder.path().join(FILE);
    let lock = rusqlite::Connection::open(path).unwrap();
    lock.execute_batch("BEGIN IMMEDIATE").unwrap();
    let problem = ada.refused(
        "work_item_create",
        json!({"title": "not kept"}),
        "unavailable",
    );
    assert!(
        problem.message.contains("nothing was written"),
        "{}",
        problem.message
    );
    lock.execute_batch("ROLLBACK").unwrap();
    assert_eq!(titles(&ada.ok("work_item_query", json!({}))), ["kept"]);
    ada.task("kept again");
    assert_eq!(store.replay().unwrap().events, 3);
}

#[test]
fn a_database_that_was_taken_away_is_told() {
    if has_no_file() {
        return;
    }
    let ada = ada();
    ada.task("kept");
    let path = ada.house.folder.path().join(FILE);
    std::fs::rename(&path, path.with_extension("moved")).unwrap();
    for what in ["cannot be found", "another file took the place"] {
        let problem = ada.refused("work_item_create", json!({"title": "lost"}), "unavailable");
        assert!(problem.message.contains(what), "{}", problem.message);
        std::fs::write(&path, "").unwrap();
    }
    std::fs::rename(path.with_extension("moved"), &path).unwrap();
    ada.task("kept again");
    ada.replays();
}
