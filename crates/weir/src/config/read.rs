//! From what was written to what holds: the one place that makes [`Settings`].
//!
//! Single keys were read and checked by their types. Here is what one key says about another, and what the files and
//! variables hold that the configuration refers to; each section has its file. Every problem is collected.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use ::config::{Check, FILE_BYTES_MAX, OneOr, Path as Key, SecretsNeeded};
use ::relay::configured as relay;
use base::{Digest, Name};

use super::file::{self, File, Stopped};
use super::listen;
use super::outside::Machine;
use super::seen::Seen;
use super::settings::relay::Relay;
use super::settings::{Agent, LOCAL, Policy, PolicyFile, Settings};
use super::{
    POLICY_BYTES_MAX, Problem, a2a, budgets, cache, llm, mcp, named, replicas, runs, tools,
    toolsets, web,
};
use crate::lanes;

pub(crate) use super::outside::{Environment, read_text};

/// Reads and checks a configuration file. Each file that is read, or would be if it were there, is noted,
/// whatever comes of it.
pub(crate) fn load(
    path: &Path,
    environment: Environment<'_>,
    seen: &mut Seen,
) -> Result<Settings, Vec<Problem>> {
    load_again(path, environment, seen).and_then(all_usable)
}

/// The same for who serves already. Certificates that cannot be used are told by [`Settings::unusable`]: those that are
/// shown can stay, and an agent that is revoked must not wait for them.
pub(crate) fn load_again(
    path: &Path,
    environment: Environment<'_>,
    seen: &mut Seen,
) -> Result<Settings, Vec<Problem>> {
    seen.note(path);
    let text = configuration(path)?;
    read_again(path, &text, environment, seen, SecretsNeeded::All)
}

/// The text of a configuration.
fn configuration(path: &Path) -> Result<String, Vec<Problem>> {
    read_text(path, FILE_BYTES_MAX).map_err(|message| {
        let help = "Write one with weir init, or name another with -c FILE.";
        vec![Problem::of_file(path.display().to_string(), message, help)]
    })
}

/// The same for who sends nothing: a secret that is not there is no problem.
pub(crate) fn load_without_secrets(
    path: &Path,
    environment: Environment<'_>,
) -> Result<Settings, Vec<Problem>> {
    let text = configuration(path)?;
    let seen = &mut Seen::default();
    read_again(path, &text, environment, seen, SecretsNeeded::None).and_then(all_usable)
}

/// Checks a configuration's text as if it stood in the file `path`.
#[cfg(test)]
pub(crate) fn load_text(
    path: &Path,
    text: &str,
    environment: Environment<'_>,
    seen: &mut Seen,
) -> Result<Settings, Vec<Problem>> {
    read_again(path, text, environment, seen, SecretsNeeded::All).and_then(all_usable)
}

fn all_usable(settings: Settings) -> Result<Settings, Vec<Problem>> {
    match settings.unusable.is_empty() {
        true => Ok(settings),
        false => Err(settings.unusable),
    }
}

fn read_again(
    path: &Path,
    text: &str,
    environment: Environment<'_>,
    seen: &mut Seen,
    secrets: SecretsNeeded,
) -> Result<Settings, Vec<Problem>> {
    let name = path.display().to_string();
    let (document, file, mut problems) = file::read(&name, text).map_err(|wrong| vec![wrong])?;
    let folder = path.parent().unwrap_or(Path::new("")).to_path_buf();
    let mut machine = Machine { environment, seen };
    let mut check = Check::new(&document, &mut machine, folder);
    check.secrets = secrets;
    let mut settings = settings(&file, path, &mut check);
    problems.append(&mut check.problems);
    settings.warnings = check.warnings;
    let misses_secrets = check.misses_secrets;
    settings.warnings.extend(named::unknown(&settings));
    if problems.is_empty() && !misses_secrets && !is_whole(&file, &settings) {
        let message = "something that is written here cannot be used, and nothing says why";
        let help = "This is a fault of weir: please report it.";
        problems.push(Problem::of_file(name.clone(), message, help));
    }
    // Those of the configuration itself first, then file by file.
    problems.sort_by(|a, b| {
        let place = |p: &Problem| (p.file != name, p.file.clone(), p.line, p.column);
        place(a).cmp(&place(b))
    });
    problems.truncate(::config::PROBLEMS_MAX);
    if problems.iter().all(listen::is_of_certificates) {
        settings.unusable = problems;
        return Ok(settings);
    }
    Err(problems)
}

