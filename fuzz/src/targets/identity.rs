//! JOSE texts, DPoP proofs, certificates and requests for them, as strangers send them.

use identity::certificate::{CertificateRequest, ClientCertificate, SpiffeId};
use identity::dpop::{ExpectedProof, NonceKey, check_proof};
use identity::jws::{HeaderKey, KeySet, SignedText};
use identity::public_key::PublicKey;
use identity::uri::same_resource;

/// Tokens, keys and sets of keys: a key that is taken reads again as itself.
pub fn identity_jose(data: &[u8]) {
    if let Ok(key) = PublicKey::from_jwk_text(data) {
        let again = PublicKey::from_jwk_text(key.canonical_jwk().as_bytes());
        assert!(again.is_ok_and(|again| again.thumbprint() == key.thumbprint()));
    }
    let _ = KeySet::read(data);
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    if let Ok(signed) = SignedText::read(text, HeaderKey::Refused) {
        assert!(signed.header.jwk.is_none() && text.matches('.').count() == 2);
        let _ = signed.claims();
    }
    if let Some((one, other)) = text.split_once('\n') {
        assert_eq!(same_resource(one, other), same_resource(other, one));
    }
}

/// Proofs: nobody guesses a nonce.
pub fn identity_proof(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let uris = ["https://gate.example/mcp".to_owned()];
    let nonces = NonceKey::new(&[7; 32]);
    let expected = ExpectedProof {
        method: "POST",
        uris: &uris,
        token: None,
        nonces: &nonces,
        now_unix_ms: 1_800_000_000_000,
    };
    assert!(check_proof(text, &expected).is_err());
}

/// Certificates and requests for them.
pub fn identity_x509(data: &[u8]) {
    if let Ok(read) = ClientCertificate::read(data) {
        assert_eq!(SpiffeId::read(&read.id.to_string()), Some(read.id));
    }
    let id = SpiffeId::read("spiffe://example.org/agent/a").expect("an id");
    if let Ok(request) = CertificateRequest::read(data, &id) {
        assert!(PublicKey::from_spki(&request.spki).is_ok());
    }
    let _ = PublicKey::from_spki(data);
}
