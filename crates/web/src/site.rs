//! URLs that agents name: read as browsers read them, so that what is judged is what is dialled.
//!
//! Hosts come out as resolvers take them: lower case, in Punycode, and an address in whatever notation (`0x7f.1`) as the
//! address that it is. A URL with a user name, without a host, or of another scheme is refused.

use base::{Refusal, Site, refusal};
use http::uri::PathAndQuery;
use url::{Host, Url};

/// Longest URL, in bytes; the rules of the scan may allow less.
const URL_BYTES_MAX: usize = 16 << 10;

/// A URL that was read.
#[derive(Clone, Debug)]
pub(crate) struct AskedUrl {
    pub(crate) site: Site,
    /// What the request line carries.
    pub(crate) path: PathAndQuery,
    /// As the agent wrote it.
    pub(crate) text: String,
    /// As it is asked, without its fragment.
    pub(crate) url: Url,
}

impl AskedUrl {
    /// Reads a URL of http or https.
    ///
    /// # Errors
    /// `web.url_invalid`.
    pub(crate) fn read(text: &str) -> Result<AskedUrl, Refusal> {
        if text.len() > URL_BYTES_MAX {
            return Err(invalid("the URL is longer than 16 KiB"));
        }
        let url = Url::parse(text).map_err(|error| invalid(format!("the URL: {error}")))?;
        AskedUrl::of(url, text)
    }

    /// Where an answer's Location leads.
    pub(crate) fn join(&self, location: &str) -> Result<AskedUrl, Refusal> {
        if location.len() > URL_BYTES_MAX {
            return Err(invalid("the URL is longer than 16 KiB"));
        }
        let next = self.url.join(location);
        let next = next.map_err(|error| invalid(format!("the redirect: {error}")))?;
        let text = next.as_str().to_owned();
        AskedUrl::of(next, &text)
    }

