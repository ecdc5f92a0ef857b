//! One search of one input: through its text, and through all that can be made of its text.
//!
//! Windows of one rule that touch are searched as one, so that no text makes a rule read its bytes more
//! than a few times. All work is counted, and the count is bounded by the size of the text.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::Range;

use base::limit::{
    FINDINGS_MAX, SCAN_DEPTH_MAX, SCAN_INFLATED_BYTES_MAX, SCAN_REDACTIONS_MAX,
    SCAN_WORK_BYTES_MIN, SCAN_WORK_PER_BYTE_MAX,
};
use regex_automata::Anchored;

use crate::decode::unescaped;
use crate::engine::Engine;
use crate::entropy::entropy;
use crate::found::{Found, tells, trace};
use crate::fragments::Fragments;
use crate::layer::{Layer, Text};
use crate::openers::{Candidate, Opened};
use crate::phrase::parts;
use crate::place::Place;
use crate::report::Bound;
use crate::rule::{Class, Direction, Rule};
use crate::set::{Matcher, Opener};
use crate::stretches::{ROW_BYTES_MIN, run_in};
use crate::windows::{Window, Windows};
use crate::{
    check, context, decode, fold, joined, patterns, pem, phrase, placeholder, runs, unpack,
};

/// What is in more layers than are undone may hide anything.
const TOO_DEEP: Bound = Bound("the text is encoded in more layers than the scan undoes");
/// Fewest digits that open a rule of digits: the shortest card number.
const DIGITS_MIN: usize = ROW_BYTES_MIN;
/// Fewest characters of Base58 that open a rule: the shortest address of Bitcoin.
const BASE58_MIN: usize = 26;
/// What one checksum of a phrase counts as, in bytes read.
const PHRASE_WORK_BYTES: usize = 16;
/// Strings from a name to its value: `"name": "A_KEY", "type": "text", "value": "…"`.
const NAMED_STRINGS: usize = 4;
/// Lengths of a random token that is hidden in an encoding.
const HIDDEN_BYTES: Range<usize> = 32..129;
/// Bits for each byte of such a token.
const HIDDEN_ENTROPY_MIN: f32 = 4.2;
/// Findings of a rule in what one run decodes to that is put together of more parts than these: each of them stands for
/// all of the parts.
const HIDDEN_FINDINGS_MAX: usize = 8;
const HIDDEN_PARTS_MAX: usize = 64;

/// One search of one input.
pub(crate) struct Search<'e> {
    engine: &'e Engine,
    pub(crate) place: Place<'e>,
    /// It is the parameters of a call of a tool.
    pub(crate) is_call: bool,
    pub(crate) found: Vec<Found>,
    /// The rule of the last block found in this view, and where the block ends.
    block: Option<(u16, usize)>,
    /// Bytes that may still be read, over all views and rules.
    pub(crate) work_left: usize,
    /// Bytes that may still come out of compressed data.
    inflate_left: usize,
    /// Findings of each rule in what one run of the text decodes to, the mentions apart.
    hidden: HashMap<(&'static str, bool), usize>,
    /// Parts of that run, once anything was found in it.
    hidden_parts: usize,
}

/// Which part of a view is searched.
#[derive(Clone, Copy, PartialEq)]
enum Reach {
    All,
    /// Only what goes over the seam of two strings.
    Seams,
}

