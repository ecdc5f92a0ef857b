//! MCP: sessions, tools, both forms of answers, and the stateless revision.

use lab::target::{Answers, Mcp, Running, Settings};
use serde_json::{Value, json};

use super::client::{Answer, Client};
use super::started;

const ACCEPT: (&str, &str) = ("accept", "application/json, text/event-stream");
const JSON: (&str, &str) = ("content-type", "application/json");

fn server(mcp: Mcp) -> Running {
    started(Settings {
        mcp,
        ..Settings::default()
    })
}

fn request(method: &str, params: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": "a-1", "method": method, "params": params })
}

fn post(client: &mut Client, headers: &[(&str, &str)], message: &Value) -> Answer {
    let headers: Vec<_> = [ACCEPT, JSON]
        .into_iter()
        .chain(headers.iter().copied())
        .collect();
    client.post("/mcp", &headers, message.to_string())
}

fn begin(client: &mut Client, revision: &str) -> (String, Value) {
    let params = json!({ "protocolVersion": revision, "capabilities": {}, "clientInfo": {} });
    let answer = post(client, &[], &request("initialize", params));
    assert_eq!(answer.status, 200);
    let session = answer.header("mcp-session-id").unwrap().to_owned();
    (session, message(&answer))
}

/// The message of an answer, in either form.
fn message(answer: &Answer) -> Value {
    match answer.header("content-type") {
        Some("text/event-stream") => {
            let events = answer.events();
            assert_eq!((events.len(), events[0].0.as_str()), (1, "message"));
            serde_json::from_str(&events[0].1).unwrap()
        }
        _ => answer.json(),
    }
}

fn call(client: &mut Client, session: &str, tool: &str, arguments: Value) -> Value {
    let params = json!({ "name": tool, "arguments": arguments });
    let answer = post(
        client,
        &[("mcp-session-id", session)],
        &request("tools/call", params),
    );
    assert_eq!(answer.status, 200);
    message(&answer)
}

#[test]
fn a_session_lives_from_initialize_to_delete() {
    for answers in [Answers::Json, Answers::Sse, Answers::Mixed] {
        let target = server(Mcp {
            answers,
            ..Mcp::default()
        });
        let mut client = Client::to(target.address());
        for revision in ["2025-06-18", "2025-11-25"] {
            let (session, begun) = begin(&mut client, revision);
            assert_eq!(begun["result"]["protocolVersion"], revision);
            assert_eq!(begun["id"], "a-1");
            let head = [
                ("mcp-session-id", &*session),
                ("mcp-protocol-version", revision),
            ];
            let note = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
            let answer = post(&mut client, &head, &note);
            assert_eq!((answer.status, answer.body.len()), (202, 0));
            let pong = message(&post(&mut client, &head, &request("ping", json!({}))));
            assert_eq!(pong["result"], json!({}));
            let tools = message(&post(&mut client, &head, &request("tools/list", json!({}))));
            assert_eq!(tools["result"]["tools"].as_array().unwrap().len(), 4);
            assert!(tools["result"].get("ttlMs").is_none());
            assert_eq!(client.ask("DELETE", "/mcp", &head, b"").status, 200);
            assert_eq!(client.ask("DELETE", "/mcp", &head, b"").status, 404);
            let answer = post(&mut client, &head, &request("ping", json!({})));
            assert_eq!(
                (answer.status, answer.json()["id"].as_str()),
                (404, Some("a-1"))
            );
        }
    }
}

#[test]
fn a_revision_that_is_not_spoken_is_answered_with_one_that_is() {
    let target = server(Mcp::default());
    let mut client = Client::to(target.address());
    let (session, begun) = begin(&mut client, "1999-01-01");
    assert_eq!(begun["result"]["protocolVersion"], "2025-11-25");
    let head = [
        ("mcp-session-id", &*session),
        ("mcp-protocol-version", "1999-01-01"),
    ];
    assert_eq!(
        post(&mut client, &head, &request("ping", json!({}))).status,
        400
    );
}

#[test]
fn sessions_are_known_to_all_threads() {
    let target = started(Settings {
        threads: 4,
        ..Settings::default()
    });
    let (session, _) = begin(&mut Client::to(target.address()), "2025-11-25");
    for _ in 0..16 {
        let mut client = Client::to(target.address());
        let head = [("mcp-session-id", &*session)];
        assert_eq!(
            post(&mut client, &head, &request("ping", json!({}))).status,
            200
        );
    }
    // Another session has another id, after a reset too.
    target.reset();
    assert_ne!(
        begin(&mut Client::to(target.address()), "2025-11-25").0,
        session
    );
}

