//! MCP: sessions, pages, answers as JSON and as events, and the revision without sessions.

use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use lab::plan::{Ask, Flow, McpRevision, Protocol, Request};
use lab::tally::{Fault, Tally};
use lab::template::Template;
use serde_json::{Value, json};

use crate::rig::{
    Act, Heard, Outcome, Raw, answer, chunk, drive, events, faults, flow, get, hold, json as reply,
    last_chunk, refusal,
};

const REVISION: &str = "2025-11-25";
const OPENING: u16 = 1;

/// A flow of one ask; sessions are opened under the kind 1.
fn asking(raw: &Raw, ask: Ask, revision: McpRevision) -> Flow {
    let mut flow = flow(raw.address);
    flow.protocol = Protocol::Mcp(revision);
    flow.profile = hold(1.0, 200);
    let request = |weight, ask| Request {
        weight,
        path: Template::plain("/mcp"),
        ask: Some(ask),
        ..get()
    };
    flow.requests = vec![request(1, ask), request(0, Ask::Initialize)];
    flow
}

fn call() -> Ask {
    Ask::Call {
        tool: "say".to_owned(),
        arguments: Template::parse("{\"n\":${seq}}", &[], &|_| None).unwrap(),
    }
}

/// A server with sessions: `result` makes the answer to what is not about the session itself.
fn server(result: impl Fn(&Heard, &Value) -> Vec<Act> + Send + Sync + 'static) -> Raw {
    let sessions = AtomicU64::new(0);
    let seen = Mutex::new(HashSet::new());
    Raw::new(move |heard| {
        assert_eq!(heard.path, "/mcp");
        let session = heard
            .header("mcp-session-id")
            .unwrap_or_default()
            .to_owned();
        if heard.method == "DELETE" {
            assert!(session.starts_with('s'));
            return answer(204, "", b"");
        }
        let accept = heard.header("accept").unwrap();
        assert!(accept.contains("application/json") && accept.contains("text/event-stream"));
        let message = heard.json();
        assert_eq!(message["jsonrpc"], "2.0");
        match message["method"].as_str().unwrap() {
            "initialize" => {
                assert_eq!(message["params"]["protocolVersion"], REVISION);
                assert_eq!(session, "");
                let number = sessions.fetch_add(1, Ordering::Relaxed);
                let result = json!({"protocolVersion": REVISION, "capabilities": {}});
                let fields = format!("Mcp-Session-Id: s{number}\r\n");
                let id = &message["id"];
                reply(
                    &fields,
                    json!({"jsonrpc": "2.0", "id": id, "result": result}),
                )
            }
            method => {
                assert_eq!(
                    heard.header("mcp-protocol-version"),
                    Some(REVISION),
                    "{method}"
                );
                assert!(session.starts_with('s'), "{method} without a session");
                if method == "notifications/initialized" {
                    return answer(202, "", b"");
                }
                let new = seen
                    .lock()
                    .unwrap()
                    .insert((session, message["id"].to_string()));
                assert!(new, "an id was used twice in a session");
                result(heard, &message)
            }
        }
    })
}

fn result(message: &Value, result: Value) -> Vec<Act> {
    reply(
        "",
        json!({"jsonrpc": "2.0", "id": message["id"], "result": result}),
    )
}

fn run(raw: &Raw, ask: Ask) -> Outcome {
    let outcome = drive(asking(raw, ask, McpRevision::Session(REVISION)));
    assert_eq!(outcome.failure, None);
    outcome
}

fn all_good(tally: &Tally) {
    assert!(tally.good >= 1);
    assert_eq!(tally.good, tally.sent, "{:?}", tally.faults);
}

#[test]
fn tools_are_called_in_a_session() {
    let raw = server(|_, message| {
        assert_eq!(message["params"]["name"], "say");
        assert!(message["params"]["arguments"]["n"].is_u64());
        result(message, json!({"content": []}))
    });
    let outcome = run(&raw, call());
    all_good(&outcome.kind(0));
    let opening = outcome.kind(OPENING);
    assert_eq!((opening.good, opening.sent, opening.connections), (1, 1, 1));
    assert_eq!((opening.statuses[200], opening.statuses[202]), (1, 1));
    // Initialize, initialized, the calls, and the farewell.
    assert_eq!(raw.requests(), outcome.kind(0).good + 3);
    assert_eq!(raw.heard("DELETE"), 1);
}

