//! The row of runs: an agent's loop on the server, which asks the lanes of models and of tools as any agent does.

mod asking;
mod callback;
mod models;
mod tools;

use std::cell::OnceCell;
use std::io;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

use base::{CallId, Metric, Refusal, refusal};
use gate::Gate;
use http::Method;
use net::{Drain, Request, Response};
use prometheus_client::encoding::text;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use run::{RunLane, RunPorts, RunShared};
use store::Durability;

use super::{Local, OnThread, Opened, Parts, Row, Running};
use crate::assemble::{RunMoney, WayOut};
use crate::config::Settings;
use crate::health::{LaneHealth, Readiness};
use crate::routes::{Answers, Open, Route, new_call_id};
use callback::LaneCallbacks;
use models::LaneModels;
use tools::LaneTools;

const RUNS: Metric = Metric {
    name: "weir_runs",
    kind: "gauge",
    labels: "agent, state",
    help: "runs that have not ended, by the agent of the configuration and the state",
};
const RUNS_ENDED: Metric = Metric {
    name: "weir_runs_ended",
    kind: "counter",
    labels: "agent, state",
    help: "runs that ended since the gateway started, by the same",
};

pub(crate) const ROW: Row = Row {
    lane: &run::LANE,
    routes: &[
        route("/v1/runs", &[Method::GET, Method::POST]),
        route("/v1/runs/**", &[Method::GET, Method::POST, Method::DELETE]),
        route("/ws/runs/*", &[Method::GET]),
        route("/ws/chat", &[Method::GET]),
        Route {
            refuse: run::refuse_error,
            ..route("/api/chat", &[Method::POST])
        },
        route("/ag-ui/*", &[Method::POST]),
    ],
    metrics: &[RUNS, RUNS_ENDED],
    endpoints: |_| Vec::new(),
    reach: |_, _| Vec::new(),
    only_at_start: |old, new| match old.runs == new.runs {
        true => Vec::new(),
        false => vec!["runs".to_owned()],
    },
    reloaded: |_, _| Vec::new(),
    open,
};

const fn route(template: &'static str, methods: &'static [Method]) -> Route {
    Route {
        template,
        methods,
        open: Open::Agents,
        body_bytes_max: None,
        refuse: run::refuse,
        answers: Answers::Lane,
    }
}

