//! The targets that can be dialled: which configured name stands for which endpoint, an immutable snapshot; and the
//! sites that agents name.
//!
//! What can be wrong with an endpoint is found here, when the configuration is loaded: a URL that is none, a
//! certificate authority that is not PEM. User names, queries and fragments are refused, not ignored.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use base::{Name, Site, limit};
use http::uri::{Authority, PathAndQuery};
use http::{HeaderValue, Uri};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};

use crate::h1::{ALPN_HTTP2, RequestLines};
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
    /// Whether HTTP/2 is spoken: over https where the server agrees on it as TLS begins, over http without asking.
    pub http2: bool,
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
    /// Whether a connection to the one is as good as one to the other.
    fn is_same(&self, other: &Endpoint) -> bool {
        let plain = |of: &Endpoint| (of.scheme, of.port, of.http2, of.idle_max, of.idle_ms);
        let is_same_client = match (&self.mutual, &other.mutual) {
            (None, None) => true,
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            _ => false,
        };
        plain(self) == plain(other)
            && (&self.host, &self.path, &self.ca) == (&other.host, &other.path, &other.ca)
            && is_same_client
    }

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
            http2: false,
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
#[derive(Default)]
pub struct Targets {
    by_name: HashMap<Name, Arc<DialTarget>>,
    public: Arc<PublicTrust>,
    /// Of the sites that agents name.
    sites: Arc<PublicTrust>,
}

/// An endpoint, ready to be dialled.
pub(crate) struct DialTarget {
    pub(crate) endpoint: Endpoint,
    /// Where its idle connections are kept.
    pub(crate) shelf: ShelfKey,
    /// The Host field.
    pub(crate) host: HeaderValue,
    /// The endpoint's path as requests to it alone carry it.
    path: PathAndQuery,
    pub(crate) tls: Option<Tls>,
}

/// Which idle connections are those of one target.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ShelfKey {
    /// By a number that one target of this process has.
    Configured(u64),
    /// By the origin that an agent named.
    Site(Arc<str>),
}

impl ShelfKey {
    /// The key of a target that is new.
    fn new() -> ShelfKey {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        ShelfKey::Configured(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// How TLS is spoken to servers that public authorities certify: made when it is needed first, and shared.
#[derive(Default)]
struct PublicTrust {
    config: OnceLock<Arc<ClientConfig>>,
    /// Authorities that are trusted beside the public ones.
    more: Vec<CertificateDer<'static>>,
}

/// How TLS is spoken to one endpoint.
pub(crate) struct Tls {
    config: Trust,
    http2: bool,
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
            Trust::Mutual(client) if self.http2 => offering_http2(&client.config()),
            Trust::Mutual(client) => client.config(),
        }
    }
}

impl Targets {
    /// Checks and prepares each endpoint. Fails with every problem.
    pub fn new(
        endpoints: impl IntoIterator<Item = (Name, Endpoint)>,
    ) -> Result<Targets, Vec<TargetError>> {
        Targets::default().next(endpoints)
    }

    /// The targets that take the place of these. One whose endpoint is the same stays what it is, with its idle connections;
    /// whoever has these goes on with these. Fails with every problem.
    pub fn next(
        &self,
        endpoints: impl IntoIterator<Item = (Name, Endpoint)>,
    ) -> Result<Targets, Vec<TargetError>> {
        let (mut by_name, mut errors) = (HashMap::new(), Vec::new());
        for (name, endpoint) in endpoints {
            let kept = self.by_name.get(&name);
            if let Some(kept) = kept.filter(|kept| kept.endpoint.is_same(&endpoint)) {
                by_name.insert(name, Arc::clone(kept));
                continue;
            }
            match DialTarget::new(ShelfKey::new(), endpoint, &self.public) {
                Ok(target) => {
                    by_name.insert(name, Arc::new(target));
                }
                Err(problem) => errors.push(TargetError { name, problem }),
            }
        }
        match errors.is_empty() {
            true => Ok(Targets {
                by_name,
                public: Arc::clone(&self.public),
                sites: Arc::clone(&self.sites),
            }),
            false => Err(errors),
        }
    }

