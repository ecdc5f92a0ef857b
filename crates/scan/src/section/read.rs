//! What the configuration says of the scan: actions, exemptions, rules and values of the operator's own.
//!
//! Rules of the operator's own are read first, so that everything else can name them. A value is never part
//! of a problem.

use std::path::Path as File;

use super::{Act, Exempt, Override, RuleActions, Section, Stop, Urls};
use crate::{Action, Class, Direction, Exemption, HostList, Scope, UrlRules, ValueKind, Values};
use config::{Check, OneOr, Path as Key, Problem, Reference};

/// Most files of scan rules in one folder.
const RULE_FILES_MAX: usize = 256;
/// Most bytes of a file of values to look for.
const VALUES_BYTES_MAX: usize = 4 << 20;

/// The key of each class that holds an action.
const CLASS_KEYS: [(&str, Class); 7] = [
    ("secrets", Class::Secret),
    ("personal", Class::Personal),
    ("injection", Class::Injection),
    ("commands", Class::Command),
    ("urls.action", Class::Url),
    ("tools", Class::Tool),
    ("chains", Class::Chain),
];

/// Rules that say that a part of a URL looks random.
const ENTROPY: [&str; 4] = [
    "url_entropy_host",
    "url_entropy_path",
    "url_entropy_query",
    "budget_entropy",
];

/// Most rules of the operator's own, over all files.
const RULES_MAX: usize = crate::OPERATOR_RULES_MAX;

/// An action, in one direction or in all.
type Given = (Option<Direction>, Action);

/// What the section says. `at` is where it stands, and `lanes` are those whose messages the scan reads.
pub fn settings(
    section: &Section,
    at: &Key,
    lanes: &[&str],
    check: &mut Check<'_>,
) -> crate::Settings {
    let mut reading = Reading {
        settings: crate::Settings::default(),
        rules_missing: false,
        lanes,
        at,
        check,
    };
    reading.own_rules(section);
    reading.urls(&section.urls);
    for (key, class) in CLASS_KEYS {
        let at = Key([&at.0[..], &Key::of(key).0[..]].concat());
        reading.actions(class.as_str(), &at, of_class(section, class));
    }
    for (id, RuleActions(actions)) in section.rules.iter() {
        let at = at.key("rules").key(id);
        match CLASS_KEYS.iter().find(|(_, class)| class.as_str() == id) {
            Some((key, _)) => reading.is_class(&at, key),
            None => reading.actions(id, &at, given(actions, |all| all.actions().collect())),
        }
    }
    for (i, place) in section.overrides.iter().flat_map(|all| all.iter()) {
        reading.override_of(place, &at.key("overrides").index(i));
    }
    for (i, place) in section.exempt.iter().flat_map(|all| all.iter()) {
        reading.exemption(place, &at.key("exempt").index(i));
    }
    reading.values(section);
    reading.settings
}

fn given<D>(actions: &OneOr<Act, D>, each: fn(&D) -> Vec<(Direction, Action)>) -> Vec<Given> {
    match actions {
        OneOr::One(Act(action)) => vec![(None, *action)],
        OneOr::Map(all) => {
            let all = each(all).into_iter();
            all.map(|(way, action)| (Some(way), action)).collect()
        }
    }
}

fn of_class(section: &Section, class: Class) -> Vec<Given> {
    let stop = |stop: Option<Stop>| stop.iter().map(|stop| (None, stop.0)).collect();
    match class {
        Class::Secret => section
            .secrets
            .as_ref()
            .map(|all| given(all, |all| all.actions().collect())),
        Class::Personal => section
            .personal
            .as_ref()
            .map(|all| given(all, |all| all.actions().collect())),
        Class::Injection => section
            .injection
            .as_ref()
            .map(|all| given(all, |all| all.actions().collect())),
        Class::Command => Some(stop(section.commands)),
        Class::Url => Some(stop(section.urls.action)),
        Class::Tool => Some(stop(section.tools)),
        Class::Chain => Some(stop(section.chains)),
    }
    .unwrap_or_default()
}

struct Reading<'r, 'c> {
    settings: crate::Settings,
    lanes: &'r [&'r str],
    /// Whether rules of the operator's own could not be read.
    rules_missing: bool,
    at: &'r Key,
    check: &'r mut Check<'c>,
}

