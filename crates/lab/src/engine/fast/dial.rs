//! Makes connections, and says why one could not be made.

use std::io;
use std::net::{SocketAddr, TcpStream};

use rustix::io::Errno;
use socket2::{Domain, Protocol, Socket, Type};

use crate::exit::Failure;
use crate::plan::Target;
use crate::tally::Fault;

/// Begins to make a connection. It is made when it can be written to, unless it has an error then.
///
/// # Errors
///
/// What the kernel refuses at once, such as a socket without a free descriptor or port.
pub(super) fn begin(address: SocketAddr) -> io::Result<TcpStream> {
    let kind = Type::STREAM.nonblocking();
    let socket = Socket::new(Domain::for_address(address), kind, Some(Protocol::TCP))?;
    socket.set_tcp_nodelay(true)?;
    match socket.connect(&address.into()) {
        Ok(()) => {}
        Err(error) if errno(&error) == Some(Errno::INPROGRESS) => {}
        Err(error) => return Err(error),
    }
    Ok(socket.into())
}

fn errno(error: &io::Error) -> Option<Errno> {
    error.raw_os_error().map(Errno::from_raw_os_error)
}

/// The class of an error of making a connection.
pub(super) fn fault(error: &io::Error) -> Fault {
    if error.kind() == io::ErrorKind::TimedOut {
        return Fault::ConnectTimeout;
    }
    match errno(error) {
        Some(Errno::ADDRNOTAVAIL | Errno::ADDRINUSE | Errno::AGAIN) => Fault::Ports,
        Some(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => Fault::Descriptors,
        Some(Errno::CONNRESET | Errno::PIPE) => Fault::Reset,
        _ => Fault::Refused,
    }
}

/// The class of an error on a connection that was made.
pub(super) fn broken(error: Errno) -> Fault {
    match error {
        Errno::TIMEDOUT => Fault::Timeout,
        _ => Fault::Reset,
    }
}

/// Says that a target cannot be reached, and what can be done.
pub(super) fn failure(target: &Target, error: &io::Error) -> Failure {
    let help = match fault(error) {
        Fault::Descriptors => {
            "raise the limit of open files (`ulimit -n`), or ask for fewer connections"
        }
        Fault::Ports => {
            "ask for fewer connections, name more target addresses, or widen net.ipv4.ip_local_port_range"
        }
        Fault::ConnectTimeout => "look at the address, and at what filters packets on the way",
        _ => "look whether the target is running and listens on this address and port",
    };
    let Target { host, port, .. } = target;
    Failure::new(
        format!("cannot connect to {host}, port {port}: {error}"),
        help,
    )
}

/// What to say of a target that sends something else than HTTP/1.1.
pub(super) fn not_http(target: &Target, begins: &str, bytes: &[u8]) -> Failure {
    let help = match bytes {
        [0x15 | 0x16, 3, ..] => "it speaks TLS: write https://",
        [0, _, _, 4 | 7, ..] => "it speaks HTTP/2 without TLS: choose that protocol",
        _ => "look at the URL's port",
    };
    let shown = bytes[..bytes.len().min(32)].escape_ascii();
    let Target { host, port, .. } = target;
    Failure::new(
        format!("{host}, port {port}, does not speak HTTP/1.1: {begins} `{shown}`"),
        help,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target() -> Target {
        Target {
            tls: false,
            host: "box".to_owned(),
            port: 7,
            authority: "box:7".to_owned(),
            addresses: Vec::new(),
        }
    }

    #[test]
    fn errors_have_their_class_and_their_help() {
        for (error, class, help) in [
            (Errno::CONNREFUSED, Fault::Refused, "is running"),
            (Errno::HOSTUNREACH, Fault::Refused, "is running"),
            (Errno::TIMEDOUT, Fault::ConnectTimeout, "filters"),
            (Errno::ADDRNOTAVAIL, Fault::Ports, "ip_local_port_range"),
            (Errno::MFILE, Fault::Descriptors, "ulimit -n"),
            (Errno::NFILE, Fault::Descriptors, "ulimit -n"),
            (Errno::CONNRESET, Fault::Reset, "is running"),
        ] {
            let error = io::Error::from_raw_os_error(error.raw_os_error());
            assert_eq!(fault(&error), class, "{error}");
            let failure = failure(&target(), &error);
            assert!(failure.help.contains(help), "{failure}");
            assert!(failure.what.contains("box, port 7"), "{failure}");
        }
        let late = io::Error::from(io::ErrorKind::TimedOut);
        assert_eq!(fault(&late), Fault::ConnectTimeout);
    }

    #[test]
    fn other_protocols_are_named() {
        let help = |bytes: &[u8]| not_http(&target(), "it answers with", bytes).help;
        assert!(help(b"\x15\x03\x03\x00\x02").contains("https"));
        assert!(help(b"\0\0\x12\x04\0\0\0\0\0").contains("HTTP/2"));
        assert!(help(b"220 mail").contains("port"));
        // However long and odd it is, a line is a line.
        let long = not_http(&target(), "it answers with", &[b'\n'; 9999]).what;
        assert!(long.len() < 200 && !long.contains('\n'), "{long}");
    }
}
