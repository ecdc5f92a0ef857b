//! A scenario file as a k6 script: options, one function for each scenario, one check for what each answer must be.

use std::fmt::Write as _;
use std::time::Duration;

use config::{Named, Reference};
use serde_json::{Map, Value, json};

use super::words::{HELPERS, quoted, secret, template};
use crate::scenario::file::{Auth, Body, Expect, File, Hold, Protocol, Request, Scenario, Stage};
use crate::scenario::units::{Count, Level, Size, Span, Switch, Text};

/// The lab's metrics that k6 has under another name.
const METRICS: &[(&str, &str)] = &[
    ("response", "http_req_duration"),
    ("service", "http_req_duration"),
    ("errors", "http_req_failed"),
    ("requests", "http_reqs"),
    ("dropped", "dropped_iterations"),
    ("connect", "http_req_connecting"),
    ("tls", "http_req_tls_handshaking"),
];
/// k6's own metrics, whose values mean the same there.
const SAME: &[&str] = &[
    "http_req_duration",
    "http_req_failed",
    "http_reqs",
    "http_req_connecting",
    "http_req_tls_handshaking",
    "iterations",
    "dropped_iterations",
    "checks",
    "data_sent",
    "data_received",
];
/// Units of time in which a rate may be told, in seconds: k6 takes whole numbers only.
const UNITS_S: &[u64] = &[1, 10, 60, 100, 600, 1000, 3600];

/// A script, and what of the scenario is not in it.
pub(super) struct Exported {
    pub text: String,
    pub left_out: Vec<String>,
}

#[derive(Default)]
struct Writer {
    body: String,
    scenarios: Map<String, Value>,
    left_out: Vec<String>,
    /// Files that the script opens at its beginning.
    files: Vec<String>,
    has_basic: bool,
    insecure: bool,
    reconnect: bool,
}

/// Makes the script.
pub(super) fn script(file: &File) -> Result<Exported, String> {
    let mut writer = Writer::default();
    let scenarios = file.scenarios.as_ref().filter(|all| !all.is_empty());
    let scenarios = scenarios.ok_or("there is no scenario in it")?;
    let env = |name: &str| {
        let own = file.env.iter().flat_map(|all| &all.0);
        own.into_iter()
            .find(|(known, _)| known == name)
            .map(|(_, Text(value))| value.clone())
    };
    for (number, (name, scenario)) in scenarios.iter().enumerate() {
        let exec = format!("scenario{}", number + 1);
        let fail = |why: String| format!("scenarios.{name}: {why}");
        let mut load = writer.load(scenario).map_err(fail)?;
        load.insert("exec".to_owned(), exec.as_str().into());
        writer.scenarios.insert(fit(name), load.into());
        writer.function(&exec, scenario, &env).map_err(fail)?;
    }
    if file.matrix.is_some() {
        writer
            .left_out
            .push("matrix: a script is one run".to_owned());
    }
    let options = writer.options(file);
    Ok(writer.done(file, &options))
}

impl Writer {
    fn options(&mut self, file: &File) -> Value {
        let mut options = Map::from_iter([(
            "scenarios".to_owned(),
            Value::Object(std::mem::take(&mut self.scenarios)),
        )]);
        let thresholds = self.thresholds(file);
        if !thresholds.is_empty() {
            options.insert("thresholds".to_owned(), thresholds.into());
        }
        for (name, on) in [
            ("insecureSkipTLSVerify", self.insecure),
            ("noConnectionReuse", self.reconnect),
        ] {
            if on {
                options.insert(name.to_owned(), true.into());
            }
        }
        options.into()
    }

