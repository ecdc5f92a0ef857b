//! The questions that lanes ask, made of what the engine knows: may this call, this URL, this message pass?
//!
//! Each is one report: what is in the text, what the call would do, where it would go, and what it adds up
//! to with the calls before it.

use std::net::IpAddr;
use std::ops::Range;
use std::sync::LazyLock;

use base::{Json, JsonValue};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::budget::Budget;
use crate::chain::Step;
use crate::command::{self, Argument};
use crate::domain;
use crate::engine::Engine;
use crate::joined;
use crate::json::{self, Document};
use crate::layer::Layer;
use crate::patterns;
use crate::place::Place;
use crate::report::{Bound, Finding, Report};
use crate::rule::{Action, Class, Direction, Rule};
use crate::search::Search;
use crate::sessions::Session;
use crate::url::UrlParts;

/// URLs of one call that are judged: more are a bound.
const URLS_MAX: usize = 4096;
/// URLs of one string that count for the budgets: a text with many links asks none of them.
const URLS_SPENT_MAX: usize = 32;
/// Bytes of a URL that are looked at to find where it goes.
const URL_BYTES_MAX: usize = 16 << 10;
/// Messages of one batch, and tools of one list.
const PARTS_MAX: usize = 4096;
/// What a person's own tools may be asked for on this machine and nearby: it is said, and not refused.
const MILD: [&str; 7] = [
    "url_internal",
    "url_scheme",
    "url_port",
    "url_length",
    "url_host",
    "url_entropy_path",
    "url_entropy_query",
];

/// The rule that ends the reading of a URL.
static BLOCKED: LazyLock<Option<&'static Rule>> = LazyLock::new(|| patterns::rule("url_blocked"));

/// The parts of a JSON-RPC message that are judged differently.
#[derive(Deserialize)]
struct Message<'a> {
    method: Option<String>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Listed<'a> {
    #[serde(borrow)]
    tools: Option<Vec<&'a RawValue>>,
}

/// One string of a call: where it stands in the JSON, its path, and what it says.
pub(crate) struct Leaf<'a> {
    pub(crate) source: Range<usize>,
    pub(crate) path: String,
    pub(crate) text: &'a str,
}

/// What is asked of a server: by which tool, with which strings, and with which flags that are set.
struct Asked<'a> {
    tool: &'a str,
    leaves: &'a [Leaf<'a>],
    /// The field that holds the arguments.
    under: &'a str,
    flags: Vec<String>,
}

