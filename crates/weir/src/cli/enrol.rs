//! `weir enrol`, `weir token` and `weir whoami`: the agent's side. Its private key is made here, in a file of this user's alone, and
//! never sent: what goes out is a public key, and what that key signed.

use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use ::config::Pem;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use base::Name;
use bytes::Bytes;
use clap::Args;
use http::Request;
use identity::certificate::{ClientCertificate, certificate_thumbprint};
use identity::jose::to_base64url;
use serde_json::{Value, json};
use terminal::visible;

use super::admin::refused;
use super::{Answer, Ended, Failure, print, secret_at};
use crate::assemble::client::{Asker, Client};

/// Largest answer that is read, in bytes.
const ANSWER_BYTES_MAX: usize = 256 << 10;
const ANSWER_MS: u64 = 30_000;
const KEY: &str = "key.pem";
const CERTIFICATE: &str = "certificate.pem";
const AGENT: &str = "agent.json";

/// Enrol this machine's agent at a gateway, by an invite and a key that never leaves this machine
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  weir enrol https://gate.example --invite file:invite\n  weir enrol https://gate.example --invite env:WEIR_INVITE --no-certificate\n\nThe key, the certificate and the gateway's URL are kept in a folder of this user's:\nsee weir token and weir whoami.\n\nExit codes: 0 done, 1 no, 2 it could not be done."
)]
pub(super) struct Enrol {
    /// The gateway's URL
    url: String,
    /// The invite: env:NAME, file:PATH, or its text
    #[arg(long)]
    invite: String,
    /// Enrol a public key alone, where the gateway has no authority for certificates
    #[arg(long)]
    no_certificate: bool,
    #[command(flatten)]
    at: EnrolFolder,
}

/// Print an access token of this machine's agent, got by its key
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  weir token\n  weir token --scope mcp\n\nExit codes: 0 done, 1 no, 2 it could not be done."
)]
pub(super) struct Token {
    /// What the token is limited to: names of lanes or of actions
    #[arg(long)]
    scope: Option<String>,
    #[command(flatten)]
    at: EnrolFolder,
}

/// Ask the gateway who this machine's agent is, with a token that is bound to its key
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  weir whoami\n  weir whoami --json\n\nExit codes: 0 done, 1 no, 2 it could not be done."
)]
pub(super) struct Whoami {
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    at: EnrolFolder,
}

/// Where the agent's identity is kept.
#[derive(Args, Debug)]
struct EnrolFolder {
    /// The folder of the agent's key; by default one of this user's
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Certificates to trust instead of the public ones, as PEM
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
}

impl EnrolFolder {
    fn dir(&self) -> Result<PathBuf, Failure> {
        match &self.dir {
            Some(dir) => Ok(dir.clone()),
            None => super::state_folder("agent"),
        }
    }

    fn client(&self, url: &str) -> Result<Client, Failure> {
        let failed = |why: String| {
            Failure::new(
                why,
                "Write the URL of the gateway, such as https://gate.example.",
            )
        };
        let url = ::config::url::parse(url).map_err(|why| failed(format!("the URL {why}")))?;
        let ca = self.ca.as_ref().map(|file| {
            let text = crate::config::read::read_text(file, ::config::PEM_BYTES_MAX);
            let text = text.map_err(|why| failed(format!("{} {why}", file.display())))?;
            Ok(Pem {
                file: file.clone(),
                pem: text,
            })
        });
        Client::new(&url, ca.transpose()?.as_ref()).map_err(failed)
    }
}

/// A P-256 key pair of the agent.
struct AgentKey {
    pair: EcdsaKeyPair,
}

