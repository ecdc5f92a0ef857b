//! Is it written down: the last questions, and the record, before a call may pass.

use base::{Refusal, refusal};

use crate::admit::Permitted;
use crate::call::Call;
use crate::gate::Gate;
use crate::judge::Case;
use crate::passed::Passed;
use crate::ports::{Advice, Hold, Question, RecordError};
use crate::reserve::Reserved;

/// When to try again while the store is away, in milliseconds.
const STORE_RETRY_MS: u64 = 1_000;

/// The proof that all has been asked but whether it can be recorded.
pub struct Decided {
    pub(crate) reserved: Reserved,
}

impl Case<'_> {
    /// Asks the policies that read findings, the outside decision points, and whether a person has to approve. Costs
    /// nothing where there are none.
    ///
    /// # Errors
    /// Their refusals; `policy.advisor` and `policy.held` where one does not answer.
    pub async fn decide(&mut self, reserved: Reserved) -> Result<Decided, Refusal> {
        let permitted = &reserved.scanned.permitted;
        if let Err(refusal) = self.decide_late(permitted) {
            self.objects(refusal)?;
        }
        let ports = &self.gate.ports;
        let is_asked = !ports.advisors.is_empty() || ports.holds.is_some();
        if is_asked
            && permitted.asker.agent().is_some()
            && let Err(refusal) = self.ask_outside(permitted).await
        {
            self.objects(refusal)?;
        }
        Ok(Decided { reserved })
    }

    async fn ask_outside(&self, permitted: &Permitted) -> Result<(), Refusal> {
        let ports = &self.gate.ports;
        let clock = &*ports.clock;
        let findings = self.trail.rules();
        let question = Question {
            call: self.call.id,
            agent: &permitted.principal.name,
            groups: &permitted.principal.groups,
            action: self.call.action,
            resource: self.call.resource,
            policies: self.trail.policies(),
            findings: &findings,
            content: self.content_digest(),
        };
        for advisor in &ports.advisors {
            let refused = |public: &str, private: String| {
                Refusal::new(refusal::ADVISOR, public).with_private(private)
            };
            match advisor.advise(&question).within_bound(clock).await {
                Some(Advice::Permit) => {}
                Some(Advice::Refuse(why)) => {
                    return Err(refused("a decision point refused it", why));
                }
                None => return Err(refused("a decision point did not answer", String::new())),
            }
        }
        // What passes in any case waits for nobody.
        let Some(holds) = ports.holds.as_ref().filter(|_| !self.call.observes) else {
            return Ok(());
        };
        let held = |public: String| Refusal::new(refusal::HELD, public);
        match holds.claim(&question).within_bound(clock).await {
            Some(Hold::NotNeeded | Hold::Approved) => Ok(()),
            Some(Hold::Waiting(id)) => Err(held(format!("the call waits for approval as {id}"))),
            None => Err(held("nobody can say whether the call was approved".into())),
        }
    }

    /// Has the judgement written down, and only then hands out the proof.
    ///
    /// # Errors
    /// `log.full`, `log.busy` and `log.failed`: nothing passes unrecorded.
    pub async fn append(self, decided: Decided) -> Result<Passed, Refusal> {
        let gate = self.gate;
        gate.count(&self.trail);
        let mut reserved = decided.reserved;
        // Forgotten unless the record is written: the call did not happen then.
        let pending = reserved.scanned.pending.take();
        // Made before the record is durable, so that a call that is given up while it waits for the
        // disk still leaves an outcome.
        let record = self.trail.to_json(&self.rules.engine);
        let appended = gate.ports.recorder.passes(self.call.id, record);
        let objection = self.trail.objection();
        let mut passed = Passed::new(gate, self.rules, &self.call, reserved, self.now);
        passed.judged_with(self.call.observes, objection);
        let error = match appended.await {
            Ok(Ok(_index)) => {
                gate.ports.meter.judged(self.call.resource, None);
                if let Some(pending) = pending {
                    pending.keep();
                }
                return Ok(passed);
            }
            Ok(Err(error)) => error,
            Err(_closed) => RecordError::Failed("the log is closed".into()),
        };
        passed.void();
        Err(gate.unrecorded(&self.call, &error))
    }
}

impl Gate {
    fn unrecorded(&self, call: &Call<'_>, error: &RecordError) -> Refusal {
        let refusal = match error {
            RecordError::Full => Refusal::new(refusal::LOG_FULL, "the log has no room"),
            RecordError::Busy => Refusal::new(refusal::LOG_BUSY, "too many records wait"),
            RecordError::Failed(why) => {
                Refusal::new(refusal::LOG_FAILED, "the log failed").with_private(why.clone())
            }
            RecordError::Away => {
                let public = "the store that the replicas share is away";
                Refusal::new(refusal::STORE_AWAY, public).with_retry_ms(STORE_RETRY_MS)
            }
            RecordError::Behind => {
                let public = "records do not reach the store that the replicas share";
                Refusal::new(refusal::STORE_BEHIND, public).with_retry_ms(STORE_RETRY_MS)
            }
        };
        self.ports
            .meter
            .judged(call.resource, Some(refusal.code.name));
        refusal
    }
}
