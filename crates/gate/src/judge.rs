//! The steps of a judgement, each of which takes the proof of the step before.
//!
//! ```
//! # use gate::{Asker, Case, Passed};
//! # use base::Refusal;
//! async fn judge(mut case: Case<'_>, asker: Asker) -> Result<Passed, Refusal> {
//!     let permitted = case.admit(asker)?;
//!     let approved = case.approve(permitted)?;
//!     let scanned = case.inspect(approved)?;
//!     let reserved = case.reserve(scanned).await?;
//!     let decided = case.decide(reserved).await?;
//!     case.append(decided).await
//! }
//! ```
//!
//! Without any one of these lines, it does not compile:
//!
//! ```compile_fail,E0308
//! # use gate::{Asker, Case, Passed};
//! # use base::Refusal;
//! async fn judge(mut case: Case<'_>, asker: Asker) -> Result<Passed, Refusal> {
//!     let permitted = asker;
//!     let approved = case.approve(permitted)?;
//!     let scanned = case.inspect(approved)?;
//!     let reserved = case.reserve(scanned).await?;
//!     let decided = case.decide(reserved).await?;
//!     case.append(decided).await
//! }
//! ```
//! ```compile_fail,E0308
//! # use gate::{Asker, Case, Passed};
//! # use base::Refusal;
//! async fn judge(mut case: Case<'_>, asker: Asker) -> Result<Passed, Refusal> {
//!     let permitted = case.admit(asker)?;
//!     let approved = permitted;
//!     let scanned = case.inspect(approved)?;
//!     let reserved = case.reserve(scanned).await?;
//!     let decided = case.decide(reserved).await?;
//!     case.append(decided).await
//! }
//! ```
//! ```compile_fail,E0308
//! # use gate::{Asker, Case, Passed};
//! # use base::Refusal;
//! async fn judge(mut case: Case<'_>, asker: Asker) -> Result<Passed, Refusal> {
//!     let permitted = case.admit(asker)?;
//!     let approved = case.approve(permitted)?;
//!     let scanned = approved;
//!     let reserved = case.reserve(scanned).await?;
//!     let decided = case.decide(reserved).await?;
//!     case.append(decided).await
//! }
//! ```
//! ```compile_fail,E0308
//! # use gate::{Asker, Case, Passed};
//! # use base::Refusal;
//! async fn judge(mut case: Case<'_>, asker: Asker) -> Result<Passed, Refusal> {
//!     let permitted = case.admit(asker)?;
//!     let approved = case.approve(permitted)?;
//!     let scanned = case.inspect(approved)?;
//!     let reserved = scanned;
//!     let decided = case.decide(reserved).await?;
//!     case.append(decided).await
//! }
//! ```
//! ```compile_fail,E0308
//! # use gate::{Asker, Case, Passed};
//! # use base::Refusal;
//! async fn judge(mut case: Case<'_>, asker: Asker) -> Result<Passed, Refusal> {
//!     let permitted = case.admit(asker)?;
//!     let approved = case.approve(permitted)?;
//!     let scanned = case.inspect(approved)?;
//!     let reserved = case.reserve(scanned).await?;
//!     let decided = reserved;
//!     case.append(decided).await
//! }
//! ```
//! ```compile_fail,E0308
//! # use gate::{Asker, Case, Passed};
//! # use base::Refusal;
//! async fn judge(mut case: Case<'_>, asker: Asker) -> Result<Passed, Refusal> {
//!     let permitted = case.admit(asker)?;
//!     let approved = case.approve(permitted)?;
//!     let scanned = case.inspect(approved)?;
//!     let reserved = case.reserve(scanned).await?;
//!     let decided = case.decide(reserved).await?;
//!     Ok(decided)
//! }
//! ```
//!
//! A proof is used once, so nothing is reserved or appended twice:
//!
//! ```compile_fail,E0382
//! # use gate::{Case, Scanned};
//! async fn twice(mut case: Case<'_>, scanned: Scanned) {
//!     let one = case.reserve(scanned).await;
//!     let two = case.reserve(scanned).await;
//! }
//! ```

use std::sync::Arc;

use base::{Name, Now, Refusal};
use identity::Verified;

use crate::call::Call;
use crate::gate::Gate;
use crate::rules::Rules;
use crate::trail::Trail;

pub use crate::admit::Permitted;
pub use crate::append::Decided;
pub use crate::inspect::Scanned;
pub use crate::pinned::Approved;
pub use crate::reserve::Reserved;

/// Who asks.
#[derive(Clone, Debug)]
pub enum Asker {
    Agent(Verified),
    /// The gateway itself: for traffic that the configuration asks for, with nothing of an agent's in it.
    Gateway,
}

impl Asker {
    /// The agent; nothing where the gateway itself asks.
    pub(crate) fn agent(&self) -> Option<&Verified> {
        match self {
            Asker::Agent(verified) => Some(verified),
            Asker::Gateway => None,
        }
    }

    /// The agent's name, or the one that records give the gateway.
    pub(crate) fn name(&self) -> Name {
        match self {
            Asker::Agent(verified) => verified.agent().name.clone(),
            Asker::Gateway => Name::new("weir").expect("weir is a name"),
        }
    }
}

/// One call on its way through the judgement: the rules that it is judged by, and what the record will say.
pub struct Case<'a> {
    pub(crate) gate: &'a Arc<Gate>,
    pub(crate) rules: Arc<Rules>,
    pub(crate) call: Call<'a>,
    pub(crate) now: Now,
    pub(crate) trail: Trail<'a>,
}

impl<'a> Case<'a> {
    pub(crate) fn new(gate: &'a Arc<Gate>, asker: &Asker, call: Call<'a>) -> Case<'a> {
        let rules = gate.rules();
        let now = gate.ports.clock.now();
        let mut trail = Trail::new(&call, asker.agent(), &rules, now);
        if let Asker::Gateway = asker {
            trail.own(asker.name());
        }
        Case {
            gate,
            rules,
            call,
            now,
            trail,
        }
    }

    /// Refuses, or only notes the refusal where the call is one that is observed.
    pub(crate) fn objects(&mut self, refusal: Refusal) -> Result<(), Refusal> {
        match self.call.observes {
            true => {
                self.trail.observed(&refusal);
                Ok(())
            }
            false => Err(refusal),
        }
    }

    /// Records the refusal, and gives it back.
    pub(crate) async fn refuse(self, refusal: Refusal) -> Refusal {
        self.gate.record_refusal(self.trail, refusal).await
    }
}
