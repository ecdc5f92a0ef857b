//! The `cache:` sections: the store that replicas share, of the whole gateway and of the relay's inbound alone.

use ::config::{Check, Path as Key, Pem};
use ::relay::section::CacheSection;
use cache::CacheUrl;

/// A store that replicas share.
#[derive(Clone, PartialEq)]
pub(crate) struct Cache {
    pub url: CacheUrl,
    /// Certificates to trust for it instead of the public ones.
    pub ca: Option<Pem>,
}

/// Reads one. Whoever stands between could answer that everything is new, so beyond this machine only TLS will do.
pub(super) fn cache(
    written: Option<&CacheSection>,
    at: &Key,
    check: &mut Check<'_>,
) -> Option<Cache> {
    let written = written?;
    let ca = check.of(&written.ca, &at.key("ca"), Check::certificates);
    let at = at.key("redis");
    let text = check.secret(written.redis.as_ref()?, &at)?;
    let read = CacheUrl::parse(text.expose()).map_err(str::to_owned);
    let url = check.good(&at, read)?;
    if url.is_exposed() {
        let message = "is beyond this machine and has no TLS: whoever stands between could answer that nothing was used before; write rediss://";
        check.say(&at, message);
        return None;
    }
    if ca.is_some() && !url.is_tls() {
        check.say(&at, "has no TLS, which ca is for");
    }
    Some(Cache { url, ca })
}
