use serde_json::{Value, json};

use super::*;

fn read(jwk: &Value) -> Result<PublicKey, JoseError> {
    PublicKey::from_jwk_text(jwk.to_string().as_bytes())
}

fn unhex(text: &str) -> Vec<u8> {
    let digit = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).unwrap();
    (0..text.len()).step_by(2).map(digit).collect()
}

#[test]
fn thumbprints_are_those_of_the_documents() {
    // RFC 7638 §3.1.
    let rsa = json!({
        "kty": "RSA", "alg": "RS256", "kid": "2011-04-29", "e": "AQAB",
        "n": "0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6tSoc_BJECPebWKRXjBZCiFV4n3oknjhMstn64tZ_2W-5JsGY4Hc5n9yBXArwl93lqt7_RN5w6Cf0h4QyQ5v-65YGjQR0_FDW2QvzqY368QQMicAtaSqzs8KJZgnYb9c7d0zgdAZHzu6qMQvRL5hajrn1n91CbOpbISD08qNLyrdkt-bFTWhAI4vMQFh6WeZu0fM4lFd2NcRwr3XPksINHaQ-G_xBniIqbw0Ls1jF44-csFCur-kEgU8awapJzKnqDKgw",
    });
    assert_eq!(
        read(&rsa).unwrap().thumbprint_text(),
        "NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs"
    );
    // RFC 8037 §A.3.
    let okp = json!({
        "kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo",
    });
    assert_eq!(
        read(&okp).unwrap().thumbprint_text(),
        "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"
    );
    // RFC 9449 §6.1.
    let ec = json!({
        "kty": "EC", "crv": "P-256",
        "x": "l8tFrhx-34tV3hRICRDY9zCkDlpBhF42UQUfWVAWBFs",
        "y": "9VE4jf_Ok_o64zbTTlcuNJajHmt6v9TDVrU0CdvGRDA",
    });
    let ec = read(&ec).unwrap();
    assert_eq!(
        ec.thumbprint_text(),
        "0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I"
    );
    assert_eq!(
        PublicKey::from_jwk_text(ec.canonical_jwk().as_bytes()),
        Ok(ec)
    );
}

#[test]
fn keys_that_are_not_public_are_refused() {
    let with = |name: &str, value: &str| {
        let mut jwk = json!({
            "kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo",
        });
        jwk[name] = value.into();
        read(&jwk).err()
    };
    for name in ["d", "p", "q", "dp", "dq", "qi", "oth", "k"] {
        assert_eq!(with(name, "AQ"), Some(JoseError::PrivateKey), "{name}");
    }
    let symmetric = json!({ "kty": "oct", "k": "AQAB" });
    assert_eq!(read(&symmetric).err(), Some(JoseError::PrivateKey));
    assert_eq!(
        with("use", "enc"),
        Some(JoseError::Key("is not for signatures"))
    );
    assert_eq!(
        with("use", "x509-svid"),
        Some(JoseError::Key("is not for signatures"))
    );
    assert_eq!(with("use", "jwt-svid"), None);
    assert_eq!(with("alg", "none"), Some(JoseError::Algorithm));
    assert_eq!(with("alg", "HS256"), Some(JoseError::Algorithm));
    assert_eq!(with("alg", "ES256"), Some(JoseError::KeyMismatch));
    assert_eq!(with("alg", "EdDSA"), None);
    let mut signs = json!({
        "kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo",
    });
    signs["key_ops"] = json!(["sign"]);
    assert!(read(&signs).is_err());
    signs["key_ops"] = json!(["sign", "verify"]);
    assert!(read(&signs).is_ok());
}

