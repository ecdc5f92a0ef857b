//! What all threads share of identities: the directory's file, the keys of tokens, the authority.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwapOption;
use base::record::Admin;
use base::{Name, Now, Refusal, refusal};
use gate::Gate;
use gate::ports::{Clock as _, Directory as _, Recorder as _};
use identity::access::TokenKey;
use identity::dpop::NonceKey;
use identity::jws::KeySet;
use identity::trust::{spiffe_digest, subject_digest};
use identity::{OutsideIssuer, TokenTrust};
use serde_json::{Value, json};
use store::authority::{Authority, AuthorityFiles};
use store::directory::{DirectoryBook, DirectoryFile};
use store::log::Log;

use crate::assemble::replica::DirectoryKeeper;
use crate::config::Settings;
use crate::config::identity::{Identity, Issuer, OnceBy};
use crate::lanes::Parts;
use crate::ports::{Clock, Known};

/// The file of the key that signs access tokens, and of the one before, whose tokens are taken still.
const TOKEN_KEY: &str = "token.key";
const TOKEN_KEY_BEFORE: &str = "token-before.key";

pub(super) struct IdentityShared {
    pub gate: Arc<Gate>,
    pub clock: Arc<Clock>,
    pub known: Arc<Known>,
    pub log: Arc<Log>,
    pub keeper: DirectoryKeeper,
    pub settings: Option<Identity>,
    pub key: TokenKey,
    /// The key that signed before, where there is one.
    before: Option<TokenKey>,
    pub authority: Option<Arc<Authority>>,
    nonces: Arc<NonceKey>,
    /// When this process began, in Unix milliseconds: what was used before is not known here.
    started_unix_ms: u64,
    /// The store that keeps what was used, where processes share one.
    pub store: Option<Arc<cache::SharedCache>>,
    /// The file as it was when it was read last.
    stamp: Mutex<Option<(u64, u64, i64, i64)>>,
    /// By which the gateway is reached, once that is known.
    origins: ArcSwapOption<Vec<String>>,
    /// Keys of issuers that were fetched, by the issuers' places.
    pub fetched: Mutex<Vec<Option<Arc<KeySet>>>>,
    /// Which issuers' tokens named keys that are not at hand, by the issuers' places.
    pub sought: Vec<Arc<AtomicBool>>,
}

impl IdentityShared {
    pub(super) fn new(settings: &Settings, parts: &Parts<'_>) -> Result<IdentityShared, String> {
        let stamp = DirectoryFile::of_state(&settings.state).stamp();
        let keeper = DirectoryKeeper::open(settings, parts.replica, parts.known)?;
        let seed = parts
            .state
            .key(TOKEN_KEY)
            .map_err(|error| error.to_string())?;
        let mut random = [0; 32];
        aws_lc_rs::rand::fill(&mut random)
            .map_err(|_| "the system gives no random bytes".to_owned())?;
        let identity = settings.identity.clone();
        let nonces = Arc::new(NonceKey::new(&random));
        let shared = identity
            .as_ref()
            .filter(|identity| identity.once == OnceBy::Redis)
            .and(parts.stores.all.as_ref());
        if let Some(store) = shared {
            let (nonces, seed) = (Arc::clone(&nonces), seed);
            store.when_run(move |run| nonces.share(&seed, run));
        }
        let issuers = identity
            .as_ref()
            .map_or(0, |identity| identity.issuers.len());
        Ok(IdentityShared {
            gate: Arc::clone(parts.gate),
            clock: Arc::clone(parts.clock),
            known: Arc::clone(parts.known),
            log: Arc::clone(parts.log),
            keeper,
            authority: authority(settings)?,
            settings: identity,
            key: TokenKey::new(&seed).map_err(|error| error.to_string())?,
            before: key_before(settings, parts)?,
            nonces,
            started_unix_ms: parts.clock.now().unix_ms,
            store: shared.cloned(),
            stamp: Mutex::new(stamp),
            origins: ArcSwapOption::empty(),
            fetched: Mutex::new(vec![None; issuers]),
            sought: (0..issuers).map(|_| Arc::default()).collect(),
        })
    }

    pub(super) fn now(&self) -> Now {
        self.clock.now()
    }

    /// Since when it is known what was used, in Unix milliseconds: since this process began, or the store that is shared.
    pub(super) fn knows_since_unix_ms(&self) -> u64 {
        let of_store = |store: &Arc<cache::SharedCache>| store.state().refuses_until_unix_ms;
        self.store.as_ref().map_or(self.started_unix_ms, of_store)
    }

