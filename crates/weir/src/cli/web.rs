//! `weir web`: the authority for interception, what would become of a URL, and one command that goes through the proxy.

use std::fmt::Write as _;
use std::net::IpAddr;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use ::config::Listen;
use base::{Action, Refusal, Resource, Secret};
use clap::{Args, Subcommand};
use net::InterceptAuthority;
use policy::{Context, Principal};
use scan::{Direction, Place};

use super::{Answer, ConfigFile, Ended, Failure, print, unusable};
use crate::config::web::{AUTHORITY_FILE, AUTHORITY_KEY_FILE};
use crate::config::{Settings, compile};

/// The authority's certificate beside those that this machine trusts, for programs that take one file in place of theirs.
const BUNDLE_FILE: &str = "bundle.pem";
/// Where distributions keep the certificates that a machine trusts.
const SYSTEM_BUNDLES: &[&str] = &[
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];
const BUNDLE_BYTES_MAX: usize = 8 << 20;

/// The web lane: its authority, what would become of a URL, a command that goes through the proxy
#[derive(Debug, Subcommand)]
#[command(after_help = "\
Examples:
  weir web ca init ./ca                  Make an authority to look into TLS with
  weir web ca trust ./ca                 Say how programs are made to trust it
  weir web check https://example.com/    Say what would become of it, step by step
  weir web run -- curl https://example.com/")]
pub(super) enum Web {
    #[command(subcommand)]
    Ca(Ca),
    Check(Box<CheckUrl>),
    Run(Run),
}

/// The authority by which TLS is looked into
#[derive(Debug, Subcommand)]
#[command(after_help = "\
Examples:
  weir web ca init ./ca
  weir web ca show ./ca
  weir web ca trust ./ca")]
pub(super) enum Ca {
    Init(CaInit),
    Show(CaShow),
    Trust(CaTrust),
}

/// Make an authority: ca.pem to trust, ca-key.pem for the gateway alone, bundle.pem for programs that take one file
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  weir web ca init ./ca

Then write web: { intercept: { ca: ./ca } } in the configuration. Whoever has ca-key.pem can pose as any site to whoever
trusts ca.pem: keep it on this machine, and trust ca.pem only where agents run.
Exit codes: 0 done, 2 it could not be done; nothing is overwritten.")]
pub(super) struct CaInit {
    /// The folder to make it in
    #[arg(value_name = "DIR", default_value = "ca")]
    folder: PathBuf,
}

/// Show the authority: its SHA-256 and until when it is good
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  weir web ca show ./ca

Exit codes: 0 done, 2 it cannot be read.")]
pub(super) struct CaShow {
    /// The folder that it is in
    #[arg(value_name = "DIR", default_value = "ca")]
    folder: PathBuf,
}

/// Say how this machine, and single programs, are made to trust the authority
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  weir web ca trust ./ca

It changes nothing itself. weir connect env prints the lines for the environment of one agent.
Exit codes: 0 done, 2 it cannot be read.")]
pub(super) struct CaTrust {
    /// The folder that it is in
    #[arg(value_name = "DIR", default_value = "ca")]
    folder: PathBuf,
}

/// Say what would become of a URL: each step of the judgement with its reason. Nothing is asked of the site
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  weir web check --agent dev https://example.com/
  weir web check --agent dev --method POST https://api.example.com/items

Its name is resolved here, as the gateway would.
Exit codes: 0 it would be asked, 1 it would be refused, 2 it could not be found out.")]
pub(super) struct CheckUrl {
    #[command(flatten)]
    file: ConfigFile,
    /// The agent that asks, as the configuration names it; the first of it where none is named
    #[arg(long)]
    agent: Option<String>,
    /// By which method
    #[arg(long, default_value = "GET")]
    method: String,
    /// The URL
    url: String,
}

/// Run a command whose requests go through the proxy
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  WEIR_KEY=weir_… weir web run -- curl https://example.com/
  weir web run --key file:dev.key -- npm ci

