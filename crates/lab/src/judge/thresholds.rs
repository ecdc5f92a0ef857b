//! Thresholds: what a run has to keep to, in k6's spelling and with our metrics, and whether it did.
//!
//! A threshold is read before load is sent, and everything that could make it meaningless is an error then: a metric
//! that does not exist, a statistic that the metric does not have, a step that is not in the plan, a quantile of a
//! ramp. After the run it is judged on holds that are no warm-up, unless it names a step. A metric without a sample
//! is a breach.

use std::time::Duration;

use serde_json::Value;

use super::metrics::{self, METRICS, Only, Shape, Source, Statistic, Window};
use crate::result::{FlowResult, Run, ThresholdResult};

/// The most thresholds of one run.
pub(crate) const THRESHOLDS_MAX: usize = 256;
/// The most bytes of a threshold's metric or expression.
pub(crate) const TEXT_BYTES_MAX: usize = 1024;

/// How a number is compared with its bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operator {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Equal,
    NotEqual,
}

const OPERATORS: &[(&str, Operator)] = &[
    // Longer ones first, since they begin with shorter ones.
    ("===", Operator::Equal),
    ("==", Operator::Equal),
    ("!=", Operator::NotEqual),
    ("<=", Operator::LessOrEqual),
    (">=", Operator::GreaterOrEqual),
    ("<", Operator::Less),
    (">", Operator::Greater),
];

/// One threshold, read and ready to be judged.
#[derive(Clone, Debug, PartialEq)]
pub struct Threshold {
    /// As they were written.
    pub metric: String,
    pub expression: String,
    shape: Shape,
    source: Source,
    statistic: Statistic,
    operator: Operator,
    bound: f64,
    only: Tags,
    /// The run is to be stopped when this is breached, once so much time has passed.
    pub abort_after: Option<Duration>,
}

/// What a metric is restricted to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Tags {
    flow: Option<String>,
    step: Option<String>,
    kind: Option<String>,
    class: Option<String>,
    watched: Option<String>,
}

/// What a plan has, so that a threshold on what it has not is found before load is sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Known {
    pub flows: Vec<String>,
    /// Each step's name, and whether it is a hold that is no warm-up.
    pub steps: Vec<(String, bool)>,
    /// Names of kinds of requests.
    pub kinds: Vec<String>,
}

impl Known {
    /// What this plan has.
    pub(crate) fn of(plan: &crate::plan::Plan) -> Known {
        let mut known = Known::default();
        for flow in &plan.flows {
            known.flows.push(flow.name.clone());
            let steps = flow.profile.steps().iter();
            known
                .steps
                .extend(steps.map(|step| (step.name.clone(), step.is_hold() && !step.warmup)));
            known
                .kinds
                .extend(flow.requests.iter().map(|request| request.name.clone()));
        }
        known
    }
}

/// Reads the thresholds of a scenario: a map from metric to an expression, or a list of expressions, each a text or
/// k6's object of `threshold`, `abortOnFail` and `delayAbortEval`. With `known`, the names in them are checked too.
///
/// # Errors
/// Every problem found, each a sentence that begins with the metric.
pub(crate) fn read(map: &Value, known: Option<&Known>) -> Result<Vec<Threshold>, Vec<String>> {
    let Some(map) = map.as_object() else {
        return Err(vec![
            "thresholds are a map from a metric to its expressions".to_owned(),
        ]);
    };
    let (mut found, mut problems) = (Vec::new(), Vec::new());
    for (metric, expressions) in map {
        let list = match expressions {
            Value::Array(list) => list.as_slice(),
            one => std::slice::from_ref(one),
        };
        if list.is_empty() {
            problems.push(format!("{metric}: there is no expression"));
        }
        for expression in list {
            match read_one(metric, expression) {
                Ok(threshold) => {
                    problems.extend(known.into_iter().flat_map(|known| threshold.unknown(known)));
                    found.push(threshold);
                }
                Err(problem) => problems.push(problem),
            }
        }
    }
    if found.len() > THRESHOLDS_MAX {
        problems.push(format!(
            "{} thresholds are given: {THRESHOLDS_MAX} is the most",
            found.len()
        ));
    }
    if problems.is_empty() {
        Ok(found)
    } else {
        Err(problems)
    }
}

