//! A server that is started for a run and ended after it: spawned, waited for until it listens, stopped by its own
//! process group.
//!
//! The command goes to `sh -c`, as it would be typed. `{port}` in it is replaced by a free local port. It is ready
//! when it says `listening on …`, or when its port accepts a connection; with an address to ask, when that answers.
//! Nothing is ended but the group that was started here.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use super::shape::Room;
use crate::exit::Failure;

/// What stands for the port in commands and addresses.
pub const PORT: &str = "{port}";
/// How long a server may take to end after it was asked to.
const STOP_MAX: Duration = Duration::from_secs(5);
/// How often a state is looked at.
const LOOK: Duration = Duration::from_millis(2);
/// How long one attempt to reach a server may take.
const ATTEMPT_MAX: Duration = Duration::from_millis(500);
/// Lines of output that are kept to explain an early end, and bytes of each.
const LINES_MAX: usize = 10;
const LINE_BYTES_MAX: u64 = 400;
/// Where a port is looked for.
const PORTS: std::ops::Range<u16> = 20_000..32_000;
const PORT_TRIES: usize = 100;

/// How a server is started.
#[derive(Clone, Debug)]
pub struct Launch {
    /// For `sh -c`.
    pub command: String,
    /// An `http://` address that answers when the server is ready; `{port}` may stand in it.
    pub ready: Option<String>,
    pub ready_max: Duration,
}

/// A server that was started. Dropping it ends it.
#[derive(Debug)]
pub struct Started {
    child: Child,
    /// Where it listens.
    pub port: u16,
    /// How long it took until it was ready: its cold start.
    pub ready_after: Duration,
    said: Arc<Mutex<Said>>,
}

/// What a server printed.
#[derive(Debug, Default)]
struct Said {
    port: Option<u16>,
    last: VecDeque<String>,
    /// Pipes that are still read.
    open: usize,
}

impl Launch {
    /// Starts the server and waits until it is ready.
    ///
    /// # Errors
    ///
    /// The command cannot be started, ends, or is not ready in time; its last lines are in the message.
    pub fn start(&self) -> Result<Started, Failure> {
        self.start_in(&Room::default())
    }

    /// The same, in a room that holds it to a shape. The room must be kept until the server has ended.
    ///
    /// # Errors
    ///
    /// As of [`Launch::start`], and where the server cannot enter the room.
    pub fn start_in(&self, room: &Room) -> Result<Started, Failure> {
        let begun = Instant::now();
        let free = if self.command.contains(PORT) {
            Some(free_port()?)
        } else {
            None
        };
        let command = match free {
            Some(port) => self.command.replace(PORT, &port.to_string()),
            None => self.command.clone(),
        };
        let spawn = || {
            Command::new("sh")
                .args(["-c", &format!("{}{command}", room.enter())])
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .process_group(0)
                .spawn()
        };
        let mut child = room
            .bound(spawn)?
            .map_err(|error| Failure::new(format!("`{command}` cannot be started: {error}"), ""))?;
        let said = Arc::new(Mutex::new(Said::default()));
        listen_to(child.stdout.take(), &said);
        listen_to(child.stderr.take(), &said);
        let mut started = Started {
            child,
            port: free.unwrap_or(0),
            said,
            ready_after: Duration::ZERO,
        };
        self.wait(&command, free, &mut started)?;
        started.ready_after = begun.elapsed();
        Ok(started)
    }

    fn wait(&self, command: &str, free: Option<u16>, started: &mut Started) -> Result<(), Failure> {
        let begin = Instant::now();
        loop {
            let said = started.said().port;
            if let Some(port) = free.or(said) {
                started.port = port;
                let ready = match &self.ready {
                    Some(url) => answers(&url.replace(PORT, &port.to_string()))?,
                    None => said.is_some() || accepts(port),
                };
                if ready {
                    return Ok(());
                }
            }
            if started.has_ended() {
                let why = format!("`{command}` ended before it was ready");
                return Err(started.failed(why, "look at its output"));
            }
            if begin.elapsed() >= self.ready_max {
                let why = format!(
                    "`{command}` was not ready within {} s",
                    self.ready_max.as_secs()
                );
                return Err(started.failed(
                    why,
                    "let it print `listening on ADDRESS`, use {port} in the command, or give --ready URL",
                ));
            }
            std::thread::sleep(LOOK);
        }
    }
}

