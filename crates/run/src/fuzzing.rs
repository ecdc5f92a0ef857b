//! Entrances for the fuzzer to readers that nothing outside this crate calls. Each panics where what was read contradicts itself.

use base::{CallId, Name, Now};

use crate::body::StartBody;
use crate::event::{EventLine, HeardEvent, RunEvent};
use crate::listen::EventWriter;
use crate::settings::{RunAgent, RunLimits, Settings};
use crate::shapes::a2a;
use crate::shapes::agui::{self, AgUiWriter};
use crate::shapes::chat;
use crate::shapes::responses::{self, ResponseWriter};

/// A body that starts a run, in each shape: what is read is a plan of the one agent that there is, or of what it brings itself.
pub fn start(body: &[u8]) {
    let settings = settings();
    let read = [
        StartBody::read(body),
        chat::read(body, &settings),
        responses::read(body),
        agui::read(body, "triage").map(|(start, _)| start),
        a2a::read(body)
            .map_err(|no| no.refusal)
            .and_then(|asked| asked.start("triage", None)),
    ];
    for start in read.into_iter().flatten() {
        if let Ok(plan) = start.plan(&settings) {
            assert!(plan.agent == "triage" || plan.agent == "own");
            assert!(!plan.input.is_empty());
            assert!(plan.limits.steps <= settings.own.steps);
        }
    }
    if let Ok(text) = std::str::from_utf8(body) {
        let body = chat::body_of(text.to_owned());
        let read: serde_json::Value = serde_json::from_str(&body).expect("it is JSON");
        assert!(read["message"].is_string());
    }
}

/// Events of a run, one to a line, as they stand in its file: each shape says them, and begins and ends what it says.
pub fn events(lines: &[u8]) {
    let mut response = ResponseWriter::new("run_1", "triage", 0, None);
    let names = br#"{"threadId":"t","runId":"r","messages":[{"role":"user","content":"x"}]}"#;
    let (_, names) = agui::read(names, "triage").expect("it is an input");
    let mut ag_ui = AgUiWriter::new(names, "run_1");
    let mut said = String::new();
    for line in String::from_utf8_lossy(lines).lines() {
        if let Some((heard, _)) = HeardEvent::read(line) {
            said.push_str(&response.write(&heard));
            ag_ui.write(&heard);
        }
    }
    let end = EventLine {
        id: u64::MAX,
        at: String::new(),
        event: RunEvent::Cancelled {
            usage: Default::default(),
        },
    };
    let end = serde_json::to_string(&end).expect("an event is JSON");
    let (heard, _) = HeardEvent::read(&end).expect("it is an event");
    said.push_str(&response.write(&heard));
    let count = |name: &str| said.lines().filter(|line| *line == name).count();
    let begun = count("event: response.output_item.added");
    let ended = count("event: response.output_item.done");
    assert_eq!(begun, ended, "an item is begun and not ended");
}

fn settings() -> Settings {
    let limits = RunLimits {
        steps: 20,
        tokens: None,
        money: None,
        time_ms: 60_000,
    };
    Settings {
        agents: vec![RunAgent {
            name: Name::new("triage").expect("it is a name"),
            model: "smart".into(),
            instructions: String::new(),
            tools: Vec::new(),
            limits,
            callback: None,
        }],
        own: limits,
        servers: vec![Name::new("tracker").expect("it is a name")],
        at_once: 1,
        agent_at_once: 1,
        keep_ms: 1,
        bytes_max: 1,
        body_bytes_max: 1,
        origins: Vec::new(),
        public_url: None,
        new_id: || CallId([0; 16]),
        now: || Now {
            unix_ms: 0,
            mono_ms: 0,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A seed of the fuzzer, whole, cut at each byte, and with each byte another.
    fn each(seed: &[u8], read: fn(&[u8])) {
        for at in 0..=seed.len() {
            read(&seed[..at]);
            let mut other = seed.to_vec();
            if let Some(byte) = other.get_mut(at) {
                *byte ^= 1;
                read(&other);
            }
        }
    }

    #[test]
    fn starts_in_each_shape_are_read_or_refused() {
        each(include_bytes!("../../../fuzz/seeds/run_start/0"), start);
        each(include_bytes!("../../../fuzz/seeds/run_start/1"), start);
        each(include_bytes!("../../../fuzz/seeds/run_start/2"), start);
        each(include_bytes!("../../../fuzz/seeds/run_start/3"), start);
    }

    #[test]
    fn what_is_begun_is_ended_in_each_shape() {
        each(include_bytes!("../../../fuzz/seeds/run_events/0"), events);
    }
}
