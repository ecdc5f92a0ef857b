//! What the engine answers: where something was found, what to do about it, and the text without it.
//!
//! Nothing here holds or prints what matched.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use base::limit::FINDINGS_MAX;

use crate::chain::Link;
use crate::rule::{Action, Class, Rule};

/// One place where a rule matched.
#[derive(Clone, Debug)]
pub struct Finding {
    pub rule: &'static Rule,
    pub action: Action,
    /// The field path, such as `params.arguments.text`.
    pub path: String,
    /// Bytes of the original input.
    pub span: Range<usize>,
    /// What was undone to see it: empty, `base64`, `base32`, `hex`, `percent`, `escape`, `entity`,
    /// `spaced`, `split`, `leetspeak`, `fullwidth`, `confusable`, `invisible`.
    pub disguise: &'static str,
    /// Keyed hash of what matched, so that two findings of one secret can be joined.
    pub fingerprint: u64,
    /// It is quoted in a text about such things, and at most warned of.
    pub mention: bool,
    /// Why the operator lets it pass, where they do.
    pub exempt: Option<String>,
}

/// What a scan found.
#[derive(Clone, Debug)]
pub struct Report {
    /// In the order of the input; at most [`base::limit::FINDINGS_MAX`].
    pub findings: Vec<Finding>,
    /// The strongest action of all findings; [`Action::Off`] when clean.
    pub action: Action,
    /// Whether nothing was found, not even what the settings leave alone here.
    pub found_nothing: bool,
    /// The chains of calls that this call completes, whatever is done about them.
    pub links: Vec<Link>,
    /// All that has to be replaced, also beyond the findings that are kept.
    pub(crate) redactions: Vec<Redaction>,
    /// What else is private: secrets and personal data that are refused, or only warned of.
    pub(crate) private: Vec<Redaction>,
}

/// A span to replace.
#[derive(Clone, Debug)]
pub(crate) struct Redaction {
    pub(crate) span: Range<usize>,
    pub(crate) rule: &'static str,
    /// The span is a JSON number, so that its replacement needs quotes.
    pub(crate) quoted: bool,
}

impl Report {
    /// The report of a text in which nothing was found.
    pub fn clean() -> Report {
        Report {
            findings: Vec::new(),
            action: Action::Off,
            found_nothing: true,
            links: Vec::new(),
            redactions: Vec::new(),
            private: Vec::new(),
        }
    }

    /// Adds the findings of another report of the same input.
    pub(crate) fn add_all(&mut self, other: Report) {
        self.action = self.action.max(other.action);
        self.found_nothing &= other.found_nothing;
        self.links.extend(other.links);
        for finding in other.findings {
            self.note(finding);
        }
        self.redactions.extend(other.redactions);
        self.redactions
            .sort_by_key(|redaction| redaction.span.start);
        self.private.extend(other.private);
    }

    /// Adds what another report found in a part of the input and this one did not.
    pub(crate) fn add_new(&mut self, other: Report) {
        self.action = self.action.max(other.action);
        self.found_nothing &= other.found_nothing;
        self.links.extend(other.links);
        for finding in other.findings {
            let same = |known: &Finding| {
                known.rule.id == finding.rule.id && known.fingerprint == finding.fingerprint
            };
            if !self.findings.iter().any(same) {
                self.note(finding);
            }
        }
    }

    /// Adds a finding, once for its rule and place. Where there is no room, a graver one takes the place of
    /// the last: whatever the report asks for, a finding says why.
    pub(crate) fn note(&mut self, finding: Finding) {
        self.action = self.action.max(finding.action);
        self.found_nothing = false;
        let known = |known: &Finding| {
            known.rule.id == finding.rule.id
                && known.path == finding.path
                && known.span == finding.span
                && known.action >= finding.action
        };
        if self.findings.iter().any(known) {
            return;
        }
        if self.findings.len() == FINDINGS_MAX {
            let strongest = self.findings.iter().map(|f| f.action).max();
            if strongest >= Some(finding.action) {
                return;
            }
            self.findings.pop();
        }
        self.findings.push(finding);
    }

    /// The text is of somebody who may give orders: an order in it is recorded, and no more is done about it.
    pub fn may_order(&mut self) {
        // Where there was no room for all findings, nobody knows what the others ask for.
        if self.findings.len() >= FINDINGS_MAX || !self.links.is_empty() {
            return;
        }
        let is_order = |finding: &Finding| finding.rule.class == Class::Injection;
        if !self
            .findings
            .iter()
            .any(|finding| is_order(finding) && finding.action > Action::Warn)
        {
            return;
        }
        let orders: Vec<Range<usize>> = self
            .findings
            .iter()
            .filter(|finding| is_order(finding))
            .map(|finding| finding.span.clone())
            .collect();
        self.redactions.retain(|redaction| {
            let is_order = crate::patterns::rule(redaction.rule)
                .is_some_and(|rule| rule.class == Class::Injection);
            !(is_order && orders.contains(&redaction.span))
        });
        for finding in self.findings.iter_mut().filter(|finding| is_order(finding)) {
            finding.action = finding.action.min(Action::Warn);
        }
        let strongest = self.findings.iter().map(|finding| finding.action).max();
        self.action = strongest.unwrap_or(Action::Off);
    }

    /// The input with every span of a [`Action::Redact`] finding replaced by `[redacted:<rule id>]`.
    /// `input` is what was scanned. JSON stays valid JSON; a span that was found in decoded data takes
    /// the whole encoded run with it.
    pub fn redacted(&self, input: &[u8]) -> Vec<u8> {
        replaced(input, self.redactions.iter())
    }

    /// The input as it may be kept and shown: as [`Report::redacted`], and without the secrets and the personal data of
    /// all other findings, whatever is done about them.
    pub fn masked<'i>(&self, input: &'i [u8]) -> Cow<'i, [u8]> {
        if self.redactions.is_empty() && self.private.is_empty() {
            return Cow::Borrowed(input);
        }
        let mut all: Vec<&Redaction> = self.redactions.iter().chain(&self.private).collect();
        all.sort_by_key(|redaction| redaction.span.start);
        Cow::Owned(replaced(input, all.into_iter()))
    }
}

/// The input with these spans replaced, which stand in its order.
fn replaced<'r>(input: &[u8], redactions: impl Iterator<Item = &'r Redaction>) -> Vec<u8> {
    let mut output = Vec::with_capacity(input.len());
    let mut done = 0;
    for redaction in redactions {
        let Range { start, end } = redaction.span;
        if start >= done && end <= input.len() {
            output.extend_from_slice(&input[done..start]);
            let quote = if redaction.quoted { "\"" } else { "" };
            output.extend_from_slice(quote.as_bytes());
            output.extend_from_slice(b"[redacted:");
            output.extend_from_slice(redaction.rule.as_bytes());
            output.push(b']');
            output.extend_from_slice(quote.as_bytes());
        }
        // What overlaps an earlier span goes with it.
        done = done.max(end.min(input.len()));
    }
    output.extend_from_slice(&input[done..]);
    output
}

/// A bound of the engine that the input reached: it was not wholly scanned and must not pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound(pub &'static str);

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Bound {}