/// The lane of one process.
struct Runs {
    /// Absent where the configuration has no runs, or another process has them.
    shared: Result<Arc<RunShared>, Refusal>,
    money: Arc<RunMoney>,
    gate: Arc<Gate>,
    origins: Arc<[String]>,
    registry: Registry,
    open: Family<[(&'static str, String); 2], Gauge>,
    ended: Family<[(&'static str, String); 2], Counter>,
    /// What was counted of those that ended when they were shown last.
    shown: Mutex<()>,
}

fn open(settings: &Settings, parts: &Parts<'_>) -> Opened {
    let (mut registry, open, ended) = (Registry::default(), Family::default(), Family::default());
    registry.register(RUNS.name, RUNS.help, Family::clone(&open));
    registry.register(RUNS_ENDED.name, RUNS_ENDED.help, Family::clone(&ended));
    Ok(Arc::new(Runs {
        shared: shared(settings, parts)?,
        money: Arc::clone(&parts.spending.runs),
        gate: Arc::clone(parts.gate),
        origins: settings.origins.clone().into(),
        registry,
        open,
        ended,
        shown: Mutex::default(),
    }))
}

/// What threads share; a refusal where there are no runs. The error is for the operator.
fn shared(
    settings: &Settings,
    parts: &Parts<'_>,
) -> Result<Result<Arc<RunShared>, Refusal>, String> {
    let Some(written) = &settings.runs else {
        let public = "the configuration has no runs";
        return Ok(Err(Refusal::new(refusal::NOT_FOUND, public)));
    };
    let syncs = settings.log.durability == Durability::Fsync;
    let files = parts.state.runs(syncs).map_err(|error| error.to_string())?;
    let Some(files) = files else {
        let public = "another process of this state has the runs";
        return Ok(Err(Refusal::new(refusal::RUN_UNRECORDED, public)));
    };
    let servers = settings.servers.iter().map(|server| server.name.clone());
    let told = run::Settings {
        agents: written.agents.clone(),
        own: written.own,
        servers: servers.collect(),
        at_once: written.at_once,
        agent_at_once: written.agent_at_once,
        keep_ms: written.keep_ms,
        bytes_max: written.bytes_max,
        body_bytes_max: settings.limits.body_bytes_max,
        origins: settings.origins.clone(),
        public_url: settings.public_url.clone(),
        new_id: new_call_id,
        now: crate::ports::now,
    };
    let (gate, drain): (_, Drain) = (Arc::clone(parts.gate), parts.drain.clone());
    Ok(Ok(Arc::new(RunShared::new(told, gate, drain, files))))
}

impl Running for Runs {
    fn thread(&self, _out: &WayOut) -> Rc<dyn OnThread> {
        Rc::new(RunThread {
            shared: self.shared.clone(),
            money: Arc::clone(&self.money),
            gate: Arc::clone(&self.gate),
            origins: Arc::clone(&self.origins),
            lane: OnceCell::new(),
        })
    }

    fn health(&self) -> Option<LaneHealth> {
        let shared = self.shared.as_ref().ok()?;
        let (word, readiness) = match shared.trouble() {
            None => ("works", Readiness::Ready),
            Some(_) => ("cannot be kept", Readiness::Degraded),
        };
        Some(LaneHealth {
            title: "runs",
            parts: vec![("events".to_owned(), word)],
            known: None,
            readiness,
        })
    }

    fn show_metrics(&self, page: &mut String) {
        let _one = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        if let Ok(shared) = &self.shared {
            let labels = |agent: &base::Name, state: run::RunState| {
                let agent = ("agent", agent.as_str().to_owned());
                [agent, ("state", state.as_str().to_owned())]
            };
            self.open.clear();
            for ((agent, state), count) in shared.open() {
                let gauge = self.open.get_or_create(&labels(&agent, state));
                gauge.set(i64::try_from(count).unwrap_or(i64::MAX));
            }
            for ((agent, state), count) in shared.ended() {
                let counter = self.ended.get_or_create(&labels(&agent, state));
                counter.inc_by(count.saturating_sub(counter.get()));
            }
        }
        text::encode_registry(page, &self.registry).expect("a string takes all that is written");
    }
}

/// The lane on one thread.
struct RunThread {
    shared: Result<Arc<RunShared>, Refusal>,
    money: Arc<RunMoney>,
    gate: Arc<Gate>,
    origins: Arc<[String]>,
    /// Once the other lanes are there, where there are runs.
    lane: OnceCell<Result<Rc<RunLane>, Refusal>>,
}

impl OnThread for RunThread {
    fn meet(&self, lanes: &[Rc<dyn OnThread>]) {
        let of = |name: &str| {
            let at = super::ALL.iter().position(|row| row.lane.name == name);
            Rc::clone(&lanes[at.expect("the lane has a row")])
        };
        let made = self.shared.clone().map(|shared| {
            let ports = RunPorts {
                models: Rc::new(LaneModels::new(of(llm::LANE.name), Arc::clone(&self.money))),
                tools: Rc::new(LaneTools::new(of(mcp::LANE.name))),
                callbacks: Rc::new(LaneCallbacks::new(of(web::LANE.name))),
            };
            Rc::new(RunLane::new(shared, ports))
        });
        let is_first = self.lane.set(made).is_ok();
        debug_assert!(is_first, "the lanes of a thread meet once");
    }

    fn answer<'a>(&'a self, rest: &'a str, request: Request, id: CallId) -> Local<'a, Response> {
        Box::pin(async move {
            let unmet = || Refusal::new(refusal::FAILED, "the lanes have not met");
            let lane = self.lane.get().cloned().unwrap_or_else(|| Err(unmet()));
            match lane {
                Ok(lane) => lane.answer(rest, request, id).await,
                Err(why) => run::answer_without(&self.gate, &self.origins, request, id, why).await,
            }
        })
    }

    fn serve(self: Rc<Self>, _first: bool) -> Local<'static, io::Result<()>> {
        Box::pin(async move {
            if let Some(Ok(lane)) = self.lane.get().cloned() {
                lane.serve().await;
            }
            Ok(())
        })
    }
}