The command takes the place of this process, with the variables that weir connect env prints.
Exit codes: those of the command; 2 it could not be started.")]
pub(super) struct Run {
    #[command(flatten)]
    file: ConfigFile,
    /// Where the agent's key is: env:NAME or file:PATH
    #[arg(long, value_name = "WHERE", default_value = "env:WEIR_KEY")]
    key: String,
    /// Where the proxy listens, in place of web.listen of the configuration
    #[arg(long, value_name = "ADDRESS")]
    proxy: Option<String>,
    /// The command and its arguments
    #[arg(last = true, required = true)]
    command: Vec<String>,
}

impl Web {
    pub(super) fn run(self) -> Ended {
        match self {
            Web::Ca(Ca::Init(command)) => command.run(),
            Web::Ca(Ca::Show(command)) => command.run(),
            Web::Ca(Ca::Trust(command)) => command.run(),
            Web::Check(command) => command.run(),
            Web::Run(command) => command.run(),
        }
    }
}

impl CaInit {
    fn run(self) -> Ended {
        let fingerprint = make_authority(&self.folder)?;
        print(&format!(
            "made an authority in {}\nSHA-256 {fingerprint}\nline for weir.yaml:  web: {{ intercept: {{ ca: {} }} }}\nhow it is trusted:   weir web ca trust {}\n",
            self.folder.display(),
            self.folder.display(),
            self.folder.display(),
        ))?;
        Ok(Answer::Yes)
    }
}

/// Makes an authority in a folder, and gives its SHA-256.
pub(super) fn make_authority(folder: &Path) -> Result<String, Failure> {
    let failed = |why: String| {
        let what = format!("{}: {why}", folder.display());
        Failure::new(what, "Name another folder, or remove what stands there.")
    };
    for file in [AUTHORITY_FILE, AUTHORITY_KEY_FILE] {
        if folder.join(file).exists() {
            return Err(failed(format!(
                "{file} is there already, and is not overwritten"
            )));
        }
    }
    let io = |error: std::io::Error| failed(error.to_string());
    std::fs::create_dir_all(folder).map_err(io)?;
    let (pem, key) = InterceptAuthority::make().map_err(failed)?;
    write_alone(&folder.join(AUTHORITY_KEY_FILE), key.expose(), 0o600).map_err(io)?;
    write_alone(&folder.join(AUTHORITY_FILE), &pem, 0o644).map_err(io)?;
    let bundle = folder.join(BUNDLE_FILE);
    write_alone(&bundle, &format!("{}{pem}", system_bundle()), 0o644).map_err(io)?;
    let authority = InterceptAuthority::read(pem.as_bytes(), &key).map_err(failed)?;
    Ok(authority.fingerprint().to_string())
}

/// The certificates that this machine trusts; nothing where they are not where distributions keep them.
fn system_bundle() -> String {
    let read = |path: &&str| crate::config::read::read_text(Path::new(path), BUNDLE_BYTES_MAX).ok();
    let bundle = SYSTEM_BUNDLES.iter().find_map(read).unwrap_or_default();
    match bundle.is_empty() || bundle.ends_with('\n') {
        true => bundle,
        false => format!("{bundle}\n"),
    }
}

fn write_alone(path: &Path, text: &str, mode: u32) -> std::io::Result<()> {
    use std::io::Write as _;
    let mut options = std::fs::OpenOptions::new();
    let mut file = options
        .write(true)
        .create(true)
        .truncate(true)
        .mode(mode)
        .open(path)?;
    // The process's mask may have taken more away.
    file.set_permissions(std::fs::Permissions::from_mode(mode))?;
    file.write_all(text.as_bytes())
}

/// The authority in a folder.
fn authority(folder: &Path) -> Result<(String, InterceptAuthority), Failure> {
    let read = |file: &str| {
        let path = folder.join(file);
        let text = crate::config::read::read_text(&path, BUNDLE_BYTES_MAX);
        text.map_err(|why| {
            let what = format!("{} {why}", path.display());
            Failure::new(what, "Make an authority with weir web ca init.")
        })
    };
    let (pem, key) = (
        read(AUTHORITY_FILE)?,
        Secret::new(read(AUTHORITY_KEY_FILE)?),
    );
    let authority = InterceptAuthority::read(pem.as_bytes(), &key);
    let authority =
        authority.map_err(|why| Failure::new(format!("{}: {why}", folder.display()), ""))?;
    Ok((pem, authority))
}

