//! Certificates for tests: an authority, and what it signs.

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose, date_time_ymd,
};

/// Signs certificates.
pub struct Authority {
    pub pem: String,
    issuer: CertifiedIssuer<'static, KeyPair>,
}

/// A certificate and its key, as PEM.
pub struct Leaf {
    pub certificate: String,
    pub key: String,
}

impl Authority {
    pub fn new() -> Authority {
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
    pub fn and(&self, other: &Authority) -> Authority {
        Authority {
            pem: format!("{}{}", self.pem, other.pem),
            ..Authority::new()
        }
    }

    pub fn server(&self, names: &[&str]) -> Leaf {
        self.sign(names, ExtendedKeyUsagePurpose::ServerAuth, (2020, 2090))
    }

    pub fn client(&self, names: &[&str]) -> Leaf {
        self.sign(names, ExtendedKeyUsagePurpose::ClientAuth, (2020, 2090))
    }

    pub fn expired(&self, names: &[&str]) -> Leaf {
        self.sign(names, ExtendedKeyUsagePurpose::ClientAuth, (2020, 2021))
    }

    pub fn not_yet(&self, names: &[&str]) -> Leaf {
        self.sign(names, ExtendedKeyUsagePurpose::ClientAuth, (2089, 2090))
    }

    fn sign(&self, names: &[&str], usage: ExtendedKeyUsagePurpose, years: (i32, i32)) -> Leaf {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.extended_key_usages = vec![usage];
        params.not_before = date_time_ymd(years.0, 1, 1);
        params.not_after = date_time_ymd(years.1, 1, 1);
        let key = KeyPair::generate().unwrap();
        Leaf {
            certificate: params.signed_by(&key, &self.issuer).unwrap().pem(),
            key: key.serialize_pem(),
        }
    }
}

impl Leaf {
    pub fn self_signed(name: &str) -> Leaf {
        let made = rcgen::generate_simple_self_signed(vec![name.to_owned()]).unwrap();
        Leaf {
            certificate: made.cert.pem(),
            key: made.signing_key.serialize_pem(),
        }
    }
}