/// Where a configuration keeps its state, whatever else is wrong with it.
pub(crate) fn state(path: &Path) -> Result<PathBuf, Vec<Problem>> {
    kept(path).map(|(state, _)| state)
}

/// The same, and the witness of its log where it has one.
pub(crate) fn kept(path: &Path) -> Result<(PathBuf, Option<PathBuf>), Vec<Problem>> {
    let name = path.display().to_string();
    let text = read_text(path, FILE_BYTES_MAX).map_err(|message| {
        let help = "Name the folder of the log.";
        vec![Problem::of_file(name.clone(), message, help)]
    })?;
    let (_, file, problems) = file::read(&name, &text).map_err(|wrong| vec![wrong])?;
    if problems.iter().any(|problem| problem.key == "state") {
        return Err(problems);
    }
    let folder = path.parent().unwrap_or(Path::new(""));
    let witness = file.log.witness.map(|witness| folder.join(witness));
    Ok((folder.join(file.state.0), witness))
}

/// The settings. Each part is read, so that all problems are found; what is wrong is left out and said.
fn settings(file: &File, path: &Path, check: &mut Check<'_>) -> Settings {
    let root = Key::default();
    let listeners = listen::listeners(file, check);
    let admin = listen::admin(file, &listeners, check);
    let agents = agents(file, check);
    let mut servers = mcp::servers(&file.mcp, check);
    let taken: Vec<Name> = servers.iter().map(|server| server.name.clone()).collect();
    mcp::warn_of_exposed(&servers, &own_files(file, path, check), check);
    servers.extend(tools::servers(file, &taken, check));
    let toolsets = toolsets::toolsets(&file.toolsets, &servers, check);
    let policy = policy(file, check);
    let lanes: Vec<&str> = lanes::scanned().map(|lane| lane.name).collect();
    let scan = scan::section::settings(&file.scan, &root.key("scan"), &lanes, check);
    let names: Vec<Name> = servers.iter().map(|server| server.name.clone()).collect();
    let relay = relay::relay(file.relay.as_ref(), &names, check);
    let (cache, relay_cache) = caches(file, &relay, check);
    let taken: Vec<Name> = names.into_iter().chain(relay.names()).collect();
    let llm = llm::llm(&file.llm, &taken, check);
    let mut taken = taken;
    taken.extend(llm.providers.iter().map(|of| of.told.name.clone()));
    let of_runs = file.runs.iter().flat_map(|runs| runs.agents.iter());
    let of_runs: Vec<&str> = of_runs.map(|(name, _)| name).collect();
    let a2a = a2a::agents(&file.a2a, &taken, &of_runs, check);
    taken.extend(a2a.iter().map(|of| of.told.name.clone()));
    let identity = super::identity::identity(file.identity.as_ref(), check);
    let web = web::web(file.web.as_ref(), file.listen_public.0, &taken, check);
    let runs = file.runs.as_ref();
    let runs = runs.map(|runs| runs::runs(runs, &servers, check));
    let budgets = budgets::budgets(file, &llm, check);
    let stop = stop(file, &agents, &relay, check);
    let own = [check.folder.join(&file.state.0), path.to_owned()];
    let own = own.iter().chain(&check.read);
    tools::hide(&mut servers, &own.cloned().collect::<Vec<_>>(), check);
    let store = replicas::store(file, check);
    let mut log = file.log.clone();
    log.witness = log.witness.map(|witness| check.folder.join(witness));
    Settings {
        file: path.to_path_buf(),
        listen: listeners,
        admin,
        public_url: file.public_url.as_ref().map(|url| url.0.clone()),
        state: check.folder.join(&file.state.0),
        agents,
        identity,
        stop,
        servers,
        toolsets,
        llm,
        runs,
        budgets,
        web,
        a2a,
        search: file.tools.as_ref().is_some_and(|tools| tools.search.0),
        policy,
        scan,
        cache,
        relay_cache,
        relay,
        #[cfg(test)]
        echo: file.echo.clone(),
        pins: file.scan.pins.0,
        warnings: Vec::new(),
        unusable: Vec::new(),
        limits: file.limits.clone(),
        log,
        store,
        // The gateway's own pages come from its public URL.
        origins: file
            .origins
            .values()
            .chain(&file.public_url)
            .map(|origin| origin.0.clone())
            .collect(),
        logs: file.logs.clone(),
        threads: file.threads.size(),
    }
}

