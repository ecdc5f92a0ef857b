//! The heart: what happens to a call, from top to bottom.
//!
//! Each step hands the next one a proof that only it can make: [`Verified`], `Permitted`, `Scanned`,
//! `Reserved`, [`Passed`]. A step that cannot be done is a refusal, and so is a judgement that cannot be
//! recorded: the gate never acts unrecorded.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use arc_swap::ArcSwap;
use base::{Action, CallId, Digest, Lane, Name, Refusal, Target, refusal};
use identity::Verified;
use policy::{Policies, Principal};
use scan::{Engine, Sessions};

use crate::flood::Flood;
use crate::inspect::Scanned;
use crate::passed::Passed;
use crate::pinned::Known;
use crate::ports::{Ports, RecordError};
use crate::reach::Reach;
use crate::trail::Trail;
use crate::{admit, inspect, pinned, reserve};

/// One thing that an agent asks, in the words that all lanes share.
#[derive(Clone, Copy)]
pub struct Call<'a> {
    pub id: CallId,
    pub peer: IpAddr,
    pub lane: Lane,
    pub action: Action,
    /// The protocol's own name for it, such as `tools/call`.
    pub method: &'a str,
    /// The request id that the agent sent, if it did.
    pub request: Option<&'a str>,
    pub target: &'a Target,
    /// The part of the message that is the agent's to write, as JSON: scanned.
    pub params: Option<&'a [u8]>,
    /// Where `params` stands in the message, for the paths of findings: `params`, or nothing where it is the
    /// whole message.
    pub root: &'static str,
    /// The arguments among them, as a JSON object: policies may read those that are declared.
    pub arguments: Option<&'a [u8]>,
    /// Size of the whole message.
    pub bytes: u64,
}

/// What is in force: swapped whole when the configuration is loaded again.
pub struct Rules {
    pub policies: Policies,
    pub engine: Engine,
    pub agent_per_minute: u32,
    /// Calls of agents from one address, where they are limited.
    pub address_per_minute: Option<u32>,
    /// Requests without a good key, for each address.
    pub strangers_per_minute: u32,
    /// Where each configured server may be.
    pub reach: HashMap<Name, Reach>,
}

/// The one gate of a process, shared by all its threads.
pub struct Gate {
    pub(crate) ports: Ports,
    pub(crate) known: Known,
    pub(crate) rules: ArcSwap<Rules>,
    /// What agents did lately: it outlives the rules.
    sessions: Sessions,
    pub(crate) flood: Flood,
}

impl Gate {
    pub fn new(ports: Ports, rules: Rules) -> Gate {
        Gate {
            ports,
            known: Known::default(),
            rules: ArcSwap::from_pointee(rules),
            sessions: Sessions::default(),
            flood: Flood::default(),
        }
    }

    /// What is in force now.
    pub fn rules(&self) -> Arc<Rules> {
        self.rules.load_full()
    }