impl CaShow {
    fn run(self) -> Ended {
        let (pem, authority) = authority(&self.folder)?;
        let until = net::tls::expires(pem.as_bytes()).unwrap_or_default();
        print(&format!(
            "SHA-256 {}\ngood until {until}\n{pem}",
            authority.fingerprint()
        ))?;
        Ok(Answer::Yes)
    }
}

impl CaTrust {
    fn run(self) -> Ended {
        let (_, authority) = authority(&self.folder)?;
        let folder = std::fs::canonicalize(&self.folder).unwrap_or(self.folder);
        let file = folder.join(AUTHORITY_FILE);
        let (file, fingerprint) = (file.display(), authority.fingerprint());
        print(&format!(
            "\
The authority has the SHA-256 {fingerprint}.

One agent, by its environment:
  weir connect env

All programs of this machine:
  Debian, Ubuntu   sudo cp {file} /usr/local/share/ca-certificates/weir.crt && sudo update-ca-certificates
  Fedora, RHEL     sudo trust anchor {file}
  macOS            sudo security add-trusted-cert -d -k /Library/Keychains/System.keychain {file}

Chromium and Firefox:
  certutil -d sql:$HOME/.pki/nssdb -A -t C,, -n weir -i {file}
"
        ))?;
        Ok(Answer::Yes)
    }
}

impl Run {
    fn run(self) -> Ended {
        let settings = self.file.load()?;
        let key = super::secret_at(&self.key, "--key")?;
        let proxy = proxy(&settings, self.proxy.as_deref())?;
        let variables = variables(&settings, &proxy, Some(key.expose()));
        let mut command = std::process::Command::new(&self.command[0]);
        command.args(&self.command[1..]).envs(variables);
        let error = command.exec();
        Err(Failure::new(format!("{}: {error}", self.command[0]), ""))
    }
}

/// Prints the lines that send an agent's programs through the proxy.
pub(super) fn print_environment(file: &ConfigFile, variable: &str) -> Ended {
    let settings = file.load()?;
    let proxy = proxy(&settings, None)?;
    let mut lines = String::new();
    for (name, value) in variables(&settings, &proxy, None) {
        let value = value.replace(KEY, &format!("${{{variable}}}"));
        let _ = writeln!(lines, "export {name}=\"{value}\"");
    }
    print(&lines)?;
    Ok(Answer::Yes)
}

/// What stands for the key in a variable, where it is the shell that puts it in.
const KEY: &str = "\u{0}KEY";

/// Where the proxy is.
fn proxy(settings: &Settings, named: Option<&str>) -> Result<String, Failure> {
    if let Some(named) = named {
        return Ok(named.to_owned());
    }
    match &settings.web.listen {
        Some(Listen::Tcp(address)) => Ok(address.to_string()),
        Some(Listen::Unix(_)) => {
            let what = "web.listen is a Unix socket, and programs speak to proxies by addresses";
            Err(Failure::new(what, "Write web: { listen: 127.0.0.1:8703 }."))
        }
        None => {
            let what = "the configuration has no proxy";
            Err(Failure::new(what, "Write web: { listen: 127.0.0.1:8703 }."))
        }
    }
}

