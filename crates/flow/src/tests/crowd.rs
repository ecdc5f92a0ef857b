//! Many agents at once.

use std::collections::HashSet;
use std::sync::Mutex;

use serde_json::{Value, json};

use super::{House, ada, house, text};

/// Runs so many agents of one project at once.
fn crowd(house: &House, count: usize, run: impl Fn(&super::Agent, usize) + Sync) {
    let project = {
        let page = crate::store::Page {
            before: None,
            limit: 1,
        };
        let caller = crate::store::Caller::default();
        house
            .store
            .read(&caller, |tx| {
                Ok(tx.projects(page)?.rows[0].1.stamp.id.clone())
            })
            .unwrap()
    };
    std::thread::scope(|scope| {
        for number in 0..count {
            let (run, project) = (&run, project.clone());
            scope.spawn(move || {
                let agent = house.agent(&format!("agent {number}"));
                agent.session.borrow_mut().project = Some(project);
                run(&agent, number);
            });
        }
    });
}

#[test]
fn no_item_is_taken_twice_and_no_update_is_lost() {
    let ada = ada();
    for number in 0..60 {
        ada.task(&format!("task {number}"));
    }
    let taken = Mutex::new(Vec::new());
    crowd(&ada.house, 20, |agent, _| {
        loop {
            let claim = agent.ok("claim", json!({}));
            if claim["item"].is_null() {
                break;
            }
            let id = text(&claim["item"]["id"]);
            taken.lock().unwrap().push(id.clone());
            let done = json!({"id": id, "version": claim["item"]["version"], "lease_token": claim["token"], "status": "completed"});
            agent.ok("work_item_update", done);
        }
    });
    let taken = taken.into_inner().unwrap();
    assert_eq!(taken.len(), 60);
    assert_eq!(
        taken.iter().collect::<HashSet<_>>().len(),
        60,
        "one was taken twice"
    );
    let counter = ada.task("counter");
    crowd(&ada.house, 20, |agent, _| {
        for _ in 0..5 {
            loop {
                let item = agent.item(&counter);
                let count = item["metadata"]["count"].as_i64().unwrap_or_default();
                let call = json!({"id": counter, "version": item["version"], "metadata": {"count": count + 1}});
                match agent.call("work_item_update", call) {
                    Ok(_) => break,
                    Err(problem) => assert_eq!(problem.code, "conflict", "{problem:?}"),
                }
            }
        }
    });
    let item = ada.item(&counter);
    assert_eq!(
        (&item["metadata"]["count"], &item["version"]),
        (&json!(100), &json!(101))
    );
    ada.replays();
}

#[test]
fn a_circle_is_not_closed_by_many_at_once() {
    let ada = ada();
    let ids: Vec<String> = (0..20)
        .map(|number| ada.task(&format!("item {number}")))
        .collect();
    let refused = Mutex::new(0);
    crowd(&ada.house, 20, |agent, number| {
        let call = json!({"id": ids[number], "depends_on": ids[(number + 1) % 20]});
        if let Err(problem) = agent.call("dependency", call) {
            assert_eq!(problem.code, "cycle", "{problem:?}");
            *refused.lock().unwrap() += 1;
        }
    });
    assert_eq!(
        refused.into_inner().unwrap(),
        1,
        "one of twenty closes the circle"
    );
    ada.replays();
}

#[test]
fn one_key_from_many_threads_is_one_write() {
    let house = house();
    let ada = house.agent("ada");
    ada.ok("project", json!({"action": "create", "name": "P"}));
    let answers = Mutex::new(Vec::<Value>::new());
    std::thread::scope(|scope| {
        for _ in 0..20 {
            scope.spawn(|| {
                let answer = house.agent("ada").ok(
                    "work_item_create",
                    json!({"title": "t", "idempotency_key": "one"}),
                );
                answers.lock().unwrap().push(answer);
            });
        }
    });
    let answers = answers.into_inner().unwrap();
    assert!(answers.iter().all(|answer| *answer == answers[0]));
    assert_eq!(
        ada.ok("work_item_query", json!({}))["items"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
}
