//! `weir ca`: the certificate authority of agents. Its commands work on the files of the state folder, also while no gateway
//! runs, but for `revoke`, which the gateway does and records; keys are opened by a passphrase that is read from a file or a variable, never from the command line.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::Value;
use store::authority::{AuthorityError, AuthorityFiles, AuthorityView, NewKey};
use store::directory::DirectoryFile;
use store::pkcs11::ModulePlace;

use super::admin::Gateway;
use super::{Answer, ConfigFile, Ended, Failure, print, secret_at};
use crate::config::Settings;

/// Make and use the certificate authority of agents
#[derive(Debug, Subcommand)]
#[command(after_help = "\
Examples:
  weir ca init --passphrase file:ca.pass   Make a root and an intermediate
  weir ca init --passphrase file:pin --pkcs11 /usr/lib/softhsm/libsofthsm2.so --token weir
                                           Make both keys in an HSM, which signs with them
  weir ca show                             Print the root's certificate, for listeners to trust
  weir ca rotate --passphrase file:ca.pass Make another intermediate; certificates stay good\n\nExit codes: 0 done, 1 no, 2 it could not be done.")]
pub(super) enum Ca {
    Init(Init),
    Show(Show),
    Rotate(Rotate),
    Revoke(Revoke),
    Crl(Crl),
}

/// The configuration, and the passphrases of the authority's keys.
#[derive(Args, Debug)]
struct Keys {
    /// Where the passphrase of the intermediate's key is, or the PIN of its token: env:NAME or file:PATH; by default
    /// identity.passphrase
    #[arg(long, value_name = "REF")]
    passphrase: Option<String>,
    #[command(flatten)]
    config: ConfigFile,
}

/// A token of a PKCS #11 module, in which a key is made. The module signs; the key cannot be read out of it
#[derive(Args, Debug)]
struct InModule {
    /// The shared object of the PKCS #11 module, by its absolute path
    #[arg(long, value_name = "MODULE", requires = "token")]
    pkcs11: Option<PathBuf>,
    /// The label of the token
    #[arg(long, value_name = "LABEL", requires = "pkcs11")]
    token: Option<String>,
}

impl InModule {
    fn place(&self) -> Option<ModulePlace> {
        Some(ModulePlace {
            module: self.pkcs11.clone()?,
            token: self.token.clone()?,
        })
    }
}

/// A key that is made: in a token where there is one, else in a sealed file.
fn new_key<'k>(place: Option<&'k ModulePlace>, secret: &'k base::Secret) -> NewKey<'k> {
    match place {
        Some(place) => NewKey::Module { place, pin: secret },
        None => NewKey::Sealed { passphrase: secret },
    }
}

/// Make a root and an intermediate for identity.trust_domain, with sealed keys in the state folder or in an HSM
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  weir ca init --passphrase file:ca.pass\n  weir ca init --passphrase file:ca.pass --root-passphrase file:root.pass\n  weir ca init --passphrase file:pin --pkcs11 /usr/lib/softhsm/libsofthsm2.so --token weir\n  weir ca init --passphrase file:pin --pkcs11 /usr/lib/softhsm/libsofthsm2.so --token weir \\\n    --root-token weir-root --root-passphrase file:root.pin\n\nKeep ca/root.key elsewhere afterwards: it is needed for weir ca rotate alone.\n\nExit codes: 0 done, 1 no, 2 it could not be done."
)]
pub(super) struct Init {
    #[command(flatten)]
    keys: Keys,
    /// The same of the root's key; by default that of the intermediate's
    #[arg(long, value_name = "REF")]
    root_passphrase: Option<String>,
    #[command(flatten)]
    module: InModule,
    /// The label of another token of the module, for the root's key
    #[arg(long, value_name = "LABEL", requires = "pkcs11")]
    root_token: Option<String>,
}

/// Print the root's and the intermediate's certificates as PEM
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  weir ca show > ca.pem\n\nExit codes: 0 done, 1 no, 2 it could not be done."
)]
pub(super) struct Show {
    #[command(flatten)]
    config: ConfigFile,
}