/// The variables by which curl, git, npm, pip, Node, Python, cargo and Go find the proxy and trust the authority.
fn variables(settings: &Settings, proxy: &str, key: Option<&str>) -> Vec<(&'static str, String)> {
    let url = format!("http://weir:{}@{proxy}", key.unwrap_or(KEY));
    let mut all: Vec<(&str, String)> = [
        "HTTPS_PROXY",
        "https_proxy",
        "HTTP_PROXY",
        "http_proxy",
        "ALL_PROXY",
    ]
    .into_iter()
    .map(|name| (name, url.clone()))
    .collect();
    // Node asks the proxy only where it is told to.
    all.push(("NODE_USE_ENV_PROXY", "1".to_owned()));
    let (Some(_), Some(folder)) = (&settings.web.intercept, &settings.web.intercept_folder) else {
        return all;
    };
    let folder = std::fs::canonicalize(folder).unwrap_or_else(|_| folder.clone());
    let file = |name: &str| folder.join(name).display().to_string();
    all.push(("NODE_EXTRA_CA_CERTS", file(AUTHORITY_FILE)));
    // Each of these is read in place of what the machine trusts.
    let bundles = [
        "SSL_CERT_FILE",
        "CURL_CA_BUNDLE",
        "REQUESTS_CA_BUNDLE",
        "GIT_SSL_CAINFO",
        "PIP_CERT",
        "NPM_CONFIG_CAFILE",
        "CARGO_HTTP_CAINFO",
    ];
    let bundle = file(BUNDLE_FILE);
    all.extend(bundles.map(|name| (name, bundle.clone())));
    all
}

/// The steps of a judgement, as they are found.
struct Steps {
    text: String,
    is_refused: bool,
}

impl Steps {
    fn yes(&mut self, step: &str, why: impl AsRef<str>) {
        let _ = writeln!(
            self.text,
            "yes  {step:<10} {}",
            terminal::visible(why.as_ref())
        );
    }

    fn no(&mut self, step: &str, why: impl AsRef<str>) {
        let _ = writeln!(
            self.text,
            "no   {step:<10} {}",
            terminal::visible(why.as_ref())
        );
        self.is_refused = true;
    }

    /// Of a step whose refusal passes where the lane observes.
    fn observed_of(&mut self, step: &str, is_observed: bool, found: Result<String, Refusal>) {
        match found {
            Err(refusal) if is_observed => {
                let (public, code) = (refusal.public, refusal.code.name);
                self.yes(step, format!("would be refused: {public} ({code})"));
            }
            found => self.of(step, found),
        }
    }

    fn of(&mut self, step: &str, found: Result<String, Refusal>) {
        match found {
            Ok(why) => self.yes(step, why),
            Err(refusal) => self.no(step, format!("{} ({})", refusal.public, refusal.code.name)),
        }
    }
}

impl CheckUrl {
    fn run(self) -> Ended {
        let settings = self.file.load()?;
        let compiled = compile::all(&settings, [0; 32]);
        let path = self.file.path();
        let (policies, engine) = compiled.map_err(|problems| unusable(&path, &problems))?;
        let named = |agent: &&crate::config::settings::Agent| match &self.agent {
            Some(name) => agent.name.as_str() == name,
            None => true,
        };
        let agent = settings.agents.iter().find(named);
        let agent = agent.ok_or_else(|| {
            Failure::new(
                "the configuration has no such agent",
                "Name one with --agent.",
            )
        })?;
        let mut steps = Steps {
            text: String::new(),
            is_refused: false,
        };
        let site = match web::read_url(&self.url) {
            Ok(site) => {
                steps.yes("url", site.to_string());
                site
            }
            Err(refusal) => {
                steps.of("url", Err(refusal));
                return steps.end();
            }
        };
        match settings.web.is_on {
            true => steps.yes("lane", "the configuration has a web section"),
            false => steps.no("lane", "the configuration has no web section"),
        }
        steps.of(
            "agent",
            agent.state.check().map(|()| agent.name.to_string()),
        );
        let stop = settings.stop.check("web", Some(&agent.name));
        steps.of(
            "stop",
            stop.map(|()| "nothing is stopped by the configuration".to_owned()),
        );
        let action = web::actions::of_method(&self.method);
        let resource = Resource::Site(site.clone());
        let principal = Arc::new(Principal {
            name: agent.name.clone(),
            groups: agent.groups.clone(),
        });
        let is_observed = settings.web.mode == web::WebMode::Observe;
        if is_observed {
            let why = "web.mode is observe: what policy and scan refuse passes, and is recorded";
            steps.yes("mode", why);
        }
        let permitted = self.permitted(&policies, &principal, action, &resource);
        steps.observed_of("policy", is_observed, permitted);
        let now_s = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default()
            .as_secs();
        let place = Place {
            lane: "web",
            target: &site.host,
            agent: agent.name.as_str(),
            now_s,
            ..Place::from(Direction::Outgoing)
        };
        match engine.url(place, &self.url, None) {
            Err(bound) => steps.no("scan", bound.0),
            Ok(report) => {
                for finding in &report.findings {
                    let why = format!(
                        "{}: {} ({})",
                        finding.rule.id,
                        finding.rule.summary,
                        finding.action.as_str()
                    );
                    match finding.action {
                        scan::Action::Refuse | scan::Action::Redact if !is_observed => {
                            steps.no("scan", why);
                        }
                        scan::Action::Refuse | scan::Action::Redact => {
                            steps.yes("scan", format!("{why}: it is observed"));
                        }
                        scan::Action::Warn | scan::Action::Off => steps.yes("scan", why),
                    }
                }
                if report.findings.is_empty() {
                    steps.yes("scan", "nothing is found in it");
                }
            }
        }
        self.addresses(&engine, &site, &mut steps)?;
        self.seen(&settings, &site, &mut steps);
        steps.end()
    }