impl Engine {
    /// Judges a URL that is about to be asked.
    ///
    /// Errors: a bound was reached, and the URL was not wholly scanned.
    pub fn url<'a>(
        &'a self,
        place: impl Into<Place<'a>>,
        url: &str,
        session: Option<(&mut Session, u64)>,
    ) -> Result<Report, Bound> {
        let place = place.into();
        let mut report = Report::clean();
        let parts = self.url_rules(&place, url, "url", 0..url.len(), &mut report, false);
        // What is refused for where it goes is not read for what it says.
        if report.action == Action::Refuse {
            return Ok(report);
        }
        if let Some((session, now_ms)) = session {
            self.spend(&place, url, &parts, session, now_ms, &mut report);
        }
        report.add_all(self.text(place, url, "url")?);
        Ok(report)
    }

    /// Whether a host may be at an address that is not public; see [`UrlRules::lets_inside`](crate::UrlRules::lets_inside).
    pub fn lets_inside(&self, host: &str, address: IpAddr) -> bool {
        self.settings.urls.lets_inside(host, address)
    }

    /// Judges the parameters of a `tools/call`: `{"name": …, "arguments": {…}}`, as JSON.
    ///
    /// With what the agent did before and the monotonic clock in milliseconds, also what the calls add up
    /// to. Errors: a bound was reached, and the call was not wholly judged.
    pub fn call<'a>(
        &'a self,
        place: impl Into<Place<'a>>,
        params: impl Into<Document<'a>>,
        root: &str,
        session: Option<(&mut Session, u64)>,
    ) -> Result<Report, Bound> {
        self.request(place.into(), params.into(), root, session, None)
    }

    /// Judges the parameters of a `resources/read` or `resources/subscribe`, as [`Engine::call`] does those of
    /// a call: what it reads is what a tool for files would read.
    ///
    /// Errors: as [`Engine::call`].
    pub fn resource<'a>(
        &'a self,
        place: impl Into<Place<'a>>,
        params: impl Into<Document<'a>>,
        root: &str,
        session: Option<(&mut Session, u64)>,
    ) -> Result<Report, Bound> {
        let reads = Some(("read_resource", "uri"));
        self.request(place.into(), params.into(), root, session, reads)
    }

    /// Judges the parameters of a request by the tool that they name and its arguments, or by the tool that the request
    /// stands for and the field that it would be given.
    fn request(
        &self,
        place: Place<'_>,
        document: Document<'_>,
        root: &str,
        mut session: Option<(&mut Session, u64)>,
        stands_for: Option<(&str, &str)>,
    ) -> Result<Report, Bound> {
        json::with_strings(document, |layer| {
            let params = document.bytes();
            let before = session
                .as_mut()
                .map(|(session, now_ms)| (&mut session.fragments, *now_ms));
            let mut search = Search::new(self, place, params.len());
            search.is_call = stands_for.is_none();
            let mut report = self.document(search, params, root, layer, before)?;
            let secret = |f: &&Finding| matches!(f.rule.class, Class::Secret | Class::Personal);
            let secrets = report.findings.iter().filter(secret);
            let hidden: Vec<Range<usize>> = secrets.map(|f| f.span.clone()).collect();
            let leaves = leaves(layer, params, &hidden);
            let name = leaves.iter().find(|leaf| leaf.path == "name");
            let called = (name.map_or("", |leaf| leaf.text), "arguments");
            let (tool, under) = stands_for.unwrap_or(called);
            let asked = Asked {
                tool,
                leaves: &leaves,
                under,
                flags: match command::is_named_after_command(tool) {
                    true => flags(document),
                    false => Vec::new(),
                },
            };
            self.asked(&place, &asked, root, &mut report, session)?;
            Ok(report)
        })
    }

    /// Scans what goes out and is no call of a tool. Errors: as [`Engine::json`].
    pub fn outgoing<'a>(
        &'a self,
        place: impl Into<Place<'a>>,
        json: impl Into<Document<'a>>,
        root: &str,
        session: (&mut Session, u64),
    ) -> Result<Report, Bound> {
        let (session, now_ms) = session;
        self.json_after(place, json, root, Some((&mut session.fragments, now_ms)))
    }

    /// Judges a JSON-RPC message, or a batch of them, as JSON.
    ///
    /// Errors: a bound was reached, and the message was not wholly judged.
    pub fn message<'a>(
        &'a self,
        place: impl Into<Place<'a>>,
        message: &[u8],
        mut session: Option<(&mut Session, u64)>,
    ) -> Result<Report, Bound> {
        let place = place.into();
        let mut report = self.json(place, message, "")?;
        let text = std::str::from_utf8(message).unwrap_or_default();
        let parts: Vec<&RawValue> = match text.trim_start().starts_with('[') {
            true => serde_json::from_str(text).unwrap_or_default(),
            false => serde_json::from_str(text).ok().into_iter().collect(),
        };
        for part in parts.into_iter().take(PARTS_MAX) {
            let Ok(part) = serde_json::from_str::<Message<'_>>(part.get()) else {
                continue;
            };
            if part.method.as_deref() == Some("tools/call")
                && let Some(params) = part.params
            {
                let session = session
                    .as_mut()
                    .map(|(session, now)| (&mut **session, *now));
                report.add_new(self.call(place, params.get().as_bytes(), "params", session)?);
            }
            if let Some("resources/read" | "resources/subscribe") = part.method.as_deref()
                && let Some(params) = part.params
            {
                let session = session
                    .as_mut()
                    .map(|(session, now)| (&mut **session, *now));
                report.add_new(self.resource(place, params.get().as_bytes(), "params", session)?);
            }
            let listed = part.result.map(|result| serde_json::from_str(result.get()));
            if let Some(Ok(Listed { tools: Some(tools) })) = listed {
                for (i, tool) in tools.into_iter().take(PARTS_MAX).enumerate() {
                    let path = format!("result.tools[{i}]");
                    report.add_new(self.definition(place, tool.get().as_bytes(), &path)?);
                }
            }
        }
        Ok(report)
    }

    /// Judges the definition of a tool: all text in it is read by a model as instruction.
    ///
    /// Errors: a bound was reached, and the definition was not wholly scanned.
    pub fn definition<'a>(
        &'a self,
        place: impl Into<Place<'a>>,
        definition: &[u8],
        root: &str,
    ) -> Result<Report, Bound> {
        let place = Place {
            direction: Direction::Description,
            ..place.into()
        };
        self.json(place, definition, root)
    }

    /// What the strings of a call ask for, where they lead, and what they add up to.
    fn asked(
        &self,
        place: &Place<'_>,
        asked: &Asked<'_>,
        root: &str,
        report: &mut Report,
        session: Option<(&mut Session, u64)>,
    ) -> Result<(), Bound> {
        let (tool, under) = (asked.tool, asked.under);
        let inside = asked
            .leaves
            .iter()
            .filter(|leaf| leaf.path.starts_with(under));
        let inside: Vec<&Leaf<'_>> = inside.collect();
        let strings = inside.iter().map(|leaf| Argument {
            path: match leaf.path[under.len()..].trim_start_matches('.') {
                "" => under,
                path => path,
            },
            text: leaf.text,
        });
        let flags = asked.flags.iter().map(|flag| Argument {
            path: flag,
            text: "true",
        });
        let args: Vec<Argument<'_>> = strings.chain(flags).collect();
        let full = |leaf: &Leaf<'_>| match root.is_empty() {
            true => leaf.path.clone(),
            false => format!("{root}.{}", leaf.path),
        };
        let mut hits = Vec::new();
        self.commands().judge(tool, &args, &mut hits);
        for hit in &hits {
            // What has no strings is found in its name.
            let leaf = inside.get(hit.argument).or(inside.last()).copied();
            let leaf = leaf.or(asked.leaves.first());
            let (path, source) = leaf.map_or_else(
                || (root.to_owned(), 0..0),
                |leaf| (full(leaf), leaf.source.clone()),
            );
            self.add(report, place, hit.rule, path, source, hit.disguise);
        }
        let mut session = session;
        let mut left = URLS_MAX;
        for leaf in &inside {
            for (count, url) in urls(leaf.text).enumerate() {
                let more = left.checked_sub(1);
                left = more.ok_or(Bound("the call names more URLs than are judged"))?;
                let parts =
                    self.url_rules(place, url, &full(leaf), leaf.source.clone(), report, true);
                if let Some((session, now_ms)) = &mut session
                    && count < URLS_SPENT_MAX
                {
                    self.spend(place, url, &parts, session, *now_ms, report);
                }
            }
        }
        if let Some((session, now_ms)) = session {
            // A secret that is redacted does not go with the call.
            let goes = |finding: &Finding| finding.action != Action::Redact;
            let secret = report
                .findings
                .iter()
                .any(|finding| finding.rule.class == Class::Secret && goes(finding));
            let step = Step::of(tool, &args, &hits, secret);
            let whole = inside.first().map_or(0..0, |leaf| leaf.source.clone());
            for link in session.chain.observe(step, now_ms) {
                let (root, whole) = (root.to_owned(), whole.clone());
                self.add(report, place, link.rule, root, whole, "");
                report.links.push(link);
            }
        }
        Ok(())
    }

    /// Judges where a URL leads.
    fn url_rules(
        &self,
        place: &Place<'_>,
        url: &str,
        path: &str,
        source: Range<usize>,
        report: &mut Report,
        argument: bool,
    ) -> UrlParts {
        let mut hits = Vec::new();
        // A URL that is refused by a list is not read on; of a call's arguments all is said.
        let refused =
            || !argument && BLOCKED.is_some_and(|rule| self.acts(rule, place) == Action::Refuse);
        let urls = &self.settings.urls;
        let mut parts = urls.judge_until(url, &mut hits, refused);
        let (mut read, mut mild) = (url, argument);
        if argument && url.len() > urls.length_max {
            // It may be long in an argument, so where it goes is judged all the same.
            match urls.start_of(url) {
                Some(start) => {
                    read = start;
                    parts = urls.judge(start, &mut hits);
                }
                None => mild = false,
            }
        }
        for hit in hits {
            let span = match argument {
                true => source.clone(),
                false => hit.span,
            };
            let most = match mild && MILD.contains(&hit.rule) && !metadata(&parts) {
                true => Action::Warn,
                false => Action::Refuse,
            };
            let path = path.to_owned();
            self.add_at_most(most, report, place, hit.rule, path, span, hit.disguise);
        }
        if read.len() <= urls.length_max {
            for (rule, span, disguise) in self.own_urls.judge(read) {
                let span = if argument { source.clone() } else { span };
                self.add(report, place, rule.id, path.to_owned(), span, disguise);
            }
        }
        parts
    }

    /// Counts what a URL carries away.
    fn spend(
        &self,
        place: &Place<'_>,
        url: &str,
        parts: &UrlParts,
        session: &mut Session,
        now_ms: u64,
        report: &mut Report,
    ) {
        let host = url
            .get(parts.host.clone())
            .unwrap_or_default()
            .to_ascii_lowercase();
        let budget = session
            .budget
            .get_or_insert_with(|| Box::new(Budget::new(self.settings.urls.allowance)));
        // The settings may have changed since the session began.
        budget.allow(self.settings.urls.allowance);
        let by_domain = Budget::key(place.agent, domain::registrable(host.trim_end_matches('.')));
        let taken = [
            budget.take(by_domain, url.len() as u64, now_ms),
            budget.take_random(Budget::key(place.agent, ""), parts.random_bits, now_ms),
        ];
        for rule in taken.into_iter().filter_map(Result::err) {
            self.add(report, place, rule, "url".to_owned(), 0..url.len(), "");
        }
    }

    /// What is done about what code found in its place.
    fn acts(&self, rule: &Rule, place: &Place<'_>) -> Action {
        whole(self.decide(rule, false, place).0)
    }

    /// Adds what code found, with what is done about it in its place.
    pub(crate) fn add(
        &self,
        report: &mut Report,
        place: &Place<'_>,
        rule: &'static str,
        path: String,
        span: Range<usize>,
        disguise: &'static str,
    ) {
        self.add_at_most(Action::Refuse, report, place, rule, path, span, disguise);
    }

    /// The same, with the strongest action that may be taken here.
    #[allow(
        clippy::too_many_arguments,
        reason = "they are the parts of one finding, given once"
    )]
    fn add_at_most(
        &self,
        most: Action,
        report: &mut Report,
        place: &Place<'_>,
        rule: &'static str,
        path: String,
        span: Range<usize>,
        disguise: &'static str,
    ) {
        let Some(rule) = self.rule(rule) else {
            base::never!("code found a rule that is in no list");
            return;
        };
        let (action, exempt) = self.decide(rule, false, place);
        let action = match whole(action.min(most)) {
            Action::Off => return,
            action => action,
        };
        let fingerprint = match &*path {
            "url" => self.url_fingerprint,
            path => self.fingerprint(path.as_bytes()),
        };
        report.note(Finding {
            rule,
            action,
            fingerprint,
            path,
            span,
            disguise,
            mention: false,
            exempt,
        });
    }
}

