//! X-Wing and HPKE held against the vectors of their drafts, and against a second implementation: ML-KEM,
//! X25519, SHA3, HKDF and AEADs of aws-lc, put together here by the text of the drafts.

use aws_lc_rs::aead::{AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::{agreement, digest, hkdf, kem as ml_kem};
use hpke::kem::XWing;
use hpke::{Deserializable, Kem, Serializable};

use super::{Once, decapsulate, encapsulate};
use crate::tests::fixture::{counting, identity, public};
use crate::tests::vectors::{Lines, read_others};
use crate::{Error, Identity, Public, Suite};

/// Splits the lines of a file into cases, each of which begins with this name.
fn cases(lines: &Lines, first: &str) -> Vec<Lines> {
    let mut cases: Vec<Lines> = Vec::new();
    for line in lines {
        if line.0 == first {
            cases.push(Lines::new());
        }
        if let Some(case) = cases.last_mut() {
            case.push(line.clone());
        }
    }
    cases
}

fn get(lines: &Lines, name: &str) -> Vec<u8> {
    let line = lines.iter().find(|(known, _)| known == name);
    crate::tests::vectors::unhex(&line.unwrap_or_else(|| panic!("{name}")).1)
}

#[test]
fn x_wing_is_that_of_its_draft() {
    let cases = cases(&read_others("x-wing"), "seed");
    assert!(cases.len() >= 3);
    for case in &cases {
        let own = Identity::from_seed(&get(case, "seed").try_into().unwrap());
        assert_eq!(own.public().bytes()[..], get(case, "pk"));
        let mut once = Once {
            left: &get(case, "eseed"),
        };
        let (ss, ct) = XWing::encap_with_rng(own.public().key(), None, &mut once).unwrap();
        assert_eq!(ct.to_bytes()[..], get(case, "ct"));
        assert_eq!(ss.0[..], get(case, "ss"));
        let ss = XWing::decap(own.secret(), None, &ct).unwrap();
        assert_eq!(ss.0[..], get(case, "ss"));
        assert!(once.left.is_empty());
    }
}

#[test]
fn hpke_with_x_wing_is_that_of_its_draft() {
    let lines = read_others("hpke-x-wing");
    let own = Identity::from_seed(&get(&lines, "secret_key").try_into().unwrap());
    let (info, random) = (get(&lines, "info"), get(&lines, "random"));
    let random: [u8; 64] = random.try_into().unwrap();
    for case in &cases(&lines, "exporter_context")[..] {
        let label = get(case, "exporter_context");
        let sealed = encapsulate(Suite::ChaCha, own.public(), &info, &random, None, &label);
        let (enc, exported) = sealed.unwrap();
        assert_eq!(exported[..], get(case, "exported"));
        let opened = decapsulate(Suite::ChaCha, own.secret(), &enc, &info, None, &label);
        assert_eq!(opened.unwrap(), exported);
    }
    // And so is the second implementation.
    let shared: [u8; 32] = get(&lines, "shared_secret").try_into().unwrap();
    let second = Second::new(Suite::ChaCha, &shared, &info);
    assert_eq!(second.key[..], get(&lines, "key"));
    assert_eq!(second.base_nonce[..], get(&lines, "base_nonce"));
    assert_eq!(second.exporter_secret[..], get(&lines, "exporter_secret"));
    let mut text = get(&lines, "plain");
    second.seal(&get(&lines, "aad_0"), &mut text);
    assert_eq!(text, get(&lines, "sealed_0"));
}

/// HPKE's key schedule (RFC 9180 §5.1, Base mode) by hand.
struct Second {
    suite: Suite,
    key: [u8; 32],
    base_nonce: [u8; 12],
    exporter_secret: [u8; 32],
}

struct Length(usize);

impl hkdf::KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

fn aead_id(suite: Suite) -> u8 {
    match suite {
        Suite::AesGcm | Suite::AesGcmSiv => 2,
        Suite::ChaCha => 3,
    }
}

fn suite_id(suite: Suite) -> Vec<u8> {
    [b"HPKE", &[0x64, 0x7a, 0, 1, 0, aead_id(suite)][..]].concat()
}

fn labeled_extract(suite: Suite, salt: &[u8], label: &[u8], ikm: &[u8]) -> [u8; 32] {
    let ikm = [b"HPKE-v1", &suite_id(suite)[..], label, ikm].concat();
    crate::schedule::hmac(salt, &ikm)
}

fn labeled_expand<const N: usize>(
    suite: Suite,
    prk: &[u8; 32],
    label: &[u8],
    info: &[u8],
) -> [u8; N] {
    let length = (N as u16).to_be_bytes();
    let id = suite_id(suite);
    let info = [&length, &b"HPKE-v1"[..], &id, label, info];
    let mut out = [0; N];
    hkdf::Prk::new_less_safe(hkdf::HKDF_SHA256, prk)
        .expand(&info, Length(N))
        .and_then(|okm| okm.fill(&mut out))
        .unwrap();
    out
}

impl Second {
    fn new(suite: Suite, shared: &[u8; 32], info: &[u8]) -> Second {
        let psk_id = labeled_extract(suite, b"", b"psk_id_hash", b"");
        let info = labeled_extract(suite, b"", b"info_hash", info);
        let context = [&[0][..], &psk_id, &info].concat();
        let secret = labeled_extract(suite, shared, b"secret", b"");
        Second {
            suite,
            key: labeled_expand(suite, &secret, b"key", &context),
            base_nonce: labeled_expand(suite, &secret, b"base_nonce", &context),
            exporter_secret: labeled_expand(suite, &secret, b"exp", &context),
        }
    }

    fn export(&self, label: &[u8]) -> [u8; 32] {
        labeled_expand(self.suite, &self.exporter_secret, b"sec", label)
    }

    fn seal(&self, aad: &[u8], text: &mut Vec<u8>) {
        let cipher = match aead_id(self.suite) {
            2 => &AES_256_GCM,
            _ => &CHACHA20_POLY1305,
        };
        let key = LessSafeKey::new(UnboundKey::new(cipher, &self.key).unwrap());
        let nonce = Nonce::assume_unique_for_key(self.base_nonce);
        key.seal_in_place_append_tag(nonce, Aad::from(aad), text)
            .unwrap();
    }
}

/// The combiner of X-Wing (draft-connolly-cfrg-xwing-kem §5.3).
fn combine(ss_m: &[u8], ss_x: &[u8], ct_x: &[u8], pk_x: &[u8]) -> [u8; 32] {
    let all = [ss_m, ss_x, ct_x, pk_x, br"\.//^\"].concat();
    let hash = digest::digest(&digest::SHA3_256, &all);
    hash.as_ref().try_into().unwrap()
}

fn x25519(own: &agreement::PrivateKey, other: &[u8]) -> Vec<u8> {
    let other = agreement::UnparsedPublicKey::new(&agreement::X25519, other);
    agreement::agree(own, other, (), |secret| Ok(secret.to_vec())).unwrap()
}

/// Encapsulates to an X-Wing key with aws-lc, by random bytes of its own.
#[expect(clippy::disallowed_methods, reason = "a test makes keys at random")]
fn encapsulate_second(to: &Public) -> (Vec<u8>, [u8; 32]) {
    let (pk_m, pk_x) = to.bytes().split_at(1184);
    let pk_m = ml_kem::EncapsulationKey::new(&ml_kem::ML_KEM_768, pk_m).unwrap();
    let (ct_m, ss_m) = pk_m.encapsulate().unwrap();
    let own = agreement::PrivateKey::generate(&agreement::X25519).unwrap();
    let ct_x = own.compute_public_key().unwrap();
    let shared = combine(ss_m.as_ref(), &x25519(&own, pk_x), ct_x.as_ref(), pk_x);
    ([ct_m.as_ref(), ct_x.as_ref()].concat(), shared)
}

#[test]
fn what_the_second_implementation_seals_we_open() {
    for suite in Suite::ALL {
        for from in [0, 0x20, 0x40] {
            let (enc, shared) = encapsulate_second(&public(from));
            let second = Second::new(suite, &shared, b"some info");
            let mut text = b"an init".to_vec();
            second.seal(b"", &mut text);
            let own = identity(from);
            let sealed = Some(&mut text[..]);
            let secret = own.secret();
            let exported = decapsulate(suite, secret, &enc, b"some info", sealed, b"label");
            assert_eq!(*exported.unwrap(), second.export(b"label"));
            assert_eq!(&text[..7], b"an init");
        }
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a test makes keys at random")]
fn what_we_seal_the_second_implementation_opens() {
    for suite in Suite::ALL {
        for random in [0, 0x55, 0xaa] {
            let sk_m = ml_kem::DecapsulationKey::generate(&ml_kem::ML_KEM_768).unwrap();
            let pk_m = sk_m.encapsulation_key().unwrap().key_bytes().unwrap();
            let sk_x = agreement::PrivateKey::generate(&agreement::X25519).unwrap();
            let pk_x = sk_x.compute_public_key().unwrap();
            let to = [pk_m.as_ref(), pk_x.as_ref()].concat();
            let to = Public::from_bytes(&to).unwrap();

            let mut text = [&b"an init"[..], &[0; 16]].concat();
            let random = counting(random);
            let sealed = Some(&mut text[..]);
            let (enc, exported) =
                encapsulate(suite, &to, b"some info", &random, sealed, b"label").unwrap();

            let (ct_m, ct_x) = enc.split_at(1088);
            let ss_m = sk_m.decapsulate(ct_m.into()).unwrap();
            let shared = combine(ss_m.as_ref(), &x25519(&sk_x, ct_x), ct_x, pk_x.as_ref());
            let second = Second::new(suite, &shared, b"some info");
            assert_eq!(second.export(b"label"), *exported);
            let mut again = b"an init".to_vec();
            second.seal(b"", &mut again);
            assert_eq!(again, text);
        }
    }
}

/// FIPS 203 §6.3: another ciphertext decapsulates to another secret, without a word; the seal tells.
#[test]
fn a_changed_encapsulation_opens_nothing() {
    let own = identity(0);
    let mut text = [&b"an init"[..], &[0; 16]].concat();
    let random = counting(1);
    let sealed = Some(&mut text[..]);
    let (enc, exported) =
        encapsulate(Suite::AesGcm, own.public(), b"", &random, sealed, b"").unwrap();
    for byte in (0..enc.len()).step_by(13) {
        let mut enc = enc;
        enc[byte] ^= 1;
        let opened = decapsulate(Suite::AesGcm, own.secret(), &enc, b"", None, b"");
        assert_ne!(opened.unwrap(), exported);
        let mut text = text.clone();
        let sealed = Some(&mut text[..]);
        let opened = decapsulate(Suite::AesGcm, own.secret(), &enc, b"", sealed, b"");
        assert_eq!(opened.err(), Some(Error::Open));
    }
    let short = decapsulate(Suite::AesGcm, own.secret(), &enc[1..], b"", None, b"");
    assert_eq!(short.err(), Some(Error::Length));
    let no_tag = Some(&mut text[..15]);
    let short = decapsulate(Suite::AesGcm, own.secret(), &enc, b"", no_tag, b"");
    assert_eq!(short.err(), Some(Error::Length));
}

#[test]
fn a_public_key_is_1216_bytes_in_range() {
    let good = *public(0).bytes();
    assert!(Public::from_bytes(&good).is_ok());
    for length in [0, 32, 1184, 1215, 1217] {
        let bytes: Vec<u8> = good.iter().copied().cycle().take(length).collect();
        assert_eq!(Public::from_bytes(&bytes).err(), Some(Error::PublicKey));
    }
    assert_eq!(
        Public::from_bytes(&[0xff; 1216]).err(),
        Some(Error::PublicKey)
    );
    let direct = <XWing as Kem>::PublicKey::from_bytes(&good).unwrap();
    assert_eq!(direct.to_bytes()[..], good);
}
