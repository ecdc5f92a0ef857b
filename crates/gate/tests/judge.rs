//! The one judge: stops, revocation, budgets, text in pieces, calls tried again, and those who have a say outside.

#![expect(clippy::disallowed_types, reason = "a test has a runtime")]

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex};

use base::record::{CallEnd, Usage};
use base::{CallId, Digest, Json, Lane, Name, Now, Refusal, Resource};
use gate::ports::{
    Advice, Advisor, Clock, Directory, Hold, Holds, Meter, OnceIds, Ports, Question, RecordError,
    Recorder, Reply,
};
use gate::{
    Asker, Call, CallEnding, Channel, ContentPart, Cost, Gate, PartContent, Passed, Rates, Repeat,
    Role, Rules, Stops,
};
use identity::{Agent, AgentState, Presented, Verified};
use mcp::actions::{CALL, USE};
use store::{Agents, Limits};
use tokio::sync::oneshot;

static LANES: &[&Lane] = &[&mcp::LANE];

const PEER: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const SECRET_PARTS: [&str; 2] = ["ghp_", "16C7e42F292c6912E7710c838347Ae178B4a"];

/// Records, a clock that is set by hand, and agents that change.
struct World {
    records: Mutex<Vec<serde_json::Value>>,
    mono_ms: AtomicU64,
    agents: Mutex<Arc<Agents>>,
}

impl Recorder for World {
    fn append(&self, record: Vec<u8>) -> oneshot::Receiver<Result<u64, RecordError>> {
        self.note(record);
        let (answer, receiver) = oneshot::channel();
        let _ = answer.send(Ok(0));
        receiver
    }

    fn note(&self, record: Vec<u8>) {
        let record = serde_json::from_slice(&record).expect("a record is JSON");
        self.records
            .lock()
            .expect("no test panics here")
            .push(record);
    }

    fn trouble(&self) -> Option<RecordError> {
        None
    }
}

impl Clock for World {
    fn now(&self) -> Now {
        let mono_ms = self.mono_ms.load(Ordering::Relaxed);
        Now {
            unix_ms: 1_800_000_000_000 + mono_ms,
            mono_ms,
        }
    }

    /// Time passes for whoever waits.
    fn after(&self, ms: u64) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        self.mono_ms.fetch_add(ms, Ordering::Relaxed);
        Box::pin(std::future::ready(()))
    }
}

impl Directory for World {
    fn epoch(&self) -> u64 {
        self.known().epoch()
    }

    fn agent_by_key(&self, key: &Digest) -> Option<Arc<Agent>> {
        self.known().agent_by_key(key)
    }

    fn agent_by_thumbprint(&self, thumbprint: &Digest) -> Option<Arc<Agent>> {
        self.known().agent_by_thumbprint(thumbprint)
    }
}

impl Meter for World {
    fn judged(&self, _: &Resource, _: Option<&'static str>) {}
    fn ended(&self, _: &Resource, _: CallEnd, _: u64) {}
    fn found(&self, _: &'static str, _: &'static str) {}
}

impl World {
    fn known(&self) -> Arc<Agents> {
        Arc::clone(&self.agents.lock().expect("no test panics here"))
    }

