//! `weir relay show`: what a key is called, for a person to compare.

use std::fmt::Write;
use std::path::PathBuf;

use clap::Args;
use seal::{Public, keytext};
use serde_json::{Value, json};

use super::keys;
use crate::cli::{Answer, Ended, Failure, print};
use crate::config::SECRET_BYTES_MAX;

/// Print the pin and the ids of a key file
///
/// Takes private and public keys. Nothing secret is printed. The public key itself, of 1.6 kB, is in the file that ends in
/// .pub, and is printed with --full.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  weir relay show inbound.key
  weir relay show inbound.key.pub --json | jq -r .pin
  weir relay show inbound.key --full

An outbound names an inbound by its pin or its public key; an inbound names an outbound by its public key, and
its log by the peer id.

Exit codes: 0 printed, 2 the file cannot be read.")]
pub(crate) struct Show {
    /// A file that `weir relay keygen` wrote
    file: PathBuf,
    /// Print the public key too
    #[arg(long)]
    full: bool,
    /// Print JSON, with the public key
    #[arg(long)]
    json: bool,
}

impl Show {
    pub(crate) fn run(self) -> Ended {
        let public = self.public()?;
        print(&match self.json {
            true => format!("{}\n", json(&public)),
            false => text(&public, self.full),
        })?;
        Ok(Answer::Yes)
    }

    fn public(&self) -> Result<Public, Failure> {
        let held = keys::read_line(&self.file, SECRET_BYTES_MAX)?;
        let failed = |message: String| {
            Failure::new(
                format!("{} {message}", self.file.display()),
                "Name a file that weir relay keygen wrote.",
            )
        };
        match held.expose().starts_with(keytext::PUBLIC) {
            true => keytext::public(held.expose()).map_err(failed),
            false => {
                let identity = keytext::identity(held.expose()).map_err(failed)?;
                Ok(identity.public().clone())
            }
        }
    }
}

/// The names of a key, a line each, and where it is asked for the key itself.
pub(super) fn text(public: &Public, full: bool) -> String {
    let mut text = String::new();
    let (pin, kid, peer_id) = (public.pin(), public.kid(), public.peer_id());
    let lines = [
        ("pin", pin.to_string(), "an inbound, in full"),
        ("kid", kid.to_string(), "an inbound, on the wire"),
        ("peer id", peer_id.to_string(), "an outbound"),
    ];
    for (name, value, what) in lines {
        writeln!(text, "{name:<8} {value}  {what}").expect("a string takes all");
    }
    if full {
        writeln!(text, "public   {}", keytext::public_text(public)).expect("a string takes all");
    }
    text
}

/// The same for programs.
pub(super) fn json(public: &Public) -> Value {
    json!({
        "pin": public.pin().to_string(),
        "kid": public.kid().to_string(),
        "peer_id": public.peer_id().to_string(),
        "public": keytext::public_text(public),
    })
}
