//! The lane of models: OpenAI's, Anthropic's and Google's dialects in, providers of any of these out.
//!
//! Where dialects agree the bytes that came go on untouched, but for what policy changes: a redaction, the model's name, the key. What
//! is said is judged by who says it, whole answers before they go back, streams event by event, and each call of a tool that a
//! model proposes as the call that it is. Providers of another dialect are asked by a conversion that refuses what it cannot say
//! (`convert`); those that take no key in a field by a login of their own (`login`).

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test may fail by panic"))]

pub mod actions;
mod answer;
mod cache;
mod convert;
pub mod fuzzing;
mod lane;
mod login;
mod meter;
mod models;
mod price;
mod provider;
mod refuse;
mod route;
pub mod section;
mod socket;
mod standing;
mod stored;
mod stream;
mod tags;
mod upstream;
mod usage;
mod wire;

pub use actions::LANE;
pub use cache::AnswerCacheSettings;
pub use convert::fields::conversion_rows;
pub use lane::{AroundModels, LlmLane, Root, Settings, Shared};
pub use login::ProviderLogin;
pub use login::aws::AwsKey;
pub use login::google::{GOOGLE_TOKEN_URL, ServiceAccount};
pub use meter::{DURATION, FIRST_CHUNK, MeteredTry, ModelMeter, TOKENS};
pub use price::{PRICES_BYTES_MAX, PriceRow, PriceTable, of_litellm};
pub use provider::{KeyField, KindBody, KindEvents, Provider, ProviderKind};
pub use refuse::{refuse, refuse_anthropic, refuse_gemini};
pub use route::{ModelRoute, RouteTry};
pub use standing::UsageOf;
