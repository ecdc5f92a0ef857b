//! What each target does with its bytes. A panic is a finding; so is an answer that contradicts itself.

mod a2a;
mod beside;
mod bhttp;
mod code;
mod edge;
mod edit;
mod flow_reads;
mod h1;
mod http2;
mod identity;
mod json;
mod lab_k6;
mod llm;
mod replay;
mod runs;
mod sealed;
mod web;

pub use self::a2a::a2a_messages;
pub use self::identity::{identity_jose, identity_proof, identity_x509};
pub use self::llm::{llm_dialect, llm_events, llm_frames, llm_socket};
pub use self::web::{web_robots, web_socket};
pub use beside::{h1_beside_hyper_client, h1_beside_hyper_server};
pub use bhttp::{seal_bhttp, seal_target};
pub use code::{code_desk, code_embedding, code_parse, code_wire};
pub use edge::{net_forwarded, net_proxy};
pub use edit::config_edit;
pub use flow_reads::{flow_documents, flow_import};
pub use h1::{h1_chunked, h1_request, h1_response};
pub use http2::net_http2;
pub use json::json;
pub use lab_k6::lab_k6;
pub use replay::seal_replay;
pub use runs::{run_events, run_start};
pub use sealed::{seal_init, seal_reply, seal_request_opening, seal_response_opening, seal_ticket};

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::sync::{Arc, OnceLock};

use base::{Json, Name, Resource};
use mcp::envelope::{Message, MessageText, Params, Sender};
use policy::{ArgumentType, Context, Policies, Principal, Slice, Source};
use scan::tool::{self, Definition, Names};
use scan::{Direction, Engine, Sessions, Settings, Subject};
use store::disk::MemoryDisk;
use store::{Durability, Log, LogSettings};

fn engine() -> &'static Engine {
    static ENGINE: OnceLock<Engine> = OnceLock::new();
    ENGINE.get_or_init(|| Engine::new(Settings::default(), [7; 32]))
}

/// A JSON document of either direction; what is redacted is JSON again.
pub fn scan_json(data: &[u8]) {
    for direction in [Direction::Outgoing, Direction::Incoming] {
        let Ok(report) = engine().json(direction, data, "params") else {
            continue;
        };
        let redacted = report.redacted(data);
        if serde_json::from_slice::<&serde_json::value::RawValue>(data).is_ok() {
            let again = serde_json::from_slice::<&serde_json::value::RawValue>(&redacted);
            assert!(again.is_ok(), "redaction broke the document");
        }
    }
}

/// A text that is not JSON.
pub fn scan_text(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    for direction in [Direction::Outgoing, Direction::Incoming] {
        if let Ok(report) = engine().text(direction, &text, "text") {
            let redacted = report.redacted(text.as_bytes());
            assert!(
                std::str::from_utf8(&redacted).is_ok(),
                "redaction broke the text"
            );
        }
    }
}

/// A URL: each span of its parts and findings is one of it.
pub fn scan_url(data: &[u8]) {
    let url = String::from_utf8_lossy(data);
    if let Ok(report) = engine().url(Direction::Outgoing, &url, None) {
        for finding in &report.findings {
            assert!(
                url.get(finding.span.clone()).is_some(),
                "a span that is none"
            );
        }
    }
}

/// The parameters of a call, and a JSON-RPC message, in a session.
pub fn scan_call(data: &[u8]) {
    Sessions::default().with("agent", 1, |session| {
        for now_ms in [1, 2] {
            if let Ok(report) =
                engine().call(Direction::Outgoing, data, "params", Some((session, now_ms)))
            {
                let redacted = report.redacted(data);
                if serde_json::from_slice::<&serde_json::value::RawValue>(data).is_ok() {
                    let again = serde_json::from_slice::<&serde_json::value::RawValue>(&redacted);
                    assert!(again.is_ok(), "redaction broke the call");
                }
            }
        }
        let _ = engine().message(Direction::Outgoing, data, Some((session, 3)));
    });
}