impl<'e> Search<'e> {
    pub(crate) fn new(engine: &'e Engine, place: Place<'e>, bytes: usize) -> Search<'e> {
        Search {
            engine,
            place,
            is_call: false,
            found: Vec::new(),
            block: None,
            work_left: bytes
                .saturating_mul(SCAN_WORK_PER_BYTE_MAX)
                .max(SCAN_WORK_BYTES_MIN),
            inflate_left: SCAN_INFLATED_BYTES_MAX,
            hidden: HashMap::new(),
            hidden_parts: 0,
        }
    }

    fn work(&mut self, bytes: usize) -> Result<(), Bound> {
        let left = self.work_left.checked_sub(bytes);
        self.work_left = left.ok_or(Bound("the text asks for more work than its size may cost"))?;
        Ok(())
    }

    /// Searches the input itself.
    pub(crate) fn root(&mut self, layer: &Layer<'_>) -> Result<(), Bound> {
        if runs::is_ascii(layer.bytes) {
            return self.whole(layer);
        }
        let mut text = Text::take();
        self.work(layer.bytes.len())?;
        fold::fold(layer, &mut text);
        let result = self.whole(&Layer::view(&text, "", Some(layer)));
        text.give();
        result
    }

    /// Searches the input as it is, and what it unpacks to where it is no text.
    pub(crate) fn body(&mut self, layer: &Layer<'_>) -> Result<(), Bound> {
        self.root(layer)?;
        if unpack::packed(layer.bytes) {
            self.decoded(layer, 0..layer.bytes.len(), layer.bytes, "unpacked", 0)?;
        }
        Ok(())
    }

    /// Searches a view, and its strings put together.
    fn whole(&mut self, layer: &Layer<'_>) -> Result<(), Bound> {
        self.view(layer, 0)?;
        joined::each(layer, self.is_call, |text| self.joined(layer, text))
    }

    /// Searches strings that were put together.
    fn joined(&mut self, layer: &Layer<'_>, text: &Text) -> Result<(), Bound> {
        let view = Layer::view(text, "split", Some(layer));
        let before = self.found.len();
        self.work(view.bytes.len())?;
        self.search(&view, Reach::Seams)?;
        self.unescaped(&view, 0)?;
        self.decoded_parts(&view, 0)?;
        // A secret that fills a string is whole: what stands in the strings around it makes it no other one.
        let mut split = self.found.split_off(before);
        let is_whole = |known: &Found, found: &Found| {
            known.rule.id == found.rule.id && found.parts.contains(&known.span())
        };
        split.retain(|found| {
            let mut known = self.found.iter().rev().take(FINDINGS_MAX);
            found.parts.len() == 1 || !known.any(|known| is_whole(known, found))
        });
        self.found.append(&mut split);
        Ok(())
    }

    /// Searches what was kept of calls before, together with what goes on from it.
    pub(crate) fn fragments(
        &mut self,
        layer: &Layer<'_>,
        fragments: &mut Fragments,
        now_ms: u64,
    ) -> Result<(), Bound> {
        fragments.next((layer, self.is_call), now_ms, |text, both, place| {
            let whole = 0..both.len();
            let source = Layer::plain(both, std::slice::from_ref(&whole));
            let view = Layer::view(text, "split", Some(&source));
            let before = self.found.len();
            self.work(view.bytes.len())?;
            self.search(&view, Reach::Seams)?;
            self.decoded_parts(&view, 0)?;
            // What is in this call alone was found in it.
            let mut split = self.found.split_off(before);
            split.retain(|found| found.parts.len() > 1);
            if let Some(seam) = split.iter().map(|found| found.parts[0].end).max() {
                // What was whole before was found then: more text behind it makes it no new one.
                let before = self.alone(&both[..seam])?;
                let same = |found: &Found, known: &Found| {
                    let (found_at, known_at) = (found.span(), known.span());
                    let apart = known_at.end <= found_at.start || found_at.end <= known_at.start;
                    known.rule.id == found.rule.id && !apart
                };
                split.retain(|found| !before.iter().any(|known| same(found, known)));
            }
            for found in &mut split {
                // Of the match only what is in this call has a place in it: the argument that ends it.
                found.parts = vec![layer.source(&place)];
                found.disguise = "split over calls";
            }
            self.found.append(&mut split);
            Ok(())
        })
    }

    /// What is found in a text by itself.
    fn alone(&self, text: &[u8]) -> Result<Vec<Found>, Bound> {
        let whole = 0..text.len();
        let mut search = Search::new(self.engine, self.place, text.len());
        search.view(&Layer::plain(text, std::slice::from_ref(&whole)), 0)?;
        Ok(search.found)
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
        self.search(layer, Reach::All)?;
        // Half of a word may be folded to another script, so that its escapes are undone before, too.
        if let Some(before) = layer.parent.filter(|_| layer.name.is_empty()) {
            self.unescaped(before, depth)?;
        }
        self.unescaped(layer, depth)?;
        self.decoded_parts(layer, depth)
    }

    /// Looks among the words around escapes, with those undone.
    fn unescaped(&mut self, layer: &Layer<'_>, depth: usize) -> Result<(), Bound> {
        let mut text = Text::take();
        unescaped::fill(layer, &mut text);
        let view = Layer::view(&text, "escape", Some(layer));
        let result = match (view.bytes.is_empty(), depth) {
            (true, _) => Ok(()),
            (_, SCAN_DEPTH_MAX) => Err(TOO_DEEP),
            _ if runs::is_ascii(view.bytes) => self.view(&view, depth + 1),
            _ => self.folded(&view, depth + 1),
        };
        text.give();
        result
    }

    fn search(&mut self, layer: &Layer<'_>, reach: Reach) -> Result<(), Bound> {
        let mut scratch = Scratch::take(self.engine.set.matchers.len());
        let result = self.search_with(layer, reach, &mut scratch);
        scratch.give();
        result
    }

    fn search_with(
        &mut self,
        layer: &Layer<'_>,
        reach: Reach,
        scratch: &mut Scratch,
    ) -> Result<(), Bound> {
        self.block = None;
        let engine = self.engine;
        let direction = self.place.direction;
        let Scratch { opened, windows } = scratch;
        engine
            .set
            .candidates(layer.bytes, direction, opened, |candidate| {
                let index = candidate.matcher;
                let Some(window) = self.window(layer, &candidate, reach) else {
                    return Ok(());
                };
                let ready = match candidate.anchored {
                    true => windows.add_anchored(index, window),
                    false => windows.add(index, window),
                };
                ready.map_or(Ok(()), |ready| self.matches(layer, index, ready, windows))
            })?;
        self.waiting(layer, windows)?;
        self.runs(layer, reach, windows, Opener::Digits, digits)?;
        self.runs(layer, reach, windows, Opener::Base58, base58)?;
        self.phrases(layer, reach)?;
        self.values(layer, reach)
    }

    /// Searches the windows that still wait. What opens rules next begins at the start of the text again.
    fn waiting(&mut self, layer: &Layer<'_>, windows: &mut Windows) -> Result<(), Bound> {
        while let Some((index, window)) = windows.next() {
            self.matches(layer, index, window, windows)?;
        }
        Ok(())
    }

    /// Opens rules where a run of what opens them is, and as far around it as a match may begin.
    fn runs(
        &mut self,
        layer: &Layer<'_>,
        reach: Reach,
        windows: &mut Windows,
        opener: Opener,
        next: impl Fn(&Layer<'_>, usize) -> Option<Range<usize>>,
    ) -> Result<(), Bound> {
        let (set, direction) = (&self.engine.set, self.place.direction);
        if set.opened(opener, direction).next().is_none() {
            return Ok(());
        }
        let mut at = 0;
        while let Some(run) = next(layer, at) {
            at = run.end;
            if reach == Reach::Seams && !layer.crosses_seam(&run) {
                continue;
            }
            for index in set.opened(opener, direction) {
                let matcher = &set.matchers[usize::from(index)];
                let around = matcher.rule.before;
                let end = run.end.saturating_add(around).min(layer.bytes.len());
                let base = start_of_string(layer, run.start);
                let ready = match matcher.is_run() {
                    false => windows.add(index, run.start.saturating_sub(around)..end),
                    true if matcher.may_begin(&layer.bytes[base..], run.start - base) => {
                        windows.add_anchored(index, run.clone())
                    }
                    true => None,
                };
                if let Some(ready) = ready {
                    self.matches(layer, index, ready, windows)?;
                }
            }
        }
        self.waiting(layer, windows)
    }

    /// Finds seed phrases. Of one that stands in several strings, each string's part is a finding.
    fn phrases(&mut self, layer: &Layer<'_>, reach: Reach) -> Result<(), Bound> {
        let set = &self.engine.set;
        for index in set.opened(Opener::Phrase, self.place.direction) {
            let rule = set.matchers[usize::from(index)].rule;
            let (mut at, mut tried) = (0, 0);
            while let Some(span) = phrase::next(layer.bytes, at, &mut tried) {
                at = span.end;
                if reach == Reach::Seams && !layer.crosses_seam(&span) {
                    continue;
                }
                let incoming = self.place.direction != Direction::Outgoing;
                if incoming && phrase::printed(&layer.bytes[span.clone()]) {
                    continue;
                }
                let first = layer.strings.partition_point(|s| s.end <= span.start);
                for string in layer.strings[first..]
                    .iter()
                    .take_while(|s| s.start < span.end)
                {
                    let part = string.start.max(span.start)..string.end.min(span.end);
                    if !part.is_empty() {
                        self.found(layer, rule, part)?;
                    }
                }
            }
            self.work(tried * PHRASE_WORK_BYTES)?;
        }
        Ok(())
    }

    /// Finds seed phrases of which each word is a string of its own.
    pub(crate) fn phrase_in_parts(&mut self, layer: &Layer<'_>) -> Result<(), Bound> {
        let short = |string: &&Range<usize>| parts::may_be_word(string.len());
        if layer.strings.iter().filter(short).count() < parts::PARTS_MIN {
            return Ok(());
        }
        let set = &self.engine.set;
        let mut opened = set.opened(Opener::Phrase, self.place.direction);
        let Some(index) = opened.next() else {
            return Ok(());
        };
        let rule = set.matchers[usize::from(index)].rule;
        let values = joined::values_of(layer);
        let words = values.iter();
        let words = words.map(|(name, value)| (*name, &layer.bytes[value.clone()]));
        let words: Vec<(&[u8], &[u8])> = words.collect();
        let mut tried = 0;
        let runs = parts::runs(&words, &mut tried);
        self.work(tried * PHRASE_WORK_BYTES)?;
        for run in runs {
            let parts = values[run.clone()].iter();
            let parts: Vec<Range<usize>> = parts.map(|(_, value)| layer.source(value)).collect();
            let whole = parts[0].start..parts[parts.len() - 1].end;
            let known = |found: &Found| {
                let span = found.span();
                found.rule.id == rule.id && whole.start <= span.start && span.end <= whole.end
            };
            if !self.found.iter().any(known) {
                let text: Vec<&[u8]> = words[run].iter().map(|(_, word)| *word).collect();
                self.found.push(Found {
                    rule,
                    parts,
                    disguise: "split",
                    fingerprint: self.engine.fingerprint(&text.join(&b' ')),
                    bare: false,
                    mention: false,
                });
            }
        }
        Ok(())
    }

    /// Looks for the operator's own values.
    fn values(&mut self, layer: &Layer<'_>, reach: Reach) -> Result<(), Bound> {
        let Some(values) = &self.engine.values else {
            return Ok(());
        };
        self.work(layer.bytes.len())?;
        for (rule, span) in values.find(layer.bytes) {
            let whole = reach == Reach::Seams && !layer.crosses_seam(&span);
            if !whole && self.engine.settings.looks_for(rule, self.place.direction) {
                self.found(layer, rule, span)?;
            }
        }
        Ok(())
    }

    /// The part of a candidate's window that is searched: what is in the string of its word.
    fn window(
        &self,
        layer: &Layer<'_>,
        candidate: &Candidate,
        reach: Reach,
    ) -> Option<Range<usize>> {
        let rule = self.engine.set.matchers[usize::from(candidate.matcher)].rule;
        let (string, mut bounds) = layer.string(candidate.place)?;
        let on = match (rule.named, rule.pair) {
            (true, _) => NAMED_STRINGS,
            (_, true) => 1,
            _ => 0,
        };
        if on > 0 {
            bounds.end = layer
                .strings
                .get(string + on)
                .map_or(layer.bytes.len(), |next| next.end);
        }
        let window = &candidate.window;
        let window = window.start.max(bounds.start)..window.end.min(bounds.end);
        let reads = match reach {
            Reach::All => true,
            Reach::Seams => layer.crosses_seam(&window),
        };
        reads.then_some(window)
    }

    /// Runs an expression over a window.
    fn matches(
        &mut self,
        layer: &Layer<'_>,
        index: u16,
        window: Window,
        windows: &mut Windows,
    ) -> Result<(), Bound> {
        let Window { span, anchored } = window;
        // A window that starts inside a block that was found is part of it.
        let block = self.block.filter(|(rule, _)| *rule == index);
        let done = windows.done(index);
        let from = block.map_or(*done, |(_, end)| end.max(*done));
        // What begins inside a match is part of it too.
        if anchored && from > span.start || from >= span.end {
            return Ok(());
        }
        let span = span.start.max(from)..span.end;
        self.work(span.len())?;
        let anchored = match anchored {
            true => Anchored::Yes,
            false => Anchored::No,
        };
        if let Some(end) = self.search_window(layer, index, span, anchored)? {
            *done = end;
        }
        Ok(())
    }

    /// Finds the matches of an expression in a window; answers where the last one ends, if there is any.
    fn search_window(
        &mut self,
        layer: &Layer<'_>,
        index: u16,
        part: Range<usize>,
        anchored: Anchored,
    ) -> Result<Option<usize>, Bound> {
        let set = &self.engine.set;
        let matcher = &set.matchers[usize::from(index)];
        let base = start_of_string(layer, part.start);
        let text = &layer.bytes[base..end_of_string(layer, part.end)];
        let (mut from, mut last) = (part.start, None);
        while from < part.end {
            let found = set.find(index, text, from - base..part.end - base, anchored);
            let Some((whole, group)) = found else {
                break;
            };
            let group = base + group.start..base + group.end;
            let span = self.accept(layer, index, matcher, group)?;
            from = (base + whole.end).max(span.end).max(from + 1);
            last = Some(from);
            if anchored == Anchored::Yes {
                break;
            }
        }
        Ok(last)
    }

    /// Checks one match, and keeps it; answers what it covers.
    fn accept(
        &mut self,
        layer: &Layer<'_>,
        index: u16,
        matcher: &Matcher,
        mut span: Range<usize>,
    ) -> Result<Range<usize>, Bound> {
        let rule = matcher.rule;
        if let Some((_, string)) = layer.string(span.start) {
            span.end = span.end.min(string.end);
        }
        let text = &layer.bytes[span.clone()];
        let example = rule.class == Class::Secret
            && self.place.direction != Direction::Outgoing
            && !rule.digits
            && placeholder::placeholder(text);
        let public = match rule.class {
            Class::Secret => {
                placeholder::standard(text)
                    || context::fingerprint(&layer.bytes[..span.start], text)
                    || context::index(&layer.bytes[..span.start], text)
            }
            // Whoever sends a card may put other numbers beside it.
            _ => {
                rule.digits
                    && self.place.direction != Direction::Outgoing
                    && (placeholder::sample(text) || context::table(layer.bytes, &span))
            }
        };
        if rule.check.passes(text) && !example && !public {
            if rule.block {
                let end = pem::end(layer, &span);
                self.work(end - span.start)?;
                if !pem::is_key(layer.bytes, span.end..end, self.place.direction) {
                    span.end = end;
                    return Ok(span);
                }
                span.end = end;
                self.block = Some((index, span.end));
            }
            self.found(layer, rule, span.clone())?;
        }
        Ok(span)
    }

    fn found(
        &mut self,
        layer: &Layer<'_>,
        rule: &'static Rule,
        span: Range<usize>,
    ) -> Result<(), Bound> {
        let text = &layer.bytes[span.clone()];
        let fingerprint = self.engine.fingerprint(text);
        let mention = rule.class == Class::Injection && tells(rule, layer, &span);
        if layer.is_decoded() {
            let hidden = self.hidden.entry((rule.id, mention)).or_default();
            *hidden += 1;
            if *hidden > HIDDEN_FINDINGS_MAX && self.hidden_parts > HIDDEN_PARTS_MAX {
                return Ok(());
            }
        }
        let trace = trace(layer, rule, span);
        self.hidden_parts = trace.parts.len();
        let whole = trace.parts[0].start..trace.parts[trace.parts.len() - 1].end;
        let same = |found: &Found| {
            let other = found.span();
            found.rule.id == rule.id
                && whole.start <= other.start
                && other.end <= whole.end
                && (found.fingerprint == fingerprint || rule.class != Class::Secret)
        };
        // A run may open a rule where a word did, too.
        let again = layer.parent.is_some() || rule.digits || rule.base58;
        if again && self.found.iter().rev().take(FINDINGS_MAX).any(same) {
            return Ok(());
        }
        if self.found.len() == SCAN_REDACTIONS_MAX {
            return Err(Bound("the text has more findings than a report may have"));
        }
        self.found.push(Found {
            rule,
            parts: trace.parts,
            disguise: trace.disguise,
            fingerprint,
            bare: trace.bare,
            mention,
        });
        Ok(())
    }

    /// Undoes all encodings of a view, and looks there.
    fn decoded_parts(&mut self, layer: &Layer<'_>, depth: usize) -> Result<(), Bound> {
        for decoder in decode::ALL {
            let mut at = 0;
            while let Some(run) = (decoder.next)(layer, at) {
                at = run.end.max(at + 1);
                self.work(run.len())?;
                let mut result = Ok(());
                (decoder.decode)(&layer.bytes[run.clone()], &mut |text, name| {
                    if result.is_ok() {
                        result = self.decoded(layer, run.clone(), text, name, depth);
                    }
                })?;
                result?;
            }
        }
        Ok(())
    }

    /// Looks in what a run decoded to.
    fn decoded(
        &mut self,
        layer: &Layer<'_>,
        run: Range<usize>,
        decoded: &[u8],
        name: &'static str,
        depth: usize,
    ) -> Result<(), Bound> {
        if !layer.is_decoded() {
            self.hidden.clear();
            self.hidden_parts = 0;
        }
        let mut text = Text::take();
        let before = self.inflate_left;
        unpack::unpack(decoded, &mut text.bytes, &mut self.inflate_left)?;
        self.work_left = self.work_left.saturating_add(before - self.inflate_left);
        let mut result = Ok(());
        if !text.bytes.is_empty() {
            self.work(text.bytes.len())?;
            if depth == SCAN_DEPTH_MAX {
                result = Err(TOO_DEEP);
            } else {
                let encoded =
                    matches!(name, "hex" | "base32" | "base64") && !unpack::packed(decoded);
                if encoded
                    && self.place.direction == Direction::Outgoing
                    && hidden_token(&text.bytes)
                {
                    let rule = patterns::rule("encoded_token").expect("it is in our list");
                    self.found(layer, rule, run.clone())?;
                }
                if name == "base64"
                    && let Some(end) = context::bot_token(&text.bytes, &layer.bytes[run.end..])
                {
                    let rule = patterns::rule("discord_token").expect("it is in our list");
                    self.found(layer, rule, run.start..run.end + end)?;
                }
                text.whole(run);
                let decoded = Layer::view(&text, name, Some(layer));
                result = match runs::is_ascii(decoded.bytes) {
                    true => self.view(&decoded, depth + 1),
                    false => self.folded(&decoded, depth + 1),
                };
            }
        }
        text.give();
        result
    }
}

