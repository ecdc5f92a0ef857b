//! Addresses: blocks of them, and what counts as one wherever something is counted by address.

use std::net::{IpAddr, Ipv6Addr};

/// The address that stands for all that one host may take: IPv6 by its /64, IPv4 in IPv6 as IPv4, and
/// IPv4 as it is.
pub fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => {
            let network = v6.to_bits() & !u128::from(u64::MAX);
            IpAddr::V6(Ipv6Addr::from_bits(network))
        }
        v4 => v4,
    }
}

/// A block of addresses, such as `10.0.0.0/8`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressRange {
    pub network: IpAddr,
    pub prefix_bits: u8,
}

impl AddressRange {
    /// Reads `address` or `address/bits`.
    pub fn parse(text: &str) -> Option<AddressRange> {
        let (network, bits) = match text.split_once('/') {
            Some((network, bits)) => (network.parse().ok()?, Some(bits.parse().ok()?)),
            None => (text.parse().ok()?, None),
        };
        let bits_max = if matches!(network, IpAddr::V4(_)) {
            32
        } else {
            128
        };
        let prefix_bits = bits.unwrap_or(bits_max);
        let range = AddressRange {
            network,
            prefix_bits,
        };
        (prefix_bits <= bits_max).then(|| range.canonical())
    }

    /// A block of IPv4 in IPv6 as one of IPv4, which is how addresses are compared.
    fn canonical(self) -> AddressRange {
        match (
            self.network.to_canonical(),
            self.prefix_bits.checked_sub(96),
        ) {
            (network @ IpAddr::V4(_), Some(prefix_bits)) if self.network.is_ipv6() => {
                AddressRange {
                    network,
                    prefix_bits,
                }
            }
            _ => self,
        }
    }

    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.network, address) {
            (IpAddr::V4(network), IpAddr::V4(address)) => same_prefix(
                network.to_bits().into(),
                address.to_bits().into(),
                32,
                self.prefix_bits,
            ),
            (IpAddr::V6(network), IpAddr::V6(address)) => {
                same_prefix(network.to_bits(), address.to_bits(), 128, self.prefix_bits)
            }
            _ => false,
        }
    }
}

fn same_prefix(a: u128, b: u128, width_bits: u8, prefix_bits: u8) -> bool {
    let shift = u32::from(width_bits - prefix_bits);
    a.checked_shr(shift).unwrap_or(0) == b.checked_shr(shift).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_of_ipv4_in_ipv6_is_one_of_ipv4() {
        let range = AddressRange::parse("::ffff:192.0.2.0/120").expect("a range");
        assert_eq!(Some(range), AddressRange::parse("192.0.2.0/24"));
        let one = AddressRange::parse("::ffff:192.0.2.7").expect("an address");
        assert!(one.contains(IpAddr::from([192, 0, 2, 7])));
        let wide = AddressRange::parse("::/0").expect("a range");
        assert!(!wide.contains(IpAddr::from([192, 0, 2, 7])));
    }
}
