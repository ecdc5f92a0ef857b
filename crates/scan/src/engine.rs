//! The engine: all rules compiled, and the questions that it answers about texts.

use std::cmp::Reverse;
use std::ops::Range;
use std::slice;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use base::limit::FINDINGS_MAX;
use sha2::{Digest as _, Sha256};

use crate::command::Commands;
use crate::found::{Found, once};
use crate::fragments::Fragments;
use crate::json::{self, Document};
use crate::layer::Layer;
use crate::patterns;
use crate::place::Place;
use crate::report::{Bound, Finding, Redaction, Report};
use crate::rule::{Action, Class, Rule};
use crate::search::Search;
use crate::sessions::Session;
use crate::set::Set;
use crate::settings::Settings;
use crate::url::OwnRules;
use crate::values::Values;

/// The number of the next engine.
static NUMBER: AtomicU64 = AtomicU64::new(0);

/// All rules, compiled. Shared by all threads.
pub struct Engine {
    pub(crate) set: Set,
    /// Read when the first call is judged.
    commands: OnceLock<Commands>,
    /// Rules of the operator's own about URLs.
    pub(crate) own_urls: OwnRules,
    pub(crate) settings: Settings,
    /// The operator's own secrets and canaries.
    pub(crate) values: Option<Values>,
    fingerprint_key: [u8; 32],
    /// By what texts are known again: made of that key, and a number that no other engine of this process has.
    pub(crate) memory_key: [u8; 32],
    pub(crate) number: u64,
    /// The fingerprint of a URL's path in a report, which is always the same.
    pub(crate) url_fingerprint: u64,
}

/// What the input is, for its redaction.
#[derive(Clone, Copy, PartialEq)]
enum Form {
    Json,
    Text,
}

impl Engine {
    /// Compiles the rules of settings that hold few rules of an operator's own, as tests and examples do.
    pub fn new(settings: Settings, fingerprint_key: [u8; 32]) -> Engine {
        let engine = Engine::compile(settings, fingerprint_key);
        engine.expect("the literals of our own rules are few enough")
    }

