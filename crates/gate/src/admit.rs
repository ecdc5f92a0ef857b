//! May this agent do this: policy, asked before the scan and, where a policy reads findings, after it.

use std::collections::HashMap;
use std::sync::Arc;

use base::{Now, Refusal, refusal};
use identity::Verified;
use policy::{Context, Principal, Slice};
use serde_json::value::RawValue;

use crate::pass::{Call, Rules};
use crate::trail::Trail;

/// The proof that policy permits the call, or that only a policy which reads findings can say.
pub(crate) struct Permitted {
    slice: Arc<Slice>,
    pending: bool,
}

pub(crate) fn admit(
    rules: &Rules,
    verified: &Verified,
    call: &Call<'_>,
    now: Now,
    trail: &mut Trail<'_>,
) -> Result<Permitted, Refusal> {
    let slice = rules
        .policies
        .slice(&principal(verified), call.action, call.target);
    let admission = slice.admit(&context(call, now))?;
    trail.admitted(admission.policies, admission.attributes);
    Ok(Permitted {
        pending: admission.pending || slice.has_late(),
        slice,
    })
}

/// Asks again, now that the findings are known. Costs nothing where no policy of the slice reads them.
pub(crate) fn decide(
    permitted: &Permitted,
    call: &Call<'_>,
    now: Now,
    trail: &mut Trail<'_>,
) -> Result<(), Refusal> {
    if !permitted.pending {
        return Ok(());
    }
    let policies = permitted.slice.decide(&context(call, now), &found(trail))?;
    trail.decided(policies);
    Ok(())
}

/// Asks all policies again about the arguments as the scan redacted them, because these are what is sent: a
/// permit may depend on what was taken out.
pub(crate) fn again(
    permitted: &Permitted,
    call: &Call<'_>,
    redacted: Option<&[u8]>,
    now: Now,
    trail: &Trail<'_>,
) -> Result<(), Refusal> {
    let Some(redacted) = redacted.filter(|_| call.arguments.is_some()) else {
        return Ok(());
    };
    let unread = |_| Refusal::new(refusal::SECRET, "the arguments cannot be redacted");
    let params: HashMap<String, Box<RawValue>> =
        serde_json::from_slice(redacted).map_err(unread)?;
    let context = Context {
        arguments: params.get("arguments").map(|json| json.get().as_bytes()),
        ..context(call, now)
    };
    permitted.slice.admit(&context)?;
    if permitted.pending {
        permitted.slice.decide(&context, &found(trail))?;
    }
    Ok(())
}

/// The rules that the scan found something by.
fn found<'t>(trail: &'t Trail<'_>) -> Vec<&'t str> {
    let findings = trail.findings().iter();
    findings.map(|finding| finding.rule).collect()
}

pub(crate) fn principal(verified: &Verified) -> Arc<Principal> {
    let agent = verified.agent();
    Arc::new(Principal {
        name: agent.name.clone(),
        groups: agent.groups.clone(),
    })
}

fn context<'a>(call: &Call<'a>, now: Now) -> Context<'a> {
    Context {
        lane: call.lane,
        method: call.method,
        peer: call.peer,
        unix_ms: now.unix_ms,
        arguments: call.arguments,
    }
}