    fn done(self, file: &File, options: &Value) -> Exported {
        let mut text = "// Made by weir lab export. Times count from the send here, and from when a request was due in the lab.\n".to_owned();
        if let Some(Text(name)) = &file.name {
            let _ = writeln!(text, "// {}", crate::output::units::plain(name));
        }
        text += "import http from 'k6/http';\nimport { check, sleep } from 'k6';\nimport exec from 'k6/execution';\n";
        if self.has_basic {
            text += "import encoding from 'k6/encoding';\n";
        }
        for (number, path) in self.files.iter().enumerate() {
            let _ = writeln!(
                text,
                "const FILE_{} = open({}).trim();",
                number + 1,
                quoted(path)
            );
        }
        let json = serde_json::to_string_pretty(options).unwrap_or_default();
        let _ = writeln!(
            text,
            "\n/** @type {{import('k6/options').Options}} */\nexport const options = {json};"
        );
        text += HELPERS;
        text += &self.body;
        Exported {
            text,
            left_out: self.left_out,
        }
    }

    /// The scenario's executor.
    fn load(&mut self, scenario: &Scenario) -> Result<Map<String, Value>, String> {
        let connections = scenario.connections.map(|Count(n)| n);
        let is_open = scenario.rate.is_some() || scenario.arrivals.is_some();
        if scenario.arrivals == Some(crate::scenario::file::Arrivals::Poisson) {
            self.left_out
                .push("arrivals: k6 spaces them evenly".to_owned());
        }
        if scenario.burst.is_some() {
            return Err("burst: k6 spaces arrivals evenly".to_owned());
        }
        let mut load = Map::new();
        let mut put = |name: &str, value: Value| load.insert(name.to_owned(), value);
        if is_open {
            put("preAllocatedVUs", connections.unwrap_or(256).into());
        }
        if let Some(stages) = &scenario.stages {
            let unit = stages
                .iter()
                .map(|stage| level(stage).0)
                .collect::<Vec<f64>>();
            let unit = if is_open { unit_of(&unit) } else { 1 };
            put(
                "executor",
                if is_open {
                    "ramping-arrival-rate"
                } else {
                    "ramping-vus"
                }
                .into(),
            );
            put(if is_open { "startRate" } else { "startVUs" }, 0.into());
            if is_open {
                put("timeUnit", format!("{unit}s").into());
            }
            put("stages", steps(stages, unit as f64)?.into());
            return Ok(load);
        }
        let lasting = scenario
            .duration
            .map_or(Duration::from_secs(10), |Span(span)| span);
        let warmup = scenario.warmup.map_or(Duration::ZERO, |Span(span)| span);
        if !warmup.is_zero() {
            self.left_out
                .push("warmup: k6 has none, so its requests count".to_owned());
        }
        put("duration", span(lasting + warmup).into());
        match scenario.rate {
            Some(Level(rate)) => {
                let unit = unit_of(&[rate]);
                put("executor", "constant-arrival-rate".into());
                put("rate", json!((rate * unit as f64).round() as u64));
                put("timeUnit", format!("{unit}s").into());
            }
            None => {
                put("executor", "constant-vus".into());
                put("vus", connections.unwrap_or(10).into());
            }
        }
        Ok(load)
    }

    fn function(
        &mut self,
        exec: &str,
        scenario: &Scenario,
        env: &dyn Fn(&str) -> Option<String>,
    ) -> Result<(), String> {
        match scenario.protocol.unwrap_or_default() {
            Protocol::Http1 | Protocol::Http2 => {}
            other => {
                return Err(format!(
                    "protocol {}: k6 does not read it as the lab does",
                    format!("{other:?}").to_lowercase()
                ));
            }
        }
        if scenario.mcp.is_some() || scenario.llm.is_some() || scenario.feeds.is_some() {
            return Err("mcp, llm and feeds: k6 does not read them as the lab does".to_owned());
        }
        if let Some(tls) = &scenario.tls {
            self.insecure |= tls.insecure == Some(Switch(true));
            if tls.ca.is_some() || tls.cert.is_some() || tls.server_name.is_some() {
                self.left_out.push("tls: say certificates in the script's options (tlsAuth), and authorities by SSL_CERT_FILE".to_owned());
            }
        }
        self.reconnect |= scenario.reconnect == Some(Switch(true));
        let one = Request::default();
        let kinds: Vec<&Request> = match &scenario.requests {
            Some(kinds) if !kinds.is_empty() => kinds.iter().collect(),
            _ => vec![&one],
        };
        let mut body = String::new();
        for (number, kind) in kinds.iter().enumerate() {
            let text = self.request(scenario, kind, env)?;
            match kinds.len() {
                1 => body += &text,
                _ => {
                    let _ = write!(body, "  if (kind === {number}) {{\n{text}  }}\n");
                }
            }
        }
        let weights: Vec<u64> = kinds
            .iter()
            .map(|kind| kind.weight.map_or(1, |Count(weight)| weight))
            .collect();
        let _ = write!(
            self.body,
            "\nexport function {exec}() {{\n  const seq = exec.scenario.iterationInTest;\n"
        );
        if kinds.len() > 1 {
            let _ = writeln!(self.body, "  const kind = kindOf(seq, {weights:?});");
        }
        self.body += &body;
        if let Some(Span(pause)) = scenario.pause.filter(|Span(pause)| !pause.is_zero()) {
            let _ = writeln!(self.body, "  sleep({});", pause.as_secs_f64());
        }
        self.body += "}\n";
        Ok(())
    }

