//! Every name of workflow-mcp, called with its documented arguments; answers have its documented keys.

use serde_json::{Value, json};

use super::{Agent, ada, house, text};
use crate::table;

#[track_caller]
fn has(value: &Value, keys: &[&str]) {
    for key in keys {
        assert!(value.get(key).is_some(), "{key} is missing in {value}");
    }
}

const ITEM: &[&str] = &[
    "id",
    "item_type",
    "title",
    "description",
    "status",
    "parent_id",
    "materialized_path",
    "hierarchy_level",
    "created_at",
    "updated_at",
    "completed_at",
    "deleted_at",
    "metadata",
    "git_branch",
    "git_commits",
];
const ENTITY: &[&str] = &[
    "id",
    "entity_type",
    "name",
    "data",
    "tags",
    "version",
    "created_at",
    "updated_at",
    "deleted_at",
    "metadata",
];

#[test]
fn the_later_generation_answers_by_its_names() {
    let ada = house().agent("ada");
    let problem = ada.refused(
        "create_work_item",
        json!({"item_type": "task", "title": "t"}),
        "NO_ACTIVE_PROJECT",
    );
    assert_eq!(problem.data.unwrap()["reason"], "no_project");
    assert_eq!(
        ada.ok("get_active_project", json!({})),
        json!({"project": null})
    );
    let project = ada.ok("create_project", json!({"name": "P", "description": "d"}));
    has(
        &project,
        &[
            "id",
            "name",
            "description",
            "database_name",
            "created_at",
            "updated_at",
            "metadata",
        ],
    );
    assert_eq!(
        ada.ok("get_active_project", json!({}))["project"]["id"],
        project["id"]
    );
    ada.ok("create_project", json!({"name": "Q"}));
    ada.ok("switch_project", json!({"project_id": project["id"]}));
    let list = ada.ok("list_projects", json!({"limit": 1, "offset": 1}));
    assert_eq!(
        (
            &list["count"],
            &list["total"],
            &list["limit"],
            &list["offset"]
        ),
        (&json!(1), &json!(2), &json!(1), &json!(1))
    );
    items(&ada);
    entities(&ada);
    deployments(&ada);
    ada.replays();
}

fn items(ada: &Agent) {
    let session = ada.ok(
        "create_work_item",
        json!({"item_type": "session", "title": "S", "description": "d", "status": "active"}),
    );
    has(&session, ITEM);
    let sid = text(&session["id"]);
    let task = ada.ok(
        "create_work_item",
        json!({"item_type": "task", "title": "T", "parent_id": sid}),
    );
    let tid = text(&task["id"]);
    assert_eq!(
        (&task["hierarchy_level"], &task["materialized_path"]),
        (&json!(2), &json!(format!("/{sid}/{tid}")))
    );
    let other = text(
        &ada.ok(
            "create_work_item",
            json!({"item_type": "subtask", "title": "U", "parent_id": tid}),
        )["id"],
    );
    let done = ada.ok(
        "update_work_item",
        json!({"work_item_id": other, "status": "completed"}),
    );
    assert!(done["completed_at"].is_string());
    let found = ada.ok(
        "query_work_items",
        json!({"parent_id": sid, "include_descendants": true}),
    );
    assert_eq!(found["count"], 2);
    let tree = ada.ok("get_work_item_hierarchy", json!({"work_item_id": tid}));
    has(
        &tree,
        &["work_item", "ancestors", "children", "descendants"],
    );
    assert_eq!(
        (&tree["ancestors"][0]["id"], &tree["children"][0]["id"]),
        (&json!(sid), &json!(other))
    );
    let last = text(
        &ada.ok(
            "create_work_item",
            json!({"item_type": "task", "title": "V"}),
        )["id"],
    );
    let depend = |a: &str, b: &str| json!({"work_item_id": a, "depends_on_id": b, "dependency_type": "blocks"});
    ada.ok("add_work_item_dependency", depend(&last, &tid));
    ada.refused(
        "add_work_item_dependency",
        depend(&tid, &last),
        "VALIDATION_ERROR",
    );
    let blocked = ada.ok("list_blocked_work_items", json!({}));
    assert_eq!(
        (
            &blocked["count"],
            &blocked["work_items"][0]["blocked_by"][0]["id"]
        ),
        (&json!(1), &json!(tid))
    );
    ada.refused(
        "delete_work_item",
        json!({"work_item_id": last, "confirmed": false}),
        "VALIDATION_ERROR",
    );
    ada.ok(
        "delete_work_item",
        json!({"work_item_id": last, "confirmed": true}),
    );
    ada.refused(
        "delete_work_item",
        json!({"work_item_id": "00000000-0000-0000-0000-000000000000", "confirmed": true}),
        "NOT_FOUND",
    );
}