/// Make another intermediate by the root's key; certificates of the one before stay good until they end
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  weir ca rotate --passphrase file:ca.pass\n  weir ca rotate --root-passphrase file:ca.pass --passphrase file:pin \\\n    --pkcs11 /usr/lib/softhsm/libsofthsm2.so --token weir\n\nThe new key is made where the one before is, or in the token that is named: so an authority moves into an HSM.\nRestart the gateway afterwards, so that it signs with the new one.\n\nExit codes: 0 done, 1 no, 2 it could not be done."
)]
pub(super) struct Rotate {
    #[command(flatten)]
    keys: Keys,
    /// Where the passphrase or PIN of the root's key is; by default that of the intermediate's
    #[arg(long, value_name = "REF")]
    root_passphrase: Option<String>,
    #[command(flatten)]
    module: InModule,
}

/// Take a certificate back with its key, by its serial number: the gateway, which has to run, refuses both from then on
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  weir ca revoke 5a1f…\n\nExit codes: 0 done, 1 no, 2 it could not be done."
)]
pub(super) struct Revoke {
    /// The serial number in hex digits, as weir agents show prints it
    serial: String,
    #[command(flatten)]
    gateway: Gateway,
}

/// Print the list of the certificates that were taken back (RFC 5280), signed by the intermediate, as PEM
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  weir ca crl --passphrase file:ca.pass > agents.crl\n\nExit codes: 0 done, 1 no, 2 it could not be done."
)]
pub(super) struct Crl {
    #[command(flatten)]
    keys: Keys,
}

impl Ca {
    pub(super) fn run(self) -> Ended {
        match self {
            Ca::Init(command) => command.run(),
            Ca::Show(command) => {
                let settings = command.config.load()?;
                let view = files(&settings).view().map_err(failed)?;
                print(&format!("{}{}", view.root_pem, view.intermediate_pem))?;
                Ok(Answer::Yes)
            }
            Ca::Rotate(command) => command.run(),
            Ca::Revoke(command) => command.run(),
            Ca::Crl(command) => command.run(),
        }
    }
}

impl Init {
    fn run(self) -> Ended {
        let (settings, passphrase) = self.keys.load()?;
        let identity = identity(&settings)?;
        let root = match &self.root_passphrase {
            Some(reference) => secret_at(reference, "--root-passphrase")?,
            None => passphrase.clone(),
        };
        store::state::make_dir(&settings.state)
            .map_err(|error| Failure::new(error.to_string(), ""))?;
        let files = files(&settings);
        let place = self.module.place();
        let root_place = match (&place, &self.root_token) {
            (Some(place), Some(token)) => Some(ModulePlace {
                token: token.clone(),
                ..place.clone()
            }),
            _ => place.clone(),
        };
        let made = files.init(
            &identity.trust_domain,
            new_key(root_place.as_ref(), &root),
            new_key(place.as_ref(), &passphrase),
            now(),
        );
        let view = made.map_err(failed)?;
        print(&said(&files, &view))?;
        Ok(Answer::Yes)
    }
}

fn said(files: &AuthorityFiles, view: &AuthorityView) -> String {
    let roots = files.roots_file();
    let folder = roots.parent().unwrap_or(&roots).display().to_string();
    format!(
        "authority for {}: {folder}\n\
         lines for weir.yaml, below tls of a listener:  clients: {{ ca: file:{}, required: false }}\n\
         {}",
        view.trust_domain,
        roots.display(),
        match &view.root_module {
            Some(place) => format!(
                "keys: in the token {} of {}\n",
                place.token,
                place.module.display()
            ),
            None =>
                format!("keep {folder}/root.key elsewhere: it is needed for weir ca rotate alone\n"),
        }
    )
}

