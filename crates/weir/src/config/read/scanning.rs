//! What the configuration says of the scan: actions, exemptions, rules and values of the operator's own.
//!
//! Rules of the operator's own are read first, so that everything else can name them. A value is never part
//! of a problem.

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use scan::{Action, Class, Direction, Exemption, HostList, Scope, UrlRules, ValueKind, Values};

use super::{Group, Node, Problem, Read, Value, values};
use crate::config::settings::Reference;
use crate::config::{RULE_FILES_MAX, VALUES_BYTES_MAX, keys};

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
const RULES_MAX: usize = scan::OPERATOR_RULES_MAX;

impl Read<'_> {
    /// What `scan` says.
    pub(super) fn scan(&mut self, root: &Group<'_>) -> scan::Settings {
        let group = root.group("scan");
        let mut settings = scan::Settings::default();
        settings.rules = self.own_rules(&group);
        self.urls(&group, &mut settings);
        for (key, class) in CLASS_KEYS {
            let of_class = match key.split_once('.') {
                Some((above, key)) => group.group(above).group(key),
                None => group.group(key),
            };
            self.actions(&mut settings, class.as_str(), &of_class);
        }
        for (id, at, rule) in group.named("rules") {
            if let Some((key, _)) = CLASS_KEYS.iter().find(|(_, class)| class.as_str() == id) {
                let message = format!("is a class, not a rule; write scan.{key}");
                self.say(at, &rule.path, "scan.rules", message);
            } else {
                self.actions(&mut settings, id, &rule);
            }
        }
        for place in group.maps("overrides") {
            self.override_of(&mut settings, root, &place);
        }
        for place in group.maps("exempt") {
            self.exemption(&mut settings, root, &place);
        }
        settings.values = self.values(&group);
        settings
    }

    /// The actions for a rule or a class: one alone, or one for each direction.
    fn actions(&mut self, settings: &mut scan::Settings, name: &str, group: &Group<'_>) {
        let mut given = Vec::new();
        let row = keys::find(&group.pattern).expect("every key read has a row");
        if let Some(Node {
            value: Value::Text(text),
            ..
        }) = group.node
            && row.kind.check(text).is_ok()
        {
            given.push((None, values::action(text).ok()));
        }
        for direction in Direction::ALL {
            let action = group.text(direction.as_str()).map(values::action);
            given.push((Some(direction), action.and_then(Result::ok)));
        }
        let given = given
            .into_iter()
            .filter_map(|(direction, action)| Some((direction, action?)));
        if self.may_be_own(name) {
            return;
        }
        let mut problem = None;
        for (direction, action) in given {
            let scope = Scope {
                direction,
                ..Scope::default()
            };
            problem = set(settings, name, scope, action).err().or(problem);
        }
        if let (Some(message), Some(node)) = (problem, group.node) {
            self.say(node.at, &group.path, &group.pattern, message);
        }
    }

    /// Whether a name may be that of a rule whose file could not be read, which was said already.
    fn may_be_own(&self, name: &str) -> bool {
        let class = Class::ALL.iter().any(|class| class.as_str() == name);
        self.rules_missing && scan::rule(name).is_none() && !class
    }

    /// One of `scan.overrides`.
    fn override_of(&mut self, settings: &mut scan::Settings, root: &Group<'_>, given: &Group<'_>) {
        let word = |key: &str| given.text(key).map(str::to_owned);
        let scope = Scope {
            direction: given
                .text("direction")
                .and_then(|text| Direction::ALL.into_iter().find(|d| d.as_str() == text)),
            lane: word("lane"),
            target: word("target"),
            agent: word("agent"),
        };
        self.known_place(root, given);
        let name = match (given.text("rule"), given.text("class")) {
            (Some(name), None) | (None, Some(name)) => name,
            (Some(_), Some(_)) => {
                return self.say_key(given, "class", "does not go with rule; keep one");
            }
            (None, None) => return self.say_key(given, "rule", "has to be there, or class"),
        };
        let key = if given.get("rule").is_some() {
            "rule"
        } else {
            "class"
        };
        if scope == Scope::default() {
            let message = "names no direction, lane, target or agent; write it as scan.rules or as \
                           the class's own key";
            return self.say_key(given, key, message);
        }
        if let Some(action) = given.scalar("action", values::action)
            && !self.may_be_own(name)
            && let Err(message) = set(settings, name, scope, action)
        {
            self.say_key(given, key, message);
        }
    }

    /// One of `scan.exempt`.
    fn exemption(&mut self, settings: &mut scan::Settings, root: &Group<'_>, given: &Group<'_>) {
        let word = |key: &str| given.text(key).map(str::to_owned);
        self.known_place(root, given);
        let (Some(rule), Some(reason), Some(expires_ms)) = (
            word("rule"),
            word("reason"),
            given.scalar("expires", values::time),
        ) else {
            return;
        };
        if expires_ms <= now_ms() {
            let message = "has expired, and is not in force; take it out or give it a new time";
            let warning = self.problem_of(given, "expires", message);
            self.warnings.push(warning);
        }
        let exemption = Exemption {
            rule,
            target: word("target"),
            agent: word("agent"),
            reason,
            expires_s: expires_ms / 1000,
        };
        if !self.may_be_own(&exemption.rule)
            && let Err(message) = settings.exempt(exemption)
        {
            self.say_key(given, "rule", message);
        }
    }

    /// A name that nothing here has would never match, and nobody would notice.
    fn known_place(&mut self, root: &Group<'_>, given: &Group<'_>) {
        let named = |key: &str| -> Vec<&str> {
            root.named(key).into_iter().map(|(name, ..)| name).collect()
        };
        for (key, what, known) in [
            ("agent", "agent", named("agents")),
            ("target", "server", named("mcp")),
        ] {
            // A host is no server of ours, and may be a target all the same.
            let other =
                |name: &&str| !known.contains(name) && (key == "agent" || !name.contains('.'));
            if let Some(name) = given.text(key).filter(other) {
                let near = keys::nearest(name, known.iter().copied());
                let near = near.map_or(String::new(), |near| format!("; did you mean {near}?"));
                self.say_key(given, key, format!("no {what} is named so{near}"));
            }
        }
    }

    /// Rules of the operator's own.
    fn own_rules(&mut self, group: &Group<'_>) -> Vec<&'static scan::Rule> {
        let mut rules: Vec<&'static scan::Rule> = Vec::new();
        let Some(folder) = group.text("folder").map(|folder| self.folder.join(folder)) else {
            return rules;
        };
        self.seen.note(&folder);
        let files = match rule_files(&folder) {
            Ok(files) => files,
            Err(message) => {
                self.say_key(group, "folder", message);
                self.rules_missing = true;
                return rules;
            }
        };
        let before = self.problems.len();
        for file in files {
            for rule in self.rule_file(&file) {
                if rules.iter().any(|other| other.id == rule.id) {
                    let message = format!("rule `{}`: another file has a rule of this id", rule.id);
                    self.problems.push(in_file(&file, 0, message));
                }
                rules.push(rule);
            }
        }
        self.rules_missing = self.problems.len() > before;
        if rules.len() > RULES_MAX {
            self.say_key(
                group,
                "folder",
                format!("holds more than {RULES_MAX} rules"),
            );
        }
        rules
    }

    fn rule_file(&mut self, file: &Path) -> Vec<&'static scan::Rule> {
        let text = match self.text_of(file, scan::OPERATOR_FILE_BYTES_MAX) {
            Ok(text) => text,
            Err(message) => {
                self.problems.push(in_file(file, 0, message));
                return Vec::new();
            }
        };
        scan::operator_rules(&text).unwrap_or_else(|problems| {
            let problems = problems.into_iter();
            let problems = problems.map(|p| in_file(file, p.line, p.message));
            self.problems.extend(problems);
            Vec::new()
        })
    }

    /// The operator's secrets and canaries.
    fn values(&mut self, group: &Group<'_>) -> Option<Values> {
        let mut all: Vec<(ValueKind, String)> = Vec::new();
        for (key, kind) in [
            ("values", ValueKind::Secret),
            ("canaries", ValueKind::Canary),
        ] {
            for reference in group.list(key, values::reference) {
                for value in self.values_behind(&reference, group, key) {
                    all.push((kind, value));
                }
            }
        }
        if all.is_empty() {
            return None;
        }
        let compiled = Values::new(all.iter().map(|(kind, value)| (*kind, value.as_str())));
        match compiled {
            Ok(values) => Some(values),
            Err(message) => {
                self.say_key(group, "values", message);
                None
            }
        }
    }

    /// The values of one reference that are of a length that can be looked for.
    fn values_behind(&mut self, from: &Reference, group: &Group<'_>, key: &str) -> Vec<String> {
        match from {
            Reference::Env(name) => {
                let value = (self.environment)(name)
                    .ok_or_else(|| format!("the variable {name} is not set"))
                    .and_then(|value| match fits(&value) {
                        Ok(()) => Ok(value),
                        Err(message) => Err(format!("the value of {name} {message}")),
                    });
                match value {
                    Ok(value) => return vec![value],
                    Err(message) => self.say_key(group, key, message),
                }
            }
            Reference::File(path) => {
                let path = self.folder.join(path);
                match self.text_of(&path, VALUES_BYTES_MAX) {
                    Ok(text) => return self.lines_of(&path, &text),
                    Err(message) => {
                        self.say_key(group, key, format!("the file {} {message}", path.display()));
                    }
                }
            }
        }
        Vec::new()
    }

    /// One value a line; blank lines and comments say nothing.
    fn lines_of(&mut self, file: &Path, text: &str) -> Vec<String> {
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
                    self.problems.push(in_file(file, i + 1, message));
                }
            }
        }
        if found.is_empty() {
            self.problems
                .push(in_file(file, 0, "holds no value".to_owned()));
        }
        found
    }

    /// The rules about URLs.
    fn urls(&mut self, group: &Group<'_>, settings: &mut scan::Settings) {
        let group = group.group("urls");
        let mut urls = UrlRules::default();
        if group.get("allow").is_some() {
            urls.allowed = Some(HostList::default());
        }
        for host in group.list("allow", owned) {
            let allowed = urls.allowed.get_or_insert_default();
            self.add_host(allowed, &host, &group, "allow");
        }
        for host in group.list("block", owned) {
            self.add_host(&mut urls.blocked, &host, &group, "block");
        }
        for host in group.list("internal", owned) {
            self.add_host(&mut urls.internal_allowed, &host, &group, "internal");
        }
        if group.get("schemes").is_some() {
            urls.schemes = group.list("schemes", |text| Ok(text.to_ascii_lowercase()));
        }
        if let Some(length_max) = group.size("length_max") {
            urls.length_max = length_max;
        }
        if let Some(requests) = group.count("per_minute") {
            urls.allowance.requests = u32::try_from(requests).unwrap_or(u32::MAX);
        }
        if let Some(bytes) = group.count("bytes_per_minute") {
            urls.allowance.bytes = bytes;
        }
        if group.scalar("entropy", values::switch) == Some(false) {
            urls.allowance.random_bits = 0;
            for rule in ENTROPY {
                let off = settings.set(rule, None, Action::Off);
                off.expect("the rules of entropy are in our list");
            }
        }
        settings.urls = urls;
    }

    /// A host that is no host was said by the first stage; two that cannot be told apart are not.
    fn add_host(&mut self, list: &mut HostList, host: &str, group: &Group<'_>, key: &str) {
        if HostList::default().add(host).is_ok()
            && let Err(message) = list.add(host)
        {
            self.say_key(group, key, message);
        }
    }
}