    /// The same, with authorities whose certificates are trusted for sites beside those of the public ones, as PEM.
    ///
    /// # Errors
    /// The text holds no certificate, or one that cannot be an authority's.
    pub fn trusting(self, authorities: &[u8]) -> Result<Targets, String> {
        let mut more = Vec::new();
        for one in CertificateDer::pem_slice_iter(authorities) {
            more.push(one.map_err(|error| format!("the certificate authority: {error}"))?);
        }
        let sites = PublicTrust {
            config: OnceLock::new(),
            more,
        };
        sites.config()?;
        Ok(Targets {
            sites: Arc::new(sites),
            ..self
        })
    }

    /// Where this target is, if it is configured.
    pub fn endpoint(&self, name: &Name) -> Option<&Endpoint> {
        self.by_name.get(name).map(|target| &target.endpoint)
    }

    pub(crate) fn get(&self, name: &Name) -> Option<&Arc<DialTarget>> {
        self.by_name.get(name)
    }

    /// A site that an agent named, ready to be dialled: spoken to by public certificates, with paths as they are.
    pub(crate) fn site(&self, site: &Site, origin: Arc<str>) -> Result<DialTarget, String> {
        let endpoint = Endpoint {
            scheme: match &*site.scheme {
                // What is in a tunnel is for its ends.
                "http" | "tcp" => Scheme::Http,
                "https" => Scheme::Https,
                scheme => return Err(format!("{scheme} is none of http, https and tcp")),
            },
            host: site.host.to_string(),
            port: site.port,
            path: "/".to_owned(),
            ca: None,
            mutual: None,
            http2: false,
            idle_max: limit::SITE_IDLE_MAX,
            idle_ms: limit::IDLE_UPSTREAM_MS_MAX,
        };
        DialTarget::new(ShelfKey::Site(origin), endpoint, &self.sites)
    }
}

impl DialTarget {
    fn new(
        shelf: ShelfKey,
        endpoint: Endpoint,
        public: &PublicTrust,
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
        // What no request could be written with is a mistake of the configuration, not of a call.
        RequestLines::new(b"GET", path.as_bytes(), host_field.as_bytes(), [])
            .map_err(|error| format!("http://{}{path}: {error}", authority.as_str()))?;
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
                    None => {
                        let usual = match &endpoint.ca {
                            Some(pem) => authorities(pem).and_then(tls_config)?,
                            None => public.config()?,
                        };
                        Trust::Usual(match endpoint.http2 {
                            true => offering_http2(&usual),
                            false => usual,
                        })
                    }
                },
                http2: endpoint.http2,
                server: ServerName::try_from(host.clone())
                    .map_err(|error| format!("the host {host:?}: {error}"))?,
            }),
        };
        Ok(DialTarget {
            endpoint,
            shelf,
            host: host_field,
            path,
            tls,
        })
    }

    /// The path and query that a request for `asked` carries: behind the endpoint's own path.
    pub(crate) fn path(&self, asked: &Uri) -> Result<PathAndQuery, http::uri::InvalidUri> {
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

impl PublicTrust {
    fn config(&self) -> Result<Arc<ClientConfig>, String> {
        if let Some(config) = self.config.get() {
            return Ok(Arc::clone(config));
        }
        let mut roots = RootCertStore {
            roots: webpki_roots::TLS_SERVER_ROOTS.to_vec(),
        };
        for one in &self.more {
            let added = roots.add(one.clone());
            added.map_err(|error| format!("the certificate authority: {error}"))?;
        }
        let config = tls_config(roots)?;
        Ok(Arc::clone(self.config.get_or_init(|| config)))
    }
}

/// The certificate authorities in a text in PEM.
fn authorities(pem: &[u8]) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        certificate
            .map_err(|error| error.to_string())
            .and_then(|found| roots.add(found).map_err(|error| error.to_string()))
            .map_err(|error| format!("the certificate authority: {error}"))?;
    }
    match roots.is_empty() {
        true => Err("the certificate authority holds no PEM certificate".to_owned()),
        false => Ok(roots),
    }
}

/// The same, where the server may agree on HTTP/2.
fn offering_http2(config: &ClientConfig) -> Arc<ClientConfig> {
    let mut config = config.clone();
    config.alpn_protocols.insert(0, ALPN_HTTP2.to_vec());
    Arc::new(config)
}

/// How TLS is spoken to servers that these authorities certify.
fn tls_config(roots: RootCertStore) -> Result<Arc<ClientConfig>, String> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("TLS: {error}"))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
