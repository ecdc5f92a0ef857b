//! What a record may hold: the decision's inputs, and no secret, wherever the agent put it (I-05).

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use base::record::CallEnd;
use base::{CallId, Json, Lane, Name, Now, Resource};
use gate::ports::{Clock, Meter, Ports, RecordError, Recorder};
use gate::{Call, CallEnding, ContentPart, Gate, PartContent, Rates, Role, Rules};
use identity::Presented;
use mcp::actions::{CALL, USE};
use store::{Agents, Limits};
use tokio::sync::oneshot;

static LANES: &[&Lane] = &[&mcp::LANE];

const SECRET_PARTS: [&str; 2] = ["ghp_", "16C7e42F292c6912E7710c838347Ae178B4a"];

/// Keeps records in memory and answers at once: that it did, or where the second field is set, that it failed.
#[derive(Default)]
struct Kept(Mutex<Vec<String>>, AtomicBool);

impl Kept {
    fn keep(&self, record: Vec<u8>) {
        let text = String::from_utf8(record).expect("a record is text");
        self.0.lock().expect("no test panics here").push(text);
    }

    fn all(&self) -> Vec<String> {
        self.0.lock().expect("no test panics here").clone()
    }
}

impl Recorder for Kept {
    fn append(&self, record: Vec<u8>) -> oneshot::Receiver<Result<u64, RecordError>> {
        self.keep(record);
        let (answer, receiver) = oneshot::channel();
        let _ = answer.send(match self.1.load(Ordering::Relaxed) {
            false => Ok(0),
            true => Err(RecordError::Failed("the disk is gone".into())),
        });
        receiver
    }

    fn note(&self, record: Vec<u8>) {
        self.keep(record);
    }

    fn trouble(&self) -> Option<RecordError> {
        None
    }
}

struct Still;

impl Clock for Still {
    fn now(&self) -> Now {
        Now {
            unix_ms: 1_800_000_000_000,
            mono_ms: 5,
        }
    }

    fn after(&self, _ms: u64) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(std::future::pending())
    }
}

impl Meter for Still {
    fn judged(&self, _: &Resource, _: Option<&'static str>) {}
    fn ended(&self, _: &Resource, _: CallEnd, _: u64) {}
    fn found(&self, _: &'static str, _: &'static str) {}
}

fn name(text: &str) -> Name {
    Name::new(text).expect("a name")
}

struct Rig {
    gate: Arc<Gate>,
    kept: Arc<Kept>,
    authorization: String,
}

/// A gate whose policy reads the argument `text`, with secrets treated as `action` says.
fn rig(action: scan::Action) -> Rig {
    let (key, digest) = identity::new_key([9; 32]);
    let agent = identity::Agent {
        name: name("dev"),
        groups: vec![],
        state: identity::AgentState::Active,
        expires_unix_ms: None,
    };
    let text = r#"permit (principal, action, resource);
        forbid (principal, action == Action::"mcp:call", resource)
        when { context.arguments has text && context.arguments.text like "*forbidden*" };"#;
    let source = policy::Source {
        file: "test.cedar",
        text,
    };
    let declared = BTreeMap::from([("text".to_owned(), policy::ArgumentType::String)]);
    let policies =
        policy::Policies::load(LANES, &[source], &declared).expect("the policy is valid");
    let mut settings = scan::Settings::default();
    settings
        .set("secret", Some(scan::Direction::Outgoing), action)
        .expect("a class");
    let left_alone = scan::Scope {
        direction: None,
        lane: None,
        target: Some("files".to_owned()),
        agent: None,
    };
    settings
        .set_in("aws_access_key_id", left_alone, scan::Action::Off)
        .expect("a rule");
    let kept = Arc::new(Kept::default());
    let ports = Ports::new(
        Arc::new(Agents::new([(digest, Arc::new(agent))].into_iter())),
        Arc::new(Limits::new()),
        kept.clone(),
        Arc::new(Still),
        Arc::new(Still),
    );
    let rules = Rules {
        policies,
        engine: scan::Engine::new(settings, [7; 32]),
        rates: Rates::of_agent(100),
        budgets: Vec::new(),
        reach: [(name("files"), gate::Reach::default())].into(),
    };
    let authorization = format!("Bearer {}", key.expose());
    Rig {
        gate: Arc::new(Gate::new(ports, rules)),
        kept,
        authorization,
    }
}

/// Makes one call; the code of its refusal, if any.
fn call(rig: &Rig, tool: &str, text: &str) -> Option<&'static str> {
    let arguments = serde_json::json!({ "text": text }).to_string();
    let params = format!(r#"{{"name":"{tool}","arguments":{arguments}}}"#);
    let resource = Resource::tool(name("files"), tool);
    let peer = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let json = Json::read(params.as_bytes()).expect("JSON");
    let content = [ContentPart {
        role: Role::Argument,
        path: "params",
        content: PartContent::Json(json.root()),
    }];
    let call = Call {
        request: Some("r-1"),
        content: &content,
        arguments: json.root().get("arguments"),
        bytes: params.len() as u64,
        ..Call::new(CallId([1; 16]), peer, &CALL, &resource, "tools/call")
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let verified = rig
            .gate
            .verify(&call, &Presented::bearer(Some(&rig.authorization), peer))
            .await;
        match rig
            .gate
            .pass(verified.expect("the key is good"), call)
            .await
        {
            Ok(passed) => {
                passed.end(CallEnding {
                    status: 200,
                    bytes: 3,
                    ..CallEnding::of(CallEnd::Complete)
                });
                None
            }
            Err(refusal) => Some(refusal.code.name),
        }
    })
}

