//! Who listens on an address of this machine: so that a server on it is watched without being named.
//!
//! The kernel says which sockets listen (`/proc/net/tcp`) and which process holds which socket (`/proc/PID/fd`). A
//! server that hands its socket to children is its topmost process. What may not be read, another user's process for
//! one, is not found, and neither is a socket that unrelated processes share: then nothing is watched by itself.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

use super::process;
use super::read;
use super::tree::{PROCESSES_MAX, Table};

/// Most descriptors of one process that are looked at.
const DESCRIPTORS_MAX: usize = 65_536;
/// How the kernel writes the state LISTEN.
const LISTEN: &str = "0A";

/// The topmost process that listens on an address, or nothing where that is not plain.
pub fn find(address: SocketAddr) -> Option<u32> {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(|path| read::text(Path::new(path)));
    let inodes: Vec<String> = tables
        .iter()
        .flatten()
        .flat_map(|text| text.lines())
        .filter_map(|line| listening(line, address))
        .collect();
    let pids = process::numbered(Path::new("/proc"), PROCESSES_MAX);
    let holders: Vec<u32> = pids
        .into_iter()
        .filter(|pid| holds(*pid, &inodes))
        .collect();
    let table = Table::read();
    let mut tops = holders.iter().filter(|pid| {
        let above = table.ancestors(**pid);
        !above.iter().any(|parent| holders.contains(parent))
    });
    let top = tops.next().copied();
    // Two servers may share a port; which of them is asked, only the kernel knows.
    top.filter(|_| tops.next().is_none())
}

/// The inode of a line's socket, if it listens there: on the address itself, or on every one.
fn listening(line: &str, address: SocketAddr) -> Option<String> {
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    let (local, state, inode) = (fields.get(1)?, fields.get(3)?, fields.get(9)?);
    let (ip, port) = local.split_once(':')?;
    let is_there = *state == LISTEN && u16::from_str_radix(port, 16).ok()? == address.port();
    let ip = parse_ip(ip)?;
    let is_its = ip.is_unspecified() || ip == address.ip();
    (is_there && is_its).then(|| format!("socket:[{inode}]"))
}

/// An address as the kernel writes it: 32-bit words in hex, each in the machine's byte order.
fn parse_ip(hex: &str) -> Option<IpAddr> {
    if !hex.is_ascii() {
        return None;
    }
    let word = |at: usize| u32::from_str_radix(hex.get(at * 8..at * 8 + 8)?, 16).ok();
    match hex.len() {
        8 => Some(IpAddr::V4(Ipv4Addr::from(word(0)?.to_ne_bytes()))),
        32 => {
            let mut bytes = [0; 16];
            for (at, part) in bytes.chunks_exact_mut(4).enumerate() {
                part.copy_from_slice(&word(at)?.to_ne_bytes());
            }
            Some(Ipv6Addr::from(bytes).to_canonical())
        }
        _ => None,
    }
}

fn holds(pid: u32, inodes: &[String]) -> bool {
    let Ok(entries) = std::fs::read_dir(process::folder(pid).join("fd")) else {
        return false;
    };
    let mut links = entries.flatten().take(DESCRIPTORS_MAX);
    links.any(|entry| {
        let link = std::fs::read_link(entry.path()).unwrap_or_default();
        inodes
            .iter()
            .any(|inode| link.as_os_str() == inode.as_str())
    })
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn this_process_is_found_by_its_listener() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        assert_eq!(find(address), Some(std::process::id()));
        drop(listener);
        assert_eq!(find(address), None);
    }

    #[test]
    fn lines_are_read_as_the_kernel_writes_them() {
        let line = " 3: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 4711 1 x";
        let at = |text: &str| text.parse().unwrap();
        let found = Some("socket:[4711]".to_owned());
        if cfg!(target_endian = "little") {
            assert_eq!(listening(line, at("127.0.0.1:8080")), found);
        }
        assert_eq!(listening(line, at("127.0.0.1:8081")), None);
        assert_eq!(
            listening(&line.replace("0A", "01"), at("127.0.0.1:8080")),
            None
        );
        let every = line.replace("0100007F", "00000000");
        assert_eq!(listening(&every, at("127.0.0.2:8080")), found);
        let every = line.replace("0100007F", &"0".repeat(32));
        assert_eq!(listening(&every, at("127.0.0.1:8080")), found);
    }

    #[test]
    fn odd_lines_are_no_listener() {
        let odd = [
            "",
            "sl local_address",
            "0: é:1F90 0 0A 0 0 0 0 0 1",
            "0: 0100007F 0 0A",
            "0: 01:zz 0 0A 0 0 0 0 0 1",
        ];
        for line in odd {
            assert_eq!(
                listening(line, "127.0.0.1:80".parse().unwrap()),
                None,
                "{line}"
            );
        }
    }
}
