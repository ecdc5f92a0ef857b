//! `weir relay doctor`: whether a relay works, one check after the other, each with what to do about it.
//!
//! The checks are the relay's (`relay::doctor`); here are what is checked, and how it is said.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use net::Endpoint;
use relay::doctor::{self, Findings, Request, State};
use seal::{Identity, Suite, keytext};
use serde_json::{Value, json};

use super::arguments::{Ask, PEER, psk_of, state, token_of};
use super::{keys, store};
use crate::assemble::probe::Probe;
use crate::assemble::relay::{endpoint, peer_endpoint, sealed, token};
use crate::cli::{Answer, ConfigFile, Ended, Failure, print};
use crate::config::settings::relay::Place;

/// Check the way to an inbound: reach, keys, handshake, clocks, and a request through to the origin; and an inbound's shared store
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  weir relay doctor                           Every peer of ./weir.yaml
  weir relay doctor --to https://east.example --peer east.pub --key outbound.key
  weir relay doctor --json | jq '.[].checks[] | select(.state != \"good\")'

The last check sends a request to the origin: HEAD /, or what --path says.

Exit codes: 0 all is good, 1 something is not, 2 it could not be tried.")]
pub(crate) struct Doctor {
    #[command(flatten)]
    file: ConfigFile,
    /// Check the way to this inbound, without a configuration
    #[arg(long, value_name = "URL", requires_all = ["peer", "key"], conflicts_with = "config")]
    to: Option<String>,
    /// The inbound's public key or pin, or a file with it
    #[arg(long, value_name = "KEY", requires = "to")]
    peer: Vec<String>,
    /// Our private key: a file, file:PATH or env:NAME
    #[arg(long, value_name = "SECRET", requires = "to")]
    key: Option<String>,
    /// The pre-shared key of the pair: a file, file:PATH or env:NAME
    #[arg(long, value_name = "SECRET", requires = "to")]
    psk: Option<String>,
    /// The join token that the inbound asks for: a file, file:PATH or env:NAME
    #[arg(long, value_name = "SECRET", requires = "to")]
    join_token: Option<String>,
    /// Private addresses that may be dialled, such as 10.0.0.0/8; may be given more than once
    #[arg(long, value_name = "RANGE", value_parser = crate::config::values::range, requires = "to")]
    address: Vec<base::AddressRange>,
    /// Certificates of authorities to trust instead of the public ones, as PEM
    #[arg(long, value_name = "FILE", requires = "to")]
    ca: Option<PathBuf>,
    /// The host of the request that goes through; by default that of the url
    #[arg(long, value_name = "HOST")]
    host: Option<String>,
    /// The path of the request that goes through
    #[arg(long, value_name = "PATH", default_value = "/")]
    path: String,
    /// The folder of the log; by default weir/relay in $XDG_STATE_HOME or ~/.local/state
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What was found of one inbound, or of the store of ours.
struct Checked {
    name: String,
    url: String,
    findings: Findings,
}

/// An inbound, and how it is spoken to.
struct Link {
    place: Place,
    endpoint: Endpoint,
    /// Absent where it is spoken to by TLS with certificates on both sides.
    sealed: Option<relay::Peer>,
}

impl Doctor {
    pub(crate) fn run(self) -> Ended {
        let (links, store) = match &self.to {
            Some(to) => (vec![self.named(to)?], None),
            None => self.configured()?,
        };
        let mut all = Vec::new();
        for link in links {
            let (name, url) = (link.place.name.to_string(), link.place.url.origin());
            all.push(Checked {
                name,
                url,
                findings: self.check(link)?,
            });
        }
        all.extend(store);
        print(&match self.json {
            true => {
                let all: Vec<Value> = all.iter().map(as_json).collect();
                format!("{}\n", Value::from(all))
            }
            false => all.iter().map(as_text).collect(),
        })?;
        match all.iter().all(|checked| checked.findings.is_good()) {
            true => Ok(Answer::Yes),
            false => Ok(Answer::No),
        }
    }