impl AgentKey {
    fn of(pkcs8: &[u8]) -> Result<AgentKey, Failure> {
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, pkcs8);
        let pair =
            pair.map_err(|_| Failure::new("the key is not P-256 in PKCS #8", "Enrol again."))?;
        Ok(AgentKey { pair })
    }

    fn read(dir: &Path) -> Result<AgentKey, Failure> {
        let path = dir.join(KEY);
        let text = crate::config::read::read_text(&path, ::config::PEM_BYTES_MAX);
        let text = text.map_err(|why| {
            Failure::new(
                format!("{} {why}", path.display()),
                "Enrol first: weir enrol URL --invite ….",
            )
        })?;
        let der = store::sealed::unpem("PRIVATE KEY", &text);
        AgentKey::of(&der.ok_or_else(|| {
            Failure::new(
                format!("{} holds no private key", path.display()),
                "Enrol again.",
            )
        })?)
    }

    fn jwk(&self) -> Value {
        let (x, y) = self.pair.public_key().as_ref()[1..].split_at(32);
        json!({ "kty": "EC", "crv": "P-256", "x": to_base64url(x), "y": to_base64url(y) })
    }

    /// A JWS of these.
    fn sign(&self, header: &Value, claims: &Value) -> Result<String, Failure> {
        let part = |value: &Value| to_base64url(value.to_string().as_bytes());
        let signed = format!("{}.{}", part(header), part(claims));
        let signature = self.pair.sign(&SystemRandom::new(), signed.as_bytes());
        let signature =
            signature.map_err(|_| Failure::new("the system gives no random bytes", ""))?;
        Ok(format!("{signed}.{}", to_base64url(signature.as_ref())))
    }

    /// A DPoP proof (RFC 9449 §4.2).
    fn proof(
        &self,
        method: &str,
        url: &str,
        token: Option<&str>,
        nonce: Option<&str>,
    ) -> Result<String, Failure> {
        let mut claims = json!({ "jti": random_id()?, "htm": method, "htu": url, "iat": now_s() });
        if let Some(token) = token {
            claims["ath"] = to_base64url(&certificate_thumbprint(token.as_bytes()).0).into();
        }
        if let Some(nonce) = nonce {
            claims["nonce"] = nonce.into();
        }
        let header = json!({ "typ": "dpop+jwt", "alg": "ES256", "jwk": self.jwk() });
        self.sign(&header, &claims)
    }
}

fn random_id() -> Result<String, Failure> {
    let mut random = [0; 16];
    aws_lc_rs::rand::fill(&mut random)
        .map_err(|_| Failure::new("the system gives no random bytes", ""))?;
    Ok(to_base64url(&random))
}

fn now_s() -> u64 {
    gate::ports::Clock::now(&crate::ports::Clock::new()).unix_ms / 1000
}

impl Enrol {
    pub(super) fn run(self) -> Ended {
        let dir = self.at.dir()?;
        if dir.join(KEY).exists() {
            let what = format!("{} has a key already", dir.display());
            return Err(Failure::new(
                what,
                "Name another folder with --dir DIR, or take that one away.",
            ));
        }
        let invite = match self.invite.split_once(':') {
            Some(_) => secret_at(&self.invite, "--invite")?,
            None => base::Secret::new(self.invite.clone()),
        };
        let pair = rcgen_key()?;
        let key = AgentKey::of(&pair.pkcs8)?;
        let url = self.url.trim_end_matches('/').to_owned();
        let body = match self.no_certificate {
            false => json!({ "invite": invite.expose(), "csr": pair.request }),
            true => {
                let hash = to_base64url(&certificate_thumbprint(invite.expose().as_bytes()).0);
                let header = json!({ "typ": "weir-enrol+jwt", "alg": "ES256" });
                let claims =
                    json!({ "aud": url, "invite": hash, "iat": now_s(), "jti": random_id()? });
                let proof = key.sign(&header, &claims)?;
                json!({ "invite": invite.expose(), "jwk": key.jwk(), "proof": proof })
            }
        };
        check_is_sealed(&url)?;
        let client = self.at.client(&url)?;
        // The key is on the disk before the invite is spent.
        store::state::make_dir(&dir).map_err(|error| Failure::new(error.to_string(), ""))?;
        write_for(&dir.join(KEY), &pair.pkcs8_pem, 0o600)?;
        let said = client.run(async |asker| {
            let request = Request::post("/enrol").header("content-type", "application/json");
            send(asker, request, body.to_string()).await
        });
        let said = said.and_then(checked);
        let welcome = said.and_then(|said| Welcome::read(&said, &url, &key));
        let kept = welcome.and_then(|welcome| welcome.keep(&dir, &url).map(|()| welcome));
        let welcome = kept.inspect_err(|_| {
            // Of no use to anybody: no gateway that could be believed has taken it.
            let _ = std::fs::remove_file(dir.join(KEY));
        })?;
        let (agent, state) = (welcome.agent, welcome.state);
        print(&format!(
            "{agent} is enrolled and {state}: {}\n",
            dir.display()
        ))?;
        Ok(Answer::Yes)
    }
}

/// Refuses to send an invite over a network in the clear: whoever sees it could enrol with it first.
fn check_is_sealed(url: &str) -> Result<(), Failure> {
    match ::config::url::parse(url) {
        Ok(url) if !url.https && !url.is_loopback() => Err(Failure::new(
            "the invite would cross the network in the clear",
            "Write the URL of the gateway with https.",
        )),
        _ => Ok(()),
    }
}

/// What a gateway says when it takes an agent. Nothing of it is believed that the agent can check itself.
struct Welcome {
    agent: Name,
    state: String,
    id: Option<String>,
    issuer: String,
    chain: Option<String>,
}