/// A text in pieces, of the size that the first byte says: what is clean comes out as it came.
pub fn scan_stream(data: &[u8]) {
    let Some((size, text)) = data.split_first() else {
        return;
    };
    let pieces = text.chunks(usize::from(*size).max(1));
    if let Ok((out, findings)) = scan::in_pieces(engine(), Direction::Incoming, pieces)
        && findings.is_empty()
    {
        assert_eq!(out, text, "a stream changed what is clean");
    }
}

/// A line for `weir scan --jsonl`.
pub fn scan_subject(data: &[u8]) {
    let line = String::from_utf8_lossy(data);
    if let Ok(subject) = Subject::read(&line) {
        let verdict = subject.judge(engine(), Direction::Outgoing.into(), None);
        assert!(
            verdict.block || verdict.bound.is_none(),
            "a bound is a block"
        );
    }
}

/// A file of the operator's rules: the line of a problem is one of the file.
pub fn scan_rules(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    if let Err(problems) = scan::operator_rules(&text) {
        let lines = text.bytes().filter(|byte| *byte == b'\n').count() + 1;
        assert!(
            problems
                .iter()
                .all(|problem| (1..=lines).contains(&problem.line))
        );
    }
}

/// A tool's definition: its canonical form is one too, and what is shown of it can be printed.
pub fn scan_tool(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let shown = tool::shown(&text);
    assert!(
        !shown.chars().any(|c| c.is_control() && c != '\n'),
        "a control character is shown"
    );
    let mut names = Names::default();
    names.add("one", &text);
    assert!(
        names.find("two", &text).is_some(),
        "a name is not like itself"
    );
    if let Ok(definition) = Definition::read(data) {
        assert!(
            Definition::read(definition.as_str().as_bytes()).is_ok(),
            "the canonical form is not JSON"
        );
        let _ = tool::diff("{}", definition.as_str());
        let _ = tool::diff(&text, definition.as_str());
    }
}

/// A JSON-RPC message: what is read is what serde_json reads.
pub fn mcp_envelope(data: &[u8]) {
    let text = MessageText::of(data);
    let _ = text.read(Sender::Server);
    let Ok(message) = text.read(Sender::Agent) else {
        return;
    };
    let value: serde_json::Value = serde_json::from_slice(data).expect("it was read as JSON");
    match message {
        Message::Request { method, params, .. } | Message::Notification { method, params } => {
            assert_eq!(value["method"], *method, "two readers see two methods");
            let _ = Params::read(params);
        }
        Message::Response { .. } => assert!(value.get("method").is_none()),
    }
}

/// A tool's schema and arguments, with a zero byte between: what passes with ambiguous names passes without.
pub fn mcp_arguments(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let Some((schema, arguments)) = text.split_once('\0') else {
        return;
    };
    if mcp::fuzzing::arguments(schema, arguments, true) {
        let same = mcp::fuzzing::arguments(schema, arguments, false);
        assert!(same, "the quick look refuses what the whole one lets pass");
    }
}

/// `Origin`, and texts that only the gateway can have signed.
pub fn mcp_fields(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    if mcp::fuzzing::is_origin(&text) {
        let (_, authority) = text.split_once("://").expect("an origin has a scheme");
        let foreign = ['@', '/', '?', '#', '\\', ' '];
        assert!(
            !authority.contains(foreign),
            "an origin has more than host and port"
        );
    }
    assert!(!mcp::fuzzing::is_token(&text), "a token was forged");
}

/// A message with the fields that carried it: a field in each line before an empty one, and its body.
pub fn mcp_era(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let (head, body) = text.split_once("\n\n").unwrap_or(("", &text));
    mcp::fuzzing::era(head, body.as_bytes());
}

/// A tool's schema in the first line, and the arguments of a call.
pub fn mcp_params(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let (schema, arguments) = text.split_once('\n').unwrap_or((&text, "{}"));
    mcp::fuzzing::params(schema, arguments);
}