impl Reading<'_, '_> {
    fn is_class(&mut self, at: &Key, key: &str) {
        let message = format!("is a class, not a rule; write scan.{key}");
        self.check.say_of_name(at, message);
    }

    /// The actions for a rule or a class.
    fn actions(&mut self, name: &str, at: &Key, given: Vec<Given>) {
        if self.may_be_own(name) {
            return;
        }
        let mut problem = None;
        for (direction, action) in given {
            let scope = Scope {
                direction,
                ..Scope::default()
            };
            problem = self.set(name, scope, action).err().or(problem);
        }
        if let Some(message) = problem {
            self.check.say(at, message);
        }
    }

    /// Sets an action, if it can be taken for this rule or class.
    fn set(&mut self, name: &str, scope: Scope, action: Action) -> Result<(), String> {
        let own = self.settings.rules.iter().find(|rule| rule.id == name);
        let rule = own.copied().or_else(|| crate::rule(name));
        let named = || Class::ALL.into_iter().find(|c| c.as_str() == name);
        let class = rule.map(|rule| rule.class).or_else(named);
        let whole = class.is_some_and(|class| {
            matches!(
                class,
                Class::Command | Class::Url | Class::Tool | Class::Chain
            )
        });
        if whole && action == Action::Redact {
            return Err("there is nothing to redact; write refuse, warn or off".to_owned());
        }
        self.settings.set_in(name, scope, action)
    }

    /// Whether a name may be that of a rule whose file could not be read, which was said already.
    fn may_be_own(&self, name: &str) -> bool {
        let class = Class::ALL.iter().any(|class| class.as_str() == name);
        self.rules_missing && crate::rule(name).is_none() && !class
    }

    /// A lane that the scan does not read has nothing to override.
    fn known_lane(&mut self, lane: Option<&config::Label>, at: &Key) {
        let Some(lane) = lane.map(|lane| lane.0.as_str()) else {
            return;
        };
        if !self.lanes.contains(&lane) {
            let lanes = self.lanes.join(", ");
            self.check
                .say(&at.key("lane"), format!("must be one of {lanes}"));
        }
    }

    /// One of `scan.overrides`.
    fn override_of(&mut self, given: &Override, at: &Key) {
        self.known_place(given.agent.as_ref(), given.target.as_ref(), at);
        self.known_lane(given.lane.as_ref(), at);
        let wrote = |check: &Check<'_>, key: &str| check.wrote(&at.key(key));
        let key = match (wrote(self.check, "rule"), wrote(self.check, "class")) {
            (true, false) => "rule",
            (false, true) => "class",
            (true, true) => {
                return self
                    .check
                    .say(&at.key("class"), "does not go with rule; keep one");
            }
            (false, false) => {
                return self.check.say(&at.key("rule"), "has to be there, or class");
            }
        };
        let places = ["direction", "lane", "target", "agent"];
        if !places.iter().any(|key| wrote(self.check, key)) {
            let message = "names no direction, lane, target or agent; write it as scan.rules or as \
                           the class's own key";
            return self.check.say(&at.key(key), message);
        }
        let rule = given.rule.as_ref().map(|rule| rule.0.as_str());
        let name = rule.or(given.class.map(|class| class.0.as_str()));
        let (Some(name), Some(Act(action))) = (name, given.action) else {
            return; // Said when it was read.
        };
        let scope = Scope {
            direction: given.direction.map(|way| way.0),
            lane: given.lane.as_ref().map(|lane| lane.0.to_string()),
            target: given.target.as_ref().map(|target| target.0.clone()),
            agent: given.agent.as_ref().map(|agent| agent.0.to_string()),
        };
        if !self.may_be_own(name)
            && let Err(message) = self.set(name, scope, action)
        {
            self.check.say(&at.key(key), message);
        }
    }