impl Welcome {
    fn read(said: &Value, url: &str, key: &AgentKey) -> Result<Welcome, Failure> {
        let wrong = |what: &str| {
            let what = format!("the answer is not one of a gateway: {what}");
            Failure::new(
                what,
                "Is this the URL of the gateway, and no other server's?",
            )
        };
        let text = |name: &str| said[name].as_str();
        let agent = text("agent").and_then(Name::new);
        let agent = agent.ok_or_else(|| wrong("it names no agent"))?;
        let state = text("state").filter(|state| ["active", "pending"].contains(state));
        let state = state.ok_or_else(|| wrong("it does not say whether the agent is active"))?;
        let issuer = text("issuer").unwrap_or(url);
        if !is_same_gateway(url, issuer) {
            let issuer = visible(issuer);
            let what = format!("the gateway at {url} says that its URL is {issuer}");
            let help =
                "Enrol at that URL if it is the gateway's, or have the operator write public_url.";
            return Err(Failure::new(what, help));
        }
        let id = text("id").map(str::to_owned);
        let chain = text("certificate").map(str::to_owned);
        if let Some(chain) = &chain {
            let of_agent = format!("/agent/{agent}");
            check_chain(chain, key, |found| {
                id.as_deref() == Some(found) && found.ends_with(&of_agent)
            })
            .map_err(wrong)?;
        }
        Ok(Welcome {
            agent,
            state: state.to_owned(),
            id,
            issuer: issuer.to_owned(),
            chain,
        })
    }

    fn keep(&self, dir: &Path, url: &str) -> Result<(), Failure> {
        if let Some(chain) = &self.chain {
            write_for(&dir.join(CERTIFICATE), chain, 0o644)?;
        }
        let agent = json!({
            "url": url, "agent": self.agent.as_str(), "id": self.id, "issuer": self.issuer,
        });
        write_for(&dir.join(AGENT), &format!("{agent}\n"), 0o644)
    }
}

/// Whether two URLs are of one gateway: assertions and proofs are for the second, and must be of no use elsewhere. A machine has several
/// names for itself.
fn is_same_gateway(asked: &str, said: &str) -> bool {
    let (Ok(asked), Ok(said)) = (::config::url::parse(asked), ::config::url::parse(said)) else {
        return false;
    };
    let is_here = asked.is_loopback() && said.is_loopback();
    asked.https == said.https && asked.port == said.port && (is_here || asked.host == said.host)
}

/// Whether a text is certificates alone, the first of them for this key and an id that is the agent's.
fn check_chain(
    chain: &str,
    key: &AgentKey,
    is_agents: impl Fn(&str) -> bool,
) -> Result<(), &'static str> {
    let mut labels = chain.lines().filter(|line| line.starts_with("-----"));
    if labels.any(|line| !line.ends_with(" CERTIFICATE-----")) {
        return Err("its certificate holds something else");
    }
    let der = store::sealed::unpem("CERTIFICATE", chain);
    let der = der.ok_or("it has no certificate in PEM")?;
    let leaf = ClientCertificate::read(&der).map_err(|_| "its certificate is none of an agent")?;
    let point = key.pair.public_key().as_ref();
    if !der.windows(point.len()).any(|bytes| bytes == point) {
        return Err("its certificate is for another key");
    }
    match is_agents(&leaf.id.to_string()) {
        true => Ok(()),
        false => Err("its certificate is another agent's"),
    }
}

/// A new key, and the request for a certificate that it signed.
struct NewAgentKey {
    pkcs8: Vec<u8>,
    pkcs8_pem: String,
    request: String,
}

fn rcgen_key() -> Result<NewAgentKey, Failure> {
    let made = store::authority::new_agent_key();
    let (pkcs8, pkcs8_pem, request) =
        made.map_err(|error| Failure::new(error.to_string(), "Try again."))?;
    Ok(NewAgentKey {
        pkcs8,
        pkcs8_pem,
        request,
    })
}

/// Writes a file that is not there yet, for those whom the mode names.
fn write_for(path: &Path, text: &str, mode: u32) -> Result<(), Failure> {
    let mut options = std::fs::OpenOptions::new();
    let file = options.write(true).create_new(true).mode(mode).open(path);
    file.and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(|error| Failure::new(format!("{} cannot be written: {error}", path.display()), ""))
}

/// What was kept at enrolment.
struct Enrolled {
    key: AgentKey,
    url: String,
    issuer: String,
    agent: String,
}

impl Enrolled {
    fn read(dir: &Path) -> Result<Enrolled, Failure> {
        let path = dir.join(AGENT);
        let text = crate::config::read::read_text(&path, ::config::PEM_BYTES_MAX);
        let text = text.map_err(|why| {
            Failure::new(
                format!("{} {why}", path.display()),
                "Enrol first: weir enrol URL --invite ….",
            )
        })?;
        let read: Value = serde_json::from_str(&text).map_err(|error| {
            Failure::new(format!("{}: {error}", path.display()), "Enrol again.")
        })?;
        let of = |name: &str| read[name].as_str().unwrap_or_default().to_owned();
        Ok(Enrolled {
            key: AgentKey::read(dir)?,
            url: of("url"),
            issuer: of("issuer"),
            agent: of("agent"),
        })
    }

