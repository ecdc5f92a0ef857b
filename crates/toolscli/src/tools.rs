//! `weir tools`: the MCP servers that weir ships, run alone or as `weir serve` runs them.

use std::io::IsTerminal;
use std::net::SocketAddr;

use base::Secret;
use clap::{ArgGroup, Args, Subcommand, ValueEnum};
use tools::code::Desk;
use tools::code::embed::{Embedder, Endpoint, Kind};
use tools::code::parse::worker;
use tools::section::EMBED_KEY;
use tools::serve::fence::{self, Fence, Held};
use tools::serve::{http, memory, session};

use crate::code::index::Index;
use crate::{Answer, Ended, Failure};

/// The MCP servers that weir ships
#[derive(Debug, Subcommand)]
#[command(after_help = "\
Examples:
  weir tools code --stdio --root ~/src/app
  weir tools flow --stdio\n\nExit codes: 0 done, 1 no, 2 it could not be done.")]
pub enum Tools {
    Code(Box<Code>),
    Flow(crate::flow::serve::ServeFlow),
}

/// Serve code search as an MCP server
///
/// It reads what is below its roots and nothing else, and writes its data folder and nothing else. Each root is
/// indexed when it starts, and kept up to date; it answers meanwhile. Any number of processes may share
/// a data folder: one has the index, the others ask it.
#[derive(Args, Debug)]
#[command(group = ArgGroup::new("way"), override_usage = "weir tools code [OPTIONS] <--stdio|--http <ADDRESS>>", after_help = "\
Examples:
  weir tools code --stdio --root ~/src/app
  weir tools code --http 127.0.0.1:8790 --root ~/src --data ~/.cache/app-index
  claude mcp add code -- weir tools code --stdio --root .

In weir.yaml, which runs it behind the gate:
  tools: { code: { roots: [.] } }

Exit codes: 0 its client is gone, or it was told to stop, 2 it could not begin.")]
pub struct Code {
    /// Speak over standard input and output
    #[arg(long, group = "way")]
    stdio: bool,
    /// Speak streamable HTTP at /mcp of this address, which has to be a loopback address
    #[arg(long, group = "way", value_name = "ADDRESS")]
    http: Option<SocketAddr>,
    /// Parse files for a process that says which
    #[arg(long, conflicts_with = "way", hide = true)]
    parse: bool,
    #[command(flatten)]
    index: Index,
    /// List the tools of this server too, and answer search_code with its keys
    #[arg(long, value_enum, value_name = "SERVER")]
    compat: Option<Compat>,
    #[command(flatten)]
    embed: Embed,
}

/// Whose tools are listed too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Compat {
    Codebase,
}

/// Where vectors are made.
#[derive(Args, Debug)]
struct Embed {
    /// Search by likeness too, with vectors of this endpoint; its key is in WEIR_EMBED_KEY
    #[arg(long, value_name = "URL", requires = "embed_model")]
    embed_url: Option<String>,
    /// What the endpoint speaks
    #[arg(long, value_enum, value_name = "KIND", default_value = "ollama")]
    embed_kind: EmbedKind,
    /// The model
    #[arg(long, value_name = "MODEL")]
    embed_model: Option<String>,
    /// What the model wants before a query
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "",
        hide_default_value = true
    )]
    embed_query_prefix: String,
    /// What the model wants before a text that is searched
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "",
        hide_default_value = true
    )]
    embed_document_prefix: String,
}

/// What an endpoint speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum EmbedKind {
    /// /api/embed of Ollama
    Ollama,
    /// /v1/embeddings of OpenAI
    Openai,
}

impl Tools {
    /// Runs the server until it is told to stop.
    pub fn run(self) -> Ended {
        match self {
            Tools::Code(command) => command.run(),
            Tools::Flow(command) => command.run(),
        }
    }
}

