//! `weir tools flow`: work tracking as an MCP server.

use std::net::SocketAddr;

use clap::{ArgGroup, Args, ValueEnum};
use flow::store::StorePlace;
use flow::{Desk, author};
use tools::serve::fence::Fence;
use tools::serve::{http, memory, session};

use super::calls::Data;
use crate::tools::{put_up, write_logs};
use crate::{Answer, Ended, Failure};

/// The variable by which a gateway says for which agent it started this process.
const AGENT: &str = "WEIR_AGENT";

/// Serve work tracking as an MCP server
///
/// Projects, work items with dependencies, claims, deployments and typed entities, for many agents at once. It writes its data
/// folder and nothing else, and connects to nothing but the PostgreSQL server that --postgres names. Any number of
/// processes may share a data folder: one has the database, the others ask it.
#[derive(Args, Debug)]
#[command(group = ArgGroup::new("way").required(true), after_help = "\
Examples:
  weir tools flow --stdio
  weir tools flow --stdio --data ~/work/board --as ada
  weir tools flow --http 127.0.0.1:8791
  weir tools flow --stdio --postgres env:FLOW_URL
  claude mcp add flow -- weir tools flow --stdio

In weir.yaml, which runs it behind the gate, and tells it who calls:
  tools: { flow: {} }\n\nExit codes: 0 done, 1 no, 2 it could not be done.")]
pub struct ServeFlow {
    /// Speak over standard input and output
    #[arg(long, group = "way")]
    stdio: bool,
    /// Speak streamable HTTP at /mcp of this address, which has to be a loopback address
    #[arg(long, group = "way", value_name = "ADDRESS")]
    http: Option<SocketAddr>,
    #[command(flatten)]
    data: Data,
    /// Who writes, where no gateway says it by WEIR_AGENT; by default your user id
    #[arg(long = "as", value_name = "NAME")]
    actor: Option<String>,
    /// List the tools of this server too; they answer in any case
    #[arg(long, value_enum, value_name = "SERVER")]
    compat: Option<Compat>,
}

/// Whose tools are listed too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Compat {
    Workflow,
}

impl ServeFlow {
    pub(crate) fn run(self) -> Ended {
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
        let settings = self.data.settings()?;
        let agent = std::env::var(AGENT).ok();
        let actor = author(agent.as_deref().or(self.actor.as_deref()));
        let ports = match &settings.place {
            StorePlace::Folder(..) => Vec::new(),
            StorePlace::Postgres(database) => database.ports(),
        };
        put_up(&Fence {
            data: settings.data.clone(),
            ports,
            ..Fence::default()
        })?;
        let theirs = self.compat == Some(Compat::Workflow);
        let runtime = crate::runtime()?;
        let served = runtime.block_on(async {
            let desk = Desk::open(settings)?;
            match listener {
                Some(listener) => {
                    let address = listener.local_addr()?;
                    crate::print(&format!("http://{address}/mcp\n"))
                        .map_err(|failure| std::io::Error::other(failure.what))?;
                    http::serve(listener, desk, theirs, &actor).await
                }
                None => session::stdio(desk, theirs, &actor).await,
            }
        });
        // Threads that wait, for a lock or a client, are not waited for.
        runtime.shutdown_background();
        served.map_err(failed("work tracking"))?;
        Ok(Answer::Yes)
    }
}