/// A body that may be a batch.
pub fn mcp_batch(data: &[u8]) {
    mcp::fuzzing::batch(data);
}

/// Replies of the store that replicas share, and what is made of them.
pub fn cache_replies(data: &[u8]) {
    cache::fuzzing::replies(data);
}

/// An event stream: the same events, however it is cut into pieces.
pub fn net_sse(data: &[u8]) {
    let Some((&cut, stream)) = data.split_first() else {
        return;
    };
    let read = |piece: usize| {
        let (mut reader, mut events) = (net::sse::Reader::new(1 << 16), Vec::new());
        let all = stream
            .chunks(piece.max(1))
            .try_for_each(|piece| reader.push(piece, |event| events.push(event)));
        all.map(|()| events)
    };
    if let (Ok(whole), Ok(pieces)) = (read(stream.len()), read(usize::from(cut))) {
        assert_eq!(whole, pieces, "the cut changed the events");
    }
}

/// The handshake of a WebSocket: what is accepted is one, as its fields say by themselves.
pub fn net_ws(data: &[u8]) {
    let mut fields = [httparse::EMPTY_HEADER; 32];
    let mut request = httparse::Request::new(&mut fields);
    if request.parse(data).is_err() {
        return;
    }
    let method = request.method.unwrap_or_default();
    let mut head = http::Request::builder().method(method).uri("/");
    for field in request
        .headers
        .iter()
        .filter(|field| !field.name.is_empty())
    {
        head = head.header(field.name, field.value);
    }
    let Ok(head) = head.body(()) else { return };
    let (head, ()) = head.into_parts();
    let Ok(offer) = net::WebSocketOffer::read(&head) else {
        return;
    };
    assert!(head.method == "GET" && head.headers["sec-websocket-version"] == "13");
    assert_eq!(head.headers["sec-websocket-key"].len(), 24);
    let mut protocols: Vec<&str> = offer.protocols().collect();
    let count = protocols.len();
    protocols.sort_unstable();
    protocols.dedup();
    assert!(
        count <= 32 && protocols.len() == count,
        "a protocol is offered twice"
    );
    assert!(
        protocols
            .iter()
            .all(|one| !one.is_empty() && !one.contains(','))
    );
}

/// An agent's key: what is accepted is 48 characters that begin as keys do.
pub fn identity_key(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    if ::identity::key_digest(text).is_some() {
        assert!(text.len() == 48 && text.starts_with("weir_"));
    }
}

/// The Authorization field: a stranger stays one, whatever stands there.
pub fn identity_field(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let presented = ::identity::Presented::bearer(Some(text), Ipv4Addr::LOCALHOST.into());
    let known = ::identity::verify(&presented, |_| None, 0);
    assert!(known.is_err_and(|refusal| refusal.code.name.starts_with("agent.key_")));
}

/// The arguments of a tool call, read by policies of each type.
pub fn policy_arguments(data: &[u8]) {
    let tool = || Resource::tool(Name::new("s").expect("a name"), "t");
    static SLICE: OnceLock<Arc<Slice>> = OnceLock::new();
    let slice = SLICE.get_or_init(|| {
        let types = [
            ("s", ArgumentType::String),
            ("n", ArgumentType::Long),
            ("b", ArgumentType::Bool),
        ];
        let declared: BTreeMap<String, ArgumentType> = types
            .into_iter()
            .map(|(name, kind)| (name.to_owned(), kind))
            .collect();
        let text = r#"permit (principal, action, resource);
            forbid (principal, action == Action::"mcp:call", resource) when {
                context.arguments has s && context.arguments.s like "*x*" ||
                context.arguments has n && context.arguments.n > 7 ||
                context.arguments has b && context.arguments.b };"#;
        let sources = [Source {
            file: "fuzz.cedar",
            text,
        }];
        let policies =
            Policies::load(&[&mcp::LANE], &sources, &declared).expect("the policy is valid");
        let name = |text| Name::new(text).expect("a name");
        let principal = Arc::new(Principal {
            name: name("a"),
            groups: vec![],
        });
        let slice = policies.slice(&principal, &mcp::actions::CALL, &tool());
        slice.expect("a tool is what the action goes with")
    });
    let Ok(arguments) = Json::read(data) else {
        return;
    };
    let context = Context {
        method: "tools/call",
        peer: IpAddr::V4(Ipv4Addr::LOCALHOST),
        unix_ms: 0,
        arguments: Some(arguments.root()),
    };
    let _ = slice.admit(&tool(), &context);
}

