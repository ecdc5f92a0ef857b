//! Which addresses a configured server may be dialled at, asked for each resolved address.
//!
//! A server named by a public name must not resolve into the gateway's own network (SSRF, DNS rebinding),
//! so loopback, private, link-local and other special ranges are refused unless the configuration allows
//! them for that one server.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use base::AddressRange;

/// Where one server may be: everywhere public, and in the ranges that the configuration names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reach {
    pub ranges: Vec<AddressRange>,
}

impl Reach {
    /// Loopback only: for a server whose URL names this machine.
    pub fn loopback() -> Reach {
        let v4 = AddressRange {
            network: Ipv4Addr::LOCALHOST.into(),
            prefix_bits: 8,
        };
        let v6 = AddressRange {
            network: Ipv6Addr::LOCALHOST.into(),
            prefix_bits: 128,
        };
        Reach {
            ranges: vec![v4, v6],
        }
    }

    pub fn allows(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.ranges.iter().any(|range| range.contains(address)) || is_public(address)
    }
}

/// Whether an address is globally reachable, by the IANA special-purpose registries (RFC 6890).
fn is_public(address: IpAddr) -> bool {
    const SPECIAL: &[&str] = &[
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.88.99.0/24",
        "192.168.0.0/16",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",
        "240.0.0.0/4",
        // IPv6: all but 2000::/3 is special, and within it these. 6to4 and Teredo carry IPv4 inside.
        "2001::/23",
        "2001:db8::/32",
        "2002::/16",
        "3fff::/20",
    ];
    static RANGES: std::sync::LazyLock<Vec<AddressRange>> = std::sync::LazyLock::new(|| {
        SPECIAL
            .iter()
            .map(|text| AddressRange::parse(text).expect("the table holds ranges"))
            .collect()
    });
    let unicast = match address {
        IpAddr::V4(_) => true,
        IpAddr::V6(v6) => v6.segments()[0] & 0xe000 == 0x2000,
    };
    unicast && !RANGES.iter().any(|range| range.contains(address))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(reach: &Reach, address: &str) -> bool {
        reach.allows(address.parse().expect("an address"))
    }

    #[test]
    fn special_addresses_need_leave() {
        let reach = Reach::default();
        for public in ["93.184.216.34", "2606:2800:220:1::1"] {
            assert!(allowed(&reach, public), "{public}");
        }
        for special in [
            "127.0.0.1",
            "10.1.2.3",
            "172.31.255.255",
            "192.168.0.1",
            "169.254.169.254",
            "0.0.0.0",
            "100.64.0.1",
            "::1",
            "::",
            "fe80::1",
            "fc00::1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "64:ff9b::a00:1",
            "2002:7f00:1::",
            "ff02::1",
            "255.255.255.255",
        ] {
            assert!(!allowed(&reach, special), "{special}");
        }
    }

    #[test]
    fn a_range_allows_what_it_holds_and_no_more() {
        let reach = Reach {
            ranges: vec![AddressRange::parse("10.1.0.0/16").expect("a range")],
        };
        assert!(allowed(&reach, "10.1.255.1"));
        assert!(allowed(&reach, "::ffff:10.1.0.9"));
        assert!(!allowed(&reach, "10.2.0.1"));
        assert!(!allowed(&reach, "127.0.0.1"));
        assert!(allowed(&Reach::loopback(), "127.8.0.1") && allowed(&Reach::loopback(), "::1"));
        assert!(!allowed(&Reach::loopback(), "10.0.0.1"));
        assert_eq!(AddressRange::parse("10.0.0.0/33"), None);
        assert_eq!(AddressRange::parse("ten/8"), None);
    }
}
