//! The secrets inside a handshake, for known answers: found again from the messages and all keys.

use super::{CT1, CT2, ENC1, ENC2, ENC3, MAC1, info, transcript};
use crate::head::{INIT_BYTES, REPLY_BYTES};
use crate::kem::{self, Exported};
use crate::schedule::{Secret, prk};
use crate::{Identity, Suite};

pub(crate) struct Agreed {
    pub(crate) ss2: Exported,
    pub(crate) ss3: Exported,
    pub(crate) th: [u8; 32],
    pub(crate) prk: Secret,
}

pub(crate) fn exp1(inbound: &Identity, suite: Suite, init: &[u8; INIT_BYTES]) -> Exported {
    let info = [b"shr1 init", &init[..ENC1]].concat();
    let (enc, mut ct1) = (&init[ENC1..CT1], init[CT1..MAC1].to_vec());
    kem::decapsulate(
        suite,
        inbound.secret(),
        enc,
        &info,
        Some(&mut ct1),
        b"shr1 exp",
    )
    .unwrap()
}

/// `keys` are the inbound's, the outbound's and the ephemeral one.
pub(crate) fn agree(
    suite: Suite,
    [inbound, outbound, ephemeral]: [&Identity; 3],
    psk: [u8; 32],
    (init, reply): (&[u8; INIT_BYTES], &[u8; REPLY_BYTES]),
) -> Agreed {
    let decapsulate = |with: &Identity, enc: &[u8], label: &[u8], export: &[u8]| {
        kem::decapsulate(suite, with.secret(), enc, &info(label, init), None, export).unwrap()
    };
    let ss2 = decapsulate(ephemeral, &reply[ENC2..ENC3], b"shr1 eph", b"shr1 ss2");
    let ss3 = decapsulate(outbound, &reply[ENC3..CT2], b"shr1 static", b"shr1 ss3");
    let th = transcript(inbound.public(), outbound.public(), init, reply);
    let prk = prk(&th, [&exp1(inbound, suite, init), &ss2, &ss3, &psk]);
    Agreed { ss2, ss3, th, prk }
}
