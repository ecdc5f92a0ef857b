//! The secrets inside a handshake, for known answers: found again from the messages and all keys.

use super::{CT1, CT1_CAPS, CT1_PEER, CT1_TIME, CT2, ENC1, ENC2, ENC3, MAC1, info, transcript};
use crate::aead::Key;
use crate::head::{INIT_BYTES, PUBLIC_BYTES, REPLY_BYTES, TAG_BYTES};
use crate::kem::{self, Exported};
use crate::schedule::{Secret, hmac, mac1_key, prk, reply_key};
use crate::tests::fixture::{NOW, Pair, Setup, counting, identity, public};
use crate::{Identity, Public, Suite};

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

/// An init as a stranger could write it: any plaintext, sealed and signed as it should be.
pub(crate) struct Forged;

impl Forged {
    pub(crate) fn init(change: impl FnOnce(&mut [u8])) -> [u8; INIT_BYTES] {
        let setup = Setup::new(Suite::AesGcm);
        let mut init = *setup.initiate().init();
        let plain = &mut init[CT1..MAC1];
        plain.fill(0);
        plain[..PUBLIC_BYTES].copy_from_slice(public(0x40).bytes());
        plain[CT1_PEER..CT1_TIME].copy_from_slice(&public(0x20).peer_id().0);
        plain[CT1_TIME..CT1_CAPS].copy_from_slice(&NOW.unix_ms.to_be_bytes());
        change(&mut plain[..CT1_CAPS + 8]);
        let info = [b"shr1 init", &init[..ENC1]].concat();
        let random = counting(0x80);
        let text = Some(&mut init[CT1..MAC1]);
        let sealed = kem::encapsulate(setup.suite, &public(0), &info, &random, text, b"");
        init[ENC1..CT1].copy_from_slice(&sealed.unwrap().0);
        Forged::sign(&mut init);
        init
    }

    /// A reply to the init of the known answers, with any plaintext.
    pub(crate) fn reply(pair: &Pair, change: impl FnOnce(&mut [u8])) -> [u8; REPLY_BYTES] {
        let keys = [&identity(0), &identity(0x20), &identity(0x40)];
        let agreed = agree(Suite::AesGcm, keys, [0; 32], (&pair.init, &pair.reply));
        let key = Key::new(Suite::AesGcm.cipher(), &reply_key(&agreed.prk));
        let mut reply = *pair.reply;
        let text = key.open([0; 12], &agreed.th, &mut reply[CT2..]).unwrap();
        change(text);
        let tag = key.seal([0; 12], &agreed.th, text).unwrap();
        reply[REPLY_BYTES - TAG_BYTES..].copy_from_slice(&tag);
        reply
    }

    pub(crate) fn sign(init: &mut [u8; INIT_BYTES]) {
        Forged::sign_for(init, &public(0));
    }

    pub(crate) fn sign_for(init: &mut [u8; INIT_BYTES], own: &Public) {
        let key = mac1_key(own.bytes(), &[0; 32]);
        let mac = hmac(&key, &init[..MAC1]);
        init[MAC1..].copy_from_slice(&mac[..16]);
    }
}
