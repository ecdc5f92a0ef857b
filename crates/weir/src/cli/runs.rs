//! `weir runs`: the runs of an agent on a gateway that runs, asked as the agent asks: judged and recorded there.

use std::path::PathBuf;
use std::time::Duration;

use base::Secret;
use bytes::Bytes;
use clap::{Args, Subcommand};
use http::header::AUTHORIZATION;
use http::{HeaderValue, Method};
use serde_json::Value;
use terminal::{visible, visible_json, visible_lines};

use super::{Answer, ConfigFile, Ended, Failure, complain, connect, print, secret_at};
use crate::assemble::client::{Asker, Client};
use crate::config::settings::Ca;
use crate::config::values;

/// Largest answer that is read.
const ANSWER_BYTES_MAX: usize = 64 << 20;
/// How long one answer may take, in milliseconds.
const ANSWER_MS: u64 = 60_000;
/// How often is asked for what is new, in milliseconds.
const FOLLOW_MS: u64 = 250;

/// Runs of an agent on a gateway that runs: list, show, follow, end
#[derive(Debug, Subcommand)]
#[command(after_help = "\
Examples:
  weir runs list                        The runs of the agent of WEIR_KEY, the newest first
  weir runs show run_0193f7…            One run: its state, what it used, what it said last
  weir runs events run_0193f7… --follow
  weir runs cancel run_0193f7…")]
pub(super) enum Runs {
    List(List),
    Show(Show),
    Events(Events),
    Cancel(Cancel),
}

/// Which gateway is asked, and as whom.
#[derive(Args, Debug)]
struct RunGateway {
    #[command(flatten)]
    config: ConfigFile,
    /// Where the gateway is; by default public_url of the configuration, or else its first listener
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// Where the agent's key is: env:NAME or file:PATH
    #[arg(long, value_name = "WHERE", default_value = "env:WEIR_KEY")]
    key: String,
    /// Certificates to trust for the gateway instead of the public ones, as PEM
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// List the agent's runs, the newest first
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  weir runs list
  weir runs list --state running --json | jq -r '.data[].id'

Exit codes: 0 listed, 1 the gateway refuses, 2 it could not be asked.")]
pub(super) struct List {
    /// Only in this state: queued, running, parked, completed, failed, cancelled
    #[arg(long, value_name = "STATE")]
    state: Option<String>,
    /// Only of this agent of the configuration's runs
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// Most runs
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=100))]
    limit: u64,
    #[command(flatten)]
    gateway: RunGateway,
}

/// Show one run: its state, what it used, and what it said last
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  weir runs show run_0193f7…
  weir runs show run_0193f7… --json | jq -r .output

Exit codes: 0 shown, 1 there is no such run or the gateway refuses, 2 it could not be asked.")]
pub(super) struct Show {
    /// The run's id
    run: String,
    #[command(flatten)]
    gateway: RunGateway,
}

/// Print the events of a run, one a line
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  weir runs events run_0193f7…
  weir runs events run_0193f7… --follow

Exit codes: 0 printed, 1 there is no such run or the gateway refuses, 2 it could not be asked.")]
pub(super) struct Events {
    /// The run's id
    run: String,
    /// Go on until the run ends
    #[arg(short, long)]
    follow: bool,
    #[command(flatten)]
    gateway: RunGateway,
}

/// End a run; once it is answered nothing of it begins any more
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  weir runs cancel run_0193f7…

Exit codes: 0 it has ended, 1 there is no such run or the gateway refuses, 2 it could not be asked.")]
pub(super) struct Cancel {
    /// The run's id
    run: String,
    #[command(flatten)]
    gateway: RunGateway,
}

/// Why there is no answer.
enum Unanswered {
    /// The gateway says no.
    No(String),
    Failed(String),
}

/// The way to the gateway, with the agent's key.
struct RunWay<'w> {
    asker: &'w Asker<'w>,
    key: &'w Secret,
}

impl RunWay<'_> {
    async fn ask(&self, method: Method, path: &str) -> Result<Value, Unanswered> {
        let unsendable = || Unanswered::Failed("that cannot be asked".to_owned());
        let key = format!("Bearer {}", self.key.expose());
        let mut key = HeaderValue::try_from(key).map_err(|_| unsendable())?;
        key.set_sensitive(true);
        let mut request = http::Request::new(Bytes::new());
        *request.method_mut() = method;
        *request.uri_mut() = path.parse().map_err(|_| unsendable())?;
        request.headers_mut().insert(AUTHORIZATION, key);
        let asked = self.asker.ask(request, ANSWER_BYTES_MAX, ANSWER_MS).await;
        let (head, body) = asked.map_err(Unanswered::Failed)?;
        let body: Value = serde_json::from_slice(&body)
            .map_err(|_| Unanswered::Failed("what is there is no gateway".to_owned()))?;
        match head.status.is_success() {
            true => Ok(body),
            false => Err(Unanswered::No(format!(
                "{}: {}. {}",
                text(&body, "code"),
                text(&body, "title"),
                text(&body, "detail")
            ))),
        }
    }
}

