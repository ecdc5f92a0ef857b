//! The engine: candidates by one automaton, then exact expressions where candidates opened a window.
//!
//! Windows of one rule that touch are searched as one, so that no text makes a rule read its bytes more
//! than a few times. All work is counted, and the count is bounded by the size of the text.

use std::ops::Range;
use std::slice;

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind, StartKind};
use base::limit::{
    FINDINGS_MAX, SCAN_DEPTH_MAX, SCAN_REDACTIONS_MAX, SCAN_WORK_BYTES_MIN, SCAN_WORK_PER_BYTE_MAX,
};
use regex_automata::util::captures::Captures;
use regex_automata::util::syntax;
use regex_automata::{Input, meta};
use sha2::{Digest as _, Sha256};

use crate::layer::{Layer, Text};
use crate::report::{Bound, Finding, Redaction, Report};
use crate::rule::{Action, Class, Direction, Rule};
use crate::settings::Settings;
use crate::{decode, fold, json, patterns, words};

/// Fewest digits that open a rule of digits: the shortest card number.
const DIGITS_MIN: usize = 13;
/// Bytes after its first line in which a PEM block is looked for; an RSA key of 16,384 bits has 13,000.
const PEM_BYTES_MAX: usize = 16 << 10;

/// All rules, compiled. Shared by all threads.
pub struct Engine {
    automaton: AhoCorasick,
    /// The rules that each literal of the automaton opens.
    openers: Vec<Vec<u16>>,
    matchers: Vec<Matcher>,
    /// The rules that runs of digits open.
    digit_rules: Vec<u16>,
    fingerprint_key: [u8; 32],
}

/// One rule, compiled.
struct Matcher {
    rule: &'static Rule,
    regex: meta::Regex,
    /// Bytes of the longest match.
    length_max: usize,
    /// What to do in each direction, by its index.
    actions: [Action; 3],
}

impl Engine {
    /// Compiles the rules. The key makes fingerprints useless to whoever does not have it.
    pub fn new(settings: Settings, fingerprint_key: [u8; 32]) -> Engine {
        let rules: Vec<&'static Rule> = patterns::rules()
            .iter()
            .filter(|rule| rule.class.reads_text() && !rule.regex.is_empty())
            .collect();
        let mut literals: Vec<String> = Vec::new();
        let mut openers: Vec<Vec<u16>> = Vec::new();
        let mut digit_rules = Vec::new();
        for (index, rule) in (0..).zip(&rules) {
            for literal in &rule.literals {
                let literal = literal.to_ascii_lowercase();
                let known = literals.iter().position(|known| *known == literal);
                let at = known.unwrap_or_else(|| {
                    literals.push(literal);
                    openers.push(Vec::new());
                    literals.len() - 1
                });
                openers[at].push(index);
            }
            if rule.digits {
                digit_rules.push(index);
            }
        }
        let automaton = AhoCorasick::builder()
            .ascii_case_insensitive(true)
            .match_kind(MatchKind::Standard)
            .start_kind(StartKind::Unanchored)
            .kind(Some(AhoCorasickKind::DFA))
            .build(&literals)
            .expect("the literals of our own rules fit an automaton");
        let matchers = rules
            .iter()
            .map(|rule| Matcher::new(rule, &settings))
            .collect();
        Engine {
            automaton,
            openers,
            matchers,
            digit_rules,
            fingerprint_key,
        }
    }

    /// Scans a JSON document, keys and strings and long numbers. `root` is put before each path.
    ///
    /// The document is known to be JSON; anything else is scanned as far as it can be read.
    /// Errors: a bound was reached, and the document was not wholly scanned.
    pub fn json(&self, direction: Direction, json: &[u8], root: &str) -> Result<Report, Bound> {
        let mut text = Text::take();
        json::read(json, &mut text);
        let mut scan = Scan::new(self, direction, json.len());
        let result = if text.bytes.is_empty() {
            scan.root(&Layer::plain(json, &text.strings))
        } else {
            scan.root(&Layer::view(&text, "", None))
        };
        text.give();
        result?;
        let paths = |places: &[usize]| json::paths(json, root, places);
        Ok(scan.report(json, Form::Json, paths))
    }

