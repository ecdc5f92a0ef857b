//! Runs that are stopped at every write, on a disk that forgets what was not synced.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::Path;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};

use base::record::CallEnd;
use base::{CallId, Digest, Now, Resource};
use gate::ports::{Clock, Directory, Meter, Ports, Recorder};
use gate::{Gate, Rates, Rules};
use identity::{Agent, AgentState};
use net::Drain;
use store::disk::{Fault, MemoryDisk};
use store::runs::RunFiles;
use store::{Durability, Limits, Log, LogSettings};
use tokio::sync::Notify;
use tokio::task::LocalSet;

use super::*;
use crate::book::RunBook;
use crate::event::{EventLine, HeardEvent, RunTotals, StepUsage, ToolCall};
use crate::ports::{CallbackTold, Callbacks, Models, PortFuture, Tools};
use crate::settings::{RunCallback, RunLimits, Settings};

const RUN: &str = "run_1";

struct House;

impl Callbacks for House {
    fn tell<'a>(
        &'a self,
        _: &'a PortCaller,
        _: &'a RunCallback,
        _: &'a CallbackTold,
    ) -> PortFuture<'a, Result<(), PortFailure>> {
        unreachable!("no agent of the configuration has one")
    }
}

impl Directory for House {
    fn epoch(&self) -> u64 {
        0
    }

    fn agent_by_key(&self, _: &Digest) -> Option<Arc<Agent>> {
        None
    }

    fn agent_by_thumbprint(&self, _: &Digest) -> Option<Arc<Agent>> {
        Some(Arc::new(Agent {
            name: Name::new("dev").unwrap(),
            groups: Vec::new(),
            state: AgentState::Active,
            expires_unix_ms: None,
        }))
    }
}

impl Clock for House {
    fn now(&self) -> Now {
        now()
    }

    fn after(&self, ms: u64) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(tokio::time::sleep(Duration::from_millis(ms)))
    }
}

impl Meter for House {
    fn judged(&self, _: &Resource, _: Option<&'static str>) {}
    fn ended(&self, _: &Resource, _: CallEnd, _: u64) {}
    fn found(&self, _: &'static str, _: &'static str) {}
}

fn now() -> Now {
    Now {
        unix_ms: 1_000,
        mono_ms: 1_000,
    }
}

fn gate() -> Arc<Gate> {
    let settings = LogSettings {
        origin: "weir.invalid/runs".to_owned(),
        durability: Durability::Os,
        bytes_max: 1 << 20,
    };
    let log = Log::open_on(Arc::new(MemoryDisk::new()), Path::new("log"), settings).unwrap();
    let ports = Ports::new(
        Arc::new(House),
        Arc::new(Limits::new()),
        Arc::new(log) as Arc<dyn Recorder>,
        Arc::new(House),
        Arc::new(House),
    );
    let policies = policy::Policies::load(&[&LANE], &[], &BTreeMap::new());
    let rules = Rules {
        policies: policies.unwrap(),
        engine: scan::Engine::new(scan::Settings::default(), [0; 32]),
        rates: Rates::of_agent(0),
        budgets: Vec::new(),
        reach: [].into(),
    };
    Arc::new(Gate::new(ports, rules))
}

/// A model that proposes three calls, one a step, and then ends.
struct Scripted;

struct ScriptedAnswer(Vec<ModelPiece>);

impl Models for Scripted {
    fn ask<'a>(
        &'a self,
        _: &'a PortCaller,
        ask: ModelAsk<'a>,
    ) -> PortFuture<'a, Result<Box<dyn ModelAnswer>, PortFailure>> {
        let said = ask.messages.iter();
        let step = said
            .filter(|message| matches!(message, RunMessage::Assistant { .. }))
            .count();
        let mut pieces = vec![ModelPiece::Usage(StepUsage {
            input: 2,
            output: 1,
        })];
        if step < 3 {
            pieces.push(ModelPiece::Call {
                index: 0,
                id: Some(format!("c{step}")),
                name: Some("add".into()),
                arguments: format!("{{\"n\":{step}}}"),
            });
        }
        pieces.push(ModelPiece::Text(format!("step {step}")));
        let answer = ScriptedAnswer(pieces);
        Box::pin(async move { Ok(Box::new(answer) as Box<dyn ModelAnswer>) })
    }

    fn spent(&self, _: &str) -> u64 {
        0
    }

    fn forget(&self, _: &str) {}
}

impl ModelAnswer for ScriptedAnswer {
    fn next(&mut self) -> PortFuture<'_, Result<Option<ModelPiece>, PortFailure>> {
        Box::pin(async move { Ok(self.0.pop()) })
    }
}

/// A tool whose effects are counted.
#[derive(Clone, Default)]
struct Counted {
    made: Rc<RefCell<Vec<String>>>,
    is_repeatable: bool,
}