fn read_one(metric: &str, expression: &Value) -> Result<Threshold, String> {
    if let Some(text) = expression.as_str() {
        return parse(metric, text);
    }
    let wrong = || {
        format!(
            "{metric}: an expression is a text, or an object of threshold, abortOnFail and delayAbortEval"
        )
    };
    let object = expression.as_object().ok_or_else(wrong)?;
    let (mut text, mut aborts, mut delay) = (None, false, Duration::ZERO);
    for (key, value) in object {
        match (key.as_str(), value) {
            ("threshold", Value::String(value)) => text = Some(value),
            ("abortOnFail", Value::Bool(value)) => aborts = *value,
            ("delayAbortEval", Value::Null) => {}
            ("delayAbortEval", Value::String(value)) => {
                let ms = duration_ms(value).ok_or_else(|| {
                    format!("{metric}: delayAbortEval {value:?} is not a time: write 10s or 1m")
                })?;
                delay = Duration::try_from_secs_f64(ms / 1000.0).map_err(|_| wrong())?;
            }
            _ => return Err(wrong()),
        }
    }
    let mut threshold = parse(metric, text.ok_or_else(wrong)?)?;
    threshold.abort_after = aborts.then_some(delay);
    if aborts && !threshold.can_stop() {
        return Err(format!(
            "{metric}: {} is not known before the end, so abortOnFail cannot stop the run by it",
            threshold.expression
        ));
    }
    Ok(threshold)
}

/// Reads one threshold: a metric, which may be restricted as in `http_req_duration{scenario:echo,step:steady}`, and an
/// expression such as `p(95)<250`. Durations are in ms, or have a unit; shares are numbers, or have a `%`.
///
/// # Errors
/// A sentence that begins with the metric and says what there is.
pub(crate) fn parse(metric: &str, expression: &str) -> Result<Threshold, String> {
    if metric.len() > TEXT_BYTES_MAX || expression.len() > TEXT_BYTES_MAX {
        return Err(format!("a threshold is longer than {TEXT_BYTES_MAX} bytes"));
    }
    let (name, tags) = match metric.split_once('{') {
        Some((name, tags)) => (name.trim(), Some(tags)),
        None => (metric.trim(), None),
    };
    let Some((shape, source)) = metrics::find(name) else {
        let names: Vec<&str> = METRICS.iter().map(|(name, ..)| *name).collect();
        return Err(format!(
            "there is no metric {name:?}; there are {}",
            names.join(", ")
        ));
    };
    let only = match tags {
        Some(tags) => parse_tags(metric, tags, source)?,
        None => Tags::default(),
    };
    let (statistic, operator, bound) = split(expression).ok_or_else(|| {
        format!("{metric}: {expression:?} is not a statistic, one of <, <=, >, >=, == or !=, and a number")
    })?;
    let statistic = Statistic::parse(statistic, shape).ok_or_else(|| {
        let there = shape.statistics();
        format!("{metric}: it has no {statistic:?}; it has {there}")
    })?;
    let bound = parse_bound(bound, shape, statistic).ok_or_else(|| {
        format!(
            "{metric}: {bound:?} is not a bound for it; write {}",
            bound_hint(shape, statistic)
        )
    })?;
    Ok(Threshold {
        metric: metric.to_owned(),
        expression: expression.trim().to_owned(),
        shape,
        source,
        statistic,
        operator,
        bound,
        only,
        abort_after: None,
    })
}