    /// One of `scan.exempt`.
    fn exemption(&mut self, given: &Exempt, at: &Key) {
        self.known_place(given.agent.as_ref(), given.target.as_ref(), at);
        let (Some(rule), Some(reason), Some(expires)) = (&given.rule, &given.reason, given.expires)
        else {
            return; // Said when it was read.
        };
        if expires.0 <= self.check.outside.now_unix_ms() {
            let message = "has expired, and is not in force; take it out or give it a new time";
            self.check.warn(&at.key("expires"), message);
        }
        let exemption = Exemption {
            rule: rule.0.clone(),
            target: given.target.as_ref().map(|target| target.0.clone()),
            agent: given.agent.as_ref().map(|agent| agent.0.to_string()),
            reason: reason.0.clone(),
            expires_s: expires.0 / 1000,
        };
        if !self.may_be_own(&exemption.rule)
            && let Err(message) = self.settings.exempt(exemption)
        {
            self.check.say(&at.key("rule"), message);
        }
    }

    /// A name that nothing here has would never match, and nobody would notice.
    fn known_place(
        &mut self,
        agent: Option<&config::Label>,
        target: Option<&config::Text>,
        at: &Key,
    ) {
        let agent = agent.map(|agent| agent.0.as_str());
        // A host is no server of ours, and may be a target all the same.
        let target = target
            .map(|target| target.0.as_str())
            .filter(|name| !name.contains('.'));
        for (key, what, section, name) in [
            ("agent", "agent", "agents", agent),
            ("target", "server", "mcp", target),
        ] {
            let section = Key::of(section);
            let known: Vec<&str> = self.check.document.names(&section).collect();
            if let Some(name) = name.filter(|name| !known.contains(name)) {
                let near = base::near::meant(name, known.iter().copied());
                let near = near.map_or(String::new(), |near| format!("; did you mean {near}?"));
                self.check
                    .say(&at.key(key), format!("no {what} is named so{near}"));
            }
        }
    }

    /// Rules of the operator's own.
    fn own_rules(&mut self, section: &Section) {
        let Some(folder) = &section.folder else {
            return;
        };
        let (folder, at) = (self.check.folder.join(&folder.0), self.at.key("folder"));
        let files = self.check.outside.files(&folder, "toml", RULE_FILES_MAX);
        let Some(files) = self.check.good(&at, files) else {
            self.rules_missing = true;
            return;
        };
        let before = self.check.problems.len();
        for file in files {
            for rule in self.rule_file(&file) {
                let rules = &mut self.settings.rules;
                if rules.iter().any(|other| other.id == rule.id) {
                    let message = format!("rule `{}`: another file has a rule of this id", rule.id);
                    self.check.problems.push(in_file(&file, 0, message));
                }
                rules.push(rule);
            }
        }
        self.rules_missing = self.check.problems.len() > before;
        if self.settings.rules.len() > RULES_MAX {
            let message = format!("holds more than {RULES_MAX} rules");
            self.check.say(&at, message);
        }
    }