impl Rotate {
    fn run(self) -> Ended {
        let (settings, passphrase) = self.keys.load()?;
        let root = match &self.root_passphrase {
            Some(reference) => secret_at(reference, "--root-passphrase")?,
            None => passphrase.clone(),
        };
        let files = files(&settings);
        let place = match self.module.place() {
            Some(place) => Some(place),
            None => files.view().map_err(failed)?.intermediate_module,
        };
        let made = files.rotate(&root, new_key(place.as_ref(), &passphrase), now());
        let view = made.map_err(failed)?;
        print(&format!(
            "another intermediate signs for {}\n",
            view.trust_domain
        ))?;
        Ok(Answer::Yes)
    }
}

impl Revoke {
    fn run(self) -> Ended {
        let serial = self.serial.to_ascii_lowercase();
        let listed = self.gateway.ask("GET", "/admin/agents", &Value::Null)?;
        let agents = listed["agents"].as_array().into_iter().flatten();
        let found = agents.into_iter().find_map(|agent| {
            let mut credentials = agent["credentials"].as_array()?.iter();
            let found = credentials.find(|one| one["serial"] == *serial)?;
            Some((agent["name"].as_str()?, found["id"].as_str()?))
        });
        let (name, id) = found.ok_or_else(|| {
            let what = "no agent has a certificate with this serial number";
            Failure::new(what, "weir agents show NAME prints those of an agent.")
        })?;
        let path = format!("/admin/agents/{name}/credentials/{id}");
        self.gateway.ask("DELETE", &path, &Value::Null)?;
        let listed = self.gateway.ask("GET", "/admin/agents", &Value::Null)?;
        let mut agents = listed["agents"].as_array().into_iter().flatten();
        let shown = agents.find(|agent| agent["name"] == *name);
        let left = shown.and_then(|agent| agent["credentials"].as_array());
        let left = left.map_or(0, Vec::len);
        let left = match left {
            0 => String::new(),
            left => format!(
                "{left} other credentials of {name} are good still, also those that were renewed by it: weir agents show {name} lists them, \
                 weir agents revoke {name} ends all\n"
            ),
        };
        print(&format!(
            "a certificate of {name} is good no more, and neither is its key\n{left}"
        ))?;
        Ok(Answer::Yes)
    }
}

impl Crl {
    fn run(self) -> Ended {
        let (settings, passphrase) = self.keys.load()?;
        let authority = files(&settings).open(&passphrase).map_err(failed)?;
        let book = DirectoryFile::of_state(&settings.state).read();
        let book = book.map_err(|error| Failure::new(error.to_string(), ""))?;
        let list = authority.revocation_list(&book.certificates, book.epoch + 1, now());
        print(&list.map_err(failed)?)?;
        Ok(Answer::Yes)
    }
}

impl Keys {
    /// The settings, and the passphrase of the intermediate's key.
    fn load(&self) -> Result<(Settings, base::Secret), Failure> {
        let settings = self.config.load()?;
        let passphrase = match &self.passphrase {
            Some(reference) => Some(secret_at(reference, "--passphrase")?),
            None => settings
                .identity
                .as_ref()
                .and_then(|identity| identity.passphrase.clone()),
        };
        let passphrase = passphrase.ok_or_else(|| {
            let what = "there is no passphrase for the authority's keys";
            Failure::new(
                what,
                "Name one with --passphrase file:PATH, or write identity.passphrase.",
            )
        })?;
        Ok((settings, passphrase))
    }
}

fn identity(settings: &Settings) -> Result<&crate::config::identity::Identity, Failure> {
    settings.identity.as_ref().ok_or_else(|| {
        let what = "the configuration has no identity.trust_domain";
        Failure::new(what, "Write identity: { trust_domain: example.org }.")
    })
}

fn files(settings: &Settings) -> AuthorityFiles {
    AuthorityFiles::of_state(&settings.state)
}

fn failed(error: AuthorityError) -> Failure {
    Failure::new(error.to_string(), "See docs/identity.md.")
}

/// Now, in Unix milliseconds.
fn now() -> u64 {
    gate::ports::Clock::now(&crate::ports::Clock::new()).unix_ms
}