    fn last(&self) -> serde_json::Value {
        let records = self.records.lock().expect("no test panics here");
        records.last().cloned().expect("there is a record")
    }
}

fn name(text: &str) -> Name {
    Name::new(text).expect("a name")
}

fn tool(server: &str) -> Resource {
    Resource::tool(name(server), "echo")
}

struct Rig {
    gate: Arc<Gate>,
    world: Arc<World>,
    key: (String, Digest),
    runtime: tokio::runtime::Runtime,
}

fn agents(key: Digest, state: AgentState, epoch: u64) -> Arc<Agents> {
    let agent = Arc::new(Agent {
        name: name("dev"),
        groups: vec![name("engineers")],
        state,
        expires_unix_ms: Some(1_800_000_900_000),
    });
    Arc::new(Agents::new([(key, agent)].into_iter()).at_epoch(epoch))
}

/// A gate that permits all of the servers `files` and `web`, 100 calls and 1,000 tokens a minute.
fn rig(with: impl FnOnce(Ports) -> Ports) -> Rig {
    let (text, digest) = identity::new_key([9; 32]);
    let world = Arc::new(World {
        records: Mutex::default(),
        mono_ms: AtomicU64::new(5),
        agents: Mutex::new(agents(digest, AgentState::Active, 1)),
    });
    let ports = Ports::new(
        world.clone(),
        Arc::new(Limits::new()),
        world.clone(),
        world.clone(),
        world.clone(),
    );
    let source = policy::Source {
        file: "test.cedar",
        text: "permit (principal, action, resource in Server::\"files\");
               permit (principal, action, resource in Server::\"web\");",
    };
    let policies = policy::Policies::load(LANES, &[source], &BTreeMap::new());
    let reach = ["files", "web", "other"].map(|server| (name(server), gate::Reach::default()));
    let rules = Rules {
        policies: policies.expect("a valid policy"),
        engine: scan::Engine::new(scan::Settings::default(), [7; 32]),
        rates: Rates {
            agent_tokens_per_minute: Some(1_000),
            ..Rates::of_agent(100)
        },
        budgets: Vec::new(),
        reach: reach.into(),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    Rig {
        gate: Arc::new(Gate::new(with(ports), rules)),
        world,
        key: (format!("Bearer {}", text.expose()), digest),
        runtime: runtime.expect("a runtime"),
    }
}

static JSON: LazyLock<Json<'static>> = LazyLock::new(|| {
    let params = br#"{"name":"echo","arguments":{"text":"hello"}}"#;
    Json::read(params).expect("JSON")
});
static CONTENT: LazyLock<[ContentPart<'static>; 1]> = LazyLock::new(|| {
    [ContentPart {
        role: Role::Argument,
        path: "params",
        content: PartContent::Json(JSON.root()),
    }]
});

fn call<'a>(id: u8, resource: &'a Resource) -> Call<'a> {
    Call {
        content: &*CONTENT,
        ..Call::new(CallId([id; 16]), PEER, &CALL, resource, "tools/call")
    }
}

impl Rig {
    fn verify(&self) -> Result<Verified, Refusal> {
        let resource = tool("files");
        let presented = Presented::bearer(Some(&self.key.0), PEER);
        let call = call(0, &resource);
        let verified = self.gate.verify(&call, &presented);
        self.runtime.block_on(verified)
    }

    fn pass(&self, call: Call<'_>) -> Result<Passed, Refusal> {
        let verified = self.verify()?;
        self.runtime.block_on(self.gate.pass(verified, call))
    }

