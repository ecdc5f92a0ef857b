//! Where this process listens, so that nothing that an agent names leads back into it: a call would run in circles, and the
//! operator's pages would be asked from their own machine.

use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::{PoisonError, RwLock};

use tokio::net::TcpStream;

/// Most places that are remembered: more than a configuration has listeners.
const OWN_MAX: usize = 4096;

static OWN: RwLock<Vec<SocketAddr>> = RwLock::new(Vec::new());

/// Remembers that this process listens there.
pub(crate) fn note(listener: &TcpListener) {
    let Ok(address) = listener.local_addr() else {
        return;
    };
    let mut own = OWN.write().unwrap_or_else(PoisonError::into_inner);
    if own.len() < OWN_MAX && !own.contains(&address) {
        own.push(address);
    }
}

/// Whether a connection that was made ends at a listener of this process. Of a listener at every address of the machine, it
/// does where it ends at this machine: the kernel gives such a connection the same address at both ends, or a loopback one.
pub(crate) fn is_own(stream: &TcpStream) -> bool {
    let (Ok(far), Ok(near)) = (stream.peer_addr(), stream.local_addr()) else {
        // Nobody can say where it leads.
        return true;
    };
    let own = OWN.read().unwrap_or_else(PoisonError::into_inner);
    leads_to(&own, far, near.ip())
}

fn leads_to(own: &[SocketAddr], far: SocketAddr, near: IpAddr) -> bool {
    let (to, near) = (far.ip().to_canonical(), near.to_canonical());
    let is_here = to.is_loopback() || to == near;
    own.iter().any(|own| {
        let at = own.ip().to_canonical();
        own.port() == far.port() && (at == to || (at.is_unspecified() && is_here))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_leads_back() {
        let address = |text: &str| text.parse::<SocketAddr>().unwrap();
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        let own = [
            address("127.0.0.1:8700"),
            address("0.0.0.0:8703"),
            address("[::1]:9000"),
        ];
        for (far, near, leads) in [
            ("127.0.0.1:8700", "127.0.0.1", true),
            ("[::ffff:127.0.0.1]:8700", "127.0.0.1", true),
            ("127.0.0.2:8700", "127.0.0.1", false),
            ("127.0.0.1:8701", "127.0.0.1", false),
            ("127.9.9.9:8703", "127.0.0.1", true),
            ("10.0.0.7:8703", "10.0.0.7", true),
            ("10.0.0.8:8703", "10.0.0.7", false),
            ("[::1]:9000", "::1", true),
        ] {
            assert_eq!(leads_to(&own, address(far), ip(near)), leads, "{far}");
        }
    }
}
