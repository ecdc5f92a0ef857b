//! Projects, items, dependencies, history.

use serde_json::json;

use super::{ada, house, text, titles};

#[test]
fn a_project_is_the_sessions_own_choice() {
    let house = house();
    let (ada, bob) = (house.agent("ada"), house.agent("bob"));
    let problem = ada.refused("work_item_create", json!({"title": "x"}), "no_project");
    assert!(problem.message.contains("project create"), "{problem:?}");
    let one = ada.ok("project", json!({"action": "create", "name": "One"}));
    // The only one there is needs no choice.
    bob.task("in one");
    ada.ok("project", json!({"action": "create", "name": "Two"}));
    ada.task("in two");
    bob.refused("work_item_create", json!({"title": "x"}), "no_project");
    bob.ok("project", json!({"action": "switch", "project": "one"}));
    assert_eq!(titles(&bob.ok("work_item_query", json!({}))), ["in one"]);
    assert_eq!(titles(&ada.ok("work_item_query", json!({}))), ["in two"]);
    assert_eq!(
        titles(&ada.ok("work_item_query", json!({"project": one["project"]["id"]}))),
        ["in one"]
    );
    ada.refused(
        "project",
        json!({"action": "create", "name": "ONE"}),
        "exists",
    );
    ada.refused(
        "project",
        json!({"action": "switch", "project": "Three"}),
        "not_found",
    );
    ada.refused("project", json!({"action": "archive"}), "not_confirmed");
    ada.ok("project", json!({"action": "archive", "confirmed": true}));
    ada.refused("work_item_create", json!({"title": "x"}), "archived");
    assert_eq!(titles(&ada.ok("work_item_query", json!({}))), ["in two"]);
    ada.ok("project", json!({"action": "restore"}));
    ada.task("again");
}

#[test]
fn nothing_of_another_project_is_told() {
    let ada = ada();
    let canary = ada.ok(
        "work_item_create",
        json!({"title": "canary", "description": "zebra", "metadata": {"k": "zebra"}}),
    );
    let id = text(&canary["item"]["id"]);
    ada.ok("project", json!({"action": "create", "name": "Other"}));
    let own = ada.task("own");
    for (tool, arguments) in [
        ("work_item_get", json!({"id": id})),
        (
            "work_item_update",
            json!({"id": id, "version": 1, "title": "x"}),
        ),
        ("work_item_delete", json!({"id": id, "confirmed": true})),
        ("claim", json!({"id": id})),
        ("dependency", json!({"id": own, "depends_on": id})),
        ("work_item_create", json!({"title": "x", "parent": id})),
        (
            "deployment",
            json!({"action": "record", "commit_sha": "abcdef1", "work_item_ids": [id]}),
        ),
    ] {
        let problem = ada.refused(tool, arguments, "not_found");
        assert!(!format!("{problem:?}").contains("canary"), "{problem:?}");
    }
    assert_eq!(
        titles(&ada.ok("search", json!({"query": "zebra"}))),
        Vec::<String>::new()
    );
    let filter = json!({"filter": {"eq": {"k": "zebra"}}});
    assert_eq!(
        titles(&ada.ok("work_item_query", filter)),
        Vec::<String>::new()
    );
    let history = ada.ok("history", json!({"full": true})).to_string();
    assert!(!history.contains("zebra"), "{history}");
    let history = ada.ok("history", json!({"id": id})).to_string();
    assert!(!history.contains("canary"), "{history}");
    ada.refused(
        "history",
        json!({"action": "undo", "change": 2}),
        "not_found",
    );
}

#[test]
fn a_change_names_the_version_it_was_made_to() {
    let ada = ada();
    let bob = ada.with("bob");
    let id = ada.task("Paint the door");
    let missing = ada.refused(
        "work_item_update",
        json!({"id": id, "title": "x"}),
        "version_missing",
    );
    assert_eq!(missing.data.unwrap()["current"]["version"], 1);
    bob.ok(
        "work_item_update",
        json!({"id": id, "version": 1, "title": "Paint it red", "priority": 1}),
    );
    let conflict = ada.refused(
        "work_item_update",
        json!({"id": id, "version": 1, "title": "x"}),
        "conflict",
    );
    assert!(
        conflict
            .message
            .contains("expected version 1, current version 2"),
        "{}",
        conflict.message
    );
    let data = conflict.data.unwrap();
    assert_eq!(data["current"]["title"], "Paint it red");
    let differs = data["differs"].to_string();
    assert!(
        differs.contains("title") && differs.contains("priority") && !differs.contains("status"),
        "{differs}"
    );
    let item = ada.item(&id);
    assert_eq!(
        (&item["updated_by"], &item["created_by"]),
        (&json!("bob"), &json!("ada"))
    );
    ada.replays();
}

