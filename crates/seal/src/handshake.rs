//! The handshake: an init from the outbound, a reply from the inbound, and a session of an hour.
//!
//! It exists in one folder so that both sides of each check stand beside each other. It refuses to carry
//! application data. What it costs a stranger to learn whether a public key is enrolled is one handshake:
//! only a join token hides that.

mod budget;
mod initiate;
mod respond;
mod seen;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

pub use budget::{Budget, HANDSHAKE_CPU_US};
pub use initiate::{Outbound, Pending, initiate};
pub use respond::{Guard, IDENTITIES_MAX, Responder, TOKENS_MAX};
pub use seen::MACS_KEPT;

use crate::head::{ENC_BYTES, INIT_BYTES, PUBLIC_BYTES, REPLY_BYTES, TAG_BYTES};
use crate::key::Public;
use crate::schedule::hash;

/// How far an init's time may be from the inbound's, in milliseconds.
pub const INIT_CLOCK_MS: u64 = 600_000;

// Places in an init.
const KID: usize = 8;
const ENC1: usize = 16;
const CT1: usize = ENC1 + ENC_BYTES;
const MAC1: usize = INIT_BYTES - 16;
// Places in its plaintext.
const CT1_PEER: usize = PUBLIC_BYTES;
const CT1_TIME: usize = CT1_PEER + 32;
const CT1_CAPS: usize = CT1_TIME + 8;
// Places in a reply.
const ENC2: usize = 8;
const ENC3: usize = ENC2 + ENC_BYTES;
const CT2: usize = ENC3 + ENC_BYTES;
// Places in its plaintext.
const CT2_BYTES: usize = REPLY_BYTES - CT2 - TAG_BYTES;
const CT2_TIME: usize = 16;
const CT2_EXPIRES: usize = 24;
const CT2_MODE: usize = 32;
const CT2_T: usize = 34;
const CT2_LONGEST: usize = 36;
const CT2_NEXT_PIN: usize = 44;
const CT2_TICKET: usize = 76;

const _: () = assert!(CT1 + CT1_CAPS + 8 + TAG_BYTES == MAC1 && CT2_TICKET + 144 == CT2_BYTES);

/// th: the hash of everything that both sides have said and are.
fn transcript(inbound: &Public, outbound: &Public, init: &[u8], reply: &[u8]) -> [u8; 32] {
    let reply = &reply[..CT2];
    hash(&[b"shr1 th", inbound.bytes(), outbound.bytes(), init, reply])
}

/// The info of an encapsulation that answers an init.
fn info(label: &[u8], init: &[u8]) -> Vec<u8> {
    [label, &hash(&[init])].concat()
}