    fn permitted(
        &self,
        policies: &policy::Policies,
        principal: &Arc<Principal>,
        action: &'static Action,
        resource: &Resource,
    ) -> Result<String, Refusal> {
        let slice = policies.slice(principal, action, resource)?;
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let context = Context {
            method: &self.method,
            peer: IpAddr::from([127, 0, 0, 1]),
            unix_ms: u64::try_from(now.as_millis()).unwrap_or(u64::MAX),
            arguments: None,
        };
        let admission = slice.admit(resource, &context)?;
        let by = admission.policies.join(", ");
        Ok(format!("{} is permitted by {by}", action.name))
    }

    /// Where the name leads, and whether each address may be dialled.
    fn addresses(
        &self,
        engine: &scan::Engine,
        site: &base::Site,
        steps: &mut Steps,
    ) -> Result<(), Failure> {
        let runtime = crate::serve::runtime().map_err(|why| Failure::new(why, ""))?;
        let found = runtime.block_on(tokio::net::lookup_host((&*site.host, site.port)));
        let found = match found {
            Ok(found) => found,
            Err(error) => {
                steps.no("name", format!("{}: {error}", site.host));
                return Ok(());
            }
        };
        for address in found.take(base::limit::DIAL_ADDRESSES_MAX) {
            let ip = address.ip().to_canonical();
            match (
                gate::Reach::default().allows(ip),
                engine.lets_inside(&site.host, ip),
            ) {
                (true, _) => steps.yes("address", format!("{ip} is public")),
                (false, true) => steps.yes(
                    "address",
                    format!("{ip} is inside, and scan.urls.internal lets it be"),
                ),
                (false, false) => steps.no(
                    "address",
                    format!("{ip} is not public, and scan.urls.internal does not name it"),
                ),
            }
        }
        Ok(())
    }

    fn seen(&self, settings: &Settings, site: &base::Site, steps: &mut Steps) {
        let intercept = settings.web.intercept.as_ref();
        let passes = intercept.is_some_and(|of| of.pass.hold(&site.host));
        match (&*site.scheme, intercept) {
            ("http", _) => steps.yes("seen", "all of it: it is not encrypted"),
            (_, Some(_)) if !passes => steps.yes("seen", "all of it: TLS is looked into"),
            (_, Some(_)) => steps.yes(
                "seen",
                "by the proxy the host alone: web.intercept.pass names it",
            ),
            (_, None) => steps.yes(
                "seen",
                "by the proxy the host alone, since there is no web.intercept; /fetch sees all",
            ),
        }
        for credential in &settings.web.credentials {
            if credential.hosts.hold(&site.host) {
                steps.yes("credential", format!("{} is put in", credential.name));
            }
        }
    }
}

impl Steps {
    fn end(self) -> Ended {
        print(&self.text)?;
        Ok(if self.is_refused {
            Answer::No
        } else {
            Answer::Yes
        })
    }
}
