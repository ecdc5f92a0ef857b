//! The `a2a:` section: what an agent's keys say about each other, and the secrets and files that they name.

use ::config::{ByName, Check, Path as Key};
use a2a::RemoteAgent;
use a2a::section::RemoteAgentSection;
use base::Name;
use http::uri::PathAndQuery;

use super::settings::A2aAgent;

/// The agents of others. `taken` are the names of servers, of the relay's sides and of providers, `of_runs` those of agents of
/// runs, which are at the same paths: an agent has a name of its own.
pub(super) fn agents(
    written: &ByName<RemoteAgentSection>,
    taken: &[Name],
    of_runs: &[&str],
    check: &mut Check<'_>,
) -> Vec<A2aAgent> {
    let mut agents = Vec::new();
    for (name, written) in written.iter() {
        let at = Key::of("a2a").key(name);
        if taken.iter().any(|other| other.as_str() == name) {
            check.say_of_name(
                &at,
                "is the name of a server, of a provider or of a side of the relay too; give it another",
            );
        }
        if of_runs.contains(&name) {
            check.say_of_name(
                &at,
                "is the name of an agent of runs too, which is at /a2a/ by it; give it another",
            );
        }
        agents.extend(agent(name, written, &at, check));
    }
    agents
}

fn agent(
    name: &str,
    written: &RemoteAgentSection,
    at: &Key,
    check: &mut Check<'_>,
) -> Option<A2aAgent> {
    let token = check.of(&written.token, &at.key("token"), Check::secret);
    let ca = check.of(&written.ca, &at.key("ca"), Check::certificates);
    let card = path(&written.card.0);
    if card.is_none() {
        check.say(
            &at.key("card"),
            "must be a path such as /.well-known/agent-card.json, at the host of url",
        );
    }
    let Some(url) = written.url.clone() else {
        check.say_of_name(at, "needs a url, where the agent answers JSON-RPC");
        return None;
    };
    if !url.https && !url.is_loopback() && check.wrote(&at.key("token")) {
        let message = "would cross the network in the clear; use an https url";
        check.say(&at.key("token"), message);
    }
    if !url.https && ca.is_some() {
        check.say(&at.key("ca"), "is for https, and the url is http");
    }
    Some(A2aAgent {
        told: RemoteAgent {
            name: Name::new(name)?,
            card: card?,
            token,
            answer_ms: written.answer_ms.0,
            silence_ms: written.silence_ms.0,
        },
        url,
        ca,
        addresses: written.addresses.values().map(|range| range.0).collect(),
    })
}

/// A path with a query, without a host.
fn path(text: &str) -> Option<PathAndQuery> {
    let is_plain = text.starts_with('/') && !text.starts_with("//") && !text.contains('#');
    text.parse().ok().filter(|_| is_plain)
}
