//! Asks the built-in origin what it counted of a run: what was executed, and what was executed twice.
//!
//! A generator knows what it sent and what came back. Whether something between them sent a request again, only
//! the origin can tell.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::result::OriginCounts;
use crate::watch::scrape::Endpoint;

/// The part of the origin's counts that is about runs.
#[derive(Deserialize)]
struct Counts {
    runs: BTreeMap<String, RunCounts>,
    uncounted: u64,
}

#[derive(Deserialize)]
struct RunCounts {
    distinct: u64,
    duplicates: u64,
    first_duplicates: Vec<u64>,
}

/// What the origin at `http://host:port` counted of a run, over all its flows.
///
/// # Errors
///
/// A sentence: it does not answer, what answers is not the built-in origin, or it had no room to tell every
/// request apart, so that nothing is proved.
pub(crate) fn counts(url: &str, run: u32) -> Result<OriginCounts, String> {
    let url = format!("{}/lab/counts", url.trim_end_matches('/'));
    let text = Endpoint::new(&url, &[])?.fetch()?;
    let counts: Counts = serde_json::from_str(&text)
        .map_err(|error| format!("{url} is not the built-in origin: {error}"))?;
    if counts.uncounted > 0 {
        let uncounted = counts.uncounted;
        return Err(format!(
            "{url} could not tell {uncounted} requests apart: start it again, or run for less long"
        ));
    }
    let mut found = OriginCounts {
        url,
        ..OriginCounts::default()
    };
    // The origin writes a run's number without leading zeros; the last four digits are the flow's.
    for (name, of_run) in &counts.runs {
        let number = u64::from_str_radix(name, 16).unwrap_or(u64::MAX);
        if number >> 16 == u64::from(run) {
            found.distinct += of_run.distinct;
            found.duplicates += of_run.duplicates;
            found.first_duplicates.extend(&of_run.first_duplicates);
        }
    }
    Ok(found)
}
