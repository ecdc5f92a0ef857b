//! The row of models: OpenAI's and Anthropic's dialects below `/v1`, Google's below `/v1beta`.

mod metrics;

use std::rc::Rc;
use std::sync::{Arc, LazyLock};
use std::time::Instant;

use base::{CallId, Name};
use gate::Reach;
use http::Method;
use llm::{LlmLane, Root, Shared};
use net::{Endpoint, Request, Response};

use super::{Local, OnThread, Opened, Parts, Row, Running};
use crate::assemble::{WayOut, endpoint};
use crate::config::Settings;
use crate::health::{LaneHealth, Readiness};
use metrics::ModelMetrics;

use crate::routes::{Answers, Open, Route, new_call_id};

pub(crate) const ROW: Row = Row {
    lane: &llm::LANE,
    routes: &[
        post("/v1/chat/completions", llm::refuse),
        post("/v1/responses", llm::refuse),
        post("/v1/embeddings", llm::refuse),
        post("/v1/messages", llm::refuse_anthropic),
        post("/v1/messages/count_tokens", llm::refuse_anthropic),
        get("/v1/usage", llm::refuse),
        get("/v1/models", llm::refuse),
        Route {
            methods: &[Method::GET, Method::POST],
            ..get("/v1/models/**", llm::refuse)
        },
        get("/v1beta/models", llm::refuse_gemini),
        Route {
            methods: &[Method::GET, Method::POST],
            ..get("/v1beta/models/**", llm::refuse_gemini)
        },
    ],
    metrics: metrics::ALL,
    endpoints,
    reach,
    only_at_start: |old, new| match old.llm == new.llm {
        true => Vec::new(),
        false => vec!["llm".to_owned()],
    },
    reloaded: |_, _| Vec::new(),
    open,
};

type Refuse = fn(&base::Refusal, CallId) -> Response;

const fn post(template: &'static str, refuse: Refuse) -> Route {
    Route {
        template,
        methods: &[Method::POST],
        open: Open::Agents,
        body_bytes_max: None,
        refuse,
        answers: Answers::Lane,
    }
}

const fn get(template: &'static str, refuse: Refuse) -> Route {
    Route {
        methods: &[Method::GET],
        ..post(template, refuse)
    }
}

/// Milliseconds on a clock that only goes on.
fn now_ms() -> u64 {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    u64::try_from(START.elapsed().as_millis()).unwrap_or(u64::MAX)
}

/// The lane of one process.
struct Llm {
    metrics: Arc<ModelMetrics>,
    shared: Arc<Shared>,
}

fn open(settings: &Settings, parts: &Parts<'_>) -> Opened {
    let written = &settings.llm;
    let providers = written.providers.iter();
    let metrics = Arc::new(ModelMetrics::new(written));
    let told = llm::Settings {
        meter: Arc::clone(&metrics) as Arc<dyn llm::ModelMeter>,
        providers: providers.map(|provider| provider.told.clone()).collect(),
        routes: written.routes.clone(),
        origins: settings.origins.clone(),
        body_bytes_max: written.body_bytes_max,
        answer_bytes_max: written.answer_bytes_max,
        answer_ms: written.answer_ms,
        silence_ms: written.silence_ms,
        usage: Arc::new(parts.spending.of_agents(parts.gate, parts.clock)),
        new_id: new_call_id,
        now_ms,
    };
    let shared = Arc::new(Shared::new(told, Arc::clone(parts.gate)));
    Ok(Arc::new(Llm { metrics, shared }))
}

impl Running for Llm {
    fn say_started(&self, settings: &Settings, url: Option<&str>) {
        let Some(gateway) = url.filter(|_| !settings.llm.providers.is_empty()) else {
            return;
        };
        for provider in &settings.llm.providers {
            tracing::info!(provider = %provider.told.name, url = format!("{gateway}/v1"), "provider");
        }
    }

    fn thread(&self, out: &WayOut) -> Rc<dyn OnThread> {
        Rc::new(LlmThread(LlmLane::new(
            Arc::clone(&self.shared),
            out.upstreams(),
        )))
    }

    fn show_metrics(&self, page: &mut String) {
        self.metrics.write(page);
    }

    /// A provider that is left alone takes none of the others away.
    fn health(&self) -> Option<LaneHealth> {
        let (mut parts, mut down) = (Vec::new(), 0);
        for (name, works) in self.shared.health() {
            down += usize::from(!works);
            let word = if works { "works" } else { "down" };
            parts.push((name.as_str().to_owned(), word));
        }
        if parts.is_empty() {
            return None;
        }
        let readiness = match down {
            0 => Readiness::Ready,
            _ => Readiness::Degraded,
        };
        Some(LaneHealth {
            title: "providers",
            parts,
            known: None,
            readiness,
        })
    }
}

struct LlmThread(LlmLane);

impl OnThread for LlmThread {
    fn answer<'a>(&'a self, _rest: &'a str, request: Request, id: CallId) -> Local<'a, Response> {
        let path = request.head.uri.path().to_owned();
        Box::pin(async move {
            let (root, rest) = match path.strip_prefix("/v1beta/") {
                Some(rest) => (Root::V1Beta, rest),
                None => (Root::V1, path.strip_prefix("/v1/").unwrap_or_default()),
            };
            self.0.serve(root, rest, request, id).await
        })
    }
}

fn endpoints(settings: &Settings) -> Vec<(Name, Endpoint)> {
    let providers = settings.llm.providers.iter();
    let all = providers.map(|provider| {
        let endpoint = endpoint(&provider.url, provider.ca.as_ref());
        (provider.told.name.clone(), endpoint)
    });
    all.collect()
}

fn reach(started: &Settings, _: &Settings) -> Vec<(Name, Reach)> {
    let providers = started.llm.providers.iter();
    let all = providers.map(|provider| {
        let mut reach = match provider.url.is_loopback() {
            true => Reach::loopback(),
            false => Reach::default(),
        };
        reach.ranges.extend(&provider.addresses);
        (provider.told.name.clone(), reach)
    });
    all.collect()
}
