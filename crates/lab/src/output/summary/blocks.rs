//! The body of the summary: a block for all flows, one for each, and one for the machine.

use super::super::table::Table;
use super::super::units::{
    NONE, bytes, clock, count, cut, duration, duration_or_none, failed_share, level, memory,
    number, plain,
};
use crate::result::{FlowResult, Noise, Quantiles, Run, StepResult, Summary, Watched};

/// Most rows of any table; `run.json` has the others.
const ROWS_MAX: usize = 48;
/// Most columns of a name in a table.
const NAME_MAX: usize = 24;
/// What is shown of each step: the three histograms that every step has.
const OF_STEPS: [&str; 3] = ["response", "service", "lag"];

/// Adds every block.
pub(super) fn run(run: &Run, lines: &mut Vec<String>) {
    if let [flow] = run.flows.as_slice() {
        head(&title(&run.meta.name, &flow.name), lines);
        whole(run, lines);
        self::flow(flow, lines);
    } else {
        head(&plain(&run.meta.name), lines);
        whole(run, lines);
        counts(&run.measured, lines);
        latency(&[(String::new(), &run.measured)], lines);
        for flow in &run.flows {
            lines.push(String::new());
            head(&plain(&flow.name), lines);
            self::flow(flow, lines);
        }
    }
    watched(&run.watched, lines);
    machine(run, lines);
}

fn title(run: &str, flow: &str) -> String {
    if run.is_empty() || run == flow {
        plain(flow)
    } else {
        plain(run)
    }
}

/// A rule with a name in it, 80 columns wide.
fn head(name: &str, lines: &mut Vec<String>) {
    let name = cut(name, 70);
    let rest = 80usize.saturating_sub(name.chars().count() + 4);
    lines.push(format!("── {name} {}", "─".repeat(rest)));
}

fn row(name: &str, text: &str, lines: &mut Vec<String>) {
    lines.push(format!(" {name:<12} {text}"));
}

/// What holds for the run and not for a flow: how long, and what was not measured.
fn whole(run: &Run, lines: &mut Vec<String>) {
    let meta = &run.meta;
    let mut text = format!(
        "{} of {} (holds that are no warm-up)",
        clock(run.measured.seconds),
        clock(meta.seconds)
    );
    if !run.flows.iter().any(has_hold) {
        text = format!("{} (there is no hold: no headline)", clock(meta.seconds));
    }
    if meta.partial {
        text += ", stopped early";
    }
    if let Some(threshold) = &meta.stopped_by {
        text += &format!(" by {}", plain(threshold));
    }
    row("measured", &text, lines);
    for (name, text) in [
        ("what", &meta.description),
        ("stands for", &meta.represents),
    ] {
        if !text.is_empty() {
            row(name, &plain(text), lines);
        }
    }
    if !meta.excludes.is_empty() {
        row("not measured", &plain(&meta.excludes.join("; ")), lines);
    }
    if run.requests != run.measured.requests {
        let text = format!(
            "{} completed, warm-up and ramps included",
            count(run.requests)
        );
        row("in all", &text, lines);
    }
    if let Some(origin) = &run.origin {
        let text = format!(
            "counted {} requests, {} of them more than once",
            count(origin.distinct),
            count(origin.duplicates)
        );
        row("origin", &text, lines);
    }
}

fn has_hold(flow: &FlowResult) -> bool {
    flow.steps.iter().any(|step| step.kind == "hold")
}