    fn rule_file(&mut self, file: &File) -> Vec<&'static crate::Rule> {
        let text = self
            .check
            .outside
            .text(file, crate::OPERATOR_FILE_BYTES_MAX);
        let problems = match text {
            Ok(text) => match crate::operator_rules(&text) {
                Ok(rules) => return rules,
                Err(problems) => problems
                    .into_iter()
                    .map(|p| in_file(file, p.line, p.message))
                    .collect(),
            },
            Err(message) => vec![in_file(file, 0, message)],
        };
        self.check.problems.extend(problems);
        Vec::new()
    }

    /// The operator's secrets and canaries.
    fn values(&mut self, section: &Section) {
        let mut all: Vec<(ValueKind, String)> = Vec::new();
        for (key, kind, list) in [
            ("values", ValueKind::Secret, &section.values),
            ("canaries", ValueKind::Canary, &section.canaries),
        ] {
            for (i, reference) in list.iter().flat_map(|list| list.iter()) {
                let at = self.at.key(key).index(i);
                let found = self.values_behind(reference, &at);
                all.extend(found.into_iter().map(|value| (kind, value)));
            }
        }
        if !all.is_empty() {
            let values = Values::new(all.iter().map(|(kind, value)| (*kind, value.as_str())));
            self.settings.values = self.check.good(&self.at.key("values"), values);
        }
    }

    /// The values of one reference that are of a length that can be looked for.
    fn values_behind(&mut self, from: &Reference, at: &Key) -> Vec<String> {
        match from {
            Reference::Env(name) => {
                let value = self.check.outside.variable(name);
                let value = value
                    .ok_or_else(|| format!("the variable {name} is not set"))
                    .and_then(|value| match fits(&value) {
                        Ok(()) => Ok(value),
                        Err(message) => Err(format!("the value of {name} {message}")),
                    });
                self.check.good_secret(at, value).into_iter().collect()
            }
            Reference::File(path) => {
                let path = self.check.folder.join(path);
                let text = self.check.outside.text(&path, VALUES_BYTES_MAX);
                let text = text.map_err(|message| format!("the file {} {message}", path.display()));
                let text = self.check.good_secret(at, text);
                text.map_or(Vec::new(), |text| self.lines_of(&path, &text))
            }
        }
    }

    /// One value a line; blank lines and comments say nothing.
    fn lines_of(&mut self, file: &File, text: &str) -> Vec<String> {
        let mut found = Vec::new();
        for (i, line) in text.lines().enumerate() {
            let value = line.trim();
            if value.is_empty() || value.starts_with('#') {
                continue;
            }
            match fits(value) {
                Ok(()) => found.push(value.to_owned()),
                Err(message) => {
                    let message = format!("the value {message}");
                    self.check.problems.push(in_file(file, i + 1, message));
                }
            }
        }
        if found.is_empty() {
            let problem = in_file(file, 0, "holds no value".to_owned());
            self.check.problems.push(problem);
        }
        found
    }

    /// The rules about URLs.
    fn urls(&mut self, section: &Urls) {
        let at = self.at.key("urls");
        let mut urls = UrlRules::default();
        let lists = [
            ("allow", section.allow.as_ref()),
            ("block", Some(&section.block)),
            ("internal", Some(&section.internal)),
        ];
        for (key, list) in lists {
            let into = match key {
                "allow" if !self.check.wrote(&at.key(key)) => continue,
                "allow" => urls.allowed.get_or_insert_default(),
                "block" => &mut urls.blocked,
                _ => &mut urls.internal_allowed,
            };
            for host in list.iter().flat_map(|list| list.values()) {
                // One that is no host was said when it was read; two that cannot be told apart are not.
                if let Err(message) = HostList::add(into, &host.0) {
                    self.check.say(&at.key(key), message);
                }
            }
        }
        if let Some(schemes) = &section.schemes {
            let schemes = schemes.values();
            urls.schemes = schemes
                .map(|name| name.0.as_str().to_ascii_lowercase())
                .collect();
        }
        urls.length_max = section.length_max.size();
        urls.allowance.requests = section.per_minute.small();
        urls.allowance.bytes = section.bytes_per_minute.0;
        if !section.entropy.0 {
            urls.allowance.random_bits = 0;
            for rule in ENTROPY {
                let off = self.settings.set(rule, None, Action::Off);
                off.expect("the rules of entropy are in our list");
            }
        }
        self.settings.urls = urls;
    }
}

/// Whether a value can be looked for. The error does not show it.
fn fits(value: &str) -> Result<(), String> {
    let allowed = crate::VALUE_BYTES_MIN..=crate::VALUE_BYTES_MAX;
    let bytes = value.trim_end_matches(['\r', '\n']).len();
    if allowed.contains(&bytes) {
        return Ok(());
    }
    let (min, max) = allowed.into_inner();
    Err(format!("has {bytes} bytes; it has to have {min} to {max}"))
}

/// A problem of another file than the configuration. Line 0 is the whole file.
fn in_file(file: &File, line: usize, message: String) -> Problem {
    Problem {
        line,
        column: 1,
        ..Problem::of_file(file.display().to_string(), message, "")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_class_has_a_key() {
        let rows = config::schema::rows(&config::schema::of::<Section>());
        for class in Class::ALL {
            let key = CLASS_KEYS.iter().find(|(_, of)| *of == class);
            let (key, _) = key.expect("a key for each class");
            assert!(rows.iter().any(|row| row.path == *key), "{key}");
        }
        assert!(ENTROPY.iter().all(|rule| crate::rule(rule).is_some()));
    }
}