#[test]
fn tools_do_what_they_say() {
    let target = server(Mcp::default());
    let mut client = Client::to(target.address());
    let (session, _) = begin(&mut client, "2025-11-25");
    let mut call = |tool, arguments| call(&mut client, &session, tool, arguments);
    let text = "héllo \"there\"\n\u{1F600}";
    let echoed = call("echo", json!({ "text": text }));
    assert_eq!(
        echoed["result"]["content"][0],
        json!({ "type": "text", "text": text })
    );
    assert_eq!(echoed["result"]["isError"], false);
    for bytes in [0, 1, 1_000, 1_000_000] {
        let sized = call("size", json!({ "bytes": bytes }));
        assert_eq!(
            sized["result"]["content"][0]["text"]
                .as_str()
                .unwrap()
                .len(),
            bytes
        );
    }
    let begun = std::time::Instant::now();
    call("sleep", json!({ "ms": 20 }));
    assert!(begun.elapsed() >= std::time::Duration::from_millis(20));
    assert_eq!(call("fail", json!({}))["result"]["isError"], true);
    for (tool, arguments) in [
        ("nothing", json!({})),
        ("echo", json!({})),
        ("echo", json!({ "text": 1 })),
        ("sleep", json!({ "ms": 60_001 })),
        ("sleep", json!({ "ms": -1 })),
        ("size", json!({ "bytes": 16_777_217 })),
        ("size", json!([])),
    ] {
        assert_eq!(call(tool, arguments)["error"]["code"], -32602, "{tool}");
    }
}