    /// Compiles the rules. The key makes fingerprints useless to whoever does not have it.
    ///
    /// Errors: all rules together have too many literals.
    pub fn compile(settings: Settings, fingerprint_key: [u8; 32]) -> Result<Engine, &'static str> {
        Ok(Engine {
            commands: OnceLock::new(),
            own_urls: OwnRules::new(&settings.rules),
            set: Set::new(patterns::rules(), &settings.rules, &settings)?,
            values: settings.values.clone().filter(|values| !values.is_empty()),
            settings,
            fingerprint_key,
            memory_key: crate::known::hmac(&fingerprint_key, &[b"known texts"]),
            number: NUMBER.fetch_add(1, Ordering::Relaxed),
            url_fingerprint: fingerprint(&fingerprint_key, b"url"),
        })
    }

    /// An engine of one rule, which it looks for everywhere. Errors: it has too many literals.
    pub(crate) fn alone(rule: &'static Rule) -> Result<Engine, &'static str> {
        let mut settings = Settings::default();
        settings.rules.push(rule);
        let all = settings.set(rule.id, None, Action::Refuse);
        all.expect("the rule is among the settings' own");
        Ok(Engine {
            set: Set::new(&[], &[rule], &settings)?,
            commands: OnceLock::from(Commands::new(&[], &[rule])),
            own_urls: OwnRules::new(&[rule]),
            values: None,
            settings,
            fingerprint_key: [0; 32],
            memory_key: [0; 32],
            number: NUMBER.fetch_add(1, Ordering::Relaxed),
            url_fingerprint: fingerprint(&[0; 32], b"url"),
        })
    }

    /// Scans a JSON document, keys and strings and long numbers. `root` is put before each path.
    ///
    /// The document is known to be JSON; anything else is scanned as far as it can be read.
    /// Errors: a bound was reached, and the document was not wholly scanned.
    pub fn json<'a>(
        &'a self,
        place: impl Into<Place<'a>>,
        json: impl Into<Document<'a>>,
        root: &str,
    ) -> Result<Report, Bound> {
        self.json_after(place, json, root, None)
    }

    /// The same, with the ends of what the agent sent before, and the monotonic clock in milliseconds:
    /// what is split over calls is found when its last part is sent.
    pub fn json_after<'a>(
        &'a self,
        place: impl Into<Place<'a>>,
        json: impl Into<Document<'a>>,
        root: &str,
        before: Option<(&mut Fragments, u64)>,
    ) -> Result<Report, Bound> {
        let (place, document) = (place.into(), json.into());
        json::with_strings(document, |layer| {
            let bytes = document.bytes();
            let search = Search::new(self, place, bytes.len());
            self.document(search, bytes, root, layer, before)
        })
    }

    /// Looks only for what is split over this document and what the agent sent before, and keeps its ends: the document was scanned
    /// before, and nothing was found in it.
    ///
    /// # Errors
    /// A bound was reached.
    pub fn ends<'a>(
        &'a self,
        place: impl Into<Place<'a>>,
        json: impl Into<Document<'a>>,
        root: &str,
        session: (&mut Session, u64),
    ) -> Result<Report, Bound> {
        let (place, document) = (place.into(), json.into());
        let (session, now_ms) = session;
        json::with_strings(document, |layer| {
            let bytes = document.bytes();
            let mut search = Search::new(self, place, bytes.len());
            search.fragments(layer, &mut session.fragments, now_ms)?;
            let paths = |places: &[usize], hidden: &[Range<usize>]| {
                json::paths(bytes, root, places, hidden)
            };
            Ok(self.report(search, bytes, Form::Json, paths))
        })
    }

    /// Scans a JSON document whose strings were read.
    pub(crate) fn document(
        &self,
        mut search: Search<'_>,
        json: &[u8],
        root: &str,
        layer: &Layer<'_>,
        before: Option<(&mut Fragments, u64)>,
    ) -> Result<Report, Bound> {
        let place = search.place;
        search.root(layer)?;
        search.phrase_in_parts(layer)?;
        if let Some((fragments, now_ms)) = before {
            search.fragments(layer, fragments, now_ms)?;
        }
        let paths =
            |places: &[usize], hidden: &[Range<usize>]| json::paths(json, root, places, hidden);
        let mut report = self.report(search, json, Form::Json, paths);
        self.wanted(&place, json, root, layer, &mut report);
        Ok(report)
    }

    /// Scans a text that is not JSON. Every finding's path is `path`.
    ///
    /// Errors: a bound was reached, and the text was not wholly scanned.
    pub fn text<'a>(
        &'a self,
        place: impl Into<Place<'a>>,
        text: &str,
        path: &str,
    ) -> Result<Report, Bound> {
        self.bytes(place, text.as_bytes(), path)
    }

    /// Scans bytes that may be text, or text among others, or compressed. Errors: as [`Engine::text`].
    pub fn bytes<'a>(
        &'a self,
        place: impl Into<Place<'a>>,
        bytes: &[u8],
        path: &str,
    ) -> Result<Report, Bound> {
        let whole = 0..bytes.len();
        let mut search = Search::new(self, place.into(), bytes.len());
        search.body(&Layer::plain(bytes, slice::from_ref(&whole)))?;
        let paths = |places: &[usize], _: &[Range<usize>]| vec![path.to_owned(); places.len()];
        Ok(self.report(search, bytes, Form::Text, paths))
    }

    /// Bytes that are read to scan a text: of its views, and of the windows of rules.
    #[cfg(test)]
    pub(crate) fn work_of(&self, text: &str) -> usize {
        let whole = 0..text.len();
        let place = crate::rule::Direction::Outgoing.into();
        let mut search = Search::new(self, place, text.len());
        let before = search.work_left;
        // Too many findings end a scan early; the work until then counts all the same.
        let _ = search.root(&Layer::plain(text.as_bytes(), slice::from_ref(&whole)));
        before.saturating_sub(search.work_left)
    }

    pub(crate) fn commands(&self) -> &Commands {
        let all = || Commands::new(patterns::rules(), &self.settings.rules);
        self.commands.get_or_init(all)
    }

    /// Whether there is a rule of this id, of ours or of the operator's.
    pub fn knows(&self, id: &str) -> bool {
        self.rule(id).is_some()
    }

    /// The rule of this id, of ours or of the operator's.
    pub(crate) fn rule(&self, id: &str) -> Option<&'static Rule> {
        let own = || self.settings.rules.iter().find(|rule| rule.id == id);
        patterns::rule(id).or_else(|| own().copied())
    }

    pub(crate) fn fingerprint(&self, text: &[u8]) -> u64 {
        fingerprint(&self.fingerprint_key, text)
    }

    /// What is done about a finding in its place, and why it is exempt.
    pub(crate) fn decide(
        &self,
        rule: &Rule,
        mention: bool,
        place: &Place<'_>,
    ) -> (Action, Option<String>) {
        let action = self.settings.action(rule, *place);
        match self.settings.exemption(rule, place) {
            Some(exemption) if action > Action::Warn => {
                (Action::Warn, Some(exemption.reason.clone()))
            }
            _ if mention => (action.min(Action::Warn), None),
            _ => (action, None),
        }
    }

    /// Gives the findings their actions and paths.
    fn report(
        &self,
        search: Search<'_>,
        input: &[u8],
        form: Form,
        paths: impl Fn(&[usize], &[Range<usize>]) -> Vec<String>,
    ) -> Report {
        let Search {
            mut found, place, ..
        } = search;
        if found.is_empty() {
            return Report::clean();
        }
        once(&mut found, input);
        // Of rules that found the same the gravest speaks first, and gives its name to what is replaced.
        found.sort_by_key(|found| {
            let span = found.span();
            let last = (Reverse(span.end), Reverse(found.rule.severity));
            (span.start, last)
        });
        let decided = found.into_iter().filter_map(|found| {
            let (action, exempt) = self.decide(found.rule, found.mention, &place);
            (action != Action::Off).then_some((found, action, exempt))
        });
        let mut decided: Vec<(Found, Action, Option<String>)> = decided.collect();
        // The gravest is always among those that are kept: the report's action has its reason.
        let strongest = decided.iter().map(|(_, action, _)| *action).max();
        let first = decided
            .iter()
            .position(|(_, action, _)| Some(*action) == strongest);
        if let Some(first) = first.filter(|first| *first >= FINDINGS_MAX) {
            decided.swap(FINDINGS_MAX - 1, first);
        }
        let kept = decided.iter().take(FINDINGS_MAX);
        let places: Vec<usize> = kept.map(|(found, ..)| found.span().start).collect();
        let private = |class| matches!(class, Class::Secret | Class::Personal);
        let hidden = decided.iter().filter(|(f, ..)| private(f.rule.class));
        let hidden: Vec<Range<usize>> = hidden.flat_map(|(f, ..)| f.parts.clone()).collect();
        let mut paths = paths(&places, &hidden).into_iter();
        let mut report = Report::clean();
        report.found_nothing = false;
        for (found, action, exempt) in decided {
            let quoted = form == Form::Json && found.bare;
            let parts = found.parts.iter().cloned();
            let spans: Vec<_> = parts.map(|p| characters(input, p, quoted)).collect();
            let replaced = match action {
                Action::Redact => Some(&mut report.redactions),
                _ => Some(&mut report.private).filter(|_| private(found.rule.class)),
            };
            if let Some(replaced) = replaced {
                let redaction = |span: &std::ops::Range<usize>| Redaction {
                    span: span.clone(),
                    rule: found.rule.id,
                    quoted,
                };
                replaced.extend(spans.iter().map(redaction));
            }
            let path = paths.next();
            report.action = report.action.max(action);
            if let Some(path) = path {
                report.findings.push(Finding {
                    rule: found.rule,
                    action,
                    path,
                    span: spans[0].start..spans[spans.len() - 1].end,
                    disguise: found.disguise,
                    fingerprint: found.fingerprint,
                    mention: found.mention,
                    exempt,
                });
            }
        }
        report
            .redactions
            .sort_by_key(|redaction| redaction.span.start);
        report
    }
}

fn fingerprint(key: &[u8; 32], text: &[u8]) -> u64 {
    let hash = Sha256::new()
        .chain_update(key)
        .chain_update(text)
        .finalize();
    u64::from_be_bytes(hash[..8].try_into().expect("a hash has 32 bytes"))
}

/// The span without half characters; of a number, the whole number.
fn characters(input: &[u8], span: std::ops::Range<usize>, number: bool) -> std::ops::Range<usize> {
    let std::ops::Range { mut start, mut end } = span;
    let goes_on = |at: usize| {
        let byte = input.get(at).copied().unwrap_or(b' ');
        byte & 0xc0 == 0x80
            || (number && matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E'))
    };
    while start > 0 && goes_on(start) && (!number || goes_on(start - 1)) {
        start -= 1;
    }
    while goes_on(end) {
        end += 1;
    }
    start..end
}
