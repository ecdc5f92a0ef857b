//! Where and how a run was made: the machine, its ceilings, the versions, and the command that repeats it.

use maud::{Markup, html};

use super::words::{NONE, bytes, clean, count, micros, number, plural, seconds, share};
use crate::result::{Ceilings, Machine, Run};

/// Names with their values, one below the other.
fn pairs(rows: &[(&str, String)]) -> Markup {
    html! {
        dl { @for (name, value) in rows.iter().filter(|(_, value)| !value.is_empty()) {
            div { dt { (name) } dd { (value) } }
        } }
    }
}

/// The machine, and what else was on it.
pub fn machine(run: &Run) -> Markup {
    let machine = &run.meta.machine;
    let mut rows = machine_rows(machine);
    if let Some(noise) = &run.watched.noise {
        let mut text = format!("steal {}", share(noise.steal_share));
        if let Some(pressure) = noise.pressure_share {
            text += &format!(", CPU pressure {}", share(pressure));
        }
        if let Some(others) = noise.others_share {
            text += &format!(", others {}", share(others));
        }
        text += &format!(", load {}", number(noise.load1));
        rows.push(("noise", text));
    }
    if let Some(ports) = &run.watched.ports {
        let text = format!(
            "{} in the range, at most {} in TIME-WAIT",
            count(ports.range),
            count(ports.time_wait_max)
        );
        rows.push(("local ports", text));
    }
    rows.push(("weir lab", clean(&run.meta.version)));
    rows.push(("begun", clean(&run.meta.started)));
    rows.push(("lasted", seconds(run.meta.seconds)));
    pairs(&rows)
}

fn machine_rows(machine: &Machine) -> Vec<(&'static str, String)> {
    let mut cores = format!("{} logical", machine.cores_logical);
    if let Some(physical) = machine.cores_physical {
        cores += &format!(", {physical} physical");
    }
    if let Some(allowed) = machine.cgroup_cores {
        cores += &format!(", {} allowed by the control group", number(allowed));
    }
    let mut memory = bytes(machine.memory_bytes);
    if let Some(allowed) = machine.cgroup_memory_bytes {
        memory += &format!(", {} allowed by the control group", bytes(allowed));
    }
    let optional = |text: &Option<String>| text.as_deref().map(clean).unwrap_or_default();
    vec![
        ("processor", clean(&machine.cpu)),
        ("cores", cores),
        ("memory", memory),
        ("system", clean(&machine.os)),
        ("kernel", clean(&machine.kernel)),
        ("virtualization", optional(&machine.virtualization)),
        ("frequency governor", optional(&machine.governor)),
        ("clock", optional(&machine.clock_source)),
    ]
}

/// What the machine can do at most, and how far from it the run was.
pub fn ceilings(run: &Run) -> Markup {
    let Some(found) = &run.meta.ceilings else {
        return html! {
            p.none { "Not measured on this machine. " span.code { "weir lab calibrate" } " takes a minute." }
        };
    };
    html! {
        (pairs(&ceiling_rows(found)))
        p { (headroom(run, found)) }
    }
}

fn ceiling_rows(found: &Ceilings) -> Vec<(&'static str, String)> {
    vec![
        (
            "generator",
            format!(
                "{}/s at {} of CPU each",
                number(found.generator_rps),
                micros(found.generator_cpu_us)
            ),
        ),
        (
            "origin",
            format!("{} of CPU for a request", micros(found.origin_cpu_us)),
        ),
        (
            "fdatasync of 4 KiB",
            format!(
                "p50 {}, p95 {}",
                micros(found.fdatasync_ms_p50 * 1e3),
                micros(found.fdatasync_ms_p95 * 1e3)
            ),
        ),
        (
            "timed wake-up late by",
            format!(
                "p50 {}, p99 {}",
                micros(found.timer_us_p50),
                micros(found.timer_us_p99)
            ),
        ),
        ("measured", clean(&found.measured)),
    ]
}

fn headroom(run: &Run, found: &Ceilings) -> String {
    let rate = run.measured.rate;
    if rate <= 0.0 {
        return "Nothing was answered, so there is no ratio to the ceiling.".to_owned();
    }
    format!(
        "The generator can send {} times what was measured here.",
        number(found.generator_rps / rate)
    )
}

/// How to repeat it.
pub fn reproduce(run: &Run) -> Markup {
    let command: Vec<String> = run
        .meta
        .command
        .iter()
        .map(|word| quoted(&clean(word)))
        .collect();
    let sha256 = if run.meta.scenario_sha256.is_empty() {
        NONE
    } else {
        &run.meta.scenario_sha256
    };
    html! {
        @if command.is_empty() {
            p.none { "The command was not kept." }
        } @else {
            pre { code { (command.join(" ")) } }
        }
        p.quiet {
            "Scenario SHA-256 " span.code { (clean(sha256)) } ", seed " span.code { (run.meta.seed) } ". "
            "Every number on this page, and more, is in " span.code { "run.json" } " beside the run. "
            (plural(run.flows.len(), "flow")) "."
        }
    }
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%+,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn words_are_quoted_as_a_shell_needs() {
        assert_eq!(quoted("-c"), "-c");
        assert_eq!(quoted("http://a/b?c=1&d"), "'http://a/b?c=1&d'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
    }
}