/// The stores that replicas share, and whether those are written that something needs.
fn caches(
    file: &File,
    relay: &Relay,
    check: &mut Check<'_>,
) -> (Option<cache::Cache>, Option<cache::Cache>) {
    let root = Key::default();
    let inbound = root.key("relay").key("inbound");
    let own = file.relay.as_ref().and_then(|relay| relay.inbound.as_ref());
    let own = own.and_then(|inbound| inbound.cache.as_ref());
    let all = cache::cache(file.cache.as_ref(), &root.key("cache"), check);
    let of_relay = cache::cache(own, &inbound.key("cache"), check);
    let needs = "needs a store that all instances share: write cache: { redis: env:REDIS_URL }";
    if let Some(side) = &relay.inbound
        && file.cache.is_none()
        && own.is_none()
    {
        if side.mode == seal::Mode::Strict {
            check.say(&inbound.key("replay"), needs);
        }
        if side.fleet_key.is_some() {
            check.say(&inbound.key("ticket_keys"), needs);
        }
    }
    let identity = file.identity.as_ref();
    let is_redis = |identity: &super::identity::IdentitySection| {
        identity.once == super::identity::OnceBy::Redis
    };
    if identity.is_some_and(is_redis) && file.cache.is_none() {
        check.say(&root.key("identity").key("once"), needs);
    }
    (all, of_relay)
}

/// What is the gateway's alone: its state, its configuration and its policies.
fn own_files(file: &File, path: &Path, check: &Check<'_>) -> Vec<PathBuf> {
    let policies = match &file.policy {
        Some(OneOr::One(file)) => vec![&file.0],
        Some(OneOr::Map(policy)) => {
            let files = policy.files.iter().flat_map(|files| files.values());
            files.map(|file| &file.0).collect()
        }
        None => Vec::new(),
    };
    let state = check.folder.join(&file.state.0);
    let policies = policies.into_iter().map(|file| check.folder.join(file));
    [state, path.to_owned()]
        .into_iter()
        .chain(policies)
        .collect()
}

/// Whether all that is written is in the settings: nothing may be left out without a problem.
fn is_whole(file: &File, settings: &Settings) -> bool {
    let tools = file.tools.as_ref();
    let code = tools.is_some_and(|tools| tools.code.is_some());
    let flow = tools.is_some_and(|tools| tools.flow.is_some());
    let servers = file.mcp.iter().count() + usize::from(code) + usize::from(flow);
    let listeners = file.listen.values().count();
    servers == settings.servers.len()
        && listeners == settings.listen.len()
        && file.agents.iter().count() == settings.agents.len()
        && llm::is_whole(&file.llm, &settings.llm)
        && web::is_whole(file.web.as_ref(), &settings.web)
        && file.a2a.iter().count() == settings.a2a.len()
        && runs::is_whole(file.runs.as_ref(), settings.runs.as_ref())
        && relay::is_whole(file.relay.as_ref(), &settings.relay)
        && file.cache.is_some() == settings.cache.is_some()
}

/// Whose calls the gateway's own are in records.
const OWN_CALLS: &str = "weir";

