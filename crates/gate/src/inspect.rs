//! Is it safe: the scan of what the agent sends.

use base::{Action, Lane, Name, Now, Refusal, refusal};
use scan::{Class, Direction, Pending, Place, Report, Sessions};

use crate::pass::{Call, Rules};
use crate::trail::{Trail, to_record};

/// The proof that what the agent sends was scanned, with what is to be sent in its place.
#[derive(Default)]
pub(crate) struct Scanned {
    pub(crate) redacted: Option<Vec<u8>>,
    /// What is remembered of the call if it passes.
    pub(crate) pending: Option<Pending>,
}

pub(crate) fn inspect(
    rules: &Rules,
    sessions: &Sessions,
    call: &Call<'_>,
    agent: &str,
    now: Now,
    trail: &mut Trail<'_>,
) -> Result<Scanned, Refusal> {
    let Some(params) = call.params else {
        return Ok(Scanned::default());
    };
    let place = place(
        Direction::Outgoing,
        call.lane,
        &call.target.server,
        agent,
        now,
    );
    let judge = |session: &mut scan::Session| {
        let session = (session, now.mono_ms);
        match call.action {
            Action::McpCall => rules.engine.call(place, params, call.root, Some(session)),
            Action::McpRead => rules
                .engine
                .resource(place, params, call.root, Some(session)),
            _ => rules.engine.outgoing(place, params, call.root, session),
        }
    };
    // Whatever refuses the call from here on drops this, and with it what is remembered of the call.
    let (report, pending) = sessions.judge(agent, now.mono_ms, judge);
    let report = report.map_err(too_much)?;
    trail.found(to_record(&report));
    trail.scanned(report.found_nothing);
    let redacted = match report.action {
        scan::Action::Refuse => return Err(refuse(&report)),
        scan::Action::Redact => Some(report.redacted(params)),
        scan::Action::Warn | scan::Action::Off => None,
    };
    Ok(Scanned {
        redacted,
        pending: Some(pending),
    })
}

/// Where a text of this call stands.
pub(crate) fn place<'a>(
    direction: Direction,
    lane: Lane,
    server: &'a Name,
    agent: &'a str,
    now: Now,
) -> Place<'a> {
    Place {
        direction,
        lane: lane.as_str(),
        target: server.as_str(),
        agent,
        now_s: now.unix_ms / 1000,
    }
}

/// The id of the first rule that asks for a refusal.
pub(crate) fn rule_of(report: &Report) -> &'static str {
    let refused = |finding: &&scan::Finding| finding.action == scan::Action::Refuse;
    let first = report.findings.iter().find(refused);
    first.map_or("", |finding| finding.rule.id)
}

/// The refusal for the first finding that asks for one. Says the rule and the place, never the text.
pub(crate) fn refuse(report: &Report) -> Refusal {
    let Some(finding) = report
        .findings
        .iter()
        .find(|f| f.action == scan::Action::Refuse)
    else {
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
    let what = format!("{what} ({}) at {}", finding.rule.id, finding.path);
    let links = &mut report.links.iter();
    match links.find(|link| link.rule == finding.rule.id) {
        Some(link) => {
            let (after, seconds) = (link.after, link.for_ms.div_ceil(1000));
            let what = format!("{what}: it follows {after}, which counts for {seconds} s more");
            Refusal::new(code, what).with_retry_ms(link.for_ms)
        }
        None => Refusal::new(code, what),
    }
}

/// More than the scan's bounds allow is a refusal, never a part that was skipped.
pub(crate) fn too_much(bound: scan::Bound) -> Refusal {
    Refusal::new(
        refusal::SCAN_BOUND,
        format!("the scan reached its bound: {}", bound.0),
    )
}
