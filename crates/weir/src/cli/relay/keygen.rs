//! `weir relay keygen`: new keys of the relay, each in a file of its own.
//!
//! It never overwrites, and it prints no secret: private keys leave this process in their files only.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use base::clock::rfc3339;
use clap::Args;
use seal::Key32;
use seal::keytext::{self, Renewed, TicketKey};
use serde_json::json;
use zeroize::Zeroizing;

use super::keys;
use crate::cli::relay::show;
use crate::cli::{Answer, Ended, Failure, print, write_new};
use crate::config::{SECRET_BYTES_MAX, read};

/// Make a key pair: write both keys, print the pin
///
/// FILE gets the private key, readable by you alone, and FILE.pub the public one, which is for the other side.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  weir relay keygen outbound.key             outbound.key and outbound.key.pub
  weir relay keygen --psk pair.psk           A pre-shared key, for both sides
  weir relay keygen --tickets tickets        Ticket keys for several instances of one inbound

With --tickets, a file that is there is brought up to date: keys that ended are taken out, and keys for the next
three hours put in. Do it once an hour and copy the file to every instance; a running one notices by itself.

Exit codes: 0 written, 2 it could not be done.")]
pub(crate) struct Keygen {
    /// Where to write; never overwritten (but with --tickets, brought up to date)
    file: PathBuf,
    /// Make a pre-shared key of a pair instead
    #[arg(long, conflicts_with = "tickets")]
    psk: bool,
    /// Make, or bring up to date, the ticket keys that instances of one inbound share
    #[arg(long)]
    tickets: bool,
    /// Print the public key too; it is in FILE.pub in any case
    #[arg(long, conflicts_with_all = ["psk", "tickets"])]
    full: bool,
    /// Print JSON, with the public key
    #[arg(long)]
    json: bool,
}

impl Keygen {
    pub(crate) fn run(self) -> Ended {
        match (self.psk, self.tickets) {
            (true, _) => self.psk(),
            (_, true) => self.tickets(),
            _ => self.pair(),
        }
    }

    fn pair(&self) -> Ended {
        let (public, public_file) = make_pair_files(&self.file)?;
        let (file, public_file) = (self.file.display(), public_file.display());
        print(&match self.json {
            true => {
                let mut shown = show::json(&public);
                shown["file"] = json!(file.to_string());
                shown["public_file"] = json!(public_file.to_string());
                format!("{shown}\n")
            }
            false => format!(
                "wrote {file} (private: keep it here) and {public_file} (public: for the other side)\n{}",
                show::text(&public, self.full)
            ),
        })?;
        Ok(Answer::Yes)
    }

    fn psk(&self) -> Ended {
        let bytes = keys::random()?;
        let text = Zeroizing::new(format!("{}\n", keytext::psk_text(&bytes).expose()));
        keys::write_secret(&self.file, &text)?;
        let file = self.file.display().to_string();
        print(&match self.json {
            true => format!("{}\n", json!({ "file": file })),
            false => format!("wrote {file}: a pre-shared key, the same file for both sides\n"),
        })?;
        Ok(Answer::Yes)
    }

    fn tickets(&self) -> Ended {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let now = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
        let mut held = read_tickets(&self.file)?;
        let renewed = keytext::renew(
            &mut held,
            now,
            || Ok(*keys::random()?),
            || Ok(Key32::new(*keys::random()?)),
        )?;
        replace(&self.file, &keytext::ticket_file(&held))?;
        let Renewed { made, ended, .. } = renewed;
        let (file, until) = (
            self.file.display().to_string(),
            rfc3339(renewed.until_unix_ms),
        );
        print(&match self.json {
            true => format!(
                "{}\n",
                json!({ "file": file, "keys": held.len(), "made": made, "ended": ended, "until": until })
            ),
            false => format!(
                "wrote {file}: {} ticket keys, {made} of them new; good until {until}\n",
                held.len()
            ),
        })?;
        Ok(Answer::Yes)
    }
}

/// Makes a key pair: the private key in this file, the public one beside it in another that ends in `.pub`.
pub(crate) fn make_pair_files(file: &Path) -> Result<(seal::Public, PathBuf), Failure> {
    let mut public_file = file.to_path_buf().into_os_string();
    public_file.push(".pub");
    let public_file = PathBuf::from(public_file);
    if public_file.symlink_metadata().is_ok() {
        let what = format!(
            "{} is there already; nothing was changed",
            public_file.display()
        );
        return Err(Failure::new(what, "Name another file."));
    }
    let public = make_pair(file)?;
    write_new(
        &public_file,
        &format!("{}\n", keytext::public_text(&public)),
    )?;
    Ok((public, public_file))
}

/// Makes a private key in a file of its own, and gives the public one.
fn make_pair(file: &Path) -> Result<seal::Public, Failure> {
    let seed = keys::random()?;
    let text = keytext::identity_text(&seed);
    keys::write_secret(file, &Zeroizing::new(format!("{}\n", text.expose())))?;
    Ok(seal::Identity::from_seed(&seed).public().clone())
}

fn read_tickets(path: &Path) -> Result<Vec<TicketKey>, Failure> {
    let failed = |message: String| {
        Failure::new(
            format!("{} {message}", path.display()),
            "Name another file; this one was not changed.",
        )
    };
    match path.symlink_metadata() {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(failed(format!("cannot be read: {error}"))),
        Ok(_) => {
            let text = read::read_text(path, SECRET_BYTES_MAX).map_err(failed)?;
            keytext::ticket_keys(&Zeroizing::new(text)).map_err(failed)
        }
    }
}

/// Puts a file in the place of another at once, so that nobody reads half of it.
fn replace(path: &Path, text: &str) -> Result<(), Failure> {
    let mut draft = path.to_path_buf().into_os_string();
    draft.push(format!(".{}", std::process::id()));
    let draft = PathBuf::from(draft);
    keys::write_secret(&draft, text)?;
    std::fs::rename(&draft, path).map_err(|error| {
        let _ = std::fs::remove_file(&draft);
        Failure::new(format!("{} cannot be written: {error}", path.display()), "")
    })
}
