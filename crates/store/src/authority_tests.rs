use identity::certificate::ClientCertificate;

use super::*;
use crate::directory::RevokedEntry;

const NOW: u64 = 1_790_000_000_000;
const PASSPHRASE: &str = "correct horse battery";
const ROOT_PASSPHRASE: &str = "the root's own phrase";

fn files() -> (tempfile::TempDir, AuthorityFiles) {
    let folder = tempfile::tempdir().unwrap();
    let files = AuthorityFiles::of_state(folder.path());
    (folder, files)
}

fn secret(text: &str) -> Secret {
    Secret::new(text.to_owned())
}

fn sealed(passphrase: &Secret) -> NewKey<'_> {
    NewKey::Sealed { passphrase }
}

fn id() -> SpiffeId {
    SpiffeId::read("spiffe://example.org/agent/build").unwrap()
}

fn request() -> CertificateRequest {
    let key = KeyPair::generate().unwrap();
    let der = CertificateParams::default()
        .serialize_request(&key)
        .unwrap();
    CertificateRequest::read(der.der(), &id()).unwrap()
}

#[test]
fn a_leaf_names_its_agent_and_an_intermediate_is_replaced() {
    let (_folder, files) = files();
    assert!(matches!(files.view(), Err(AuthorityError::Missing(_))));
    files
        .init(
            "example.org",
            sealed(&secret(ROOT_PASSPHRASE)),
            sealed(&secret(PASSPHRASE)),
            NOW,
        )
        .unwrap();
    let twice = files.init(
        "example.org",
        sealed(&secret(PASSPHRASE)),
        sealed(&secret(PASSPHRASE)),
        NOW,
    );
    assert!(matches!(twice, Err(AuthorityError::Exists(_))));
    assert!(matches!(
        files.open(&secret("another passphrase")),
        Err(AuthorityError::Key(..))
    ));
    let authority = files.open(&secret(PASSPHRASE)).unwrap();
    let issued = authority.issue(&request(), &id(), NOW, 3_600_000).unwrap();
    let der = unpem("CERTIFICATE", &issued.chain_pem).unwrap();
    let read = ClientCertificate::read(&der).unwrap();
    assert_eq!((read.id, read.thumbprint), (id(), issued.digest));
    assert_eq!(
        (read.serial, read.expires_unix_ms),
        (issued.serial, issued.expires_unix_ms)
    );
    assert_eq!(issued.chain_pem.matches("BEGIN CERTIFICATE").count(), 2);

    let before = files.view().unwrap();
    let after = files
        .rotate(&secret(ROOT_PASSPHRASE), sealed(&secret(PASSPHRASE)), NOW)
        .unwrap();
    assert_eq!(before.root_pem, after.root_pem);
    assert_ne!(before.intermediate_pem, after.intermediate_pem);
    assert!(files.open(&secret(PASSPHRASE)).is_ok());
    assert!(
        files
            .rotate(&secret(PASSPHRASE), sealed(&secret(PASSPHRASE)), NOW)
            .is_err()
    );
}

#[test]
fn keys_of_agents_are_not_certified_for_more_than_they_are() {
    let (_folder, files) = files();
    files
        .init(
            "example.org",
            sealed(&secret(PASSPHRASE)),
            sealed(&secret(PASSPHRASE)),
            NOW,
        )
        .unwrap();
    let authority = files.open(&secret(PASSPHRASE)).unwrap();
    for algorithm in [
        &rcgen::PKCS_ED25519,
        &rcgen::PKCS_ECDSA_P384_SHA384,
        &rcgen::PKCS_RSA_SHA256,
    ] {
        let key = KeyPair::generate_for(algorithm).unwrap();
        let mut asked = CertificateParams::default();
        asked.distinguished_name.push(DnType::CommonName, "root");
        let der = asked.serialize_request(&key).unwrap();
        let request = CertificateRequest::read(der.der(), &id()).unwrap();
        let issued = authority.issue(&request, &id(), NOW, 60_000).unwrap();
        let der = unpem("CERTIFICATE", &issued.chain_pem).unwrap();
        assert!(
            der.windows(request.spki.len())
                .any(|bytes| bytes == request.spki),
            "{algorithm:?}"
        );
        assert!(ClientCertificate::read(&der).is_ok());
    }
}

#[test]
fn a_list_names_what_was_taken_back() {
    let (_folder, files) = files();
    files
        .init(
            "example.org",
            sealed(&secret(PASSPHRASE)),
            sealed(&secret(PASSPHRASE)),
            NOW,
        )
        .unwrap();
    let authority = files.open(&secret(PASSPHRASE)).unwrap();
    let revoked = [RevokedEntry {
        id: "4a0b".into(),
        at_unix_ms: NOW,
        until_unix_ms: NOW + 1,
    }];
    let list = authority.revocation_list(&revoked, 3, NOW).unwrap();
    let der = unpem("X509 CRL", &list).unwrap();
    assert!(der.windows(4).any(|bytes| bytes == [2, 2, 0x4a, 0x0b]));
}

#[test]
fn a_record_of_a_module_that_is_none_is_told() {
    let (folder, files) = files();
    let passphrase = secret(PASSPHRASE);
    files
        .init("example.org", sealed(&passphrase), sealed(&passphrase), NOW)
        .unwrap();
    let record = folder.path().join(CA_FOLDER).join("intermediate.pkcs11");
    for text in [
        "",
        "{}",
        r#"{"module":"/m.so","token":"t","label":"l","id":"00","point":"04","pin":"1234"}"#,
    ] {
        std::fs::write(&record, text).unwrap();
        let opened = files.open(&passphrase).map(drop);
        assert!(matches!(opened, Err(AuthorityError::Damaged(..))), "{text}");
    }
    let text = r#"{"module":"/m.so","token":"t","label":"l","id":"00","point":"0403"}"#;
    std::fs::write(&record, text).unwrap();
    let opened = files.open(&passphrase).map(drop);
    assert!(matches!(opened, Err(AuthorityError::Module(_))));
}