fn flow(flow: &FlowResult, lines: &mut Vec<String>) {
    let targets: Vec<String> = flow.targets.iter().map(|url| plain(url)).collect();
    row("target", &targets.join(", "), lines);
    let threads = if flow.threads == 1 {
        "thread"
    } else {
        "threads"
    };
    let bound = if flow.model == "open" { "at most " } else { "" };
    let load = format!(
        "{}, {bound}{} connections on {} {threads}, {}",
        plain(&flow.model),
        count(flow.connections as u64),
        flow.threads,
        plain(&flow.protocol)
    );
    row("load", &load, lines);
    counts(&flow.measured, lines);
    mean(flow, lines);
    steps(flow, lines);
    let mut parts = vec![(String::new(), &flow.measured)];
    // A single hold is what is measured, and has been shown.
    let holds = flow.steps.iter().filter(|step| step.kind == "hold").count();
    let others = flow
        .steps
        .iter()
        .filter(|step| holds != 1 || step.kind != "hold");
    if flow.steps.len() > 1 {
        parts.extend(others.map(|step| (plain(&step.name), &step.summary)));
    }
    latency(&parts, lines);
    kinds(flow, lines);
}

fn counts(summary: &Summary, lines: &mut Vec<String>) {
    let mut requests = format!("{}  {}/s", count(summary.requests), number(summary.rate));
    if let Some(planned) = summary.rate_planned {
        let share = if planned > 0.0 {
            summary.rate / planned
        } else {
            f64::NAN
        };
        let share = share * 100.0;
        requests += &format!(" of {}/s planned ({share:.1} %)", number(planned));
    }
    row("requests", &requests, lines);
    let ended = summary.good + summary.failed;
    let mut errors = format!(
        "{}  {}",
        count(summary.failed),
        failed_share(summary.failed, ended)
    );
    if !summary.errors.is_empty() {
        errors += &format!(": {}", pairs(&summary.errors));
    }
    row("errors", &errors, lines);
    if summary.dropped > 0 || summary.queued > 0 {
        let text = format!(
            "{} were due and never sent; {} waited for a connection",
            count(summary.dropped),
            count(summary.queued)
        );
        row("late", &text, lines);
    }
    if summary.failed > 0 && !summary.statuses.is_empty() {
        row("statuses", &pairs(&summary.statuses), lines);
    }
    let rate = |n: u64| bytes(n as f64 / summary.seconds);
    let text = format!(
        "{} sent ({}/s), {} received ({}/s)",
        bytes(summary.bytes_out as f64),
        rate(summary.bytes_out),
        bytes(summary.bytes_in as f64),
        rate(summary.bytes_in)
    );
    row("bytes", &text, lines);
    tokens(summary, lines);
    cpu(summary, lines);
}

fn pairs(counts: &std::collections::BTreeMap<String, u64>) -> String {
    let pairs = counts.iter();
    let pairs: Vec<_> = pairs
        .map(|(name, n)| format!("{} {}", plain(name), count(*n)))
        .collect();
    pairs.join(", ")
}

fn tokens(summary: &Summary, lines: &mut Vec<String>) {
    if summary.tokens == 0 {
        return;
    }
    let all = number(summary.tokens as f64 / summary.seconds);
    let mut text = format!("{}  {all}/s", count(summary.tokens));
    if let Some(one) = &summary.tokens_per_second {
        text += &format!(
            "; one stream {}/s (p50), {}/s (least)",
            number(one.p50),
            number(one.min)
        );
    }
    row("tokens", &text, lines);
}

fn cpu(summary: &Summary, lines: &mut Vec<String>) {
    let parts = [
        (summary.watched_cpu_us, "watched"),
        (summary.generator_cpu_us, "generator"),
    ];
    let parts: Vec<String> = parts
        .iter()
        .filter_map(|(us, who)| Some(format!("{} {who}", duration((*us)?))))
        .collect();
    if !parts.is_empty() {
        row("CPU/request", &parts.join(", "), lines);
    }
}

/// The mean latency, and beside it what it must be when connections wait for each answer.
fn mean(flow: &FlowResult, lines: &mut Vec<String>) {
    let Some(response) = flow.measured.latency.get("response") else {
        return;
    };
    let mut text = duration(response.mean);
    let holds: Vec<_> = flow
        .steps
        .iter()
        .filter(|step| step.kind == "hold")
        .collect();
    if let [hold] = holds.as_slice()
        && let Some(expected) = little_us(flow, hold)
    {
        text += &format!(
            "; {} connections / {}/s = {} (Little's law)",
            level(hold.to),
            number(hold.summary.rate),
            duration(expected)
        );
    }
    row("mean", &text, lines);
}