fn entities(ada: &Agent) {
    let schema = json!({"type": "object", "properties": {"a": {"type": "integer"}}});
    let of = ada.ok(
        "register_entity_type",
        json!({"type_name": "thing", "schema": schema, "description": "d"}),
    );
    has(&of, &["type_name", "schema", "description", "created_at"]);
    let made = ada.ok("create_entity", json!({"entity_type": "thing", "name": "n", "data": {"a": 1, "deps": ["X", "Y"]}, "tags": ["p", "q"]}));
    has(&made, ENTITY);
    assert_eq!(made["version"], 1);
    let query = |filter: Value, tags: Value| {
        ada.ok(
            "query_entities",
            json!({"entity_type": "thing", "filter": filter, "tags": tags}),
        )["count"]
            .clone()
    };
    assert_eq!(query(json!({"deps": ["X"]}), json!(["p", "q"])), 1);
    assert_eq!(query(json!({"deps": ["Z"]}), json!([])), 0);
    assert_eq!(query(json!({}), json!(["p", "r"])), 0);
    let changed = ada.ok(
        "update_entity",
        json!({"entity_id": made["id"], "data": {"a": 2}, "current_version": 1}),
    );
    assert_eq!(
        (&changed["data"], &changed["version"]),
        (&json!({"a": 2, "deps": ["X", "Y"]}), &json!(2))
    );
    let conflict = ada.refused(
        "update_entity",
        json!({"entity_id": made["id"], "data": {"a": 3}, "current_version": 1}),
        "VERSION_CONFLICT",
    );
    assert!(
        conflict
            .message
            .contains("expected version 1, current version 2"),
        "{}",
        conflict.message
    );
    let wider = json!({"type": "object", "properties": {"a": {"type": "integer"}, "b": {}}});
    let evolved = ada.ok(
        "update_entity_type_schema",
        json!({"type_name": "thing", "new_schema": wider, "validate_existing": true}),
    );
    assert_eq!(evolved["validated_entities"], 1);
    ada.ok(
        "delete_entity",
        json!({"entity_id": made["id"], "confirmed": true}),
    );
}

fn deployments(ada: &Agent) {
    let made = ada.ok("record_deployment", json!({
        "commit_sha": "a".repeat(40), "branch": "main", "environment": "production", "status": "deployed", "commit_message": "m",
        "author_name": "A", "author_email": "a@example.com", "deployed_at": "2026-01-01T00:00:00Z", "metadata": {}, "work_item_ids": ["#1"],
    }));
    has(
        &made,
        &[
            "id",
            "commit_sha",
            "environment",
            "status",
            "work_item_ids",
            "created_at",
        ],
    );
    let older = ada.ok("record_deployment", json!({
        "deployed_at": "2026-01-01T00:00:00Z", "created_by": "x",
        "metadata": {"pr_number": 1, "pr_title": "t", "commit_hash": "b".repeat(40), "test_summary": {"unit": 5}, "constitutional_compliance": true},
    }));
    assert_eq!(
        (&older["commit_hash"], &older["created_by"]),
        (&json!("b".repeat(40)), &json!("ada"))
    );
    let list = ada.ok(
        "list_deployments",
        json!({"environment": "production", "limit": 1, "offset": 1}),
    );
    has(&list, &["deployments", "total", "limit", "offset"]);
    assert_eq!(
        (
            &list["total"],
            &list["deployments"].as_array().unwrap().len()
        ),
        (&json!(2), &1)
    );
    let got = ada.ok("get_deployment", json!({"deployment_id": made["id"]}));
    assert_eq!(got["work_items"][0]["title"], "S");
}

#[test]
fn the_earlier_generation_answers_by_its_names() {
    let ada = ada();
    let made = ada.ok("create_task", json!({"title": "T", "description": "d", "notes": "n", "planning_references": ["docs/a.md"]}));
    let id = text(&made["id"]);
    let full = [
        "id",
        "title",
        "description",
        "notes",
        "status",
        "created_at",
        "updated_at",
        "planning_references",
        "branches",
        "commits",
    ];
    has(&made, &full);
    assert_eq!(made["status"], "need to be done");
    ada.ok(
        "update_task",
        json!({"task_id": id, "status": "in-progress", "branch": "b1", "commit": "c".repeat(40)}),
    );
    ada.ok("update_task", json!({"task_id": id, "branch": "b2"}));
    let got = ada.ok("get_task", json!({"task_id": id}));
    assert_eq!(
        (&got["branches"], &got["status"]),
        (&json!(["b1", "b2"]), &json!("in-progress"))
    );
    ada.refused(
        "update_task",
        json!({"task_id": id, "commit": "C".repeat(40)}),
        "VALIDATION_ERROR",
    );
    ada.ok("update_task", json!({"task_id": id, "status": "complete"}));
    ada.ok(
        "update_task",
        json!({"task_id": id, "status": "need to be done"}),
    );
    let list = ada.ok(
        "list_tasks",
        json!({"status": "need to be done", "branch": "b1"}),
    );
    assert_eq!(
        (
            &list["total_count"],
            list["tasks"][0].as_object().unwrap().len()
        ),
        (&json!(1), 5)
    );
    ada.refused(
        "get_task",
        json!({"task_id": "00000000-0000-0000-0000-000000000000"}),
        "NOT_FOUND",
    );
    older_items(&ada);
    vendors(&ada);
    ada.replays();
}

