//! The proof that something was judged, as transport sees it.

use std::net::IpAddr;

use crate::{CallId, Name, Refusal};

/// What `net` asks of whoever wants to send. Only `gate` makes values that answer.
///
/// `net` has no opinions: it asks the permit which target it is for, and asks again for each address
/// that the target's name resolved to, so that a name cannot move between the check and the use.
pub trait Permit {
    /// The call that was judged.
    fn call(&self) -> CallId;
    /// The configured target that may be spoken to; `net` refuses any other.
    fn target(&self) -> &Name;
    /// Whether this address may be dialled for that target.
    fn dial(&self, address: IpAddr) -> Result<(), Refusal>;
}