/// What an anchor of an expression means by a start: that of a string, not of its document.
fn start_of_string(layer: &Layer<'_>, at: usize) -> usize {
    layer.string(at).map_or(0, |(_, string)| string.start)
}

/// What it means by an end, for a part that ends there.
fn end_of_string(layer: &Layer<'_>, at: usize) -> usize {
    let last = layer.string(at.saturating_sub(1));
    last.map_or(layer.bytes.len(), |(_, string)| string.end)
}

/// The next run of digits that opens a rule: code is indented by spaces alone.
fn digits(layer: &Layer<'_>, mut at: usize) -> Option<Range<usize>> {
    let class = |byte| matches!(byte, b'0'..=b'9' | b' ' | b'-' | b'+');
    let rows = &layer.stretches().rows;
    loop {
        let run = run_in(rows, (layer.bytes, at), DIGITS_MIN, class)?;
        if layer.bytes[run.clone()].iter().any(u8::is_ascii_digit) {
            return Some(run);
        }
        at = run.end;
    }
}

/// The next run of Base58 that opens a rule.
fn base58(layer: &Layer<'_>, at: usize) -> Option<Range<usize>> {
    let words = &layer.stretches().words;
    run_in(
        words,
        (layer.bytes, at),
        BASE58_MIN,
        check::base58::is_digit,
    )
}