#[test]
fn weak_and_malformed_keys_are_refused() {
    let x = "l8tFrhx-34tV3hRICRDY9zCkDlpBhF42UQUfWVAWBFs";
    let zeros = "A".repeat(43);
    let modulus = |bytes: usize, first: u8| {
        let mut n = vec![0xab; bytes];
        n[0] = first;
        to_base64url(&n)
    };
    for jwk in [
        json!({ "kty": "EC", "crv": "P-256", "x": x, "y": x }),
        json!({ "kty": "EC", "crv": "P-256", "x": zeros, "y": zeros }),
        json!({ "kty": "EC", "crv": "P-384", "x": x, "y": x }),
        json!({ "kty": "EC", "crv": "secp256k1", "x": x, "y": x }),
        json!({ "kty": "EC", "crv": "P-256", "x": x }),
        json!({ "kty": "EC", "crv": "P-256", "x": 1, "y": 2 }),
        json!({ "kty": "OKP", "crv": "X25519", "x": x }),
        json!({ "kty": "OKP", "crv": "Ed25519", "x": "AQ" }),
        json!({ "kty": "RSA", "e": "AQAB", "n": modulus(128, 0xff) }),
        json!({ "kty": "RSA", "e": "AQAB", "n": modulus(256, 0x7f) }),
        json!({ "kty": "RSA", "e": "AQAB", "n": modulus(257, 0) }),
        json!({ "kty": "RSA", "e": "AQAB", "n": modulus(513, 0xff) }),
        json!({ "kty": "RSA", "e": "AQ", "n": modulus(256, 0xff) }),
        json!({ "kty": "RSA", "e": "Aw", "n": modulus(256, 0xff) }),
        json!({ "kty": "RSA", "e": "AQAA", "n": modulus(256, 0xff) }),
        json!({ "kty": "AKP", "x": x }),
        json!({}),
        json!([]),
    ] {
        assert!(read(&jwk).is_err(), "{jwk}");
    }
    assert!(read(&json!({ "kty": "RSA", "e": "AQAB", "n": modulus(256, 0xff) })).is_ok());
}

#[test]
fn an_algorithm_is_one_of_its_key() {
    let key = crate::testing::TestKey::new().public();
    assert!(key.may(JwsAlgorithm::Es256));
    for other in [
        JwsAlgorithm::Es384,
        JwsAlgorithm::EdDsa,
        JwsAlgorithm::Rs256,
        JwsAlgorithm::Ps256,
    ] {
        assert_eq!(key.verify(other, b"m", b"s"), Err(JoseError::KeyMismatch));
    }
    for name in [
        "none", "None", "HS256", "es256", "ES512", "RS1", "", "ES256K", "RSA-OAEP",
    ] {
        assert_eq!(JwsAlgorithm::of(name), None, "{name}");
    }
}

/// Holds our answers against a file of Wycheproof: all that is valid is taken, all that is invalid is not.
fn wycheproof(text: &str, algorithm: JwsAlgorithm, tests_min: usize) {
    let file: Value = serde_json::from_str(text).unwrap();
    let mut tests = 0;
    for group in file["testGroups"].as_array().unwrap() {
        let spki = unhex(group["publicKeyDer"].as_str().unwrap());
        let key = match PublicKey::from_spki(&spki) {
            Ok(key) => key,
            // Groups with the exponent 3, which is not taken.
            Err(error) => {
                assert_eq!(error, JoseError::Key("has an exponent that is not taken"));
                assert_eq!(group["publicKey"]["publicExponent"], "03");
                continue;
            }
        };
        for jwk in ["publicKeyJwk", "keyJwk"] {
            let mut jwk = group[jwk].clone();
            if let Some(members) = jwk.as_object_mut() {
                members.remove("alg");
                assert_eq!(read(&jwk), Ok(key.clone()));
            }
        }
        for test in group["tests"].as_array().unwrap() {
            let bytes = |name: &str| unhex(test[name].as_str().unwrap());
            let taken = key.verify(algorithm, &bytes("msg"), &bytes("sig")).is_ok();
            match test["result"].as_str().unwrap() {
                "valid" => assert!(taken, "{} {test}", file["algorithm"]),
                "invalid" => assert!(!taken, "{} {test}", file["algorithm"]),
                _ => {}
            }
            tests += 1;
        }
    }
    assert!(tests >= tests_min, "{tests}");
}

#[test]
fn signatures_of_wycheproof() {
    use wycheproof::{ecdsa, eddsa, rsa_pkcs1_verify as rsa, rsa_pss_verify as pss};
    let p256 = ecdsa::TestName::EcdsaSecp256r1Sha256P1363;
    wycheproof(p256.json_data(), JwsAlgorithm::Es256, 200);
    let p384 = ecdsa::TestName::EcdsaSecp384r1Sha384P1363;
    wycheproof(p384.json_data(), JwsAlgorithm::Es384, 200);
    wycheproof(
        eddsa::TestName::Ed25519.json_data(),
        JwsAlgorithm::EdDsa,
        100,
    );
    wycheproof(
        rsa::TestName::Rsa2048Sha256.json_data(),
        JwsAlgorithm::Rs256,
        200,
    );
    wycheproof(
        rsa::TestName::Rsa4096Sha256.json_data(),
        JwsAlgorithm::Rs256,
        200,
    );
    let salt = pss::TestName::RsaPss2048Sha256Mgf1SaltLen32;
    wycheproof(salt.json_data(), JwsAlgorithm::Ps256, 50);
}
