//! Is it safe: finds secrets and prompt injection in every text that crosses the gate.
//!
//! One pass finds the words of all rules in a folded view of the text; a rule's exact regular expression
//! runs only where its words opened a span. What is encoded is decoded and scanned
//! again, within bounds, and a bound that is reached is an error. The crate does no I/O, reads no clock,
//! keeps nothing of what it saw but a keyed fingerprint, and decides nothing beyond the action that the
//! settings give a rule.
#![cfg_attr(
    test,
    allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")
)]

mod operator;
mod patterns;
mod place;
mod rule;
mod settings;

mod engine;
mod judge;
mod search;
mod sessions;
mod set;
mod stream;
mod subject;
mod told;

mod branch;
mod common;
mod context;

mod decode;
mod east;
mod entropy;
mod fold;
mod found;
mod fragments;
mod joined;
mod json;
mod known;
mod layer;
mod lexicon;
mod literals;
mod openers;
mod opening;
mod packed;
mod pem;
mod phrase;
mod runs;
mod spell;
mod stretches;
mod tail;
mod unpack;
mod values;
mod wanted;
mod windows;
mod words;

mod address;
mod budget;
mod chain;
mod command;

mod domain;
mod shape;
mod shell;
mod url;

mod check;
mod distinct;
mod harmless;
mod install;
mod mention;
mod placeholder;
mod report;

pub mod section;
pub mod tool;

#[cfg(test)]
mod tests;

pub use address::{host_address, internal, internal_host};
pub use budget::{Allowance, Budget};
pub use chain::{CHAIN_STEPS_MAX, CHAIN_WINDOW_MS_DEFAULT, Chain, Link, Step};
pub use command::{Argument, Commands, Hit};
pub use distinct::{Distinct, Sighting, distinct};
pub use domain::registrable;
pub use engine::Engine;
pub use fragments::Fragments;
pub use json::Document;
pub use known::{KnownTexts, TextMark};
pub use operator::{OPERATOR_FILE_BYTES_MAX, OPERATOR_RULES_MAX, RuleProblem, operator_rules};
pub use packed::Texts;
pub use patterns::{rule, rules};
pub use place::Place;
pub use report::{Bound, Finding, Report};
pub use rule::{Action, Class, Direction, Kind, Rule, Severity};
pub use sessions::{Pending, Session, Sessions};
pub use settings::{Exemption, Scope, Settings};
pub use stream::{Stream, in_pieces};
pub use subject::{Subject, SubjectKind, Verdict};
pub use url::{Floor, HostList, UrlHit, UrlParts, UrlRules};
pub use values::{VALUE_BYTES_MAX, VALUE_BYTES_MIN, ValueKind, Values};