fn owned(text: &str) -> Result<String, String> {
    Ok(text.to_owned())
}

/// Sets an action, if it can be taken for this rule or class.
fn set(
    settings: &mut scan::Settings,
    name: &str,
    scope: Scope,
    action: Action,
) -> Result<(), String> {
    let own = settings.rules.iter().find(|rule| rule.id == name);
    let rule = own.copied().or_else(|| scan::rule(name));
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
    settings.set_in(name, scope, action)
}

/// Whether a value can be looked for. The error does not show it.
fn fits(value: &str) -> Result<(), String> {
    let allowed = scan::VALUE_BYTES_MIN..=scan::VALUE_BYTES_MAX;
    let bytes = value.trim_end_matches(['\r', '\n']).len();
    if allowed.contains(&bytes) {
        return Ok(());
    }
    let (min, max) = allowed.into_inner();
    Err(format!("has {bytes} bytes; it has to have {min} to {max}"))
}

/// The rule files of a folder, sorted by name.
fn rule_files(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let failed = |error: std::io::Error| format!("cannot be read: {error}");
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        // What starts with a dot is an editor's or a mount's own.
        let hidden = path
            .file_name()
            .is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        if hidden || path.extension().is_none_or(|extension| extension != "toml") {
            continue;
        }
        if files.len() == RULE_FILES_MAX {
            return Err(format!("holds more than {RULE_FILES_MAX} .toml files"));
        }
        files.push(path);
    }
    files.sort();
    Ok(files)
}

/// A problem of another file than the configuration. Line 0 is the whole file.
fn in_file(file: &Path, line: usize, message: String) -> Problem {
    Problem {
        file: file.display().to_string(),
        line,
        column: 1,
        key: String::new(),
        message,
        help: String::new(),
    }
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let since = since.unwrap_or_default().as_millis();
    u64::try_from(since).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_class_has_a_key() {
        for class in Class::ALL {
            let key = CLASS_KEYS.iter().find(|(_, of)| *of == class);
            let (key, _) = key.expect("a key for each class");
            assert!(keys::find(&format!("scan.{key}")).is_some(), "{key}");
        }
        assert!(ENTROPY.iter().all(|rule| scan::rule(rule).is_some()));
    }
}
