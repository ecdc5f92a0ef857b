//! What comes back: scanned message by message as it flows, under the judgement of the call it answers.

use base::limit::FINDINGS_MAX;
use base::record::Finding;
use base::refusal::{FAILED, SCAN_BOUND, SECRET};
use base::{Json, JsonValue, Refusal, ServerItem};
use scan::{Action, Bound, Direction, Document, Report, Sighting};

use crate::inspect::{refuse, refuse_by, rule_of, too_much};
use crate::passed::Passed;
use crate::pinned::Listed;
use crate::trail::to_record;

/// What may be passed on of one message.
#[derive(Debug, PartialEq, Eq)]
pub enum Answer {
    /// The bytes that came.
    AsItCame,
    /// These bytes in their place.
    Redacted(Vec<u8>),
}

impl Passed {
    /// Scans one JSON message of the answer. `root` is where it stands, for the findings' paths.
    pub fn answer(&mut self, json: JsonValue<'_>, root: &str) -> Result<Answer, Refusal> {
        self.message(Direction::Incoming, json, root)
            .map_err(Refusal::of_answer)
    }

    /// Scans one JSON message of a connection on which both sides speak, by the direction in which it goes.
    ///
    /// # Errors
    /// The refusal of a finding, and `scan.bound`.
    pub fn message(
        &mut self,
        direction: Direction,
        json: JsonValue<'_>,
        root: &str,
    ) -> Result<Answer, Refusal> {
        let json = Document::from(json);
        let report = match self.scan(direction, json, root) {
            Ok(report) => report,
            Err(bound) => {
                self.objects(too_much(bound))?;
                return Ok(Answer::AsItCame);
            }
        };
        match answer_of(&report, json.bytes()) {
            Ok((Answer::Redacted(_), _)) if self.observes() => {
                self.objects(refuse_by(&report, Action::Redact))?;
                Ok(Answer::AsItCame)
            }
            Ok((answer, _)) => Ok(answer),
            Err(refused) => {
                self.objects(refused.0)?;
                Ok(Answer::AsItCame)
            }
        }
    }

    /// Judges a call of a tool that the answer proposes, `{"name":…,"arguments":…}`, as a call that goes out. `root` is where it
    /// stands, for the findings' paths.
    ///
    /// # Errors
    /// The refusal of a finding, `scan.bound`, and `http.failed` where it is not JSON.
    pub fn proposed(&mut self, call: &[u8], root: &str) -> Result<Answer, Refusal> {
        let json = Json::read(call).map_err(|_| {
            base::never!("a proposed call is no JSON");
            Refusal::new(FAILED, "a proposed call cannot be read")
        })?;
        let place = self.place(Direction::Outgoing, self.now());
        let report = self.rules.engine.call(place, json.root(), root, None);
        let report = report.map_err(|bound| too_much(bound).of_answer())?;
        self.keep(&report);
        let scanned = answer_of(&report, call);
        let (answer, _) = scanned.map_err(|refused| refused.0.of_answer())?;
        Ok(answer)
    }

    /// Scans one item's definition: what a server says of itself is read by a model as instruction. It is
    /// also held against what was approved of this item, whatever the scan says. An item whose definition the
    /// scan refuses is held, so that it is not called either; where a person approved it all the same, it
    /// passes as it came. A redacted text that is no definition of the item any more, as `is_kept` says, counts as
    /// refused.
    pub fn definition(
        &mut self,
        item: &ServerItem,
        json: &[u8],
        root: &str,
        is_kept: impl FnOnce(&[u8]) -> bool,
    ) -> Result<Answer, Refusal> {
        let report = self.scan(Direction::Description, json.into(), root);
        let scanned = match &report {
            Ok(report) => answer_of(report, json).map_err(|refused| {
                let (refusal, rule) = *refused;
                Box::new((refusal.of_answer(), rule))
            }),
            Err(bound) => Err(Box::new((too_much(*bound), SCAN_BOUND.name))),
        };
        let scanned = scanned.and_then(|(answer, rule)| match &answer {
            Answer::Redacted(redacted) if !is_kept(redacted) => {
                let public = "a secret stands where it cannot be taken out of the definition";
                Err(Box::new((Refusal::new(SECRET, public), rule)))
            }
            _ => Ok(answer),
        });
        let rule = scanned.as_ref().err().map(|refused| refused.1);
        // Of a definition that was not wholly scanned nobody knows what may be kept.
        let shown = report.as_ref().ok().map(|report| report.masked(json));
        let listed = Listed { item, json, shown };
        match (self.pin(&listed, root, rule)?, scanned) {
            (true, Err(_)) => Ok(Answer::AsItCame),
            (_, scanned) => scanned.map_err(|refused| refused.0),
        }
    }

    fn scan(
        &mut self,
        direction: Direction,
        json: Document<'_>,
        root: &str,
    ) -> Result<Report, Bound> {
        let now = self.now();
        let mut fragments = self.fragments.take();
        let before = fragments.as_mut().map(|fragments| (fragments, now.mono_ms));
        let place = self.place(direction, now);
        let report = self.rules.engine.json_after(place, json, root, before);
        self.fragments = fragments;
        let report = report?;
        self.keep(&report);
        Ok(report)
    }

    /// Findings of a long stream are kept up to a bound, each secret once; each finding is counted.
    fn keep(&mut self, report: &Report) {
        let seen: Vec<Sighting<'_>> = report.findings.iter().map(Sighting::from).collect();
        let mut told = scan::distinct(&seen)
            .into_iter()
            .map(|one| one.told)
            .peekable();
        for (number, finding) in report.findings.iter().enumerate() {
            let finding = to_record(finding);
            match told.next_if_eq(&number) {
                Some(_) => self.note(finding),
                None => self.count(&finding),
            }
        }
    }

    pub(crate) fn note(&mut self, finding: Finding) {
        self.count(&finding);
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(finding);
        }
    }

    fn count(&self, finding: &Finding) {
        self.gate().ports.meter.found(finding.rule, finding.action);
    }
}

/// The answer and the refusal come with the id of the first rule that asked for them; an answer as it came with none.
fn answer_of(
    report: &Report,
    json: &[u8],
) -> Result<(Answer, &'static str), Box<(Refusal, &'static str)>> {
    match report.action {
        Action::Refuse => Err(Box::new((refuse(report), rule_of(report, Action::Refuse)))),
        Action::Redact => {
            let rule = rule_of(report, Action::Redact);
            Ok((Answer::Redacted(report.redacted(json)), rule))
        }
        Action::Warn | Action::Off => Ok((Answer::AsItCame, "")),
    }
}
