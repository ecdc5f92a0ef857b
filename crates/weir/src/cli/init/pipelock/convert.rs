//! From Pipelock's keys to those of weir: one function for each group, in the order of its documentation.

mod agents;
mod operate;
mod services;

use std::net::SocketAddr;

use base::Name;
use config::Path;
use scan::{Action, Class, HostList};
use serde_json::{Map, Value, json};

use super::patterns::{As, Pattern, Patterns};
use super::policy::{self, Reaching};
use super::source::{Report, Source};

pub(super) use services::SERVICE;

/// The group that all agents are in.
pub(super) const GROUP: &str = "agents";
/// Most patterns that are taken over.
const PATTERNS_MAX: usize = 500;
/// Where the proxy listens, as the documentation of weir has it.
const PROXY_PORT: u16 = 8703;
const LISTEN_DEFAULT: &str = "127.0.0.1:8888";

/// What is to be written.
pub(super) struct Converted {
    /// The configuration, but for the agents.
    pub sections: Map<String, Value>,
    pub agents: Vec<Name>,
    pub policy: String,
    /// Rules of the operator's own.
    pub rules: String,
    /// Canaries, one a line.
    pub canaries: String,
    /// An authority is needed to look into TLS.
    pub intercepts: bool,
    /// Agents of others were judged there, so that they may be named here.
    pub has_a2a: bool,
    pub report: Report,
}

/// Reads a configuration of Pipelock. `secrets` says whether a file of secrets can be read, as the file names it, and where
/// it is.
///
/// # Errors
/// What is no configuration of it.
pub(super) fn convert(
    text: &str,
    secrets: &dyn Fn(&str) -> Result<String, String>,
) -> Result<Converted, String> {
    let mut convert = Convert {
        source: Source::new(text)?,
        web: Map::new(),
        scan: Map::new(),
        urls: Map::new(),
        rules_of: Map::new(),
        overrides: Vec::new(),
        other: Map::new(),
        patterns: Patterns::new(),
        own: String::new(),
        canaries: String::new(),
        reaching: Reaching::default(),
    };
    convert.top();
    convert.fetch();
    convert.proxy();
    let intercepts = convert.intercept();
    convert.socket();
    convert.addresses();
    convert.bodies();
    convert.secrets(secrets);
    convert.responses();
    convert.canaries();
    convert.tools();
    convert.operation();
    convert.reverse();
    convert.agents_of_others();
    let agents = convert.agents();
    Ok(convert.done(agents, intercepts))
}

struct Convert {
    source: Source,
    web: Map<String, Value>,
    scan: Map<String, Value>,
    urls: Map<String, Value>,
    rules_of: Map<String, Value>,
    overrides: Vec<Value>,
    /// Sections beside web and scan.
    other: Map<String, Value>,
    patterns: Patterns,
    own: String,
    canaries: String,
    reaching: Reaching,
}

/// A map that stands in a map.
fn below<'m>(map: &'m mut Map<String, Value>, key: &str) -> &'m mut Map<String, Value> {
    let entry = map.entry(key).or_insert_with(|| json!({}));
    entry.as_object_mut().expect("only maps are put there")
}

impl Convert {
    fn done(mut self, agents: Vec<Name>, intercepts: bool) -> Converted {
        self.source.rest();
        let mut sections = self.other;
        sections.insert("web".to_owned(), Value::Object(self.web));
        if !self.urls.is_empty() {
            self.scan
                .insert("urls".to_owned(), Value::Object(self.urls));
        }
        if !self.rules_of.is_empty() {
            self.scan
                .insert("rules".to_owned(), Value::Object(self.rules_of));
        }
        if !self.overrides.is_empty() {
            self.scan
                .insert("overrides".to_owned(), self.overrides.into());
        }
        if !self.own.is_empty() {
            self.scan.insert("folder".to_owned(), "./rules".into());
        }
        if !self.scan.is_empty() {
            sections.insert("scan".to_owned(), Value::Object(self.scan));
        }
        let mut report = self.source.report;
        report.sort();
        Converted {
            sections,
            policy: policy::text(&self.reaching),
            has_a2a: self.reaching.has_a2a,
            agents,
            rules: self.own,
            canaries: self.canaries,
            intercepts,
            report,
        }
    }