impl RunGateway {
    /// Asks as the body says, and prints what it gives.
    fn run(&self, body: impl AsyncFnOnce(&RunWay<'_>) -> Result<String, Unanswered>) -> Ended {
        let url = connect::gateway(&self.config, self.url.as_deref())?;
        let key = secret_at(&self.key, "--key").map_err(|failure| {
            let help =
                "Set WEIR_KEY to the key of an agent, or name it with --key env:NAME or file:PATH.";
            Failure::new(failure.what, help)
        })?;
        let url = values::url(&url).map_err(|why| Failure::new(format!("the URL {why}"), ""))?;
        let ca = self.ca.as_deref().map(|file| {
            let pem = crate::config::read::read_text(file, ::config::PEM_BYTES_MAX);
            pem.map(|pem| Ca {
                file: file.to_owned(),
                pem,
            })
            .map_err(|why| Failure::new(format!("{} {why}", file.display()), ""))
        });
        let client = Client::new(&url, ca.transpose()?.as_ref());
        let client = client.map_err(|why| Failure::new(why, ""))?;
        let asked = client.run(async |asker| body(&RunWay { asker, key: &key }).await);
        match asked {
            Ok(text) => {
                print(&text)?;
                Ok(Answer::Yes)
            }
            Err(Unanswered::No(why)) => {
                complain(&visible(&why), "");
                Ok(Answer::No)
            }
            Err(Unanswered::Failed(why)) => {
                let help = "Is the gateway running there? Name its address with --url.";
                Err(Failure::new(visible(&why).into_owned(), help))
            }
        }
    }

    /// JSON where that is asked for.
    fn or_json(&self, value: &Value, text: impl FnOnce() -> String) -> String {
        match self.json {
            true => format!("{}\n", visible_json(&value.to_string())),
            false => text(),
        }
    }
}

impl Runs {
    pub(super) fn run(self) -> Ended {
        match self {
            Runs::List(command) => command.run(),
            Runs::Show(command) => command.run(),
            Runs::Events(command) => command.run(),
            Runs::Cancel(command) => command.run(),
        }
    }
}

impl List {
    fn run(self) -> Ended {
        let mut path = format!("/v1/runs?limit={}", self.limit);
        for (name, value) in [("state", &self.state), ("agent", &self.agent)] {
            if let Some(value) = value {
                path.push_str(&format!("&{name}={value}"));
            }
        }
        self.gateway.run(async |way| {
            let listed = way.ask(Method::GET, &path).await?;
            let lines = || {
                let runs = listed["data"].as_array().into_iter().flatten();
                runs.map(line).collect()
            };
            Ok(self.gateway.or_json(&listed, lines))
        })
    }
}

impl Show {
    fn run(self) -> Ended {
        let path = format!("/v1/runs/{}", self.run);
        self.gateway.run(async |way| {
            let mut shown = way.ask(Method::GET, &path).await?;
            if !shown["ended_at"].is_null() {
                shown = way.ask(Method::GET, &format!("{path}/result")).await?;
            }
            let lines = || {
                let usage = &shown["usage"];
                let mut lines = line(&shown);
                if !usage.is_null() {
                    lines.push_str(&format!(
                        "steps {}, calls of tools {}, tokens {} in and {} out\n",
                        usage["steps"],
                        usage["tool_calls"],
                        usage["input_tokens"],
                        usage["output_tokens"]
                    ));
                }
                let error = &shown["error"];
                if !error.is_null() {
                    let (code, message) = (text(error, "code"), text(error, "message"));
                    lines.push_str(&format!("{}: {}\n", visible(&code), visible(&message)));
                }
                let output = text(&shown, "output");
                if !output.is_empty() {
                    lines.push_str(&format!("\n{}\n", visible_lines(&output)));
                }
                lines
            };
            Ok(self.gateway.or_json(&shown, lines))
        })
    }
}

impl Events {
    fn run(self) -> Ended {
        let path = format!("/v1/runs/{}/events", self.run);
        self.gateway.run(async |way| {
            let mut after = 0;
            loop {
                let page = way
                    .ask(Method::GET, &format!("{path}?after={after}"))
                    .await?;
                let mut lines = String::new();
                for event in page["data"].as_array().into_iter().flatten() {
                    after = event["id"].as_u64().unwrap_or(after);
                    lines.push_str(&match self.gateway.json {
                        true => format!("{}\n", visible_json(&event.to_string())),
                        false => event_line(event),
                    });
                }
                print(&lines).map_err(|failure| Unanswered::Failed(failure.what))?;
                let is_over = matches!(
                    page["state"].as_str(),
                    Some("completed" | "failed" | "cancelled")
                );
                if page["has_more"] == true {
                    continue;
                }
                if is_over || !self.follow {
                    return Ok(String::new());
                }
                tokio::time::sleep(Duration::from_millis(FOLLOW_MS)).await;
            }
        })
    }
}

impl Cancel {
    fn run(self) -> Ended {
        let path = format!("/v1/runs/{}", self.run);
        self.gateway.run(async |way| {
            let ended = way.ask(Method::DELETE, &path).await?;
            Ok(self.gateway.or_json(&ended, || line(&ended)))
        })
    }
}

fn text(value: &Value, key: &str) -> String {
    value[key].as_str().unwrap_or_default().to_owned()
}

/// One run on one line.
fn line(run: &Value) -> String {
    let of = |key: &str| visible(&text(run, key)).into_owned();
    format!(
        "{}  {:<9}  {:<16}  {}  {} events\n",
        of("id"),
        of("state"),
        of("agent"),
        of("created_at"),
        run["events"]
    )
}

/// One event on one line: its number, what it is, and what it says.
fn event_line(event: &Value) -> String {
    let mut rest = event.clone();
    if let Some(rest) = rest.as_object_mut() {
        for key in ["id", "at", "type"] {
            rest.remove(key);
        }
    }
    format!(
        "{:>5}  {}  {:<15}  {}\n",
        event["id"].as_u64().unwrap_or_default(),
        visible(&text(event, "at")),
        visible(&text(event, "type")),
        visible_json(&rest.to_string())
    )
}
