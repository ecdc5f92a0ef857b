//! What is measured of requests, for who shows it. Names follow OpenTelemetry's semantic conventions for generative AI.

use std::cell::Cell;
use std::sync::Arc;

use base::Metric;
use base::record::Usage;

use crate::lane::{LlmLane, Shared};
use crate::route::Candidate;
use crate::upstream::Sending;

/// `gen_ai.client.token.usage`, in tokens.
pub const TOKENS: Metric = Metric {
    name: "gen_ai_client_token_usage",
    kind: "histogram",
    labels: "gen_ai_operation_name, gen_ai_provider_name, gen_ai_request_model, gen_ai_token_type",
    help: "Tokens of a request to a model, in and out, as the provider counted them",
};
/// `gen_ai.client.operation.duration`, in seconds.
pub const DURATION: Metric = Metric {
    name: "gen_ai_client_operation_duration_seconds",
    kind: "histogram",
    labels: "gen_ai_operation_name, gen_ai_provider_name, gen_ai_request_model, error_type",
    help: "Time from a request to a provider until the end of its answer",
};
/// `gen_ai.client.operation.time_to_first_chunk`, in seconds.
pub const FIRST_CHUNK: Metric = Metric {
    name: "gen_ai_client_operation_time_to_first_chunk_seconds",
    kind: "histogram",
    labels: "gen_ai_operation_name, gen_ai_provider_name, gen_ai_request_model",
    help: "Time from a request to a provider until the first piece of an answer that streams",
};

/// One try of a request that has ended.
#[derive(Clone, Copy, Debug)]
pub struct MeteredTry<'a> {
    /// `chat` or `embeddings`.
    pub operation: &'static str,
    pub provider: &'a str,
    /// As the provider was asked for it. An agent may have chosen it: no label as it is.
    pub model: &'a str,
    pub usage: Option<Usage>,
    pub duration_ms: u64,
    /// Absent where it did not stream.
    pub first_chunk_ms: Option<u64>,
    /// The code of what went wrong.
    pub error: Option<&'static str>,
}

/// Whoever counts.
pub trait ModelMeter: Send + Sync {
    fn ended(&self, of: &MeteredTry<'_>);
}

/// Watches one try.
pub(crate) struct TryWatch {
    shared: Arc<Shared>,
    provider: usize,
    model: String,
    /// Bytes that the model reads; 0 where what it counts is not for them alone.
    bytes: u64,
    operation: &'static str,
    begun_ms: u64,
    first_ms: Cell<Option<u64>>,
}

impl TryWatch {
    pub(crate) fn new(lane: &LlmLane, sending: &Sending<'_>, candidate: &Candidate) -> TryWatch {
        TryWatch {
            shared: Arc::clone(&lane.shared),
            provider: candidate.provider,
            model: candidate.model.clone(),
            bytes: match sending.media_tokens {
                0 => sending.read_bytes,
                // What media count for is not known apart.
                _ => 0,
            },
            operation: sending.wire.operation(),
            begun_ms: (lane.settings().now_ms)(),
            first_ms: Cell::new(None),
        }
    }

    fn passed_ms(&self) -> u64 {
        (self.shared.settings.now_ms)().saturating_sub(self.begun_ms)
    }

    /// A piece of an answer that streams came.
    pub(crate) fn came(&self) {
        if self.first_ms.get().is_none() {
            self.first_ms.set(Some(self.passed_ms()));
        }
    }

    /// The try has ended: what was counted, and the code of what went wrong.
    pub(crate) fn ended(&self, usage: Option<Usage>, error: Option<&'static str>) {
        if let Some(usage) = &usage {
            let input = usage.total().saturating_sub(usage.output);
            self.shared.states[self.provider].counted(&self.model, self.bytes, input);
        }
        let settings = &self.shared.settings;
        settings.meter.ended(&MeteredTry {
            operation: self.operation,
            provider: settings.providers[self.provider].name.as_str(),
            model: &self.model,
            usage,
            duration_ms: self.passed_ms(),
            first_chunk_ms: self.first_ms.get(),
            error,
        });
    }
}
