//! What a call brings along besides who, what and on what: Cedar's context.
//!
//! It exists so that a context is built of no more than what the policies read. What they cannot see yet
//! is absent, never empty.

use std::net::IpAddr;

use base::{JsonValue, Lane};
use cedar_policy::RestrictedExpression;

use crate::arguments::Argument;
use crate::reads::{ARGUMENTS, FINDINGS, Reads};

/// One call, as policies may look at it.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// The protocol's method, such as `tools/call`.
    pub method: &'a str,
    /// Where the call came from.
    pub peer: IpAddr,
    /// When it came, in Unix milliseconds.
    pub unix_ms: u64,
    /// The arguments of the call: one object.
    pub arguments: Option<JsonValue<'a>>,
}

impl Context<'_> {
    /// Builds what is read. `findings` are absent before the scan; arguments belong to actions that have them.
    pub(crate) fn cedar(
        &self,
        lane: &Lane,
        reads: &Reads,
        arguments: Option<&[(String, Argument)]>,
        findings: Option<&[&str]>,
    ) -> Result<cedar_policy::Context, String> {
        let text = |text: &str| RestrictedExpression::new_string(text.into());
        let mut pairs = Vec::with_capacity(reads.attributes.len());
        for name in &reads.attributes {
            let value = match *name {
                "lane" => text(lane.name),
                "method" => text(self.method),
                // An IPv4 peer of an IPv6 listener is the IPv4 address that policies name.
                "peer" => RestrictedExpression::new_ip(self.peer.to_canonical().to_string()),
                "at" => RestrictedExpression::new_long((self.unix_ms / 1000).cast_signed()),
                ARGUMENTS => match arguments {
                    Some(arguments) => record(arguments)?,
                    None => continue,
                },
                FINDINGS => match findings {
                    Some(found) => RestrictedExpression::new_set(found.iter().copied().map(text)),
                    None => continue,
                },
                other => return Err(format!("the context has no {other}")),
            };
            pairs.push(((*name).to_string(), value));
        }
        cedar_policy::Context::from_pairs(pairs).map_err(|error| error.to_string())
    }
}

fn record(arguments: &[(String, Argument)]) -> Result<RestrictedExpression, String> {
    let fields = arguments
        .iter()
        .map(|(name, argument)| (name.clone(), argument.cedar()));
    RestrictedExpression::new_record(fields).map_err(|error| error.to_string())
}
