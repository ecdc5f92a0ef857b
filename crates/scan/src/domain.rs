//! The registrable domain of a host name: what one owner has of it, and what budgets are counted
//! by.
//!
//! Below it the owner can make names as they like, so that each look-up of a name is a message to
//! them. The Public Suffix List is compiled in; nothing is fetched. See
//! `docs/decisions/0008-public-suffixes.md`.

/// The part of a host that is registered as one: `example.co.uk` of `a.b.example.co.uk`.
///
/// The host is in lower case and has no dot at its end. An address, a single label and a public
/// suffix are their own. Source: <https://publicsuffix.org>, both of its sections: `b.github.io` is
/// one owner's.
pub fn registrable(host: &str) -> &str {
    let address = host.ends_with(']') || host.ends_with(|last: char| last.is_ascii_digit());
    if address && crate::address::host_address(host).is_some() {
        return host;
    }
    let length = psl::domain(host.as_bytes()).map_or(host.len(), |domain| domain.as_bytes().len());
    &host[host.len() - length..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_has_one_owner() {
        for (host, owner) in [
            ("example.com", "example.com"),
            ("a.b.example.com", "example.com"),
            ("a.b.example.co.uk", "example.co.uk"),
            ("www.city.kawasaki.jp", "city.kawasaki.jp"),
            ("site.github.io", "site.github.io"),
            ("x.site.github.io", "site.github.io"),
            ("co.uk", "co.uk"),
            ("localhost", "localhost"),
            ("a.b.unknown-suffix", "b.unknown-suffix"),
            ("10.1.2.3", "10.1.2.3"),
            ("[2001:db8::1]", "[2001:db8::1]"),
            ("", ""),
        ] {
            assert_eq!(registrable(host), owner, "{host}");
        }
    }
}