    /// Asks for a token, where `bound` one that is bound to the key; gives it and the nonce that came with it.
    async fn token(
        &self,
        asker: &Asker<'_>,
        scope: Option<&str>,
        bound: bool,
    ) -> Result<(String, Option<String>), Failure> {
        let endpoint = format!("{}/oauth/token", self.issuer);
        let mut nonce: Option<String> = None;
        for _ in 0..2 {
            let header = json!({ "typ": "JWT", "alg": "ES256" });
            let claims = json!({
                "iss": self.agent, "sub": self.agent, "aud": endpoint,
                "jti": random_id()?, "iat": now_s(), "exp": now_s() + 60,
            });
            let assertion = self.key.sign(&header, &claims)?;
            let mut body = format!(
                "grant_type=client_credentials&client_assertion_type=urn%3Aietf%3Aparams%3Aoauth%3Aclient-assertion-type%3Ajwt-bearer&client_assertion={assertion}"
            );
            if let Some(scope) = scope {
                body += &format!("&scope={}", scope.replace(':', "%3A").replace(' ', "+"));
            }
            let mut request = Request::post("/oauth/token")
                .header("content-type", "application/x-www-form-urlencoded");
            if bound {
                request = request.header(
                    "dpop",
                    self.key.proof("POST", &endpoint, None, nonce.as_deref())?,
                );
            }
            let (status, fields, said) = send(asker, request, body).await?;
            nonce = fields
                .get("dpop-nonce")
                .and_then(|value| value.to_str().ok())
                .map(str::to_owned);
            if said["error"] == "use_dpop_nonce" {
                continue;
            }
            let said = checked((status, fields, said))?;
            let token = said["access_token"].as_str().unwrap_or_default();
            // The alphabet of RFC 6750 §2.1: what else a server says does not reach a terminal or a field.
            let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte);
            if token.is_empty() || !token.bytes().all(is_token) {
                let what = "the gateway gives something that is no token";
                return Err(Failure::new(what, "Is this the URL of the gateway?"));
            }
            return Ok((token.to_owned(), nonce));
        }
        Err(Failure::new(
            "the gateway takes no nonce of its own",
            "Ask again.",
        ))
    }
}

impl Token {
    pub(super) fn run(self) -> Ended {
        let enrolled = Enrolled::read(&self.at.dir()?)?;
        let client = self.at.client(&enrolled.url)?;
        let scope = self.scope.as_deref();
        let (token, _) = client.run(async |asker| enrolled.token(asker, scope, false).await)?;
        print(&format!("{token}\n"))?;
        Ok(Answer::Yes)
    }
}

impl Whoami {
    pub(super) fn run(self) -> Ended {
        let enrolled = Enrolled::read(&self.at.dir()?)?;
        let client = self.at.client(&enrolled.url)?;
        let said = client.run(async |asker| {
            let (token, nonce) = enrolled.token(asker, None, true).await?;
            let url = format!("{}/whoami", enrolled.issuer);
            let proof = enrolled
                .key
                .proof("GET", &url, Some(&token), nonce.as_deref())?;
            let request = Request::get("/whoami")
                .header("authorization", format!("DPoP {token}"))
                .header("dpop", proof);
            checked(send(asker, request, String::new()).await?)
        })?;
        let text = |name: &str| visible(said[name].as_str().unwrap_or("never"));
        print(&match self.json {
            true => format!("{said}\n"),
            false => format!(
                "{} by {} until {}\n",
                text("agent"),
                text("by"),
                text("expires")
            ),
        })?;
        Ok(Answer::Yes)
    }
}

type Said = (u16, http::HeaderMap, Value);

async fn send(
    asker: &Asker<'_>,
    request: http::request::Builder,
    body: String,
) -> Result<Said, Failure> {
    let request = request
        .header("accept", "application/json")
        .body(Bytes::from(body));
    let request = request.map_err(|error| Failure::new(error.to_string(), ""))?;
    let answer = asker.ask(request, ANSWER_BYTES_MAX, ANSWER_MS).await;
    let (head, body) = answer.map_err(|why| {
        Failure::new(
            format!("the gateway does not answer: {why}"),
            "Look at the URL, and at --ca FILE.",
        )
    })?;
    let said = serde_json::from_slice(&body).unwrap_or_else(|_| json!({}));
    Ok((head.status.as_u16(), head.headers, said))
}

fn checked((status, _, said): Said) -> Result<Value, Failure> {
    match status {
        200..=299 => Ok(said),
        _ => Err(refused(status, &said)),
    }
}