/// A signed note and a checkpoint; no note that the fuzzer makes is signed by this key.
pub fn store_note(data: &[u8]) {
    static VERIFIER: OnceLock<store::note::Verifier> = OnceLock::new();
    let verifier = VERIFIER.get_or_init(|| {
        let signer = store::note::Signer::new("weir.example/log", &[3; 32]).expect("a signer");
        store::note::Verifier::parse(&signer.vkey()).expect("its own key")
    });
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    assert!(verifier.open(text).is_err(), "a signature was forged");
    let _ = store::note::read_checkpoint(text);
    let _ = store::note::split_history(text);
    let _ = store::note::Verifier::parse(text);
}

/// The files of a log as a broken disk leaves them: opening ends, with a log or with an error.
pub fn store_log(data: &[u8]) {
    let disk = MemoryDisk::new();
    let settings = LogSettings {
        origin: "weir.example/log".to_owned(),
        durability: Durability::Os,
        bytes_max: 64 << 20,
    };
    let log = Log::open_on(Arc::new(disk.clone()), Path::new("log"), settings.clone());
    let log = log.expect("an empty disk");
    log.close().expect("a disk that does not fail");
    drop(log);
    let names = store::disk::Disk::list(&disk).expect("a disk that does not fail");
    let Some((&which, bytes)) = data.split_first() else {
        return;
    };
    let mut names: Vec<String> = names.into_iter().map(|(name, _)| name).collect();
    names.sort();
    if let Some(name) = names.get(usize::from(which) % names.len().max(1)) {
        disk.tamper(name, Some(bytes.to_vec()));
    }
    if let Ok(log) = Log::open_on(Arc::new(disk), Path::new("log"), settings) {
        let _ = log.close();
    }
}

/// An event stream as the generator reads it: the same events, however it is cut, and no event that its readers
/// choke on.
pub fn lab_sse(data: &[u8]) {
    use lab::engine::wire::{llm, rpc, sse};
    let Some((&cut, stream)) = data.split_first() else {
        return;
    };
    let read = |piece: usize| {
        let (mut parser, mut events) = (sse::Parser::new(), Vec::new());
        let mut show = |event: sse::Event| events.push((event.name.to_vec(), event.data.to_vec()));
        let all = stream
            .chunks(piece.max(1))
            .try_for_each(|piece| parser.push(piece, &mut show));
        (all, events, parser.last_id().to_vec(), parser.retry_ms())
    };
    let whole = read(stream.len());
    assert_eq!(whole, read(usize::from(cut)), "the cut changed the events");
    for (name, data) in &whole.1 {
        let event = sse::Event { name, data };
        for dialect in [llm::Dialect::Openai, llm::Dialect::Anthropic] {
            let _ = llm::Reader::new(dialect).event(event);
        }
        let _ = rpc::answer(data, 1);
    }
}

/// A scenario file: every problem of it names a line that it has.
pub fn lab_scenario(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let Err(problems) = lab::scenario::read_text(text) else {
        return;
    };
    assert!(!problems.is_empty() && problems.len() <= config::PROBLEMS_MAX);
    // YAML 1.2 ends a line with LF, CR or both.
    let lines = text.matches(['\n', '\r']).count() + 1;
    for problem in problems {
        let line = problem.line;
        assert!(
            (1..=lines + 1).contains(&line),
            "{problem}: there are {lines} lines"
        );
    }
}

