//! The `llm` section of a configuration, as it is written.
//!
//! What one key says about another is checked where the configuration is read.

use base::limit;
use config::{
    Addresses, ByItem, ByName, Count, Dollars, FilePath, FileReference, Label, List, Reference,
    Text, Url,
};
use schemars::JsonSchema;
use serde::Deserialize;

/// Bytes of a request's body: images are in it.
const BODY_BYTES_DEFAULT: u64 = 32 << 20;
/// How long a provider may take until it answers at all, and be silent in the middle of an answer, in milliseconds.
const ANSWER_MS_DEFAULT: u64 = 600_000;
const SILENCE_MS_DEFAULT: u64 = 120_000;
/// How long an answer that streams may take in all, in milliseconds.
const STREAM_MS_DEFAULT: u64 = 3_600_000;
/// How long an answer is kept, in milliseconds, and bytes of all that are.
const CACHE_MS_DEFAULT: u64 = 3_600_000;
const CACHE_BYTES_DEFAULT: u64 = 64 << 20;
/// How long a WebSocket may be without a request, in milliseconds.
const SOCKET_IDLE_MS_DEFAULT: u64 = 900_000;

/// Models of providers, in the dialect that the client speaks: OpenAI's at /v1, Anthropic's at /v1/messages, Google's at /v1beta.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(example = &"{ providers: { openai: { key: env:OPENAI_API_KEY } } }")]
pub struct LlmSection {
    /// The providers, by names of your own; that of a known kind is its kind where none is said.
    #[schemars(example = &"{ anthropic: { key: env:ANTHROPIC_API_KEY } }")]
    pub providers: ByName<ProviderSection>,
    /// Names for models that are tried one after another: provider/model, with a weight after a space where the first is drawn.
    #[schemars(example = &"{ smart: [anthropic/claude-opus-5, openai/gpt-5.4] }")]
    pub routes: ByName<RouteSection>,
    /// A file of prices that goes before those that weir knows, as weir prices import writes it.
    #[schemars(example = &"./prices.csv")]
    pub prices: Option<FilePath>,
    /// Keeps answers for the same request of the same agent; nothing is kept where no agent is named.
    #[schemars(example = &"{ agents: [build], keep_ms: 3600000 }")]
    pub cache: Option<CacheSection>,
    /// Largest body of a request, in bytes.
    #[schemars(example = &"33554432")]
    pub body_bytes_max: Count<1024, 1_073_741_824>,
    /// Largest answer that does not stream, and largest event of one that does, in bytes.
    #[schemars(example = &"33554432")]
    pub answer_bytes_max: Count<1024, 1_073_741_824>,
    /// How long a provider may take until its answer begins, in milliseconds.
    #[schemars(example = &"600000")]
    pub answer_ms: Count<1, 86_400_000>,
    /// How long a provider may say nothing in the middle of an answer, or before its first word, in milliseconds; comments are no word.
    #[schemars(example = &"120000")]
    pub silence_ms: Count<1, 86_400_000>,
    /// How long an answer that streams may take in all, in milliseconds.
    #[schemars(example = &"3600000")]
    pub stream_ms: Count<1, 86_400_000>,
    /// How long a WebSocket may be without a request, in milliseconds.
    #[schemars(example = &"900000")]
    pub socket_idle_ms: Count<1, 3_600_000>,
}

/// Answers that are kept. Each agent has its own: no request of another is answered by them.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(example = &"{ agents: [build], keep_ms: 3600000 }")]
pub struct CacheSection {
    /// The agents whose answers are kept.
    #[schemars(example = &"[build]")]
    pub agents: List<Label>,
    /// How long an answer is kept, in milliseconds.
    #[schemars(example = &"3600000")]
    pub keep_ms: Count<1, 86_400_000>,
    /// Bytes of answers that are kept, of all agents together.
    #[schemars(example = &"67108864")]
    pub bytes_max: Count<1024, 17_179_869_184>,
}

impl Default for CacheSection {
    fn default() -> CacheSection {
        CacheSection {
            agents: Default::default(),
            keep_ms: Count(CACHE_MS_DEFAULT),
            bytes_max: Count(CACHE_BYTES_DEFAULT),
        }
    }
}

/// The models of a route, in the order in which they are tried.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[schemars(example = &"[anthropic/claude-opus-5, openai/gpt-5.4]")]
pub struct RouteSection(pub List<Text>);

