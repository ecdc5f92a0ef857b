//! Is it safe: the scan of what the agent sends.

use base::record::Finding;
use base::{Digest, Refusal, ScanAs, refusal};
use scan::{Class, Direction, Pending, Place as ScanPlace, Report, Session, Sighting, TextMark};
use sha2::{Digest as _, Sha256};

use crate::admit::Permitted;
use crate::call::{ContentPart, PartContent, Repeat, Role};
use crate::judge::Case;
use crate::pinned::Approved;
use crate::trail::to_record;

/// Bytes of parts whose ends are read again together with what is new: more than a secret that is split has.
const ENDS_BYTES: usize = 4 * base::limit::SCAN_FRAGMENT_BYTES_MAX;

/// The proof that what the agent sends was scanned, with what is to be sent in its place.
pub struct Scanned {
    pub(crate) permitted: Permitted,
    pub(crate) redacted: Redacted,
    /// What is remembered of the call if it passes.
    pub(crate) pending: Option<Pending>,
    /// SHA-256 of the content and what was found in it, where the call may be repeated.
    pub(crate) content: Option<(Digest, Vec<Finding>)>,
}

/// What is to be sent in the place of parts of a call, by the number of the part.
pub(crate) type Redacted = Vec<(usize, Vec<u8>)>;

