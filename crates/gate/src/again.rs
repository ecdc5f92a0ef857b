//! A call that is tried again, of another resource: asked anew, and recorded with the id of the first.
//!
//! Example: a provider answers 503, and the call goes to another one that has the model too. Whether the agent may ask
//! that one, where it may be dialled, and whether there is room are judged anew; what the scan found holds, because the
//! content is the same. The permit of the first call is never used for the second.

use std::sync::Arc;

use base::{Permit as _, Refusal, refusal};

use crate::call::Call;
use crate::gate::Gate;
use crate::inspect::Scanned;
use crate::judge::Case;
use crate::passed::Passed;
use crate::pinned::Approved;

impl Gate {
    /// Judges the call again for another resource. `call` has an id of its own, and the content of `first`, which was
    /// judged with [`crate::Repeat::Maybe`]. It does not count against the limit of calls once more.
    ///
    /// # Errors
    /// The refusal, which is recorded; `http.failed` where the content is not that of `first`.
    pub async fn again(
        self: &Arc<Self>,
        first: &Passed,
        call: Call<'_>,
    ) -> Result<Passed, Refusal> {
        let asker = first.asker.clone();
        let mut case = Case::new(self, &asker, call);
        case.trail.tries_again(first.call());
        let judged = async {
            if !first.is_in_force() {
                let public = "the credential of the call is no longer good";
                return Err(Refusal::new(refusal::KEY_EXPIRED, public));
            }
            let permitted = case.admit(asker)?;
            let approved = case.approve(permitted)?;
            let scanned = case.carry_over(approved, first)?;
            let reserved = case.reserve(scanned).await?;
            case.decide(reserved).await
        };
        match judged.await {
            Ok(decided) => case.append(decided).await,
            Err(refusal) => Err(case.refuse(refusal).await),
        }
    }
}

impl Case<'_> {
    /// Takes what the scan found of the same content. Where other rules are in force by now, it is scanned anew.
    fn carry_over(&mut self, approved: Approved, first: &Passed) -> Result<Scanned, Refusal> {
        let content = first.content.clone();
        let same = content.filter(|(digest, _)| *digest == self.content_digest());
        let Some((digest, found)) = same else {
            base::never!("a call was tried again with another content");
            let public = "the call cannot be tried again with another content";
            return Err(Refusal::new(refusal::FAILED, public));
        };
        if !Arc::ptr_eq(&first.rules, &self.rules) {
            return self.inspect(approved);
        }
        self.trail.found(found.clone());
        let Approved { permitted } = approved;
        if let (Some((_, params)), Some(_)) = (first.redacted.first(), self.call.arguments) {
            self.admit_redacted(&permitted, params)?;
        }
        Ok(Scanned {
            permitted,
            redacted: first.redacted.clone(),
            pending: None,
            content: Some((digest, found)),
        })
    }
}
