//! `weir lab target`: starts the fake server, says where it listens, and at the end what it saw.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use base::Secret;
use clap::Args;
use serde_json::json;

use crate::exit::{Ended, Exit, Failure};
use crate::scenario::read;
use crate::scenario::units;
use crate::target::chance::share;
use crate::target::llm::{SCRIPT_BYTES_MAX, Script};
use crate::target::{
    self, Answers, Auth, Behaviour, Chance, Distribution, Every, Freeze, Llm, Mcp, Running,
    Settings, Tls, Zero,
};
use config::Reference;

/// Starts a fake server to measure against
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  weir lab target
  weir lab target --listen 127.0.0.1:0 --tls
  weir lab target --delay 'lognormal(5ms,0.5)' --error 503:1% --freeze 4s..6s
  weir lab target --ttft 300ms --tokens-per-second 60 --error-every reset@3:10
  weir lab target --error-every 429:5 --retry-after 7 --cached 50% --usage-times 0.1
  weir lab target --script turns.yaml
  weir lab target --work 160us --work-per-kb 10us --pool 8 --leak 60MB     A server whose numbers are known

Exit codes: 0 it was told to stop, 2 it could not listen.")]
pub struct Target {
    /// Where to listen; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8900")]
    listen: SocketAddr,
    /// Listen on an address that others can reach
    #[arg(long)]
    expose: bool,
    /// Threads, each with its own listener
    #[arg(long, value_name = "N", default_value_t = 1)]
    threads: usize,
    /// What everything drawn depends on: the same seed, the same sequence
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Say where it listens, and what it saw, as lines of JSON
    #[arg(long)]
    json: bool,
    /// The size of the body of GET /
    #[arg(long, value_name = "SIZE", default_value = "128", value_parser = units::size)]
    body_bytes: u64,
    #[command(flatten)]
    behaviour: BehaviourArgs,
    #[command(flatten)]
    made: MadeArgs,
    #[command(flatten)]
    tls: TlsArgs,
    #[command(flatten)]
    auth: AuthArgs,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "How it behaves")]
struct BehaviourArgs {
    /// The time before each answer: 5ms, uniform(1ms,9ms), exp(5ms), lognormal(5ms,0.5),
    /// mix(0.99:5ms,0.01:100ms)
    #[arg(long, value_name = "TIME", default_value = "0")]
    delay: Distribution,
    /// CPU time that each answer takes besides, at most 1s: a server that is dearer by a known amount
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = work)]
    work: Duration,
    /// The same for each kilobyte (1,000 bytes) of the request's body
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = work)]
    work_per_kb: Duration,
    /// Time before an answer for each kilobyte of the request's body, without CPU time
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = work)]
    delay_per_kb: Duration,
    /// So many requests are worked on at once, and the others wait
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pool: Option<u32>,
    /// Keep so many bytes more each minute, such as 60MB; at most 1GiB in all
    #[arg(long, value_name = "SIZE", value_parser = units::size)]
    leak: Option<u64>,
    /// Give back all that --leak kept, each time this has passed
    #[arg(long, value_name = "TIME", requires = "leak", value_parser = units::duration)]
    leak_back_every: Option<Duration>,
    /// A fault by chance: a status from 400 to 599, close, reset, corrupt or garbage, or what befalls a stream after N
    /// events: error@N, garbage@N, reset@N, close@N or stall@N; such as 503:1%
    #[arg(long, value_name = "FAULT:SHARE")]
    error: Vec<Chance>,
    /// A fault by number: 503:100 is each hundredth request, reset@3:10 each tenth after its third event
    #[arg(long, value_name = "FAULT:N")]
    error_every: Vec<Every>,
    /// Answer nothing in a window of time: 4s..6s, or 'every 10s for 1s'
    #[arg(long, value_name = "WINDOW")]
    freeze: Vec<Freeze>,
    /// When the time of the freezes is zero: first-request or start
    #[arg(long, value_name = "WHEN", default_value = "first-request")]
    freeze_from: Zero,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "LLM and MCP")]
