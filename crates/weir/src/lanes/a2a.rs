//! The row of A2A: agents of others at `/a2a/<name>`. A name that is an agent of runs is answered by their lane.

use std::cell::OnceCell;
use std::rc::{Rc, Weak};
use std::sync::{Arc, LazyLock};
use std::time::Instant;

use a2a::{A2aLane, Shared};
use base::{CallId, Name, Refusal, refusal};
use gate::Reach;
use http::Method;
use net::{Endpoint, Request, Response};

use super::{Local, OnThread, Opened, Parts, Row, Running};
use crate::assemble::{WayOut, endpoint};
use crate::config::Settings;
use crate::routes::{Answers, Open, Route, new_call_id};

pub(crate) const ROW: Row = Row {
    lane: &a2a::LANE,
    routes: &[
        route("/a2a/*", &[Method::POST]),
        route(
            "/a2a/*/.well-known/agent-card.json",
            &[Method::GET, Method::HEAD],
        ),
    ],
    metrics: &[],
    endpoints: |settings: &Settings| -> Vec<(Name, Endpoint)> {
        let agents = settings.a2a.iter();
        let agents = agents.map(|agent| {
            let endpoint = endpoint(&agent.url, agent.ca.as_ref());
            (agent.told.name.clone(), endpoint)
        });
        agents.collect()
    },
    reach: |started: &Settings, _: &Settings| -> Vec<(Name, Reach)> {
        let agents = started.a2a.iter();
        agents
            .map(|agent| (agent.told.name.clone(), agent.reach()))
            .collect()
    },
    only_at_start: |old, new| match old.a2a == new.a2a {
        true => Vec::new(),
        false => vec!["a2a".to_owned()],
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
        refuse: a2a::refuse,
        answers: Answers::Lane,
    }
}

/// Milliseconds on a clock that only goes on.
fn now_ms() -> u64 {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    u64::try_from(START.elapsed().as_millis()).unwrap_or(u64::MAX)
}

/// The lane of one process.
struct A2a {
    shared: Arc<Shared>,
    /// The agents of runs.
    of_runs: Arc<[Name]>,
}

fn open(settings: &Settings, parts: &Parts<'_>) -> Opened {
    let told = a2a::Settings {
        agents: settings
            .a2a
            .iter()
            .map(|agent| agent.told.clone())
            .collect(),
        origins: settings.origins.clone(),
        public_url: settings.public_url.clone(),
        answer_bytes_max: settings.limits.answer_bytes_max,
        new_id: new_call_id,
        now_ms,
    };
    let owners = match settings.a2a.is_empty() {
        true => None,
        false => Some(
            parts
                .state
                .task_owners()
                .map_err(|error| error.to_string())?,
        ),
    };
    let shared = Shared::new(told, Arc::clone(parts.gate), owners);
    let of_runs = settings.runs.iter().flat_map(|runs| &runs.agents);
    Ok(Arc::new(A2a {
        shared: Arc::new(shared),
        of_runs: of_runs.map(|agent| agent.name.clone()).collect(),
    }))
}

impl Running for A2a {
    fn say_started(&self, settings: &Settings, url: Option<&str>) {
        let Some(gateway) = url else { return };
        for agent in &settings.a2a {
            let name = &agent.told.name;
            tracing::info!(agent = %name, url = format!("{gateway}/a2a/{name}"), "remote agent");
        }
    }

    fn thread(&self, out: &WayOut) -> Rc<dyn OnThread> {
        Rc::new(A2aThread {
            lane: A2aLane::new(Arc::clone(&self.shared), out.upstreams()),
            of_runs: Arc::clone(&self.of_runs),
            runs: OnceCell::new(),
        })
    }
}

/// The lane on one thread.
struct A2aThread {
    lane: A2aLane,
    of_runs: Arc<[Name]>,
    /// The lane of runs.
    runs: OnceCell<Weak<dyn OnThread>>,
}

impl OnThread for A2aThread {
    fn answer<'a>(&'a self, rest: &'a str, request: Request, id: CallId) -> Local<'a, Response> {
        let name = rest.split('/').next().unwrap_or_default();
        let is_of_runs = self.of_runs.iter().any(|known| known.as_str() == name);
        Box::pin(async move {
            if !is_of_runs {
                return self.lane.serve(rest, request, id).await;
            }
            match self.runs.get().and_then(Weak::upgrade) {
                Some(runs) => runs.answer(rest, request, id).await,
                None => {
                    let refusal = Refusal::new(refusal::FAILED, "the lanes have not met");
                    a2a::refuse(&refusal, id)
                }
            }
        })
    }

    fn meet(&self, lanes: &[Rc<dyn OnThread>]) {
        let runs = super::ALL
            .iter()
            .position(|row| row.lane.name == run::LANE.name);
        let runs = Rc::downgrade(&lanes[runs.expect("the lane has a row")]);
        let is_first = self.runs.set(runs).is_ok();
        debug_assert!(is_first, "the lanes of a thread meet once");
    }
}
