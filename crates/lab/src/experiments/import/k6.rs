//! A k6 script (<https://grafana.com/docs/k6/latest/using-k6/>) as a scenario file: its options, what an iteration sends, what it checks.
//!
//! The script is parsed and never run (decision 0044). What decides how much is sent, or what, is taken over or refused with its
//! line; what does not is left out and said.

mod constant;
mod load;
mod requests;
mod script;

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Map, Value, json};

use self::load::{Loaded, Options, written};
use self::requests::{Iteration, Sent};
use self::script::{Script, Wrong};
use super::{Made, escaped};
use crate::judge::{self, Known};
use crate::plan::REQUESTS_MAX;

/// Most lines that are told of one script.
const WRONG_MAX: usize = 20;

/// Reads a script. `env` is what `__ENV` holds, `hold` how long the highest level is held where the stages only ramp, `url` the
/// origin instead of the script's own.
pub(super) fn read(
    text: &str,
    env: &BTreeMap<String, String>,
    hold: Option<Duration>,
    url: Option<&str>,
) -> Result<Made, String> {
    let tree = script::parse(text).map_err(|wrong| said(vec![wrong]))?;
    let script = Script::new(text, &tree, env);
    let options = load::read(&script, hold).map_err(said)?;
    let mut made = Made::default();
    let (mut scenarios, mut kinds, mut wrong) = (Map::new(), Vec::new(), Vec::new());
    for loaded in &options.loads {
        match requests::read(&script, &loaded.exec, loaded.line)
            .and_then(|done| scenario(&options, loaded, done, url, &mut made))
        {
            Ok(keys) => {
                let requests = keys["requests"].as_array().into_iter().flatten();
                kinds.extend(
                    requests.filter_map(|request| request["name"].as_str().map(str::to_owned)),
                );
                scenarios.insert(loaded.name.clone(), keys.into());
            }
            Err(lines) => wrong.extend(lines),
        }
    }
    if !wrong.is_empty() {
        return Err(said(wrong));
    }
    for name in ["setup", "teardown", "handleSummary"] {
        if let Some(node) = script.exported(name) {
            made.left_out
                .push(format!("line {}: {name} is not run", script::line(node)));
        }
    }
    made.left_out.extend(options.left_out.iter().cloned());
    let flows = scenarios.keys().cloned().collect();
    let known = Known {
        flows,
        steps: vec![("hold".to_owned(), true)],
        kinds,
    };
    let thresholds = thresholds(&options, &known, &mut made.left_out);
    let mut whole = Map::from_iter([
        ("version".to_owned(), json!(1)),
        ("scenarios".to_owned(), scenarios.into()),
    ]);
    if !thresholds.is_empty() {
        whole.insert("thresholds".to_owned(), thresholds.into());
    }
    made.whole = Some(whole.into());
    Ok(made)
}

/// Lines that are wrong as one sentence each, in order.
fn said(mut wrong: Vec<Wrong>) -> String {
    wrong.sort_by_key(|wrong| wrong.line);
    wrong.dedup();
    wrong.truncate(WRONG_MAX);
    let lines: Vec<String> = wrong
        .iter()
        .map(|wrong| format!("line {}: {}", wrong.line, wrong.what))
        .collect();
    lines.join("\n")
}

