//! Streams of events and of models, with the pace that the server was told.

use std::time::Duration;

use lab::plan::{BodyCheck, Protocol};
use lab::tally::{Fault, Metric, Tally};

use crate::rig::{Act, Raw, chunk, drive, events, faults, flow, hold, json, last_chunk};

const FIRST: Duration = Duration::from_millis(40);
const GAP: Duration = Duration::from_millis(15);

/// One stream: after `FIRST` the pieces come, a `GAP` between two.
fn paced(before: &[&str], pieces: &[String], after: &[&str], end: Act) -> Vec<Act> {
    let mut acts = vec![events()];
    acts.extend(before.iter().map(|text| chunk(text)));
    for (number, piece) in pieces.iter().enumerate() {
        acts.push(Act::Pause(if number == 0 { FIRST } else { GAP }));
        acts.push(chunk(piece));
    }
    acts.extend(after.iter().map(|text| chunk(text)));
    acts.push(end);
    acts
}

/// One run of a few streams.
fn run(raw: &Raw, protocol: Protocol) -> Tally {
    let mut flow = flow(raw.address);
    flow.protocol = protocol;
    flow.profile = hold(1.0, 200);
    let outcome = drive(flow);
    assert_eq!(outcome.failure, None);
    let total = outcome.total();
    assert_eq!(total.sent, raw.requests());
    total
}

/// Checks the pace of a run whose streams have so many tokens.
fn check_pace(total: &Tally, tokens: u64, counted: u64) {
    let streams = total.sent;
    assert!(streams >= 1);
    assert_eq!(total.good, streams, "{:?}", total.faults);
    assert_eq!(total.tokens, counted * streams);
    let first = total.distribution(Metric::FirstToken).unwrap();
    assert_eq!(first.count(), streams);
    let within = |ns: u64, least: Duration| {
        let found = Duration::from_nanos(ns);
        assert!(
            found >= least - Duration::from_millis(1),
            "{found:?} is before {least:?}"
        );
        assert!(
            found < least + Duration::from_secs(2),
            "{found:?} is long after {least:?}"
        );
    };
    within(first.least, FIRST);
    let gaps = total.distribution(Metric::TokenGap).unwrap();
    assert_eq!(gaps.count(), streams * (tokens - 1));
    // The sum of the gaps is what the server paused, whatever single ones are.
    let mean = gaps.sum / u128::from(gaps.count());
    within(mean as u64, GAP);
    let rate = total.distribution(Metric::TokenRate).unwrap();
    assert_eq!(rate.count(), streams);
    let fastest = (counted as f64 - 1.0) / (GAP * (tokens as u32 - 1)).as_secs_f64();
    assert!(
        rate.most as f64 / 1000.0 <= fastest * 1.1,
        "{} of {fastest}",
        rate.most
    );
}

fn openai_pieces() -> Vec<String> {
    let piece = |n| format!("data: {{\"choices\":[{{\"delta\":{{\"content\":\"w{n}\"}}}}]}}\n\n");
    (0..5).map(piece).collect()
}

#[test]
fn openai_with_usage() {
    let role = "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n";
    let usage = "data: {\"choices\":[],\"usage\":{\"completion_tokens\":9}}\n\ndata: [DONE]\n\n";
    let raw = Raw::new(move |_| paced(&[role], &openai_pieces(), &[usage], last_chunk()));
    check_pace(&run(&raw, Protocol::Openai), 5, 9);
}

#[test]
fn anthropic() {
    let start = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{}}\n\n";
    let stop = "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n";
    let piece = |n| {
        let data = format!("{{\"type\":\"content_block_delta\",\"delta\":{{\"text\":\"{n}\"}}}}");
        format!("event: content_block_delta\ndata: {data}\n\n")
    };
    let raw = Raw::new(move |_| {
        let pieces: Vec<String> = (0..4).map(piece).collect();
        paced(&[start], &pieces, &[stop], last_chunk())
    });
    check_pace(&run(&raw, Protocol::Anthropic), 4, 4);
}