impl Code {
    fn run(self) -> Ended {
        if self.parse {
            // Its parent's fence, and less: a parser is given bytes, and needs no file.
            put_up(&Fence::default())?;
            let served = worker::serve();
            return served
                .map(|()| Answer::Yes)
                .map_err(|error| Failure::new(format!("the parser: {error}"), ""));
        }
        // Said here: clap would name the hidden option too.
        if !self.stdio && self.http.is_none() {
            let what = "weir tools code has to be told what to speak over";
            return Err(Failure::new(
                what,
                "Give --stdio, or --http 127.0.0.1:8790.",
            ));
        }
        write_logs();
        if let Err(error) = memory::give_back() {
            tracing::info!(%error, "memory that was used once is kept");
        }
        let failed = |what: &str| {
            let what = what.to_owned();
            move |error: std::io::Error| Failure::new(format!("{what}: {error}"), "")
        };
        // Before the fence, which lets nobody listen.
        let listener = self
            .http
            .map(|address| http::bind(address).map_err(failed("--http")));
        let listener = listener.transpose()?;
        let mut settings = self.index.settings(true)?;
        settings.endpoint = self.embed.endpoint();
        let port = match &settings.endpoint {
            Some(endpoint) => Some(port(endpoint)?),
            None => None,
        };
        put_up(&Fence {
            roots: settings.engine.roots.clone(),
            data: settings.engine.data_dir.clone(),
            program: std::env::current_exe().ok(),
            ports: port.into_iter().collect(),
        })?;
        let codebase = self.compat == Some(Compat::Codebase);
        let runtime = crate::runtime()?;
        let served = runtime.block_on(async {
            let desk = Desk::open(settings)?;
            match listener {
                Some(listener) => {
                    let address = listener.local_addr()?;
                    crate::print(&format!("http://{address}/mcp\n"))
                        .map_err(|failure| std::io::Error::other(failure.what))?;
                    http::serve(listener, desk, codebase, "").await
                }
                None => session::stdio(desk, codebase, "").await,
            }
        });
        // Threads that wait, for a lock or a client, are not waited for.
        runtime.shutdown_background();
        served.map_err(failed("code search"))?;
        Ok(Answer::Yes)
    }
}

impl Embed {
    fn endpoint(&self) -> Option<Endpoint> {
        Some(Endpoint {
            url: self.embed_url.clone()?,
            kind: match self.embed_kind {
                EmbedKind::Ollama => Kind::Ollama,
                EmbedKind::Openai => Kind::OpenAi,
            },
            model: self.embed_model.clone()?,
            key: std::env::var(EMBED_KEY).ok().map(Secret::new),
            query_prefix: self.embed_query_prefix.clone(),
            document_prefix: self.embed_document_prefix.clone(),
        })
    }
}

/// The server's own messages go to standard error: standard output may be the protocol's.
pub(crate) fn write_logs() {
    let builder = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::WARN)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal());
    // Only a second call in one process can fail, and the first one's writer is as good.
    let _ = builder.try_init();
}

/// The port of an endpoint, which alone may be connected to.
fn port(endpoint: &Endpoint) -> Result<u16, Failure> {
    let embedder = Embedder::new(endpoint.clone());
    let embedder = embedder.map_err(|error| Failure::new(error.to_string(), ""))?;
    Ok(embedder.port())
}

/// Puts the fence up, and says where it does not hold.
pub(crate) fn put_up(fence: &Fence) -> Result<(), Failure> {
    match fence::put_up(fence) {
        Ok(Held::Wholly) => Ok(()),
        Ok(Held::Partly) => {
            tracing::info!("this kernel knows a part of Landlock");
            Ok(())
        }
        Ok(Held::Not) => {
            tracing::warn!(
                "this kernel has no Landlock: only weir's own code keeps it to its roots"
            );
            Ok(())
        }
        Err(error) => Err(Failure::new(
            format!("the limits cannot be set: {error}"),
            "",
        )),
    }
}
