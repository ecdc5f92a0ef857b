//! The grants of one thread: one for each agent and target that it is busy with.
//!
//! Many calls may find that there is none, or that it ran out: one of them asks, the others wait for it. A refusal is
//! nobody's but the one's who asked, so each of the others asks for itself.

use std::cell::RefCell;
use std::collections::HashMap;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

use base::{Digest, Name, Now, Refusal, Resource, refusal};
use gate::{Asker, Call, Gate, Grant, GrantedCall};
use identity::{Credential, Verified};
use tokio::sync::Mutex;

use crate::actions::PASS;
use crate::random;
use crate::routes::Way;
use crate::settings::Agent;

/// Pairs of agent and target that one thread keeps grants for; over it, those that ran out are forgotten.
const PLACES_MAX: usize = 4096;

/// Whose calls, and to what: by the index of the agent.
pub(crate) type Key = (usize, Way);

#[derive(Default)]
struct Place {
    grant: RefCell<Option<Rc<Grant>>>,
    asking: Mutex<()>,
}

/// The grants of one thread.
pub(crate) struct Grants {
    gate: Arc<Gate>,
    places: RefCell<HashMap<Key, Rc<Place>>>,
    /// The place that was asked for last: most relays have one agent and one target.
    last: RefCell<Option<(Key, Rc<Place>)>>,
}

fn over() -> Refusal {
    Refusal::new(refusal::FAILED, "the rules changed while they were asked")
}

/// An agent as the relay's own settings know it, and how it was recognised.
#[derive(Clone, Copy)]
pub(crate) struct Caller<'a> {
    pub(crate) agent: &'a Agent,
    pub(crate) by: Credential,
    /// Names the credential in the record without being of use to a thief of the log.
    pub(crate) thumbprint: Option<Digest>,
}

/// Who asks, and for what.
pub(crate) struct Asking<'a> {
    /// Absent for the relay's own traffic.
    pub(crate) caller: Option<Caller<'a>>,
    pub(crate) peer: IpAddr,
    pub(crate) method: &'a str,
    pub(crate) target: &'a Name,
}

impl Grants {
    pub(crate) fn new(gate: Arc<Gate>) -> Grants {
        Grants {
            gate,
            places: RefCell::default(),
            last: RefCell::default(),
        }
    }

    /// Begins a call under a grant that is kept, without asking.
    pub(crate) fn kept(&self, key: Key, now: Now) -> Option<GrantedCall> {
        let mut last = self.last.borrow_mut();
        if last.as_ref().is_none_or(|(of, _)| *of != key) {
            *last = Some((key, Rc::clone(self.places.borrow().get(&key)?)));
        }
        let (_, place) = last.as_ref()?;
        place.grant.borrow().as_ref()?.call(now)
    }

    /// Begins a call under the grant that is kept, or under a new one.
    ///
    /// # Errors
    /// The gate's refusal, which is recorded.
    pub(crate) async fn get(
        &self,
        key: Key,
        asking: Asking<'_>,
        now: impl Fn() -> Now,
    ) -> Result<GrantedCall, Refusal> {
        let place = self.place(key, now());
        let _alone = place.asking.lock().await;
        let kept = place.grant.borrow().clone();
        if let Some(call) = kept.and_then(|grant| grant.call(now())) {
            return Ok(call);
        }
        // What is over is ended before the next begins, so that the log has them in order.
        place.grant.replace(None);
        let grant = Rc::new(self.ask(asking).await?);
        place.grant.replace(Some(Rc::clone(&grant)));
        grant.call(now()).ok_or_else(over)
    }

    /// One call that nobody else shares a grant with: for the gateway's own traffic.
    pub(crate) async fn once(&self, asking: Asking<'_>, now: Now) -> Result<GrantedCall, Refusal> {
        let grant = Rc::new(self.ask(asking).await?);
        grant.call(now).ok_or_else(over)
    }

    async fn ask(&self, asking: Asking<'_>) -> Result<Grant, Refusal> {
        let resource = Resource::Route(asking.target.clone());
        let id = random::call_id();
        let no_id = |_| Refusal::new(refusal::FAILED, "the kernel gives no random bytes");
        let id = id.map_err(no_id)?;
        let call = Call::new(id, asking.peer, &PASS, &resource, asking.method);
        let epoch = self.gate.epoch();
        let asker = asking.caller.map_or(Asker::Gateway, |caller| {
            let agent = Arc::new(identity::Agent {
                name: caller.agent.name.clone(),
                groups: caller.agent.groups.clone(),
                state: caller.agent.state,
                expires_unix_ms: None,
            });
            let verified = Verified::by_lane(agent, caller.by, caller.thumbprint, epoch);
            Asker::Agent(verified)
        });
        self.gate.grant(asker, call).await
    }

    /// Forgets all that ran out; their counts are recorded by that.
    pub(crate) fn sweep(&self, now: Now) {
        self.last.replace(None);
        for place in self.places.borrow().values() {
            let mut grant = place.grant.borrow_mut();
            if grant.as_ref().is_some_and(|grant| !grant.covers(now)) {
                *grant = None;
            }
        }
        let busy =
            |place: &Rc<Place>| Rc::strong_count(place) > 1 || place.grant.borrow().is_some();
        self.places.borrow_mut().retain(|_, place| busy(place));
    }

    fn place(&self, key: Key, now: Now) -> Rc<Place> {
        if self.places.borrow().len() >= PLACES_MAX {
            self.sweep(now);
        }
        let mut places = self.places.borrow_mut();
        if places.len() >= PLACES_MAX && !places.contains_key(&key) {
            // A place of its own: it still asks, and keeps nothing.
            return Rc::default();
        }
        Rc::clone(places.entry(key).or_default())
    }
}