    pub(super) fn trust(&self) -> Option<Arc<TokenTrust>> {
        self.known.trust()
    }

    /// Tells the directory whose tokens are taken, now that it is known by what URL the gateway is reached.
    pub(super) fn trust_tokens(&self, settings: &Settings, url: Option<&str>) {
        let Some(identity) = &self.settings else {
            return;
        };
        let Some(url) = url else {
            tracing::warn!(
                "no tokens are taken: write public_url, by which agents reach this gateway"
            );
            return;
        };
        let mut origins = vec![url.to_owned()];
        // What listens on this machine is known by its name too.
        if let Some(port) = url.strip_prefix("http://127.0.0.1:") {
            origins.push(format!("http://localhost:{port}"));
        }
        if settings.public_url.is_some() && !url.starts_with("https://") {
            tracing::warn!(
                "public_url is not https: tokens and invites cross the network in the clear"
            );
        }
        self.origins.store(Some(Arc::new(origins)));
        self.known.map(mapped(identity));
        self.renew_trust();
        tracing::info!(
            issuer = url,
            trust_domain = identity.trust_domain,
            "identities"
        );
    }

    /// Makes the trust anew, of the keys that are at hand now.
    pub(super) fn renew_trust(&self) {
        let (Some(identity), Some(origins)) = (&self.settings, self.origins.load_full()) else {
            return;
        };
        let issuer = origins.first().cloned().unwrap_or_default();
        let before = self.before.iter().map(TokenKey::public);
        let keys = KeySet::of([self.key.public()].into_iter().chain(before));
        let mut trust = TokenTrust::new(issuer, origins.to_vec(), keys, Arc::clone(&self.nonces));
        let fetched = self.fetched.lock().unwrap_or_else(PoisonError::into_inner);
        let issuers = identity.issuers.iter().zip(fetched.iter());
        trust.outside = issuers
            .zip(&self.sought)
            .map(|((issuer, fetched), sought)| outside(issuer, fetched.clone(), sought))
            .collect();
        self.known.set_trust(Arc::new(trust));
    }

    /// The nonce that proofs have to have now.
    pub(super) fn nonce(&self) -> String {
        self.nonces.nonce(self.now().unix_ms)
    }

    pub(super) fn jwks(&self) -> Value {
        let before = self.before.iter().map(TokenKey::jwk);
        let keys: Vec<Value> = [self.key.jwk()].into_iter().chain(before).collect();
        json!({ "keys": keys })
    }

    /// The authority that signs certificates.
    ///
    /// # Errors
    /// `identity.authority_off`.
    pub(super) fn authority(&self) -> Result<(&Arc<Authority>, &Identity), Refusal> {
        match (&self.authority, &self.settings) {
            (Some(authority), Some(identity)) => Ok((authority, identity)),
            _ => Err(Refusal::new(
                refusal::AUTHORITY_OFF,
                "this gateway has no authority for certificates",
            )),
        }
    }

    /// Changes the directory: the record of it first, then the file, then who is known. `by` is who does it, `what` is
    /// done to `whom`.
    ///
    /// # Errors
    /// What `change` refuses, and where it cannot be recorded or written.
    pub(super) async fn change<T>(
        &self,
        by: &str,
        what: &'static str,
        whom: &str,
        change: impl Fn(&mut DirectoryBook) -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        // Tried on what is known first, so that the record says what is done.
        let (_, mut trial) = self.known.agents();
        if let Err(refusal) = change(&mut trial) {
            self.record(by, what, whom, Some(refusal.code.name)).await?;
            return Err(refusal);
        }
        self.record(by, what, whom, None).await?;
        match self.keeper.change(&self.known, change).await {
            Ok(answer) => {
                if let Some(file) = self.keeper.file() {
                    *self.stamp.lock().unwrap_or_else(PoisonError::into_inner) = file.stamp();
                }
                Ok(answer)
            }
            Err(refusal) => {
                self.record(by, what, whom, Some(refusal.code.name)).await?;
                Err(refusal)
            }
        }
    }

