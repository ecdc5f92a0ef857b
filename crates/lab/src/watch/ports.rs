//! How near this machine is to having no port left for one more outgoing connection.
//!
//! A run that opens a connection for each request leaves each port in TIME_WAIT for a minute; at some 500 a second the
//! range is used up, and what fails then is the generator, not the target.

use std::path::Path;

use super::read;

/// The ports for outgoing connections, and the sockets that wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ports {
    /// The size of the range; 0 when it cannot be read.
    pub range: u64,
    /// TCP sockets in TIME_WAIT, of both address families.
    pub time_wait: u64,
    /// TCP sockets in use, of both address families.
    pub in_use: u64,
}

impl Ports {
    /// The used part of the range, as if all were used towards one address: 1 is the worst case reached.
    pub fn used(&self) -> Option<f64> {
        (self.range > 0)
            .then(|| (self.time_wait.saturating_add(self.in_use)) as f64 / self.range as f64)
    }
}

/// Reads `/proc/sys/net/ipv4/ip_local_port_range`: the number of ports, both ends included.
pub fn parse_range(text: &str) -> Option<u64> {
    let mut ends = text.split_ascii_whitespace().map(str::parse::<u64>);
    let (low, high) = (ends.next()?.ok()?, ends.next()?.ok()?);
    (low <= high && high <= 65_535).then(|| high - low + 1)
}

/// Reads the TCP line of `/proc/net/sockstat`, or the TCP6 line of `sockstat6`: in use, and in TIME_WAIT.
/// (The kernel counts TIME_WAIT for both families in the first.)
pub fn parse_sockets(text: &str) -> (u64, u64) {
    let line = text
        .lines()
        .find_map(|line| {
            line.strip_prefix("TCP: ")
                .or_else(|| line.strip_prefix("TCP6: "))
        })
        .unwrap_or("");
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let value = |key: &str| {
        words
            .chunks_exact(2)
            .find(|pair| pair[0] == key)
            .and_then(|pair| pair[1].parse().ok())
            .unwrap_or(0)
    };
    (value("inuse"), value("tw"))
}

/// Reads this machine's ports.
pub fn read() -> Ports {
    let text = |path: &str| read::text(Path::new(path)).unwrap_or_default();
    let (in_use_4, time_wait) = parse_sockets(&text("/proc/net/sockstat"));
    let (in_use_6, _) = parse_sockets(&text("/proc/net/sockstat6"));
    Ports {
        range: parse_range(&text("/proc/sys/net/ipv4/ip_local_port_range")).unwrap_or(0),
        time_wait,
        in_use: in_use_4.saturating_add(in_use_6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_range_and_the_sockets_are_read() {
        assert_eq!(parse_range("32768\t60999\n"), Some(28_232));
        let text =
            "sockets: used 12\nTCP: inuse 1 orphan 0 tw 40 alloc 1 mem 5\nUDP: inuse 7 mem 0\n";
        assert_eq!(parse_sockets(text), (1, 40));
        assert_eq!(parse_sockets("TCP6: inuse 9\n"), (9, 0));
        let ports = Ports {
            range: 100,
            time_wait: 40,
            in_use: 10,
        };
        assert_eq!(ports.used(), Some(0.5));
        assert!(read().range > 0);
    }

    #[test]
    fn what_is_broken_is_nothing() {
        for text in ["", "1", "9 1", "1 99999999", "a b", "-1 5"] {
            assert_eq!(parse_range(text), None, "{text:?}");
        }
        for text in [
            "",
            "TCP: ",
            "TCP: inuse",
            "TCP: inuse x tw -1",
            "UDP: inuse 4",
        ] {
            assert_eq!(parse_sockets(text), (0, 0), "{text:?}");
        }
        assert_eq!(Ports::default().used(), None);
    }
}
