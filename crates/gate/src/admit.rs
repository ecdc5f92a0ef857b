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
    let found: Vec<&str> = trail
        .findings()
        .iter()
        .map(|finding| finding.rule)
        .collect();
    let policies = permitted.slice.decide(&context(call, now), &found)?;
    trail.decided(policies);
    Ok(())
}

/// Refuses a call whose redacted arguments are others than those that policies read.
pub(crate) fn is_same(
    permitted: &Permitted,
    call: &Call<'_>,
    redacted: Option<&[u8]>,
    now: Now,
    trail: &Trail<'_>,
) -> Result<(), Refusal> {
    let Some(redacted) = redacted.filter(|_| call.arguments.is_some()) else {
        return Ok(());
    };
    let others = || {
        let public = "a secret stands in an argument that a policy reads";
        Refusal::new(refusal::SECRET, public)
    };
    let params: HashMap<String, Box<RawValue>> =
        serde_json::from_slice(redacted).map_err(|_| others())?;
    let arguments = params.get("arguments").map(|json| json.get().as_bytes());
    let context = Context {
        arguments,
        ..context(call, now)
    };
    let admission = permitted.slice.admit(&context).map_err(|_| others())?;
    match admission.attributes == trail.attributes() {
        true => Ok(()),
        false => Err(others()),
    }
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
