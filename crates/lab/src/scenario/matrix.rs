//! A matrix: the same scenario once with each combination of values.

use serde_json::Value;

use super::file::File;
use super::source::Source;
use base::near::meant;
use config::{Path, Problem};

/// Most runs of one matrix.
pub(super) const CELLS_MAX: usize = 256;

/// Keys that may vary, and the scenario's key that each is; `payload` is what tables call it.
pub(super) const KEYS: &[(&str, &str)] = &[
    ("arrivals", "arrivals"),
    ("connections", "connections"),
    ("duration", "duration"),
    ("method", "method"),
    ("pause", "pause"),
    ("payload", "unique"),
    ("protocol", "protocol"),
    ("queue", "queue"),
    ("rate", "rate"),
    ("reconnect", "reconnect"),
    ("streams", "streams"),
    ("threads", "threads"),
    ("timeout", "timeout"),
    ("url", "url"),
];

/// One combination: what it is called, and its scenario.
pub(super) type Combination = (String, Source);

/// All combinations in order, the last key varying fastest. Without a matrix there is one, without a name.
///
/// # Errors
///
/// Keys that cannot vary, lists without values, and too many combinations.
pub(super) fn combinations(source: &Source, file: &File) -> Result<Vec<Combination>, Vec<Problem>> {
    let axes = file.matrix.iter().flat_map(|named| &named.0);
    let mut problems = Vec::new();
    let mut all = vec![(String::new(), source.clone())];
    for (name, values) in axes {
        let at = Path::of("matrix").key(name);
        let Some((_, key)) = KEYS.iter().find(|(known, _)| known == name) else {
            let known = KEYS.iter().map(|(known, _)| *known);
            let listed: Vec<&str> = known.clone().collect();
            let near = meant(name, known)
                .map_or_else(String::new, |near| format!("did you mean {near}? "));
            let help = format!("{near}there are {}", listed.join(", "));
            problems.push(source.problem(&at, "is not a key that can vary", &help));
            continue;
        };
        if values.is_empty() || values.iter().any(Value::is_null) {
            let help = "write connections: [8, 32], for instance";
            problems.push(source.problem(&at, "has no values", help));
            continue;
        }
        if all.len() * values.len() > CELLS_MAX {
            let message = format!("makes more than {CELLS_MAX} runs");
            problems.push(source.problem(&at, message, "try fewer values"));
            break;
        }
        let path = Path::of(&format!("scenarios.*.{key}"));
        all = all
            .iter()
            .flat_map(|(label, source)| values.iter().map(|v| with(label, source, name, &path, v)))
            .collect();
    }
    if problems.is_empty() {
        Ok(all)
    } else {
        Err(problems)
    }
}

fn with(label: &str, source: &Source, name: &str, path: &Path, value: &Value) -> Combination {
    let shown = value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned);
    let one = format!("{name}={shown}");
    let label = match label {
        "" => one.clone(),
        before => format!("{before} {one}"),
    };
    let mut source = source.clone();
    source.set(path, value, &format!("matrix {one}"));
    (label, source)
}