#[test]
fn every_connection_has_a_session() {
    let raw = server(|_, message| result(message, json!({})));
    let mut flow = asking(&raw, Ask::Ping, McpRevision::Session(REVISION));
    flow.connections = 5;
    flow.threads = 2;
    flow.profile = hold(5.0, 200);
    let outcome = drive(flow);
    all_good(&outcome.kind(0));
    assert_eq!(outcome.kind(OPENING).good, 5);
    assert_eq!(raw.heard("DELETE"), 5);
}

#[test]
fn lists_are_read_to_the_last_page() {
    let raw = server(|_, message| match message["params"]["cursor"].as_str() {
        None => result(message, json!({"tools": [], "nextCursor": "p2"})),
        Some("p2") => result(message, json!({"tools": [], "nextCursor": "p3"})),
        Some(_) => result(message, json!({"tools": []})),
    });
    let outcome = run(&raw, Ask::List);
    let list = outcome.kind(0);
    all_good(&list);
    assert_eq!(list.statuses[200], list.good * 3);
    assert_eq!(raw.requests(), list.good * 3 + 3);
}

#[test]
fn a_list_without_an_end_is_a_fault() {
    let raw = server(|_, message| result(message, json!({"tools": [], "nextCursor": "again"})));
    let list = run(&raw, Ask::List).kind(0);
    assert_eq!(
        faults(&list, Fault::Protocol),
        list.sent,
        "{:?}",
        list.faults
    );
}

#[test]
fn an_answer_among_events() {
    let progress = json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {}});
    let raw = server(move |_, message| {
        let done = json!({"jsonrpc": "2.0", "id": message["id"], "result": {"content": []}});
        let prime = "id: 1\ndata:\n\n".to_owned();
        let event = |value: &Value| format!("event: message\ndata: {value}\n\n");
        let parts = [prime, event(&progress), event(&progress), event(&done)];
        let mut acts = vec![events()];
        acts.extend(parts.iter().map(|part| chunk(part)));
        acts.push(last_chunk());
        acts
    });
    let outcome = run(&raw, call());
    let calls = outcome.kind(0);
    all_good(&calls);
    assert_eq!(calls.tokens, calls.good * 2);
    assert_eq!(calls.connections, 0, "the connection is used again");
}

#[test]
fn a_stream_that_stays_open_after_its_answer() {
    let raw = server(move |_, message| {
        let done = json!({"jsonrpc": "2.0", "id": message["id"], "result": {}});
        let event = format!("data: {done}\n\n");
        vec![
            events(),
            chunk(&event),
            Act::Pause(std::time::Duration::from_secs(1)),
            Act::Close,
        ]
    });
    let calls = run(&raw, call()).kind(0);
    all_good(&calls);
    let most = calls
        .distribution(lab::tally::Metric::Service)
        .unwrap()
        .most;
    assert!(
        most < 900_000_000,
        "the answer's time is the answer's: {most}"
    );
}

#[test]
fn a_forgotten_session_is_opened_again_once() {
    // Each session is good for three requests.
    let asked = AtomicU64::new(0);
    let raw = server(move |_, message| {
        if asked.fetch_add(1, Ordering::Relaxed) % 4 == 3 {
            return answer(404, "", b"session not found");
        }
        result(message, json!({}))
    });
    let outcome = run(&raw, Ask::Ping);
    let pings = outcome.kind(0);
    all_good(&pings);
    let again = pings.statuses[404];
    assert!(again >= 1, "{} pings", pings.good);
    assert_eq!(outcome.kind(OPENING).good, 1 + again);
    assert_eq!(raw.requests(), pings.good + again + 2 * (1 + again) + 1);
}

#[test]
fn a_session_that_is_never_found_is_a_fault() {
    let raw = server(|_, _| answer(404, "", b""));
    let pings = run(&raw, Ask::Ping).kind(0);
    assert_eq!(
        faults(&pings, Fault::Client),
        pings.sent,
        "{:?}",
        pings.faults
    );
}