    fn top(&mut self) {
        let version = Path::of("version");
        match self.source.number(&version) {
            Some(1) => self.source.took(&version, "read"),
            Some(_) => self.source.differs(
                &version,
                "is newer than what is known here: look at what was not taken over",
            ),
            None => {}
        }
        let list = Path::of("api_allowlist");
        let hosts = self.source.texts(&list);
        let allowed = self.hosts(hosts, true);
        let mode = Path::of("mode");
        match self.source.text(&mode).as_deref() {
            Some("strict") => {
                self.reaching.is_strict = true;
                self.source.took(&mode, "policies that permit the hosts of api_allowlist alone");
            }
            Some("audit" | "permissive") => self.observes(&mode),
            Some("balanced") => self.source.took(&mode, "policies that permit every host"),
            Some(_) => self.source.lacks(&mode, "is no mode that is known here; every host is permitted, and what the scan refuses is refused"),
            None => {}
        }
        if self.source.get(&list).is_some() {
            let what = match self.reaching.is_strict {
                true => "policies",
                false => "hosts that scan.urls.block does not name; all others are permitted too",
            };
            self.source.took(&list, what);
        }
        self.reaching.allowed = allowed;
        let enforce = Path::of("enforce");
        match self.source.switch(&enforce) {
            Some(true) => self.source.took(&enforce, "what is refused does not pass"),
            Some(false) => self.observes(&enforce),
            None => {}
        }
    }

    /// What would be refused passes, and is recorded.
    fn observes(&mut self, path: &Path) {
        self.web.insert("mode".to_owned(), "observe".into());
        self.source.took(path, "web.mode: observe");
    }

    /// The hosts of a list that can be such here; every host is one only where `takes_all`. Others are told.
    fn hosts(&mut self, hosts: Vec<(Path, String)>, takes_all: bool) -> Vec<String> {
        let mut good = Vec::new();
        for (at, host) in hosts {
            let host = host.trim().trim_end_matches('.').to_ascii_lowercase();
            let is_all = takes_all && host == "*";
            let is_host = is_all || HostList::default().add(&host).is_ok();
            match is_host && !host.contains(['"', '\\', '/']) {
                true => good.push(host),
                false => self
                    .source
                    .lacks(&at, "is no host, so that it says nothing"),
            }
        }
        good
    }

    /// A number that has a bound here.
    fn bounded(&mut self, from: &str, times: u64, least: u64, most: u64, to: &str) -> Option<u64> {
        let path = Path::of(from);
        let written = self.source.number(&path)?;
        let number = written.saturating_mul(times).clamp(least, most);
        match number == written.saturating_mul(times) {
            true => self.source.took(&path, to),
            false => self
                .source
                .differs(&path, format!("{to}, which has a bound: {number}")),
        }
        Some(number)
    }

    fn fetch(&mut self) {
        let at = Path::of("fetch_proxy.listen");
        let written = self.source.text(&at);
        let listen = self.listen(&at, written.as_deref().unwrap_or(LISTEN_DEFAULT), "listen");
        self.other
            .insert("listen".to_owned(), listen.to_string().into());
        if let Some(ms) = self.bounded(
            "fetch_proxy.timeout_seconds",
            1_000,
            1,
            86_400_000,
            "web.answer_ms",
        ) {
            self.web.insert("answer_ms".to_owned(), ms.into());
        }
        let most = self.bounded(
            "fetch_proxy.max_response_mb",
            1 << 20,
            1_024,
            67_108_864,
            "web.fetch.bytes_max",
        );
        if let Some(bytes) = most {
            below(&mut self.web, "fetch").insert("bytes_max".to_owned(), bytes.into());
        }
        let agent = Path::of("fetch_proxy.user_agent");
        if let Some(text) = self.source.text(&agent) {
            below(&mut self.web, "fetch").insert("user_agent".to_owned(), text.into());
            self.source.took(&agent, "web.fetch.user_agent");
        }
        self.monitoring();
    }

