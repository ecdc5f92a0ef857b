use serde_json::{Value, json};

use super::*;
use crate::testing::TestKey;

/// RFC 7515 §A.3.
const ES256: &str = "eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ.DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q";
const ES256_KEY: &str = r#"{"kty":"EC","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}"#;
/// RFC 7515 §A.2.
const RS256: &str = "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ.cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe77Rw";
const RS256_KEY: &str = r#"{"kty":"RSA","n":"ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ","e":"AQAB"}"#;
/// RFC 8037 §A.4.
const EDDSA: &str = "eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc.hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg";
const EDDSA_KEY: &str =
    r#"{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}"#;

fn read(text: &str) -> Result<SignedText<'_>, JoseError> {
    SignedText::read(text, HeaderKey::Refused)
}

fn refused(text: &str) -> Option<JoseError> {
    read(text).err()
}

fn key(jwk: &str) -> PublicKey {
    PublicKey::from_jwk_text(jwk.as_bytes()).unwrap()
}

#[test]
fn the_examples_of_the_documents_are_good_and_each_change_is_not() {
    for (text, jwk) in [(ES256, ES256_KEY), (RS256, RS256_KEY), (EDDSA, EDDSA_KEY)] {
        let key = key(jwk);
        assert_eq!(read(text).unwrap().verify(&key), Ok(()), "{text}");
        for at in 0..text.len() {
            let mut bytes = text.as_bytes().to_vec();
            bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(bytes).unwrap();
            let is_good = read(&changed).is_ok_and(|text| text.verify(&key).is_ok());
            assert!(!is_good, "{changed}");
        }
    }
    let joe = read(ES256).unwrap();
    let claims = joe.claims().unwrap();
    assert_eq!(
        crate::jose::date_ms(claims.root(), "exp"),
        Ok(Some(1_300_819_380_000))
    );
}

#[test]
fn unsigned_and_symmetric_texts_are_refused() {
    // RFC 7515 §A.5 and §A.1.
    let none = "eyJhbGciOiJub25lIn0.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ.";
    let hs256 = "eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ.dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
    assert_eq!(refused(none), Some(JoseError::Algorithm));
    assert_eq!(refused(hs256), Some(JoseError::Algorithm));
    let stripped = &ES256[..=ES256.rfind('.').unwrap()];
    let text = read(stripped).unwrap();
    assert_eq!(text.verify(&key(ES256_KEY)), Err(JoseError::Signature));
}