struct MadeArgs {
    /// The time to the first token, after the delay
    #[arg(long, value_name = "TIME", default_value = "0")]
    ttft: Distribution,
    /// Tokens a second after the first; 0: all at once
    #[arg(long, value_name = "N", default_value_t = 0.0)]
    tokens_per_second: f64,
    /// Tokens of an answer, unless the request allows fewer
    #[arg(long, value_name = "N", default_value_t = 32)]
    tokens: u64,
    /// Tokens of reasoning before an answer whose request asks for it
    #[arg(long, value_name = "N", default_value_t = 16)]
    reasoning: u64,
    /// How much of what was asked is told as read from the provider's cache: 50%
    #[arg(long, value_name = "SHARE", default_value = "0", value_parser = share)]
    cached: f64,
    /// Tell so many times the tokens that were counted: a usage that lies
    #[arg(long, value_name = "N", default_value_t = 1.0)]
    usage_times: f64,
    /// How long a client is told to wait that gets 429 or 503, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 1)]
    retry_after: u64,
    /// What models answer, turn by turn: a file that docs/lab.md describes
    #[arg(long, value_name = "FILE")]
    script: Option<PathBuf>,
    /// How MCP requests are answered: json, sse or mixed
    #[arg(long, value_name = "FORM", default_value = "json")]
    mcp_answers: Answers,
    /// Answer 405 to GET /mcp, instead of an open stream
    #[arg(long)]
    mcp_no_stream: bool,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "TLS")]
struct TlsArgs {
    /// Speak TLS, with a certificate made now for localhost, 127.0.0.1 and ::1
    #[arg(long, conflicts_with = "tls_cert")]
    tls: bool,
    /// Write the authority of the made certificate here, as PEM
    #[arg(long, value_name = "FILE", requires = "tls")]
    tls_ca_out: Option<PathBuf>,
    /// Speak TLS with this certificate chain (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The key of --tls-cert (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Ask each client for a certificate by one of these authorities (PEM)
    #[arg(long, value_name = "FILE")]
    client_ca: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Who may ask")]
struct AuthArgs {
    /// Answer 401 without this bearer token: env:NAME or file:PATH
    #[arg(long, value_name = "FROM", conflicts_with = "basic")]
    bearer: Option<String>,
    /// Answer 401 without this user:password: env:NAME or file:PATH
    #[arg(long, value_name = "FROM")]
    basic: Option<String>,
}

impl Target {
    pub fn run(self) -> Ended {
        if !self.listen.ip().is_loopback() && !self.expose {
            return Err(Failure::new(
                format!("{} can be reached by others", self.listen),
                "listen on 127.0.0.1, or add --expose",
            ));
        }
        let (json, ca_out) = (self.json, self.tls.tls_ca_out.clone());
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build()
            .map_err(|error| Failure::new(format!("cannot start: {error}"), ""))?;
        // The signals are watched before anything can be measured, so that none ends the process unheard.
        let _entered = runtime.enter();
        let signals = Signals::watch()?;
        let settings = self.settings()?;
        let secure = settings.tls.is_some();
        let running = target::start(settings)
            .map_err(|error| Failure::new(error.to_string(), "see weir lab target --help"))?;
        if let (Some(file), Some(pem)) = (&ca_out, running.ca_pem()) {
            std::fs::write(file, pem).map_err(|error| {
                Failure::new(format!("cannot write {}: {error}", file.display()), "")
            })?;
        }
        announce(&running, secure, json, ca_out.is_some())?;
        runtime.block_on(signals.first());
        let counts = running.counts();
        running.stop();
        say(&serde_json::to_string(&counts).map_err(|error| Failure::new(error.to_string(), ""))?)?;
        Ok(Exit::Pass)
    }

