//! The row of models: OpenAI's and Anthropic's dialects below `/v1`, Google's below `/v1beta`.

mod metrics;

use std::cell::{OnceCell, RefCell};
use std::rc::{Rc, Weak};
use std::sync::{Arc, LazyLock};
use std::time::Instant;

use arc_swap::ArcSwap;
use base::{CallId, Name, Refusal, refusal};
use gate::Reach;
use http::Method;
use identity::Verified;
use llm::{AroundModels, LlmLane, Root, Shared};
use net::{Endpoint, Request, Response, TargetError, Targets};

use super::{Local, OnThread, Opened, Parts, Row, Running, Take};
use crate::assemble::{OfAgents, WayOut, endpoint};
use crate::config::settings::{Llm as ModelSettings, ModelProvider};
use crate::config::{Problem, Settings};
use crate::health::{LaneHealth, Readiness};
use crate::reload::named;
use crate::routes::{Answers, Open, Route, new_call_id};
use metrics::ModelMetrics;

pub(crate) const ROW: Row = Row {
    lane: &llm::LANE,
    routes: &[
        post("/v1/chat/completions", llm::refuse),
        Route {
            methods: &[Method::GET, Method::POST],
            ..post("/v1/responses", llm::refuse)
        },
        // Those of runs are handed on to their lane.
        Route {
            methods: &[Method::GET, Method::POST, Method::DELETE],
            ..post("/v1/responses/**", llm::refuse)
        },
        post("/v1/embeddings", llm::refuse),
        post("/v1/completions", llm::refuse),
        post("/v1/moderations", llm::refuse),
        post("/v1/rerank", llm::refuse),
        post("/v1/images/generations", llm::refuse),
        // As Cullis has them.
        post("/v1/llm/chat", llm::refuse),
        get("/v1/egress/models", llm::refuse),
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
    only_at_start: |_, _| Vec::new(),
    reloaded,
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
    means: Means,
    current: Arc<ArcSwap<Generation>>,
}

/// One state of the settings of models. A call goes on by that in which it came in.
struct Generation {
    shared: Arc<Shared>,
    targets: Arc<Targets>,
    settings: ModelSettings,
}

impl Generation {
    fn lane(&self, out: &WayOut) -> LlmLane {
        let upstreams = out.to(&self.targets).upstreams();
        LlmLane::new(Arc::clone(&self.shared), upstreams)
    }
}

fn open(settings: &Settings, parts: &Parts<'_>) -> Opened {
    let means = Means {
        metrics: Arc::new(ModelMetrics::new(&settings.llm)),
        usage: Arc::new(parts.spending.of_agents(parts.gate, parts.clock)),
        origins: settings.origins.clone(),
    };
    let generation = Generation {
        shared: Arc::new(Shared::new(
            means.told(&settings.llm),
            Arc::clone(parts.gate),
        )),
        targets: Arc::clone(parts.targets),
        settings: settings.llm.clone(),
    };
    Ok(Arc::new(Llm {
        means,
        current: Arc::new(ArcSwap::from_pointee(generation)),
    }))
}

/// What all generations share.
struct Means {
    metrics: Arc<ModelMetrics>,
    usage: Arc<OfAgents>,
    origins: Vec<String>,
}

impl Means {
    /// What the lane is told of the settings.
    fn told(&self, settings: &ModelSettings) -> llm::Settings {
        let providers = settings.providers.iter();
        llm::Settings {
            providers: providers.map(|provider| provider.told.clone()).collect(),
            routes: settings.routes.clone(),
            cache: settings.cache.clone(),
            origins: self.origins.clone(),
            body_bytes_max: settings.body_bytes_max,
            answer_bytes_max: settings.answer_bytes_max,
            answer_ms: settings.answer_ms,
            silence_ms: settings.silence_ms,
            stream_ms: settings.stream_ms,
            socket_idle_ms: settings.socket_idle_ms,
            meter: Arc::clone(&self.metrics) as Arc<dyn llm::ModelMeter>,
            usage: Arc::clone(&self.usage) as Arc<dyn llm::UsageOf>,
            new_id: new_call_id,
            now_ms,
            unix_ms: || crate::ports::now().unix_ms,
        }
    }
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
        let generation = self.current.load_full();
        let lane = generation.lane(out);
        Rc::new(LlmThread {
            current: Arc::clone(&self.current),
            out: out.clone(),
            held: RefCell::new((generation, lane)),
            runs: OnceCell::new(),
        })
    }

    /// Providers, routes and bounds that are others. Calls under way go on by those that passed them.
    fn prepare(&self, settings: &Settings) -> Result<Take<'_>, Vec<Problem>> {
        let old = self.current.load_full();
        let new = settings.llm.clone();
        if old.settings == new {
            return Ok(Box::new(|| ()));
        }
        let targets = old.targets.next(endpoints(settings));
        let targets = targets.map_err(|errors| {
            let problem = |error: TargetError| Problem {
                key: format!("llm.providers.{}", error.name),
                ..Problem::of_file(settings.file.display().to_string(), error.problem, "")
            };
            errors.into_iter().map(problem).collect::<Vec<_>>()
        })?;
        let targets = Arc::new(targets);
        Ok(Box::new(move || {
            let told = self.means.told(&new);
            self.means.metrics.know(&new);
            let is_same = |name: &Name| old.settings.provider(name) == new.provider(name);
            let shared = Arc::new(old.shared.next(told, is_same));
            say_changes(&old.settings, &new);
            self.current.store(Arc::new(Generation {
                shared,
                targets,
                settings: new,
            }));
        }))
    }

    fn show_metrics(&self, page: &mut String) {
        self.means.metrics.write(&self.means.usage.gauges(), page);
    }

    /// A provider that is left alone takes none of the others away.
    fn health(&self) -> Option<LaneHealth> {
        let (mut parts, mut down) = (Vec::new(), 0);
        let current = self.current.load();
        for (name, works) in current.shared.health() {
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

/// Tells the operator which providers came, changed and went.
fn say_changes(old: &ModelSettings, new: &ModelSettings) {
    for provider in &new.providers {
        match old.provider(&provider.told.name) {
            None => tracing::info!(provider = %provider.told.name, "provider added"),
            Some(known) if known != provider => {
                tracing::info!(provider = %provider.told.name, "provider changed");
            }
            Some(_) => {}
        }
    }
    for provider in &old.providers {
        if new.provider(&provider.told.name).is_none() {
            tracing::info!(provider = %provider.told.name, "provider taken out");
        }
    }
}

struct LlmThread {
    current: Arc<ArcSwap<Generation>>,
    out: WayOut,
    /// The lane by the settings of the last call, as long as these are in force.
    held: RefCell<(Arc<Generation>, LlmLane)>,
    /// The lane that answers for models which are agents of runs. It asks this one, so neither holds the other.
    runs: OnceCell<Weak<dyn OnThread>>,
}

impl LlmThread {
    /// The lane by the settings that are in force now.
    fn lane(&self) -> LlmLane {
        let current = self.current.load();
        let mut held = self.held.borrow_mut();
        if !Arc::ptr_eq(&held.0, &current) {
            *held = (Arc::clone(&current), current.lane(&self.out));
        }
        held.1.clone()
    }
}

impl OnThread for LlmThread {
    fn answer<'a>(&'a self, _rest: &'a str, request: Request, id: CallId) -> Local<'a, Response> {
        let path = request.head.uri.path().to_owned();
        let lane = self.lane();
        Box::pin(async move {
            let (root, rest) = match path.strip_prefix("/v1beta/") {
                Some(rest) => (Root::V1Beta, rest),
                None => (Root::V1, path.strip_prefix("/v1/").unwrap_or_default()),
            };
            lane.serve(root, rest, request, id, self).await
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

/// The member of a body that this asks for alone.
#[derive(serde::Deserialize)]
struct NamedModel<'b> {
    #[serde(borrow)]
    model: std::borrow::Cow<'b, str>,
}

impl AroundModels for LlmThread {
    fn in_force(&self) -> LlmLane {
        self.lane()
    }

    fn has(&self, body: &[u8]) -> bool {
        let named = serde_json::from_slice::<NamedModel<'_>>(body);
        named.is_ok_and(|named| named.model.starts_with(run::MODEL_PREFIX))
    }

    fn answer<'a>(
        &'a self,
        agent: Verified,
        mut request: Request,
        id: CallId,
    ) -> Local<'a, Response> {
        request.head.extensions.insert(run::KnownAgent(agent));
        Box::pin(async move {
            match self.runs.get().and_then(Weak::upgrade) {
                Some(runs) => {
                    let path = request.head.uri.path().to_owned();
                    let rest = path.strip_prefix("/v1/responses/").unwrap_or_default();
                    runs.answer(rest, request, id).await
                }
                None => {
                    let refusal = Refusal::new(refusal::FAILED, "the lanes have not met");
                    llm::refuse(&refusal, id)
                }
            }
        })
    }
}

/// The providers that differ, the routes, and what else holds for all of them.
fn reloaded(old: &Settings, new: &Settings) -> Vec<String> {
    fn all(settings: &Settings) -> impl Iterator<Item = (&Name, &ModelProvider)> {
        let providers = settings.llm.providers.iter();
        providers.map(|provider| (&provider.told.name, provider))
    }
    let mut keys = named("llm.providers", all(old), all(new));
    let (old, new) = (&old.llm, &new.llm);
    let differ = [
        ("routes", old.routes != new.routes),
        ("cache", old.cache != new.cache),
        ("body_bytes_max", old.body_bytes_max != new.body_bytes_max),
        (
            "answer_bytes_max",
            old.answer_bytes_max != new.answer_bytes_max,
        ),
        ("answer_ms", old.answer_ms != new.answer_ms),
        ("silence_ms", old.silence_ms != new.silence_ms),
        ("stream_ms", old.stream_ms != new.stream_ms),
        ("socket_idle_ms", old.socket_idle_ms != new.socket_idle_ms),
    ];
    let differ = differ.into_iter().filter(|(_, differs)| *differs);
    keys.extend(differ.map(|(key, _)| format!("llm.{key}")));
    keys
}

fn endpoints(settings: &Settings) -> Vec<(Name, Endpoint)> {
    let providers = settings.llm.providers.iter();
    let all = providers.flat_map(|provider| {
        let ca = provider.ca.as_ref();
        let own = (provider.told.name.clone(), endpoint(&provider.url, ca));
        let token = provider.token.as_ref();
        let token = token.map(|place| {
            let ca = ca.filter(|_| place.is_own);
            (place.name.clone(), endpoint(&place.url, ca))
        });
        [Some(own), token]
    });
    all.flatten().collect()
}

fn reach(_: &Settings, settings: &Settings) -> Vec<(Name, Reach)> {
    let providers = settings.llm.providers.iter();
    let all = providers.flat_map(|provider| {
        let own = (provider.told.name.clone(), provider.reach());
        let token = provider.token.as_ref();
        let token = token.map(|place| (place.name.clone(), provider.token_reach(place)));
        [Some(own), token]
    });
    all.flatten().collect()
}