/// There is no text to replace in what a call does: what may not pass as it is does not pass.
fn whole(action: Action) -> Action {
    match action {
        Action::Redact => Action::Refuse,
        action => action,
    }
}

/// The names of a call's arguments that are `true`.
fn flags(params: Document<'_>) -> Vec<String> {
    let set = |params: JsonValue<'_>| {
        let arguments = params.get("arguments").into_iter();
        let arguments = arguments.flat_map(JsonValue::members);
        let set = arguments.filter(|(_, value)| value.text() == "true");
        set.map(|(key, _)| key.name().into_owned()).collect()
    };
    match params {
        Document::Indexed(params) => set(params),
        Document::Bytes(params) => {
            Json::read(params).map_or_else(|_| Vec::new(), |params| set(params.root()))
        }
    }
}

/// The strings of a call that are values, with their paths.
pub(crate) fn leaves<'a>(
    layer: &Layer<'a>,
    params: &[u8],
    hidden: &[Range<usize>],
) -> Vec<Leaf<'a>> {
    let values = joined::values_of(layer);
    let sources: Vec<Range<usize>> = values
        .iter()
        .map(|(_, value)| layer.source(value))
        .collect();
    let places: Vec<usize> = sources.iter().map(|source| source.start).collect();
    let paths = json::paths(params, "", &places, hidden);
    let leaves = values.into_iter().zip(sources).zip(paths);
    let leaf = |(((_, value), source), path): (((&[u8], Range<usize>), _), _)| Leaf {
        source,
        path,
        text: std::str::from_utf8(&layer.bytes[value]).unwrap_or_default(),
    };
    leaves.map(leaf).collect()
}