/// One scenario: its load, and the requests of one iteration as kinds.
fn scenario(
    options: &Options,
    loaded: &Loaded,
    done: Iteration,
    url: Option<&str>,
    made: &mut Made,
) -> Result<Map<String, Value>, Vec<Wrong>> {
    let wrong = |line: usize, what: String| Err(vec![Wrong { line, what }]);
    let Some(first) = done.sent.first() else {
        return wrong(
            loaded.line,
            "an iteration sends no request over HTTP".to_owned(),
        );
    };
    let origin = match url {
        Some(url) => url.trim_end_matches('/').to_owned(),
        None => first.origin.clone(),
    };
    if let Some(other) = done
        .sent
        .iter()
        .find(|sent| url.is_none() && sent.origin != origin)
    {
        let what = format!(
            "goes to {}, and the requests before it to {origin}: a scenario has one address; name one for all with --url",
            other.origin
        );
        return wrong(other.line, what);
    }
    made.secrets += done.secrets;
    made.left_out.extend(done.left_out.iter().cloned());
    // What reads of it, `url` says `$${` for `${`.
    let mut keys = Map::from_iter([("url".to_owned(), json!(format!("{origin}/")))]);
    keys.extend(loaded.keys.clone());
    keys.extend(options.shared.clone());
    let count = done.sent.len();
    if loaded.is_open && count > 1 {
        multiply(&mut keys, count as f64);
        made.left_out.push(format!("line {}: an iteration sends {count} requests: the rate is of requests, {count} times that of iterations", loaded.line));
    }
    if done.pause_s > 0.0 && !loaded.is_open {
        let pause = Duration::try_from_secs_f64(done.pause_s / count as f64).unwrap_or_default();
        keys.insert("pause".to_owned(), written(pause).into());
    }
    if let Some(timeout) = done
        .sent
        .iter()
        .filter_map(|sent| sent.timeout_ms)
        .max()
        .filter(|timeout| *timeout > 0)
    {
        keys.insert("timeout".to_owned(), format!("{timeout}ms").into());
    }
    if let Some((_, agent)) = &options.user_agent
        && let Some(text) = agent.text()
    {
        keys.insert(
            "headers".to_owned(),
            json!({ "user-agent": escaped(&text) }),
        );
    }
    keys.insert("requests".to_owned(), kinds(&done.sent)?.into());
    Ok(keys)
}

/// Makes a rate of iterations one of requests.
fn multiply(keys: &mut Map<String, Value>, by: f64) {
    let times = |value: &mut Value| {
        if let Some(number) = value.as_f64() {
            *value = json!(number * by);
        }
    };
    if let Some(rate) = keys.get_mut("rate") {
        times(rate);
    }
    for stage in keys
        .get_mut("stages")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
    {
        for (kind, key) in [("ramp", "to"), ("hold", "at")] {
            if let Some(level) = stage.get_mut(kind).and_then(|stage| stage.get_mut(key)) {
                times(level);
            }
        }
    }
}

/// The requests of an iteration as kinds; the same one twice has that weight.
fn kinds(sent: &[Sent]) -> Result<Vec<Value>, Vec<Wrong>> {
    let mut kinds: Vec<Map<String, Value>> = Vec::new();
    for one in sent {
        let kind = kind(one);
        let is_same = |known: &&mut Map<String, Value>| {
            kind.iter()
                .all(|(name, value)| known.get(name) == Some(value))
                && known.len() == kind.len() + 1
        };
        if let Some(known) = kinds.iter_mut().find(is_same) {
            let weight = known["weight"].as_u64().unwrap_or(1) + 1;
            known.insert("weight".to_owned(), weight.into());
            continue;
        }
        if kinds.len() >= REQUESTS_MAX {
            let what = format!("an iteration sends more than {REQUESTS_MAX} kinds of requests");
            return Err(vec![Wrong {
                line: one.line,
                what,
            }]);
        }
        let mut kind = kind;
        kind.insert("weight".to_owned(), 1.into());
        kinds.push(kind);
    }
    name(&mut kinds);
    Ok(kinds.into_iter().map(Value::Object).collect())
}

/// Gives each kind a name of its own.
fn name(kinds: &mut [Map<String, Value>]) {
    let mut taken = Vec::new();
    for kind in kinds {
        let own = kind.get("name").and_then(Value::as_str).map(str::to_owned);
        let base = own.unwrap_or_else(|| {
            format!(
                "{} {}",
                kind["method"].as_str().unwrap_or_default(),
                kind["path"].as_str().unwrap_or_default()
            )
        });
        let base: String = crate::output::units::plain(&base)
            .chars()
            .filter(char::is_ascii)
            .take(40)
            .collect();
        let mut name = base.clone();
        let mut number = 2;
        while taken.contains(&name) {
            name = format!("{base} {number}");
            number += 1;
        }
        taken.push(name.clone());
        kind.insert("name".to_owned(), name.into());
    }
}

