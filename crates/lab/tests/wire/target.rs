//! The engine against the lab's own target: two programs that must agree on every count.

use std::sync::Arc;
use std::time::Duration;

use lab::plan::{Ask, BodyCheck, Expect, Flow, McpRevision, Protocol, Request};
use lab::tally::{Fault, Metric, Tally};
use lab::target::{self, Every, Running, Settings, Tls};
use lab::template::{Body, Template};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

use crate::rig::{drive, faults, flow, get, hold};

/// A flow to a target; over TLS if it has a certificate.
fn to(running: &Running, protocol: Protocol, path: &str, body: &str) -> Flow {
    let mut flow = flow(running.address());
    flow.protocol = protocol;
    if let Some(pem) = running.ca_pem() {
        let mut roots = RootCertStore::empty();
        let ca = CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
        roots.add(ca).unwrap();
        let client = ClientConfig::builder().with_root_certificates(roots);
        flow.tls = Some(Arc::new(client.with_no_client_auth()));
        flow.targets[0].tls = true;
    }
    let request = &mut flow.requests[0];
    request.path = Template::plain(path);
    if !body.is_empty() {
        request.method = "POST".to_owned();
        request.body = Body::Template(Template::plain(body));
    }
    flow
}

fn start(change: impl FnOnce(&mut Settings)) -> Running {
    let mut settings = Settings::default();
    change(&mut settings);
    target::start(settings).unwrap()
}

fn all_good(total: &Tally) {
    assert!(total.good >= 1, "{:?} {:?}", total.sent, total.faults);
    assert_eq!(total.good, total.sent, "{:?}", total.faults);
}

/// Echoes of which every 40th has a wrong byte and every 30th is a 503.
fn faulty(protocol: Protocol, tls: bool) {
    let every = |fault: &str, period| Every {
        fault: fault.parse().unwrap(),
        period,
    };
    let running = start(|settings| {
        settings.behaviour.every = vec![every("corrupt", 40), every("503", 30)];
        settings.tls = tls.then_some(Tls {
            files: None,
            client_ca: None,
        });
    });
    let mut flow = to(&running, protocol, "/echo", "");
    let request = &mut flow.requests[0];
    request.method = "POST".to_owned();
    request.body = Body::Unique { bytes: 3000 };
    request.expect = Expect {
        body: BodyCheck::Echo,
        ..Expect::default()
    };
    flow.connections = 3;
    flow.profile = hold(3.0, 300);
    let outcome = drive(flow);
    let (total, counts) = (outcome.total(), running.counts());
    assert_eq!(total.sent, counts.requests);
    let injected = |name: &str| {
        counts
            .injected_errors
            .get(name)
            .copied()
            .unwrap_or_default()
    };
    assert!(total.sent > 40, "only {} in 300 ms", total.sent);
    assert_eq!(faults(&total, Fault::Integrity), injected("corrupt"));
    assert_eq!(faults(&total, Fault::Server), injected("503"));
    assert_eq!(total.good, counts.responses_ok, "{:?}", total.faults);
    assert_eq!(total.completed, counts.requests);
    let (_, run) = counts.runs.first_key_value().unwrap();
    assert_eq!((run.distinct, run.duplicates), (total.sent, 0));
    for note in &outcome.notes {
        let id = format!("00c0ffee0000-{}", note.number);
        let found = counts
            .corrupted
            .iter()
            .find(|c| c.id.as_deref() == Some(&id))
            .unwrap();
        assert_eq!(note.offset, Some(found.offset));
    }
    assert!(!outcome.notes.is_empty());
}

#[test]
fn wrong_bytes_and_errors_are_counted_alike() {
    faulty(Protocol::Http1, true);
    faulty(Protocol::Http2 { streams: 4 }, true);
    faulty(Protocol::Http2 { streams: 4 }, false);
}

#[test]
fn models_speak_at_the_pace_that_they_were_told() {
    let running = start(|settings| {
        settings.llm.first_token = "50ms".parse().unwrap();
        settings.llm.tokens_per_second = 100.0;
        settings.llm.tokens = 8;
    });
    let messages = r#""messages":[{"role":"user","content":"hi"}],"model":"m","max_tokens":100"#;
    let chat =
        format!("{{{messages},\"stream\":true,\"stream_options\":{{\"include_usage\":true}}}}");
    let message = format!("{{{messages},\"stream\":true}}");
    let response = r#"{"model":"m","input":"hi","stream":true}"#;
    let cases = [
        (Protocol::Openai, "/v1/chat/completions", chat.as_str()),
        (Protocol::Openai, "/v1/responses", response),
        (Protocol::Anthropic, "/v1/messages", message.as_str()),
    ];
    for (protocol, path, body) in cases {
        let mut flow = to(&running, protocol, path, body);
        flow.profile = hold(1.0, 200);
        let outcome = drive(flow);
        let total = outcome.total();
        assert_eq!(total.failures(), 0, "{path}: {:?}", outcome.notes);
        all_good(&total);
        assert_eq!(total.tokens, total.good * 8, "{path}");
        let first = total.distribution(Metric::FirstToken).unwrap();
        assert_eq!(first.count(), total.good);
        assert!(first.least >= 49_000_000, "{path}: {}", first.least);
        assert_eq!(
            total.distribution(Metric::TokenGap).unwrap().count(),
            total.good * 7
        );
        let rate = total.distribution(Metric::TokenRate).unwrap();
        assert!(rate.most <= 110_000, "{path}: {}", rate.most);
    }
    let whole = format!("{{{messages}}}");
    let mut flow = to(&running, Protocol::Openai, "/v1/chat/completions", &whole);
    flow.profile = hold(1.0, 200);
    let total = drive(flow).total();
    all_good(&total);
    assert_eq!(total.tokens, total.good * 8);
    assert!(total.distribution(Metric::FirstToken).is_none());
}

#[test]
fn mcp_of_each_revision() {
    let running = start(|_| {});
    let revisions = [
        McpRevision::Session("2025-06-18"),
        McpRevision::Session("2025-11-25"),
        McpRevision::Stateless("2026-07-28"),
    ];
    for revision in revisions {
        let mut flow = to(&running, Protocol::Mcp(revision), "/mcp", "");
        let request = |weight, ask| Request {
            weight,
            path: Template::plain("/mcp"),
            ask: Some(ask),
            ..get()
        };
        let call = Ask::Call {
            tool: "echo".to_owned(),
            arguments: Template::parse("{\"text\":\"${id}\"}", &[], &|_| None).unwrap(),
        };
        flow.requests = vec![
            request(3, call),
            request(1, Ask::List),
            request(0, Ask::Initialize),
        ];
        flow.connections = 2;
        flow.profile = hold(2.0, 200);
        flow.timeout = Duration::from_secs(10);
        let outcome = drive(flow);
        assert_eq!(outcome.failure, None, "{revision:?}");
        all_good(&outcome.kind(0));
        all_good(&outcome.kind(1));
        let opened = match revision {
            McpRevision::Session(_) => 2,
            McpRevision::Stateless(_) => 0,
        };
        assert_eq!(outcome.kind(2).good, opened, "{revision:?}");
    }
}