impl Started {
    /// The process that was started; the server is it, or one of its children.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Whether it has ended. It is not reaped, so that its group keeps its number.
    pub fn has_ended(&self) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        match waitid(WaitId::Pid(self.group()), options) {
            Ok(status) => status.is_some(),
            // Somebody else reaped it: it is gone all the same.
            Err(_) => true,
        }
    }

    /// Why it is no use, with the last lines that it printed.
    pub fn failed(&self, why: String, help: &str) -> Failure {
        let begin = Instant::now();
        while self.has_ended() && self.said().open > 0 && begin.elapsed() < ATTEMPT_MAX {
            std::thread::sleep(LOOK);
        }
        let said = self.said();
        let lines: Vec<&str> = said.last.iter().map(String::as_str).collect();
        let why = match lines.is_empty() {
            true => why,
            false => format!("{why}; it said:\n  {}\n", lines.join("\n  ")),
        };
        Failure::new(why, help)
    }

    fn said(&self) -> MutexGuard<'_, Said> {
        self.said.lock().expect("no reader panics")
    }

    fn group(&self) -> Pid {
        Pid::from_child(&self.child)
    }
}

impl Drop for Started {
    /// Asks the group to end, and ends it where it does not.
    fn drop(&mut self) {
        let _ = kill_process_group(self.group(), Signal::TERM);
        let begin = Instant::now();
        while !self.has_ended() && begin.elapsed() < STOP_MAX {
            std::thread::sleep(LOOK);
        }
        // The leader is not reaped yet, so the number still means this group and no other.
        let _ = kill_process_group(self.group(), Signal::KILL);
        let _ = self.child.wait();
    }
}

/// A port that was free a moment ago. It is below those that systems give to clients, one of which could have it
/// before the server does.
fn free_port() -> Result<u16, Failure> {
    let mut last = None;
    for _ in 0..PORT_TRIES {
        let port = fastrand::u16(PORTS);
        match TcpListener::bind(("127.0.0.1", port)) {
            Ok(_) => return Ok(port),
            Err(error) => last = Some(error),
        }
    }
    let why = last.map(|error| error.to_string()).unwrap_or_default();
    Err(Failure::new(format!("no local port is free: {why}"), ""))
}

/// Reads what a server prints to its end, so that it never blocks on a full pipe.
fn listen_to(pipe: Option<impl Read + Send + 'static>, said: &Arc<Mutex<Said>>) {
    let Some(pipe) = pipe else { return };
    let said = said.clone();
    said.lock().expect("no reader panics").open += 1;
    std::thread::spawn(move || {
        let mut pipe = BufReader::new(pipe);
        let mut line = Vec::new();
        loop {
            line.clear();
            let read = pipe
                .by_ref()
                .take(LINE_BYTES_MAX)
                .read_until(b'\n', &mut line);
            let mut said = said.lock().expect("no reader panics");
            if !matches!(read, Ok(bytes) if bytes > 0) {
                said.open -= 1;
                return;
            }
            let text = String::from_utf8_lossy(&line);
            said.port = said.port.or_else(|| port_of(&text));
            said.last.push_back(text.trim_end().to_owned());
            if said.last.len() > LINES_MAX {
                said.last.pop_front();
            }
        }
    });
}

/// The port in a line such as `listening on http://127.0.0.1:8900`.
fn port_of(line: &str) -> Option<u16> {
    let (_, after) = line.split_once("listening on ")?;
    let address = after.split_whitespace().next()?;
    let address = address.split_once("://").map_or(address, |(_, rest)| rest);
    let authority = address.split('/').next()?;
    let (_, port) = authority.rsplit_once(':')?;
    let digits = port
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(port.len());
    port[..digits].parse().ok().filter(|port| *port != 0)
}

