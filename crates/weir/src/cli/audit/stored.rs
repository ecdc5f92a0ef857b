//! `weir audit show --store`: records of all replicas, found by the database.

use serde_json::Value;
use store::replica::search::{FOUND_MAX, StoreSearch, search};
use terminal::{visible, visible_json};

use super::line::{header, line};
use super::wanted::Wanted;
use crate::cli::store::failure;
use crate::cli::{Answer, Failure, print};
use crate::config::replicas::StoreSettings;

/// What only the store is asked for.
pub(super) struct More {
    pub(super) replica: Option<String>,
    pub(super) lane: Option<String>,
    pub(super) refusal: Option<String>,
    pub(super) most: u64,
}

/// Prints the newest records that are wanted, the oldest first; the answer is no where a call was named that is not there.
pub(super) fn show(
    store: &StoreSettings,
    wanted: &Wanted,
    more: More,
    json: bool,
) -> Result<Answer, Failure> {
    if more.most > FOUND_MAX {
        let help = "Ask for fewer with --last, or for less with --since.";
        return Err(Failure::new(
            format!("a store gives at most {FOUND_MAX} records at once"),
            help,
        ));
    }
    let now = crate::ports::now().unix_ms;
    let looked_for = StoreSearch {
        call: wanted.call.clone(),
        agent: wanted.agent.clone(),
        server: wanted.server.clone(),
        lane: more.lane,
        refusal: more.refusal,
        replica: more.replica,
        is_refused: wanted.refused,
        since_unix_ms: wanted.since.map(|since| since.at_unix_ms(now)),
        most: more.most,
        ..StoreSearch::default()
    };
    let found = search(&store.target, &looked_for).map_err(failure)?;
    if !json {
        print(&format!("{:<12}  {}\n", "REPLICA", header()))?;
    }
    for one in &found {
        let text = String::from_utf8_lossy(&one.record);
        let record: Value = serde_json::from_str(&text).unwrap_or(Value::Null);
        print(&match json {
            true => {
                let at = serde_json::json!({ "replica": one.replica, "origin": one.origin, "index": one.index, "record": record });
                format!("{}\n", visible_json(&at.to_string()))
            }
            false => format!(
                "{:<12}  {}\n",
                visible(&one.replica),
                line(one.index, &record, None)
            ),
        })?;
    }
    if !json {
        print(&format!("records: {}\n", found.len()))?;
    }
    match found.is_empty() && wanted.call.is_some() {
        true => Ok(Answer::No),
        false => Ok(Answer::Yes),
    }
}