    /// The lines that send one kind of request and check its answer.
    fn request(
        &mut self,
        scenario: &Scenario,
        kind: &Request,
        env: &dyn Fn(&str) -> Option<String>,
    ) -> Result<String, String> {
        let url = self.url(scenario, kind, env)?;
        let mut headers: Vec<(String, String)> = Vec::new();
        for named in [&scenario.headers, &kind.headers].into_iter().flatten() {
            self.headers(named, env, &mut headers)?;
        }
        self.auth(scenario, &mut headers);
        let has_own = kind.body.is_some()
            || kind.body_json.is_some()
            || kind.body_file.is_some()
            || kind.unique.is_some();
        let body = match has_own {
            true => self.body(
                (&kind.body, &kind.body_json, &kind.body_file, kind.unique),
                env,
            )?,
            false => self.body(
                (
                    &scenario.body,
                    &scenario.body_json,
                    &scenario.body_file,
                    scenario.unique,
                ),
                env,
            )?,
        };
        if let Some((_, true)) = body
            && !headers
                .iter()
                .any(|(name, _)| name.eq_ignore_ascii_case("content-type"))
        {
            headers.push(("content-type".to_owned(), quoted("application/json")));
        }
        let method = kind
            .method
            .as_ref()
            .or(scenario.method.as_ref())
            .map(|Text(method)| method.as_str());
        let method = method.unwrap_or(if body.is_some() { "POST" } else { "GET" });
        let expect = kind
            .expect
            .as_ref()
            .or(scenario.expect.as_ref())
            .cloned()
            .unwrap_or_default();
        let fields: Vec<String> = headers
            .iter()
            .map(|(name, value)| format!("{}: {value}", quoted(name)))
            .collect();
        let mut params = vec![
            format!("headers: {{ {} }}", fields.join(", ")),
            "redirects: 0".to_owned(),
        ];
        if let Some(Text(name)) = &kind.name {
            params.push(format!("tags: {{ name: {} }}", quoted(name)));
        }
        let timeout = scenario
            .timeout
            .map_or(Duration::from_secs(10), |Span(span)| span);
        params.push(format!(
            "timeout: {}",
            quoted(&format!("{}ms", timeout.as_millis()))
        ));
        let statuses = expect
            .status
            .as_ref()
            .map(|all| all.0.clone())
            .unwrap_or_default();
        let list: Vec<String> = statuses.iter().map(u16::to_string).collect();
        params.push(match statuses.is_empty() {
            true => "responseCallback: http.expectedStatuses({ min: 200, max: 399 })".to_owned(),
            false => format!(
                "responseCallback: http.expectedStatuses({})",
                list.join(", ")
            ),
        });
        let sent = body.map_or("null".to_owned(), |(body, _)| body);
        let is_echo = matches!(expect.body, Some(Body::Echo));
        let mut out = String::new();
        let sent = match is_echo {
            true => {
                let _ = writeln!(out, "  const sent = {sent};");
                "sent".to_owned()
            }
            false => sent,
        };
        let _ = writeln!(
            out,
            "  const answer = http.request({}, {url}, {sent}, {{ {} }});",
            quoted(method),
            params.join(", ")
        );
        let checks = checks(&expect, &list);
        let _ = writeln!(out, "  check(answer, {{ {} }});", checks.join(", "));
        Ok(out)
    }

