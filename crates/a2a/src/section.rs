//! The `a2a` section of a configuration, as it is written: an agent's keys, what they mean, and their defaults.
//!
//! What one key says about another is checked where the configuration is read.

use config::{Addresses, Count, FileReference, List, Reference, Text, Url};
use schemars::JsonSchema;
use serde::Deserialize;

/// Where an agent's card is by the specification (A2A 1.0, section 8.2).
pub const CARD_PATH: &str = "/.well-known/agent-card.json";
const ANSWER_MS_DEFAULT: u64 = 300_000;
const SILENCE_MS_DEFAULT: u64 = 600_000;

/// One agent of others.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(example = &"{ url: https://helper.example/a2a }")]
pub struct RemoteAgentSection {
    /// Where the agent answers JSON-RPC; what its card says of that is not followed.
    #[schemars(required, example = &"https://helper.example/a2a")]
    pub url: Option<Url>,
    /// The path of its card at the same host.
    #[schemars(example = &"/.well-known/agent-card.json")]
    pub card: Text,
    /// Sent to the agent as Authorization: Bearer; over https, or to this machine.
    #[schemars(example = &"env:HELPER_TOKEN")]
    pub token: Option<Reference>,
    /// Certificates to trust for this agent instead of the public ones, as PEM.
    #[schemars(example = &"file:ca.pem")]
    pub ca: Option<FileReference>,
    /// Private address ranges that may be dialled for this agent; those that are not public are refused otherwise.
    #[schemars(example = &"[10.0.0.0/8]")]
    pub addresses: List<Addresses>,
    /// How long the agent may take until its answer is there, or its events begin, in milliseconds.
    #[schemars(example = &"300000")]
    pub answer_ms: Count<1, 86_400_000>,
    /// How long its events may pause, in milliseconds.
    #[schemars(example = &"600000")]
    pub silence_ms: Count<1, 86_400_000>,
}

impl Default for RemoteAgentSection {
    fn default() -> RemoteAgentSection {
        RemoteAgentSection {
            url: None,
            card: Text(CARD_PATH.to_owned()),
            token: None,
            ca: None,
            addresses: List::default(),
            answer_ms: Count(ANSWER_MS_DEFAULT),
            silence_ms: Count(SILENCE_MS_DEFAULT),
        }
    }
}