impl Case<'_> {
    /// Scans all parts of the call.
    ///
    /// # Errors
    /// The refusal of the first finding that asks for one, and `scan.bound`.
    pub fn inspect(&mut self, approved: Approved) -> Result<Scanned, Refusal> {
        let Approved { permitted } = approved;
        if self.call.content.is_empty() || !self.call.action.lane.is_scanned {
            return Ok(Scanned {
                permitted,
                redacted: Vec::new(),
                pending: None,
                content: self.evidence(),
            });
        }
        let agent = permitted.principal.name.clone();
        let mono_ms = self.now.mono_ms;
        let gate = self.gate;
        // Whatever refuses the call from here on drops `pending`, and with it what is remembered of the call.
        let (reports, pending) = gate.sessions.judge(agent.as_str(), mono_ms, |session| {
            self.scan_parts(agent.as_str(), session)
        });
        let reports = match reports.map_err(too_much) {
            Ok(reports) => reports,
            Err(refusal) => {
                self.objects(refusal)?;
                Vec::new()
            }
        };
        let is_scanned = reports.len() == self.call.content.len();
        let found = reports.iter().flat_map(|report| &report.findings);
        self.trail.found(found.map(to_record).collect());
        self.trail
            .scanned(is_scanned && reports.iter().all(|report| report.found_nothing));
        let mut redacted = Vec::new();
        for (number, (report, part)) in reports.iter().zip(self.call.content).enumerate() {
            match report.action {
                scan::Action::Refuse => self.objects(refuse(report))?,
                // Another URL would be another call, and what is observed goes on as it is.
                scan::Action::Redact
                    if self.call.observes || matches!(part.content, PartContent::Url(_)) =>
                {
                    self.objects(refuse_by(report, scan::Action::Redact))?;
                }
                scan::Action::Redact => {
                    redacted.push((number, report.redacted(part.content.bytes())))
                }
                scan::Action::Warn | scan::Action::Off => {}
            }
        }
        // The arguments stand in the first part.
        let params = redacted.first().filter(|(number, _)| *number == 0);
        if let (Some((_, params)), Some(_)) = (params, self.call.arguments) {
            self.admit_redacted(&permitted, params)?;
        }
        Ok(Scanned {
            permitted,
            redacted,
            pending: Some(pending),
            content: self.evidence(),
        })
    }

    /// What shows later that the same content was scanned, and what was found in it.
    fn evidence(&self) -> Option<(Digest, Vec<Finding>)> {
        match self.call.repeat {
            Repeat::No => None,
            Repeat::Maybe => Some((self.content_digest(), self.trail.findings().to_vec())),
        }
    }

    /// Scans the parts. Of a conversation the first parts that were scanned before, one after another, are not scanned again but for
    /// their ends: something may be split over them and what is new.
    fn scan_parts(&self, agent: &str, session: &mut Session) -> Result<Vec<Report>, scan::Bound> {
        let content = self.call.content;
        if self.call.action.scan_as != ScanAs::Message || content.len() < 2 {
            let reports = content
                .iter()
                .map(|part| self.scan_part(part, agent, session));
            return reports.collect();
        }
        let engine = &self.rules.engine;
        let mut marks: Vec<TextMark> = Vec::with_capacity(content.len());
        for part in content {
            let before = marks.last().copied().unwrap_or(TextMark::NONE);
            marks.push(engine.mark(before, &self.place(part, agent), part.content.bytes()));
        }
        let known = self.gate.known_texts.first_known(&marks);
        let ends_from = ends_from(&content[..known.len()]);
        let mut reports = Vec::with_capacity(content.len());
        for (i, part) in content.iter().enumerate() {
            let is_clean = known.get(i).copied().unwrap_or(false);
            reports.push(match (is_clean, i == 0 || i >= ends_from, part.content) {
                (false, _, _) => self.scan_part(part, agent, session)?,
                (true, true, PartContent::Json(json))
                    if part.role.direction() == Direction::Outgoing =>
                {
                    let session = (&mut *session, self.now.mono_ms);
                    engine.ends(self.place(part, agent), json, part.path, session)?
                }
                (true, _, _) => Report::clean(),
            });
        }
        let scanned = marks.into_iter().zip(&reports).skip(known.len());
        let scanned = scanned.map(|(mark, report)| (mark, report.found_nothing));
        self.gate.known_texts.note(scanned);
        Ok(reports)
    }

    /// Where a part stands.
    fn place<'p>(&'p self, part: &ContentPart<'_>, agent: &'p str) -> ScanPlace<'p> {
        ScanPlace {
            direction: part.role.direction(),
            lane: self.call.action.lane.name,
            target: self.call.resource.place(),
            agent,
            now_s: self.now.unix_ms / 1000,
        }
    }

    fn scan_part(
        &self,
        part: &ContentPart<'_>,
        agent: &str,
        session: &mut Session,
    ) -> Result<Report, scan::Bound> {
        let place = self.place(part, agent);
        let (engine, mono_ms) = (&self.rules.engine, self.now.mono_ms);
        let path = part.path;
        let report = match (part.content, place.direction, self.call.action.scan_as) {
            (PartContent::Text(text), _, _) => engine.bytes(place, text, path),
            // Fields are written by clients of their own accord: what the agent says does not go on from one request to the next in them.
            (PartContent::Json(json), Direction::Outgoing, _) if part.role == Role::Header => {
                engine.json(place, json, path)
            }
            (PartContent::Url(url), _, _) => engine.url(place, url, Some((session, mono_ms))),
            (PartContent::Json(json), Direction::Outgoing, ScanAs::ToolCall) => {
                engine.call(place, json, path, Some((session, mono_ms)))
            }
            (PartContent::Json(json), Direction::Outgoing, ScanAs::ResourceRead) => {
                engine.resource(place, json, path, Some((session, mono_ms)))
            }
            (PartContent::Json(json), Direction::Outgoing, ScanAs::Message) => {
                engine.outgoing(place, json, path, (session, mono_ms))
            }
            (PartContent::Json(json), _, _) => engine.json(place, json, path),
        };
        let mut report = report?;
        if matches!(part.role, Role::System | Role::User | Role::Assistant) {
            report.may_order();
        }
        Ok(report)
    }

    /// SHA-256 of all that the agent wrote.
    pub(crate) fn content_digest(&self) -> Digest {
        let mut hash = Sha256::new();
        for part in self.call.content {
            // The length first, so that no two lists of parts are the same bytes.
            let bytes = part.content.bytes();
            hash.update((bytes.len() as u64).to_be_bytes());
            hash.update(bytes);
        }
        Digest(hash.finalize().into())
    }
}

