//! A way to one address, for commands that ask a gateway as an agent does, or a provider as the gateway does. Here nothing is kept:
//! what a gateway is asked is judged and recorded there.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::Arc;

use base::{Name, Resource};
use bytes::Bytes;
use gate::ports::Ports;
use gate::{Gate, Rates, Reach, Rules};
use net::Targets;
use store::disk::MemoryDisk;
use store::{Durability, Log, LogSettings};
use tokio::runtime::Runtime;
use tokio::task::LocalSet;

use super::WayOut;
use crate::config::settings::{Ca, Url};
use crate::lanes;
use crate::metrics::Metrics;
use crate::ports::{Clock, Known};
use crate::routes::new_call_id;

/// Largest log of what one command asks.
const LOG_BYTES_MAX: u64 = 64 << 20;
/// What the gateway is called here.
const TARGET: &str = "gateway";

/// A way to one gateway.
pub(crate) struct Client {
    gate: Arc<Gate>,
    targets: Arc<Targets>,
    resource: Resource,
    runtime: Runtime,
}

/// The same, while it is asked.
pub(crate) struct Asker<'c> {
    client: &'c Client,
    out: WayOut,
}

impl Client {
    /// The way to this address, wherever that is: a person named it. The error is for the operator.
    pub(crate) fn new(url: &Url, ca: Option<&Ca>) -> Result<Client, String> {
        let everywhere = ["0.0.0.0/0", "::/0"]
            .iter()
            .map(|range| crate::config::values::range(range));
        let ranges = everywhere.collect::<Result<_, _>>()?;
        Client::within(url, ca, Reach { ranges })
    }

    /// The way to this address, as far as it is within reach. The error is for the operator.
    pub(crate) fn within(url: &Url, ca: Option<&Ca>, reach: Reach) -> Result<Client, String> {
        let name = Name::new(TARGET).expect("letters make a name");
        let targets = super::dialled([(name.clone(), super::endpoint(url, ca))])?;
        let settings = LogSettings {
            origin: "weir.invalid/client".to_owned(),
            durability: Durability::Os,
            bytes_max: LOG_BYTES_MAX,
        };
        let log = Log::open_on(Arc::new(MemoryDisk::new()), Path::new("log"), settings);
        let log = log.map_err(|error| error.to_string())?;
        let ports = Ports::new(
            Arc::new(Known::new(store::Agents::new(std::iter::empty()))),
            Arc::new(store::Limits::new()),
            Arc::new(log) as Arc<dyn gate::ports::Recorder>,
            Arc::new(Clock::new()),
            Arc::new(Metrics::new(std::iter::once(name.clone()))),
        );
        Ok(Client {
            gate: Arc::new(Gate::new(ports, rules(name.clone(), reach))),
            targets: Arc::new(targets),
            resource: Resource::server(name),
            runtime: crate::serve::runtime()?,
        })
    }

    /// Runs what asks.
    pub(crate) fn run<T>(&self, body: impl AsyncFnOnce(&Asker<'_>) -> T) -> T {
        LocalSet::new().block_on(&self.runtime, async {
            let out = WayOut::new(&self.targets);
            body(&Asker { client: self, out }).await
        })
    }
}

impl Asker<'_> {
    /// Sends one request and reads its whole answer, each within so many milliseconds. The error is for a person.
    pub(crate) async fn ask(
        &self,
        request: http::Request<Bytes>,
        bytes_max: usize,
        ms: u64,
    ) -> Result<(http::response::Parts, Bytes), String> {
        let Client { gate, resource, .. } = self.client;
        let peer = Ipv4Addr::LOCALHOST.into();
        let call = gate::Call::new(new_call_id(), peer, &mcp::actions::USE, resource, "client");
        let passed = gate.own(call).await.map_err(|refusal| refusal.public)?;
        let answer = self.out.upstreams().send(&passed, request, ms).await;
        let mut answer = answer.map_err(|error| error.to_string())?;
        let body = answer.whole(bytes_max, ms).await;
        let body = body.map_err(|error| error.to_string())?;
        passed.end(gate::CallEnding::of(base::record::CallEnd::Complete));
        Ok((answer.head.clone(), body))
    }
}

/// What judges: nobody may do anything, and the gateway's own call may go where it is to.
fn rules(name: Name, reach: Reach) -> Rules {
    let policies = policy::Policies::load(&lanes::tables(), &[], &BTreeMap::new());
    Rules {
        policies: policies.expect("no policy has no problem"),
        // Nothing is scanned here, so fingerprints need no key.
        engine: scan::Engine::new(scan::Settings::default(), [0; 32]),
        rates: Rates::of_agent(0),
        budgets: Vec::new(),
        reach: [(name, reach)].into(),
    }
}
