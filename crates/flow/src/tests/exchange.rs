//! Import and export: whole or not at all.

use std::path::Path;

use serde_json::{Value, json};

use super::{Agent, ada, house, titles};
use crate::exchange::{FileFormat, export_jsonl, export_markdown, export_workflow, read};
use crate::ops;
use crate::store::{Tx, read_beside};

/// A project with one of each kind.
fn full() -> Agent {
    let ada = ada();
    ada.ok(
        "entity_type",
        json!({"action": "register", "name": "box", "schema": {"type": "object"}}),
    );
    let entity = ada.ok("entity_write", json!({"action": "create", "type": "box", "name": "b", "data": {"a": [1, {"b": null}]}, "tags": ["t"]}));
    let parent = ada.task("parent <with> *marks*");
    ada.ok("work_item_create", json!({"title": "child", "parent": parent, "entity_refs": [entity["entity"]["id"]], "priority": 1}));
    ada.ok(
        "work_item_create",
        json!({"title": "last", "depends_on": [{"id": "#1"}], "metadata": {"k": 1}}),
    );
    ada.set("#2", json!({"status": "completed"}));
    ada.ok(
        "deployment",
        json!({"action": "record", "commit_sha": "abcdef1", "work_item_ids": ["#2"]}),
    );
    ada
}

fn written(
    agent: &Agent,
    export: fn(&Tx<'_>, &crate::model::Project) -> Result<String, tools::serve::call::Problem>,
) -> String {
    read_beside(&agent.house.place, |tx| {
        let project = ops::project(tx, None, None)?;
        export(tx, &project)
    })
    .unwrap()
}

fn import(
    agent: &Agent,
    format: FileFormat,
    path: &Path,
    project: Option<&str>,
) -> Result<Value, String> {
    let records = read(format, path).map_err(|problem| problem.message)?;
    let call = json!({"project": project, "records": records});
    agent
        .call("flow/import", call)
        .map(|said| said.value)
        .map_err(|problem| problem.message)
}

fn file(name: &str, text: &str) -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, text).unwrap();
    (folder, path)
}

#[test]
fn an_export_comes_back_to_the_byte() {
    let ada = full();
    let text = written(&ada, export_jsonl);
    let (_folder, path) = file("board.jsonl", &text);
    let bob = house().agent("bob");
    let answer = import(&bob, FileFormat::Jsonl, &path, None).unwrap();
    assert_eq!(
        answer["written"],
        json!({"deployment": 1, "entity": 1, "entity_type": 1, "item": 3, "project": 1})
    );
    let without_time = |text: &str| text.lines().skip(1).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(
        without_time(&written(&bob, export_jsonl)),
        without_time(&text)
    );
    assert_eq!(bob.item("#3")["created_by"], "ada");
    // Twice is once.
    let again = import(&bob, FileFormat::Jsonl, &path, None).unwrap();
    assert_eq!(
        (&again["written"], &again["known"]),
        (&json!({}), &json!(7))
    );
    // What changed meanwhile is not overwritten.
    bob.set("#3", json!({"title": "changed"}));
    let problem = import(&bob, FileFormat::Jsonl, &path, None).unwrap_err();
    assert!(problem.contains("is there already"), "{problem}");
    bob.replays();
}

#[test]
fn nothing_is_half_imported() {
    let ada = full();
    let text = written(&ada, export_jsonl);
    let lines: Vec<&str> = text.lines().collect();
    let house = house();
    let bob = house.agent("bob");
    let mut refused = 0;
    for cut in 1..lines.len() {
        let (_folder, path) = file("cut.jsonl", &lines[..cut].join("\n"));
        let problem = import(&bob, FileFormat::Jsonl, &path, None).unwrap_err();
        assert!(
            problem.contains("cut") || problem.contains("records"),
            "{problem}"
        );
        refused += 1;
    }
    // One record among good ones that does not fit.
    for (from, to) in [
        ("\"priority\":1", "\"priority\":9"),
        ("\"commit_sha\":\"abcdef1\"", "\"commit_sha\":\"HEAD\""),
        ("\"type\":\"blocks\"", "\"type\":\"because\""),
        ("\"title\":\"child\"", "\"title\":\"\""),
        ("\"type\":\"box\"", "\"type\":\"bag\""),
        ("\"status\":\"completed\"", "\"status\":\"done\""),
    ] {
        assert!(text.contains(from), "{from}");
        let (_folder, path) = file("wrong.jsonl", &text.replace(from, to));
        let problem = import(&bob, FileFormat::Jsonl, &path, None).unwrap_err();
        assert!(problem.contains("record "), "{problem}");
        refused += 1;
    }
    assert!(refused > 10);
    assert_eq!(
        bob.ok("project", json!({"action": "list"}))["projects"],
        json!([])
    );
    assert_eq!(house.store.last_event(), 0);
}

