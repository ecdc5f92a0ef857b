//! The `identity:` section: the authority of agents, the gateway's tokens, and issuers outside.

use ::config::{ByName, Check, Count, FileReference, Path as Key, Reference, Text, Url};
use base::{Name, Secret};
use identity::jws::KeySet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Largest file of an issuer's keys, in bytes.
const KEYS_BYTES_MAX: usize = identity::jws::KEY_SET_BYTES_MAX;

/// Tokens, certificates and enrolment, as they are written.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = &"{ trust_domain: example.org, passphrase: file:ca.pass }")]
pub(crate) struct IdentitySection {
    /// The domain in the SPIFFE ids of agents, spiffe://DOMAIN/agent/NAME; the authority was made with the same.
    #[schemars(required, example = &"example.org")]
    pub trust_domain: Option<Text>,
    /// The passphrase of the authority that weir ca init made; without it no certificates are given.
    #[schemars(example = &"file:ca.pass")]
    pub passphrase: Option<Reference>,
    /// How long certificates of agents are good, in hours.
    #[schemars(example = &"24")]
    #[serde(default = "certificate_hours")]
    pub certificate_hours: Count<1, 8760>,
    /// How long access tokens are good, in seconds.
    #[schemars(example = &"600")]
    #[serde(default = "token_seconds")]
    pub token_seconds: Count<60, 3600>,
    /// Where it is kept which proofs were used: nonce is in this process, whose nonces they have to have, for balancing
    /// by connection; redis is in the store of cache, for balancing by request, where all processes have one token key.
    #[schemars(example = &"redis")]
    #[serde(default)]
    pub once: OnceBy,
    /// SPIFFE ids of other authorities, such as SPIRE's, and the agents that they are; the listener's clients.ca has to
    /// name those authorities.
    #[schemars(example = &"{ build: 'spiffe://corp.example/ns/ci/sa/build' }")]
    #[serde(default)]
    pub spiffe: ByName<SpiffeText>,
    /// Identity providers whose tokens are taken, by names of your own.
    #[schemars(example = &"{ corp: { url: 'https://idp.example', audience: weir, jwks: file:idp.json } }")]
    #[serde(default)]
    pub issuers: ByName<IssuerSection>,
}

/// Where it is kept which proofs were used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum OnceBy {
    #[default]
    Nonce,
    Redis,
}

fn certificate_hours() -> Count<1, 8760> {
    Count(24)
}

fn token_seconds() -> Count<60, 3600> {
    Count(600)
}

/// One identity provider, as it is written.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(example = &"{ url: 'https://idp.example', audience: weir, jwks: file:idp.json }")]
pub(crate) struct IssuerSection {
    /// Its URL, as its tokens have it in iss.
    #[schemars(required, example = &"https://idp.example")]
    pub url: Option<Text>,
    /// What its tokens have to have in aud.
    #[schemars(required, example = &"weir")]
    pub audience: Option<Text>,
    /// Its keys, as a JWK set; without this they are fetched from where its metadata says, and again when they change.
    #[schemars(example = &"file:idp.json")]
    pub jwks: Option<FileReference>,
    /// Certificates to trust for it instead of the public ones, as PEM.
    #[schemars(example = &"file:ca.pem")]
    pub ca: Option<FileReference>,
    /// The claim that says who calls.
    #[schemars(example = &"azp")]
    #[serde(default = "claim")]
    pub claim: Text,
    /// The value of that claim for each agent.
    #[schemars(example = &"{ build: client-7 }")]
    #[serde(default)]
    pub agents: ByName<ClaimValue>,
}

/// The SPIFFE id of one agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SpiffeText(pub String);

::config::scalar!(SpiffeText, spiffe_text, "SPIFFE id", {
    "type": "string",
    "pattern": "^spiffe://",
    "description": "The SPIFFE id that is this agent.",
    "examples": ["spiffe://corp.example/ns/ci/sa/build"]
});

fn spiffe_text(text: &str) -> Result<SpiffeText, String> {
    let read = identity::certificate::SpiffeId::read(text);
    let wrong = || "must be a SPIFFE id such as spiffe://corp.example/ns/ci/sa/build".to_owned();
    read.map(|_| SpiffeText(text.to_owned())).ok_or_else(wrong)
}

/// What a claim has for one agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClaimValue(pub String);

