//! The store that an inbound's instances share, for `weir relay doctor`: address, TLS, what it forgets, its role, its
//! clock, how quick it is, and the ring of ticket keys in it.

use std::sync::Arc;

use cache::{CacheCommands, CacheProblem, CacheReply, Examined, SharedCache};
use relay::doctor::Findings;
use seal::keytext;
use seal::ticket::{TEK_MS, wrap};

use crate::cli::Failure;
use crate::config::Settings;
use crate::ports::Clock;
use crate::shared_store::SharedStores;

/// The name of the store's findings.
pub(super) const STORE: &str = "store";
/// Round trips that take longer than this are told of, in milliseconds.
const SLOW_MS: u64 = 50;

/// What is found of the store of the relay's inbound, and where it is; nothing where the inbound needs none.
pub(super) fn check(settings: &Settings) -> Result<Option<(String, Findings)>, Failure> {
    let side = settings.relay.inbound.as_ref();
    let Some(side) =
        side.filter(|side| side.mode == seal::Mode::Strict || side.fleet_key.is_some())
    else {
        return Ok(None);
    };
    let failed = |what: String| Failure::new(what, "");
    let stores = SharedStores::new(settings, &Arc::new(Clock::new())).map_err(failed)?;
    let Some(store) = stores.relay else {
        return Ok(None);
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime.map_err(|error| failed(error.to_string()))?;
    let mut findings = Findings::default();
    tls(&store, &mut findings);
    match runtime.block_on(store.examine()) {
        Err(problem) => told(&mut findings, problem, format!("{problem}")),
        Ok(examined) => {
            examination(&examined, &mut findings);
            if let Some(fleet) = &side.fleet_key
                && examined.problem.is_none()
            {
                let own = side.keys.first().map(|key| keytext::identity(key.expose()));
                if let (Some(Ok(own)), Ok(fleet)) = (own, keytext::psk(fleet.expose())) {
                    let ring = ring(&store, own.public().kid(), &fleet);
                    let (state, what) = runtime.block_on(ring);
                    match state {
                        true => findings.good("ring", what),
                        false => findings.bad(
                            "ring",
                            what,
                            "Give all instances the same ticket_keys.key, and start one.",
                        ),
                    }
                }
            }
        }
    }
    Ok(Some((store.url().to_string(), findings)))
}

fn tls(store: &SharedCache, findings: &mut Findings) {
    match store.url().is_tls() {
        true => findings.good("tls", "the store has to prove by a certificate who it is"),
        false => findings.warn(
            "tls",
            "none; the store is on this machine",
            "Whoever can listen at this address here can answer for the store; write rediss:// where others are on this machine.",
        ),
    }
}

fn examination(examined: &Examined, findings: &mut Findings) {
    let took_ms = examined.took_ms;
    let answered = format!("{} answered in {took_ms} ms", examined.version);
    match took_ms > SLOW_MS {
        false => findings.good("reach", answered),
        true => findings.warn(
            "reach",
            answered,
            "Each call that is no GET waits for a round trip: put the store nearer.",
        ),
    }
    let clock = format!("the store's is {} ms ahead of ours", examined.ahead_ms);
    let lines = [
        (
            CacheProblem::Evicts,
            "memory",
            format!("maxmemory-policy {}", examined.policy),
        ),
        (CacheProblem::Replica, "role", examined.role.clone()),
        (CacheProblem::Clock, "clock", clock),
    ];
    for (problem, check, what) in lines {
        match examined.problem == Some(problem) {
            true => findings.bad(
                check,
                format!("{what} ({})", problem.code()),
                problem.mend(),
            ),
            false => findings.good(check, what),
        }
    }
    if let Some(problem @ (CacheProblem::Persists | CacheProblem::Cluster)) = examined.problem {
        told(findings, problem, format!("{problem}"));
    }
}

fn told(findings: &mut Findings, problem: CacheProblem, what: String) {
    let check = match problem {
        CacheProblem::Persists => "disk",
        _ => "reach",
    };
    findings.bad(
        check,
        format!("{what} ({})", problem.code()),
        problem.mend(),
    );
}

/// Whether the ticket key of this hour is in the store and ours to open.
async fn ring(store: &Arc<SharedCache>, kid: seal::Kid, fleet: &relay::Key32) -> (bool, String) {
    let now = gate::ports::Clock::now(&Clock::new());
    let begins = now.unix_ms / TEK_MS * TEK_MS;
    let place = relay::ticket_place(kid, begins);
    let asked = store.ask(CacheCommands::new().with(&[b"GET", place.as_bytes()]));
    let replies = asked.await.map(|answer| answer.replies);
    match replies.as_deref() {
        Ok([CacheReply::Bulk(wrapped)]) => match wrap::unwrap(fleet, wrapped, begins) {
            Ok(key) => (
                true,
                format!("the ticket key of this hour is {:08x}", key.id),
            ),
            Err(_) => (
                false,
                "the ticket key was wrapped under another key (relay.fleet_key)".to_owned(),
            ),
        },
        Ok([CacheReply::Nil]) => (
            false,
            "no instance has put a ticket key there (relay.no_ticket_key)".to_owned(),
        ),
        _ => (false, "the store did not say".to_owned()),
    }
}
