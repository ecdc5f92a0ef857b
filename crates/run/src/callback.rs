//! The call-back at the end of a run: a URL of the configuration is told that it has ended, and how.
//!
//! It says nothing of what was said in the run: whoever is told reads that with a key. It is tried again within a bound while the
//! gateway runs, and not after that.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use crate::lane::RunShared;
use crate::live::LiveRun;
use crate::ports::{CallbackTold, PortCaller, RunPorts};

/// How often it is tried.
const TRIES_MAX: u32 = 5;
/// How long is waited before the second try, in milliseconds; then twice as long each time.
const RETRY_MS: u64 = 1_000;
/// Longest wait, whatever the receiver asks for, in milliseconds.
const RETRY_MS_MAX: u64 = 60_000;

/// Tells the end of a run, where its agent of the configuration says to whom.
pub(crate) async fn call_back(
    shared: &Arc<RunShared>,
    ports: &RunPorts,
    run: &LiveRun,
    caller: &PortCaller,
) {
    let mut agents = shared.settings.agents.iter();
    let agent = agents.find(|agent| agent.name == run.agent);
    let Some(to) = agent.and_then(|agent| agent.callback.as_ref()) else {
        return;
    };
    let state = run.state().as_str();
    let body = json!({
        "type": format!("run.{state}"), "run": &*run.id, "agent": run.agent.as_str(),
        "owner": run.owner.as_str(), "thread": run.thread, "state": state,
    });
    let told = CallbackTold {
        id: format!("{}-end", run.id),
        unix_s: shared.now().unix_ms / 1_000,
        body: body.to_string(),
    };
    for tried in 0..TRIES_MAX {
        let Err(failure) = ports.callbacks.tell(caller, to, &told).await else {
            return;
        };
        let (code, why) = (failure.code, failure.message);
        tracing::warn!(run = &*run.id, code, why, "a call-back failed");
        let Some(retry_ms) = failure.retry_ms else {
            return;
        };
        let wait = retry_ms.max(RETRY_MS << tried).min(RETRY_MS_MAX);
        tokio::select! {
            () = shared.drain.started() => return,
            () = tokio::time::sleep(Duration::from_millis(wait)) => {}
        }
    }
}
