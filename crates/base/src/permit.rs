//! The proof that something was judged, as transport sees it.

use std::net::IpAddr;

use crate::{CallId, Destination, Name, Refusal};

/// A line of a log, without what is secret in it.
pub type LineMask = Box<dyn Fn(&str) -> String>;

/// What `net` asks of whoever wants to send. Only `gate` makes values that answer.
///
/// `net` has no opinions: it asks the permit where the call may go, and asks again for each address that
/// this resolved to, so that a name cannot move between the check and the use.
pub trait Permit {
    /// The call that was judged.
    fn call(&self) -> CallId;
    /// The one place that may be spoken to; `net` refuses any other.
    fn destination(&self) -> Destination<'_>;
    /// The configured name of that place; nothing where an agent named it.
    fn target(&self) -> Option<&Name> {
        match self.destination() {
            Destination::Configured(name) => Some(name),
            Destination::Site(_) | Destination::Gateway => None,
        }
    }
    /// Whether this address may be dialled for it.
    fn dial(&self, address: IpAddr) -> Result<(), Refusal>;
    /// Whether the call may go on: a connection that was taken over for it is asked about again while it lasts.
    fn in_force(&self) -> Result<(), Refusal>;
    /// How what the place says for the log is kept. It outlives the permit: a process complains for as long as it runs.
    /// Who does not know what is secret shows nothing.
    fn line_mask(&self) -> LineMask {
        Box::new(|_| "(not shown)".to_owned())
    }
}