#[test]
fn a_key_makes_a_call_once() {
    let ada = ada();
    let call = json!({"title": "once", "idempotency_key": "k1"});
    let first = ada.ok("work_item_create", call.clone());
    assert_eq!(ada.ok("work_item_create", call), first);
    ada.refused(
        "work_item_create",
        json!({"title": "twice", "idempotency_key": "k1"}),
        "key_reused",
    );
    // Another one's key is another key.
    let other = ada.with("bob").ok(
        "work_item_create",
        json!({"title": "bob's", "idempotency_key": "k1"}),
    );
    assert_ne!(other["item"]["id"], first["item"]["id"]);
    // A request that is made again, since the process that answered it ended.
    let again = |request| {
        ada.request("work_item_create", json!({"title": "again"}), request)
            .unwrap()
            .value
    };
    assert_eq!(again("s:7"), again("s:7"));
    assert_ne!(again("s:8"), again("s:7"));
    assert_eq!(
        ada.ok("work_item_query", json!({}))["items"]
            .as_array()
            .unwrap()
            .len(),
        4
    );
    // What was refused was not done, so its key is free.
    ada.refused(
        "work_item_create",
        json!({"title": "", "idempotency_key": "k2"}),
        "bad_argument",
    );
    ada.ok(
        "work_item_create",
        json!({"title": "now", "idempotency_key": "k2"}),
    );
    ada.replays();
}

#[test]
fn items_stand_in_a_hierarchy_of_five_levels() {
    let ada = ada();
    let mut above = None;
    let mut ids = Vec::new();
    for level in 1..=5 {
        let made = ada.ok(
            "work_item_create",
            json!({"title": format!("level {level}"), "type": "project", "parent": above}),
        );
        ids.push(text(&made["item"]["id"]));
        above = ids.last().cloned();
    }
    ada.refused(
        "work_item_create",
        json!({"title": "level 6", "parent": above}),
        "too_deep",
    );
    // A whole branch is measured when it is moved, and an item cannot stand below itself.
    let top = ada.task("top");
    let update = |id: &str, parent: &str| json!({"id": id, "version": 1, "parent": parent});
    ada.refused("work_item_update", update(&ids[0], &top), "too_deep");
    ada.refused("work_item_update", update(&ids[0], &ids[3]), "cycle");
    ada.refused("work_item_update", update(&ids[0], &ids[0]), "cycle");
    ada.ok("work_item_update", update(&ids[1], "none"));
    ada.ok("work_item_update", update(&ids[0], &top));
    let got = ada.ok(
        "work_item_get",
        json!({"id": ids[4], "include": ["ancestors"]}),
    );
    let above: Vec<&str> = got["ancestors"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["title"].as_str().unwrap())
        .collect();
    assert_eq!(above, ["level 2", "level 3", "level 4"]);
    ada.set(&ids[4], json!({"status": "completed"}));
    let sum = ada.ok("work_item_get", json!({"id": ids[1]}))["roll_up"].clone();
    assert_eq!(
        (&sum["total"], &sum["done_percent"]),
        (&json!(3), &json!(33.3))
    );
    ada.refused(
        "work_item_delete",
        json!({"id": ids[1], "confirmed": true}),
        "has_children",
    );
    let gone = ada.ok(
        "work_item_delete",
        json!({"id": ids[1], "confirmed": true, "with_descendants": true}),
    );
    assert_eq!(gone["ids"].as_array().unwrap().len(), 4);
    ada.refused(
        "work_item_delete",
        json!({"id": ids[3], "action": "restore"}),
        "not_found",
    );
    ada.ok(
        "work_item_delete",
        json!({"id": ids[1], "action": "restore"}),
    );
    assert_eq!(ada.item(&ids[1])["deleted_at"], json!(null));
    ada.replays();
}