    /// Records what is done, as durable as the log's setting says.
    async fn record(
        &self,
        by: &str,
        what: &'static str,
        whom: &str,
        refused: Option<&str>,
    ) -> Result<(), Refusal> {
        let record = Admin {
            at: self.now(),
            what,
            by,
            changed: &[format!("agents.{whom}")],
            waiting: &[],
            policy_set: None,
            directory: None,
            refused,
        };
        let kept = self.log.append(record.to_json()).await;
        match kept {
            Ok(Ok(_)) => Ok(()),
            _ => Err(Refusal::new(
                refusal::LOG_FAILED,
                "the change cannot be recorded",
            )),
        }
    }

    /// Notes something that was done, which nobody waits for.
    pub(super) fn note(&self, by: &str, what: &'static str, whom: &str) {
        let record = Admin {
            at: self.now(),
            what,
            by,
            changed: &[format!("agents.{whom}")],
            waiting: &[],
            policy_set: None,
            directory: None,
            refused: None,
        };
        self.log.note(record.to_json());
    }

    /// Looks whether another process changed the directory, and takes that over.
    pub(super) fn look(&self) {
        // What is shared is watched elsewhere.
        let Some(file) = self.keeper.file() else {
            return;
        };
        let stamp = file.stamp();
        let mut last = self.stamp.lock().unwrap_or_else(PoisonError::into_inner);
        if *last == stamp {
            return;
        }
        match file.read() {
            Ok(book) => {
                *last = stamp;
                drop(last);
                let epoch = self.known.look(|known| known.epoch);
                if book.epoch < epoch {
                    tracing::error!(
                        epoch,
                        file = book.epoch,
                        "the directory's file is older than what is in force, which stays; restart to use the file"
                    );
                }
                self.known.enter(book);
            }
            Err(error) => tracing::error!(%error, "the directory stays as it was"),
        }
    }
}

/// The key that signed tokens before this one, where the operator left it there.
fn key_before(settings: &Settings, parts: &Parts<'_>) -> Result<Option<TokenKey>, String> {
    if !settings.state.join(TOKEN_KEY_BEFORE).exists() {
        return Ok(None);
    }
    let seed = parts.state.key(TOKEN_KEY_BEFORE);
    let seed = seed.map_err(|error| error.to_string())?;
    let key = TokenKey::new(&seed).map_err(|error| error.to_string())?;
    Ok(Some(key))
}

/// Opens the authority where there is a passphrase for it.
fn authority(settings: &Settings) -> Result<Option<Arc<Authority>>, String> {
    let Some((identity, passphrase)) = settings
        .identity
        .as_ref()
        .and_then(|identity| Some((identity, identity.passphrase.as_ref()?)))
    else {
        return Ok(None);
    };
    let opened = AuthorityFiles::of_state(&settings.state).open(passphrase);
    let authority = opened.map_err(|error| format!("identity.passphrase: {error}"))?;
    match authority.trust_domain == identity.trust_domain {
        true => Ok(Some(watched(authority))),
        false => Err(format!(
            "identity.trust_domain is {}, and the authority's is {}: write that, or make another authority",
            identity.trust_domain, authority.trust_domain
        )),
    }
}

/// Tries the authority's key beside the start, which does not wait for a module: an HSM may be away.
fn watched(authority: Authority) -> Arc<Authority> {
    let authority = Arc::new(authority);
    let tried = Arc::clone(&authority);
    std::thread::spawn(move || {
        if let Err(error) = tried.try_key() {
            tracing::warn!(%error, "the authority does not sign: nobody can enrol or renew");
        }
    });
    authority
}

fn outside(
    issuer: &Issuer,
    fetched: Option<Arc<KeySet>>,
    is_key_sought: &Arc<AtomicBool>,
) -> OutsideIssuer {
    let given = issuer.jwks.as_ref();
    let given = given.and_then(|text| KeySet::read(text.as_bytes()).ok().map(Arc::new));
    OutsideIssuer {
        name: issuer.name.clone(),
        issuer: issuer.issuer.clone(),
        audience: issuer.audience.clone(),
        keys: given.or(fetched),
        claim: issuer.claim.clone(),
        agents: issuer.agents.clone(),
        is_key_sought: Arc::clone(is_key_sought),
    }
}

/// Which agent each subject of an issuer is.
fn mapped(identity: &Identity) -> Vec<(base::Digest, Name)> {
    let spiffe = identity.spiffe.iter();
    let mut mapped: Vec<_> = spiffe
        .map(|(id, agent)| (spiffe_digest(id), agent.clone()))
        .collect();
    for issuer in &identity.issuers {
        for (subject, agent) in &issuer.agents {
            mapped.push((subject_digest(&issuer.issuer, subject), agent.clone()));
        }
    }
    mapped
}
