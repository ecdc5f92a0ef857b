use serde_json::{Value, json};

use super::*;
use crate::testing::TestKey;

const NOW: u64 = 1_700_000_000_000;

struct Case {
    signer: TestKey,
    nonces: NonceKey,
    uris: Vec<String>,
    token: Option<&'static str>,
    method: &'static str,
}

impl Case {
    fn new() -> Case {
        Case {
            signer: TestKey::new(),
            nonces: NonceKey::new(&[1; 32]),
            uris: vec!["https://gate.example/mcp/files".into()],
            token: Some("a.b.c"),
            method: "POST",
        }
    }

    fn header(&self) -> Value {
        json!({ "typ": "dpop+jwt", "alg": "ES256", "jwk": self.signer.jwk() })
    }

    fn claims(&self) -> Value {
        json!({
            "jti": "-BwC3ESc6acc2lTc", "htm": "POST", "htu": "https://gate.example/mcp/files",
            "iat": NOW / 1000, "nonce": self.nonces.nonce(NOW),
            "ath": to_base64url(&sha256(b"a.b.c").0),
        })
    }

    fn check(&self, proof: &str) -> Result<GoodProof, ProofError> {
        let expected = ExpectedProof {
            method: self.method,
            uris: &self.uris,
            token: self.token,
            nonces: &self.nonces,
            now_unix_ms: NOW,
        };
        check_proof(proof, &expected)
    }

    fn with(&self, header: &Value, claims: &Value) -> Result<GoodProof, ProofError> {
        self.check(&self.signer.sign(&header.to_string(), &claims.to_string()))
    }
}

#[test]
fn a_good_proof_names_its_key_and_its_id() {
    let case = Case::new();
    let good = case.with(&case.header(), &case.claims()).unwrap();
    assert_eq!(good.key, case.signer.public());
    let again = case.with(&case.header(), &case.claims()).unwrap();
    assert_eq!(good.once, again.once);
    let mut other = case.claims();
    other["jti"] = "other".into();
    assert_ne!(case.with(&case.header(), &other).unwrap().once, good.once);
    // The same id of another key is another.
    let stranger = Case::new();
    let theirs = stranger
        .with(&stranger.header(), &stranger.claims())
        .unwrap();
    assert_ne!(theirs.once, good.once);
}

#[test]
fn each_claim_that_is_wrong_is_refused() {
    let case = Case::new();
    let old_nonce = case.nonces.nonce(NOW - 2 * NONCE_WINDOW_MS);
    let other_boot = NonceKey::new(&[2; 32]).nonce(NOW);
    let claim = |name| ProofError::Bad(JoseError::Claim(name));
    for (name, value, why) in [
        ("jti", json!(null), claim("jti")),
        ("jti", json!(""), claim("jti")),
        ("jti", json!("x".repeat(257)), claim("jti")),
        ("htm", json!("GET"), ProofError::Method),
        ("htm", json!("post"), ProofError::Method),
        ("htm", json!(1), claim("htm")),
        (
            "htu",
            json!("https://gate.example/mcp/other"),
            ProofError::Uri,
        ),
        (
            "htu",
            json!("http://gate.example/mcp/files"),
            ProofError::Uri,
        ),
        ("htu", json!("/mcp/files"), ProofError::Uri),
        ("iat", json!(NOW / 1000 - 121), ProofError::Time),
        ("iat", json!(NOW / 1000 + 31), ProofError::Time),
        ("iat", json!("now"), claim("iat")),
        ("ath", json!(null), claim("ath")),
        (
            "ath",
            json!(to_base64url(&sha256(b"a.b.d").0)),
            ProofError::Token,
        ),
        ("nonce", json!(""), ProofError::Nonce),
        ("nonce", json!("AAAA"), ProofError::Nonce),
        ("nonce", json!(old_nonce), ProofError::Nonce),
        ("nonce", json!(other_boot), ProofError::Nonce),
    ] {
        let mut claims = case.claims();
        claims[name] = value;
        let refused = case.with(&case.header(), &claims).map(drop);
        assert_eq!(refused, Err(why), "{claims}");
    }
    for name in ["jti", "htm", "htu", "iat", "ath", "nonce"] {
        let mut claims = case.claims();
        claims.as_object_mut().unwrap().remove(name);
        assert!(case.with(&case.header(), &claims).is_err(), "{name}");
    }
    let mut last_window = case.claims();
    last_window["nonce"] = case.nonces.nonce(NOW - NONCE_WINDOW_MS).into();
    assert!(case.with(&case.header(), &last_window).is_ok());
    let no_token = Case {
        token: None,
        ..Case::new()
    };
    let refused = no_token
        .with(&no_token.header(), &no_token.claims())
        .map(drop);
    assert_eq!(refused, Err(ProofError::Token));
}