#[test]
fn headers_that_bring_a_key_or_ask_for_more_are_refused() {
    let signer = TestKey::new();
    let jwk = signer.jwk();
    for (member, value, why) in [
        ("jwk", jwk.clone(), JoseError::EmbeddedKey),
        (
            "jku",
            json!("https://evil.example/jwks"),
            JoseError::EmbeddedKey,
        ),
        (
            "x5u",
            json!("https://evil.example/x"),
            JoseError::EmbeddedKey,
        ),
        ("x5c", json!(["MIIB"]), JoseError::EmbeddedKey),
        ("crit", json!(["exp"]), JoseError::Critical),
        ("crit", json!([]), JoseError::Critical),
        ("b64", json!(false), JoseError::Critical),
        ("alg", json!(["ES256"]), JoseError::Claim("alg")),
        ("alg", json!("es256"), JoseError::Algorithm),
        ("kid", json!(1), JoseError::Claim("kid")),
        ("kid", json!("k".repeat(257)), JoseError::TooLarge),
    ] {
        let mut header = json!({ "alg": "ES256" });
        header[member] = value;
        let text = signer.sign(&header.to_string(), "{}");
        assert_eq!(refused(&text), Some(why), "{header}");
    }
    let twice = signer.sign(r#"{"alg":"ES256","alg":"none"}"#, "{}");
    assert_eq!(refused(&twice), Some(JoseError::Duplicate));
    let claims = signer.sign(r#"{"alg":"ES256"}"#, r#"{"sub":"a","sub":"b"}"#);
    assert_eq!(
        read(&claims).unwrap().claims().map(drop),
        Err(JoseError::Duplicate)
    );
    for text in ["", ".", "..", "a.b", "a.b.c.d", "a.b.c.d.e", "\u{e9}.b.c"] {
        assert!(refused(text).is_some(), "{text}");
    }
    let long = format!("{}.{}.", "A".repeat(JWS_BYTES_MAX), "A");
    assert_eq!(refused(&long), Some(JoseError::TooLarge));
}

#[test]
fn a_set_gives_the_named_key_and_never_another() {
    let (one, two) = (TestKey::new(), TestKey::new());
    let named = |signer: &TestKey, kid: &str| {
        let mut jwk = signer.jwk();
        jwk["kid"] = kid.into();
        jwk
    };
    let set = |keys: Value| KeySet::read(json!({ "keys": keys }).to_string().as_bytes());
    let both = set(json!([named(&one, "1"), named(&two, "2"), { "kty": "future" }])).unwrap();
    assert_eq!(both.len(), 2);
    let verify = |header: &str| {
        let text = one.sign(header, "{}");
        both.verify(&read(&text).unwrap()).map(drop)
    };
    assert_eq!(verify(r#"{"alg":"ES256","kid":"1"}"#), Ok(()));
    assert_eq!(verify(r#"{"alg":"ES256"}"#), Ok(()));
    assert_eq!(
        verify(r#"{"alg":"ES256","kid":"2"}"#),
        Err(JoseError::Signature)
    );
    assert_eq!(
        verify(r#"{"alg":"ES256","kid":"3"}"#),
        Err(JoseError::KeyUnknown)
    );
    // Confusion: the header says another algorithm than the key's.
    assert_eq!(
        verify(r#"{"alg":"RS256","kid":"1"}"#),
        Err(JoseError::KeyMismatch)
    );
    let mut private = one.jwk();
    private["d"] = "AQ".into();
    // A bad key does not take the good ones with it, and is not taken.
    let symmetric = json!({ "kty": "oct", "k": "AQ", "kid": "1" });
    let mut unnamed = one.jwk();
    unnamed["kid"] = 7.into();
    let mut long = one.jwk();
    long["kid"] = "k".repeat(KID_CHARS_MAX + 1).into();
    let bad = [private, symmetric, unnamed, long, json!(3)];
    let mut listed = vec![named(&two, "2")];
    listed.extend(bad.clone());
    let some = set(json!(listed)).unwrap();
    assert_eq!((some.len(), some.left_out().len()), (1, bad.len()));
    assert!(some.left_out()[0].starts_with("key 2 of its keys: "));
    let text = one.sign(r#"{"alg":"ES256"}"#, "{}");
    assert!(some.verify(&read(&text).unwrap()).is_err());
    assert!(set(json!(bad)).is_err());
    assert!(set(json!([{ "kty": "future" }])).is_err());
    assert!(set(json!([])).is_err() && set(json!(1)).is_err());
    let many: Vec<Value> = (0..65).map(|_| one.jwk()).collect();
    assert_eq!(set(json!(many)).err(), Some(JoseError::TooLarge));
}

/// How `jsonwebtoken` checks signatures here: by the library that we use, so that what differs is how texts are read.
struct TheirVerifier(Vec<u8>, jsonwebtoken::Algorithm);

impl signature::Verifier<Vec<u8>> for TheirVerifier {
    fn verify(&self, message: &[u8], signed: &Vec<u8>) -> Result<(), signature::Error> {
        use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED, ED25519, UnparsedPublicKey};
        let checked = match self.1 {
            jsonwebtoken::Algorithm::ES256 => {
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, &self.0).verify(message, signed)
            }
            _ => UnparsedPublicKey::new(&ED25519, &self.0).verify(message, signed),
        };
        checked.map_err(|_| signature::Error::new())
    }
}

impl jsonwebtoken::crypto::JwtVerifier for TheirVerifier {
    fn algorithm(&self) -> jsonwebtoken::Algorithm {
        self.1
    }
}

static THEIRS: jsonwebtoken::crypto::CryptoProvider = jsonwebtoken::crypto::CryptoProvider {
    signer_factory: |_, _| unreachable!("they only check"),
    verifier_factory: |algorithm, key| {
        Ok(Box::new(TheirVerifier(
            key.try_get_as_bytes()?.to_vec(),
            *algorithm,
        )))
    },
    key_utils: jsonwebtoken::crypto::KeyUtils::new_unimplemented(),
};

/// Our reader and `jsonwebtoken` say the same of generated tokens: good ones, and ones with a character changed.
#[test]
fn the_same_tokens_are_good_as_to_jsonwebtoken() {
    use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode};
    THEIRS.install_default().unwrap();
    let mut seed = 7_u64;
    let mut next = move |below: usize| {
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(seed >> 33).unwrap() % below
    };
    let (ec, ed) = (
        TestKey::new(),
        crate::access::TokenKey::new(&[3; 32]).unwrap(),
    );
    let mut agreed = [0, 0];
    for round in 0..600 {
        let claims =
            json!({ "sub": format!("agent-{round}"), "exp": 4_000_000_000_u64, "n": next(9999) });
        let (mut text, ours, algorithm) = match round % 2 {
            0 => {
                let header = r#"{"alg":"ES256","typ":"JWT"}"#;
                (
                    ec.sign(header, &claims.to_string()),
                    ec.public(),
                    Algorithm::ES256,
                )
            }
            _ => (ed.sign_jwt("JWT", &claims), ed.public().1, Algorithm::EdDSA),
        };
        if round % 3 != 0 {
            let at = next(text.len());
            let mut bytes = text.into_bytes();
            bytes[at] = b"ABCab0-_."[next(9)];
            text = String::from_utf8(bytes).unwrap();
        }
        let is_ours =
            read(&text).is_ok_and(|text| text.verify(&ours).is_ok() && text.claims().is_ok());
        let jwk: jsonwebtoken::jwk::Jwk = serde_json::from_str(&ours.canonical_jwk()).unwrap();
        let theirs = DecodingKey::from_jwk(&jwk).unwrap();
        let is_theirs = decode::<Value>(&text, &theirs, &Validation::new(algorithm)).is_ok();
        assert_eq!(is_ours, is_theirs, "{text}");
        agreed[usize::from(is_ours)] += 1;
    }
    assert!(agreed[0] > 200 && agreed[1] > 180, "{agreed:?}");
}