fn kind(sent: &Sent) -> Map<String, Value> {
    let mut kind = Map::new();
    if let Some(name) = sent.name.as_ref().filter(|name| !name.trim().is_empty()) {
        kind.insert("name".to_owned(), name.as_str().into());
    }
    kind.insert("path".to_owned(), sent.path.as_str().into());
    kind.insert("method".to_owned(), sent.method.as_str().into());
    if !sent.headers.is_empty() {
        kind.insert("headers".to_owned(), sent.headers.clone().into());
    }
    if let Some(body) = &sent.body {
        kind.insert("body".to_owned(), body.as_str().into());
    }
    let mut expect = Map::new();
    if !sent.statuses.is_empty() {
        expect.insert("status".to_owned(), json!(sent.statuses));
    }
    if !sent.wanted_headers.is_empty() {
        expect.insert("headers".to_owned(), sent.wanted_headers.clone().into());
    }
    if let Some(body) = &sent.wanted_body {
        expect.insert("body".to_owned(), body.clone());
    }
    if !expect.is_empty() {
        kind.insert("expect".to_owned(), expect.into());
    }
    kind
}

/// The thresholds that the lab can judge; the others are said.
fn thresholds(options: &Options, known: &Known, left_out: &mut Vec<String>) -> Map<String, Value> {
    let mut kept = Map::new();
    for (line, metric, expressions) in &options.thresholds {
        let one = Value::Object(Map::from_iter([(metric.clone(), expressions.clone())]));
        match judge::thresholds::read(&one, Some(known)) {
            Ok(_) => {
                kept.insert(metric.clone(), expressions.clone());
            }
            Err(why) => left_out.push(format!(
                "line {line}: the threshold on {}",
                script::short(&why.join(", "))
            )),
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(text: &str) -> Result<(Value, Vec<String>), String> {
        read(text, &BTreeMap::new(), None, None).map(|made| (made.whole.unwrap(), made.left_out))
    }

    const SHOP: &str = r#"
import http from 'k6/http';
import { check, sleep, group } from 'k6';
const BASE = __ENV.BASE_URL || 'http://127.0.0.1:8900';
export const options = {
  insecureSkipTLSVerify: true,
  stages: [
    { duration: '30s', target: 20 },
    { duration: '1m', target: 20 },
    { duration: '10s', target: 0 },
  ],
  thresholds: { http_req_duration: ['p(95)<250'], my_trend: ['avg<1'] },
};
function home() { return http.get(`${BASE}/`); }
export default function () {
  const res = home();
  check(res, { 'is 200': (r) => r.status === 200, 'fast': (r) => r.timings.duration < 5 });
  group('buy', () => {
    const body = JSON.stringify({ n: __ITER, what: "a'b" });
    const bought = http.post(BASE + '/echo', body, { headers: { 'Content-Type': 'application/json', Authorization: `Bearer ${__ENV.T}` } });
    check(bought, { ok: (r) => [200, 201].includes(r.status) && r.body.includes('a') });
  });
  sleep(1);
}
"#;

    #[test]
    fn a_script_becomes_a_scenario() {
        let (tree, left_out) = made(SHOP).unwrap();
        let one = &tree["scenarios"]["default"];
        assert_eq!(one["url"], "http://127.0.0.1:8900/");
        assert_eq!(
            one["stages"][0],
            json!({ "ramp": { "to": 20.0, "over": "30s", "name": "ramp 1" } })
        );
        assert_eq!(one["stages"][1]["hold"]["for"], "60s");
        assert_eq!(one["pause"], "500ms");
        assert_eq!(one["requests"][0]["expect"], json!({ "status": [200] }));
        assert_eq!(one["requests"][1]["body"], r#"{"n":${seq},"what":"a'b"}"#);
        assert_eq!(
            one["requests"][1]["expect"],
            json!({ "status": [200, 201], "body": { "contains": "a" } })
        );
        assert_eq!(
            one["requests"][1]["headers"],
            json!({ "content-type": "application/json" })
        );
        assert_eq!(
            tree["thresholds"],
            json!({ "http_req_duration": ["p(95)<250"] })
        );
        let said = left_out.join("\n");
        for wanted in [
            "no plateau: this stage ramps from 1 to 20 in 30s",
            "my_trend",
            "the check `fast`",
        ] {
            assert!(said.contains(wanted), "{wanted}: {said}");
        }
    }

    #[test]
    fn what_is_computed_or_looped_is_refused_by_line() {
        let script = |options: &str, body: &str| {
            format!(
                "import http from 'k6/http';\nexport const options = {options};\nexport default function () {{\n{body}\n}}"
            )
        };
        let get = "http.get('http://127.0.0.1/');";
        for (options, body, wanted) in [
            (
                "{ vus: Math.floor(3.5) }",
                get,
                "line 2: `Math.floor(3.5)` is computed",
            ),
            (
                "{ vus: 1, iterations: 5 }",
                get,
                "line 2: iterations: a load of the lab",
            ),
            (
                "{}",
                "for (let i = 0; i < 3; i++) {\n http.get('http://127.0.0.1/' + i);\n}",
                "line 5: a request or a sleep inside of a loop",
            ),
            (
                "{}",
                "[1, 2].forEach((n) => http.get('http://127.0.0.1/' + n));",
                "line 4: a request or a sleep inside of a loop",
            ),
            (
                "{}",
                "if (__ITER > 3) { http.get('http://127.0.0.1/'); }",
                "line 4: a request or a sleep inside of a condition",
            ),
            (
                "{}",
                "const r = http.get('http://127.0.0.1/');\nhttp.get('http://127.0.0.1/' + r.json('id'));",
                "line 5: `r.json('id')` is computed",
            ),
            (
                "{ stages: [{ duration: '10m', target: 50 }] }",
                get,
                "line 2: each stage ramps, and none holds",
            ),
            (
                "{ scenarios: { a: { executor: 'shared-iterations' } } }",
                get,
                "line 2: shared-iterations counts iterations",
            ),
            (
                "{}",
                "http.get('http://127.0.0.1/'); http.get('http://localhost/');",
                "line 4: goes to http://localhost",
            ),
            ("{}", "return 1;", "sends no request"),
        ] {
            let said = made(&script(options, body)).unwrap_err();
            assert!(said.contains(wanted), "{body}: {said}");
        }
    }

    #[test]
    fn arrival_rates_are_of_requests_and_a_hold_can_be_added() {
        let text = "import http from 'k6/http';
export const options = { scenarios: { a: { executor: 'constant-arrival-rate', rate: 600, timeUnit: '1m', duration: '10s', maxVUs: 50, exec: 'go' },
 b: { executor: 'ramping-vus', startVUs: 0, stages: [{ duration: '5s', target: 8 }, { duration: '5s', target: 0 }], exec: 'go' } } };
export function go() { http.get('http://127.0.0.1/a'); http.del('http://127.0.0.1/a'); }";
        let hold = Some(Duration::from_secs(60));
        let made = read(text, &BTreeMap::new(), hold, None)
            .unwrap()
            .whole
            .unwrap();
        let (a, b) = (&made["scenarios"]["a"], &made["scenarios"]["b"]);
        assert_eq!(
            (&a["rate"], &a["connections"], &a["duration"]),
            (&json!(20.0), &json!(50), &json!("10s"))
        );
        assert_eq!(
            b["stages"][1],
            json!({ "hold": { "at": 8.0, "for": "60s", "name": "added hold" } })
        );
        assert_eq!(b["stages"].as_array().unwrap().len(), 3);
    }
}
