//! The configured targets: which name stands for which endpoint. An immutable snapshot.
//!
//! What can be wrong with an endpoint is found here, when the configuration is loaded: a URL that is none, a
//! certificate authority that is not PEM. User names, queries and fragments are refused, not ignored.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use base::{Name, limit};
use http::uri::{Authority, PathAndQuery};
use http::{HeaderValue, Uri};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};

use crate::mutual;

/// How an endpoint is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    Http,
    Https,
}

/// Where a target is.
#[derive(Clone, Debug)]
pub struct Endpoint {
    pub scheme: Scheme,
    /// A name, an IPv4 address, or an IPv6 address without brackets.
    pub host: String,
    pub port: u16,
    /// What the path of each request is put behind; begins with `/`.
    pub path: String,
    /// Certificate authorities to trust instead of the usual ones, as PEM.
    pub ca: Option<Vec<u8>>,
    /// Our certificate, and whose is trusted in place of all others; of https alone.
    pub mutual: Option<Arc<mutual::MutualClient>>,
    /// Most idle connections that one thread keeps.
    pub idle_max: usize,
    /// How long an idle connection is kept, in milliseconds.
    pub idle_ms: u64,
}

/// Why a URL cannot be an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndpointError {
    NotUrl,
    /// Neither `http` nor `https`.
    Scheme,
    /// A user name or a password stands in it.
    User,
    /// A query or a fragment stands in it.
    Query,
}

impl fmt::Display for EndpointError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            EndpointError::NotUrl => "this is not a URL like https://tracker.example/mcp",
            EndpointError::Scheme => "the URL has to begin with http:// or https://",
            EndpointError::User => "the URL must not hold a user name or a password",
            EndpointError::Query => "the URL must not hold a query or a fragment",
        })
    }
}

impl std::error::Error for EndpointError {}

impl Endpoint {
    /// Reads `scheme://host[:port][/path]`.
    pub fn parse(url: &str) -> Result<Endpoint, EndpointError> {
        if url.contains(['#', '?']) {
            return Err(EndpointError::Query);
        }
        let uri: Uri = url.parse().map_err(|_| EndpointError::NotUrl)?;
        let scheme = match uri.scheme_str() {
            Some("http") => Scheme::Http,
            Some("https") => Scheme::Https,
            Some(_) => return Err(EndpointError::Scheme),
            None => return Err(EndpointError::NotUrl),
        };
        let authority = uri.authority().ok_or(EndpointError::NotUrl)?;
        if authority.as_str().contains('@') {
            return Err(EndpointError::User);
        }
        let host = authority
            .host()
            .trim_start_matches('[')
            .trim_end_matches(']');
        // The parser takes any digits for a port, and says none if they are too many.
        let port = match &authority.as_str()[authority.host().len()..] {
            "" => None,
            _ => Some(
                authority
                    .port_u16()
                    .filter(|port| *port != 0)
                    .ok_or(EndpointError::NotUrl)?,
            ),
        };
        if host.is_empty() {
            return Err(EndpointError::NotUrl);
        }
        let usual = if scheme == Scheme::Https { 443 } else { 80 };
        Ok(Endpoint {
            scheme,
            host: host.to_owned(),
            port: port.unwrap_or(usual),
            path: uri.path().to_owned(),
            ca: None,
            mutual: None,
            idle_max: limit::IDLE_UPSTREAMS_MAX,
            idle_ms: limit::IDLE_UPSTREAM_MS_MAX,
        })
    }
}

/// Why a target cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetError {
    pub name: Name,
    pub problem: String,
}

impl fmt::Display for TargetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.problem)
    }
}

impl std::error::Error for TargetError {}

/// Which name stands for which endpoint.
pub struct Targets(HashMap<Name, Arc<DialTarget>>);

/// An endpoint, ready to be dialled.
pub(crate) struct DialTarget {
    pub(crate) name: Name,
    pub(crate) endpoint: Endpoint,
    /// The Host field.
    pub(crate) host: HeaderValue,
    /// The endpoint's path as requests to it alone carry it.
    path: PathAndQuery,
    pub(crate) tls: Option<Tls>,
}

/// How TLS is spoken to one endpoint.
pub(crate) struct Tls {
    config: Trust,
    pub(crate) server: ServerName<'static>,
}

enum Trust {
    Usual(Arc<ClientConfig>),
    Mutual(Arc<mutual::MutualClient>),
}

impl Tls {
    /// What the next connection is made with.
    pub(crate) fn config(&self) -> Arc<ClientConfig> {
        match &self.config {
            Trust::Usual(config) => Arc::clone(config),
            Trust::Mutual(client) => client.config(),
        }
    }
}