    fn url(
        &mut self,
        scenario: &Scenario,
        kind: &Request,
        env: &dyn Fn(&str) -> Option<String>,
    ) -> Result<String, String> {
        let one = scenario.url.iter();
        let all: Vec<&Text> = one.chain(scenario.urls.iter().flatten()).collect();
        let mut made = Vec::new();
        for Text(url) in all {
            let whole = match &kind.path {
                Some(Text(path)) => {
                    let host = url.find("://").map_or(0, |at| at + 3);
                    let end = url[host..]
                        .find(['/', '?'])
                        .map_or(url.len(), |at| host + at);
                    format!("{}{path}", &url[..end])
                }
                None => url.clone(),
            };
            made.push(template(&whole, env, false)?);
        }
        match made.as_slice() {
            [] => Err("has no url".to_owned()),
            [one] => Ok(one.clone()),
            all => Ok(format!("[{}][seq % {}]", all.join(", "), all.len())),
        }
    }

    fn headers(
        &mut self,
        named: &Named<Text>,
        env: &dyn Fn(&str) -> Option<String>,
        out: &mut Vec<(String, String)>,
    ) -> Result<(), String> {
        for (name, Text(value)) in named.iter() {
            let text = match Reference::parse(value) {
                Ok(reference) => secret(&reference, &mut self.files),
                Err(_) => template(value, env, false)?,
            };
            out.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
            out.push((name.to_owned(), text));
        }
        Ok(())
    }

    fn auth(&mut self, scenario: &Scenario, out: &mut Vec<(String, String)>) {
        let Some(auth) = &scenario.auth else {
            return;
        };
        out.push(match auth {
            Auth::Bearer(reference) => (
                "authorization".to_owned(),
                format!("`Bearer ${{{}}}`", secret(reference, &mut self.files)),
            ),
            Auth::ApiKey(reference) => ("x-api-key".to_owned(), secret(reference, &mut self.files)),
            Auth::Basic(basic) => {
                self.has_basic = true;
                let user = basic.user.as_ref().map_or("", |Text(user)| user.as_str());
                let password = basic.password.as_ref().map_or("''".to_owned(), |password| {
                    secret(password, &mut self.files)
                });
                let pair = format!("{} + ':' + {password}", quoted(user));
                (
                    "authorization".to_owned(),
                    format!("`Basic ${{encoding.b64encode({pair})}}`"),
                )
            }
        });
    }

    /// The body as an expression, and whether it is JSON.
    #[allow(
        clippy::type_complexity,
        reason = "the four ways to say a body, as both places have them"
    )]
    fn body(
        &mut self,
        (text, json, file, unique): (&Option<Text>, &Option<Value>, &Option<Text>, Option<Size>),
        env: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Option<(String, bool)>, String> {
        if let Some(Text(text)) = text {
            return Ok(Some((template(text, env, false)?, false)));
        }
        if let Some(json) = json {
            return Ok(Some((template(&json.to_string(), env, true)?, true)));
        }
        if let Some(Text(file)) = file {
            return Err(format!(
                "body_file {file}: a k6 script opens files in its own way; write the body"
            ));
        }
        Ok(unique.map(|Size(bytes)| (format!("unique({bytes}, seq)"), true)))
    }

    fn thresholds(&mut self, file: &File) -> Map<String, Value> {
        let mut kept = Map::new();
        for (metric, thresholds) in file.thresholds.iter().flat_map(|all| all.iter()) {
            let (name, tags) = metric.split_once('{').unwrap_or((metric, ""));
            let there = match SAME.contains(&name) {
                true => Some(name),
                false => METRICS
                    .iter()
                    .find(|(ours, _)| *ours == name)
                    .map(|(_, there)| *there),
            };
            let is_fit = !["step:", "class:", "watched:"]
                .iter()
                .any(|tag| tags.contains(tag));
            match there.filter(|_| is_fit) {
                Some(there) => {
                    let whole = if tags.is_empty() {
                        there.to_owned()
                    } else {
                        format!("{there}{{{}}}", tags_of(tags))
                    };
                    kept.insert(whole, expressions(&thresholds.0));
                }
                None => self
                    .left_out
                    .push(format!("the threshold on {metric}: k6 has no such metric")),
            }
        }
        kept
    }
}