#[test]
fn circles_are_refused_in_every_way_they_can_close() {
    let ada = ada();
    let ids: Vec<String> = ["a", "b", "c"].map(|title| ada.task(title)).into();
    let on =
        |id: usize, on: usize, of: &str| json!({"id": ids[id], "depends_on": ids[on], "type": of});
    ada.ok("dependency", on(0, 1, "blocks"));
    ada.ok("dependency", on(1, 2, "blocks"));
    ada.refused("dependency", on(2, 0, "blocks"), "cycle");
    ada.refused("dependency", on(0, 0, "blocks"), "cycle");
    ada.ok("dependency", on(2, 0, "relates_to"));
    ada.ok("dependency", on(0, 2, "relates_to"));
    // Adding what is there changes nothing.
    let version = ada.item(&ids[0])["version"].clone();
    ada.ok("dependency", on(0, 1, "blocks"));
    assert_eq!(ada.item(&ids[0])["version"], version);
    // A deleted item keeps its place in the circle.
    ada.ok("work_item_delete", json!({"id": ids[1], "confirmed": true}));
    ada.refused("dependency", on(2, 0, "blocks"), "cycle");
    ada.ok(
        "work_item_delete",
        json!({"id": ids[1], "action": "restore"}),
    );
    ada.refused(
        "dependency",
        json!({"action": "remove", "id": ids[2], "depends_on": ids[0]}),
        "not_found",
    );
    ada.ok(
        "dependency",
        json!({"action": "remove", "id": ids[0], "depends_on": ids[1]}),
    );
    ada.ok("dependency", on(2, 0, "blocks"));
    // Undo of the removal would close it.
    let last = ada.ok("history", json!({"id": ids[0], "limit": 1}))["events"][0]["change"].clone();
    ada.refused(
        "history",
        json!({"action": "undo", "change": last}),
        "cycle",
    );
    ada.replays();
}

#[test]
fn a_status_follows_another_or_is_refused() {
    let ada = ada();
    let id = ada.task("x");
    let problem = {
        ada.set(&id, json!({"status": "active"}));
        ada.set(
            &id,
            json!({"status": "blocked", "blocked_reason": "no paint"}),
        );
        ada.refused(
            "work_item_update",
            json!({"id": id, "version": 3, "status": "completed"}),
            "status_not_allowed",
        )
    };
    assert!(
        problem.message.contains("planned, active, cancelled"),
        "{}",
        problem.message
    );
    let item = ada.set(&id, json!({"status": "active"}));
    assert_eq!(item["blocked_reason"], json!(null));
    let item = ada.set(&id, json!({"status": "completed"}));
    assert!(item["completed_at"].is_string());
    ada.refused(
        "work_item_update",
        json!({"id": id, "version": 5, "status": "planned"}),
        "status_not_allowed",
    );
    ada.refused(
        "work_item_update",
        json!({"id": id, "version": 5, "status": "done"}),
        "bad_argument",
    );
}

#[test]
fn a_change_is_undone_unless_others_built_on_it() {
    let ada = ada();
    let bob = ada.with("bob");
    let id = ada.task("first");
    let change = |agent: &super::Agent, title: &str| {
        agent.set(&id, json!({"title": title}));
        agent.ok("history", json!({"id": id, "limit": 1}))["events"][0]["change"].clone()
    };
    let second = change(&ada, "second");
    let third = change(&bob, "third");
    let problem = ada.refused(
        "history",
        json!({"action": "undo", "change": second}),
        "built_on",
    );
    assert!(problem.message.contains("by bob"), "{}", problem.message);
    ada.ok("history", json!({"action": "undo", "change": third}));
    let item = ada.item(&id);
    assert_eq!(
        (&item["title"], &item["version"]),
        (&json!("second"), &json!(4))
    );
    assert_eq!(item["updated_by"], "ada");
    // An undo is a change, and can be undone.
    let last = ada.ok("history", json!({"id": id, "limit": 1}))["events"][0]["change"].clone();
    ada.ok("history", json!({"action": "undo", "change": last}));
    assert_eq!(ada.item(&id)["title"], "third");
    let made = ada.task("made by mistake");
    let last = ada.ok("history", json!({"limit": 1}))["events"][0]["change"].clone();
    ada.ok("history", json!({"action": "undo", "change": last}));
    assert!(ada.item(&made)["deleted_at"].is_string());
    let by_bob = ada.ok("history", json!({"actor": "bob"}))["events"]
        .as_array()
        .unwrap()
        .len();
    assert_eq!(by_bob, 1);
    ada.replays();
}