impl Targets {
    /// Checks and prepares each endpoint. Fails with every problem.
    pub fn new(
        endpoints: impl IntoIterator<Item = (Name, Endpoint)>,
    ) -> Result<Targets, Vec<TargetError>> {
        let (mut targets, mut errors) = (HashMap::new(), Vec::new());
        let mut usual = None;
        for (name, endpoint) in endpoints {
            match DialTarget::new(name.clone(), endpoint, &mut usual) {
                Ok(target) => {
                    targets.insert(name, Arc::new(target));
                }
                Err(problem) => errors.push(TargetError { name, problem }),
            }
        }
        if errors.is_empty() {
            Ok(Targets(targets))
        } else {
            Err(errors)
        }
    }

    /// Where this target is, if it is configured.
    pub fn endpoint(&self, name: &Name) -> Option<&Endpoint> {
        self.0.get(name).map(|target| &target.endpoint)
    }

    pub(crate) fn get(&self, name: &Name) -> Option<&Arc<DialTarget>> {
        self.0.get(name)
    }
}

impl DialTarget {
    fn new(
        name: Name,
        endpoint: Endpoint,
        usual: &mut Option<Arc<ClientConfig>>,
    ) -> Result<DialTarget, String> {
        let Endpoint {
            scheme,
            host,
            port,
            path,
            ..
        } = &endpoint;
        let written = if host.contains(':') {
            format!("[{host}]")
        } else {
            host.clone()
        };
        let authority = match (scheme, port) {
            (Scheme::Http, 80) | (Scheme::Https, 443) => written,
            _ => format!("{written}:{port}"),
        };
        let authority: Authority = authority
            .parse()
            .map_err(|error| format!("the host {host:?}: {error}"))?;
        let host_field = HeaderValue::from_str(authority.as_str())
            .map_err(|error| format!("the host {host:?}: {error}"))?;
        if !path.starts_with('/') || path.contains(['?', '#']) {
            return Err(format!(
                "the path {path:?} has to begin with / and hold no query"
            ));
        }
        let path = path
            .parse()
            .map_err(|error| format!("the path {:?}: {error}", endpoint.path))?;
        let tls = match scheme {
            Scheme::Http if endpoint.mutual.is_some() => {
                return Err("a certificate is shown by https, and the URL is http".to_owned());
            }
            Scheme::Http => None,
            Scheme::Https => Some(Tls {
                config: match &endpoint.mutual {
                    Some(client) => Trust::Mutual(Arc::clone(client)),
                    None => Trust::Usual(tls_config(endpoint.ca.as_deref(), usual)?),
                },
                server: ServerName::try_from(host.clone())
                    .map_err(|error| format!("the host {host:?}: {error}"))?,
            }),
        };
        Ok(DialTarget {
            name,
            endpoint,
            host: host_field,
            path,
            tls,
        })
    }

    /// The path and query that a request for `asked` carries: behind the endpoint's own path.
    pub(super) fn path(&self, asked: &Uri) -> Result<PathAndQuery, http::uri::InvalidUri> {
        let rest = match asked.path_and_query().map(PathAndQuery::as_str) {
            None | Some("" | "/") => return Ok(self.path.clone()),
            Some(rest) => rest,
        };
        // A query of the endpoint alone: `/?a=b` is asked of `/mcp`, not of `/mcp/`.
        let own = self.path.as_str();
        match rest.strip_prefix("/?") {
            Some(query) => PathAndQuery::try_from(format!("{own}?{query}")),
            None => PathAndQuery::try_from(format!("{}{rest}", own.trim_end_matches('/'))),
        }
    }
}

/// The TLS settings of an endpoint; those without a CA of their own share one.
fn tls_config(
    ca: Option<&[u8]>,
    usual: &mut Option<Arc<ClientConfig>>,
) -> Result<Arc<ClientConfig>, String> {
    if let (None, Some(config)) = (ca, &usual) {
        return Ok(Arc::clone(config));
    }
    let mut roots = match ca {
        None => RootCertStore {
            roots: webpki_roots::TLS_SERVER_ROOTS.to_vec(),
        },
        Some(_) => RootCertStore::empty(),
    };
    if let Some(pem) = ca {
        let mut found = 0;
        for certificate in CertificateDer::pem_slice_iter(pem) {
            let certificate =
                certificate.map_err(|error| format!("the certificate authority: {error}"))?;
            roots
                .add(certificate)
                .map_err(|error| format!("the certificate authority: {error}"))?;
            found += 1;
        }
        if found == 0 {
            return Err("the certificate authority holds no PEM certificate".to_owned());
        }
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("TLS: {error}"))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    let config = Arc::new(config);
    if ca.is_none() {
        *usual = Some(Arc::clone(&config));
    }
    Ok(config)
}