/// One provider.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(example = &"{ key: env:OPENAI_API_KEY }")]
pub struct ProviderSection {
    /// What it is: anthropic, azure, bedrock, cohere, deepseek, gemini, groq, mistral, ollama, openai, openrouter, together, vertex,
    /// vllm (also any other that is compatible with OpenAI) or xai; its name where that is one of these.
    #[schemars(example = &"vllm")]
    pub kind: Option<Text>,
    /// Where it is asked, in place of what is known of its kind.
    #[schemars(example = &"https://models.example/v1")]
    pub url: Option<Url>,
    /// Its key; agents never see it.
    #[schemars(example = &"env:OPENAI_API_KEY")]
    pub key: Option<Reference>,
    /// Several keys: a conversation stays with one, and one that is at its limit is left alone for a while.
    #[schemars(example = &"[env:OPENAI_A, env:OPENAI_B]")]
    pub keys: List<Reference>,
    /// A key of AWS that signs each request, in the place of a key: of the kind bedrock.
    pub aws: Option<AwsSection>,
    /// A service account of Google that gets tokens, in the place of a key: of the kind vertex.
    pub google: Option<GoogleSection>,
    /// The models that it has; all where none is named.
    #[schemars(example = &"[gpt-5.4, gpt-5.4-mini]")]
    pub models: List<Text>,
    /// What its models cost, where weir does not know it or your contract says otherwise: dollars for a million tokens.
    #[schemars(example = &"{ gpt-5.4: { input: 1.25, cached_read: 0.125, output: 10 } }")]
    pub prices: ByItem<PriceSection>,
    /// Certificates to trust for it instead of the public ones, as PEM.
    #[schemars(example = &"file:ca.pem")]
    pub ca: Option<FileReference>,
    /// Private address ranges that may be dialled for it; those that are not public are refused otherwise.
    #[schemars(example = &"[10.0.0.0/8]")]
    pub addresses: List<Addresses>,
}

/// A key of AWS. Keys that are good for a time have a session_token; weir reads them when it starts, and when the configuration is read again.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = &"{ region: us-east-1, key_id: env:AWS_ACCESS_KEY_ID, secret: env:AWS_SECRET_ACCESS_KEY }")]
pub struct AwsSection {
    /// The region that is asked.
    #[schemars(example = &"us-east-1")]
    pub region: Text,
    /// The key's name.
    #[schemars(example = &"env:AWS_ACCESS_KEY_ID")]
    pub key_id: Reference,
    /// The key.
    #[schemars(example = &"env:AWS_SECRET_ACCESS_KEY")]
    pub secret: Reference,
    /// What belongs to keys that are good for a time.
    #[schemars(example = &"env:AWS_SESSION_TOKEN")]
    pub session_token: Option<Reference>,
}

/// A service account of Google.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = &"{ service_account: file:account.json, location: global }")]
pub struct GoogleSection {
    /// The file that Google gives for it.
    #[schemars(example = &"file:account.json")]
    pub service_account: FileReference,
    /// Where the models run: a region, us, eu or global.
    #[schemars(example = &"global")]
    pub location: Text,
    /// The project that is asked; the account's own where none is named.
    #[schemars(example = &"rivers")]
    pub project: Option<Text>,
    /// Where tokens are got, if not from Google itself; the file has to name the same place.
    #[schemars(example = &"https://oauth2.googleapis.com/token")]
    pub token_url: Option<Url>,
}

/// What a model costs, in dollars for a million tokens.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = &"{ input: 1.25, output: 10 }")]
pub struct PriceSection {
    /// What goes in.
    #[schemars(example = &"1.25")]
    pub input: Dollars,
    /// What of it is read from a cache; as the input where it is not said.
    #[schemars(example = &"0.125")]
    pub cached_read: Option<Dollars>,
    /// What of it is written to a cache; as the input where it is not said.
    #[schemars(example = &"1.5625")]
    pub cached_write: Option<Dollars>,
    /// What comes out.
    #[schemars(example = &"10")]
    pub output: Dollars,
}

impl PriceSection {
    /// As calls are priced.
    pub fn price(&self) -> gate::Price {
        let cached = |dollars: Option<Dollars>| dollars.unwrap_or(self.input).0;
        gate::Price {
            usual: gate::TokenPrices {
                input: self.input.0,
                cached_read: cached(self.cached_read),
                cached_write: cached(self.cached_write),
                output: self.output.0,
            },
            long: None,
        }
    }
}

impl Default for LlmSection {
    fn default() -> LlmSection {
        LlmSection {
            providers: Default::default(),
            routes: Default::default(),
            prices: None,
            cache: None,
            body_bytes_max: Count(BODY_BYTES_DEFAULT),
            answer_bytes_max: Count((limit::ANSWER_BYTES_DEFAULT as u64).max(BODY_BYTES_DEFAULT)),
            answer_ms: Count(ANSWER_MS_DEFAULT),
            silence_ms: Count(SILENCE_MS_DEFAULT),
            stream_ms: Count(STREAM_MS_DEFAULT),
            socket_idle_ms: Count(SOCKET_IDLE_MS_DEFAULT),
        }
    }
}
