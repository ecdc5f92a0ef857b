use rcgen::{
    BasicConstraints as Constraints, CertificateParams, IsCa, KeyPair, KeyUsagePurpose, SanType,
};

use super::*;

fn id() -> SpiffeId {
    SpiffeId::read("spiffe://example.org/agent/build").unwrap()
}

fn uri(text: &str) -> SanType {
    SanType::URI(text.try_into().unwrap())
}

fn params(names: Vec<SanType>) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.subject_alt_names = names;
    params.not_after = rcgen::date_time_ymd(2030, 1, 1);
    params
}

fn read(params: &CertificateParams) -> Result<ClientCertificate, CertificateError> {
    let key = KeyPair::generate().unwrap();
    ClientCertificate::read(params.self_signed(&key).unwrap().der())
}

#[test]
fn a_certificate_names_one_agent() {
    let read_good = read(&params(vec![uri("spiffe://example.org/agent/build")])).unwrap();
    assert_eq!(read_good.id, id());
    assert_eq!(read_good.id.agent().unwrap().as_str(), "build");
    assert_eq!(read_good.expires_unix_ms, 1_893_456_000_000);
    let with_dns = SanType::DnsName("a.example".try_into().unwrap());
    let named = params(vec![with_dns, uri("spiffe://example.org/agent/build")]);
    assert_eq!(read(&named).unwrap().id, id());
}

#[test]
fn certificates_that_could_name_another_are_refused() {
    let good = || uri("spiffe://example.org/agent/build");
    let of = |names| read(&params(names)).map(drop);
    assert_eq!(of(vec![]), Err(CertificateError::NotOneUri));
    let two = vec![good(), uri("spiffe://example.org/agent/root")];
    assert_eq!(of(two), Err(CertificateError::NotOneUri));
    assert_eq!(of(vec![good(), good()]), Err(CertificateError::NotOneUri));
    let web = vec![uri("https://example.org/agent/build")];
    assert_eq!(of(web), Err(CertificateError::NotSpiffe));
    let mut authority = params(vec![good()]);
    authority.is_ca = IsCa::Ca(Constraints::Unconstrained);
    assert_eq!(
        read(&authority).map(drop),
        Err(CertificateError::IsAuthority)
    );
    let mut signs = params(vec![good()]);
    signs.key_usages = vec![KeyUsagePurpose::CrlSign];
    assert_eq!(read(&signs).map(drop), Err(CertificateError::IsAuthority));
    for bytes in [
        &b""[..],
        b"\x30\x00",
        b"x",
        &[0x30, 0x84, 0xff, 0xff, 0xff, 0xff],
    ] {
        assert_eq!(
            ClientCertificate::read(bytes).map(drop),
            Err(CertificateError::Malformed)
        );
    }
    let long = vec![0; CERTIFICATE_BYTES_MAX + 1];
    assert_eq!(
        ClientCertificate::read(&long).map(drop),
        Err(CertificateError::TooLarge)
    );
}

#[test]
fn a_spiffe_id_has_one_form() {
    for bad in [
        "",
        "spiffe://",
        "spiffe://example.org",
        "spiffe://example.org/",
        "spiffe://Example.org/agent/a",
        "spiffe:///agent/a",
        "spiffe://example.org:1/agent/a",
        "spiffe://u@example.org/agent/a",
        "spiffe://example.org/agent//a",
        "spiffe://example.org/agent/../a",
        "spiffe://example.org/agent/a/",
        "spiffe://example.org/agent/%61",
        "spiffe://example.org/agent/a?b",
        "SPIFFE://example.org/agent/a",
    ] {
        assert_eq!(SpiffeId::read(bad), None, "{bad}");
    }
    let other = SpiffeId::read("spiffe://example.org/ns/default/sa/x").unwrap();
    assert_eq!(other.agent(), None);
    let name = Name::new("build").unwrap();
    assert_eq!(SpiffeId::of_agent("example.org", &name), id());
}

fn request(params: &CertificateParams) -> Vec<u8> {
    let key = KeyPair::generate().unwrap();
    params.serialize_request(&key).unwrap().der().to_vec()
}

#[test]
fn a_request_is_for_its_own_name_and_signed_by_its_key() {
    let bare = request(&params(vec![]));
    assert!(CertificateRequest::read(&bare, &id()).is_ok());
    let named = request(&params(vec![uri("spiffe://example.org/agent/build")]));
    let read = CertificateRequest::read(&named, &id()).unwrap();
    assert_eq!(PublicKey::from_spki(&read.spki).unwrap(), read.key);
    let why = |der: &[u8]| CertificateRequest::read(der, &id()).map(drop);
    let other = request(&params(vec![uri("spiffe://example.org/agent/root")]));
    assert_eq!(why(&other), Err(CertificateError::OtherName));
    let dns = request(&params(vec![SanType::DnsName(
        "a.example".try_into().unwrap(),
    )]));
    assert!(why(&dns).is_err());
    let mut usage = params(vec![]);
    usage.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    assert_eq!(why(&request(&usage)), Err(CertificateError::TooMuch));
    let mut changed = named.clone();
    let last = changed.len() - 1;
    changed[last] ^= 1;
    assert!(why(&changed).is_err());
    assert_eq!(why(b"no"), Err(CertificateError::Malformed));
}

#[test]
fn a_request_brings_no_password_and_nothing_critical_that_is_not_known() {
    let key = KeyPair::generate().unwrap();
    let why = |der: &[u8]| CertificateRequest::read(der, &id()).map(drop);
    // A set of one UTF8String: "hunter2".
    let values = b"\x31\x09\x0c\x07hunter2".to_vec();
    let with = |oid: &'static [u64]| {
        let attribute = rcgen::Attribute {
            oid,
            values: values.clone(),
        };
        let made = params(vec![]).serialize_request_with_attributes(&key, vec![attribute]);
        why(made.unwrap().der())
    };
    assert_eq!(
        with(&[1, 2, 840, 113549, 1, 9, 7]),
        Err(CertificateError::Password)
    );
    // An unstructured name says nothing.
    assert_eq!(with(&[1, 2, 840, 113549, 1, 9, 2]), Ok(()));
    for (is_critical, read) in [
        (true, Err(CertificateError::UnknownCritical)),
        (false, Ok(())),
    ] {
        let mut extension =
            rcgen::CustomExtension::from_oid_content(&[1, 3, 6, 1, 4, 1, 99999, 1], vec![5, 0]);
        extension.set_criticality(is_critical);
        let mut asked = params(vec![]);
        asked.custom_extensions = vec![extension];
        assert_eq!(why(&request(&asked)), read);
    }
    let mut client = params(vec![]);
    client.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ClientAuth];
    client.distinguished_name = rcgen::DistinguishedName::new();
    assert_eq!(why(&request(&client)), Ok(()));
}

/// Requests that OpenSSL writes: a weak key, a key of RSA, and one that asks for the rights of an authority.
#[test]
fn keys_of_all_taken_kinds_sign_their_requests() {
    for algorithm in [
        &rcgen::PKCS_ECDSA_P256_SHA256,
        &rcgen::PKCS_ECDSA_P384_SHA384,
        &rcgen::PKCS_ED25519,
        &rcgen::PKCS_RSA_SHA256,
    ] {
        let key = KeyPair::generate_for(algorithm).unwrap();
        let der = params(vec![]).serialize_request(&key).unwrap();
        assert!(
            CertificateRequest::read(der.der(), &id()).is_ok(),
            "{algorithm:?}"
        );
    }
}