    /// An address of this machine: what other machines reach needs TLS here, which the file cannot say.
    fn listen(&mut self, at: &Path, written: &str, to: &str) -> SocketAddr {
        let host_and_port = written
            .strip_prefix(':')
            .map(|port| format!("0.0.0.0:{port}"));
        let text = host_and_port.unwrap_or_else(|| written.replacen("localhost:", "127.0.0.1:", 1));
        let here = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
        let is_written = self.source.get(at).is_some();
        match text.parse::<SocketAddr>() {
            Ok(address) if address.ip().is_loopback() => {
                if is_written {
                    self.source.took(at, to);
                }
                address
            }
            Ok(address) => {
                let what = format!(
                    "{to}, for this machine alone: what others reach needs TLS, see docs/listeners.md"
                );
                self.source.differs(at, what);
                here(address.port())
            }
            Err(_) => {
                let what =
                    format!("is no address that weir can listen on; {to} is {LISTEN_DEFAULT}");
                self.source.lacks(at, what);
                LISTEN_DEFAULT.parse().expect("it is an address")
            }
        }
    }

    fn monitoring(&mut self) {
        let of = |key: &str| format!("fetch_proxy.monitoring.{key}");
        let length = self.bounded(&of("max_url_length"), 1, 64, 65_536, "scan.urls.length_max");
        if let Some(length) = length {
            self.urls.insert("length_max".to_owned(), length.into());
        }
        let rate = self.bounded(
            &of("max_requests_per_minute"),
            1,
            0,
            10_000_000,
            "scan.urls.per_minute, for each agent and domain",
        );
        if let Some(rate) = rate {
            self.urls.insert("per_minute".to_owned(), rate.into());
        }
        let data = Path::of(&of("max_data_per_minute"));
        match self.source.number(&data) {
            Some(0) => self.source.took(&data, "no bound"),
            Some(_) => self.source.lacks(&data, "bytes of one domain are not bounded; web.agent.bytes_per_hour bounds those of an agent"),
            None => {}
        }
        let list = Path::of(&of("blocklist"));
        let hosts = self.source.texts(&list);
        let hosts = self.hosts(hosts, false);
        let is_allowed = |host: &String| !self.reaching.is_strict && self.reaching.allows(host);
        // Pipelock's `*.name` is the name too.
        let blocked: Vec<Value> = hosts
            .iter()
            .filter(|host| !is_allowed(host))
            .map(|host| host.strip_prefix("*.").unwrap_or(host).into())
            .collect();
        if !blocked.is_empty() {
            self.source.took(&list, "scan.urls.block");
            self.urls.insert("block".to_owned(), blocked.into());
        }
        let excluded = Path::of(&of("subdomain_entropy_exclusions"));
        let hosts = self.source.texts(&excluded);
        self.not_random(&excluded, hosts);
        self.own_blocks();
    }

    /// Hosts whose names and paths may look random.
    fn not_random(&mut self, list: &Path, hosts: Vec<(Path, String)>) {
        let is_any = !hosts.is_empty();
        for host in self.exact(hosts) {
            for rule in ["url_entropy_host", "url_entropy_path"] {
                let given = json!({ "rule": rule, "target": host, "action": "off" });
                self.overrides.push(given);
            }
        }
        match is_any {
            true => self.source.took(
                list,
                "scan.overrides for the rules url_entropy_host and url_entropy_path",
            ),
            false if self.source.get(list).is_some() => {
                self.source.took(list, "nothing: the list is empty")
            }
            false => {}
        }
    }

    /// Of hosts those that are names of one. An override is for one host.
    fn exact(&mut self, hosts: Vec<(Path, String)>) -> Vec<String> {
        let mut exact = Vec::new();
        for (at, host) in hosts {
            match host.strip_prefix("*.") {
                Some(above) => {
                    self.source.differs(
                        &at,
                        format!("an override is for one host: {above} itself, and none below it"),
                    );
                    exact.push(above.to_ascii_lowercase());
                }
                None => exact.push(host.to_ascii_lowercase()),
            }
        }
        exact
    }

