//! Where a PostgreSQL server is and how it is reached, from the URL of libpq (its documentation, 34.1.1.2).
//!
//! Of `sslmode` there are two: `disable`, and `require`, which always checks the certificate and the name, as libpq's
//! `verify-full` does. Modes that fall back to plain text are refused. Without one, a socket of this machine is plain and
//! everything else is TLS.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use config::Reference;
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

use crate::tls::Tls;

/// Longest URL, in bytes.
const URL_BYTES_MAX: usize = 4096;
/// Largest file of root certificates, in bytes.
const ROOTS_BYTES_MAX: u64 = 1 << 20;
/// The port where a URL names none.
const PORT: u16 = 5432;

/// A PostgreSQL server, a database in it, and a role. Its debug form has no password.
#[derive(Clone)]
pub struct Target {
    pub(super) config: Config,
    pub(super) tls: Option<Tls>,
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Target({self})")
    }
}

/// `HOST/DATABASE`.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host = self.config.get_hosts().first();
        match host {
            Some(Host::Tcp(name)) => write!(f, "{name}")?,
            Some(Host::Unix(path)) => write!(f, "{}", path.display())?,
            None => write!(f, "?")?,
        }
        write!(f, "/{}", self.config.get_dbname().unwrap_or_default())
    }
}

impl Target {
    /// Whether a text is a URL of PostgreSQL.
    pub fn is_url(text: &str) -> bool {
        text.starts_with("postgres://") || text.starts_with("postgresql://")
    }

    /// Reads a URL, and the file of root certificates that it names.
    ///
    /// # Errors
    ///
    /// What is wrong with it. The URL is not repeated, since it may have a password.
    pub fn read(url: &str) -> Result<Target, String> {
        if !Target::is_url(url) || url.len() > URL_BYTES_MAX {
            return Err("must be a URL such as postgresql://weir@db.example/flow".to_owned());
        }
        let (url, own) = own_parameters(url)?;
        // What the driver says may repeat a part of the URL.
        let mut config = Config::from_str(&url)
            .map_err(|_| "is no URL that PostgreSQL's clients can read".to_owned())?;
        if config.get_hosts().is_empty() {
            return Err(
                "must name a host; a socket of this machine is host=/run/postgresql".into(),
            );
        }
        if config.get_dbname().is_none() {
            return Err("must name a database, such as postgresql://weir@db.example/flow".into());
        }
        let is_local = |host: &Host| matches!(host, Host::Unix(_));
        let is_socket = config.get_hosts().iter().all(is_local);
        let tls = match own.mode.as_deref() {
            Some("disable") => false,
            Some("require" | "verify-full") => true,
            None => !is_socket,
            Some(_) => {
                return Err(
                    "has an sslmode that may fall back to plain text or checks no name; write \
                     sslmode=verify-full, or sslmode=disable where nobody else has the network"
                        .to_owned(),
                );
            }
        };
        if tls && is_socket {
            return Err("asks for TLS on a Unix socket, which has none".to_owned());
        }
        config.ssl_mode(if tls {
            SslMode::Require
        } else {
            SslMode::Disable
        });
        config.application_name("weir");
        let roots = own.roots.as_deref();
        let roots = roots
            .map(|path| read_file(path, ROOTS_BYTES_MAX))
            .transpose()?;
        let tls = tls.then(|| Tls::trusting(roots.as_deref())).transpose()?;
        Ok(Target { config, tls })
    }

    /// What a person wrote of it: `env:NAME` or `file:PATH` of a URL, or a URL that has no password.
    ///
    /// # Errors
    ///
    /// What is wrong with it, without the URL.
    pub fn referred(text: &str) -> Result<Target, String> {
        if Target::is_url(text) {
            return Target::written(text);
        }
        let url = match Reference::parse(text)? {
            Reference::Env(name) => {
                std::env::var(&name).map_err(|_| format!("the variable {name} is not set"))?
            }
            Reference::File(path) => {
                let bytes = read_file(&path, URL_BYTES_MAX as u64 + 2)?;
                String::from_utf8(bytes).map_err(|_| "the file is no text".to_owned())?
            }
        };
        Target::read(url.trim_end_matches(['\r', '\n']))
    }

    /// A URL that stands where everybody may read it.
    ///
    /// # Errors
    ///
    /// As [`Target::read`], and a URL with a password.
    pub fn written(url: &str) -> Result<Target, String> {
        let target = Target::read(url)?;
        match target.has_password() {
            false => Ok(target),
            true => Err(
                "has a password in it; put the whole URL into a variable or a file and write \
                 env:NAME or file:PATH"
                    .to_owned(),
            ),
        }
    }