impl Tools for Counted {
    fn list<'a>(
        &'a self,
        _: &'a PortCaller,
        _: &'a [String],
    ) -> PortFuture<'a, Result<Vec<ToolOffer>, PortFailure>> {
        let offer = ToolOffer {
            name: "add".into(),
            description: String::new(),
            schema: "{}".into(),
            is_repeatable: self.is_repeatable,
        };
        Box::pin(async move { Ok(vec![offer]) })
    }

    fn call<'a>(
        &'a self,
        _: &'a PortCaller,
        _: &'a [String],
        call: &'a ToolCall,
    ) -> PortFuture<'a, Result<ToolAnswer, PortFailure>> {
        Box::pin(async move {
            self.made.borrow_mut().push(call.arguments.clone());
            tokio::task::yield_now().await;
            Ok(ToolAnswer {
                content: format!("did {}", call.arguments),
                is_error: false,
            })
        })
    }
}

fn head() -> RunHead {
    RunHead {
        run: RUN.into(),
        owner: "dev".into(),
        thumbprint: Digest([1; 32]).to_string(),
        peer: Ipv4Addr::LOCALHOST.into(),
        created_ms: 1_000,
        agent: "worker".into(),
        thread: RUN.into(),
        after: None,
        model: "m".into(),
        instructions: "work".into(),
        tools: vec!["s/*".into()],
        limits: RunLimits {
            steps: 10,
            tokens: None,
            money: None,
            time_ms: 1_000_000,
        },
        input: vec![RunMessage::User {
            content: "go".into(),
        }],
        key: None,
    }
}

fn settings() -> Settings {
    Settings {
        agents: Vec::new(),
        own: head().limits,
        servers: Vec::new(),
        at_once: 10,
        agent_at_once: 10,
        keep_ms: 1_000_000,
        bytes_max: 1 << 20,
        body_bytes_max: 1 << 20,
        origins: Vec::new(),
        public_url: None,
        new_id: || CallId([0; 16]),
        now,
    }
}

/// A process: what it finds on the disk, it drives until it ends or is stopped.
async fn process(disk: &MemoryDisk, tools: &Counted, stop: &Notify) -> Option<RunState> {
    let files = RunFiles::open(Arc::new(disk.clone()), true).unwrap();
    let shared = Arc::new(RunShared::new(settings(), gate(), Drain::new(), files));
    let run = shared.book.find(&Name::new("dev").unwrap(), RUN)?;
    let ports = RunPorts {
        models: Rc::new(Scripted),
        tools: Rc::new(tools.clone()),
        callbacks: Rc::new(House),
    };
    if shared.book.next_found().is_some() {
        tokio::select! {
            biased;
            () = stop.notified() => return None,
            () = drive(Arc::clone(&shared), ports, Arc::clone(&run)) => {}
        }
    }
    Some(run.state())
}

fn begin(disk: &MemoryDisk) {
    let line = serde_json::to_string(&head()).unwrap() + "\n";
    disk.tamper("run_1.run", Some(line.into_bytes()));
}

fn block<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build();
    LocalSet::new().block_on(&runtime.unwrap(), future)
}

/// Stops the process at its `write`th write, loses all that was not synced, and goes on until the run ends.
fn stopped_at(write: usize, is_repeatable: bool) -> (Vec<String>, LoadedRun, bool) {
    let disk = MemoryDisk::new();
    begin(&disk);
    let tools = Counted {
        is_repeatable,
        ..Counted::default()
    };
    let (stop, count) = (Arc::new(Notify::new()), Arc::new(AtomicUsize::new(0)));
    let told = Arc::clone(&stop);
    disk.watch(move |_| {
        if count.fetch_add(1, Ordering::Relaxed) + 1 == write {
            told.notify_one();
        }
    });
    let first = block(process(&disk, &tools, &stop));
    let was_stopped = first.is_none();
    if was_stopped {
        disk.crash(|unsynced| unsynced / 2);
        let second = block(process(&disk, &tools, &Notify::new()));
        assert_eq!(second, Some(RunState::Completed), "stopped at {write}");
    }
    let (files, _) = RunFiles::open(Arc::new(disk), true).unwrap();
    let loaded = LoadedRun::read(&files, RUN).unwrap();
    (tools.made.take(), loaded, was_stopped)
}

#[test]
fn a_run_that_is_stopped_anywhere_makes_no_call_twice_and_ends() {
    let mut stops = 0;
    for write in 1..200 {
        let (made, loaded, was_stopped) = stopped_at(write, false);
        let mut once = made.clone();
        once.dedup();
        assert_eq!(once, made, "stopped at {write}");
        assert!(matches!(loaded.end, Some(RunEvent::Completed { .. })));
        let answered = loaded
            .talk
            .messages
            .iter()
            .filter_map(|message| match message {
                RunMessage::Tool {
                    content,
                    is_error: false,
                    ..
                } => content.strip_prefix("did "),
                _ => None,
            });
        for answered in answered {
            assert!(made.iter().any(|made| made == answered), "{write}");
        }
        assert!(loaded.talk.pending.is_empty());
        if !was_stopped {
            assert_eq!(made.len(), 3);
            break;
        }
        stops += 1;
    }
    assert!(stops > 10, "{stops}");
}