    /// Hosts that the file allows and that weir's own list blocks.
    fn own_blocks(&mut self) {
        let engine = scan::Engine::new(scan::Settings::default(), [0; 32]);
        let allowed = self.reaching.allowed.clone();
        for host in &allowed {
            let host = host.strip_prefix("*.").unwrap_or(host);
            let url = format!("https://{host}/");
            let report = engine.url(scan::Direction::Outgoing, &url, None);
            let is_blocked = report.is_ok_and(|report| {
                let mut findings = report.findings.iter();
                findings.any(|finding| finding.rule.id == "url_blocked")
            });
            if is_blocked {
                let given = json!({ "rule": "url_blocked", "target": host, "action": "off" });
                self.overrides.push(given);
                let what = format!(
                    "scan.overrides too: {host} stands in the gateway's own list of blocked hosts"
                );
                self.source.differs(&Path::of("api_allowlist"), what);
            }
        }
    }

    fn proxy(&mut self) {
        let enabled = Path::of("forward_proxy.enabled");
        let is_on = self.source.switch(&enabled);
        if is_on == Some(false) {
            self.source.took(&enabled, "no web.listen");
        }
        if is_on == Some(true) {
            let listen = self.other.get("listen").and_then(Value::as_str);
            let main: Option<SocketAddr> = listen.and_then(|listen| listen.parse().ok());
            let taken = main.map_or(0, |main| main.port());
            let port = if taken == PROXY_PORT {
                PROXY_PORT + 1
            } else {
                PROXY_PORT
            };
            let ip = main.map_or_else(|| [127, 0, 0, 1].into(), |main| main.ip());
            let listen = SocketAddr::from((ip, port));
            self.web
                .insert("listen".to_owned(), listen.to_string().into());
            let what = format!(
                "web.listen: {listen}; it is another port than that of /fetch, see weir connect env"
            );
            self.source.differs(&enabled, what);
        }
        for (from, to) in [
            ("max_tunnel_seconds", "whole_ms"),
            ("idle_timeout_seconds", "idle_ms"),
        ] {
            let most = if to == "whole_ms" {
                604_800_000
            } else {
                86_400_000
            };
            let what = format!("web.tunnel.{to}");
            if let Some(ms) = self.bounded(&format!("forward_proxy.{from}"), 1_000, 1, most, &what)
            {
                below(&mut self.web, "tunnel").insert(to.to_owned(), ms.into());
            }
        }
        let verified = Path::of("forward_proxy.sni_verification");
        match self.source.switch(&verified) {
            Some(true) => self.source.took(&verified, "always so"),
            Some(false) => self.source.lacks(
                &verified,
                "a tunnel is carried only where its TLS names the host of CONNECT",
            ),
            None => {}
        }
    }

    /// Whether TLS is looked into.
    fn intercept(&mut self) -> bool {
        let enabled = Path::of("tls_interception.enabled");
        let is_on = self.source.switch(&enabled) == Some(true);
        let list = Path::of("tls_interception.passthrough_domains");
        let hosts = self.source.texts(&list);
        if !is_on {
            for key in ["ca_cert", "ca_key", "passthrough_domains"] {
                let path = Path::of("tls_interception").key(key);
                if self.source.get(&path).is_some() {
                    self.source.lacks(&path, "TLS is not looked into");
                }
            }
            if self.source.get(&enabled).is_some() {
                self.source.took(&enabled, "no web.intercept");
            }
            return false;
        }
        let mut pass = Vec::new();
        for (at, host) in hosts {
            // Pipelock's `*.name` is the name too.
            let above = host.strip_prefix("*.").map(str::to_owned);
            for name in above.into_iter().chain([host]) {
                match web::HostNames::read([name.as_str()]) {
                    Ok(_) => pass.push(Value::from(name.to_ascii_lowercase())),
                    Err(_) => self.source.lacks(
                        &at,
                        "would pass hosts of strangers, or is no host: it is looked into",
                    ),
                }
            }
        }
        let intercept = below(&mut self.web, "intercept");
        intercept.insert("ca".to_owned(), "./ca".into());
        if !pass.is_empty() {
            intercept.insert("pass".to_owned(), pass.into());
        }
        self.source.took(&enabled, "web.intercept");
        if self.source.get(&list).is_some() {
            self.source.took(&list, "web.intercept.pass");
        }
        for key in ["ca_cert", "ca_key"] {
            let path = Path::of("tls_interception").key(key);
            if self.source.get(&path).is_some() {
                self.source.differs(&path, "an authority of weir's own, in ./ca: agents have to trust its ca.pem, see weir web ca trust");
            }
        }
        true
    }