/// Little's law: connections / rate, in microseconds, on a closed hold. A connection's pause between two requests is
/// in it. Absent where one connection carries several requests.
fn little_us(flow: &FlowResult, step: &StepResult) -> Option<f64> {
    let applies = flow.model == "closed" && step.kind != "ramp" && flow.protocol != "http2";
    (applies && step.to > 0.0 && step.summary.rate > 0.0).then(|| step.to / step.summary.rate * 1e6)
}

/// One row for each stage, where there are several.
fn steps(flow: &FlowResult, lines: &mut Vec<String>) {
    if flow.steps.len() < 2 {
        return;
    }
    lines.push(String::new());
    let at = if flow.model == "open" {
        "arrivals/s"
    } else {
        "connections"
    };
    let head = ["stage", "", at, "requests", "rate", "errors", "mean", "N/X"];
    let mut table = Table::new(2, head);
    for step in flow.steps.iter().take(ROWS_MAX) {
        let levels = if step.from == step.to {
            level(step.to)
        } else {
            format!("{} to {}", level(step.from), level(step.to))
        };
        let summary = &step.summary;
        let mean = summary.latency.get("response").map(|q| q.mean);
        let little = little_us(flow, step).map(duration);
        table.row(vec![
            cut(&plain(&step.name), NAME_MAX),
            plain(&step.kind),
            levels,
            count(summary.requests),
            format!("{}/s", number(summary.rate)),
            count(summary.failed),
            duration_or_none(mean),
            little.unwrap_or_default(),
        ]);
    }
    lines.extend(table.without_empty_columns().lines());
    left_out(flow.steps.len(), lines);
}

fn left_out(rows: usize, lines: &mut Vec<String>) {
    if rows > ROWS_MAX {
        lines.push(format!(" and {} more in run.json", rows - ROWS_MAX));
    }
}

/// One row for each histogram of each part. The first part is what is measured, and has all of its histograms shown.
fn latency(parts: &[(String, &Summary)], lines: &mut Vec<String>) {
    let head = ["latency", "p50", "p90", "p95", "p99", "p99.9", "max"];
    let mut table = Table::new(1, head);
    for (index, (name, summary)) in parts.iter().take(ROWS_MAX).enumerate() {
        let of_steps = OF_STEPS.iter().filter_map(|metric| {
            let found = summary.latency.get(*metric)?;
            Some((*metric, found))
        });
        let others = summary.latency.iter().filter_map(|(metric, found)| {
            let shown = index == 0 && !OF_STEPS.contains(&metric.as_str());
            shown.then_some((metric.as_str(), found))
        });
        for (metric, found) in of_steps.chain(others) {
            let name = match name.as_str() {
                "" => plain(metric),
                name => format!("{} {}", cut(name, NAME_MAX), plain(metric)),
            };
            table.row(latency_row(name, found));
        }
    }
    if !table.is_empty() {
        lines.push(String::new());
        lines.extend(table.lines());
        left_out(parts.len(), lines);
    }
}

fn latency_row(name: String, found: &Quantiles) -> Vec<String> {
    let numbers = [
        Some(found.p50),
        Some(found.p90),
        Some(found.p95),
        Some(found.p99),
        found.p999,
        Some(found.max),
    ];
    let mut row = vec![name];
    row.extend(numbers.map(duration_or_none));
    row
}

