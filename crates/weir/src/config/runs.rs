//! The `runs:` section: agents that runs may name, and the files of their instructions.

use ::config::{Check, Path as Key};
use base::Name;
use run::section::{CallbackSection, RunAgentSection, RunsSection};
use run::{RunAgent, RunCallback, RunLimits};

use super::settings::{Runs, Server};

/// Largest file of instructions, in bytes.
const INSTRUCTIONS_BYTES_MAX: usize = 1 << 20;
const DAY_MS: u64 = 86_400_000;
/// Names that stand for something else where policies speak of agents of runs.
const RESERVED: [&str; 2] = [run::actions::OWN, run::actions::ALL];

/// The lane's settings. `servers` are those that there are.
pub(super) fn runs(written: &RunsSection, servers: &[Server], check: &mut Check<'_>) -> Runs {
    let at = Key::of("runs");
    let mut agents = Vec::new();
    for (name, agent) in written.agents.iter() {
        let at = at.key("agents").key(name);
        if RESERVED.contains(&name) {
            check.say_of_name(&at, "is a name that weir needs itself; give it another");
        }
        agents.extend(self::agent(name, agent, servers, &at, check));
    }
    Runs {
        agents,
        own: RunLimits {
            steps: written.steps.0,
            tokens: written.tokens.map(|tokens| tokens.0),
            money: written.money.map(|money| money.0),
            time_ms: written.time_ms.0,
        },
        at_once: written.at_once.size(),
        agent_at_once: written.agent_at_once.size(),
        keep_ms: written.keep_days.0 * DAY_MS,
        bytes_max: written.bytes_max.0,
    }
}

fn agent(
    name: &str,
    written: &RunAgentSection,
    servers: &[Server],
    at: &Key,
    check: &mut Check<'_>,
) -> Option<RunAgent> {
    let instructions = written.instructions.as_ref().map_or("", |text| &*text.0);
    let instructions = match instructions.strip_prefix("file:") {
        Some(file) => {
            let text = check.text(std::path::Path::new(file), INSTRUCTIONS_BYTES_MAX);
            check
                .good(&at.key("instructions"), text)
                .unwrap_or_default()
        }
        None => instructions.to_owned(),
    };
    let mut tools = Vec::new();
    for (i, tool) in written.tools.iter() {
        let server = tool.0.split_once('/').map(|(server, _)| server);
        let is_known = |server: &str| servers.iter().any(|of| of.name.as_str() == server);
        match server {
            Some(server) if is_known(server) => tools.push(tool.0.clone()),
            Some(server) => {
                let known = servers.iter().map(|of| of.name.as_str());
                let near = base::near::meant(server, known);
                let near = near.map_or(String::new(), |near| format!("; did you mean {near}?"));
                check.say(
                    &at.key("tools").index(i),
                    format!("no server is named {server:?}{near}"),
                );
            }
            None => check.say(
                &at.key("tools").index(i),
                "must be server/tool, such as tracker/*",
            ),
        }
    }
    let callback = written.callback.as_ref();
    let callback = callback.map(|of| self::callback(of, &at.key("callback"), check));
    // One that is not good is a problem, and not none.
    let callback = match callback {
        None => None,
        Some(good) => Some(good?),
    };
    let Some(model) = &written.model else {
        check.say_of_name(at, "needs a model");
        return None;
    };
    Some(RunAgent {
        name: Name::new(name)?,
        model: model.0.clone(),
        instructions,
        tools,
        limits: RunLimits {
            steps: written.steps.0,
            tokens: written.tokens.map(|tokens| tokens.0),
            money: written.money.map(|money| money.0),
            time_ms: written.time_ms.0,
        },
        callback,
    })
}

fn callback(written: &CallbackSection, at: &Key, check: &mut Check<'_>) -> Option<RunCallback> {
    if written.url.is_none() || written.secret.is_none() {
        check.say_of_name(
            at,
            "needs a url and a secret, such as secret: env:RUNS_SECRET",
        );
    }
    let secret = check.of(&written.secret, &at.key("secret"), Check::secret);
    let url = written.url.as_ref()?;
    Some(RunCallback {
        url: format!("{}{}", url.origin(), url.path),
        secret: secret?,
    })
}

/// Whether all agents that are written are in the settings.
pub(super) fn is_whole(written: Option<&RunsSection>, runs: Option<&Runs>) -> bool {
    let written = written.map(|runs| runs.agents.iter().count());
    written == runs.map(|runs| runs.agents.len())
}