    fn socket(&mut self) {
        let of = |key: &str| format!("websocket_proxy.{key}");
        let enabled = Path::of("websocket_proxy.enabled");
        match self.source.switch(&enabled) {
            Some(true) => self.source.took(&enabled, "/ws, and the proxy"),
            Some(false) => {
                self.reaching.no_sockets = true;
                self.source.took(&enabled, "the policy no-sockets");
            }
            None => self.reaching.no_sockets = true,
        }
        let bytes = self.bounded(
            &of("max_message_bytes"),
            1,
            1_024,
            67_108_864,
            "web.socket.message_bytes_max",
        );
        let whole = self.bounded(
            &of("max_connection_seconds"),
            1_000,
            1,
            604_800_000,
            "web.socket.whole_ms",
        );
        let idle = self.bounded(
            &of("idle_timeout_seconds"),
            1_000,
            1,
            86_400_000,
            "web.socket.idle_ms",
        );
        let numbers = [
            ("message_bytes_max", bytes),
            ("whole_ms", whole),
            ("idle_ms", idle),
        ];
        for (key, number) in numbers {
            if let Some(number) = number {
                below(&mut self.web, "socket").insert(key.to_owned(), number.into());
            }
        }
        let binary = Path::of(&of("allow_binary_frames"));
        if let Some(is_binary) = self.source.switch(&binary) {
            below(&mut self.web, "socket").insert("binary".to_owned(), is_binary.into());
            self.source.took(&binary, "web.socket.binary");
        }
        let origin = Path::of(&of("origin_policy"));
        let word = match self.source.text(&origin).as_deref() {
            Some("rewrite") => Some("replace"),
            Some("forward") => Some("keep"),
            Some("strip") => Some("drop"),
            Some(_) => {
                self.source
                    .lacks(&origin, "is no word that is known here; the field is kept");
                None
            }
            None => None,
        };
        if let Some(word) = word {
            below(&mut self.web, "socket").insert("origin".to_owned(), word.into());
            self.source
                .took(&origin, format!("web.socket.origin: {word}"));
        }
        for (key, always, why) in [
            ("scan_text_frames", true, "each message is judged"),
            ("strip_compression", true, "no compression is offered"),
            (
                "forward_cookies",
                false,
                "/ws sends no cookies; through the proxy those of the client are kept",
            ),
        ] {
            let path = Path::of(&of(key));
            match self.source.switch(&path) {
                Some(written) if written == always => self.source.took(&path, "always so"),
                Some(_) => self.source.lacks(&path, why),
                None => {}
            }
        }
    }

    fn addresses(&mut self) {
        let mut inside: Vec<Value> = Vec::new();
        for key in ["trusted_domains", "ssrf.ip_allowlist"] {
            let path = Path::of(key);
            let hosts = self.source.texts(&path);
            let is_any = !hosts.is_empty();
            for host in self.hosts(hosts, false) {
                inside.push(host.strip_prefix("*.").unwrap_or(&host).into());
            }
            if is_any {
                self.source.took(&path, "scan.urls.internal");
            }
        }
        if !inside.is_empty() {
            self.urls.insert("internal".to_owned(), inside.into());
        }
    }