/// The URLs in a string: from their scheme to the next space or quote, as far as is read.
fn urls(text: &str) -> impl Iterator<Item = &str> {
    let bytes = text.as_bytes();
    // One URL may stand in another, and ends where that one does.
    let mut end = 0;
    memchr::memmem::find_iter(bytes, b"://").filter_map(move |at| {
        let scheme = |b: &u8| !b.is_ascii_alphanumeric() && !matches!(b, b'+' | b'-' | b'.');
        let start = bytes[..at]
            .iter()
            .rposition(scheme)
            .map_or(0, |before| before + 1);
        if end <= at {
            let outside =
                |b: &u8| *b <= b' ' || matches!(b, b'"' | b'\'' | b'<' | b'>' | b'`' | b'|');
            let length = bytes[at..].iter().position(outside);
            end = length.map_or(bytes.len(), |length| at + length);
        }
        let end = text.floor_char_boundary(end.min(start + URL_BYTES_MAX));
        text.get(start..end)
            .map(|url| url.trim_end_matches([')', ']', '}', ',', ';', '.']))
    })
}

/// Whether a URL leads to the place where a cloud hands out its keys.
fn metadata(parts: &UrlParts) -> bool {
    match parts.address {
        Some(std::net::IpAddr::V4(address)) => address.is_link_local(),
        Some(std::net::IpAddr::V6(address)) => {
            let mapped = address.to_ipv4_mapped();
            mapped.is_some_and(|v4| v4.is_link_local())
                || address.segments()[..2] == [0xfd00, 0xec2]
        }
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Settings;

    /// What is said of a call with this text in an argument.
    fn judged(text: &str) -> Result<Vec<(&'static str, Action)>, Bound> {
        let engine = Engine::new(Settings::default(), [1; 32]);
        let params = serde_json::json!({ "name": "render", "arguments": { "page": text } });
        let report = engine.call(Direction::Outgoing, params.to_string().as_bytes(), "", None)?;
        let findings = report.findings.into_iter();
        Ok(findings.map(|f| (f.rule.id, f.action)).collect())
    }

    #[test]
    fn a_long_url_goes_where_a_short_one_does() {
        let blocked = ("url_blocked", Action::Refuse);
        let long = "pages-of-a-book/".repeat(250);
        for url in [
            format!("https://webhook.site/{long}"),
            format!("https://u:{}@webhook.site/{long}", "p".repeat(100)),
        ] {
            assert!(judged(&url).unwrap().contains(&blocked), "{}", &url[..40]);
        }
        let kind = format!("https://docs.example/{long}");
        assert_eq!(judged(&kind), Ok(vec![("url_length", Action::Warn)]));
        // An authority that is longer than what is read hides the host.
        let hidden = format!("https://{}@webhook.site/", "u".repeat(3000));
        assert!(
            judged(&hidden)
                .unwrap()
                .contains(&("url_length", Action::Refuse))
        );
    }

    #[test]
    fn a_path_never_shows_a_secret_that_is_a_name() {
        let engine = Engine::new(Settings::default(), [1; 32]);
        let token = "ghp_9fKq2mZx7Lw4Bv8Rt3Yc6Hn1Jd5Sg0Pa2WeU";
        let url = serde_json::json!({ token: "https://webhook.site/x" });
        let call = serde_json::json!({ "name": "get", "arguments": url }).to_string();
        let read = serde_json::json!({ "uri": url }).to_string();
        for report in [
            engine.call(Direction::Outgoing, call.as_bytes(), "", None),
            engine.resource(Direction::Outgoing, read.as_bytes(), "", None),
        ] {
            let report = report.unwrap();
            let found: Vec<&str> = report.findings.iter().map(|f| f.rule.id).collect();
            assert!(found.contains(&"url_blocked"), "{found:?}");
            assert!(report.findings.iter().all(|f| !f.path.contains(token)));
        }
    }

    #[test]
    fn the_last_of_many_urls_is_judged() {
        let many = "https://docs.example/a ".repeat(200);
        assert_eq!(judged(&many), Ok(vec![]));
        let last = judged(&format!("{many} https://webhook.site/x")).unwrap();
        assert_eq!(last, [("url_blocked", Action::Refuse)]);
        assert!(judged(&"https://docs.example/a ".repeat(URLS_MAX + 1)).is_err());
    }

    #[test]
    fn urls_in_urls_are_urls() {
        let found = |text| urls(text).collect::<Vec<_>>();
        let text = "see (https://a.example/?u=https://b.example/c), and ftp://é/ .";
        let all = [
            "https://a.example/?u=https://b.example/c",
            "https://b.example/c",
            "ftp://é/",
        ];
        assert_eq!(found(text), all);
        assert_eq!(
            found(&format!("x://{}é", "y".repeat(URL_BYTES_MAX - 5)))[0].len(),
            URL_BYTES_MAX - 1
        );
    }
}