#[test]
fn each_header_that_is_wrong_is_refused() {
    let case = Case::new();
    let stranger = TestKey::new();
    let mut private = case.signer.jwk();
    private["d"] = "AQ".into();
    for (name, value, why) in [
        ("typ", json!("JWT"), JoseError::Type),
        ("typ", json!(null), JoseError::Claim("typ")),
        ("alg", json!("none"), JoseError::Algorithm),
        ("alg", json!("HS256"), JoseError::Algorithm),
        ("alg", json!("ES384"), JoseError::KeyMismatch),
        ("jwk", stranger.jwk(), JoseError::Signature),
        ("jwk", private, JoseError::PrivateKey),
        (
            "jwk",
            json!({ "kty": "oct", "k": "AQAB" }),
            JoseError::PrivateKey,
        ),
        ("jwk", json!("x"), JoseError::Json),
        ("crit", json!(["jti"]), JoseError::Critical),
        ("jku", json!("https://evil.example"), JoseError::EmbeddedKey),
    ] {
        let mut header = case.header();
        header[name] = value;
        let refused = case.with(&header, &case.claims()).map(drop);
        assert_eq!(refused, Err(ProofError::Bad(why)), "{header}");
    }
    let mut bare = case.header();
    bare.as_object_mut().unwrap().remove("jwk");
    assert!(case.with(&bare, &case.claims()).is_err());
    assert!(case.check("").is_err() && case.check("a, b").is_err());
    let good = case
        .signer
        .sign(&case.header().to_string(), &case.claims().to_string());
    assert!(case.check(&format!("{good},{good}")).is_err());
}

/// RFC 9449 §4.2, figure 2, which has no nonce: all that is asked before the nonce is good.
#[test]
fn the_example_of_the_document_lacks_a_nonce_alone() {
    let proof = "eyJ0eXAiOiJkcG9wK2p3dCIsImFsZyI6IkVTMjU2IiwiandrIjp7Imt0eSI6IkVDIiwieCI6Imw4dEZyaHgtMzR0VjNoUklDUkRZOXpDa0RscEJoRjQyVVFVZldWQVdCRnMiLCJ5IjoiOVZFNGpmX09rX282NHpiVFRsY3VOSmFqSG10NnY5VERWclUwQ2R2R1JEQSIsImNydiI6IlAtMjU2In19.eyJqdGkiOiItQndDM0VTYzZhY2MybFRjIiwiaHRtIjoiUE9TVCIsImh0dSI6Imh0dHBzOi8vc2VydmVyLmV4YW1wbGUuY29tL3Rva2VuIiwiaWF0IjoxNTYyMjYyNjE2fQ.2-GxA6T8lP4vfrg8v-FdWP0A0zdrj8igiMLvqRMUvwnQg4PtFLbdLXiOSsX0x7NVY-FNyJK70nfbV37xRZT3Lg";
    let check = |method, uri: &str| {
        let expected = ExpectedProof {
            method,
            uris: &[uri.to_owned()],
            token: None,
            nonces: &NonceKey::new(&[0; 32]),
            now_unix_ms: 1_562_262_616_000,
        };
        check_proof(proof, &expected).map(drop)
    };
    let uri = "https://server.example.com/token";
    assert_eq!(check("POST", uri), Err(ProofError::Nonce));
    assert_eq!(check("GET", uri), Err(ProofError::Method));
    assert_eq!(
        check("POST", "https://server.example.com/other"),
        Err(ProofError::Uri)
    );
    // §7.1: the hash of the token there.
    let token = b"Kz~8mXK1EalYznwH-LC-1fBAo.4Ljp~zsPE_NeO.gxU";
    assert_eq!(
        to_base64url(&sha256(token).0),
        "fUHyO2r2Z3DZ53EsNrWBb0xWXoaNy59IiKCAqksmQEo"
    );
}