    /// The role, the server and the database: two targets of one name are one.
    pub fn name(&self) -> String {
        let role = self.config.get_user().unwrap_or_default();
        let ports: Vec<String> = self.config.get_ports().iter().map(u16::to_string).collect();
        format!("{role}@{self}:{}", ports.join(","))
    }

    /// The role that it connects as.
    pub fn role(&self) -> String {
        self.config.get_user().unwrap_or_default().to_owned()
    }

    /// Whether the URL had a password: it may be written where a secret may, and nowhere else.
    pub fn has_password(&self) -> bool {
        self.config.get_password().is_some()
    }

    /// Ports of TCP that a session connects to.
    pub fn ports(&self) -> Vec<u16> {
        let hosts = self.config.get_hosts();
        if !hosts.iter().any(|host| matches!(host, Host::Tcp(_))) {
            return Vec::new();
        }
        match self.config.get_ports() {
            [] => vec![PORT],
            ports => ports.to_vec(),
        }
    }
}

/// What the driver does not read.
#[derive(Default)]
struct OwnParameters {
    mode: Option<String>,
    roots: Option<PathBuf>,
}

/// Takes `sslmode` and `sslrootcert` out of a URL.
fn own_parameters(url: &str) -> Result<(String, OwnParameters), String> {
    let mut own = OwnParameters::default();
    let Some((before, query)) = url.split_once('?') else {
        return Ok((url.to_owned(), own));
    };
    let mut rest = Vec::new();
    for pair in query.split('&') {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        match name {
            "sslmode" => own.mode = Some(value.to_owned()),
            "sslrootcert" => own.roots = Some(PathBuf::from(value.replace("%2F", "/"))),
            // A file of the client's own key, or a protocol of the past: nothing here reads them.
            name if name.starts_with("ssl") || name.starts_with("gss") => {
                return Err(format!("has {name}, which is not supported"));
            }
            _ => rest.push(pair),
        }
    }
    let url = match rest.is_empty() {
        true => before.to_owned(),
        false => format!("{before}?{}", rest.join("&")),
    };
    Ok((url, own))
}

fn read_file(path: &Path, most: u64) -> Result<Vec<u8>, String> {
    let told = |error: std::io::Error| format!("{}: {error}", path.display());
    let length = std::fs::metadata(path).map_err(told)?.len();
    if length > most {
        return Err(format!("{} has more than {most} bytes", path.display()));
    }
    std::fs::read(path).map_err(told)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(url: &str) -> String {
        Target::read(url).unwrap_err()
    }

    #[test]
    fn tls_is_asked_for_unless_it_is_put_off() {
        let tls = |url: &str| Target::read(url).unwrap().tls.is_some();
        assert!(tls("postgresql://weir@db.example/flow"));
        assert!(tls(
            "postgres://weir@db.example:5433/flow?sslmode=verify-full"
        ));
        assert!(tls("postgres://weir@127.0.0.1/flow?sslmode=require"));
        assert!(!tls("postgres://weir@127.0.0.1/flow?sslmode=disable"));
        assert!(!tls("postgres://weir@/flow?host=/run/postgresql"));
        for mode in ["prefer", "allow", "verify-ca", "off", ""] {
            let said = refusal(&format!("postgres://weir:hunter2@h/flow?sslmode={mode}"));
            assert!(said.contains("sslmode"), "{mode}: {said}");
        }
        assert!(refusal("postgres:///flow?host=/run&sslmode=require").contains("Unix socket"));
    }

    #[test]
    fn a_password_is_never_repeated() {
        let target = Target::read("postgres://weir:hunter2@db.example/flow").unwrap();
        let said = Target::referred("postgres://weir:hunter2@db.example/flow").unwrap_err();
        assert!(
            said.contains("env:NAME") && !said.contains("hunter2"),
            "{said}"
        );
        assert!(target.has_password());
        assert_eq!(format!("{target:?}"), "Target(db.example/flow)");
        for url in [
            "postgres://weir:hunter2@h:port/flow",
            "postgres://weir:hunter2@h",
            "postgres://weir:hunter2@h/flow?nonsense=1",
            "postgres://weir:hunter2@/flow",
            "mysql://weir:hunter2@h/flow",
            "postgres://weir:hunter2@h/flow?sslcert=/k",
            "postgres://weir:hunter2@h/flow?sslrootcert=/nowhere",
        ] {
            let said = refusal(url);
            assert!(!said.contains("hunter2"), "{said}");
        }
    }

    #[test]
    fn ports_are_those_of_tcp() {
        let ports = |url: &str| Target::read(url).unwrap().ports();
        assert_eq!(ports("postgres://h/flow"), [5432]);
        assert_eq!(ports("postgres://h:6432/flow"), [6432]);
        assert!(ports("postgres:///flow?host=/run/postgresql").is_empty());
    }
}