#[test]
fn answers_that_are_no_success() {
    type Reply = fn(&Value) -> Vec<Act>;
    let cases: [(Fault, Reply); 6] = [
        (Fault::Tool, |m| {
            result(m, json!({"isError": true, "content": []}))
        }),
        (Fault::Rpc, |m| {
            reply(
                "",
                json!({"jsonrpc": "2.0", "id": m["id"], "error": {"code": -32602, "message": "no"}}),
            )
        }),
        (Fault::Protocol, |_| {
            reply("", json!({"jsonrpc": "2.0", "id": 0, "result": {}}))
        }),
        (Fault::Protocol, |_| {
            answer(200, "content-type: text/html\r\n", b"<html>")
        }),
        (Fault::Client, |_| answer(401, "", b"who are you")),
        (Fault::Stream, |_| {
            vec![events(), chunk(": nothing\n\n"), last_chunk()]
        }),
    ];
    for (fault, acts) in cases {
        let raw = server(move |_, message| acts(message));
        let outcome = run(&raw, call());
        let calls = outcome.kind(0);
        assert_eq!(
            faults(&calls, fault),
            calls.sent,
            "{fault:?}: {:?}",
            calls.faults
        );
        assert!(!outcome.notes.is_empty(), "{fault:?} leaves a note");
    }
}

#[test]
fn a_cut_stream_is_a_fault_of_the_stream() {
    let raw = server(|_, _| vec![events(), chunk("data: {\"json"), Act::Close]);
    let calls = run(&raw, call()).kind(0);
    assert_eq!(
        faults(&calls, Fault::Stream),
        calls.sent,
        "{:?}",
        calls.faults
    );
}

#[test]
fn the_revision_without_sessions() {
    let raw = Raw::new(|heard| {
        assert_eq!(heard.method, "POST");
        let message = heard.json();
        let method = message["method"].as_str().unwrap();
        assert_eq!(heard.header("mcp-protocol-version"), Some("2026-07-28"));
        assert_eq!(heard.header("mcp-method"), Some(method));
        assert_eq!(heard.header("mcp-name"), message["params"]["name"].as_str());
        assert_eq!(heard.header("mcp-session-id"), None);
        let meta = &message["params"]["_meta"];
        assert_eq!(
            meta["io.modelcontextprotocol/protocolVersion"],
            "2026-07-28"
        );
        assert!(meta["io.modelcontextprotocol/clientCapabilities"].is_object());
        assert!(meta["io.modelcontextprotocol/clientInfo"]["name"].is_string());
        result(&message, json!({"resultType": "complete", "content": []}))
    });
    for ask in [Ask::List, call()] {
        let before = raw.requests();
        let outcome = drive(asking(&raw, ask, McpRevision::Stateless("2026-07-28")));
        assert_eq!(outcome.failure, None);
        all_good(&outcome.kind(0));
        assert_eq!(outcome.kind(0).good, raw.requests() - before);
        assert_eq!(outcome.kind(OPENING).sent, 0);
    }
    let failure = refusal(asking(
        &raw,
        Ask::Ping,
        McpRevision::Stateless("2026-07-28"),
    ));
    assert!(failure.what.contains("has no `ping`"), "{failure}");
}

#[test]
fn names_that_a_field_cannot_hold_are_encoded() {
    let raw = Raw::new(|heard| {
        assert_eq!(heard.header("mcp-name"), Some("=?base64?w6k=?="));
        result(&heard.json(), json!({"resultType": "complete"}))
    });
    let ask = Ask::Call {
        tool: "é".to_owned(),
        arguments: Template::plain(""),
    };
    let outcome = drive(asking(&raw, ask, McpRevision::Stateless("2026-07-28")));
    all_good(&outcome.kind(0));
}

#[test]
fn sessions_that_cannot_be_opened() {
    let raw = Raw::new(|heard| {
        let id = heard.json()["id"].clone();
        let result = json!({"protocolVersion": "2025-06-18", "capabilities": {}});
        reply("", json!({"jsonrpc": "2.0", "id": id, "result": result}))
    });
    let session = McpRevision::Session(REVISION);
    let failure = refusal(asking(&raw, Ask::Ping, session));
    assert!(
        failure.what.contains("speaks MCP `2025-06-18`"),
        "{failure}"
    );
    let raw = Raw::new(|_| answer(401, "", b"no"));
    let failure = refusal(asking(&raw, Ask::Ping, session));
    assert!(failure.what.contains("status 401"), "{failure}");
    let raw = Raw::new(|_| answer(200, "content-type: text/html\r\n", b"<html>"));
    let failure = refusal(asking(&raw, Ask::Ping, session));
    assert!(failure.what.contains("content type"), "{failure}");
}