    fn bodies(&mut self) {
        let of = |key: &str| Path::of("request_body_scanning").key(key);
        let action = of("action");
        match self.source.text(&action).as_deref() {
            Some("block") => self.source.took(&action, "secrets that go out are refused"),
            Some(_) => self.source.differs(
                &action,
                "secrets that go out are refused, in URLs, fields and bodies alike; web.mode: observe lets all of the lane pass, and scan.overrides one rule or host",
            ),
            None => {}
        }
        let bytes = self.bounded(
            "request_body_scanning.max_body_bytes",
            1,
            1_024,
            1 << 30,
            "web.body_bytes_max; what is larger is judged as it flows",
        );
        if let Some(bytes) = bytes {
            self.web.insert("body_bytes_max".to_owned(), bytes.into());
        }
        for key in ["enabled", "scan_headers"] {
            let path = of(key);
            match self.source.switch(&path) {
                Some(true) => self.source.took(&path, "always so"),
                Some(false) => self.source.lacks(&path, "what goes out is always judged"),
                None => {}
            }
        }
    }

    fn secrets(&mut self, secrets: &dyn Fn(&str) -> Result<String, String>) {
        let environment = Path::of("dlp.scan_env");
        match self.source.switch(&environment) {
            Some(true) => self.source.lacks(
                &environment,
                "weir does not go through its environment; name the variables in scan.values, such as env:DB_PASSWORD",
            ),
            Some(false) => self.source.took(&environment, "always so"),
            None => {}
        }
        let file = Path::of("dlp.secrets_file");
        if let Some(name) = self.source.text(&file) {
            match secrets(&name) {
                Ok(place) => {
                    let values: Vec<Value> = vec![format!("file:{place}").into()];
                    self.scan.insert("values".to_owned(), values.into());
                    self.source.took(&file, "scan.values");
                }
                Err(why) => self.source.lacks(&file, why),
            }
        }
        self.defaults("dlp.include_defaults");
        self.patterns("dlp.patterns", Class::Secret);
        let seeds = Path::of("seed_phrase_detection.enabled");
        match self.source.switch(&seeds) {
            Some(true) => self.source.took(&seeds, "the rule seed_phrase"),
            Some(false) => {
                self.rules_of.insert("seed_phrase".to_owned(), "off".into());
                self.source.took(&seeds, "scan.rules.seed_phrase: off");
            }
            None => {}
        }
    }

    fn defaults(&mut self, key: &str) {
        let path = Path::of(key);
        match self.source.switch(&path) {
            Some(true) => self.source.took(&path, "the gateway's own rules"),
            Some(false) => self.source.differs(
                &path,
                "the gateway's own rules hold all the same; scan.rules.NAME: off takes one away",
            ),
            None => {}
        }
    }

    fn patterns(&mut self, list: &str, class: Class) {
        let list = Path::of(list);
        for number in 0..self.source.length(&list) {
            let at = list.index(number);
            if number == PATTERNS_MAX {
                self.source.lacks(
                    &at,
                    format!("more than {PATTERNS_MAX} patterns are not read"),
                );
                break;
            }
            self.pattern(&at, class);
        }
    }

    fn pattern(&mut self, at: &Path, class: Class) {
        let texts = ["name", "regex", "severity", "validator"].map(|key| {
            let path = at.key(key);
            self.source.text(&path)
        });
        let [name, regex, severity, validator] = texts;
        let (Some(name), Some(regex)) = (name, regex) else {
            return self.source.lacks(at, "has no name or no expression");
        };
        let by_validator = match validator.as_deref() {
            Some("luhn") => Some("credit_card"),
            Some("mod97") => Some("iban"),
            Some("wif") => Some("bitcoin_wif"),
            _ => None,
        };
        let by_validator = by_validator.and_then(scan::rule).map(|rule| rule.id);
        let severity = severity.as_deref().unwrap_or("high");
        let pattern = Pattern {
            name: &name,
            regex: &regex,
            severity,
            class,
        };
        let found = match by_validator {
            Some(rule) => Ok(As::Known(rule)),
            None => self.patterns.read(&pattern),
        };
        let shown = |rule: &str| format!("{}: the rule {rule}", terminal::visible(&name));
        let rule = match found {
            Ok(As::Known(rule)) => {
                self.stronger(rule, class);
                self.source.took(at, shown(rule));
                rule.to_owned()
            }
            Ok(As::Own(rule, toml)) => {
                self.own.push_str(&toml);
                self.own.push('\n');
                self.source
                    .took(at, format!("{}, in rules/pipelock.toml", shown(&rule)));
                rule
            }
            Err(why) => {
                return self
                    .source
                    .lacks(at, format!("{} {why}", terminal::visible(&name)));
            }
        };
        let exempt = self.source.texts(&at.key("exempt_domains"));
        for host in self.exact(exempt) {
            let given = json!({ "rule": rule, "target": host, "action": "off" });
            self.overrides.push(given);
        }
    }

