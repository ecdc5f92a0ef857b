//! `weir relay pin`: what keys an inbound says that it has, for a person to compare.
//!
//! Nothing vouches for the list: whoever stands in between can answer with keys of their own. So a key is
//! written only where its pin was told by another way, and given here.

use std::path::PathBuf;

use clap::Args;
use seal::{Public, keytext};
use serde_json::json;

use super::arguments::{Ask, PEER, state};
use super::show;
use crate::assemble::probe::Probe;
use crate::assemble::relay::endpoint;
use crate::cli::{Answer, Ended, Failure, print, write_new};

/// Show the pins of an inbound's keys, to compare with what its operator says
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  weir relay pin https://east.example
  weir relay pin https://east.example --expect 4f6a… --write east.pub

Compare the pin with the one that weir relay show prints at the other side, by telephone or by a channel that
you trust. --write keeps the key in a file only where its pin is the one of --expect.

Exit codes: 0 shown, or the pin is among them; 1 the pin is not among them; 2 it could not be asked.")]
pub(crate) struct Pin {
    /// Where the inbound is reached
    url: String,
    /// The pin that it has to have, as its operator told you
    #[arg(long, value_name = "PIN", value_parser = keytext::pin)]
    expect: Option<seal::Pin>,
    /// Write the public key of that pin to this new file
    #[arg(long, value_name = "FILE", requires = "expect")]
    write: Option<PathBuf>,
    /// Private addresses that may be dialled, such as 10.0.0.0/8; may be given more than once
    #[arg(long, value_name = "RANGE", value_parser = crate::config::values::range)]
    address: Vec<base::AddressRange>,
    /// Certificates of authorities to trust instead of the public ones, as PEM
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// The folder of the log; by default weir/relay in $XDG_STATE_HOME or ~/.local/state
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Pin {
    pub(crate) fn run(self) -> Ended {
        let ask = Ask {
            url: &self.url,
            address: &self.address,
            ca: self.ca.as_deref(),
        };
        let place = ask.place(PEER, "the url")?;
        let state = state(self.state.as_deref(), "probe")?;
        let failed = |what: String| Failure::new(what, "");
        let probe = Probe::new(&state, &place, endpoint(&place)).map_err(failed)?;
        let keys = probe.run(async |way| relay::doctor::keys(way).await);
        probe.close().map_err(failed)?;
        let keys = keys.map_err(|what| {
            let help = "weir relay doctor says more about the way to it.";
            Failure::new(format!("{}: {what}", self.url), help)
        })?;
        let found = match self.expect {
            None => None,
            Some(pin) => match keys.iter().find(|key| key.pin() == pin) {
                Some(key) => Some(key),
                None => return self.not_there(&keys),
            },
        };
        if let (Some(path), Some(key)) = (&self.write, found) {
            write_new(path, &format!("{}\n", keytext::public_text(key)))?;
        }
        self.show(&keys, found)?;
        Ok(Answer::Yes)
    }

    fn show(&self, keys: &[Public], found: Option<&Public>) -> Result<(), Failure> {
        if self.json {
            let keys: Vec<_> = keys.iter().map(show::json).collect();
            let matched = found.map(|key| key.pin().to_string());
            return print(&format!(
                "{}\n",
                json!({ "keys": keys, "matched": matched })
            ));
        }
        let mut text = String::new();
        for key in keys {
            let mark = if found == Some(key) {
                "  as expected"
            } else {
                ""
            };
            text.push_str(&format!("pin {}{mark}\n", key.pin()));
        }
        if let Some(path) = &self.write {
            text.push_str(&format!("wrote {}\n", path.display()));
        }
        if found.is_none() {
            text.push_str("Anyone in between could have answered: compare before you trust.\n");
        }
        print(&text)
    }

    fn not_there(&self, keys: &[Public]) -> Ended {
        self.show(keys, None)?;
        crate::cli::complain(
            "the pin is not among them: this is another weir, its key was replaced, or somebody stands in between",
            "Ask the other side's operator what weir relay show prints there. Nothing was written.",
        );
        Ok(Answer::No)
    }
}