fn older_items(ada: &Agent) {
    let made = ada.ok("create_work_item", json!({
        "item_type": "research", "title": "R", "metadata": {"research_questions": ["q"]}, "branch_name": "x", "created_by": "mallory",
    }));
    assert_eq!(
        (&made["created_by"], &made["git_branch"]),
        (&json!("ada"), &json!("x"))
    );
    let update = |version: i64, status: &str| json!({"id": made["id"], "version": version, "updated_by": "mallory", "status": status});
    ada.ok("update_work_item", update(1, "active"));
    let conflict = ada.refused(
        "update_work_item",
        update(1, "completed"),
        "VERSION_CONFLICT",
    );
    assert_eq!(conflict.data.unwrap()["current"]["version"], 2);
    let got = ada.ok(
        "query_work_item",
        json!({"id": made["id"], "include_children": true}),
    );
    has(
        &got,
        &[
            "ancestors",
            "descendants",
            "children",
            "dependencies",
            "version",
        ],
    );
    let roots = ada.ok(
        "list_work_items",
        json!({"parent_id": "none", "item_type": "research"}),
    );
    assert_eq!(
        (&roots["total_count"], &roots["limit"]),
        (&json!(1), &json!(50))
    );
    let gone = ada.ok(
        "update_work_item",
        json!({"id": made["id"], "version": 2, "deleted_at": "NOW()"}),
    );
    assert!(gone["deleted_at"].is_string());
}

fn vendors(ada: &Agent) {
    let made = ada.ok("create_vendor", json!({"name": "Acme", "initial_metadata": "{\"format_support\": {\"pdf\": true}}", "created_by": "x"}));
    has(
        &made,
        &[
            "id",
            "version",
            "name",
            "status",
            "extractor_version",
            "metadata",
            "created_at",
            "updated_at",
            "created_by",
        ],
    );
    assert_eq!(
        (&made["status"], &made["extractor_version"]),
        (&json!("broken"), &json!("0.0.0"))
    );
    ada.refused(
        "create_vendor",
        json!({"name": "ACME", "created_by": "x"}),
        "VALIDATION_ERROR",
    );
    let update =
        |status: &str| json!({"name": "acme", "version": 1, "status": status, "updated_by": "x"});
    ada.refused("update_vendor_status", update("fine"), "VALIDATION_ERROR");
    ada.ok("update_vendor_status", update("operational"));
    ada.refused("update_vendor_status", update("broken"), "VERSION_CONFLICT");
    assert_eq!(
        ada.ok("query_vendor_status", json!({"name": "aCmE"}))["status"],
        "operational"
    );
    assert_eq!(
        ada.ok("status", json!({}))["vendors"]["operational_percent"],
        100.0
    );
    let before = ada.ok("get_project_configuration", json!({}));
    assert_eq!(
        (&before["id"], &before["default_token_budget"]),
        (&json!(1), &json!(200_000))
    );
    ada.ok(
        "update_project_configuration",
        json!({"git_branch": "main", "updated_by": "x"}),
    );
    ada.ok(
        "update_project_configuration",
        json!({"active_context_type": "feature", "default_token_budget": 5000, "updated_by": "x"}),
    );
    let after = ada.ok("get_project_configuration", json!({}));
    let expected = (
        &json!("main"),
        &json!("feature"),
        &json!(5000),
        &json!("ada"),
    );
    assert_eq!(
        (
            &after["git_branch"],
            &after["active_context_type"],
            &after["default_token_budget"],
            &after["updated_by"]
        ),
        expected
    );
    ada.refused(
        "update_project_configuration",
        json!({"default_token_budget": 5, "updated_by": "x"}),
        "VALIDATION_ERROR",
    );
}

#[test]
fn the_listing_is_ours_and_theirs_where_that_is_asked_for() {
    let names = |compat: bool| {
        let listed = tools::serve::session::listing::<crate::Flow>(compat);
        listed
            .iter()
            .map(|tool| tool.name.to_string())
            .collect::<Vec<_>>()
    };
    assert_eq!(names(false).len(), 16);
    // Twenty of the later generation, and of the fourteen earlier names those that are not among them.
    assert_eq!(names(true).len(), 16 + 20 + 11);
    assert_eq!(names(true).len(), table::ALL.len());
    for tool in tools::serve::session::listing::<crate::Flow>(true) {
        let output = tool.output_schema.as_ref().unwrap();
        for (what, schema) in [("input", &tool.input_schema), ("output", output)] {
            assert_eq!(schema["type"], "object", "{} {what}", tool.name);
            // A tool without arguments has none.
            let properties = schema.get("properties").and_then(Value::as_object);
            for (key, property) in properties.into_iter().flatten() {
                assert!(
                    property["description"].is_string(),
                    "{} {what} {key}",
                    tool.name
                );
            }
            let whole = Value::Object((**schema).clone()).to_string();
            assert!(
                !whole.contains("\"$ref\":"),
                "{} {what} is not whole",
                tool.name
            );
        }
    }
}