    /// The code of the refusal of a call, if it is refused.
    fn refused(&self, call: Call<'_>) -> Option<&'static str> {
        self.pass(call).err().map(|refusal| refusal.code.name)
    }
}

fn as_ports(ports: Ports) -> Ports {
    ports
}

#[test]
fn a_record_says_who_by_what_and_in_which_trace() {
    let rig = rig(as_ports);
    let resource = tool("files");
    let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let call = Call {
        trace: Some(trace),
        ..call(1, &resource)
    };
    drop(rig.pass(call).expect("it passes"));
    let records = rig.world.records.lock().expect("no test panics here");
    assert_eq!(records[0]["groups"], serde_json::json!(["engineers"]));
    assert_eq!(
        (&records[0]["by"], &records[0]["trace"]),
        (&"key".into(), &trace.into())
    );
    assert_eq!(records[1]["end"], "cut");
}

#[test]
fn a_stop_refuses_what_comes_and_ends_what_runs() {
    let rig = rig(as_ports);
    let resource = tool("files");
    let mut woken = rig.gate.stops();
    for stops in [
        Stops {
            all: true,
            ..Stops::default()
        },
        Stops {
            lanes: vec!["mcp".into()],
            ..Stops::default()
        },
        Stops {
            agents: vec![name("dev")],
            ..Stops::default()
        },
    ] {
        let running = rig
            .pass(call(1, &resource))
            .expect("nothing is stopped yet");
        let asker = Asker::Agent(rig.verify().expect("the key is good"));
        let bare = Call::new(CallId([2; 16]), PEER, &CALL, &resource, "grant");
        let grant = rig.runtime.block_on(rig.gate.grant(asker, bare));
        let grant = Rc::new(grant.expect("nothing is stopped yet"));
        assert!(running.is_in_force() && grant.call(rig.world.now()).is_some());
        rig.gate.stop(stops.clone());
        assert!(woken.has_changed().expect("the gate is there"));
        assert_eq!(**woken.borrow_and_update(), stops);
        assert!(!running.is_in_force() && grant.call(rig.world.now()).is_none());
        assert_eq!(rig.refused(call(3, &resource)), Some("gate.stopped"));
        assert_eq!(rig.world.last()["refusal"], "gate.stopped");
        rig.gate.stop(Stops::default());
        assert!(running.is_in_force());
    }
}

#[test]
fn an_agent_that_goes_while_its_body_comes_is_refused() {
    let rig = rig(as_ports);
    let resource = tool("files");
    let become_known = |agents: Arc<Agents>| {
        *rig.world.agents.lock().expect("no test panics here") = agents;
    };
    let changes = [
        (agents(rig.key.1, AgentState::Active, 2), None),
        (
            agents(rig.key.1, AgentState::Suspended, 3),
            Some("agent.suspended"),
        ),
        (
            agents(rig.key.1, AgentState::Revoked, 4),
            Some("agent.revoked"),
        ),
        (
            Arc::new(Agents::default().at_epoch(5)),
            Some("agent.key_unknown"),
        ),
    ];
    for (id, (changed, refused)) in (1..).zip(changes) {
        become_known(agents(rig.key.1, AgentState::Active, 1));
        let verified = rig.verify().expect("the key is good");
        become_known(changed);
        let passed = rig.gate.pass(verified, call(id, &resource));
        let passed = rig.runtime.block_on(passed);
        assert_eq!(passed.err().map(|refusal| refusal.code.name), refused);
    }
    become_known(agents(rig.key.1, AgentState::Active, 1));
    let verified = rig.verify().expect("the key is good");
    rig.world.mono_ms.store(900_000, Ordering::Relaxed);
    let passed = rig
        .runtime
        .block_on(rig.gate.pass(verified, call(9, &resource)));
    assert_eq!(
        passed.err().map(|refusal| refusal.code.name),
        Some("agent.key_expired")
    );
}

#[test]
fn an_agent_that_is_gone_loses_what_runs() {
    let rig = rig(as_ports);
    let resource = tool("files");
    let running = rig.pass(call(1, &resource)).expect("it passes");
    let asker = Asker::Agent(rig.verify().expect("the key is good"));
    let bare = Call::new(CallId([2; 16]), PEER, &CALL, &resource, "grant");
    let grant = rig.runtime.block_on(rig.gate.grant(asker, bare));
    let grant = Rc::new(grant.expect("it passes"));
    let become_known = |agents: Arc<Agents>| {
        *rig.world.agents.lock().expect("no test panics here") = agents;
    };
    // The directory changed and still has the agent: the call goes on, and a grant is asked for anew.
    become_known(agents(rig.key.1, AgentState::Active, 2));
    assert!(running.is_in_force() && grant.call(rig.world.now()).is_none());
    become_known(agents(rig.key.1, AgentState::Suspended, 3));
    assert!(!running.is_in_force());
    assert_eq!(rig.refused(call(3, &resource)), Some("agent.suspended"));
    become_known(Arc::new(Agents::default().at_epoch(4)));
    assert!(!running.is_in_force());
    assert_eq!(rig.refused(call(4, &resource)), Some("agent.key_unknown"));
    become_known(agents(rig.key.1, AgentState::Active, 5));
    assert!(running.is_in_force());
    rig.world.mono_ms.store(900_000, Ordering::Relaxed);
    assert!(!running.is_in_force(), "its key expired meanwhile");
}

#[test]
fn tokens_are_reserved_before_and_settled_by_what_was_used() {
    let rig = rig(as_ports);
    let resource = tool("files");
    let costs = |id, tokens| Call {
        cost: Cost {
            input: tokens,
            ..Cost::default()
        },
        ..call(id, &resource)
    };
    let end = |passed: Passed, end, used: Option<u64>| {
        let usage = used.map(|output| Usage {
            output,
            ..Usage::default()
        });
        passed.end(CallEnding {
            usage,
            ..CallEnding::of(end)
        });
    };
    let first = rig.pass(costs(1, 600)).expect("there is room");
    assert_eq!(rig.refused(costs(2, 500)), Some("limit.tokens"));
    end(first, CallEnd::Complete, Some(100));
    assert_eq!(rig.world.last()["usage"]["output"], 100);
    // A stream that broke costs the larger of what was counted and what was reserved.
    let broken = rig.pass(costs(3, 500)).expect("there is room again");
    end(broken, CallEnd::Cut, Some(20));
    assert_eq!(rig.refused(costs(4, 401)), Some("limit.tokens"));
    // One that is dropped costs what was reserved, and one that is refused costs nothing.
    drop(rig.pass(costs(5, 300)).expect("there is room"));
    let elsewhere = tool("other");
    let refused = Call {
        resource: &elsewhere,
        ..costs(6, 100)
    };
    assert_eq!(rig.refused(refused), Some("policy.forbidden"));
    assert_eq!(rig.refused(costs(7, 101)), Some("limit.tokens"));
    assert!(rig.pass(costs(8, 100)).is_ok());
}

#[test]
fn a_secret_over_several_pieces_is_found_in_each_channel_by_itself() {
    let rig = rig(as_ports);
    let resource = tool("files");
    let mut passed = rig.pass(call(1, &resource)).expect("it passes");
    let (begin, end) = SECRET_PARTS[1].split_at(12);
    let pieces = [
        "the key is ",
        SECRET_PARTS[0],
        begin,
        end,
        " and that is all",
    ];
    let mut mixed = [
        Channel::new(Role::User, "messages[0]"),
        Channel::new(Role::User, "messages[1]"),
    ];
    let mut out = [Vec::new(), Vec::new()];
    let mut refused = None;
    for piece in pieces {
        // The other channel says something harmless in between.
        let harmless = mixed[1].push(&mut passed, b"all is well ", &mut out[1]);
        harmless.expect("nothing is wrong with it");
        let pushed = mixed[0].push(&mut passed, piece.as_bytes(), &mut out[0]);
        refused = refused.or(pushed.err());
    }
    let refusal = refused
        .or_else(|| mixed[0].finish(&mut passed, &mut out[0]).err())
        .expect("the secret is refused");
    assert_eq!(refusal.code.name, "scan.secret");
    assert!(refusal.public.contains("messages[0]"), "{refusal:?}");
    let sent = String::from_utf8_lossy(&out[0]).into_owned();
    assert!(!sent.contains(begin), "{sent}");
    let after = mixed[0].push(&mut passed, b"more", &mut out[0]);
    assert!(after.is_err(), "a text that was cut takes nothing any more");
    let rest = mixed[1].finish(&mut passed, &mut out[1]);
    rest.expect("the other channel goes on");
    assert_eq!(out[1], b"all is well ".repeat(5));
    drop(passed);
    let outcome = rig.world.last();
    assert_eq!(outcome["findings"][0]["path"], "messages[0]");
}

#[test]
fn a_call_that_is_tried_again_is_asked_anew_and_named_in_the_record() {
    let rig = rig(as_ports);
    let (files, web, other) = (tool("files"), tool("web"), tool("other"));
    let may_repeat = |id, resource| Call {
        repeat: Repeat::Maybe,
        ..call(id, resource)
    };
    let first = rig.pass(may_repeat(1, &files)).expect("it passes");
    let again = |call: Call<'_>| rig.runtime.block_on(rig.gate.again(&first, call));
    let second = again(may_repeat(2, &web)).expect("policy permits the other one");
    assert_eq!(second.resource(), &web);
    assert_eq!(rig.world.last()["first"], CallId([1; 16]).to_string());
    let refused = again(may_repeat(3, &other))
        .err()
        .expect("policy does not permit it");
    assert_eq!(refused.code.name, "policy.forbidden");
    // One call of the agent's limit, however often it is tried: 99 are left.
    for id in 4..103 {
        assert!(rig.pass(call(id, &files)).is_ok(), "{id}");
    }
    assert_eq!(rig.refused(call(200, &files)), Some("limit.agent"));
    assert!(again(may_repeat(201, &web)).is_ok());
    // Nobody tries again with a key that was taken back.
    *rig.world.agents.lock().expect("no test panics here") =
        Arc::new(Agents::default().at_epoch(9));
    let refused = again(may_repeat(202, &web)).err().expect("the key is gone");
    assert_eq!(refused.code.name, "agent.key_expired");
}

/// Says this of every call, or nothing at all.
struct Says(Option<Advice>);

impl Advisor for Says {
    fn advise(&self, question: &Question<'_>) -> Reply<Advice> {
        assert_eq!(question.agent.as_str(), "dev");
        match &self.0 {
            Some(advice) => Reply::Ready(advice.clone()),
            None => Reply::Later(Box::pin(std::future::pending())),
        }
    }
}

impl Holds for Says {
    fn claim(&self, _: &Question<'_>) -> Reply<Hold> {
        match &self.0 {
            Some(Advice::Permit) => Reply::Ready(Hold::Approved),
            Some(Advice::Refuse(id)) => Reply::Ready(Hold::Waiting(id.clone())),
            None => Reply::Later(Box::pin(std::future::pending())),
        }
    }
}

impl OnceIds for Says {
    fn is_first(&self, _: &Digest, _: u64) -> Reply<Option<bool>> {
        match &self.0 {
            Some(advice) => Reply::Ready(Some(*advice == Advice::Permit)),
            None => Reply::Later(Box::pin(std::future::pending())),
        }
    }
}

#[test]
fn whoever_has_a_say_outside_can_refuse_and_silence_refuses() {
    let resource = tool("files");
    let refuse = || Some(Advice::Refuse("a-17".into()));
    for (advice, code) in [
        (Some(Advice::Permit), None),
        (refuse(), Some("policy.advisor")),
        (None, Some("policy.advisor")),
    ] {
        let says = Arc::new(Says(advice));
        let rig = rig(|ports| Ports {
            advisors: vec![Arc::new(Says(Some(Advice::Permit))), says],
            ..ports
        });
        assert_eq!(rig.refused(call(1, &resource)), code);
        // The gateway's own calls are the configuration's to permit.
        let own = Call::new(CallId([2; 16]), PEER, &USE, &resource, "probe");
        assert!(rig.runtime.block_on(rig.gate.own(own)).is_ok());
    }
    for (advice, code) in [
        (Some(Advice::Permit), None),
        (refuse(), Some("policy.held")),
        (None, Some("policy.held")),
    ] {
        let says: Arc<dyn Holds> = Arc::new(Says(advice));
        let rig = rig(|ports| Ports {
            holds: Some(says),
            ..ports
        });
        assert_eq!(rig.refused(call(1, &resource)), code);
    }
    let id = Digest([1; 32]);
    for (advice, code) in [
        (Some(Advice::Permit), None),
        (refuse(), Some("agent.key_used")),
        (None, Some("once.unavailable")),
    ] {
        let says: Arc<dyn OnceIds> = Arc::new(Says(advice));
        let rig = rig(|ports| Ports {
            once_ids: Some(says),
            ..ports
        });
        let used = rig.runtime.block_on(rig.gate.use_once(&id, 5));
        assert_eq!(used.err().map(|refusal| refusal.code.name), code);
    }
    let rig = rig(as_ports);
    assert!(rig.runtime.block_on(rig.gate.use_once(&id, 5)).is_err());
}