    /// Puts other rules in force for all calls from the next one on. A call that was passed goes on under
    /// the rules that passed it.
    pub fn replace(&self, rules: Rules) {
        self.rules.store(Arc::new(rules));
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

    /// Whether the key with this thumbprint is this agent's still: asked while a stream is open, because a key
    /// can be taken back in the meantime.
    pub fn knows(&self, agent: &Name, thumbprint: &Digest) -> bool {
        let now = self.ports.clock.now();
        let known = self.ports.directory.agent_by_thumbprint(thumbprint);
        known.is_some_and(|known| {
            let expired = |at: u64| at <= now.unix_ms;
            known.name == *agent && !known.expires_unix_ms.is_some_and(expired)
        })
    }

    /// **Who**: asked before the body of a request is read. A stranger is refused, and that is recorded,
    /// within the budget of strangers at its address.
    pub async fn verify(
        &self,
        call: &Call<'_>,
        authorization: Option<&str>,
    ) -> Result<Verified, Refusal> {
        let rules = self.rules.load();
        let now = self.ports.clock.now();
        let lookup = |key: &Digest| self.ports.directory.agent_by_key(key);
        let verified = match identity::verify(authorization, lookup, now) {
            Ok(verified) => verified,
            Err(refusal) => {
                drop(rules);
                return Err(self.turn_away(call, refusal).await);
            }
        };
        let room = self.budget(&rules, &verified, call, now);
        drop(rules);
        match room {
            Ok(()) => Ok(verified),
            Err(refusal) => Err(self.flooded(Some(&verified), call, refusal).await),
        }
    }

    /// **May they, is it safe, is there room, is it written down**: in this order.
    pub async fn pass(
        self: &Arc<Self>,
        verified: Verified,
        call: Call<'_>,
    ) -> Result<Passed, Refusal> {
        let rules = self.rules();
        let now = self.ports.clock.now();
        let mut trail = Trail::new(&call, Some(&verified), &rules, now);

        let judged = (|| {
            let permitted = admit::admit(&rules, &verified, &call, now, &mut trail)?;
            pinned::call(&self.ports, &rules, &verified, &call, &mut trail)?;
            let agent = verified.agent().name.as_str();
            let scanned = inspect::inspect(&rules, &self.sessions, &call, agent, now, &mut trail)?;
            admit::again(&permitted, &call, scanned.redacted.as_deref(), now, &trail)?;
            let reserved = reserve::reserve(&self.ports, &rules, &verified, now)?;
            admit::decide(&permitted, &call, now, &mut trail)?;
            Ok((scanned, reserved))
        })();
        let (scanned, reserved) = match judged {
            Ok(proofs) => proofs,
            Err(refusal) => return Err(self.record_refusal(trail, refusal).await),
        };

        let passed = self
            .append(trail, rules, admit::principal(&verified), &call, scanned)
            .await?;
        reserved.keep();
        Ok(passed)
    }

    /// A call of the gateway's own, by the agent `weir`: only to a server that the configuration names,
    /// with nothing of an agent's in it, and recorded like any other.
    pub async fn own(
        self: &Arc<Self>,
        id: CallId,
        server: &Name,
        method: &str,
    ) -> Result<Passed, Refusal> {
        let rules = self.rules();
        let target = Target {
            server: server.clone(),
            tool: None,
        };
        let call = Call {
            id,
            peer: Ipv4Addr::LOCALHOST.into(),
            lane: Lane::Mcp,
            action: Action::McpUse,
            method,
            request: None,
            target: &target,
            params: None,
            root: "params",
            arguments: None,
            bytes: 0,
        };
        let agent = Name::new("weir").expect("weir is a name");
        let mut trail = Trail::new(&call, None, &rules, self.ports.clock.now());
        trail.own(agent.clone());
        if !rules.reach.contains_key(server) {
            let refusal = Refusal::new(refusal::SERVER_UNKNOWN, "no such server is configured");
            return Err(self.record_refusal(trail, refusal).await);
        }
        let scanned = Scanned::default();
        let principal = Arc::new(Principal {
            name: agent,
            groups: Vec::new(),
        });
        self.append(trail, rules, principal, &call, scanned).await
    }

    /// Has the judgement written down, and only then hands out the proof.
    pub(crate) async fn append(
        self: &Arc<Self>,
        trail: Trail<'_>,
        rules: Arc<Rules>,
        principal: Arc<Principal>,
        call: &Call<'_>,
        mut scanned: Scanned,
    ) -> Result<Passed, Refusal> {
        self.count(&trail);
        // Forgotten unless the record is written: the call did not happen then.
        let pending = scanned.pending.take();
        // Made before the record is durable, so that a call that is given up while it waits for the
        // disk still leaves an outcome.
        let appended = self.ports.recorder.append(trail.to_json(&rules.engine));
        let mut passed = Passed::new(
            Arc::clone(self),
            rules,
            principal,
            call,
            scanned,
            trail.now(),
            trail.thumbprint(),
        );
        let error = match appended.await {
            Ok(Ok(_index)) => {
                self.ports.meter.judged(&call.target.server, None);
                if let Some(pending) = pending {
                    pending.keep();
                }
                return Ok(passed);
            }
            Ok(Err(error)) => error,
            Err(_closed) => RecordError::Failed("the log is closed".into()),
        };
        passed.void();
        Err(self.unrecorded(call, &error))
    }

    /// Records a refusal that a lane found itself, such as a message that is not of its protocol, and
    /// gives it back.
    pub async fn reject(
        &self,
        verified: Option<&Verified>,
        call: &Call<'_>,
        refusal: Refusal,
    ) -> Refusal {
        let trail = Trail::new(call, verified, &self.rules(), self.ports.clock.now());
        self.record_refusal(trail, refusal).await
    }

    /// Nothing passes either way, so a refusal stands even where it cannot be recorded; the log's
    /// trouble is then the health check's to tell.
    pub(crate) async fn record_refusal(&self, mut trail: Trail<'_>, refusal: Refusal) -> Refusal {
        self.ports
            .meter
            .judged(trail.server(), Some(refusal.code.name));
        self.count(&trail);
        let record = trail.refused(&refusal).to_json(&self.rules.load().engine);
        drop(trail);
        let _ = self.ports.recorder.append(record).await;
        refusal
    }

    fn count(&self, trail: &Trail<'_>) {
        for finding in trail.findings() {
            self.ports.meter.found(finding.rule, finding.action);
        }
    }

    fn unrecorded(&self, call: &Call<'_>, error: &RecordError) -> Refusal {
        let refusal = match error {
            RecordError::Full => Refusal::new(refusal::LOG_FULL, "the log has no room"),
            RecordError::Busy => Refusal::new(refusal::LOG_BUSY, "too many records wait"),
            RecordError::Failed(why) => {
                Refusal::new(refusal::LOG_FAILED, "the log failed").with_private(why.clone())
            }
        };
        self.ports
            .meter
            .judged(&call.target.server, Some(refusal.code.name));
        refusal
    }
}
