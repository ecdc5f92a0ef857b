//! The options of a k6 script as the loads of scenarios.
//!
//! k6's stage goes from the level before to its target in a straight line; so it becomes a ramp, and a hold only where both are the
//! same. An executor that counts iterations has no load that lasts, and is refused.

use std::time::Duration;

use serde_json::{Map, Value, json};
use tree_sitter::Node;

use super::script::{Constant, Names, Script, Wrong, line, members, value};
use crate::plan::{FLOWS_MAX, STAGES_MAX};

/// Options that change nothing of what is sent.
const WITHOUT_EFFECT: &[&str] = &[
    "batch",
    "batchPerHost",
    "cloud",
    "discardResponseBodies",
    "dns",
    "ext",
    "gracefulRampDown",
    "gracefulStop",
    "maxRedirects",
    "minIterationDuration",
    "noCookiesReset",
    "noThresholds",
    "noUsageReport",
    "noVUConnectionReuse",
    "setupTimeout",
    "summaryTimeUnit",
    "summaryTrendStats",
    "systemTags",
    "tags",
    "teardownTimeout",
    "tlsVersion",
];

/// What one scenario of the script does, and how it is loaded.
pub(super) struct Loaded {
    pub name: String,
    /// The function that an iteration runs.
    pub exec: String,
    /// Where it stands.
    pub line: usize,
    /// Keys of the lab's scenario.
    pub keys: Map<String, Value>,
    /// The load is a rate of iterations, which is multiplied by the requests of each.
    pub is_open: bool,
}

/// What the options say.
#[derive(Default)]
pub(super) struct Options<'t> {
    pub loads: Vec<Loaded>,
    pub thresholds: Vec<(usize, String, Value)>,
    /// Keys that every scenario gets.
    pub shared: Map<String, Value>,
    pub user_agent: Option<(Node<'t>, Constant)>,
    pub left_out: Vec<String>,
}

/// What the reader of options carries along.
struct Reader<'s, 't> {
    script: &'s Script<'t>,
    hold: Option<Duration>,
    found: Options<'t>,
    wrong: Vec<Wrong>,
}

/// Reads `export const options`.
pub(super) fn read<'t>(
    script: &Script<'t>,
    hold: Option<Duration>,
) -> Result<Options<'t>, Vec<Wrong>> {
    let mut reader = Reader {
        script,
        hold,
        found: Options::default(),
        wrong: Vec::new(),
    };
    let own = script.exported("options");
    let all = match own.map(|node| members(script, node, &Names::new(), 0)) {
        Some(Ok(all)) => all,
        Some(Err(wrong)) => return Err(vec![wrong]),
        None => Vec::new(),
    };
    reader.options(&all, own.map_or(1, line));
    match reader.wrong.is_empty() {
        true => Ok(reader.found),
        false => Err(reader.wrong),
    }
}

type Members<'t> = [(String, Node<'t>)];

fn find<'t>(all: &Members<'t>, name: &str) -> Option<Node<'t>> {
    all.iter()
        .find(|(known, _)| known == name)
        .map(|(_, node)| *node)
}