/// The first of the last parts that together are long enough to hold all ends that are read again.
fn ends_from(known: &[ContentPart<'_>]) -> usize {
    let mut bytes = 0;
    let outgoing = known.iter().enumerate().rev();
    let outgoing = outgoing.filter(|(_, part)| part.role.direction() == Direction::Outgoing);
    for (i, part) in outgoing {
        bytes += part.content.bytes().len();
        if bytes >= ENDS_BYTES {
            return i;
        }
    }
    0
}

/// The id of the first rule that asks for this.
pub(crate) fn rule_of(report: &Report, action: scan::Action) -> &'static str {
    first(report, action).map_or("", |(finding, _)| finding.rule.id)
}

/// The first finding that asks for this, told by the rule that says most of it, and at how many more places its rule asks.
fn first(report: &Report, action: scan::Action) -> Option<(&scan::Finding, usize)> {
    let asks = report.findings.iter().filter(|f| f.action == action);
    let asks: Vec<&scan::Finding> = asks.collect();
    let seen: Vec<Sighting<'_>> = asks.iter().map(|finding| (*finding).into()).collect();
    let told = scan::distinct(&seen);
    let finding = asks[told.first()?.told];
    let same = told
        .iter()
        .filter(|one| asks[one.told].rule.id == finding.rule.id);
    Some((finding, same.count().saturating_sub(1)))
}

/// The refusal for the first finding that asks for one. Says the rule and the place, never the text.
pub(crate) fn refuse(report: &Report) -> Refusal {
    refuse_by(report, scan::Action::Refuse)
}

/// The same for the first finding that asks for this action, where nothing less can be done.
pub(crate) fn refuse_by(report: &Report, action: scan::Action) -> Refusal {
    let Some((finding, more)) = first(report, action) else {
        base::never!("a report that refuses has no finding that does");
        return Refusal::new(refusal::FAILED, "the scan gave no reason");
    };
    let mut refusal = refuse_for(finding, &finding.path);
    if more > 0 {
        let places = if more == 1 { "place" } else { "places" };
        let what = format!("{} and at {more} more {places}", refusal.public);
        refusal = Refusal::new(refusal.code, what);
    }
    let links = &mut report.links.iter();
    match links.find(|link| link.rule == finding.rule.id) {
        Some(link) => {
            let (after, seconds) = (link.after, link.for_ms.div_ceil(1000));
            let (code, what) = (refusal.code, refusal.public);
            let what = format!("{what}: it follows {after}, which counts for {seconds} s more");
            Refusal::new(code, what).with_retry_ms(link.for_ms)
        }
        None => refusal,
    }
}

/// The refusal for a finding at this path.
pub(crate) fn refuse_for(finding: &scan::Finding, path: &str) -> Refusal {
    let (code, what) = match finding.rule.class {
        Class::Secret => (refusal::SECRET, "a secret"),
        Class::Injection => (refusal::INJECTION, "an injected instruction"),
        Class::Personal => (refusal::PERSONAL, "personal data"),
        Class::Command => (refusal::COMMAND, "a forbidden command"),
        Class::Url => (refusal::URL, "a forbidden address"),
        Class::Tool => (refusal::TOOL_CHANGED, "a tool that is not what it was"),
        Class::Chain => (refusal::CHAIN, "a chain of calls"),
    };
    Refusal::new(code, format!("{what} ({}) at {path}", finding.rule.id))
}

/// More than the scan's bounds allow is a refusal, never a part that was skipped.
pub(crate) fn too_much(bound: scan::Bound) -> Refusal {
    Refusal::new(
        refusal::SCAN_BOUND,
        format!("the scan reached its bound: {}", bound.0),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        let engine = scan::Engine::new(scan::Settings::default(), [1; 32]);
        let report = engine.text(Direction::Outgoing, text, "params.arguments.text");
        refuse(&report.expect("the text is short")).public
    }

    #[test]
    fn a_refusal_tells_a_secret_once_by_the_rule_that_knows_it() {
        let token = ["ghp_", "x8Kq2LmZ4tRv9WbN7cYd3FgH5jPs1AeU6oDi"].concat();
        let one = "a secret (github_token) at params.arguments.text";
        assert_eq!(refused(&format!("API_KEY={token}")), one);
        let twice = format!("API_KEY={token}\n and {token}");
        assert_eq!(refused(&twice), format!("{one} and at 1 more place"));
    }
}