    fn settings(self) -> Result<Settings, Failure> {
        let auth = match (&self.auth.bearer, &self.auth.basic) {
            (Some(from), _) => Some(Auth::Bearer(credential(from)?)),
            (None, Some(from)) => Some(Auth::Basic(credential(from)?)),
            (None, None) => None,
        };
        let script = self.made.script.as_deref().map(script).transpose()?;
        let tls = self.tls;
        let files = tls.tls_cert.zip(tls.tls_key);
        let secure = tls.tls || files.is_some();
        if tls.client_ca.is_some() && !secure {
            return Err(Failure::new(
                "--client-ca asks for certificates, and there is no TLS",
                "add --tls, or --tls-cert and --tls-key",
            ));
        }
        Ok(Settings {
            listen: self.listen,
            threads: self.threads,
            seed: self.seed,
            body_bytes: self.body_bytes,
            behaviour: Behaviour {
                delay: self.behaviour.delay,
                work: self.behaviour.work,
                work_per_kb: self.behaviour.work_per_kb,
                delay_per_kb: self.behaviour.delay_per_kb,
                pool: self.behaviour.pool.map(|places| places as usize),
                chances: self.behaviour.error,
                every: self.behaviour.error_every,
                freezes: self.behaviour.freeze,
                zero: self.behaviour.freeze_from,
            },
            llm: Llm {
                first_token: self.made.ttft,
                tokens_per_second: self.made.tokens_per_second,
                tokens: self.made.tokens,
                reasoning: self.made.reasoning,
                cached: self.made.cached,
                usage_times: self.made.usage_times,
                retry_after: self.made.retry_after,
                script,
            },
            mcp: Mcp {
                answers: self.made.mcp_answers,
                no_stream: self.made.mcp_no_stream,
            },
            leak: self.behaviour.leak.map(|bytes_a_minute| target::Leak {
                bytes_a_minute,
                given_back_every: self.behaviour.leak_back_every,
            }),
            tls: secure.then_some(Tls {
                files,
                client_ca: tls.client_ca,
            }),
            auth,
        })
    }
}

fn announce(running: &Running, secure: bool, json: bool, written: bool) -> Result<(), Failure> {
    let scheme = if secure { "https" } else { "http" };
    let url = format!("{scheme}://{}", running.address());
    let pem = running.ca_pem().filter(|_| !written);
    if json {
        return say(&json!({ "listening": url, "ca_pem": pem }).to_string());
    }
    say(&format!("listening on {url}"))?;
    match pem {
        Some(pem) => say(pem.trim_end()),
        None => Ok(()),
    }
}

/// Writes a line to standard output at once.
fn say(line: &str) -> Result<(), Failure> {
    use std::io::Write as _;
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")
        .and_then(|()| out.flush())
        .map_err(|error| Failure::new(format!("cannot write to standard output: {error}"), ""))
}

/// Reads the one line that `env:NAME` or `file:PATH` leads to. What is wrong with it is said without it.
fn credential(from: &str) -> Result<Secret, Failure> {
    let text = match Reference::parse(from) {
        Ok(Reference::Env(name)) => {
            std::env::var(&name).map_err(|_| format!("the variable {name} is not set"))
        }
        Ok(Reference::File(path)) => read::text(Path::new(&path), read::SECRET_BYTES_MAX),
        Err(what) => Err(what),
    };
    text.and_then(|text| config::one_line(&text))
        .map(Secret::new)
        .map_err(|what| Failure::new(what, ""))
}

/// Reads a script.
fn script(path: &Path) -> Result<Arc<Script>, Failure> {
    let text = read::text(path, SCRIPT_BYTES_MAX);
    text.and_then(|text| Script::read(&path.display().to_string(), &text))
        .map(Arc::new)
        .map_err(|what| Failure::new(what, "docs/lab.md says what a script has"))
}

/// Reads the CPU time of an answer.
fn work(text: &str) -> Result<Duration, String> {
    let time = if text == "0" {
        Duration::ZERO
    } else {
        units::duration(text)?
    };
    if time > Duration::from_secs(1) {
        return Err("at most 1s".to_owned());
    }
    Ok(time)
}

/// The signals that end the target.
struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

impl Signals {
    /// Must be called inside a runtime.
    fn watch() -> Result<Signals, Failure> {
        use tokio::signal::unix::{SignalKind, signal};
        let watch = |kind| {
            signal(kind).map_err(|error| Failure::new(format!("cannot watch signals: {error}"), ""))
        };
        Ok(Signals {
            interrupt: watch(SignalKind::interrupt())?,
            terminate: watch(SignalKind::terminate())?,
        })
    }