    /// A rule of ours that would do less than refuse.
    fn stronger(&mut self, id: &str, class: Class) {
        let Some(rule) = scan::rule(id).filter(|_| class != Class::Injection) else {
            return;
        };
        if rule.default_action(scan::Direction::Outgoing) != Action::Refuse {
            self.rules_of
                .insert(id.to_owned(), json!({ "outgoing": "refuse" }));
        }
    }

    fn responses(&mut self) {
        let of = |key: &str| Path::of("response_scanning").key(key);
        let enabled = of("enabled");
        let is_off = self.source.switch(&enabled) == Some(false);
        let action = of("action");
        let written = self.source.text(&action);
        let word = match (is_off, written.as_deref()) {
            (true, _) => Some("off"),
            (false, Some("warn")) => Some("warn"),
            (false, Some("strip")) => Some("redact"),
            (false, Some("block" | "ask")) => Some("refuse"),
            (false, _) => None,
        };
        if self.source.get(&enabled).is_some() {
            self.source.took(&enabled, "scan.injection.incoming");
        }
        match written.as_deref() {
            Some("ask") => self.source.differs(
                &action,
                "scan.injection.incoming: refuse; a person is not asked",
            ),
            Some(_) if word.is_some() => {
                let what = format!("scan.injection.incoming: {}", word.unwrap_or_default());
                self.source.took(&action, what);
            }
            Some(_) => self
                .source
                .lacks(&action, "is no action that is known here"),
            None => {}
        }
        if let Some(word) = word {
            self.scan
                .insert("injection".to_owned(), json!({ "incoming": word }));
        }
        self.defaults("response_scanning.include_defaults");
        self.patterns("response_scanning.patterns", Class::Injection);
        let list = of("exempt_domains");
        let hosts = self.source.texts(&list);
        let is_any = !hosts.is_empty();
        for host in self.exact(hosts) {
            let given = json!({ "class": "injection", "target": host, "direction": "incoming", "action": "off" });
            self.overrides.push(given);
        }
        if is_any {
            self.source.took(&list, "scan.overrides");
        }
    }

    fn canaries(&mut self) {
        let list = Path::of("canary_tokens.tokens");
        let enabled = Path::of("canary_tokens.enabled");
        let is_off = self.source.switch(&enabled) == Some(false);
        if self.source.get(&enabled).is_some() {
            let what = if is_off {
                "no scan.canaries"
            } else {
                "scan.canaries"
            };
            self.source.took(&enabled, what);
        }
        for number in 0..self.source.length(&list) {
            let at = list.index(number);
            let value = self.source.text(&at.key("value")).unwrap_or_default();
            let is_good = (scan::VALUE_BYTES_MIN..=scan::VALUE_BYTES_MAX).contains(&value.len())
                && !value.contains(['\n', '\r'])
                && !value.starts_with('#')
                && value.trim() == value;
            match (is_off, is_good) {
                (true, _) => self.source.lacks(&at, "canaries are off"),
                (false, true) => {
                    self.canaries.push_str(&value);
                    self.canaries.push('\n');
                    self.source.took(&at, "a line of canaries.txt");
                }
                (false, false) => self
                    .source
                    .lacks(&at, "has no value of 8 bytes or more in one line"),
            }
        }
        if !self.canaries.is_empty() {
            self.scan
                .insert("canaries".to_owned(), json!(["file:canaries.txt"]));
        }
    }
}