/// One row for each kind of request, where there are several.
fn kinds(flow: &FlowResult, lines: &mut Vec<String>) {
    if flow.kinds.len() < 2 {
        return;
    }
    lines.push(String::new());
    let head = ["request", "requests", "errors", "p50", "p95", "p99", "max"];
    let mut table = Table::new(1, head);
    for kind in flow.kinds.iter().take(ROWS_MAX) {
        let found = kind.summary.latency.get("response");
        let at = |pick: fn(&Quantiles) -> f64| duration_or_none(found.map(pick));
        table.row(vec![
            cut(&plain(&kind.name), NAME_MAX),
            count(kind.summary.requests),
            count(kind.summary.failed),
            at(|q| q.p50),
            at(|q| q.p95),
            at(|q| q.p99),
            at(|q| q.max),
        ]);
    }
    lines.extend(table.lines());
    left_out(flow.kinds.len(), lines);
}

/// Processes and groups over what is measured.
fn watched(watched: &Watched, lines: &mut Vec<String>) {
    let head = ["watched", "", "CPU/request", "cores", "RSS most", "RSS end"];
    let mut table = Table::new(2, head);
    for subject in watched.subjects.iter().take(ROWS_MAX) {
        let Some(step) = subject.steps.iter().find(|step| step.step.is_empty()) else {
            continue;
        };
        let size = |n: Option<u64>| n.map_or_else(|| NONE.to_owned(), memory);
        table.row(vec![
            cut(&plain(&subject.name), NAME_MAX),
            plain(&subject.kind),
            duration_or_none(step.cpu_us_per_request),
            format!("{:.2}", step.cores),
            size(step.rss_bytes_max),
            size(step.rss_bytes_end),
        ]);
    }
    if !table.is_empty() {
        lines.push(String::new());
        lines.extend(table.lines());
    }
}

fn machine(run: &Run, lines: &mut Vec<String>) {
    let machine = &run.meta.machine;
    lines.push(String::new());
    let mut text = format!(
        "{}, {} cores, {}, {}",
        plain(&machine.cpu),
        machine.cores_logical,
        memory(machine.memory_bytes),
        plain(&machine.kernel)
    );
    if let Some(cores) = machine.cgroup_cores {
        text += &format!(", {} cores allowed", number(cores));
    }
    row("machine", &text, lines);
    if let Some(noise) = &run.watched.noise {
        self::noise(noise, lines);
    }
    if let Some(ports) = &run.watched.ports {
        let text = format!(
            "{} of {} in TIME_WAIT at most",
            count(ports.time_wait_max),
            count(ports.range)
        );
        row("local ports", &text, lines);
    }
    ceilings(run, lines);
}

/// How busy the host was with others.
fn noise(noise: &Noise, lines: &mut Vec<String>) {
    let share = |name: &str, share: Option<f64>| {
        share.map_or_else(String::new, |s| format!(", {name} {:.1} %", s * 100.0))
    };
    let text = format!(
        "steal {:.1} %{}{}, load {:.1}",
        noise.steal_share * 100.0,
        share("waiting for a CPU", noise.pressure_share),
        share("others", noise.others_share),
        noise.load1
    );
    row("noise", &text, lines);
}

/// What this machine can do at most, beside what was asked of it.
fn ceilings(run: &Run, lines: &mut Vec<String>) {
    let Some(ceilings) = &run.meta.ceilings else {
        row(
            "ceilings",
            "not known: `weir lab calibrate` finds them",
            lines,
        );
        return;
    };
    let times = if run.measured.rate > 0.0 {
        let times = ceilings.generator_rps / run.measured.rate;
        format!(", {times:.1} times this run")
    } else {
        String::new()
    };
    let generator = format!(
        "generator {}/s{times}, {} of CPU a request",
        number(ceilings.generator_rps),
        duration(ceilings.generator_cpu_us)
    );
    row("ceilings", &generator, lines);
    let others = format!(
        "origin {} of CPU a request, fdatasync {}, timer late by {}",
        duration(ceilings.origin_cpu_us),
        duration(ceilings.fdatasync_ms_p50 * 1000.0),
        duration(ceilings.timer_us_p50)
    );
    row("", &others, lines);
}
