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
pub fn begin(address: SocketAddr) -> io::Result<TcpStream> {
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
pub fn fault(error: &io::Error) -> Fault {
    match errno(error) {
        Some(Errno::ADDRNOTAVAIL | Errno::ADDRINUSE | Errno::AGAIN) => Fault::Ports,
        Some(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => Fault::Descriptors,
        Some(Errno::TIMEDOUT) => Fault::ConnectTimeout,
        Some(Errno::CONNRESET | Errno::PIPE) => Fault::Reset,
        _ => Fault::Refused,
    }
}

/// The class of an error on a connection that was made.
pub fn broken(error: Errno) -> Fault {
    match error {
        Errno::TIMEDOUT => Fault::Timeout,
        _ => Fault::Reset,
    }
}

/// Says that a target cannot be reached, and what can be done.
pub fn failure(target: &Target, error: &io::Error) -> Failure {
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
pub fn not_http(target: &Target, begins: &str, bytes: &[u8]) -> Failure {
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