/// Facts of others: whatever their numbers are, they are sized and shown, and a certificate has one digest.
pub fn lab_facts(data: &[u8]) {
    use lab::facts::size::{SizeWanted, Sizing};
    use lab::report::{experiments, sheet};
    if let Ok(tree) = serde_json::from_slice::<serde_json::Value>(data) {
        let digest = lab::facts::certificate::digest(&tree);
        let again = serde_json::to_vec_pretty(&tree).expect("it came from JSON");
        let again: serde_json::Value = serde_json::from_slice(&again).expect("it was just written");
        if again == tree {
            assert_eq!(digest, lab::facts::certificate::digest(&again));
        }
    }
    let Ok(facts) = lab::facts::Facts::parse(data) else {
        return;
    };
    let mut sheets = Vec::new();
    for sweep in &facts.sweeps {
        sheets.push(experiments::sweep::sheet(sweep));
        let wanted = SizeWanted {
            peak: Some(3000.0),
            payload_bytes: sweep.cost.is_some().then_some(5000),
            utilisation: 0.6,
            derate: 0.1,
            ha: true,
            clients: vec![0.1, 10.0],
            cpu_rates: vec![100.0],
            p99_us: Some(1e6),
        };
        if let Ok(size) = Sizing::of(sweep, None, wanted) {
            sheets.push(experiments::size::sheet(&size));
        }
    }
    sheets.extend(facts.soaks.iter().map(experiments::soak::sheet));
    sheets.extend(
        facts
            .certificates
            .iter()
            .map(experiments::certificate::sheet),
    );
    sheets.extend(facts.sizes.iter().map(experiments::size::sheet));
    for one in &sheets {
        assert!(!sheet::page(one).contains("<script"));
        let _ = (sheet::markdown(one), sheet::text(one));
        one.grids().for_each(|grid| drop(grid.csv()));
    }
}

/// An answer of HTTP/1.1: the same, however it is cut and whether or not its head is known already.
pub fn lab_answer(data: &[u8]) {
    use lab::engine::fast::answer::{Reader, Remembered};
    let Some((&cut, answer)) = data.split_first() else {
        return;
    };
    let read = |piece: usize, remembered: &mut Remembered| {
        let (mut reader, mut heard, mut used) = (Reader::default(), Heard::default(), 0);
        // The lowest bit says whether it answers a HEAD request.
        reader.begin(cut & 1 == 1);
        for bytes in answer.chunks(piece.max(1)) {
            let fed = reader
                .feed(bytes, remembered, &mut heard)
                .map_err(|wrong| format!("{wrong:?}"))?;
            assert!(
                fed.used == bytes.len() || fed.done && fed.used < bytes.len(),
                "bytes were lost"
            );
            used += fed.used;
            if fed.done {
                return Ok((heard, used, true, reader.keeps_connection()));
            }
        }
        Ok::<_, String>((heard, used, reader.ends_by_close(), false))
    };
    let mut remembered = Remembered::default();
    let whole = read(answer.len(), &mut remembered);
    assert_eq!(
        whole,
        read(answer.len(), &mut remembered),
        "a known head was read otherwise"
    );
    assert_eq!(
        whole,
        read(usize::from(cut), &mut Remembered::default()),
        "the cut changed the answer"
    );
    if let Ok((heard, used, _, _)) = whole {
        assert!(
            heard.body.len() <= used && used <= answer.len(),
            "the body is longer than what came"
        );
    }
}

/// What the reader of answers told.
#[derive(Debug, Default, PartialEq)]
struct Heard {
    status: u16,
    body: Vec<u8>,
}

impl lab::engine::fast::answer::Listener for Heard {
    fn wants_fields(&self) -> bool {
        false
    }

    fn head(&mut self, status: u16, _: &[httparse::Header<'_>]) {
        self.status = status;
    }

    fn body(&mut self, piece: &[u8]) {
        self.body.extend_from_slice(piece);
    }
}
