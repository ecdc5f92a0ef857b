//! The lane of the web: what is said on a WebSocket, judged under a real judgement of a gate that keeps nothing, and robots.txt.

use std::net::{IpAddr, Ipv4Addr};
use std::pin::Pin;
use std::sync::{Arc, OnceLock};

use base::record::CallEnd;
use base::{CallId, Digest, Name, Now, Resource};
use gate::ports::{
    Appended, BudgetLine, BudgetSpent, Budgets, Clock, Directory, Meter, OverBudget, Ports,
    RecordError, Recorder, Reply, Ticket,
};
use gate::{Call, Gate, Passed, Rates, Rules};
use identity::{Agent, AgentState, Presented, PresentedPeer};
use tokio::sync::oneshot;
use web::fuzzing::CANARY;

/// What two sides of a WebSocket say.
pub fn web_socket(data: &[u8]) {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let runtime = runtime.expect("a runtime without a clock is made");
    let mut passed = runtime.block_on(passed());
    web::fuzzing::socket(&mut passed, data);
}

/// A robots.txt, and a path in its last line.
pub fn web_robots(data: &[u8]) {
    web::fuzzing::robots(data);
}

const KEY: [u8; 32] = [7; 32];
const PEER: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const POLICY: &str = "permit (principal, action, resource);";

/// Answers from memory, and keeps nothing.
struct World(Arc<Agent>);

impl Directory for World {
    fn epoch(&self) -> u64 {
        0
    }

    fn agent_by_key(&self, _key: &Digest) -> Option<Arc<Agent>> {
        Some(Arc::clone(&self.0))
    }

    fn agent_by_thumbprint(&self, _thumbprint: &Digest) -> Option<Arc<Agent>> {
        Some(Arc::clone(&self.0))
    }
}

impl Budgets for World {
    fn reserve(&self, lines: Vec<BudgetLine>, now: Now) -> Reply<Result<Ticket, OverBudget>> {
        let at_unix_ms = now.unix_ms;
        Reply::Ready(Ok(Ticket { lines, at_unix_ms }))
    }

    fn settle(&self, _ticket: Ticket, _spent: BudgetSpent, _now: Now) {}
}

impl Recorder for World {
    fn append(&self, _record: Vec<u8>) -> Appended {
        let (sender, appended) = oneshot::channel();
        let _ = sender.send(Ok(0));
        appended
    }

    fn note(&self, _record: Vec<u8>) {}

    fn trouble(&self) -> Option<RecordError> {
        None
    }
}

impl Clock for World {
    fn now(&self) -> Now {
        Now {
            unix_ms: 1,
            mono_ms: 1,
        }
    }

    fn after(&self, _ms: u64) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(std::future::pending())
    }
}

impl Meter for World {
    fn judged(&self, _resource: &Resource, _code: Option<&'static str>) {}
    fn ended(&self, _resource: &Resource, _end: CallEnd, _duration_ms: u64) {}
    fn found(&self, _rule: &'static str, _action: &'static str) {}
}

fn name(text: &str) -> Name {
    Name::new(text).expect("it is a name")
}

fn gate() -> &'static Arc<Gate> {
    static GATE: OnceLock<Arc<Gate>> = OnceLock::new();
    GATE.get_or_init(|| {
        let world = Arc::new(World(Arc::new(Agent {
            name: name("fuzz"),
            groups: Vec::new(),
            state: AgentState::Active,
            expires_unix_ms: None,
        })));
        let ports = Ports::new(
            Arc::clone(&world) as Arc<dyn Directory>,
            Arc::clone(&world) as Arc<dyn Budgets>,
            Arc::clone(&world) as Arc<dyn Recorder>,
            Arc::clone(&world) as Arc<dyn Clock>,
            world as Arc<dyn Meter>,
        );
        let values = scan::Values::new([(scan::ValueKind::Canary, CANARY)]);
        let mut settings = scan::Settings::default();
        settings.values = Some(values.expect("it is long enough"));
        let source = policy::Source {
            file: "fuzz.cedar",
            text: POLICY,
        };
        let policies = policy::Policies::load(&[&web::LANE], &[source], &Default::default());
        let rules = Rules {
            policies: policies.expect("it is a policy"),
            engine: scan::Engine::new(settings, [7; 32]),
            rates: Rates::of_agent(u32::MAX),
            budgets: Vec::new(),
            reach: Default::default(),
        };
        Arc::new(Gate::new(ports, rules))
    })
}

/// A connection that was judged.
async fn passed() -> Passed {
    let resource = web::fuzzing::resource();
    let send = &web::actions::SEND;
    let call = Call::new(CallId([1; 16]), PEER, send, &resource, "websocket");
    let (key, _) = identity::new_key(KEY);
    let authorization = format!("Bearer {}", key.expose());
    let presented = Presented {
        authorization: Some(&authorization),
        proof: None,
        fields: &[],
        method: "GET",
        target: "",
        peer: PresentedPeer {
            address: PEER,
            certificate: None,
        },
    };
    let verified = gate().verify(&call, &presented).await;
    let verified = verified.unwrap_or_else(|refusal| panic!("{}", refusal.public));
    let passed = gate().pass(verified, call).await;
    passed.unwrap_or_else(|refusal| panic!("{}", refusal.public))
}