/// Reads `scenario:echo,step:steady}`.
fn parse_tags(metric: &str, text: &str, source: Source) -> Result<Tags, String> {
    let there =
        "scenario, step, name, class (of errors), process (of cpu_us_per_request and rss_mb)";
    let inside = text
        .trim_end()
        .strip_suffix('}')
        .ok_or_else(|| format!("{metric}: a closing brace is missing"))?;
    let mut tags = Tags::default();
    for pair in inside
        .split(',')
        .map(str::trim)
        .filter(|pair| !pair.is_empty())
    {
        let (key, value) = pair.split_once(':').ok_or_else(|| {
            format!("{metric}: a tag is written name:value; the names are {there}")
        })?;
        let value = value.trim().trim_matches(['"', '\'']).to_owned();
        let place = match key.trim() {
            "scenario" => &mut tags.flow,
            "step" => &mut tags.step,
            "name" => &mut tags.kind,
            "class" if source == Source::Failed && metrics::is_fault(&value) => &mut tags.class,
            "class" if source == Source::Failed => {
                let faults = crate::tally::Fault::ALL.iter().map(|fault| fault.as_str());
                let faults: Vec<&str> = faults.collect();
                return Err(format!(
                    "{metric}: there is no class {value:?}; there are {}",
                    faults.join(", ")
                ));
            }
            "process" if matches!(source, Source::WatchedCpu | Source::Rss) => &mut tags.watched,
            // Our durations are of good answers anyway.
            "expected_response" if value == "true" => continue,
            other => {
                return Err(format!(
                    "{metric}: it has no tag {other:?}; the names are {there}"
                ));
            }
        };
        if value.is_empty() || place.replace(value).is_some() {
            return Err(format!(
                "{metric}: the tag {key:?} is empty, or there twice"
            ));
        }
    }
    if tags.kind.is_some() && tags.step.is_some() {
        return Err(format!(
            "{metric}: a run keeps no numbers of a name in one step; give one of them"
        ));
    }
    let is_of_the_host = matches!(source, Source::WatchedCpu | Source::Rss);
    if is_of_the_host && (tags.kind.is_some() || tags.flow.is_some()) {
        return Err(format!(
            "{metric}: a process cannot be told apart by scenario or name"
        ));
    }
    Ok(tags)
}

/// The statistic, the operator and the bound of an expression.
fn split(expression: &str) -> Option<(&str, Operator, &str)> {
    let at = expression.find(['<', '>', '=', '!'])?;
    let (statistic, rest) = expression.split_at(at);
    let (sign, operator) = OPERATORS.iter().find(|(sign, _)| rest.starts_with(sign))?;
    Some((statistic.trim(), *operator, rest[sign.len()..].trim()))
}

fn parse_bound(text: &str, shape: Shape, statistic: Statistic) -> Option<f64> {
    let is_duration = shape == Shape::Duration && statistic != Statistic::Count;
    let is_share = shape == Shape::Share && statistic == Statistic::Rate;
    let bound = match text.strip_suffix('%') {
        Some(percent) if is_share => number(percent.trim())? / 100.0,
        Some(_) => return None,
        None if is_duration => duration_ms(text)?,
        None => number(text)?,
    };
    (!is_share || (0.0..=1.0).contains(&bound)).then_some(bound)
}

fn bound_hint(shape: Shape, statistic: Statistic) -> &'static str {
    match shape {
        Shape::Duration if statistic != Statistic::Count => "250 (ms), 250ms, 2s, 800us or 1m",
        Shape::Share if statistic == Statistic::Rate => "a share between 0 and 1, or 1%",
        _ => "a number",
    }
}

/// A plain number: finite, and not negative.
fn number(text: &str) -> Option<f64> {
    let is_plain = !text.is_empty()
        && text
            .bytes()
            .all(|byte| byte.is_ascii_digit() || b".eE+-".contains(&byte));
    let value: f64 = text.parse().ok().filter(|_| is_plain)?;
    (value.is_finite() && value >= 0.0).then_some(value)
}

/// A duration in ms; without a unit it is in ms already.
fn duration_ms(text: &str) -> Option<f64> {
    let units = [
        ("ms", 1.0),
        ("us", 1e-3),
        ("µs", 1e-3),
        ("ns", 1e-6),
        ("s", 1e3),
        ("m", 60e3),
        ("h", 3_600e3),
    ];
    let unit = units
        .iter()
        .find_map(|(unit, ms)| Some((text.strip_suffix(unit)?, ms)));
    match unit {
        Some((value, ms)) => Some(number(value.trim())? * ms),
        None => number(text),
    }
}

