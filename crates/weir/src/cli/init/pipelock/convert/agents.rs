//! Agents: each gets a key of its own, and the policies that its profile asks for.

use base::{AddressRange, Name};
use config::Path;

use super::Convert;

/// What an agent is called that the file does not name.
const AGENT_DEFAULT: &str = "agent";
/// The profile of agents that have none.
const PROFILE_DEFAULT: &str = "_default";
/// Most agents that are taken over.
const AGENTS_MAX: usize = 256;

impl Convert {
    pub(super) fn agents(&mut self) -> Vec<Name> {
        let all = Path::of("agents");
        let mut names: Vec<Name> = Vec::new();
        for key in self.source.keys(&all) {
            let at = all.key(&key);
            if key == PROFILE_DEFAULT {
                self.profile(&at, None);
                continue;
            }
            match Name::new(&key).filter(|_| names.len() < AGENTS_MAX) {
                Some(name) => {
                    self.profile(&at, Some(&name));
                    names.push(name);
                }
                None => self.source.lacks(
                    &at,
                    "is no name that weir can give an agent, or one too many",
                ),
            }
        }
        let default = Path::of("default_agent_identity");
        let named = self.source.text(&default);
        match named.as_deref().map(Name::new) {
            Some(Some(name)) => {
                self.source.took(&default, "an agent with a key");
                if !names.contains(&name) {
                    names.push(name);
                }
            }
            Some(None) => self
                .source
                .lacks(&default, "is no name that weir can give an agent"),
            None => {}
        }
        if names.is_empty() {
            names.extend(Name::new(AGENT_DEFAULT));
        }
        names
    }

    /// One agent, or what holds for those without a profile.
    fn profile(&mut self, at: &Path, agent: Option<&Name>) {
        let list = at.key("api_allowlist");
        let hosts = self.source.texts(&list);
        let has_list = self.source.get(&list).is_some();
        let allowed = self.hosts(hosts, true);
        let mode = at.key("mode");
        let written = self.source.text(&mode);
        let is_strict = written
            .as_deref()
            .map_or(self.reaching.is_strict, |mode| mode == "strict");
        let Some(agent) = agent else {
            for path in [&list, &mode] {
                if self.source.get(path).is_some() {
                    self.source.lacks(path, "every agent has a key, and policies by name; write one for the group agents");
                }
            }
            return self.rest_of_profile(at);
        };
        match written.as_deref() {
            Some("audit" | "permissive") => self.source.lacks(
                &mode,
                "web.mode is for all agents; this one is refused what the scan refuses",
            ),
            Some(_) => self.source.took(&mode, "its policies"),
            None => {}
        }
        if has_list {
            let what = if is_strict {
                "its policies"
            } else {
                "nothing: it may ask every host"
            };
            self.source.took(&list, what);
        }
        if written.is_some() || (has_list && is_strict) {
            let hosts = is_strict.then(|| match has_list {
                true => allowed,
                false => self.reaching.allowed.clone(),
            });
            self.reaching.of_agents.push((agent.clone(), hosts));
        }
        let sources = at.key("source_cidrs");
        let written = self.source.texts(&sources);
        let mut ranges = Vec::new();
        for (at, range) in written {
            match AddressRange::parse(&range) {
                Some(_) => ranges.push(range),
                None => self.source.lacks(&at, "is no range of addresses"),
            }
        }
        if !ranges.is_empty() {
            self.source
                .took(&sources, "the policy that it asks from there alone");
            self.reaching.from.push((agent.clone(), ranges));
        }
        self.rest_of_profile(at);
    }

    fn rest_of_profile(&mut self, at: &Path) {
        for (key, why) in [
            (
                "listeners",
                "an agent is known by its key, not by where it asks",
            ),
            ("enforce", "web.mode is for all agents"),
            (
                "dlp",
                "rules are for all agents; scan.overrides has an action for one agent",
            ),
            ("rate_limit", "scan.urls.per_minute is for each agent alike"),
            ("session_profiling", "weir scores no sessions"),
            ("mcp_tool_policy", "write a policy for the agent"),
            (
                "budget",
                "web.agent bounds what each agent has open, its hosts and its bytes in an hour",
            ),
            (
                "allowed_addresses",
                "addresses of chains of blocks are no concern of this gateway",
            ),
            ("sandbox", "weir runs no agents in a sandbox"),
            (
                "trusted_domains",
                "scan.urls.internal is for all agents; narrow it with a policy",
            ),
        ] {
            let path = at.key(key);
            if self.source.get(&path).is_some() {
                self.source.lacks(&path, why);
            }
        }
    }
}