fn agents(file: &File, check: &mut Check<'_>) -> Vec<Agent> {
    let mut agents = Vec::new();
    let mut owners: HashMap<Digest, &str> = HashMap::new();
    for (name, agent) in file.agents.iter() {
        if name == OWN_CALLS {
            let message =
                "is how the gateway's own calls are recorded; give the agent another name";
            check.say_of_name(&Key::of("agents").key(name), message);
        }
        let at = Key::of("agents").key(name).key("key");
        let keys = agent.key.iter().flat_map(|keys| keys.values());
        let keys: Vec<Digest> = keys.map(|key| key.0).collect();
        if agent.key.as_ref().is_some_and(|keys| keys.is_empty()) {
            check.say(&at, "must list at least one key");
        }
        for key in &keys {
            match owners.insert(*key, name) {
                Some(other) if other == name => check.say(&at, "lists a key twice"),
                Some(other) => {
                    let message = format!("is also a key of the agent {other}; give each its own");
                    check.say(&at, message);
                }
                None => {}
            }
        }
        agents.extend(Name::new(name).map(|name| Agent {
            name,
            keys,
            groups: agent.groups.values().map(|group| group.0.clone()).collect(),
            state: agent.state.into(),
            expires_unix_ms: agent.expires.map(|expires| expires.0),
        }));
    }
    agents
}

/// The stops. A name that nothing has would stop nothing, and nobody would notice.
fn stop(file: &File, agents: &[Agent], relay: &Relay, check: &mut Check<'_>) -> gate::Stops {
    let lanes: Vec<&str> = lanes::tables().iter().map(|lane| lane.name).collect();
    let agents: Vec<&str> = agents
        .iter()
        .map(|agent| &agent.name)
        .chain(relay.agents())
        .map(Name::as_str)
        .chain([LOCAL])
        .collect();
    let mut stops = gate::Stops::default();
    for (i, stopped) in file.stop.iter().flat_map(|stops| stops.iter()) {
        let at = Key::of("stop");
        let at = i.map_or(at.clone(), |i| at.index(i));
        let mut is_known = |what: &str, name: &str, known: &[&str]| {
            let is_known = known.contains(&name);
            if !is_known {
                let near = base::near::meant(name, known.iter().copied());
                let near = near.map_or(String::new(), |near| format!("; did you mean {near}?"));
                check.say(&at, format!("no {what} is named {name:?}{near}"));
            }
            is_known
        };
        match stopped {
            Stopped::All => stops.all = true,
            Stopped::Lane(name) if is_known("lane", name, &lanes) => stops.lanes.push(name.clone()),
            Stopped::Agent(name) if is_known("agent", name.as_str(), &agents) => {
                stops.agents.push(name.clone());
            }
            Stopped::Lane(_) | Stopped::Agent(_) => {}
        }
    }
    stops
}

fn policy(file: &File, check: &mut Check<'_>) -> Policy {
    let at = Key::of("policy");
    let (mut names, mut arguments) = (Vec::new(), BTreeMap::new());
    match &file.policy {
        None => {}
        Some(OneOr::One(file)) => names.push(&file.0),
        Some(OneOr::Map(policy)) => {
            if policy.files.as_ref().is_some_and(|files| files.is_empty()) {
                let message = "must name at least one file; without one all is refused";
                check.say(&at.key("files"), message);
            }
            names.extend(
                policy
                    .files
                    .iter()
                    .flat_map(|files| files.values())
                    .map(|file| &file.0),
            );
            let all = policy.arguments.iter();
            arguments.extend(all.map(|(name, of)| (name.to_owned(), of.0)));
        }
    }
    let mut files = Vec::new();
    for name in names {
        let text = check.text(name, POLICY_BYTES_MAX);
        match text.map_err(|message| message.replacen("the file", &format!("the file {name:?}"), 1))
        {
            Ok(text) => files.push(PolicyFile {
                file: check.folder.join(name).display().to_string(),
                text,
            }),
            Err(message) => check.say(&at, message),
        }
    }
    Policy { files, arguments }
}