impl Threshold {
    /// What it names that the plan has not, and why it cannot be judged on what the plan has.
    fn unknown(&self, known: &Known) -> Vec<String> {
        let mut problems = Vec::new();
        let mut check = |what: &str, name: &Option<String>, names: Vec<&str>| {
            if let Some(name) = name.as_ref().filter(|name| !names.contains(&name.as_str())) {
                let metric = &self.metric;
                let there = names.join(", ");
                problems.push(format!(
                    "{metric}: there is no {what} {name:?}; there are {there}"
                ));
            }
        };
        check(
            "scenario",
            &self.only.flow,
            known.flows.iter().map(String::as_str).collect(),
        );
        check(
            "step",
            &self.only.step,
            known.steps.iter().map(|(name, _)| name.as_str()).collect(),
        );
        check(
            "name",
            &self.only.kind,
            known.kinds.iter().map(String::as_str).collect(),
        );
        let holds = |name: &str| {
            known
                .steps
                .iter()
                .any(|(step, is_hold)| step == name && *is_hold)
        };
        match &self.only.step {
            Some(step) if self.statistic.needs_hold() && problems.is_empty() && !holds(step) => {
                problems.push(format!(
                    "{}: {step} is a ramp or a warm-up, of which {} says nothing; name a hold",
                    self.metric, self.expression
                ));
            }
            None if !known.steps.iter().any(|(_, is_hold)| *is_hold) => problems.push(format!(
                "{}: there is no hold to judge it on; add one, or name a step that is to be counted",
                self.metric
            )),
            _ => {}
        }
        problems
    }

    /// Whether a breach in the middle of a run is one: what is counted may yet reach its least, and what the host
    /// says is put together at the end.
    fn can_stop(&self) -> bool {
        let only_grows = self.statistic == Statistic::Count
            && !matches!(self.operator, Operator::Less | Operator::LessOrEqual);
        !only_grows && self.shape != Shape::Value
    }

    /// Whether a breach stops a run that has gone on for so long.
    pub fn stops_by(&self, elapsed: Duration) -> bool {
        self.abort_after.is_some_and(|after| after <= elapsed)
    }

    fn is_kept(&self, found: f64) -> bool {
        match self.operator {
            Operator::Less => found < self.bound,
            Operator::LessOrEqual => found <= self.bound,
            Operator::Greater => found > self.bound,
            Operator::GreaterOrEqual => found >= self.bound,
            Operator::Equal => found == self.bound,
            Operator::NotEqual => found != self.bound,
        }
    }

    /// Of several numbers, the one that is kept least.
    fn worst(&self, found: impl Iterator<Item = f64>) -> Option<f64> {
        match self.operator {
            Operator::Less | Operator::LessOrEqual => found.reduce(f64::max),
            Operator::Greater | Operator::GreaterOrEqual => found.reduce(f64::min),
            Operator::Equal | Operator::NotEqual => {
                let mut found = found.peekable();
                let first = found.peek().copied();
                found.find(|value| !self.is_kept(*value)).or(first)
            }
        }
    }

    /// Judges it on a run, or on what there is of one so far.
    pub fn judge(&self, run: &Run) -> ThresholdResult {
        let (found, window) = self.find(run);
        ThresholdResult {
            metric: self.metric.clone(),
            expression: self.expression.clone(),
            found,
            ok: found.is_some_and(|found| self.is_kept(found)),
            window,
        }
    }

