//! Scripts of k6 of others: whatever they hold, they are a scenario or lines that are wrong.

use std::collections::BTreeMap;
use std::time::Duration;

/// A script. Each line that is told is one of it.
pub fn lab_k6(data: &[u8]) {
    let Ok(script) = std::str::from_utf8(data) else {
        return;
    };
    let env = BTreeMap::from([("BASE_URL".to_owned(), "http://127.0.0.1:8900".to_owned())]);
    let hold = Some(Duration::from_secs(1));
    match lab::experiments::import::k6_scenario(script, &env, hold) {
        Ok(scenario) => {
            let _ = lab::scenario::read_text(&scenario);
        }
        Err(said) => {
            let lines = script.matches('\n').count() + 1;
            for line in said.lines().filter_map(|said| said.strip_prefix("line ")) {
                let number = line.split(':').next().and_then(|number| number.parse().ok());
                assert!(number.is_some_and(|number| (1..=lines).contains(&number)), "{line}");
            }
        }
    }
}