impl<'t> Reader<'_, 't> {
    fn value(&mut self, node: Node<'t>) -> Option<Constant> {
        match value(self.script, node, &Names::new(), 0) {
            Ok(found) => Some(found),
            Err(wrong) => {
                self.wrong.push(wrong);
                None
            }
        }
    }

    fn say(&mut self, node: Node, what: impl Into<String>) {
        self.wrong.push(Wrong::at(node, what));
    }

    /// A number from 0 on.
    fn number(&mut self, all: &Members<'t>, name: &str) -> Option<f64> {
        let node = find(all, name)?;
        let number = self
            .value(node)?
            .number()
            .filter(|number| number.is_finite() && *number >= 0.0);
        if number.is_none() {
            self.say(node, format!("{name} is no number from 0 on"));
        }
        number
    }

    fn span(&mut self, all: &Members<'t>, name: &str) -> Option<Duration> {
        let node = find(all, name)?;
        let span = span(&self.value(node)?);
        if span.is_none() {
            self.say(node, format!("{name} is no duration such as \"30s\""));
        }
        span
    }

    fn options(&mut self, all: &Members<'t>, at: usize) {
        for (name, node) in all {
            match name.as_str() {
                "vus" | "duration" | "stages" | "scenarios" => {}
                "iterations" | "rps" => self.say(
                    *node,
                    format!("{name}: a load of the lab is a number of connections or a rate, for a time: write vus and duration, or a scenario with constant-arrival-rate"),
                ),
                "thresholds" => self.thresholds(*node),
                "insecureSkipTLSVerify" => self.switch(*node, |shared| {
                    shared.insert("tls".to_owned(), json!({ "insecure": true }));
                }),
                "noConnectionReuse" => self.switch(*node, |shared| {
                    shared.insert("reconnect".to_owned(), true.into());
                }),
                "userAgent" => {
                    if let Some(agent) = self.value(*node) {
                        self.found.user_agent = Some((*node, agent));
                    }
                }
                "throw" | "paused" | "hosts" | "blacklistIPs" | "blockHostnames" | "localIPs" | "tlsAuth" | "tlsCipherSuites" | "executionSegment" => {
                    self.left_out(*node, name, "say it with weir lab load's own flags");
                }
                known if WITHOUT_EFFECT.contains(&known) => {}
                _ => self.left_out(*node, name, "the lab does not know it"),
            }
        }
        match find(all, "scenarios") {
            Some(node) => self.scenarios(node),
            None => self.shorthand(all, at),
        }
    }

    fn left_out(&mut self, node: Node, name: &str, why: &str) {
        let name = super::script::short(name);
        self.found
            .left_out
            .push(format!("line {}: {name}: {why}", line(node)));
    }

    fn switch(&mut self, node: Node<'t>, set: impl FnOnce(&mut Map<String, Value>)) {
        if self.value(node) == Some(Constant::Yes(true)) {
            set(&mut self.found.shared);
        }
    }

    fn thresholds(&mut self, node: Node<'t>) {
        let all = match members(self.script, node, &Names::new(), 0) {
            Ok(all) => all,
            Err(wrong) => return self.wrong.push(wrong),
        };
        for (metric, code) in all {
            if let Some(found) = self.value(code) {
                self.found
                    .thresholds
                    .push((line(code), metric, plain(&found)));
            }
        }
    }

    /// `vus` with `duration`, or `stages`, for the default function.
    fn shorthand(&mut self, all: &Members<'t>, at: usize) {
        let vus = self.number(all, "vus");
        let mut keys = Map::new();
        match find(all, "stages") {
            Some(stages) => self.stages(&mut keys, stages, vus.unwrap_or(1.0), 1.0),
            None => {
                if vus.is_none() && find(all, "duration").is_none() {
                    self.found.left_out.push("the script says no load: it is 1 connection for 10s; say another with -c and -d, or -R".to_owned());
                }
                let lasting = self
                    .span(all, "duration")
                    .unwrap_or(Duration::from_secs(10));
                keys.insert("connections".to_owned(), whole(vus.unwrap_or(1.0)));
                keys.insert("duration".to_owned(), written(lasting).into());
            }
        }
        self.found.loads.push(Loaded {
            name: "default".to_owned(),
            exec: "default".to_owned(),
            line: at,
            keys,
            is_open: false,
        });
    }

    fn scenarios(&mut self, node: Node<'t>) {
        let all = match members(self.script, node, &Names::new(), 0) {
            Ok(all) => all,
            Err(wrong) => return self.wrong.push(wrong),
        };
        if all.len() > FLOWS_MAX {
            return self.say(node, format!("there are more than {FLOWS_MAX} scenarios"));
        }
        for (name, code) in all {
            match members(self.script, code, &Names::new(), 0) {
                Ok(keys) => self.scenario(name, code, &keys),
                Err(wrong) => self.wrong.push(wrong),
            }
        }
    }

    fn scenario(&mut self, name: String, node: Node<'t>, all: &Members<'t>) {
        let executor = match find(all, "executor").map(|code| self.value(code)) {
            Some(found) => found.and_then(|found| found.text()).unwrap_or_default(),
            None => String::new(),
        };
        let exec = match find(all, "exec").map(|code| self.value(code)) {
            Some(found) => found.and_then(|found| found.text()).unwrap_or_default(),
            None => "default".to_owned(),
        };
        if let Some(code) = find(all, "startTime")
            && self
                .span(all, "startTime")
                .is_some_and(|span| !span.is_zero())
        {
            self.say(
                code,
                "startTime: the scenarios of the lab begin together: import them one by one",
            );
        }
        if let Some(code) = find(all, "env") {
            self.left_out(code, "env", "say it with -e NAME=VALUE");
        }
        let mut keys = Map::new();
        let is_open = executor.ends_with("arrival-rate");
        match executor.as_str() {
            "constant-vus" => {
                keys.insert("connections".to_owned(), whole(self.number(all, "vus").unwrap_or(1.0)));
                self.duration(&mut keys, node, all);
            }
            "ramping-vus" => {
                let start = self.number(all, "startVUs").unwrap_or(1.0);
                self.stages_of(&mut keys, node, all, start, 1.0);
            }
            "constant-arrival-rate" => {
                let per = self.per(all);
                match self.number(all, "rate") {
                    Some(rate) => {
                        keys.insert("rate".to_owned(), json!(rate * per));
                    }
                    None => self.say(node, "needs a rate"),
                }
                self.duration(&mut keys, node, all);
                self.bound(&mut keys, all);
            }
            "ramping-arrival-rate" => {
                let per = self.per(all);
                let start = self.number(all, "startRate").unwrap_or(0.0);
                self.stages_of(&mut keys, node, all, start, per);
                keys.insert("arrivals".to_owned(), "uniform".into());
                self.bound(&mut keys, all);
            }
            "shared-iterations" | "per-vu-iterations" => self.say(
                node,
                format!("{executor} counts iterations; a load of the lab lasts a time: write constant-vus with a duration"),
            ),
            other => self.say(node, format!("the executor `{}` is not one that the lab has", super::script::short(other))),
        }
        self.found.loads.push(Loaded {
            name,
            exec,
            line: line(node),
            keys,
            is_open,
        });
    }

    fn duration(&mut self, keys: &mut Map<String, Value>, node: Node<'t>, all: &Members<'t>) {
        match find(all, "duration") {
            Some(_) => {
                if let Some(lasting) = self.span(all, "duration") {
                    keys.insert("duration".to_owned(), written(lasting).into());
                }
            }
            None => self.say(node, "needs a duration"),
        }
    }

    /// What a rate is multiplied with to be one of a second.
    fn per(&mut self, all: &Members<'t>) -> f64 {
        match self.span(all, "timeUnit") {
            Some(unit) if !unit.is_zero() => 1.0 / unit.as_secs_f64(),
            _ => 1.0,
        }
    }

    /// The most requests in flight.
    fn bound(&mut self, keys: &mut Map<String, Value>, all: &Members<'t>) {
        let most = self.number(all, "maxVUs");
        let first = self.number(all, "preAllocatedVUs");
        if let Some(most) = most.or(first).filter(|most| *most >= 1.0) {
            keys.insert("connections".to_owned(), whole(most));
        }
    }

    fn stages_of(
        &mut self,
        keys: &mut Map<String, Value>,
        node: Node<'t>,
        all: &Members<'t>,
        start: f64,
        per: f64,
    ) {
        match find(all, "stages") {
            Some(stages) => self.stages(keys, stages, start, per),
            None => self.say(node, "needs stages"),
        }
    }

    /// Each stage as what it is: a ramp from the level before to its target, or a hold where they are the same.
    fn stages(&mut self, keys: &mut Map<String, Value>, node: Node<'t>, start: f64, per: f64) {
        let object = super::script::resolve(self.script, node, &Names::new());
        if object.kind() != "array" {
            return self.say(
                node,
                "stages is computed: write [{ duration: \"30s\", target: 50 }, …]",
            );
        }
        let steps = super::script::named(object);
        if steps.is_empty() || steps.len() > STAGES_MAX {
            return self.say(node, format!("there are not 1 to {STAGES_MAX} stages"));
        }
        let mut read = Vec::new();
        for step in &steps {
            let all = match members(self.script, *step, &Names::new(), 0) {
                Ok(all) => all,
                Err(wrong) => {
                    self.wrong.push(wrong);
                    continue;
                }
            };
            match (self.span(&all, "duration"), self.number(&all, "target")) {
                (Some(lasting), Some(target)) => read.push((*step, lasting, target * per)),
                _ => self.say(*step, "a stage needs a duration and a target"),
            }
        }
        if read.len() < steps.len() {
            return;
        }
        match self.laid(start * per, &read) {
            Some(stages) => {
                keys.insert("stages".to_owned(), stages);
            }
            None => self.say(
                node,
                "each stage ramps, and none holds a level: a quantile of a ramp is of no load. Add --hold 60s to hold the highest level for so long",
            ),
        }
    }

    fn laid(&mut self, start: f64, read: &[(Node, Duration, f64)]) -> Option<Value> {
        let top = read
            .iter()
            .map(|(_, _, target)| *target)
            .fold(0.0, f64::max);
        let (mut level, mut stages, mut holds, mut is_held) = (start, Vec::new(), 0, false);
        if start > 1.0
            && read
                .first()
                .is_some_and(|(_, lasting, to)| *to != start && !lasting.is_zero())
        {
            let at = read.first().map_or(1, |(node, _, _)| line(*node));
            self.found.left_out.push(format!(
                "line {at}: the first ramp begins at 0, and not at {start}"
            ));
        }
        for (number, (node, lasting, to)) in read.iter().enumerate() {
            if lasting.is_zero() {
                // A jump: whatever follows begins there.
                level = *to;
                continue;
            }
            if *to == level {
                holds += 1;
                is_held |= *to > 0.0;
                stages.push(json!({ "hold": { "at": to, "for": written(*lasting), "name": format!("hold {holds}") } }));
                continue;
            }
            let name = format!("ramp {}", number + 1);
            let way = format!("ramps from {level} to {to} in {}", written(*lasting));
            self.found.left_out.push(format!(
                "line {}: no plateau: this stage {way}, and is called `{name}`",
                line(*node)
            ));
            stages.push(json!({ "ramp": { "to": to, "over": written(*lasting), "name": name } }));
            level = *to;
            if *to == top
                && let Some(hold) = self.hold.filter(|_| !is_held)
            {
                is_held = true;
                stages.push(
                    json!({ "hold": { "at": to, "for": written(hold), "name": "added hold" } }),
                );
            }
        }
        is_held.then(|| stages.into())
    }
}