    async fn first(mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        target: Target,
    }

    fn line(flags: &[&str]) -> Result<Target, clap::Error> {
        let line = Line::try_parse_from(["target"].iter().chain(flags))?;
        Ok(line.target)
    }

    #[test]
    fn flags_become_settings() {
        let settings = |flags: &[&str]| line(flags).unwrap().settings().unwrap();
        let plain = settings(&[]);
        assert_eq!(plain.listen, SocketAddr::from(([127, 0, 0, 1], 8900)));
        assert!(plain.behaviour.is_plain() && plain.tls.is_none() && plain.auth.is_none());
        let many = settings(&[
            "--body-bytes=10KB",
            "--delay=exp(5ms)",
            "--error=503:1%",
            "--error=close:0.1%",
            "--error-every=500:100",
            "--freeze=4s..6s",
            "--freeze=every 10s for 1s",
            "--freeze-from=start",
            "--ttft=lognormal(300ms,0.4)",
            "--mcp-answers=mixed",
            "--cached=50%",
            "--usage-times=0.1",
            "--retry-after=7",
            "--error-every=stall@2:9",
            "--tls",
        ]);
        assert_eq!(many.body_bytes, 10_000);
        assert_eq!(many.behaviour.chances.len(), 2);
        assert_eq!(many.behaviour.every.len(), 2);
        assert_eq!(many.behaviour.freezes.len(), 2);
        assert_eq!(many.behaviour.zero, Zero::Start);
        assert_eq!(many.mcp.answers, Answers::Mixed);
        assert!(many.tls.is_some());
        assert_eq!((many.llm.cached, many.llm.retry_after), (0.5, 7));
    }

    #[test]
    fn wrong_flags_are_refused() {
        for flags in [
            ["--delay=5"].as_slice(),
            &["--delay=gauss(1ms)"],
            &["--error=503"],
            &["--error=200:1%"],
            &["--error-every=503:0"],
            &["--freeze=6s..4s"],
            &["--freeze-from=now"],
            &["--body-bytes=ten"],
            &["--mcp-answers=xml"],
            &["--tls-ca-out=ca.pem"],
            &["--tls-cert=a.pem"],
            &["--tls", "--tls-cert=a.pem", "--tls-key=b.pem"],
            &["--bearer=env:A", "--basic=env:B"],
            &["--listen=localhost"],
        ] {
            assert!(line(flags).is_err(), "{flags:?}");
        }
    }

    #[test]
    fn what_cannot_be_run_says_how_to_mend_it() {
        let fails = |flags: &[&str]| line(flags).unwrap().run().unwrap_err().to_string();
        let exposed = fails(&["--listen=0.0.0.0:0"]);
        assert!(
            exposed.contains("0.0.0.0:0") && exposed.contains("--expose"),
            "{exposed}"
        );
        assert!(fails(&["--client-ca=ca.pem"]).contains("--tls"));
        assert!(fails(&["--listen=127.0.0.1:0", "--threads=0"]).contains("256"));
        let folder = tempfile::tempdir().unwrap();
        let empty = folder.path().join("empty");
        std::fs::write(&empty, "\n").unwrap();
        let from = format!("--bearer=file:{}", empty.display());
        assert!(fails(&[&from]).contains("empty"));
        let script = folder.path().join("turns.yaml");
        std::fs::write(&script, "models: { m: [{ word: x }] }").unwrap();
        let wrong = fails(&[&format!("--script={}", script.display())]);
        assert!(
            wrong.contains("turns.yaml:1:") && wrong.contains("word"),
            "{wrong}"
        );
        assert!(fails(&["--bearer=file:/nonexistent/file"]).contains("/nonexistent/file"));
        // The secret itself is not repeated.
        let given = fails(&["--bearer=s3cret"]);
        assert!(
            given.contains("env:NAME") && !given.contains("s3cret"),
            "{given}"
        );
    }
}
