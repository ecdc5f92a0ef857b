//! Claims: no two take one item, and nobody writes under a lease that is over.

use serde_json::{Value, json};

use super::{Agent, ada, text, titles};

fn claim(agent: &Agent, arguments: Value) -> Value {
    agent.ok("claim", arguments)
}

#[test]
fn the_most_urgent_item_that_is_ready_is_taken() {
    let ada = ada();
    let bob = ada.with("bob");
    let late = ada.task("late");
    let first =
        text(&ada.ok("work_item_create", json!({"title": "first", "priority": 1}))["item"]["id"]);
    let waits = ada.ok(
        "work_item_create",
        json!({"title": "waits", "priority": 1, "depends_on": [{"id": first}]}),
    );
    let waits = text(&waits["item"]["id"]);
    ada.ok(
        "work_item_create",
        json!({"title": "holds parts", "type": "project", "priority": 1}),
    );
    assert_eq!(titles(&ada.ok("next_work", json!({}))), ["first", "late"]);
    let blocked = ada.ok("next_work", json!({"want": "blocked"}));
    assert_eq!(
        (
            titles(&blocked),
            &blocked["items"][0]["waits_for"][0]["title"]
        ),
        (vec!["waits".to_owned()], &json!("first"))
    );
    let problem = ada.refused("claim", json!({"id": waits}), "waits");
    assert!(problem.message.contains("#2"), "{}", problem.message);
    let taken = claim(&ada, json!({}));
    assert_eq!(
        (&taken["item"]["title"], &taken["item"]["status"]),
        (&json!("first"), &json!("active"))
    );
    assert_eq!(taken["item"]["assignee"], "ada");
    let problem = bob.refused("claim", json!({"id": first}), "leased");
    assert!(problem.message.contains("ada"), "{}", problem.message);
    // Two sessions of one agent are two workers.
    ada.refused("claim", json!({"id": first}), "leased");
    assert_eq!(claim(&bob, json!({}))["item"]["id"], json!(late));
    assert!(claim(&bob, json!({}))["item"].is_null());
    assert_eq!(
        titles(&ada.ok("next_work", json!({"want": "mine"}))),
        ["first"]
    );
    // Who holds nothing may not write, and who holds it may.
    let version = taken["item"]["version"].clone();
    bob.refused(
        "work_item_update",
        json!({"id": first, "version": version, "title": "x"}),
        "leased",
    );
    bob.refused(
        "work_item_delete",
        json!({"id": first, "confirmed": true}),
        "leased",
    );
    let done = json!({"id": first, "version": version, "lease_token": taken["token"], "status": "completed"});
    ada.ok("work_item_update", done);
    assert_eq!(claim(&bob, json!({}))["item"]["title"], "waits");
    ada.replays();
}

#[test]
fn a_write_under_a_lease_that_is_over_is_refused() {
    let ada = ada();
    let bob = ada.with("bob");
    let id = ada.task("x");
    let taken = claim(&ada, json!({"ttl_s": 1}));
    let mine = |agent: &Agent, token: &Value| json!({"id": id, "version": agent.item(&id)["version"], "lease_token": token, "title": "late"});
    // Until the lease is over: the clock is the store's, which nobody can set.
    while ada.ok("work_item_get", json!({"id": id}))["lease"].is_object() {
        std::thread::yield_now();
    }
    let problem = ada.refused(
        "work_item_update",
        mine(&ada, &taken["token"]),
        "lease_lost",
    );
    assert!(problem.message.contains("ended at"), "{}", problem.message);
    ada.refused(
        "claim",
        json!({"action": "renew", "id": id, "token": taken["token"]}),
        "lease_lost",
    );
    // It is ready again, and the next claim has another token.
    assert_eq!(titles(&bob.ok("next_work", json!({}))), ["x"]);
    let again = claim(&bob, json!({}));
    assert_eq!(again["token"], json!(2));
    let problem = ada.refused(
        "work_item_update",
        mine(&ada, &taken["token"]),
        "lease_lost",
    );
    assert!(
        problem.message.contains("bob holds it"),
        "{}",
        problem.message
    );
    // A token that is right is still not another's.
    ada.refused(
        "work_item_update",
        mine(&ada, &again["token"]),
        "lease_lost",
    );
    ada.refused(
        "claim",
        json!({"action": "release", "id": id, "token": 2}),
        "lease_lost",
    );
    let renewed = bob.ok(
        "claim",
        json!({"action": "renew", "id": id, "token": 2, "ttl_s": 60}),
    );
    // A minute from now is before the quarter of an hour that the claim was for.
    assert!(renewed["until"].as_str() < again["until"].as_str());
    assert_eq!(renewed["token"], json!(2));
    bob.ok("claim", json!({"action": "release", "id": id, "token": 2}));
    assert_eq!(ada.item(&id)["status"], "planned");
    assert_eq!(ada.item(&id)["assignee"], json!(null));
    // By force, which history tells.
    claim(&bob, json!({}));
    ada.ok(
        "claim",
        json!({"action": "release", "id": id, "force": true}),
    );
    let last = ada.ok("history", json!({"limit": 2}));
    assert_eq!(
        (&last["events"][0]["actor"], &last["events"][0]["tool"]),
        (&json!("ada"), &json!("claim"))
    );
    assert_eq!(claim(&ada, json!({}))["token"], json!(4));
    ada.refused("claim", json!({"ttl_s": 0}), "bad_argument");
    ada.refused("claim", json!({"action": "renew"}), "bad_argument");
    ada.replays();
}

#[test]
fn undo_of_a_claim_never_gives_a_token_twice() {
    let ada = ada();
    let id = ada.task("x");
    claim(&ada, json!({}));
    let change = ada.ok("history", json!({"limit": 1}))["events"][0]["change"].clone();
    ada.ok("history", json!({"action": "undo", "change": change}));
    assert_eq!(ada.item(&id)["status"], "planned");
    assert_eq!(claim(&ada, json!({"id": id}))["token"], json!(2));
    ada.replays();
}

#[test]
fn undo_does_not_end_the_claim_of_another() {
    let ada = ada();
    let bob = ada.with("bob");
    let id = ada.task("x");
    let made = ada.ok("history", json!({"limit": 1}))["events"][0]["change"].clone();
    let taken = claim(&bob, json!({}));
    let change = ada.ok("history", json!({"limit": 1}))["events"][0]["change"].clone();
    let undo = |change: &Value| json!({"action": "undo", "change": change});
    let problem = ada.refused("history", undo(&change), "leased");
    assert!(problem.message.contains("bob"), "{}", problem.message);
    ada.refused("history", undo(&made), "built_on");
    let lease = ada.ok("work_item_get", json!({"id": id}))["lease"].clone();
    assert_eq!(lease["token"], taken["token"]);
    // Who holds it may.
    bob.ok("history", undo(&change));
    assert!(ada.ok("work_item_get", json!({"id": id}))["lease"].is_null());
    // What another holds meanwhile stays as it is, even where its document was not touched by the claim.
    let before = ada.set(&id, json!({"title": "y"}));
    let titled = ada.ok("history", json!({"limit": 1}))["events"][0]["change"].clone();
    claim(&bob, json!({"id": id}));
    ada.refused("history", undo(&titled), "built_on");
    assert_eq!(ada.item(&id)["title"], before["title"]);
    ada.replays();
}