    /// The inbound that the command line names.
    fn named(&self, to: &str) -> Result<Link, Failure> {
        let ask = Ask {
            url: to,
            address: &self.address,
            ca: self.ca.as_deref(),
        };
        let place = ask.place(PEER, "the url")?;
        let endpoint = endpoint(&place);
        let mut keys = Vec::new();
        for text in &self.peer {
            keys.push(keys::public(text, keytext::peer_key)?);
        }
        let join_token = self.join_token.as_deref().map(token_of).transpose()?;
        let psk = psk_of(self.psk.as_deref())?;
        let psk = psk.map(|text| keytext::psk(text.expose()).expect("it was checked"));
        let sealed = relay::Peer {
            name: place.name.clone(),
            endpoint: endpoint.clone(),
            keys,
            suite: Suite::AesGcm,
            identity: Arc::new(self.identity()?),
            psks: psk.into_iter().collect(),
            token: join_token.as_ref().map(token),
            padding: false,
        };
        Ok(Link {
            place,
            endpoint,
            sealed: Some(sealed),
        })
    }

    fn identity(&self) -> Result<Identity, Failure> {
        let text = self.key.as_deref().unwrap_or_default();
        let key = keys::secret("--key", text)?;
        keytext::identity(key.expose())
            .map_err(|message| Failure::new(format!("--key: the key {message}"), ""))
    }

    /// The inbounds of the configuration, and the store of its own inbound.
    fn configured(&self) -> Result<(Vec<Link>, Option<Checked>), Failure> {
        let settings = self.file.load()?;
        let store = store::check(&settings)?.map(|(url, findings)| Checked {
            name: store::STORE.to_owned(),
            url,
            findings,
        });
        let Some(side) = settings.relay.outbound else {
            if store.is_some() {
                return Ok((Vec::new(), store));
            }
            return Err(Failure::new(
                "the configuration has no relay.outbound, and it is from there that a relay is checked",
                "Run it where the outbound is, or name an inbound with --to, --peer and --key.",
            ));
        };
        let links = side.peers.iter().zip(sealed(&side));
        let links = links.map(|(peer, sealed)| Link {
            place: peer.place.clone(),
            endpoint: peer_endpoint(peer).1,
            sealed,
        });
        Ok((links.collect(), store))
    }

    fn check(&self, link: Link) -> Result<Findings, Failure> {
        let Link {
            place,
            endpoint,
            sealed,
        } = link;
        let failed = |what: String| Failure::new(what, "");
        let state = state(self.state.as_deref(), "probe")?;
        let probe = Probe::new(&state, &place, endpoint).map_err(failed)?;
        let mut findings = Findings::default();
        let host = self.host.clone().unwrap_or_else(|| place.url.authority());
        match &sealed {
            None => {
                probe.run(async |way| doctor::check_mutual(way, &self.path, &mut findings).await)
            }
            Some(peer) => {
                self.key_file(&peer.identity, &mut findings);
                let request = Request {
                    host: &host,
                    path: &self.path,
                };
                let checked =
                    probe.run(async |way| doctor::check(way, peer, &request, &mut findings).await);
                checked.map_err(|problem| failed(problem.to_string()))?;
            }
        }
        probe.close().map_err(failed)?;
        Ok(findings)
    }

    /// Whether others can read the key file that the command line names.
    fn key_file(&self, identity: &Identity, findings: &mut Findings) {
        let peer_id = identity.public().peer_id();
        let named = self.key.as_deref();
        let path = named.map(|text| text.strip_prefix("file:").unwrap_or(text));
        let open = path
            .and_then(|path| Path::new(path).metadata().ok())
            .is_some_and(|file| file.permissions().mode() & 0o077 != 0);
        match open {
            true => findings.warn(
                "key",
                format!("peer id {peer_id}; the file can be read by other users"),
                "chmod 600 the file; if others could read it, make a new key.",
            ),
            false => findings.good("key", format!("peer id {peer_id}")),
        }
    }
}

fn as_text(checked: &Checked) -> String {
    let mut text = format!("{} ({})\n", checked.name, checked.url);
    for finding in checked.findings.all() {
        let state = match finding.state {
            State::Good => "good",
            State::Warning => "look",
            State::Bad => "BAD ",
        };
        text.push_str(&format!(
            "  {state}  {:<10} {}\n",
            finding.check, finding.what
        ));
        if !finding.mend.is_empty() {
            text.push_str(&format!("        {:<10} → {}\n", "", finding.mend));
        }
    }
    text
}

fn as_json(checked: &Checked) -> Value {
    let checks = checked.findings.all().iter().map(|finding| {
        let state = match finding.state {
            State::Good => "good",
            State::Warning => "warning",
            State::Bad => "bad",
        };
        let (check, what, mend) = (finding.check, &finding.what, finding.mend);
        json!({ "check": check, "state": state, "what": what, "mend": mend })
    });
    json!({
        "peer": checked.name,
        "url": checked.url,
        "checks": checks.collect::<Vec<_>>(),
    })
}