/// A scenario's name as k6 takes it: letters, digits, `_` and `-`.
fn fit(name: &str) -> String {
    let fit = |c: char| {
        if c.is_ascii_alphanumeric() || "_-".contains(c) {
            c
        } else {
            '_'
        }
    };
    name.chars().map(fit).collect()
}

/// The tags of a metric, with the scenario's name as [`fit`] makes it.
fn tags_of(tags: &str) -> String {
    let fitted = |tag: &str| match tag.trim().trim_end_matches('}').strip_prefix("scenario:") {
        Some(name) => format!("scenario:{}", fit(name)),
        None => tag.trim().trim_end_matches('}').to_owned(),
    };
    let all: Vec<String> = tags.split(',').map(fitted).collect();
    all.join(",")
}

/// What is checked of an answer.
fn checks(expect: &Expect, statuses: &[String]) -> Vec<String> {
    let mut checks = vec![match statuses {
        [] => "'status is good': (r) => r.status >= 200 && r.status < 400".to_owned(),
        [one] => format!("'status is good': (r) => r.status === {one}"),
        all => format!(
            "'status is good': (r) => [{}].includes(r.status)",
            all.join(", ")
        ),
    }];
    for (name, Text(value)) in expect.headers.iter().flat_map(|all| all.iter()) {
        // k6 writes names of fields with capitals at their parts' beginnings.
        let wanted = quoted(&name.to_ascii_lowercase());
        checks.push(format!(
            "{}: (r) => Object.keys(r.headers).some((name) => name.toLowerCase() === {wanted} && r.headers[name] === {})",
            quoted(&format!("{name} is as expected")),
            quoted(value)
        ));
    }
    checks.extend(match &expect.body {
        None => None,
        Some(Body::Echo) => Some("'body is what was sent': (r) => r.body === sent".to_owned()),
        Some(Body::Exact(Text(text))) => Some(format!(
            "'body is as expected': (r) => r.body === {}",
            quoted(text)
        )),
        Some(Body::Contains(Text(text))) => Some(format!(
            "'body has the text': (r) => String(r.body).includes({})",
            quoted(text)
        )),
    });
    checks
}

/// Level and time of a stage.
fn level(stage: &Stage) -> (f64, Duration) {
    let held = |hold: &Hold| {
        (
            hold.at.map_or(0.0, |Level(at)| at),
            hold.r#for.map_or(Duration::ZERO, |Span(span)| span),
        )
    };
    match stage {
        Stage::Ramp(ramp) => (
            ramp.to.map_or(0.0, |Level(to)| to),
            ramp.over.map_or(Duration::ZERO, |Span(span)| span),
        ),
        Stage::Hold(hold) | Stage::Warmup(hold) => held(hold),
    }
}

/// k6's stages: a hold at another level than the one before begins with a jump.
fn steps(stages: &[Stage], unit: f64) -> Result<Vec<Value>, String> {
    let (mut at, mut steps) = (0.0, Vec::new());
    for stage in stages {
        let (to, lasting) = level(stage);
        if lasting.is_zero() {
            return Err("a stage lasts no time".to_owned());
        }
        let target = (to * unit).round() as u64;
        if !matches!(stage, Stage::Ramp(_)) && to != at {
            steps.push(json!({ "duration": "0s", "target": target }));
        }
        steps.push(json!({ "duration": span(lasting), "target": target }));
        at = to;
    }
    Ok(steps)
}

