//! The keys of issuers outside, fetched where their metadata says (OpenID Connect Discovery 1.0, RFC 8414), and again while
//! serving.
//!
//! Each issuer has a thread, and another watches the directory's file, so that an issuer that hangs delays no other and no revocation.
//! They ask by calls of its own that pass a gate as every call does, with bounds on time and size. An
//! issuer that does not answer keeps its keys for an hour; then its tokens are refused, never waved through.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, Weak};
use std::time::{Duration, Instant};

use bytes::Bytes;
use config::Url;
use identity::jose::strict_object;
use identity::jws::{KEY_SET_BYTES_MAX, KeySet};

use super::shared::IdentityShared;
use crate::assemble::client::Client;
use crate::config::identity::Issuer;

/// How often keys are fetched, in milliseconds; sooner where an issuer failed, or a token named a key that is not at hand.
const FETCH_MS: u64 = 300_000;
const FETCH_AGAIN_MS: u64 = 5_000;
/// How long keys are used that could not be fetched again, in milliseconds.
const KEPT_MS: u64 = 3_600_000;
/// How long one answer may take, in milliseconds.
const ANSWER_MS: u64 = 5_000;
/// Largest metadata, in bytes.
const METADATA_BYTES_MAX: usize = 128 << 10;
/// How often the threads look whether something is due, and whether the directory's file changed.
const LOOK: Duration = Duration::from_secs(1);

/// What is known of one issuer's keys.
struct FollowedIssuer {
    place: usize,
    next: Instant,
    /// When they were asked for last, and when they came.
    asked: Option<Instant>,
    fetched: Option<Instant>,
    /// Which of them are not used, as it was told.
    left_out: Vec<String>,
}

impl FollowedIssuer {
    /// Whether its keys are fetched now. Tokens are made by others, so those that name keys that nobody has bring it forward no
    /// further than a failure does.
    fn is_due(&self, shared: &IdentityShared) -> bool {
        let now = Instant::now();
        let sought = shared.sought.get(self.place);
        let is_rested = self
            .asked
            .is_none_or(|at| now - at >= Duration::from_millis(FETCH_AGAIN_MS));
        self.next <= now
            || is_rested && sought.is_some_and(|sought| sought.swap(false, Ordering::Relaxed))
    }
}

/// Follows the issuers and the directory's file until the gateway is gone.
pub(super) fn follow(shared: &Arc<IdentityShared>) {
    let issuers = shared.settings.iter().flat_map(|it| &it.issuers);
    let fetched = issuers
        .enumerate()
        .filter(|(_, issuer)| issuer.jwks.is_none());
    for (place, _) in fetched {
        let weak = Arc::downgrade(shared);
        spawn("issuer", move || run(&weak, place));
    }
    let weak = Arc::downgrade(shared);
    spawn("directory", move || {
        while let Some(shared) = weak.upgrade() {
            shared.look();
            drop(shared);
            std::thread::sleep(LOOK);
        }
    });
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().name(name.to_owned());
    if let Err(error) = thread.spawn(run) {
        tracing::error!(%error, name, "a thread of identities does not start");
    }
}

/// Follows the keys of one issuer.
fn run(weak: &Weak<IdentityShared>, place: usize) {
    let mut one = FollowedIssuer {
        place,
        next: Instant::now(),
        asked: None,
        fetched: None,
        left_out: Vec::new(),
    };
    while let Some(shared) = weak.upgrade() {
        if one.is_due(&shared) {
            ask(&shared, &mut one);
        }
        drop(shared);
        std::thread::sleep(LOOK);
    }
}

fn ask(shared: &Arc<IdentityShared>, one: &mut FollowedIssuer) {
    let Some(issuer) = shared
        .settings
        .as_ref()
        .and_then(|identity| identity.issuers.get(one.place))
    else {
        return;
    };
    let now = Instant::now();
    one.asked = Some(now);
    let keys = match fetch(issuer) {
        Ok(keys) => {
            one.fetched = Some(now);
            one.next = now + Duration::from_millis(FETCH_MS);
            tracing::debug!(issuer = %issuer.name, keys = keys.len(), "keys of an issuer");
            // Said when it changes, not at each look.
            if one.left_out != keys.left_out() {
                one.left_out = keys.left_out().to_vec();
                for why in &one.left_out {
                    tracing::warn!(issuer = %issuer.name, why, "a key of an issuer is not used");
                }
            }
            Some(Arc::new(keys))
        }
        Err(why) => {
            tracing::warn!(issuer = %issuer.name, why, "the keys of an issuer cannot be fetched");
            one.next = now + Duration::from_millis(FETCH_AGAIN_MS);
            let is_fresh = one
                .fetched
                .is_some_and(|at| now - at < Duration::from_millis(KEPT_MS));
            if is_fresh {
                return;
            }
            None
        }
    };
    let mut fetched = shared
        .fetched
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    if let Some(place) = fetched.get_mut(one.place) {
        *place = keys;
    }
    drop(fetched);
    shared.renew_trust();
}

/// The keys of an issuer, by its metadata.
fn fetch(issuer: &Issuer) -> Result<KeySet, String> {
    let metadata = metadata(issuer)?;
    let read = strict_object(&metadata).map_err(|error| format!("its metadata: {error}"))?;
    let text = |name: &str| read.root().get(name).and_then(|value| value.as_str());
    // OpenID Connect Discovery §4.3: metadata of another issuer is none.
    if text("issuer").as_deref() != Some(issuer.issuer.as_str()) {
        return Err("its metadata is of another issuer".to_owned());
    }
    let uri = text("jwks_uri")
        .ok_or("its metadata has no jwks_uri")?
        .into_owned();
    let url = config::url::parse(&uri).map_err(|why| format!("its jwks_uri {why}"))?;
    let stays_here = url.is_loopback() && issuer.url.is_loopback();
    if !(url.https || stays_here) {
        return Err("its jwks_uri is not https".to_owned());
    }
    let keys = get(&url, issuer, &url.path, KEY_SET_BYTES_MAX)?;
    KeySet::read(&keys).map_err(|error| format!("its keys: {error}"))
}

fn metadata(issuer: &Issuer) -> Result<Bytes, String> {
    let base = issuer.url.path.trim_end_matches('/');
    let openid = format!("{base}/.well-known/openid-configuration");
    let oauth = format!("/.well-known/oauth-authorization-server{base}");
    get(&issuer.url, issuer, &openid, METADATA_BYTES_MAX)
        .or_else(|_| get(&issuer.url, issuer, &oauth, METADATA_BYTES_MAX))
}

fn get(url: &Url, issuer: &Issuer, path: &str, bytes_max: usize) -> Result<Bytes, String> {
    // The path of a request stands behind that of its target.
    let host = Url {
        path: "/".to_owned(),
        ..url.clone()
    };
    let client = Client::new(&host, issuer.ca.as_ref())?;
    let request = http::Request::get(path).header("accept", "application/json");
    let request = request
        .body(Bytes::new())
        .map_err(|error| error.to_string())?;
    let (head, body) = client.run(async |asker| asker.ask(request, bytes_max, ANSWER_MS).await)?;
    match head.status.as_u16() {
        200 => Ok(body),
        status => Err(format!("{path} answers {status}")),
    }
}
