//! May this agent do this: policy, asked before the scan and, where a policy reads findings, after it.

use std::sync::Arc;

use base::{Now, Refusal};
use identity::Verified;
use policy::{Context, Principal, Slice};

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
    let found: Vec<&str> = trail
        .findings()
        .iter()
        .map(|finding| finding.rule)
        .collect();
    let policies = permitted.slice.decide(&context(call, now), &found)?;
    trail.decided(policies);
    Ok(())
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
