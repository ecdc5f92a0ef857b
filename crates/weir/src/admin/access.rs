//! Who asks at the admin listener, and in which role: by a key, or by the user at the other end of the socket.

use std::os::unix::fs::MetadataExt as _;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use arc_swap::ArcSwap;
use base::record::Admin;
use base::{Digest, Refusal, refusal};
use gate::ports::{Clock as _, Recorder as _};
use http::header::AUTHORIZATION;
use net::Request;
use net::h1::PeerAddress;
use store::Log;

use super::actions::{self, AdminAction, Recorded};
use super::{AdminActor, AdminRole, break_glass};
use crate::config::listen::{Admin as Told, OperatorBy};
use crate::ports::Clock;

/// The user that may do everything on every machine.
const ROOT: u32 = 0;
/// Refusals of one minute that are recorded: whoever guesses fills no log.
const REFUSALS_RECORDED: u32 = 60;

/// What is asked for a key, and who is known without one.
pub(crate) struct AdminAccess {
    told: ArcSwap<Told>,
    /// The hash of the secret that opens when nothing else does, once it is known.
    break_glass: OnceLock<Digest>,
    /// The user of this process.
    own: u32,
    log: Arc<Log>,
    clock: Arc<Clock>,
    /// The minute, and how many refusals it has.
    refused: Mutex<(u64, u32)>,
}

impl AdminAccess {
    pub(crate) fn new(told: &Told, log: &Arc<Log>, clock: &Arc<Clock>) -> AdminAccess {
        let own = std::fs::metadata("/proc/self").map_or(ROOT, |of| of.uid());
        AdminAccess {
            told: ArcSwap::from_pointee(told.clone()),
            break_glass: OnceLock::new(),
            own,
            log: Arc::clone(log),
            clock: Arc::clone(clock),
            refused: Mutex::default(),
        }
    }

    /// The hash of the break-glass secret.
    pub(crate) fn open_by(&self, break_glass: Digest) {
        // It is told once, at the start.
        let _ = self.break_glass.set(break_glass);
    }

    /// Puts other keys and operators in force.
    pub(crate) fn configure(&self, told: &Told) {
        self.told.store(Arc::new(told.clone()));
    }

    /// Lets a request pass to its page: whoever asks is known, may do this, and that is recorded.
    ///
    /// # Errors
    /// `admin.key`, `admin.role_missing`, `policy.forbidden`.
    pub(crate) fn admit(&self, request: &Request, is_near: bool) -> Result<AdminActor, Refusal> {
        let action = actions::find(&request.head.method, request.head.uri.path());
        let actor = self.who(request, is_near, action).inspect_err(|refusal| {
            self.refuse(action, "a stranger", refusal);
        })?;
        match action {
            Some(action) if action.role > actor.role => {
                let public = format!(
                    "{} needs the role {}, and {} has {}",
                    action.name, action.role, actor.by, actor.role
                );
                let refusal = Refusal::new(refusal::ROLE_MISSING, public);
                self.refuse(Some(action), &actor.by, &refusal);
                Err(refusal)
            }
            Some(action) => {
                if action.recorded == Recorded::Asked {
                    self.record(action.name, &actor.by, None);
                }
                Ok(actor)
            }
            // The page says that there is no such thing.
            None => Ok(actor),
        }
    }

    fn who(
        &self,
        request: &Request,
        is_near: bool,
        action: Option<&AdminAction>,
    ) -> Result<AdminActor, Refusal> {
        let sent = request.field(&AUTHORIZATION);
        let sent = sent.and_then(|field| field.split_once(' '));
        let sent = sent.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
        if let Some((_, key)) = sent {
            // Hashes are compared: how long that takes says nothing of the key.
            let hash = break_glass::digest_of(key.trim());
            return self.of_key(request, hash).ok_or_else(wrong_key);
        }
        match request.peer.address {
            // What a proxy passes on is asked by someone else than the process at the other end.
            _ if !is_near && !self.told.load().has_keys() => Err(Refusal::new(
                refusal::FORBIDDEN,
                "this page answers its machine only",
            )),
            PeerAddress::Unix { uid, .. } if is_near => self.of_user(uid),
            PeerAddress::Unix { .. } => Err(wrong_key()),
            PeerAddress::Tcp(_) if self.told.load().has_keys() => Err(wrong_key()),
            // Any program of this machine reaches an address, and no page shows who asks: a socket knows its user.
            PeerAddress::Tcp(_) if action.is_none_or(|action| action.name != "metrics") => {
                let public = "over TCP this page needs a key: write admin.key, or leave admin.listen out for a socket";
                Err(Refusal::new(refusal::ADMIN_KEY, public))
            }
            PeerAddress::Tcp(_) => Ok(AdminActor {
                by: format!("a program at {}", request.peer.caller),
                role: AdminRole::Auditor,
            }),
        }
    }

    fn of_key(&self, request: &Request, hash: Digest) -> Option<AdminActor> {
        let told = self.told.load();
        let actor = |by: String, role| Some(AdminActor { by, role });
        if self.break_glass.get() == Some(&hash) {
            return actor("break-glass".to_owned(), AdminRole::Admin);
        }
        if told.key == Some(hash) {
            return actor(
                format!("admin at {}", request.peer.caller),
                AdminRole::Admin,
            );
        }
        let mut operators = told.operators.iter();
        let known = operators.find(|operator| operator.by == OperatorBy::Key(hash))?;
        actor(known.name.to_string(), known.role)
    }

    fn of_user(&self, uid: u32) -> Result<AdminActor, Refusal> {
        let told = self.told.load();
        let mut operators = told.operators.iter();
        if let Some(known) = operators.find(|operator| operator.by == OperatorBy::User(uid)) {
            return Ok(AdminActor {
                by: format!("{} (uid {uid})", known.name),
                role: known.role,
            });
        }
        if told.key.is_some() {
            return Err(wrong_key());
        }
        match uid == self.own || uid == ROOT {
            true => Ok(AdminActor {
                by: format!("uid {uid}"),
                role: AdminRole::Admin,
            }),
            false => {
                let public = format!("the user {uid} is none of admin.operators");
                Err(Refusal::new(refusal::ROLE_MISSING, public))
            }
        }
    }

    fn refuse(&self, action: Option<&AdminAction>, by: &str, refusal: &Refusal) {
        let minute = self.clock.now().unix_ms / 60_000;
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        if refused.0 != minute {
            *refused = (minute, 0);
        }
        refused.1 = refused.1.saturating_add(1);
        if refused.1 <= REFUSALS_RECORDED {
            let what = action.map_or("admin", |action| action.name);
            self.record(what, by, Some(refusal.code.name));
        }
    }

    fn record(&self, what: &str, by: &str, refused: Option<&str>) {
        let admin = Admin {
            at: self.clock.now(),
            what,
            by,
            changed: &[],
            waiting: &[],
            policy_set: None,
            directory: None,
            refused,
        };
        self.log.note(admin.to_json());
    }
}

fn wrong_key() -> Refusal {
    let public =
        "this page asks for the key of admin.key or of one of admin.operators, as a bearer token";
    Refusal::new(refusal::ADMIN_KEY, public)
}