#[test]
fn a_record_holds_what_the_policy_read() {
    let rig = rig(scan::Action::Refuse);
    assert_eq!(call(&rig, "read", "plain"), None);
    let records = rig.kept.all();
    assert_eq!(records.len(), 2);
    let read = r#""attributes":{"text":"plain"}"#;
    assert!(records[0].contains(read), "{records:?}");
    assert!(
        records[0].contains(r#""request":"r-1""#) && records[1].contains(r#""end":"complete""#)
    );
}

#[test]
fn no_secret_is_recorded_wherever_it_stands() {
    let secret = SECRET_PARTS.concat();
    for action in [
        scan::Action::Refuse,
        scan::Action::Redact,
        scan::Action::Warn,
    ] {
        let rig = rig(action);
        let code = call(&rig, "read", &format!("key {secret} end"));
        assert_eq!(
            code,
            (action == scan::Action::Refuse).then_some("scan.secret")
        );
        call(&rig, &secret, "plain");
        call(&rig, &secret, "forbidden");
        call(&rig, "read", &format!("forbidden {secret}"));
        for record in rig.kept.all() {
            assert!(!record.contains(&secret), "{record}");
        }
        assert!(
            rig.kept
                .all()
                .iter()
                .any(|record| record.contains("github_token"))
        );
    }
}

#[test]
fn what_the_scan_leaves_alone_here_is_not_recorded_either() {
    let key = ["AKIA", "Z3MTQ7PLW5XN2VBD"].concat();
    let rig = rig(scan::Action::Refuse);
    assert_eq!(call(&rig, "read", &format!("key {key} end")), None);
    let records = rig.kept.all();
    assert!(!records[0].contains(&key), "{records:?}");
    assert!(
        records[0].contains("(aws_access_key_id, fingerprint "),
        "{records:?}"
    );
    assert!(
        !records[0].contains(r#""rule":"aws_access_key_id""#),
        "{records:?}"
    );
}

#[test]
fn a_call_that_is_not_recorded_is_not_remembered_either() {
    let [first, second] = SECRET_PARTS;
    let send = |fails: bool| {
        let rig = rig(scan::Action::Refuse);
        rig.kept.1.store(fails, Ordering::Relaxed);
        let begun = call(&rig, "save", first);
        rig.kept.1.store(false, Ordering::Relaxed);
        (begun, call(&rig, "save", second))
    };
    // The same calls one after another send a secret; where the first was refused, half of one.
    assert_eq!(send(false), (None, Some("scan.secret")));
    assert_eq!(send(true), (Some("log.failed"), None));
}

#[test]
fn a_call_that_is_dropped_has_an_outcome() {
    let rig = rig(scan::Action::Refuse);
    assert_eq!(call(&rig, "read", "forbidden"), Some("policy.forbidden"));
    assert_eq!(rig.kept.all().len(), 1, "a refused call has no outcome");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .expect("a runtime");
    let own = |id: u8, server: &str| {
        let resource = Resource::server(name(server));
        let peer = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let call = Call::new(CallId([id; 16]), peer, &USE, &resource, "probe");
        runtime.block_on(rig.gate.own(call))
    };
    let passed = own(2, "files");
    drop(passed.expect("the configuration names the server"));
    let records = rig.kept.all();
    assert!(records[2].contains(r#""end":"cut""#), "{records:?}");
    let other = own(3, "nosuch");
    assert_eq!(
        other.err().map(|refusal| refusal.code.name),
        Some("mcp.server_unknown")
    );
}
