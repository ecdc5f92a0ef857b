//! Where the store is, and who we are there: `redis://` and `rediss://` URLs.
//!
//! Beyond this machine only TLS will do: whoever stands in between could answer that everything is new.

use std::fmt;
use std::net::IpAddr;

use base::Secret;

/// Port of a store that names none.
const PORT: u16 = 6379;
/// Longest URL, in bytes.
const URL_BYTES_MAX: usize = 4096;
/// Highest number of a database.
const DATABASE_MAX: u32 = 1023;

/// The URL of a store. Its password is never printed.
#[derive(Clone)]
pub struct CacheUrl {
    pub(crate) is_tls: bool,
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<Secret>,
    pub(crate) database: u32,
}

/// Two URLs are the same where they lead to the same place as the same user.
impl PartialEq for CacheUrl {
    fn eq(&self, other: &CacheUrl) -> bool {
        let of = |url: &CacheUrl| {
            let password = url.password.as_ref();
            let password = password.map(|password| password.expose().to_owned());
            (
                url.is_tls,
                url.host.clone(),
                url.port,
                url.user.clone(),
                password,
                url.database,
            )
        };
        of(self) == of(other)
    }
}

impl fmt::Display for CacheUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_tls { "rediss" } else { "redis" };
        match self.host.contains(':') {
            true => write!(f, "{scheme}://[{}]:{}", self.host, self.port),
            false => write!(f, "{scheme}://{}:{}", self.host, self.port),
        }
    }
}

impl fmt::Debug for CacheUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl CacheUrl {
    /// Reads `redis[s]://[[user]:password@]host[:port][/database]`.
    ///
    /// # Errors
    /// What is wrong with it, without a word of the text itself: a password stands in it.
    pub fn parse(text: &str) -> Result<CacheUrl, &'static str> {
        const FORM: &str =
            "must be a URL such as rediss://:PASSWORD@store.example:6379 or redis://127.0.0.1:6379";
        if text.len() > URL_BYTES_MAX || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(FORM);
        }
        let (is_tls, rest) = match (
            text.strip_prefix("redis://"),
            text.strip_prefix("rediss://"),
        ) {
            (Some(rest), _) => (false, rest),
            (_, Some(rest)) => (true, rest),
            _ => return Err(FORM),
        };
        if rest.contains(['?', '#']) {
            return Err("must have neither a query nor a fragment");
        }
        let (rest, database) = match rest.split_once('/') {
            None | Some((_, "")) => (rest.trim_end_matches('/'), 0),
            Some((rest, number)) => (rest, number.parse().map_err(|_| FORM)?),
        };
        if database > DATABASE_MAX {
            return Err("names a database that no store has");
        }
        let (user, password, place) = match rest.rsplit_once('@') {
            None => (None, None, rest),
            Some((who, place)) => {
                let (user, password) = who.split_once(':').ok_or(FORM)?;
                let user = decoded(user).ok_or(FORM)?;
                let password = decoded(password).ok_or(FORM)?;
                if password.is_empty() {
                    return Err("has an empty password; leave out what stands before the @");
                }
                let user = Some(user).filter(|user| !user.is_empty());
                (user, Some(Secret::new(password)), place)
            }
        };
        let (host, port) = match place.strip_prefix('[') {
            Some(rest) => {
                let (host, port) = rest.split_once(']').ok_or(FORM)?;
                host.parse::<std::net::Ipv6Addr>().map_err(|_| FORM)?;
                (
                    host,
                    port.strip_prefix(':').or(port.is_empty().then_some("")),
                )
            }
            None => match place.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (place, Some("")),
            },
        };
        let port = match port.ok_or(FORM)? {
            "" => PORT,
            port => port.parse().ok().filter(|port| *port > 0).ok_or(FORM)?,
        };
        let good = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:".contains(&byte);
        if host.is_empty() || !host.bytes().all(good) {
            return Err(FORM);
        }
        Ok(CacheUrl {
            is_tls,
            host: host.to_ascii_lowercase(),
            port,
            user,
            password,
            database,
        })
    }

    /// Whether what is sent crosses a network that others are on, in the clear.
    pub fn is_exposed(&self) -> bool {
        let is_here = match self.host.parse::<IpAddr>() {
            Ok(address) => address.to_canonical().is_loopback(),
            Err(_) => self.host == "localhost",
        };
        !self.is_tls && !is_here
    }

    pub fn is_tls(&self) -> bool {
        self.is_tls
    }
}

/// Undoes percent-encoding (RFC 3986 §2.1).
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, more)) = rest.split_first() {
        rest = more;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let digits = std::str::from_utf8(rest.get(..2)?).ok()?;
        let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        bytes.push(u8::from_str_radix(digits, 16).ok().filter(|_| is_hex)?);
        rest = &rest[2..];
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_and_what_they_lead_to() {
        let read = |text: &str| CacheUrl::parse(text).unwrap();
        let url = read("rediss://app:p%40ss%3A@Store.Example:6380/2");
        assert_eq!(url.to_string(), "rediss://store.example:6380");
        assert_eq!(format!("{url:?}"), "rediss://store.example:6380");
        assert_eq!(url.user.as_deref(), Some("app"));
        assert_eq!(url.password.as_ref().unwrap().expose(), "p@ss:");
        assert_eq!((url.database, url.is_tls), (2, true));
        assert_eq!(
            read("redis://127.0.0.1").to_string(),
            "redis://127.0.0.1:6379"
        );
        assert_eq!(read("redis://[::1]:7/").to_string(), "redis://[::1]:7");
        assert!(read("redis://:x@localhost") != read("redis://:y@localhost"));
        for here in [
            "redis://127.0.0.9",
            "redis://[::1]",
            "redis://localhost",
            "rediss://a.example",
        ] {
            assert!(!read(here).is_exposed(), "{here}");
        }
        for exposed in [
            "redis://store",
            "redis://10.0.0.1",
            "redis://127.0.0.1.example",
        ] {
            assert!(read(exposed).is_exposed(), "{exposed}");
        }
    }

    #[test]
    fn what_is_wrong_is_said_without_the_text() {
        for text in [
            "",
            "http://a",
            "redis://",
            "redis://secret@a",
            "redis://:@a",
            "redis://:%zz@a",
            "redis://:%+1@a",
            "redis://a:0",
            "redis://a:x",
            "redis://a:1/b",
            "redis://a/5000",
            "redis://a?x=1",
            "redis://[::1",
            "redis://[a]",
            "redis://a b",
            "redis://a\r\nb",
        ] {
            let wrong = CacheUrl::parse(text).unwrap_err();
            assert!(!wrong.contains("secret"), "{text:?}: {wrong}");
        }
    }
}
