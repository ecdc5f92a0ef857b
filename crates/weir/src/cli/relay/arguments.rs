//! What the relay's commands take as arguments: keys, certificates, places, and where the log is.
//!
//! Each is a text of the command line, or names a file that is read here; a failure names the flag or the file.

use std::path::{Path, PathBuf};

use base::{Name, Secret};
use seal::keytext;

use super::keys;
use crate::cli::{Failure, state_folder};
use crate::config::settings::Ca;
use crate::config::settings::relay::{Certified, Enrolled, Mutual, Place};
use crate::config::{Seen, read, values};

/// The name of the inbound that a command line asks for.
pub(super) const PEER: &str = "peer";

/// The certificate, key and authorities of these files; nothing where none is named.
pub(super) fn mutual(files: [&Option<PathBuf>; 3]) -> Result<Option<Mutual>, Failure> {
    let [Some(certificate), Some(key), Some(ca)] = files else {
        return Ok(None);
    };
    let text = |file: &Path| {
        let failed = |message| Failure::new(format!("{} {message}", file.display()), "");
        read::read_text(file, crate::config::SECRET_BYTES_MAX * 16).map_err(failed)
    };
    let pem = |file: &Path| {
        Ok(Ca {
            file: file.to_path_buf(),
            pem: text(file)?,
        })
    };
    let mutual = Mutual {
        certificate: pem(certificate)?,
        key: Secret::new(text(key)?),
        ca: pem(ca)?,
        // Who needs lists needs a file that is read again.
        crl: None,
    };
    let files = [certificate, key, ca].map(|file| file.display().to_string());
    mutual
        .check()
        .map_err(|error| Failure::new(format!("{}: {error}", files.join(", ")), ""))?;
    Ok(Some(mutual))
}

/// Looks at files that are named.
pub(super) fn note<'f>(seen: &mut Seen, files: impl IntoIterator<Item = &'f Option<PathBuf>>) {
    for path in files.into_iter().flatten() {
        seen.note(path);
    }
}

/// The files among arguments that are keys, or name them.
pub(super) fn seen<'a>(arguments: impl Iterator<Item = &'a str>) -> Seen {
    let mut seen = Seen::default();
    for text in arguments {
        let path = Path::new(text.strip_prefix("file:").unwrap_or(text));
        if !keytext::begins_as_key(text) && !text.starts_with("env:") && path.is_file() {
            seen.note(path);
        }
    }
    seen
}

/// Who is asked, as a command line says it.
pub(super) struct Ask<'a> {
    pub url: &'a str,
    pub address: &'a [base::AddressRange],
    pub ca: Option<&'a Path>,
}

impl Ask<'_> {
    /// The place, by this name. `flag` names the url in errors.
    pub(super) fn place(&self, place: &str, flag: &str) -> Result<Place, Failure> {
        let wrong = |message: String| Failure::new(format!("{flag} {message}"), "");
        let url = values::url(self.url).map_err(wrong)?;
        if url.path != "/" {
            return Err(wrong(
                "must have no path: that of the request is kept".to_owned(),
            ));
        }
        let ca = match self.ca {
            Some(file) => Some(Ca {
                file: file.to_path_buf(),
                pem: read::read_text(file, crate::config::SECRET_BYTES_MAX * 16)
                    .map_err(|message| Failure::new(format!("{} {message}", file.display()), ""))?,
            }),
            None => None,
        };
        // An address that was typed is meant; a name has to lead to a public one, or to those of --address.
        let typed = url.host.parse().ok().map(|address| {
            let text = std::net::IpAddr::to_string(&address);
            base::AddressRange::parse(&text).expect("an address is a range of one")
        });
        Ok(Place {
            name: name(place),
            url,
            ca,
            http2: false,
            addresses: self.address.iter().copied().chain(typed).collect(),
        })
    }
}

pub(super) fn name(text: &str) -> Name {
    Name::new(text).expect("the words of this file are names")
}

pub(super) fn psk_of(text: Option<&str>) -> Result<Option<Secret>, Failure> {
    let Some(text) = text else {
        return Ok(None);
    };
    let held = keys::secret("--psk", text)?;
    keytext::psk(held.expose())
        .map_err(|message| Failure::new(format!("--psk: the secret {message}"), ""))?;
    Ok(Some(held))
}

pub(super) fn token_of(text: &str) -> Result<Secret, Failure> {
    let held = keys::secret("--join-token", text)?;
    seal::JoinToken::new(held.expose().as_bytes()).map_err(|error| {
        Failure::new(
            format!("--join-token: {error}"),
            "openssl rand -hex 16 makes a good one.",
        )
    })?;
    Ok(held)
}

/// `NAME=KEY`, or a key that is named by its peer id.
pub(super) fn enrolled(text: &str, psk: Option<Secret>) -> Result<Enrolled, Failure> {
    let named = text.split_once('=').filter(|_| !Path::new(text).exists());
    let (given, key) = match named.and_then(|(name, key)| Some((Name::new(name)?, key))) {
        Some((name, key)) => (Some(name), key),
        None => (None, text),
    };
    let public = keys::public(key, |text| match keytext::pin(text) {
        Ok(_) => {
            Err("is a pin or an id; the whole public key is needed to answer a peer".to_owned())
        }
        Err(_) => keytext::public(text),
    })?;
    let short: String = public.peer_id().to_string().chars().take(16).collect();
    Ok(Enrolled {
        name: given.unwrap_or_else(|| name(&short)),
        public,
        groups: Vec::new(),
        psk,
        sessions_after_unix_ms: 0,
    })
}

/// `NAME=SUBJECT`, or a subject that is its own name in the log, with `-` for what a name cannot have.
pub(super) fn certified(text: &str) -> Result<Certified, Failure> {
    let named = text.split_once('=');
    let named = named.and_then(|(name, subject)| Some((Name::new(name)?, subject)));
    let (given, subject) = named.map_or((None, text), |(name, subject)| (Some(name), subject));
    if net::mutual::PeerName::new(subject).is_none() {
        return Err(Failure::new(
            format!("--allow {text:?} must be a DNS name without *, or an IP address"),
            "It is one of the alternative names of the outbound's certificate.",
        ));
    }
    let good = |char: char| match char.is_ascii_alphanumeric() {
        true => char.to_ascii_lowercase(),
        false => '-',
    };
    let own = || Name::new(&subject.chars().map(good).collect::<String>());
    let no_name = || Failure::new(format!("--allow {text:?} needs a NAME= before it"), "");
    Ok(Certified {
        name: given.or_else(own).ok_or_else(no_name)?,
        groups: Vec::new(),
        certificate_name: subject.to_owned(),
    })
}

/// Where programs keep what outlives them (XDG Base Directory Specification).
pub(super) fn state(named: Option<&Path>, what: &str) -> Result<PathBuf, Failure> {
    if let Some(state) = named {
        return Ok(state.to_path_buf());
    }
    Ok(state_folder("relay")?.join(what))
}
