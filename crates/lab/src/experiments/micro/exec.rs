//! Operations of any program, asked for by JSON lines on its standard input and answered on its standard output.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};

use super::{Asked, Listed, OPERATIONS_MAX, Source, Took};
use crate::exit::Failure;
use crate::output::units::{cut, plain};
use crate::watch::process;

/// Longest line that is read, in bytes.
const LINE_BYTES_MAX: u64 = 1 << 20;
/// Longest that an answer may take.
const ANSWER_MAX: Duration = Duration::from_secs(120);
/// Longest name of an operation, in characters.
const NAME_MAX: usize = 100;

/// A program that was started. Dropping it ends it with all that it started.
pub(super) struct Program {
    command: String,
    child: Child,
    input: ChildStdin,
    lines: Receiver<Vec<u8>>,
}

impl Program {
    pub(super) fn start(command: &str) -> Result<Program, Failure> {
        let fail = |why: String| {
            Failure::new(
                format!("`{command}` {why}"),
                "name a program that reads and answers JSON lines: see --help",
            )
        };
        let mut child = Command::new("sh")
            .args(["-c", command])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .map_err(|e| fail(format!("cannot be started: {e}")))?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(fail("has no pipes".to_owned()));
        };
        let (send, lines) = sync_channel(1);
        std::thread::spawn(move || {
            let mut output = BufReader::new(output);
            loop {
                let mut line = Vec::new();
                let read = output
                    .by_ref()
                    .take(LINE_BYTES_MAX)
                    .read_until(b'\n', &mut line);
                if !matches!(read, Ok(1..)) || send.send(line).is_err() {
                    return;
                }
            }
        });
        Ok(Program {
            command: command.to_owned(),
            child,
            input,
            lines,
        })
    }

    fn fail(&self, why: &str) -> Failure {
        let help = "it has to answer each line with one JSON object: see weir lab micro --help";
        Failure::new(format!("`{}` {why}", self.command), help)
    }

    fn ask(&mut self, question: &Value) -> Result<Value, Failure> {
        let line = format!("{question}\n");
        // One that has ended may have answered before.
        let _ = self
            .input
            .write_all(line.as_bytes())
            .and_then(|()| self.input.flush());
        let line = match self.lines.recv_timeout(ANSWER_MAX) {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout) => {
                return Err(self.fail(&format!("did not answer within {} s", ANSWER_MAX.as_secs())));
            }
            Err(RecvTimeoutError::Disconnected) => return Err(self.fail("ended without an answer")),
        };
        let answer: Value = serde_json::from_slice(&line).map_err(|e| {
            let said = cut(&plain(&String::from_utf8_lossy(&line)), 60);
            self.fail(&format!("answered no JSON: {e}: {said}"))
        })?;
        match answer.get("error").and_then(Value::as_str) {
            Some(error) => Err(self.fail(&format!("says: {}", cut(&plain(error), 200)))),
            None => Ok(answer),
        }
    }

    /// CPU time of its first process, in nanoseconds: of the shell where that starts others, so such a program has to say its own.
    fn cpu_ns(&self) -> Option<f64> {
        let threads = process::threads(self.child.id(), 1);
        let all = threads.iter().map(|(_, sched)| sched.on_cpu_ns as f64);
        (!threads.is_empty()).then(|| all.sum())
    }
}

impl Source for Program {
    fn list(&mut self) -> Result<Vec<Listed>, Failure> {
        let answer = self.ask(&json!({ "list": true }))?;
        let all = answer["operations"].as_array().cloned().unwrap_or_default();
        let one = |one: &Value| {
            let name = one["name"]
                .as_str()
                .filter(|name| (1..=NAME_MAX).contains(&name.chars().count()))?;
            Some(Listed {
                name: name.to_owned(),
                about: cut(one["about"].as_str().unwrap_or_default(), NAME_MAX),
                is_sized: one["sized"].as_bool().unwrap_or(false),
            })
        };
        let listed: Option<Vec<Listed>> = all.iter().take(OPERATIONS_MAX + 1).map(one).collect();
        match listed {
            Some(listed) if !listed.is_empty() => Ok(listed),
            _ => Err(self.fail("lists no operations")),
        }
    }

    fn run(&mut self, cell: &Asked, times: u64) -> Result<Took, Failure> {
        let (cpu, clock) = (self.cpu_ns(), Instant::now());
        let question = json!({ "run": cell.operation.name, "size": cell.size, "times": times, "threads": cell.threads });
        let answer = self.ask(&question)?;
        let wall_ns = clock.elapsed().as_nanos() as f64;
        let told = |name: &str| {
            answer[name]
                .as_f64()
                .filter(|ns| ns.is_finite() && *ns >= 0.0)
        };
        // What it says of itself is believed, but for the time on the wall, which cannot be longer than ours.
        let told_wall = told("wall_ns").unwrap_or(wall_ns).min(wall_ns);
        let read = self
            .cpu_ns()
            .zip(cpu)
            .map(|(after, before)| (after - before).max(0.0));
        match told("cpu_ns").or(read) {
            Some(cpu_ns) => Ok(Took {
                times: times * cell.threads as u64,
                cpu_ns,
                wall_ns: told_wall.max(1.0),
            }),
            None => Err(self.fail("does not say cpu_ns, and its CPU time cannot be read")),
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if let Some(group) = Pid::from_raw(self.child.id() as i32) {
            // It may have ended already.
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.child.wait();
    }
}