    fn of(mut url: Url, text: &str) -> Result<AskedUrl, Refusal> {
        url.set_fragment(None);
        if !matches!(url.scheme(), "http" | "https") {
            return Err(invalid("the URL is neither of http nor of https"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(invalid("the URL holds a user name"));
        }
        let port = url.port_or_known_default().filter(|port| *port != 0);
        let port = port.ok_or_else(|| invalid("the URL has no port that can be asked"))?;
        let host = host(url.host()).ok_or_else(|| invalid("the URL has no host"))?;
        if climbs(url.path()) {
            return Err(invalid("the path leads upwards behind a coded slash"));
        }
        let path = &url[url::Position::BeforePath..url::Position::AfterQuery];
        let path = PathAndQuery::try_from(path);
        let path = path.map_err(|error| invalid(format!("the path: {error}")))?;
        Ok(AskedUrl {
            site: Site {
                scheme: url.scheme().into(),
                host,
                port,
                path: url.path().into(),
            },
            path,
            text: text.to_owned(),
            url,
        })
    }

    /// The URL as it is asked where that names another host than what was written, so that it has to be judged too.
    pub(crate) fn other(&self) -> Option<&str> {
        let host = self.url.host_str().unwrap_or_default();
        let is_written = self.text.to_ascii_lowercase().contains(host);
        (!is_written).then(|| self.url.as_str())
    }

    /// Whether nobody between can read what is asked.
    pub(crate) fn is_secured(&self) -> bool {
        &*self.site.scheme == "https" || is_this_machine(&self.site.host)
    }
}

/// Whether a path has segments `.` or `..` once slashes in it are decoded, as some sites do: what such a site opens is not
/// what was judged.
fn climbs(path: &str) -> bool {
    if !path.contains('%') {
        return false;
    }
    let path = path.to_ascii_lowercase().replace("%2e", ".");
    let path = path.replace("%2f", "/").replace("%5c", "/");
    path.split('/').any(|segment| matches!(segment, "." | ".."))
}

/// Where a URL of http or https leads.
///
/// # Errors
/// `web.url_invalid`.
pub fn read_url(text: &str) -> Result<Site, Refusal> {
    AskedUrl::read(text).map(|url| url.site)
}

/// A host and port as CONNECT names them.
///
/// # Errors
/// `web.url_invalid`, also without a port.
pub(crate) fn authority(text: &str) -> Result<(Box<str>, u16), Refusal> {
    let (written, port) = text
        .rsplit_once(':')
        .filter(|(host, _)| !host.is_empty() && !host.ends_with(':'))
        .ok_or_else(|| invalid("CONNECT names a host and a port"))?;
    let digits = port.bytes().all(|byte| byte.is_ascii_digit());
    let port = port.parse::<u16>().ok().filter(|port| digits && *port != 0);
    let port = port.ok_or_else(|| invalid("CONNECT names no port that can be asked"))?;
    if written.contains(['@', '/', '?', '#', '\\']) {
        return Err(invalid("CONNECT names a host and a port, and nothing else"));
    }
    let host = Url::parse(&format!("https://{written}/")).ok();
    let host = host.and_then(|url| host_of(&url));
    let host = host.ok_or_else(|| invalid("CONNECT names no host that can be asked"))?;
    Ok((host, port))
}

fn host_of(url: &Url) -> Option<Box<str>> {
    host(url.host())
}

fn host(host: Option<Host<&str>>) -> Option<Box<str>> {
    let text = match host? {
        Host::Domain(name) => name.trim_end_matches('.').to_owned(),
        Host::Ipv4(address) => address.to_string(),
        // An IPv4 address in IPv6's clothes is judged as what it is.
        Host::Ipv6(address) => address.to_canonical().to_string(),
    };
    (!text.is_empty()).then(|| text.into())
}

/// Whether a host, as it is asked, is this machine by its name or address alone.
pub(crate) fn is_this_machine(host: &str) -> bool {
    let address = host.parse::<std::net::IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

/// Whether two texts name one host: `Example.COM.` and `example.com`.
pub(crate) fn is_same_host(one: &str, other: &str) -> bool {
    let plain = |host: &str| host.trim_end_matches('.').to_ascii_lowercase();
    plain(one) == plain(other)
}

pub(crate) fn invalid(why: impl Into<String>) -> Refusal {
    Refusal::new(refusal::WEB_URL, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_notation_of_an_address_is_that_address() {
        for text in [
            "http://127.0.0.1/",
            "http://127.1/",
            "http://0x7f.1/",
            "http://0177.0.0.1/",
            "http://2130706433/",
            "http://0x7f000001/",
            "http://127.0.0.1./",
            "http://%31%32%37.0.0.1/",
            "http://\u{ff11}27.0.0.1/",
            "http://127\u{3002}0.0.1/",
            "http://[::ffff:127.0.0.1]/",
            "http://[::ffff:7f00:1]/",
        ] {
            let read = AskedUrl::read(text).unwrap();
            assert_eq!(&*read.site.host, "127.0.0.1", "{text}");
        }
        assert_eq!(&*AskedUrl::read("http://[::1]/").unwrap().site.host, "::1");
        let name = AskedUrl::read("https://EXAMPLE.com.:8443/a/../b?c#d").unwrap();
        let Site {
            host, port, path, ..
        } = &name.site;
        assert_eq!((&**host, *port, &**path), ("example.com", 8443, "/b"));
        assert_eq!(name.path.as_str(), "/b?c");
        let sent = |text| AskedUrl::read(text).unwrap().path.to_string();
        assert_eq!(sent("http://example.com/a/%2e%2E/b\\..\\c"), "/c");
        assert_eq!(sent("http://example.com/group%2Fname"), "/group%2Fname");
    }

    #[test]
    fn what_cannot_be_asked_is_refused() {
        for text in [
            "ftp://example.com/",
            "file:///etc/passwd",
            "gopher://a/",
            "http://user@example.com/",
            "http://user:pass@example.com/",
            "http://",
            "example.com",
            "http://exa mple.com/",
            "http://example.com:0/",
            "http://example.com:99999/",
            "javascript:alert(1)",
            "http://1.2.3.4.5/",
            "http://256.1.1.1/",
            "http://example.com/a/..%2fb",
            "http://example.com/a/%2E%2e%2Fb",
            "http://example.com/a/x%5c..%5Cb",
        ] {
            assert!(AskedUrl::read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn connect_names_a_host_and_a_port() {
        let read = |text| authority(text).map(|(host, port)| (host.to_string(), port));
        assert_eq!(
            read("Example.com:443").unwrap(),
            ("example.com".into(), 443)
        );
        assert_eq!(read("[::1]:443").unwrap(), ("::1".into(), 443));
        assert_eq!(read("0x7f.1:22").unwrap(), ("127.0.0.1".into(), 22));
        for bad in [
            "example.com",
            ":443",
            "a:0",
            "a:",
            "a:70000",
            "u@a:443",
            "a/b:443",
            "::1:443",
            "a:+1",
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_redirect_is_read_beside_where_it_came_from() {
        let from = AskedUrl::read("https://example.com/a/b").unwrap();
        let to = |location| from.join(location).unwrap().url.to_string();
        assert_eq!(to("../c"), "https://example.com/c");
        assert_eq!(to("//evil.example/x"), "https://evil.example/x");
        assert!(from.join("file:///etc/passwd").is_err());
    }
}