#[test]
fn a_call_that_may_be_repeated_is_made_until_it_is_answered() {
    for write in 1..200 {
        let (made, loaded, was_stopped) = stopped_at(write, true);
        let failed = loaded
            .talk
            .messages
            .iter()
            .any(|message| matches!(message, RunMessage::Tool { is_error: true, .. }));
        assert!(!failed, "stopped at {write}: {made:?}");
        if !was_stopped {
            break;
        }
    }
}

#[test]
fn a_disk_that_fails_parks_a_run_until_it_is_mended() {
    for fault in [Fault::Room(600), Fault::Sync] {
        fails_for_a_moment(fault);
    }
}

fn fails_for_a_moment(fault: Fault) {
    let disk = MemoryDisk::new();
    begin(&disk);
    disk.fail(Some(fault));
    let tools = Counted::default();
    let state = block(async {
        let mended = disk.clone();
        let later = tokio::task::spawn_local(async move {
            tokio::time::sleep(Duration::from_millis(700)).await;
            mended.fail(None);
        });
        let state = process(&disk, &tools, &Notify::new()).await;
        later.await.unwrap();
        state
    });
    assert_eq!(state, Some(RunState::Completed));
    assert_eq!(tools.made.borrow().len(), 3);
    let (files, _) = RunFiles::open(Arc::new(disk), true).unwrap();
    let lines = files.lines(RUN, 0).unwrap();
    let heard = lines.iter().filter_map(|(line, _)| HeardEvent::read(line));
    let ids: Vec<u64> = heard.map(|(heard, _)| heard.id).collect();
    let whole: Vec<u64> = (1..=ids.len() as u64).collect();
    assert_eq!(ids, whole);
}

#[test]
fn an_event_that_is_too_large_is_no_failure_of_the_disk() {
    let run = LiveRun::new(&head(), RunState::Running).unwrap();
    let (files, _) = RunFiles::open(Arc::new(MemoryDisk::new()), true).unwrap();
    let large = RunEvent::Added {
        content: "x".repeat(store::runs::LINE_BYTES_MAX),
    };
    let told = block(run.tell(&files, now(), &large));
    assert_eq!(told, Err(NotTold::TooLarge));
    let usage = RunTotals::default();
    let end = RunEvent::Cancelled { usage };
    assert_eq!(block(run.tell(&files, now(), &end)), Ok(()));
}

#[test]
fn of_a_line_that_was_written_twice_the_later_one_is_good() {
    let disk = MemoryDisk::new();
    let line = |id, event| {
        let at = "2026-11-26T00:00:00.000Z".to_owned();
        serde_json::to_string(&EventLine { id, at, event }).unwrap() + "\n"
    };
    let usage = RunTotals::default();
    let text = [
        serde_json::to_string(&head()).unwrap() + "\n",
        line(1, RunEvent::Cancelled { usage }),
        line(1, RunEvent::StepStarted { step: 7 }),
    ];
    disk.tamper("run_1.run", Some(text.concat().into_bytes()));
    let (files, _) = RunFiles::open(Arc::new(disk), true).unwrap();
    let loaded = LoadedRun::read(&files, RUN).unwrap();
    assert_eq!((loaded.last, loaded.talk.step), (1, 7));
    assert!(loaded.end.is_none());
}

#[test]
fn runs_of_a_thread_stand_one_behind_the_other() {
    let (files, kept) = RunFiles::open(Arc::new(MemoryDisk::new()), true).unwrap();
    let book = RunBook::new(files, kept);
    let most = Settings {
        at_once: 3,
        ..settings()
    };
    // Ids of the same moment are in no order.
    let admit = |run: &str, interrupts| {
        let mut head = RunHead {
            run: run.into(),
            thread: "t".into(),
            ..head()
        };
        let admitted = book.admit(&most, &mut head, interrupts);
        admitted.map(|admitted| (admitted.ok().unwrap(), head.after))
    };
    let (first, after) = admit("b", false).unwrap();
    assert_eq!(after, None);
    assert_eq!(admit("a", false).unwrap().1.as_deref(), Some("b"));
    assert_eq!(admit("c", false).unwrap().1.as_deref(), Some("a"));
    let busy = admit("d", true).err().unwrap();
    assert_eq!(busy.code.name, "run.busy");
    assert!(
        !*first.cancellation().borrow(),
        "a refused start ends nothing"
    );
}
