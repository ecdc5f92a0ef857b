//! Certificates for tests: an authority, and what it signs.

use std::sync::atomic::{AtomicU64, Ordering};

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CertifiedIssuer, DnType,
    ExtendedKeyUsagePurpose, IsCa, KeyIdMethod, KeyPair, KeyUsagePurpose, RevokedCertParams,
    SerialNumber, date_time_ymd,
};

/// Signs certificates.
pub(crate) struct Authority {
    pub pem: String,
    issuer: CertifiedIssuer<'static, KeyPair>,
}

/// A certificate and its key, as PEM.
pub(crate) struct Leaf {
    pub certificate: String,
    pub key: String,
    /// As its authority numbered it; 0 where there is none.
    pub serial: u64,
}

impl Authority {
    pub(crate) fn new() -> Authority {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params
            .distinguished_name
            .push(DnType::CommonName, "test authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        Authority {
            pem: issuer.pem(),
            issuer,
        }
    }

    /// One that is trusted as both are.
    pub(crate) fn and(&self, other: &Authority) -> Authority {
        Authority {
            pem: format!("{}{}", self.pem, other.pem),
            ..Authority::new()
        }
    }

    pub(crate) fn server(&self, names: &[&str]) -> Leaf {
        self.sign(names, ExtendedKeyUsagePurpose::ServerAuth, (2020, 2090))
    }

    pub(crate) fn client(&self, names: &[&str]) -> Leaf {
        self.sign(names, ExtendedKeyUsagePurpose::ClientAuth, (2020, 2090))
    }

    pub(crate) fn expired(&self, names: &[&str]) -> Leaf {
        self.sign(names, ExtendedKeyUsagePurpose::ClientAuth, (2020, 2021))
    }

    pub(crate) fn not_yet(&self, names: &[&str]) -> Leaf {
        self.sign(names, ExtendedKeyUsagePurpose::ClientAuth, (2089, 2090))
    }

    fn sign(&self, names: &[&str], usage: ExtendedKeyUsagePurpose, years: (i32, i32)) -> Leaf {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.extended_key_usages = vec![usage];
        params.not_before = date_time_ymd(years.0, 1, 1);
        params.not_after = date_time_ymd(years.1, 1, 1);
        static SERIALS: AtomicU64 = AtomicU64::new(1);
        let serial = SERIALS.fetch_add(1, Ordering::Relaxed);
        params.serial_number = Some(SerialNumber::from(serial));
        let key = KeyPair::generate().unwrap();
        Leaf {
            certificate: params.signed_by(&key, &self.issuer).unwrap().pem(),
            key: key.serialize_pem(),
            serial,
        }
    }

    /// A list, good until this year, of certificates that are no more, as PEM.
    pub(crate) fn revoked(&self, leaves: &[&Leaf], until: i32) -> String {
        let revoked = leaves.iter().map(|leaf| RevokedCertParams {
            serial_number: SerialNumber::from(leaf.serial),
            revocation_time: date_time_ymd(2021, 1, 1),
            reason_code: None,
            invalidity_date: None,
        });
        let params = CertificateRevocationListParams {
            this_update: date_time_ymd(2021, 1, 1),
            next_update: date_time_ymd(until, 1, 1),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: revoked.collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        params.signed_by(&self.issuer).unwrap().pem().unwrap()
    }
}

impl Leaf {
    pub(crate) fn self_signed(name: &str) -> Leaf {
        let made = rcgen::generate_simple_self_signed(vec![name.to_owned()]).unwrap();
        Leaf {
            certificate: made.cert.pem(),
            key: made.signing_key.serialize_pem(),
            serial: 0,
        }
    }
}