/// Whether what was decoded is one random token: nobody encodes one who has nothing to hide.
fn hidden_token(decoded: &[u8]) -> bool {
    let inside = |byte: &u8| byte.is_ascii_alphanumeric() || b"+/=_-.~".contains(byte);
    decoded.split(|byte| *byte == b'\n').any(|line| {
        let words = line.split(|byte| !inside(byte));
        let word = words.max_by_key(|word| word.len()).unwrap_or_default();
        let has = |test: fn(&u8) -> bool| word.iter().any(test);
        HIDDEN_BYTES.contains(&word.len())
            && word.len() * 5 >= line.len() * 4
            && has(u8::is_ascii_uppercase)
            && has(u8::is_ascii_lowercase)
            && has(u8::is_ascii_digit)
            && entropy(word) >= HIDDEN_ENTROPY_MIN
    })
}

/// What a search needs beside its text. Taken from and given back to the thread.
#[derive(Default)]
struct Scratch {
    opened: Opened,
    windows: Windows,
}

thread_local! {
    static KEPT: RefCell<Vec<Scratch>> = const { RefCell::new(Vec::new()) };
}

impl Scratch {
    fn take(rules: usize) -> Scratch {
        let mut scratch: Scratch = KEPT.with_borrow_mut(Vec::pop).unwrap_or_default();
        scratch.windows.of(rules);
        scratch
    }

    fn give(mut self) {
        while self.windows.next().is_some() {}
        KEPT.with_borrow_mut(|kept| {
            if kept.len() <= SCAN_DEPTH_MAX {
                kept.push(self);
            }
        });
    }
}
