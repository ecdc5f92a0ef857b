//! What `/metrics` shows of models, by the names of OpenTelemetry's semantic conventions for generative AI.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use arc_swap::ArcSwap;
use base::Metric;
use llm::{DURATION, FIRST_CHUNK, MeteredTry, TOKENS};
use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use crate::assemble::BudgetGauge;
use crate::config::settings::Llm;

const LIMIT: Metric = Metric {
    name: "weir_budget_limit",
    kind: "gauge",
    labels: "budget, unit, per, agent",
    help: "What a budget has in its time; agent is empty where it is shared",
};
const USED: Metric = Metric {
    name: "weir_budget_used",
    kind: "gauge",
    labels: "budget, unit, per, agent",
    help: "What of a budget is spent or reserved now",
};

pub(super) const ALL: &[Metric] = &[TOKENS, DURATION, FIRST_CHUNK, LIMIT, USED];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfBudget {
    budget: String,
    unit: &'static str,
    per: &'static str,
    agent: String,
}

type Dollars = Gauge<f64, AtomicU64>;

/// The label of a model that the configuration does not name: agents may ask for any.
const OTHER: &str = "(other)";

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfModel {
    gen_ai_operation_name: &'static str,
    gen_ai_provider_name: Arc<str>,
    gen_ai_request_model: Arc<str>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfTokens {
    gen_ai_operation_name: &'static str,
    gen_ai_provider_name: Arc<str>,
    gen_ai_request_model: Arc<str>,
    gen_ai_token_type: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfEnd {
    gen_ai_operation_name: &'static str,
    gen_ai_provider_name: Arc<str>,
    gen_ai_request_model: Arc<str>,
    error_type: Option<&'static str>,
}

type OfSeconds<L> = Family<L, Histogram, fn() -> Histogram>;

/// The metrics of models.
pub(super) struct ModelMetrics {
    registry: Registry,
    /// The models that the configuration names.
    models: ArcSwap<HashSet<Arc<str>>>,
    tokens: OfSeconds<OfTokens>,
    duration: OfSeconds<OfEnd>,
    first_chunk: OfSeconds<OfModel>,
    limit: Family<OfBudget, Dollars>,
    used: Family<OfBudget, Dollars>,
}

/// The bounds that the conventions ask for, in tokens.
fn tokens() -> Histogram {
    Histogram::new((0..14).map(|power| f64::from(1_u32 << (2 * power))))
}

/// The same, in seconds.
fn seconds() -> Histogram {
    Histogram::new((0..14).map(|power| 0.01 * f64::from(1_u32 << power)))
}

fn named(settings: &Llm) -> HashSet<Arc<str>> {
    let named = settings.providers.iter().flat_map(|of| &of.told.models);
    let tried = settings.routes.iter().flat_map(|route| &route.tries);
    let models = named.chain(tried.map(|of| &of.model));
    models.map(|model| model.as_str().into()).collect()
}

impl ModelMetrics {
    pub(super) fn new(settings: &Llm) -> ModelMetrics {
        let mut metrics = ModelMetrics {
            registry: Registry::default(),
            models: ArcSwap::from_pointee(named(settings)),
            tokens: Family::new_with_constructor(tokens),
            duration: Family::new_with_constructor(seconds),
            first_chunk: Family::new_with_constructor(seconds),
            limit: Family::default(),
            used: Family::default(),
        };
        let registry = &mut metrics.registry;
        registry.register(TOKENS.name, TOKENS.help, metrics.tokens.clone());
        let bare = |metric: Metric| metric.name.trim_end_matches("_seconds");
        let (duration, first) = (metrics.duration.clone(), metrics.first_chunk.clone());
        registry.register_with_unit(bare(DURATION), DURATION.help, Unit::Seconds, duration);
        registry.register_with_unit(bare(FIRST_CHUNK), FIRST_CHUNK.help, Unit::Seconds, first);
        registry.register(LIMIT.name, LIMIT.help, metrics.limit.clone());
        registry.register(USED.name, USED.help, metrics.used.clone());
        metrics
    }

    /// The models that are labels of their own from now on.
    pub(super) fn know(&self, settings: &Llm) {
        self.models.store(Arc::new(named(settings)));
    }

    /// Appends the metrics to a page, with how the budgets stand now.
    pub(super) fn write(&self, budgets: &[BudgetGauge], page: &mut String) {
        self.limit.clear();
        self.used.clear();
        for of in budgets {
            let labels = OfBudget {
                budget: of.budget.clone(),
                unit: of.unit,
                per: of.per,
                agent: of.agent.clone(),
            };
            self.limit.get_or_create(&labels).set(of.limit);
            self.used.get_or_create(&labels).set(of.used);
        }
        text::encode_registry(page, &self.registry).expect("a string takes all that is written");
    }
}

impl llm::ModelMeter for ModelMetrics {
    fn ended(&self, of: &MeteredTry<'_>) {
        let model = self.models.load().get(of.model).cloned();
        let model = model.unwrap_or_else(|| OTHER.into());
        let provider: Arc<str> = of.provider.into();
        for (kind, count) in of.usage.iter().flat_map(|usage| {
            let input = usage.total().saturating_sub(usage.output);
            [("input", input), ("output", usage.output)]
        }) {
            let labels = OfTokens {
                gen_ai_operation_name: of.operation,
                gen_ai_provider_name: Arc::clone(&provider),
                gen_ai_request_model: Arc::clone(&model),
                gen_ai_token_type: kind,
            };
            self.tokens.get_or_create(&labels).observe(count as f64);
        }
        let labels = OfEnd {
            gen_ai_operation_name: of.operation,
            gen_ai_provider_name: Arc::clone(&provider),
            gen_ai_request_model: Arc::clone(&model),
            error_type: of.error,
        };
        let duration = self.duration.get_or_create(&labels);
        duration.observe(of.duration_ms as f64 / 1e3);
        if let Some(first_ms) = of.first_chunk_ms {
            let labels = OfModel {
                gen_ai_operation_name: of.operation,
                gen_ai_provider_name: provider,
                gen_ai_request_model: model,
            };
            let first = self.first_chunk.get_or_create(&labels);
            first.observe(first_ms as f64 / 1e3);
        }
    }
}