#[test]
fn what_is_no_message_is_refused() {
    let target = server(Mcp::default());
    let mut client = Client::to(target.address());
    let mut code = |body: &str| {
        let answer = client.post("/mcp", &[ACCEPT, JSON], body);
        (
            answer.status,
            answer.json()["error"]["code"].as_i64().unwrap(),
        )
    };
    assert_eq!(code("{"), (400, -32700));
    assert_eq!(code("\u{1}"), (400, -32700));
    for body in [
        "[]",
        "1",
        "{}",
        r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":7}"#,
    ] {
        assert_eq!(code(body), (400, -32600), "{body}");
    }
    // No session, and one that never was.
    assert_eq!(
        code(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#),
        (400, -32600)
    );
    let head = [("mcp-session-id", "0123")];
    let answer = post(&mut client, &head, &request("ping", json!({})));
    assert_eq!(
        (answer.status, answer.json()["error"]["code"].as_i64()),
        (404, Some(-32001))
    );
    let (session, _) = begin(&mut client, "2025-11-25");
    let head = [("mcp-session-id", &*session)];
    let answer = post(&mut client, &head, &request("resources/list", json!({})));
    assert_eq!(
        (answer.status, answer.json()["error"]["code"].as_i64()),
        (200, Some(-32601))
    );
    let answer = post(&mut client, &[], &request("initialize", json!({})));
    assert_eq!(answer.json()["error"]["code"], -32602);
}

#[test]
fn heads_that_do_not_fit_are_refused() {
    let target = server(Mcp::default());
    let mut client = Client::to(target.address());
    let ping = request("ping", json!({})).to_string();
    let mut status = |headers: &[(&str, &str)]| client.post("/mcp", headers, &ping).status;
    assert_eq!(status(&[JSON]), 406);
    assert_eq!(status(&[JSON, ("accept", "application/json")]), 406);
    assert_eq!(status(&[ACCEPT]), 415);
    assert_eq!(status(&[ACCEPT, ("content-type", "text/plain")]), 415);
    assert_eq!(
        status(&[ACCEPT, JSON, ("origin", "https://example.com")]),
        403
    );
    assert_eq!(
        status(&[ACCEPT, JSON, ("origin", "http://localhost.example.com")]),
        403
    );
    // These are let through to where the session lacks.
    assert_eq!(
        status(&[ACCEPT, JSON, ("origin", "http://localhost:1234")]),
        400
    );
    assert_eq!(status(&[("accept", "*/*"), JSON]), 400);
    assert_eq!(client.ask("PUT", "/mcp", &[], b"").status, 405);
}

#[test]
fn a_stream_of_the_session_opens_or_is_refused() {
    let target = server(Mcp::default());
    let mut client = Client::to(target.address());
    let (session, _) = begin(&mut client, "2025-11-25");
    let event = ("accept", "text/event-stream");
    assert_eq!(client.ask("GET", "/mcp", &[event], b"").status, 400);
    assert_eq!(
        client
            .ask("GET", "/mcp", &[event, ("mcp-session-id", "x")], b"")
            .status,
        404
    );
    assert_eq!(
        client
            .ask("GET", "/mcp", &[("mcp-session-id", &session)], b"")
            .status,
        406
    );
    client.send(format!(
        "GET /mcp HTTP/1.1\r\nhost: t\r\naccept: text/event-stream\r\nmcp-session-id: {session}\r\n\r\n"
    ));
    let head = client.answer(true);
    assert_eq!(
        (head.status, head.header("content-type")),
        (200, Some("text/event-stream"))
    );
    assert_eq!(client.chunk(), b": open\n\n");
    let target = server(Mcp {
        no_stream: true,
        ..Mcp::default()
    });
    let answer = Client::to(target.address()).ask("GET", "/mcp", &[event], b"");
    assert_eq!(
        (answer.status, answer.header("allow")),
        (405, Some("POST, DELETE"))
    );
}

/// A request of the stateless revision, with the headers that go with it.
fn stateless(method: &str, mut params: Value) -> (Vec<(&str, String)>, Value) {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let mut headers = vec![
        ("mcp-protocol-version", "2026-07-28".to_owned()),
        ("mcp-method", method.to_owned()),
    ];
    if let Some(name) = params["name"].as_str() {
        headers.push(("mcp-name", name.to_owned()));
    }
    (headers, request(method, params))
}

fn ask(client: &mut Client, (headers, message): &(Vec<(&str, String)>, Value)) -> Answer {
    let headers: Vec<_> = headers
        .iter()
        .map(|(name, value)| (*name, &**value))
        .collect();
    post(client, &headers, message)
}

#[test]
fn the_stateless_revision_needs_no_session() {
    for answers in [Answers::Json, Answers::Sse] {
        let target = server(Mcp {
            answers,
            ..Mcp::default()
        });
        let mut client = Client::to(target.address());
        let answer = ask(&mut client, &stateless("server/discover", json!({})));
        assert_eq!(
            (answer.status, answer.header("mcp-session-id")),
            (200, None)
        );
        let result = &message(&answer)["result"];
        assert_eq!(result["supportedVersions"], json!(["2026-07-28"]));
        assert_eq!(result["resultType"], "complete");
        let tools = &message(&ask(&mut client, &stateless("tools/list", json!({}))))["result"];
        assert_eq!(tools["tools"].as_array().unwrap().len(), 4);
        assert_eq!(
            (&tools["cacheScope"], tools["ttlMs"].is_u64()),
            (&json!("public"), true)
        );
        let call = json!({ "name": "echo", "arguments": { "text": "x" } });
        let called = message(&ask(&mut client, &stateless("tools/call", call)));
        assert_eq!(called["result"]["content"][0]["text"], "x");
        assert_eq!(called["result"]["resultType"], "complete");
        let mut note = stateless("notifications/cancelled", json!({}));
        note.1.as_object_mut().unwrap().remove("id");
        assert_eq!(ask(&mut client, &note).status, 202);
    }
}

#[test]
fn a_name_may_be_encoded_in_its_header() {
    let target = server(Mcp::default());
    let mut client = Client::to(target.address());
    let call = json!({ "name": "echo", "arguments": { "text": "x" } });
    let mut asked = stateless("tools/call", call);
    asked.0[2].1 = "=?base64?ZWNobw==?=".to_owned();
    assert_eq!(ask(&mut client, &asked).status, 200);
    asked.0[2].1 = "=?base64?!?=".to_owned();
    assert_eq!(ask(&mut client, &asked).status, 400);
}

#[test]
fn a_stateless_request_that_contradicts_itself_is_refused() {
    let target = server(Mcp::default());
    let mut client = Client::to(target.address());
    let call = || {
        stateless(
            "tools/call",
            json!({ "name": "echo", "arguments": { "text": "x" } }),
        )
    };
    type Change<'a> = &'a dyn Fn(&mut Vec<(&str, String)>, &mut Value);
    let mut refused = |change: Change<'_>| {
        let mut asked = call();
        change(&mut asked.0, &mut asked.1);
        let answer = ask(&mut client, &asked);
        (
            answer.status,
            answer.json()["error"]["code"].as_i64().unwrap(),
        )
    };
    for at in 0..3 {
        assert_eq!(
            refused(&|headers, _| drop(headers.remove(at))),
            (400, -32020)
        );
        assert_eq!(refused(&|headers, _| headers[at].1 += "x"), (400, -32020));
        assert_eq!(
            refused(&|headers, _| headers.push(headers[at].clone())),
            (400, -32020)
        );
    }
    let meta = "io.modelcontextprotocol/";
    assert_eq!(
        refused(&|_, message| {
            let meta_of = message["params"]["_meta"].as_object_mut().unwrap();
            meta_of.remove(&format!("{meta}clientCapabilities"));
        }),
        (400, -32602)
    );
    assert_eq!(
        refused(&|_, message| message["params"]["_meta"] = json!(null)),
        (400, -32602)
    );
    assert_eq!(
        refused(&|headers, message| {
            headers[0].1 = "2030-01-01".into();
            message["params"]["_meta"][format!("{meta}protocolVersion")] = json!("2030-01-01");
        }),
        (400, -32022)
    );
    for method in ["ping", "initialize", "resources/list"] {
        let answer = ask(&mut client, &stateless(method, json!({})));
        assert_eq!(
            (answer.status, answer.json()["error"]["code"].as_i64()),
            (404, Some(-32601))
        );
    }
    for method in ["GET", "DELETE"] {
        let head = [
            ("mcp-protocol-version", "2026-07-28"),
            ("accept", "text/event-stream"),
        ];
        let answer = client.ask(method, "/mcp", &head, b"");
        assert_eq!((answer.status, answer.header("allow")), (405, Some("POST")));
    }
}