    fn find(&self, run: &Run) -> (Option<f64>, String) {
        let only = Only {
            class: self.only.class.as_deref(),
            watched: self.only.watched.as_deref(),
        };
        let windows = match self.windows(run) {
            Ok(windows) => windows,
            Err(why) => return (None, why),
        };
        let read: Vec<Option<f64>> = windows
            .iter()
            .map(|window| window.read(self.source, self.statistic, only))
            .collect();
        let what = match (&self.only.step, &self.only.kind) {
            (Some(step), _) => step.clone(),
            (None, Some(kind)) => format!("requests named {kind}, in holds"),
            (None, None) => "holds".to_owned(),
        };
        let of = self
            .only
            .flow
            .as_ref()
            .map_or(String::new(), |flow| format!(" of {flow}"));
        let silent = |what: String| {
            let tail = matches!(self.statistic, Statistic::Percentile(percent) if percent > 99.0);
            let why = if tail {
                "too few requests for it"
            } else {
                "no sample"
            };
            (None, format!("{what}: {why}"))
        };
        if read.iter().all(Option::is_none) {
            return silent(what + &of);
        }
        let adds_up = self.statistic.adds_up()
            || self.statistic == Statistic::Rate && self.shape == Shape::Count;
        if adds_up || read.len() == 1 {
            return (Some(read.iter().flatten().sum()), what + &of);
        }
        if read.iter().any(Option::is_none) {
            return silent(what + ", one of several");
        }
        let count = read.len();
        let worst = self.worst(read.into_iter().flatten());
        (worst, format!("{what}{of}, the worst of {count}"))
    }

    /// The windows that it is about; an error says why there is none.
    fn windows<'a>(&self, run: &'a Run) -> Result<Vec<Window<'a>>, String> {
        let is_named = |name: &str| self.only.flow.as_deref().is_none_or(|flow| flow == name);
        let flows: Vec<_> = run
            .flows
            .iter()
            .filter(|flow| is_named(&flow.name))
            .collect();
        if let Some(step) = &self.only.step {
            return self.windows_of_step(run, &flows, step);
        }
        let has_hold = |flow: &&FlowResult| flow.steps.iter().any(|step| step.kind == "hold");
        if !flows.iter().any(has_hold) {
            return Err(
                "there is no hold: of a ramp nothing is judged; name a step to count in it"
                    .to_owned(),
            );
        }
        let held = flows.into_iter().filter(has_hold);
        let window = |summary| Window {
            run,
            summary,
            step: "",
        };
        if let Some(kind) = &self.only.kind {
            let kinds = held
                .flat_map(|flow| &flow.kinds)
                .filter(|found| found.name == *kind);
            let windows: Vec<_> = kinds.map(|kind| window(&kind.summary)).collect();
            return if windows.is_empty() {
                Err(format!("nothing is named {kind}"))
            } else {
                Ok(windows)
            };
        }
        // Of everything together only where nothing of it is a ramp.
        if self.only.flow.is_none() && run.flows.iter().all(|flow| has_hold(&flow)) {
            return Ok(vec![window(&run.measured)]);
        }
        Ok(held.map(|flow| window(&flow.measured)).collect())
    }

    fn windows_of_step<'a>(
        &self,
        run: &'a Run,
        flows: &[&'a FlowResult],
        name: &str,
    ) -> Result<Vec<Window<'a>>, String> {
        let steps = flows.iter().flat_map(|flow| &flow.steps);
        let steps: Vec<_> = steps.filter(|step| step.name == name).collect();
        if steps.is_empty() {
            return Err(format!("there is no step {name}"));
        }
        if self.statistic.needs_hold() && steps.iter().any(|step| step.kind != "hold") {
            return Err(format!(
                "{name} is a ramp or a warm-up, of which this says nothing"
            ));
        }
        // What the host says of a step is of all flows together.
        let is_of_the_host = matches!(self.source, Source::WatchedCpu | Source::Rss);
        let count = if is_of_the_host { 1 } else { steps.len() };
        let windows = steps.into_iter().take(count);
        Ok(windows.map(|step| Window::of_step(run, step)).collect())
    }
}

/// Judges all thresholds on a run.
pub(crate) fn judge(thresholds: &[Threshold], run: &Run) -> Vec<ThresholdResult> {
    thresholds
        .iter()
        .map(|threshold| threshold.judge(run))
        .collect()
}

#[cfg(test)]
mod tests;
