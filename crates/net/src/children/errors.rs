//! A child's standard error: lines for the log, within bounds.
//!
//! It is always read, so that a child cannot block on it, and never believed: control characters are taken
//! out, long lines cut, floods counted, and secrets are blotted out: those that the child was given, and those that the permit
//! knows by their form.

use base::permit::LineMask;
use base::{Name, Secret, limit};
use tokio::io::AsyncReadExt;
use tokio::process::ChildStderr;
use tokio::task::spawn_local;
use tokio::time::Instant;

use super::Command;

/// Shorter values of the environment are words rather than secrets, and stand in many lines.
const SECRET_CHARS_MIN: usize = 8;

/// Bytes kept of a line beyond those that are logged, so that a secret is seen whole which the cut would go through.
const SEEN_BEYOND: usize = 1024;

/// Starts the task that logs what the child complains of.
pub(super) fn log(stderr: ChildStderr, command: &Command, mask: LineMask) {
    let secrets: Vec<Secret> = command
        .env
        .iter()
        .map(|(_, secret)| secret.clone())
        .collect();
    let name = command.name.clone();
    spawn_local(async move {
        let mut lines = Lines::new(secrets, mask);
        read(stderr, |bytes, second| {
            lines.take(bytes, second, |said| match said {
                ErrorOutput::Line(line) => {
                    tracing::info!(target: "child", server = %name, "{line}")
                }
                ErrorOutput::Dropped(lines) => report(&name, lines),
            });
        })
        .await;
        let Lines { dropped, .. } = lines;
        report(&name, dropped);
    });
}