    /// Scans a text that is not JSON. Every finding's path is `path`.
    ///
    /// Errors: a bound was reached, and the text was not wholly scanned.
    pub fn text(&self, direction: Direction, text: &str, path: &str) -> Result<Report, Bound> {
        let whole = 0..text.len();
        let mut scan = Scan::new(self, direction, text.len());
        scan.root(&Layer::plain(text.as_bytes(), slice::from_ref(&whole)))?;
        let paths = |places: &[usize]| vec![path.to_owned(); places.len()];
        Ok(scan.report(text.as_bytes(), Form::Text, paths))
    }

    /// Bytes that are read to scan a text: of its views, and of the windows of rules.
    #[cfg(test)]
    pub(crate) fn work_of(&self, text: &str) -> usize {
        let whole = 0..text.len();
        let mut scan = Scan::new(self, Direction::Outgoing, text.len());
        let before = scan.work_left;
        // Too many findings end a scan early; the work until then counts all the same.
        let _ = scan.root(&Layer::plain(text.as_bytes(), slice::from_ref(&whole)));
        before - scan.work_left
    }

    fn fingerprint(&self, text: &[u8]) -> u64 {
        let hash = Sha256::new()
            .chain_update(self.fingerprint_key)
            .chain_update(text)
            .finalize();
        u64::from_be_bytes(hash[..8].try_into().expect("a hash has 32 bytes"))
    }
}

impl Matcher {
    fn new(rule: &'static Rule, settings: &Settings) -> Matcher {
        let syntax = syntax::Config::new().unicode(false).utf8(false);
        let hir = syntax::parse_with(rule.regex, &syntax).unwrap_or_else(|error| {
            panic!("the expression of {} does not parse: {error}", rule.id)
        });
        let hir = match rule.class {
            Class::Injection => words::widen(&hir),
            _ => hir,
        };
        let length_max = hir.properties().maximum_len();
        let length_max = length_max.unwrap_or_else(|| panic!("{} has no bound", rule.id));
        let regex = meta::Builder::new()
            .configure(
                meta::Config::new()
                    .utf8_empty(false)
                    .nfa_size_limit(Some(1 << 22)),
            )
            .build_from_hir(&hir)
            .unwrap_or_else(|error| {
                panic!("the expression of {} does not build: {error}", rule.id)
            });
        let actions = Direction::ALL.map(|direction| settings.action(rule, direction));
        Matcher {
            rule,
            regex,
            length_max,
            actions,
        }
    }
}

/// What the input is, for its redaction.
#[derive(Clone, Copy, PartialEq)]
enum Form {
    Json,
    Text,
}

/// One scan of one input.
struct Scan<'e> {
    engine: &'e Engine,
    direction: Direction,
    found: Vec<Found>,
    /// The rule of the last block found in this view, and where the block ends.
    block: Option<(u16, usize)>,
    /// Bytes that may still be read, over all views and rules.
    work_left: usize,
}

/// A finding before it has a path.
struct Found {
    matcher: u16,
    span: Range<usize>,
    disguise: &'static str,
    fingerprint: u64,
    /// It stands in a JSON number, or between strings.
    bare: bool,
}

