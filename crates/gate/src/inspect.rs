//! Is it safe: the scan of what the agent sends.

use base::{Refusal, refusal};
use scan::{Action, Class, Direction, Report};

use crate::pass::{Call, Rules};
use crate::trail::{Trail, to_record};

/// The proof that what the agent sends was scanned, with what is to be sent in its place.
pub(crate) struct Scanned {
    pub(crate) redacted: Option<Vec<u8>>,
}

pub(crate) fn inspect(
    rules: &Rules,
    call: &Call<'_>,
    trail: &mut Trail<'_>,
) -> Result<Scanned, Refusal> {
    let Some(params) = call.params else {
        return Ok(Scanned { redacted: None });
    };
    let report = rules
        .engine
        .json(Direction::Outgoing, params, "params")
        .map_err(too_much)?;
    trail.found(to_record(&report));
    match report.action {
        Action::Refuse => Err(refuse(&report)),
        Action::Redact => Ok(Scanned {
            redacted: Some(report.redacted(params)),
        }),
        Action::Warn | Action::Off => Ok(Scanned { redacted: None }),
    }
}

/// The refusal for the first finding that asks for one. Says the rule and the place, never the text.
pub(crate) fn refuse(report: &Report) -> Refusal {
    let Some(finding) = report.findings.iter().find(|f| f.action == Action::Refuse) else {
        base::never!("a report that refuses has no finding that does");
        return Refusal::new(refusal::FAILED, "the scan gave no reason");
    };
    let (code, what) = match finding.rule.class {
        Class::Secret => (refusal::SECRET, "a secret"),
        Class::Injection => (refusal::INJECTION, "an injected instruction"),
        Class::Personal => (refusal::PERSONAL, "personal data"),
        Class::Command => (refusal::COMMAND, "a forbidden command"),
        Class::Url => (refusal::URL, "a forbidden address"),
        Class::Tool => (refusal::TOOL_CHANGED, "a tool that is not what it was"),
        Class::Chain => (refusal::CHAIN, "a chain of calls"),
    };
    Refusal::new(
        code,
        format!("{what} ({}) at {}", finding.rule.id, finding.path),
    )
}

/// More than the scan's bounds allow is a refusal, never a part that was skipped.
pub(crate) fn too_much(bound: scan::Bound) -> Refusal {
    Refusal::new(
        refusal::SCAN_BOUND,
        format!("the scan reached its bound: {}", bound.0),
    )
}