/// The least unit of time in which all rates are whole.
fn unit_of(rates: &[f64]) -> u64 {
    let is_whole = |unit: &&u64| {
        rates
            .iter()
            .all(|rate| (rate * **unit as f64).fract().abs() < 1e-9)
    };
    UNITS_S.iter().find(is_whole).copied().unwrap_or(1000)
}

fn span(span: Duration) -> String {
    match span.as_millis() {
        ms if ms % 1000 == 0 => format!("{}s", ms / 1000),
        ms => format!("{ms}ms"),
    }
}

/// Expressions without the lab's units: k6 compares milliseconds.
fn expressions(written: &Value) -> Value {
    match written {
        Value::String(text) => json!([bare(text)]),
        Value::Array(all) => all.iter().map(expression).collect(),
        other => json!([expression(other)]),
    }
}

fn expression(written: &Value) -> Value {
    match written {
        Value::String(text) => bare(text).into(),
        Value::Object(map) => {
            let mut map = map.clone();
            if let Some(text) = map.get("threshold").and_then(Value::as_str).map(bare) {
                map.insert("threshold".to_owned(), text.into());
            }
            map.into()
        }
        other => other.clone(),
    }
}

fn bare(text: &str) -> String {
    let end = text.rfind(['<', '>', '=']).map_or(0, |at| at + 1);
    let (left, right) = text.split_at(end);
    let right = right.trim();
    let number = right.trim_end_matches(|c: char| c.is_ascii_alphabetic() || c == 'µ');
    let factor = match &right[number.len()..] {
        "us" | "µs" => 1e-3,
        "s" => 1e3,
        "m" => 60e3,
        _ => 1.0,
    };
    match number.parse::<f64>() {
        Ok(bound) => format!("{}{}", left.trim(), bound * factor),
        Err(_) => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::import::k6_scenario;

    fn made(text: &str) -> Result<Exported, String> {
        script(&crate::scenario::read_text(text).unwrap())
    }

    #[test]
    fn a_scenario_comes_back_from_its_script() {
        let text = "version: 1
scenarios:
  shop:
    url: http://127.0.0.1:8900/echo
    arrivals: uniform
    stages:
      - ramp: { to: 2.5, over: 5s }
      - hold: { at: 2.5, for: 10s }
    connections: 20
    body: 'n=${seq} `x` $${y}'
    headers: { accept: '*/*' }
    expect: { status: [200, 201] }
thresholds:
  response: ['p(99)<50ms']
  cpu_us_per_request: ['value<9']
";
        let made = made(text).unwrap();
        assert_eq!(made.left_out.len(), 1, "{:?}", made.left_out);
        let back = k6_scenario(&made.text, &Default::default(), None).unwrap();
        let back = crate::scenario::tree(&back).unwrap();
        let one = &back["scenarios"]["shop"];
        assert_eq!(one["stages"][0]["ramp"]["to"], 2.5, "{back}");
        assert_eq!(one["stages"][1]["hold"]["for"], "10s");
        assert_eq!(
            (&one["connections"], &one["requests"][0]["method"]),
            (&json!(20), &json!("POST"))
        );
        assert_eq!(one["requests"][0]["body"], "n=${seq} `x` $${y}");
        assert_eq!(one["requests"][0]["expect"]["status"], json!([200, 201]));
        assert_eq!(
            back["thresholds"],
            json!({ "http_req_duration": ["p(99)<50"] })
        );
    }

    #[test]
    fn what_k6_has_not_is_refused() {
        for (text, wanted) in [
            (
                "scenarios: { a: { url: 'http://127.0.0.1/', protocol: mcp } }",
                "protocol mcp",
            ),
            (
                "scenarios: { a: { url: 'http://127.0.0.1/', body_file: x } }",
                "body_file",
            ),
            ("scenarios: { a: { connections: 1 } }", "has no url"),
            ("version: 1", "no scenario"),
        ] {
            assert!(made(text).err().unwrap().contains(wanted), "{text}");
        }
        assert_eq!(
            (bare("p(95)<0.5s"), bare("rate<0.01")),
            ("p(95)<500".to_owned(), "rate<0.01".to_owned())
        );
    }
}
