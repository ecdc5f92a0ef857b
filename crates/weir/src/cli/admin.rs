//! The way of a command to the admin listener of a gateway that runs: a Unix socket that knows its user, or an address of this
//! machine with a key.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use ::config::Listen;
use clap::Args;
use serde_json::{Value, json};

use super::{ConfigFile, Failure, secret_at};

/// Largest answer that is read, in bytes.
const ANSWER_BYTES_MAX: u64 = 64 << 20;
/// How long the gateway may take.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The admin socket that the state folder has where nothing else is written.
const ADMIN_SOCKET: &str = "admin.sock";

/// Where the gateway is.
#[derive(Args, Debug)]
pub(super) struct Gateway {
    #[command(flatten)]
    config: ConfigFile,
    /// Where the key of admin.key is: env:NAME or file:PATH
    #[arg(long, value_name = "REF")]
    admin_key: Option<String>,
}

impl Gateway {
    /// Asks, and gives the answer where it is not a refusal.
    pub(super) fn ask(&self, method: &str, path: &str, body: &Value) -> Result<Value, Failure> {
        let settings = self.config.load()?;
        let listener = settings.admin.listener.as_ref();
        let at = match listener.map(|listener| (&listener.at, listener.is_secured)) {
            None => Listen::Unix(settings.state.join(ADMIN_SOCKET)),
            Some((at, false)) => at.clone(),
            Some((_, true)) => {
                let what = "the admin listener speaks TLS, which this command does not";
                return Err(Failure::new(
                    what,
                    "Use the socket: leave admin.listen out.",
                ));
            }
        };
        let key = self.admin_key.as_ref();
        let key = key.map(|key| secret_at(key, "--admin-key")).transpose()?;
        let authorization = key.map(|key| format!("Authorization: Bearer {}\r\n", key.expose()));
        let body = match body {
            Value::Null => String::new(),
            body => body.to_string(),
        };
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\n{}Content-Type: application/json\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
            authorization.unwrap_or_default(),
            body.len()
        );
        let answer = exchange(&at, request.as_bytes()).map_err(|error| {
            let help = "Start the gateway with weir serve, as this user; or name its configuration with -c FILE.";
            Failure::new(format!("{at} does not answer: {error}"), help)
        })?;
        read(&answer)
    }
}

fn exchange(at: &Listen, request: &[u8]) -> std::io::Result<Vec<u8>> {
    match at {
        Listen::Unix(path) => {
            let stream = UnixStream::connect(path)?;
            stream.set_read_timeout(Some(TIMEOUT))?;
            say_and_hear(stream, request)
        }
        Listen::Tcp(address) => {
            let stream = TcpStream::connect_timeout(address, TIMEOUT)?;
            stream.set_read_timeout(Some(TIMEOUT))?;
            say_and_hear(stream, request)
        }
    }
}

fn say_and_hear(mut stream: impl Read + Write, request: &[u8]) -> std::io::Result<Vec<u8>> {
    stream.write_all(request)?;
    let mut answer = Vec::new();
    stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer)?;
    Ok(answer)
}

/// The JSON of an answer, which ends where the connection does.
fn read(answer: &[u8]) -> Result<Value, Failure> {
    let broken = || Failure::new("the gateway's answer is not whole", "Ask again.");
    let text = std::str::from_utf8(answer).map_err(|_| broken())?;
    let (head, body) = text.split_once("\r\n\r\n").ok_or_else(broken)?;
    let status: u16 = head
        .split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok())
        .ok_or_else(broken)?;
    let body: Value = serde_json::from_str(body.trim()).unwrap_or_else(|_| json!({}));
    match status {
        200..=299 => Ok(body),
        _ => Err(refused(status, &body)),
    }
}

/// A refusal of the gateway, as a failure of the command.
pub(super) fn refused(status: u16, body: &Value) -> Failure {
    let text = |name: &str| body[name].as_str().map(str::to_owned);
    let what = text("title").or_else(|| text("error_description"));
    let what = what.unwrap_or_else(|| format!("the gateway answers {status}"));
    let code = text("code").map_or(String::new(), |code| format!("{code}: "));
    Failure::new(format!("{code}{what}"), text("detail").unwrap_or_default())
}