#[test]
fn plain_events() {
    let raw = Raw::new(move |heard| {
        assert_eq!(heard.header("accept"), Some("text/event-stream"));
        let pieces: Vec<String> = (0..3).map(|n| format!("id: {n}\ndata: {n}\n\n")).collect();
        paced(&[": hello\n\n"], &pieces, &[], last_chunk())
    });
    check_pace(&run(&raw, Protocol::Sse), 3, 3);
}

#[test]
fn an_answer_that_is_not_streamed() {
    let raw = Raw::new(|_| json("", serde_json::json!({"usage": {"completion_tokens": 3}})));
    let total = run(&raw, Protocol::Openai);
    assert_eq!(total.failures(), 0, "{:?}", total.faults);
    assert_eq!(total.tokens, total.good * 3);
    assert!(total.distribution(Metric::FirstToken).is_none());
}

#[test]
fn streams_that_do_not_end_well() {
    let done = "data: [DONE]\n\n";
    let error = "data: {\"error\":{\"message\":\"overloaded\"}}\n\n";
    for (after, cut) in [(vec![], false), (vec![], true), (vec![error, done], false)] {
        let raw = Raw::new(move |_| {
            let end = if cut { Act::Close } else { last_chunk() };
            paced(&[], &openai_pieces(), &after, end)
        });
        let total = run(&raw, Protocol::Openai);
        assert_eq!(
            faults(&total, Fault::Stream),
            total.sent,
            "{:?}",
            total.faults
        );
        assert_eq!((total.good, total.completed), (0, total.sent));
        assert_eq!(
            total.distribution(Metric::FirstToken).unwrap().count(),
            total.sent
        );
        assert!(total.distribution(Metric::TokenRate).is_none());
    }
}

#[test]
fn what_is_no_stream_is_no_answer() {
    let raw = Raw::new(|_| crate::rig::answer(200, "content-type: text/html\r\n", b"<html>"));
    for protocol in [Protocol::Sse, Protocol::Openai, Protocol::Anthropic] {
        let mut flow = flow(raw.address);
        flow.protocol = protocol;
        flow.profile = hold(1.0, 200);
        let outcome = drive(flow);
        let total = outcome.total();
        assert_eq!(
            faults(&total, Fault::Protocol),
            total.sent,
            "{:?}",
            total.faults
        );
        assert!(
            outcome.notes[0].what.contains("content type"),
            "{:?}",
            outcome.notes[0]
        );
    }
}

#[test]
fn a_stream_is_checked_as_it_comes() {
    let raw = Raw::new(|_| {
        let acts = ["data: nee", "dle\n", "\n"].map(chunk);
        let mut all = vec![events()];
        all.extend(acts);
        all.push(last_chunk());
        all
    });
    for (text, good) in [("needle", true), ("noodle", false)] {
        let mut flow = flow(raw.address);
        flow.protocol = Protocol::Sse;
        flow.profile = hold(1.0, 200);
        flow.requests[0].expect.body = BodyCheck::Contains(text.as_bytes().to_vec());
        let total = drive(flow).total();
        let expected = if good { 0 } else { total.sent };
        assert_eq!(faults(&total, Fault::Check), expected, "{:?}", total.faults);
        assert_eq!(total.tokens, total.sent);
    }
}

#[test]
fn a_stream_without_an_end_is_a_timeout() {
    let raw = Raw::new(|_| {
        let mut acts = vec![events()];
        for _ in 0..100 {
            acts.push(chunk("data: x\n\n"));
            acts.push(Act::Pause(Duration::from_millis(10)));
        }
        acts
    });
    let mut flow = flow(raw.address);
    flow.protocol = Protocol::Sse;
    flow.timeout = Duration::from_millis(200);
    flow.profile = hold(1.0, 150);
    let total = drive(flow).total();
    assert!(total.sent >= 1);
    assert_eq!(
        faults(&total, Fault::Timeout),
        total.sent,
        "{:?}",
        total.faults
    );
    assert!(total.distribution(Metric::TokenGap).unwrap().count() >= 1);
}
