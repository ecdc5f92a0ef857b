//! The `runs` section of a configuration, as it is written.
//!
//! What one key says about another is checked where the configuration is read.

use config::{ByName, Count, Dollars, List, Reference, Text, Url};
use schemars::JsonSchema;
use serde::Deserialize;

/// Times that a model is asked in one run.
const STEPS_DEFAULT: u64 = 32;
/// How long a run may take, in milliseconds: an hour.
const TIME_MS_DEFAULT: u64 = 3_600_000;
const AT_ONCE_DEFAULT: u64 = 1_000;
const AGENT_AT_ONCE_DEFAULT: u64 = 100;
const KEEP_DAYS_DEFAULT: u64 = 30;
const BYTES_DEFAULT: u64 = 4 << 30;

/// An agent's loop on the server, for callers that have none: POST /v1/runs.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(example = &"{ agents: { triage: { model: smart, tools: [tracker/*] } } }")]
pub struct RunsSection {
    /// Agents that a run may name, by names of your own.
    #[schemars(example = &"{ triage: { model: smart, instructions: file:triage.md, tools: [tracker/*] } }")]
    pub agents: ByName<RunAgentSection>,
    /// Times that a run which brings its own model and tools may ask the model.
    #[schemars(example = &"32")]
    pub steps: Count<1, 10_000>,
    /// Tokens, in and out, that such a run may use.
    #[schemars(example = &"500000")]
    pub tokens: Option<Count<1, 1_000_000_000_000>>,
    /// Dollars that such a run may cost; what has no known price is not counted.
    #[schemars(example = &"1.50")]
    pub money: Option<Dollars>,
    /// How long such a run may take, in milliseconds.
    #[schemars(example = &"3600000")]
    pub time_ms: Count<1_000, 604_800_000>,
    /// Most runs that have not ended.
    #[schemars(example = &"1000")]
    pub at_once: Count<1, 100_000>,
    /// Most of them that one agent has.
    #[schemars(example = &"100")]
    pub agent_at_once: Count<1, 100_000>,
    /// How many days a run is kept that has ended.
    #[schemars(example = &"30")]
    pub keep_days: Count<1, 3_650>,
    /// Most bytes of the events of all runs; those that ended first go first.
    #[schemars(example = &"4294967296")]
    pub bytes_max: Count<1_048_576, 1_099_511_627_776>,
}

/// One agent that a run may name.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(example = &"{ model: smart, instructions: file:triage.md, tools: [tracker/*], money: 1.50 }")]
pub struct RunAgentSection {
    /// The model: provider/model, or a route of llm.routes; it has to speak chat completions.
    #[schemars(required, example = &"smart")]
    pub model: Option<Text>,
    /// What the model is told first: a text, or file:PATH.
    #[schemars(example = &"file:triage.md")]
    pub instructions: Option<Text>,
    /// The tools that it is shown, as server/tool, where * stands for any text; none where none is named.
    #[schemars(example = &"[tracker/*, code/search_code]")]
    pub tools: List<Text>,
    /// Times that the model is asked.
    #[schemars(example = &"20")]
    pub steps: Count<1, 10_000>,
    /// Tokens, in and out.
    #[schemars(example = &"500000")]
    pub tokens: Option<Count<1, 1_000_000_000_000>>,
    /// Dollars; what has no known price is not counted.
    #[schemars(example = &"1.50")]
    pub money: Option<Dollars>,
    /// How long a run may take, in milliseconds.
    #[schemars(example = &"3600000")]
    pub time_ms: Count<1_000, 604_800_000>,
    /// Who is told when a run of it has ended: by a call of the run's agent, which policies have to permit.
    #[schemars(example = &"{ url: 'https://ops.example/runs', secret: env:RUNS_SECRET }")]
    pub callback: Option<CallbackSection>,
}

/// Where the end of a run is told.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(example = &"{ url: 'https://ops.example/runs', secret: env:RUNS_SECRET }")]
pub struct CallbackSection {
    /// The URL that is asked by POST.
    #[schemars(required, example = &"https://ops.example/runs")]
    pub url: Option<Url>,
    /// The key of the signature (HMAC-SHA-256).
    #[schemars(required, example = &"env:RUNS_SECRET")]
    pub secret: Option<Reference>,
}

impl Default for RunsSection {
    fn default() -> RunsSection {
        RunsSection {
            agents: ByName::default(),
            steps: Count(STEPS_DEFAULT),
            tokens: None,
            money: None,
            time_ms: Count(TIME_MS_DEFAULT),
            at_once: Count(AT_ONCE_DEFAULT),
            agent_at_once: Count(AGENT_AT_ONCE_DEFAULT),
            keep_days: Count(KEEP_DAYS_DEFAULT),
            bytes_max: Count(BYTES_DEFAULT),
        }
    }
}

impl Default for RunAgentSection {
    fn default() -> RunAgentSection {
        RunAgentSection {
            model: None,
            instructions: None,
            tools: List::default(),
            steps: Count(STEPS_DEFAULT),
            tokens: None,
            money: None,
            time_ms: Count(TIME_MS_DEFAULT),
            callback: None,
        }
    }
}
