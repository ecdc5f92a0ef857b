//! Keys of the tests, and what they sign.

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use serde_json::{Value, json};

use crate::jose::to_base64url;

/// A P-256 key pair.
pub(crate) struct TestKey(pub EcdsaKeyPair);

impl TestKey {
    pub(crate) fn new() -> TestKey {
        TestKey(EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap())
    }

    pub(crate) fn jwk(&self) -> Value {
        let (x, y) = self.0.public_key().as_ref()[1..].split_at(32);
        json!({ "kty": "EC", "crv": "P-256", "x": to_base64url(x), "y": to_base64url(y) })
    }

    pub(crate) fn public(&self) -> crate::public_key::PublicKey {
        crate::public_key::PublicKey::from_jwk_text(self.jwk().to_string().as_bytes()).unwrap()
    }

    /// Signs texts as they are, which need not be good.
    pub(crate) fn sign(&self, header: &str, payload: &str) -> String {
        let header = to_base64url(header.as_bytes());
        let signed = format!("{header}.{}", to_base64url(payload.as_bytes()));
        let signature = self
            .0
            .sign(&SystemRandom::new(), signed.as_bytes())
            .unwrap();
        format!("{signed}.{}", to_base64url(signature.as_ref()))
    }
}
