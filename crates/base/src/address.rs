//! What counts as one address, wherever something is counted by address.

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
