use identity::certificate::ClientCertificate;

use super::*;
use crate::directory::RevokedEntry;

const NOW: u64 = 1_790_000_000_000;
const PASSPHRASE: &str = "correct horse battery";

fn files() -> (tempfile::TempDir, AuthorityFiles) {
    let folder = tempfile::tempdir().unwrap();
    let files = AuthorityFiles::of_state(folder.path());
    (folder, files)
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
        .init("example.org", "the root's own phrase", PASSPHRASE, NOW)
        .unwrap();
    let twice = files.init("example.org", PASSPHRASE, PASSPHRASE, NOW);
    assert!(matches!(twice, Err(AuthorityError::Exists(_))));
    assert!(matches!(
        files.open("another passphrase"),
        Err(AuthorityError::Key(..))
    ));
    let authority = files.open(PASSPHRASE).unwrap();
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
        .rotate("the root's own phrase", PASSPHRASE, NOW)
        .unwrap();
    assert_eq!(before.root_pem, after.root_pem);
    assert_ne!(before.intermediate_pem, after.intermediate_pem);
    assert!(files.open(PASSPHRASE).is_ok());
    assert!(files.rotate(PASSPHRASE, PASSPHRASE, NOW).is_err());
}

#[test]
fn keys_of_agents_are_not_certified_for_more_than_they_are() {
    let (_folder, files) = files();
    files
        .init("example.org", PASSPHRASE, PASSPHRASE, NOW)
        .unwrap();
    let authority = files.open(PASSPHRASE).unwrap();
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
        .init("example.org", PASSPHRASE, PASSPHRASE, NOW)
        .unwrap();
    let authority = files.open(PASSPHRASE).unwrap();
    let revoked = [RevokedEntry {
        id: "4a0b".into(),
        at_unix_ms: NOW,
        until_unix_ms: NOW + 1,
    }];
    let list = authority.revocation_list(&revoked, 3, NOW).unwrap();
    let der = unpem("X509 CRL", &list).unwrap();
    assert!(der.windows(4).any(|bytes| bytes == [2, 2, 0x4a, 0x0b]));
}
