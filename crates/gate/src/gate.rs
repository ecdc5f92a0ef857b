//! The gate itself: its ports, the rules in force, the stops, and what is remembered of agents.

use std::sync::Arc;

use arc_swap::ArcSwap;
use base::{Action, Digest, Name, Refusal, Resource, refusal};
use identity::Verified;
use policy::Principal;
use scan::{KnownTexts, Sessions};
use tokio::sync::watch;

use crate::budget::Budget;
use crate::flood::Flood;
use crate::pinned::ApprovedNames;
use crate::ports::{Ports, RecordError};
use crate::rules::Rules;
use crate::stop::Stops;

/// The one gate of a process, shared by all its threads.
pub struct Gate {
    pub(crate) ports: Ports,
    pub(crate) approved_names: ApprovedNames,
    pub(crate) rules: ArcSwap<Rules>,
    /// What agents did lately: it outlives the rules.
    pub(crate) sessions: Sessions,
    /// Texts of conversations that were scanned before.
    pub(crate) known_texts: KnownTexts,
    pub(crate) flood: Flood,
    pub(crate) stops: watch::Sender<Arc<Stops>>,
}

impl Gate {
    pub fn new(ports: Ports, rules: Rules) -> Gate {
        Gate {
            ports,
            approved_names: ApprovedNames::default(),
            rules: ArcSwap::from_pointee(rules),
            sessions: Sessions::default(),
            known_texts: KnownTexts::default(),
            flood: Flood::default(),
            stops: watch::Sender::default(),
        }
    }

    /// What is in force now.
    pub fn rules(&self) -> Arc<Rules> {
        self.rules.load_full()
    }

    /// Whether policy lets an agent do something with this resource, in some call. It is no judgement: what is done then is
    /// judged and recorded as any call.
    pub fn may(&self, verified: &Verified, action: &'static Action, resource: &Resource) -> bool {
        let principal = Arc::new(Principal {
            name: verified.agent().name.clone(),
            groups: verified.agent().groups.clone(),
        });
        let rules = self.rules();
        let slice = rules.policies.slice(&principal, action, resource);
        slice.is_ok_and(|slice| slice.listable(resource))
    }

    /// The budgets in force.
    pub fn budgets(&self) -> Vec<Budget> {
        self.rules.load().budgets.clone()
    }

    /// Puts other rules in force for all calls from the next one on. A call that was passed goes on under
    /// the rules that passed it.
    pub fn replace(&self, rules: Rules) {
        self.rules.store(Arc::new(rules));
    }

    /// Puts these stops in force, in the place of those before: for the next calls, and for what runs.
    pub fn stop(&self, stops: Stops) {
        self.stops.send_replace(Arc::new(stops));
    }

    /// The stops in force, for tasks that wait: they are woken by each change.
    pub fn stops(&self) -> watch::Receiver<Arc<Stops>> {
        self.stops.subscribe()
    }

    /// What is wrong with the log now, if anything.
    pub fn log_trouble(&self) -> Option<RecordError> {
        self.ports.recorder.trouble()
    }

    /// Calls `each` with the server, the name and the definition of every tool that is approved.
    pub fn definitions(&self, each: &mut dyn FnMut(&Name, &str, &str)) {
        if let Some(pins) = &self.ports.pins {
            pins.definitions(each);
        }
    }

    /// The state of the directory that is in force, for proofs that are made of it.
    pub fn epoch(&self) -> u64 {
        self.ports.directory.epoch()
    }

    /// Whether the key with this thumbprint is this agent's still: asked while a session or a stream is open, because
    /// a key can be taken back in the meantime.
    pub(crate) fn knows(&self, agent: &Name, thumbprint: &Digest) -> Result<(), Refusal> {
        let known = self.ports.directory.agent_by_thumbprint(thumbprint);
        let known = known.filter(|known| known.name == *agent).ok_or_else(|| {
            let public = "the agent's key is not known any more";
            Refusal::new(refusal::KEY_UNKNOWN, public)
        })?;
        self.not_expired(known.expires_unix_ms)?;
        known.state.check()
    }

    /// Whether an agent that was recognised when the head of its request came is an agent still. A body may take as long
    /// as `limits.body_ms`, and the directory may change meanwhile.
    ///
    /// # Errors
    /// What is said to an agent that is not known, or may not call, now.
    pub(crate) fn recognises(&self, verified: &Verified) -> Result<(), Refusal> {
        self.not_expired(verified.expires_unix_ms())?;
        if verified.epoch() == self.epoch() {
            return Ok(());
        }
        let token = verified.token();
        if token.is_some_and(|token| self.ports.directory.is_revoked(&token)) {
            let public = "the token was taken back";
            return Err(Refusal::new(refusal::TOKEN_INVALID, public));
        }
        match verified.thumbprint() {
            Some(thumbprint) => self.knows(&verified.agent().name, &thumbprint),
            None => Ok(()),
        }
    }

    fn not_expired(&self, at: Option<u64>) -> Result<(), Refusal> {
        let now = self.ports.clock.now().unix_ms;
        match at.is_some_and(|at| at <= now) {
            true => Err(Refusal::new(
                refusal::KEY_EXPIRED,
                "the agent's key has expired",
            )),
            false => Ok(()),
        }
    }

    /// Uses an id that may be used once, such as that of a proof; it is remembered until then, in Unix milliseconds.
    ///
    /// # Errors
    /// `agent.key_used` where it was used before, `once.unavailable` where nobody can say, or not in time.
    pub async fn use_once(&self, id: &Digest, until_unix_ms: u64) -> Result<(), Refusal> {
        let Some(port) = &self.ports.once_ids else {
            return Err(Refusal::new(refusal::KEY_USED, "no proofs are taken here"));
        };
        let clock = &*self.ports.clock;
        match port.is_first(id, until_unix_ms).within_bound(clock).await {
            Some(Some(true)) => Ok(()),
            Some(Some(false)) => Err(Refusal::new(refusal::KEY_USED, "the proof was used before")),
            Some(None) | None => {
                let public = "nobody can say whether the proof was used before";
                Err(Refusal::new(refusal::ONCE_UNAVAILABLE, public))
            }
        }
    }
}