fn accepts(port: u16) -> bool {
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    TcpStream::connect_timeout(&address, ATTEMPT_MAX).is_ok()
}

/// Whether an `http://` address gives any answer below 500.
///
/// # Errors
///
/// It is no such address.
fn answers(url: &str) -> Result<bool, Failure> {
    let Some(rest) = url.strip_prefix("http://") else {
        return Err(Failure::new(
            format!("`{url}` cannot be asked whether it is ready"),
            "give an http:// address, or leave --ready out",
        ));
    };
    let (authority, path) = match rest.find('/') {
        Some(slash) => rest.split_at(slash),
        None => (rest, "/"),
    };
    Ok(ask(authority, path).is_some_and(|status| status < 500))
}

/// The status that an address answers a GET with.
pub(crate) fn ask(authority: &str, path: &str) -> Option<u16> {
    let with_port = match authority.contains(':') {
        true => authority.to_owned(),
        false => format!("{authority}:80"),
    };
    let address = with_port.to_socket_addrs().ok()?.next()?;
    let mut stream = TcpStream::connect_timeout(&address, ATTEMPT_MAX).ok()?;
    stream.set_read_timeout(Some(ATTEMPT_MAX)).ok()?;
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: {authority}\r\nConnection: close\r\n\r\n"
    )
    .ok()?;
    let mut head = [0; 12];
    stream.read_exact(&mut head).ok()?;
    let text = std::str::from_utf8(&head).ok()?;
    text.strip_prefix("HTTP/1.")?.get(2..5)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::process::{PidfdFlags, pidfd_open};

    fn launch(command: &str) -> Launch {
        Launch {
            command: command.to_owned(),
            ready: None,
            ready_max: Duration::from_secs(20),
        }
    }

    #[test]
    fn a_port_is_read_from_what_is_said() {
        assert_eq!(port_of("listening on http://127.0.0.1:8900"), Some(8900));
        assert_eq!(
            port_of("INFO weir: listening on 127.0.0.1:80/x, ready"),
            Some(80)
        );
        assert_eq!(port_of("listening on [::1]:8081\n"), Some(8081));
        for line in [
            "",
            "listening on ",
            "listening on x:y",
            "listening on :99999",
            "listening on a:0",
        ] {
            assert_eq!(port_of(line), None, "{line}");
        }
    }

    #[test]
    fn a_group_ends_with_what_was_started() {
        // The shell's child would outlive the shell; its group does not.
        let launch = launch("sleep 1000 & echo $!; echo listening on 127.0.0.1:9; wait");
        let started = launch.start().unwrap();
        let child = started.said.lock().unwrap().last[0].clone();
        let pid = rustix::process::Pid::from_raw(child.parse().unwrap()).unwrap();
        // The descriptor stands for this one process, and is readable when it has ended.
        let ended = pidfd_open(pid, PidfdFlags::empty()).unwrap();
        drop(started);
        let mut polled = [PollFd::new(&ended, PollFlags::IN)];
        let patience = Timespec {
            tv_sec: 30,
            tv_nsec: 0,
        };
        assert_eq!(
            poll(&mut polled, Some(&patience)).unwrap(),
            1,
            "{child} lives on"
        );
    }

    #[test]
    fn an_early_end_says_what_was_said() {
        let failure = launch("echo no such config >&2; exit 3")
            .start()
            .unwrap_err();
        assert!(failure.what.contains("no such config"), "{failure}");
        assert!(
            failure.what.contains("ended before it was ready"),
            "{failure}"
        );
        let mut never = launch("exec sleep 1000");
        never.ready_max = Duration::from_millis(50);
        let failure = never.start().unwrap_err();
        assert!(failure.what.contains("not ready"), "{failure}");
        assert!(failure.help.contains("{port}"), "{failure}");
    }

    #[test]
    fn only_plain_http_is_asked() {
        let mut odd = launch("echo listening on 127.0.0.1:9; exec sleep 1000");
        odd.ready = Some("ftp://x".to_owned());
        assert!(odd.start().unwrap_err().what.contains("ftp://x"));
    }
}