#[test]
fn lists_go_on_where_they_ended_and_stay_small() {
    let ada = ada();
    for number in 0..30 {
        ada.ok(
            "work_item_create",
            json!({"title": format!("item {number}"), "description": "long ".repeat(200)}),
        );
    }
    let (mut seen, mut cursor) = (Vec::new(), json!(null));
    loop {
        let page = ada.ok("work_item_query", json!({"limit": 7, "cursor": cursor}));
        seen.extend(titles(&page));
        cursor = page["cursor"].clone();
        if cursor.is_null() {
            break;
        }
        // What is written meanwhile stands before, not behind.
        ada.task("meanwhile");
    }
    let expected: Vec<String> = (0..30)
        .rev()
        .map(|number| format!("item {number}"))
        .collect();
    assert_eq!(seen, expected);
    let page = ada.ok(
        "work_item_query",
        json!({"detail": "full", "limit": 100, "max_tokens": 1000}),
    );
    assert!(page.to_string().len() < 5000, "{}", page.to_string().len());
    let cursor = page["cursor"].clone();
    ada.refused(
        "work_item_query",
        json!({"detail": "full", "status": ["active"], "cursor": cursor}),
        "bad_argument",
    );
    ada.refused(
        "work_item_query",
        json!({"cursor": "made up"}),
        "bad_argument",
    );
    ada.refused("work_item_query", json!({"limit": 0}), "bad_argument");
    ada.refused("work_item_query", json!({"limit": 101}), "bad_argument");
}

#[test]
fn items_are_found_by_what_they_say_and_by_their_number() {
    let ada = ada();
    let id = ada.task("Repair the flux capacitor");
    ada.ok("work_item_create", json!({"title": "Other", "tags": ["urgent", "flux"], "metadata": {"points": 5, "where": {"room": "B"}}}));
    assert_eq!(ada.item("#1")["id"], json!(id));
    ada.refused("work_item_get", json!({"id": "#99"}), "not_found");
    assert_eq!(
        titles(&ada.ok("search", json!({"query": "capac"}))),
        ["Repair the flux capacitor"]
    );
    assert_eq!(titles(&ada.ok("search", json!({"query": "flux"}))).len(), 2);
    // Operators of the search engine are words here.
    for query in [
        "flux OR nothing",
        "\"flux",
        "title:flux",
        "flux*) --",
        "NEAR(flux)",
    ] {
        ada.ok("search", json!({"query": query}));
    }
    ada.refused("search", json!({"query": " -- \"\" "}), "bad_argument");
    for filter in [
        json!({"eq": {"points": 5}}),
        json!({"gt": {"points": 4}}),
        json!({"contains": {"where": {"room": "B"}}}),
        json!({"not": {"exists": "nothing"}, }),
    ] {
        let found = titles(&ada.ok(
            "work_item_query",
            json!({"filter": filter, "tags": ["urgent"]}),
        ));
        assert_eq!(found, ["Other"], "{filter}");
    }
    assert_eq!(
        titles(&ada.ok("work_item_query", json!({"filter": {"eq": {"points": 6}}}))),
        Vec::<String>::new()
    );
    ada.set(&id, json!({"title": "Renamed"}));
    assert_eq!(
        titles(&ada.ok("search", json!({"query": "capacitor"}))),
        Vec::<String>::new()
    );
}

#[test]
fn a_deployment_says_what_it_carried() {
    let ada = ada();
    let id = ada.task("feature");
    let record = json!({
        "action": "record", "commit_sha": "0123456789abcdef0123456789abcdef01234567", "status": "pending",
        "environment": "staging", "work_item_ids": ["#1"], "deployed_at": "2026-01-02T03:04:05+01:00", "metadata": {"pr_number": 7},
    });
    let made = ada.ok("deployment", record);
    assert_eq!(
        made["deployment"]["deployed_at"],
        "2026-01-02T02:04:05.000Z"
    );
    assert_eq!(made["work_items"][0]["title"], "feature");
    let of = made["deployment"]["id"].clone();
    assert_eq!(
        ada.ok("work_item_get", json!({"id": id}))["deployments"],
        json!([of])
    );
    ada.refused(
        "deployment",
        json!({"action": "update", "id": of, "version": 1, "status": "rolled_back"}),
        "status_not_allowed",
    );
    ada.ok(
        "deployment",
        json!({"action": "update", "id": of, "version": 1, "status": "deployed"}),
    );
    ada.refused(
        "deployment",
        json!({"action": "update", "id": of, "version": 1, "status": "failed"}),
        "conflict",
    );
    ada.refused(
        "deployment",
        json!({"action": "record", "commit_sha": "xyz"}),
        "bad_argument",
    );
    ada.refused(
        "deployment",
        json!({"action": "record", "commit_sha": "abcdef1", "deployed_at": "soon"}),
        "bad_argument",
    );
    let list = ada.ok(
        "deployment",
        json!({"action": "list", "environment": "staging"}),
    );
    assert_eq!(list["deployments"].as_array().unwrap().len(), 1);
    let status = ada.ok("status", json!({"format": "markdown"}));
    assert_eq!(status["items"]["by_status"]["planned"], 1);
    assert!(
        status["markdown"]
            .as_str()
            .unwrap()
            .contains("staging 0123456789ab"),
        "{status}"
    );
    ada.replays();
}