#[test]
fn markdown_and_the_peers_rows_come_back() {
    let ada = full();
    let markdown = written(&ada, export_markdown);
    assert!(
        markdown
            .contains("- [ ] \\#1 parent &lt;with&gt; \\*marks\\* (P3, task)\n  - [x] \\#2 child"),
        "{markdown}"
    );
    let (_folder, path) = file("TODO.md", &markdown);
    let bob = house().agent("bob");
    import(&bob, FileFormat::Markdown, &path, Some("New")).unwrap();
    let mut found = titles(&bob.ok("work_item_query", json!({})));
    found.sort();
    assert_eq!(found, ["child", "last", "parent <with> *marks*"]);
    let child = bob.ok(
        "work_item_query",
        json!({"status": ["completed"], "detail": "full"}),
    )["items"][0]
        .clone();
    assert_eq!(
        (&child["priority"], &child["title"]),
        (&json!(1), &json!("child"))
    );
    assert!(child["parent"].is_string());
    let rows = written(&ada, export_workflow);
    let (_folder, path) = file("workflow.jsonl", &rows);
    let eve = house().agent("eve");
    let answer = import(&eve, FileFormat::Jsonl, &path, Some("Theirs")).unwrap();
    assert_eq!(
        answer["written"],
        json!({"deployment": 1, "entity": 1, "entity_type": 1, "item": 3})
    );
    let last = eve.ok(
        "work_item_query",
        json!({"filter": {"eq": {"k": 1}}, "detail": "full"}),
    );
    assert_eq!(last["items"][0]["depends_on"][0]["type"], "blocks");
    let (_folder, path) = file("rows.jsonl", "{\"table\": \"users\", \"id\": \"1\"}\n");
    assert!(
        import(&eve, FileFormat::Jsonl, &path, Some("Theirs"))
            .unwrap_err()
            .contains("users")
    );
    bob.replays();
    eve.replays();
}

#[test]
fn the_database_of_simple_task_tracker_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("project_0123abcd.db");
    let db = rusqlite::Connection::open(&path).unwrap();
    db.execute_batch(
        "CREATE TABLE tasks(id INTEGER PRIMARY KEY, title TEXT, description TEXT, status TEXT, priority TEXT, parent_task_id INTEGER,
           depends_on TEXT, tags TEXT, blocker_reason TEXT, file_references TEXT, created_by TEXT, created_at TIMESTAMP,
           updated_at TIMESTAMP, completed_at TIMESTAMP, deleted_at TIMESTAMP, workspace_metadata TEXT);
         CREATE TABLE entities(id INTEGER PRIMARY KEY, entity_type TEXT, name TEXT, identifier TEXT, description TEXT, metadata TEXT,
           tags TEXT, created_by TEXT, created_at TIMESTAMP, updated_at TIMESTAMP, deleted_at TIMESTAMP);
         CREATE TABLE task_entity_links(id INTEGER PRIMARY KEY, task_id INTEGER, entity_id INTEGER, created_by TEXT,
           created_at TIMESTAMP, deleted_at TIMESTAMP);
         INSERT INTO tasks VALUES(1, 'Top', 'd', 'in_progress', 'high', NULL, NULL, 'a b', NULL, '[\"src/a.rs\"]', 'carol',
           '2025-10-01 10:00:00', '2025-10-02T10:00:00.123456', NULL, NULL, '{\"cwd\": \"x\"}');
         INSERT INTO tasks VALUES(2, 'Below', NULL, 'blocked', 'low', 1, '[3]', NULL, 'no paint', NULL, NULL,
           '2025-10-01 10:00:00', '2025-10-01 10:00:00', NULL, NULL, NULL);
         INSERT INTO tasks VALUES(3, 'Done', NULL, 'done', 'medium', NULL, '[]', NULL, NULL, NULL, NULL,
           '2025-10-01 10:00:00', '2025-10-01 10:00:00', '2025-10-03 10:00:00', NULL, NULL);
         INSERT INTO entities VALUES(1, 'file', 'a.rs', '/src/a.rs', NULL, '{\"lines\": 3}', 'rust', 'carol',
           '2025-10-01 10:00:00', '2025-10-01 10:00:00', NULL);
         INSERT INTO task_entity_links VALUES(1, 1, 1, 'carol', '2025-10-01 10:00:00', NULL);",
    )
    .unwrap();
    drop(db);
    let before = std::fs::read(&path).unwrap();
    let ada = house().agent("ada");
    let answer = import(&ada, FileFormat::Tracker, &path, Some("Tracked")).unwrap();
    assert_eq!(
        answer["written"],
        json!({"entity": 1, "entity_type": 1, "item": 3})
    );
    assert_eq!(std::fs::read(&path).unwrap(), before);
    let items = ada.ok("work_item_query", json!({"detail": "full"}))["items"].clone();
    let of = |title: &str| {
        items
            .as_array()
            .unwrap()
            .iter()
            .find(|item| item["title"] == title)
            .unwrap()
            .clone()
    };
    let top = of("Top");
    assert_eq!(
        (&top["status"], &top["priority"], &top["created_by"]),
        (&json!("active"), &json!(1), &json!("carol"))
    );
    assert_eq!(
        (&top["tags"], &top["updated_at"]),
        (&json!(["a", "b"]), &json!("2025-10-02T10:00:00.123Z"))
    );
    assert_eq!(top["planning_references"], json!(["src/a.rs"]));
    let below = of("Below");
    assert_eq!(
        (&below["parent"], &below["blocked_reason"]),
        (&top["id"], &json!("no paint"))
    );
    assert_eq!(below["depends_on"][0]["id"], of("Done")["id"]);
    let entity = ada.ok(
        "entity_query",
        json!({"type": "tracked", "filter": {"eq": {"metadata.lines": 3}}}),
    );
    assert_eq!(top["entity_refs"], json!([entity["entities"][0]["id"]]));
    let (_folder, other) = file("other.db", "no database");
    assert!(import(&ada, FileFormat::Tracker, &other, Some("Tracked")).is_err());
    ada.replays();
}