impl<'e> Scan<'e> {
    fn new(engine: &'e Engine, direction: Direction, bytes: usize) -> Scan<'e> {
        let work_left = bytes
            .saturating_mul(SCAN_WORK_PER_BYTE_MAX)
            .max(SCAN_WORK_BYTES_MIN);
        Scan {
            engine,
            direction,
            found: Vec::new(),
            block: None,
            work_left,
        }
    }

    fn work(&mut self, bytes: usize) -> Result<(), Bound> {
        let left = self.work_left.checked_sub(bytes);
        self.work_left = left.ok_or(Bound("the text asks for more work than its size may cost"))?;
        Ok(())
    }

    fn root(&mut self, layer: &Layer<'_>) -> Result<(), Bound> {
        if layer.bytes.is_ascii() {
            self.view(layer, 0)
        } else {
            self.folded(layer, 0)
        }
    }

    fn folded(&mut self, layer: &Layer<'_>, depth: usize) -> Result<(), Bound> {
        let mut text = Text::take();
        self.work(layer.bytes.len())?;
        fold::fold(layer, &mut text);
        let result = self.view(&Layer::view(&text, "", Some(layer)), depth);
        text.give();
        result
    }

    /// Looks for rules in one view, then in what it decodes to.
    fn view(&mut self, layer: &Layer<'_>, depth: usize) -> Result<(), Bound> {
        self.work(layer.bytes.len())?;
        let mut windows = Windows::take(self.engine.matchers.len());
        let result = self.search(layer, &mut windows);
        windows.0.give();
        result?;
        self.encoded(layer, depth)?;
        self.percent(layer, depth)
    }

    fn search(&mut self, layer: &Layer<'_>, windows: &mut Windows) -> Result<(), Bound> {
        self.block = None;
        let engine = self.engine;
        for hit in engine.automaton.find_overlapping_iter(layer.bytes) {
            for index in &engine.openers[hit.pattern().as_usize()] {
                let window = self.window(layer, *index, hit.span().start, hit.span().end);
                if let Some(ready) = window.and_then(|window| windows.add(*index, window)) {
                    self.matches(layer, *index, ready)?;
                }
            }
        }
        if !engine.digit_rules.is_empty() {
            let digit = |byte: u8| matches!(byte, b'0'..=b'9' | b' ' | b'-');
            let mut at = 0;
            while let Some(run) = decode::run(layer.bytes, at, DIGITS_MIN, digit) {
                at = run.end;
                for index in &engine.digit_rules {
                    if let Some(ready) = windows.add(*index, run.clone()) {
                        self.matches(layer, *index, ready)?;
                    }
                }
            }
        }
        while let Some((index, window)) = windows.next() {
            self.matches(layer, index, window)?;
        }
        Ok(())
    }

    /// Where a match that holds this literal can be.
    fn window(
        &self,
        layer: &Layer<'_>,
        index: u16,
        start: usize,
        end: usize,
    ) -> Option<Range<usize>> {
        let matcher = &self.engine.matchers[usize::from(index)];
        if matcher.actions[self.direction as usize] == Action::Off {
            return None;
        }
        let (string, mut bounds) = layer.string(start)?;
        if matcher.rule.pair {
            bounds.end = layer
                .strings
                .get(string + 1)
                .map_or(layer.bytes.len(), |next| next.end);
        }
        let from = start.saturating_sub(matcher.rule.before).max(bounds.start);
        let to = match matcher.rule.before {
            0 => start + matcher.length_max,
            _ => end + matcher.length_max,
        };
        Some(from..to.min(bounds.end))
    }

    /// Runs a rule's expression over a window.
    fn matches(
        &mut self,
        layer: &Layer<'_>,
        index: u16,
        window: Range<usize>,
    ) -> Result<(), Bound> {
        let matcher = &self.engine.matchers[usize::from(index)];
        if matcher.actions[self.direction as usize] == Action::Off {
            return Ok(());
        }
        self.work(window.len())?;
        // A window that starts inside a block that was found is part of it.
        let mut from = match self.block {
            Some((rule, end)) if rule == index => window.start.max(end),
            _ => window.start,
        };
        // An anchor means the start or the end of a string, not of the document around it.
        let base = layer.string(window.start).map_or(0, |(_, s)| s.start);
        let text = &layer.bytes[base..];
        while from < window.end {
            let input = Input::new(text).span(from - base..window.end - base);
            let Some(found) = matcher.regex.find(input) else {
                return Ok(());
            };
            let whole = base + found.start()..base + found.end();
            let mut span = secret(matcher, layer, base, whole.clone());
            if matcher.rule.check.passes(&layer.bytes[span.clone()]) {
                if matcher.rule.block {
                    span.end = block_end(layer, &span);
                    self.work(span.len())?;
                    self.block = Some((index, span.end));
                }
                self.found(layer, index, span.clone())?;
            }
            from = whole.end.max(span.end).max(from + 1);
        }
        Ok(())
    }

    fn found(&mut self, layer: &Layer<'_>, index: u16, span: Range<usize>) -> Result<(), Bound> {
        let fingerprint = self.engine.fingerprint(&layer.bytes[span.clone()]);
        let original = layer.original(&span);
        let mut root = layer;
        let mut disguise = "";
        let mut inner = span;
        while let Some(parent) = root.parent {
            inner = root.source(&inner);
            if disguise.is_empty() {
                disguise = match root.name {
                    "" => fold::disguise(&parent.bytes[inner.clone()]),
                    name => name,
                };
            }
            root = parent;
        }
        let same = |found: &Found| found.matcher == index && found.fingerprint == fingerprint;
        let inside =
            |found: &Found| original.start <= found.span.start && found.span.end <= original.end;
        if layer.parent.is_some()
            && self
                .found
                .iter()
                .rev()
                .take(FINDINGS_MAX)
                .any(|f| same(f) && inside(f))
        {
            return Ok(());
        }
        if self.found.len() == SCAN_REDACTIONS_MAX {
            return Err(Bound("the text has more findings than a report may have"));
        }
        let bare = root.string(inner.start).is_none();
        self.found.push(Found {
            matcher: index,
            span: original,
            disguise,
            fingerprint,
            bare,
        });
        Ok(())
    }

    /// Decodes base64 and hex, and looks there.
    fn encoded(&mut self, layer: &Layer<'_>, depth: usize) -> Result<(), Bound> {
        let mut at = 0;
        while let Some(run) = decode::encoded(layer.bytes, at) {
            at = run.end;
            let mut text = Text::take();
            let name = decode::decode(&layer.bytes[run.clone()], &mut text.bytes);
            let result = self.decoded(layer, run, text, name, depth);
            result?;
        }
        Ok(())
    }

    /// Undoes percent-encoding, and looks there.
    fn percent(&mut self, layer: &Layer<'_>, depth: usize) -> Result<(), Bound> {
        if memchr::memchr(b'%', layer.bytes).is_none() {
            return Ok(());
        }
        for string in layer.strings {
            let mut at = string.start;
            while let Some(run) = decode::percent(layer.bytes, at, string.end) {
                at = run.end;
                let mut text = Text::take();
                decode::unpercent(&layer.bytes[run.clone()], &mut text.bytes)?;
                self.decoded(layer, run, text, "percent", depth)?;
            }
        }
        Ok(())
    }

    /// Looks in what a run decoded to.
    fn decoded(
        &mut self,
        layer: &Layer<'_>,
        run: Range<usize>,
        mut text: Text,
        name: &'static str,
        depth: usize,
    ) -> Result<(), Bound> {
        self.work(run.len())?;
        let mut result = Ok(());
        if depth == SCAN_DEPTH_MAX {
            if decode::readable(&text.bytes) {
                result = Err(Bound(
                    "the text is encoded in more layers than the scan undoes",
                ));
            }
        } else {
            text.whole(run);
            let decoded = Layer::view(&text, name, Some(layer));
            let foldable = !decoded.bytes.is_ascii() && std::str::from_utf8(decoded.bytes).is_ok();
            result = match foldable {
                true => self.folded(&decoded, depth + 1),
                false => self.view(&decoded, depth + 1),
            };
        }
        text.give();
        result
    }

    /// Gives the findings their actions and paths.
    fn report(
        mut self,
        input: &[u8],
        form: Form,
        paths: impl Fn(&[usize]) -> Vec<String>,
    ) -> Report {
        if self.found.is_empty() {
            return Report::clean();
        }
        self.found
            .sort_by_key(|found| (found.span.start, std::cmp::Reverse(found.span.end)));
        let places: Vec<usize> = self
            .found
            .iter()
            .take(FINDINGS_MAX)
            .map(|found| found.span.start)
            .collect();
        let mut paths = paths(&places).into_iter();
        let mut report = Report::clean();
        for found in self.found {
            let matcher = &self.engine.matchers[usize::from(found.matcher)];
            let action = matcher.actions[self.direction as usize];
            report.action = report.action.max(action);
            let quoted = form == Form::Json && found.bare;
            let span = characters(input, found.span, quoted);
            if action == Action::Redact {
                let rule = matcher.rule.id;
                report.redactions.push(Redaction {
                    span: span.clone(),
                    rule,
                    quoted,
                });
            }
            if let Some(path) = paths.next() {
                report.findings.push(Finding {
                    rule: matcher.rule,
                    action,
                    path,
                    span,
                    disguise: found.disguise,
                    fingerprint: found.fingerprint,
                });
            }
        }
        report
    }
}

/// The span without half characters; of a number, the whole number.
fn characters(input: &[u8], span: Range<usize>, number: bool) -> Range<usize> {
    let Range { mut start, mut end } = span;
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

/// The part of a match that is the secret: its first group where it has one, within one string, which
/// begins at `base`.
fn secret(matcher: &Matcher, layer: &Layer<'_>, base: usize, whole: Range<usize>) -> Range<usize> {
    let mut span = whole.clone();
    if matcher.regex.captures_len() > 1 {
        let mut captures = Captures::all(matcher.regex.group_info().clone());
        let input = Input::new(&layer.bytes[base..])
            .span(whole.start - base..whole.end - base)
            .anchored(regex_automata::Anchored::Yes);
        matcher.regex.captures(input, &mut captures);
        if let Some(group) = captures.get_group(1) {
            span = base + group.start..base + group.end;
        }
    }
    if let Some((_, string)) = layer.string(span.start) {
        span.end = span.end.min(string.end);
    }
    span
}

/// Where a PEM block that starts here ends: after its last line, or with its last base64.
fn block_end(layer: &Layer<'_>, span: &Range<usize>) -> usize {
    const END: &[u8] = b"-----END";
    let end = layer
        .string(span.start)
        .map_or(layer.bytes.len(), |(_, string)| string.end);
    let rest = &layer.bytes[span.end..end.min(span.end + PEM_BYTES_MAX)];
    let inside = |byte: &u8| byte.is_ascii_alphanumeric() || b"+/=:,-\\ \t\r\n".contains(byte);
    let body = rest
        .iter()
        .position(|byte| !inside(byte))
        .unwrap_or(rest.len());
    let Some(last) = memchr::memmem::find(&rest[..body], END) else {
        return span.end + body;
    };
    let tail = &rest[last + END.len()..];
    let close = memchr::memmem::find(&tail[..tail.len().min(64)], b"-----");
    span.end + last + END.len() + close.map_or(0, |close| close + 5)
}

/// For each rule the window that it waits to search.
struct Windows(Text);

impl Windows {
    fn take(rules: usize) -> Windows {
        let mut text = Text::take();
        text.windows.resize(rules, 0..0);
        Windows(text)
    }

    /// Adds a window of a rule. Windows that touch become one; one that does not sends the one before
    /// to be searched.
    fn add(&mut self, index: u16, window: Range<usize>) -> Option<Range<usize>> {
        let waiting = &mut self.0.windows[usize::from(index)];
        if waiting.start >= waiting.end {
            *waiting = window;
            self.0.opened.push(index);
            return None;
        }
        if window.start <= waiting.end {
            waiting.start = waiting.start.min(window.start);
            waiting.end = waiting.end.max(window.end);
            return None;
        }
        Some(std::mem::replace(waiting, window))
    }

    /// The next window that still waits.
    fn next(&mut self) -> Option<(u16, Range<usize>)> {
        let index = self.0.opened.pop()?;
        Some((
            index,
            std::mem::take(&mut self.0.windows[usize::from(index)]),
        ))
    }
}