fn report(name: &Name, dropped: u64) {
    if dropped > 0 {
        tracing::warn!(target: "child", server = %name, dropped, "more lines were said than are logged");
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
enum ErrorOutput {
    Line(String),
    /// So many lines of the second before were not logged.
    Dropped(u64),
}

/// Cuts bytes into lines, and holds them to their bounds.
struct Lines {
    secrets: Vec<Secret>,
    mask: LineMask,
    /// The lines of a private key are being said (RFC 7468): none of them says by itself what it is.
    in_key: bool,
    /// Bytes kept of a line: enough to see a secret that the cut would go through.
    kept_max: usize,
    line: Vec<u8>,
    second: u64,
    logged: u64,
    dropped: u64,
}

impl Lines {
    fn new(secrets: Vec<Secret>, mask: LineMask) -> Lines {
        let longest = secrets
            .iter()
            .map(|secret| secret.expose().len())
            .max()
            .unwrap_or(0);
        let kept_max = limit::CHILD_STDERR_LINE_BYTES_MAX + longest.max(SEEN_BEYOND);
        Lines {
            secrets,
            mask,
            in_key: false,
            kept_max,
            line: Vec::new(),
            second: 0,
            logged: 0,
            dropped: 0,
        }
    }

    fn take(&mut self, bytes: &[u8], second: u64, mut say: impl FnMut(ErrorOutput)) {
        if second != self.second {
            (self.second, self.logged) = (second, 0);
            if self.dropped > 0 {
                say(ErrorOutput::Dropped(std::mem::take(&mut self.dropped)));
            }
        }
        for &byte in bytes {
            if byte != b'\n' {
                if self.line.len() < self.kept_max {
                    self.line.push(byte);
                }
                continue;
            }
            let is_of_key = self.is_of_key();
            if self.logged < limit::CHILD_STDERR_LINES_MAX {
                self.logged += 1;
                let line = match is_of_key {
                    true => "[secret]".to_owned(),
                    false => clean(&self.line, &self.secrets, &self.mask),
                };
                say(ErrorOutput::Line(line));
            } else {
                self.dropped += 1;
            }
            self.line.clear();
        }
    }

    /// Whether the line is one of a private key that is said over several. One that ends in its own line is for the mask.
    fn is_of_key(&mut self) -> bool {
        let text = String::from_utf8_lossy(&self.line);
        let begins = text.rfind("-----BEGIN ").filter(|at| {
            let label = &text[*at..];
            label.contains("PRIVATE KEY") && !label.contains("-----END ")
        });
        let was_in = self.in_key;
        self.in_key = begins.is_some() || (was_in && !text.contains("-----END "));
        was_in || self.in_key
    }
}

/// The line as it may stand in a log.
fn clean(line: &[u8], secrets: &[Secret], mask: &LineMask) -> String {
    let mut text = String::from_utf8_lossy(line).into_owned();
    // A secret of many lines, such as a key as PEM, is blotted out line by line.
    for secret in secrets.iter().flat_map(|secret| secret.expose().lines()) {
        if secret.len() >= SECRET_CHARS_MIN && text.contains(secret) {
            text = text.replace(secret, "[secret]");
        }
    }
    let mut text = mask(&text);
    text.truncate(text.floor_char_boundary(limit::CHILD_STDERR_LINE_BYTES_MAX));
    // A terminal that shows the log must not obey the child.
    text.replace(|c: char| c.is_control() && c != '\t', "\u{fffd}")
        .trim_end()
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(secrets: &[&str], bytes: &[u8], second: u64) -> Vec<ErrorOutput> {
        let secrets = secrets
            .iter()
            .map(|secret| Secret::new((*secret).to_owned()))
            .collect();
        let mask: LineMask = Box::new(|line| line.replace("known-by-its-form", "[redacted]"));
        let (mut lines, mut said) = (Lines::new(secrets, mask), Vec::new());
        lines.take(bytes, second, |line| said.push(line));
        lines.take(b"", second + 1, |line| said.push(line));
        said
    }

    #[test]
    fn lines_are_cut_and_cleaned() {
        let line = |text: &str| ErrorOutput::Line(text.to_owned());
        assert_eq!(
            said(&[], b"one\ntwo\r\n", 0),
            [line("one"), line("two\u{fffd}")]
        );
        assert_eq!(
            said(&[], b"\x1b[31mred\xff\n", 0),
            [line("\u{fffd}[31mred\u{fffd}")]
        );
        let long = "x".repeat(5000) + "\n";
        assert_eq!(said(&[], long.as_bytes(), 0), [line(&"x".repeat(1024))]);
    }

    #[test]
    fn secrets_are_blotted_out_also_where_a_line_is_cut() {
        let secret = "hunter2-hunter2-hunter2";
        let text = format!("{}{secret}\n", "x".repeat(1015));
        let lines = said(&[secret], text.as_bytes(), 0);
        assert_eq!(lines, [ErrorOutput::Line("x".repeat(1015) + "[secret]")]);
        let lines = said(
            &["first-line-of-it\nsecond-line-of-it"],
            b"a second-line-of-it b\n",
            0,
        );
        assert_eq!(lines, [ErrorOutput::Line("a [secret] b".to_owned())]);
    }

    #[test]
    fn what_the_permit_knows_is_masked_before_the_cut() {
        let text = format!("{}known-by-its-form\n", "x".repeat(1015));
        let lines = said(&[], text.as_bytes(), 0);
        assert_eq!(lines, [ErrorOutput::Line("x".repeat(1015) + "[redacted")]);
    }

    #[test]
    fn a_private_key_over_several_lines_is_said_by_none_of_them() {
        let text = b"a -----BEGIN EC PRIVATE KEY-----\nMHcCAQEE\nAwEHoUQD\n-----END EC PRIVATE KEY-----\nafter\n\
                     -----BEGIN CERTIFICATE-----\nMIIB\n";
        let lines: Vec<String> = said(&[], text, 0)
            .into_iter()
            .map(|line| format!("{line:?}"))
            .collect();
        assert_eq!(
            lines
                .iter()
                .filter(|line| line.contains("[secret]"))
                .count(),
            4
        );
        assert!(!lines.concat().contains("MHcC") && lines.concat().contains("MIIB"));
    }

    #[test]
    fn a_flood_is_counted() {
        let lines = said(&[], "x\n".repeat(1000).as_bytes(), 7);
        assert_eq!(lines.len(), limit::CHILD_STDERR_LINES_MAX as usize + 1);
        assert_eq!(
            lines.last(),
            Some(&ErrorOutput::Dropped(1000 - limit::CHILD_STDERR_LINES_MAX))
        );
    }
}