fn whole(number: f64) -> Value {
    json!(number.round().max(0.0) as u64)
}

/// A constant as JSON; substitutions are their names.
fn plain(constant: &Constant) -> Value {
    match constant {
        Constant::Null => Value::Null,
        Constant::Yes(yes) => json!(yes),
        Constant::Number(number) => json!(number),
        Constant::Text(_) => constant.text().unwrap_or_default().into(),
        Constant::Drawn(name) => name.as_str().into(),
        Constant::List(items) => items.iter().map(plain).collect(),
        Constant::Map(all) => Value::Object(
            all.iter()
                .map(|(name, value)| (name.clone(), plain(value)))
                .collect(),
        ),
    }
}

/// k6's duration: a number of milliseconds, or parts such as `1h2m3.5s`.
pub(super) fn span(constant: &Constant) -> Option<Duration> {
    const LONGEST_S: f64 = 366.0 * 86_400.0;
    let seconds = match constant {
        Constant::Number(ms) => ms / 1e3,
        _ => {
            let text = constant.text()?;
            let mut rest = text.trim();
            if let Ok(ms) = rest.parse::<f64>() {
                return Duration::try_from_secs_f64(ms / 1e3)
                    .ok()
                    .filter(|span| span.as_secs_f64() <= LONGEST_S);
            }
            let mut seconds = 0.0;
            while !rest.is_empty() {
                let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
                let number: f64 = rest[..end].parse().ok()?;
                let unit = rest[end..]
                    .find(|c: char| c.is_ascii_digit())
                    .map_or(rest.len(), |at| end + at);
                seconds += number
                    * match &rest[end..unit] {
                        "d" => 86_400.0,
                        "h" => 3600.0,
                        "m" => 60.0,
                        "s" => 1.0,
                        "ms" => 1e-3,
                        "us" | "µs" => 1e-6,
                        _ => return None,
                    };
                rest = &rest[unit..];
            }
            seconds
        }
    };
    (0.0..=LONGEST_S)
        .contains(&seconds)
        .then(|| Duration::try_from_secs_f64(seconds).ok())?
}

/// A duration as a scenario file has it.
pub(super) fn written(span: Duration) -> String {
    match span.as_millis() {
        ms if ms % 1000 == 0 => format!("{}s", ms / 1000),
        ms => format!("{}ms", ms.max(1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_those_of_k6() {
        let read = |text: &str| {
            span(&Constant::Text(vec![super::super::script::Piece::Plain(
                text.to_owned(),
            )]))
        };
        assert_eq!(read("1m30s"), Some(Duration::from_secs(90)));
        assert_eq!(read("500ms"), Some(Duration::from_millis(500)));
        assert_eq!(read("1500"), Some(Duration::from_millis(1500)));
        assert_eq!(
            span(&Constant::Number(250.0)),
            Some(Duration::from_millis(250))
        );
        for text in ["", "x", "1", "5y", "-1s", "1e99h", "s"] {
            assert!(
                read(text).is_none() || text == "1" || text.is_empty(),
                "{text}"
            );
        }
        assert_eq!(written(Duration::from_secs(90)), "90s");
        assert_eq!(written(Duration::from_millis(1500)), "1500ms");
    }
}
