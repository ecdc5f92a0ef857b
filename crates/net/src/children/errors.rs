//! A child's standard error: lines for the log, within bounds.
//!
//! It is always read, so that a child cannot block on it, and never believed: control characters are taken
//! out, long lines cut, floods counted, and the secrets that the child was given are blotted out.

use base::{Name, Secret, limit};
use tokio::io::AsyncReadExt;
use tokio::process::ChildStderr;
use tokio::task::spawn_local;
use tokio::time::Instant;

use super::Command;

/// Shorter values of the environment are words rather than secrets, and stand in many lines.
const SECRET_CHARS_MIN: usize = 8;

/// Starts the task that logs what the child complains of.
pub(super) fn log(stderr: ChildStderr, command: &Command) {
    let secrets: Vec<Secret> = command
        .env
        .iter()
        .map(|(_, secret)| secret.clone())
        .collect();
    let name = command.name.clone();
    spawn_local(async move {
        let mut lines = Lines::new(secrets);
        read(stderr, |bytes, second| {
            lines.take(bytes, second, |said| match said {
                Said::Line(line) => tracing::info!(target: "child", server = %name, "{line}"),
                Said::Dropped(lines) => {
                    tracing::warn!(target: "child", server = %name, lines, "more was said than is logged");
                }
            });
        })
        .await;
        let Lines { dropped, .. } = lines;
        report(&name, dropped);
    });
}

fn report(name: &Name, dropped: u64) {
    if dropped > 0 {
        tracing::warn!(target: "child", server = %name, lines = dropped, "more was said than is logged");
    }
}

async fn read(mut stderr: ChildStderr, mut take: impl FnMut(&[u8], u64)) {
    let started = Instant::now();
    let mut buffer = [0; 4096];
    while let Ok(read @ 1..) = stderr.read(&mut buffer).await {
        take(&buffer[..read], started.elapsed().as_secs());
    }
}

/// What goes to the log.
#[derive(Debug, PartialEq, Eq)]
enum Said {
    Line(String),
    /// So many lines of the second before were not logged.
    Dropped(u64),
}

/// Cuts bytes into lines, and holds them to their bounds.
struct Lines {
    secrets: Vec<Secret>,
    line: Vec<u8>,
    second: u64,
    logged: u64,
    dropped: u64,
}

impl Lines {
    fn new(secrets: Vec<Secret>) -> Lines {
        Lines {
            secrets,
            line: Vec::new(),
            second: 0,
            logged: 0,
            dropped: 0,
        }
    }

    fn take(&mut self, bytes: &[u8], second: u64, mut say: impl FnMut(Said)) {
        if second != self.second {
            (self.second, self.logged) = (second, 0);
            if self.dropped > 0 {
                say(Said::Dropped(std::mem::take(&mut self.dropped)));
            }
        }
        for &byte in bytes {
            if byte != b'\n' {
                if self.line.len() < limit::CHILD_STDERR_LINE_BYTES_MAX {
                    self.line.push(byte);
                }
                continue;
            }
            if self.logged < limit::CHILD_STDERR_LINES_MAX {
                self.logged += 1;
                say(Said::Line(clean(&self.line, &self.secrets)));
            } else {
                self.dropped += 1;
            }
            self.line.clear();
        }
    }
}

/// The line as it may stand in a log.
fn clean(line: &[u8], secrets: &[Secret]) -> String {
    let mut text = String::from_utf8_lossy(line).into_owned();
    for secret in secrets {
        let secret = secret.expose();
        if secret.len() >= SECRET_CHARS_MIN && text.contains(secret) {
            text = text.replace(secret, "[secret]");
        }
    }
    // A terminal that shows the log must not obey the child.
    text.replace(|c: char| c.is_control() && c != '\t', "\u{fffd}")
        .trim_end()
        .to_owned()
}
