//! Who is calling: a credential becomes an agent, or a refusal that says what to do.
//!
//! It exists so that one place turns a credential into a name, and so that having done it shows in a
//! type: [`verify`] makes a [`Verified`]. It keeps nothing and knows nobody: the caller passes in the
//! time and the look-up, so that a judgement can be replayed. It refuses to do I/O, to read a clock, and
//! to keep, print or return a key that an agent sent.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test may panic"))]

pub mod access;
pub mod certificate;
pub mod dpop;
pub mod jose;
pub mod jws;
pub mod jwt;
mod key;
pub mod public_key;
pub mod recognise;
mod spki;
#[cfg(test)]
mod testing;
pub mod trust;
pub mod uri;
mod verified;

pub use key::{key_digest, new_key};
pub use recognise::{KnownCallers, OnceId, Recognised, recognise};
pub use trust::{OutsideIssuer, TokenTrust};
pub use verified::{
    Agent, AgentState, Credential, Presented, PresentedPeer, Verified, thumbprint, verify,
};