::config::scalar!(ClaimValue, claim_value, "text", {
    "type": "string",
    "minLength": 1,
    "description": "What the claim has in tokens of this agent.",
    "examples": ["client-7"]
});

fn claim_value(text: &str) -> Result<ClaimValue, String> {
    match text.is_empty() {
        true => Err("must not be empty".to_owned()),
        false => Ok(ClaimValue(text.to_owned())),
    }
}

fn claim() -> Text {
    Text("sub".to_owned())
}

/// Tokens, certificates and enrolment.
#[derive(Clone, PartialEq)]
pub(crate) struct Identity {
    pub trust_domain: String,
    pub passphrase: Option<Secret>,
    pub certificate_ms: u64,
    pub token_ms: u64,
    pub once: OnceBy,
    /// SPIFFE ids of other authorities, and the agents that they are.
    pub spiffe: Vec<(String, Name)>,
    pub issuers: Vec<Issuer>,
}

/// One identity provider.
#[derive(Clone, PartialEq)]
pub(crate) struct Issuer {
    pub name: Name,
    pub url: Url,
    /// The URL as it was written: it is compared with `iss` letter by letter.
    pub issuer: String,
    pub audience: String,
    /// The text of its key set, where it was given; it is good.
    pub jwks: Option<String>,
    pub ca: Option<::config::Pem>,
    pub claim: String,
    /// The value of the claim, and the agent that it is.
    pub agents: Vec<(String, Name)>,
}

pub(super) fn identity(
    written: Option<&IdentitySection>,
    check: &mut Check<'_>,
) -> Option<Identity> {
    let written = written?;
    let at = Key::of("identity");
    let domain = written.trust_domain.as_ref()?.0.clone();
    let probe = format!("spiffe://{domain}/agent/a");
    if identity::certificate::SpiffeId::read(&probe).is_none() {
        let message = "must be a domain of a-z, 0-9, -, . and _, such as example.org";
        check.say(&at.key("trust_domain"), message);
    }
    let passphrase = check.of(
        &written.passphrase,
        &at.key("passphrase"),
        |check, of, at| check.secret(of, at),
    );
    let mut spiffe = Vec::new();
    for (agent, id) in written.spiffe.iter() {
        spiffe.extend(Name::new(agent).map(|agent| (id.0.clone(), agent)));
    }
    let mut issuers: Vec<Issuer> = Vec::new();
    for (name, issuer) in written.issuers.iter() {
        let at = at.key("issuers").key(name);
        let Some(read) = self::issuer(name, issuer, &at, check) else {
            continue;
        };
        if issuers.iter().any(|other| other.issuer == read.issuer) {
            check.say(&at.key("url"), "is that of another issuer too");
        }
        issuers.push(read);
    }
    Some(Identity {
        trust_domain: domain,
        passphrase,
        certificate_ms: written.certificate_hours.0 * 3_600_000,
        token_ms: written.token_seconds.0 * 1000,
        once: written.once,
        spiffe,
        issuers,
    })
}

fn issuer(name: &str, written: &IssuerSection, at: &Key, check: &mut Check<'_>) -> Option<Issuer> {
    let issuer = written.url.as_ref()?.0.clone();
    let url = check.good(&at.key("url"), ::config::url::parse(&issuer))?;
    if !url.https && !url.is_loopback() {
        let message = "must be https: who reads the keys on the way could change them";
        check.say(&at.key("url"), message);
    }
    let jwks = check.of(&written.jwks, &at.key("jwks"), |check, file, at| {
        let text = check.text(&file.0, KEYS_BYTES_MAX);
        let text = check.good(at, text)?;
        match KeySet::read(text.as_bytes()) {
            Ok(set) => {
                for why in set.left_out() {
                    check.warn(at, format!("is used without {why}"));
                }
                Some(text)
            }
            Err(error) => {
                check.say(at, format!("is no JWK set that can be used: {error}"));
                None
            }
        }
    });
    let agents = written.agents.iter();
    Some(Issuer {
        name: Name::new(name)?,
        url,
        issuer,
        audience: written.audience.as_ref()?.0.clone(),
        jwks,
        ca: check.of(&written.ca, &at.key("ca"), Check::certificates),
        claim: written.claim.0.clone(),
        agents: agents
            .filter_map(|(agent, value)| Some((value.0.clone(), Name::new(agent)?)))
            .collect(),
    })
}
