//! `weir lab load --spawn`: a server that is started for a load; and with `--coldstart`, how long it takes from its start to its
//! first good answer, over several starts.
//!
//! Each start is a new process; what the machine keeps of the one before (its files in memory) is not taken away, so this is the
//! start after an update, and not the first after the machine's own.

use std::fmt::Write as _;
use std::io::Write;
use std::time::{Duration, Instant};

use serde_json::json;

use super::load::Load;
use crate::bench::launch::{Launch, PORT, Started, ask};
use crate::exit::{Ended, Exit, Failure};
use crate::interrupt;
use crate::output;
use crate::stats::location::{median, quantile};

/// Longest that a server may take to listen, and then to give a good answer.
const READY_MAX: Duration = Duration::from_secs(60);
/// Most starts.
const STARTS_MAX: usize = 1000;
/// How often the first answer is asked for.
const LOOK: Duration = Duration::from_millis(1);

fn launch(command: &str) -> Launch {
    Launch {
        command: command.to_owned(),
        ready: None,
        ready_max: READY_MAX,
    }
}

/// Starts the server of a load that asks for one, and puts its port into the URLs. It ends when what is given back is dropped.
///
/// # Errors
///
/// It does not start.
pub(super) fn spawned(mut load: Load) -> Result<(Load, Option<Started>), Failure> {
    let Some(command) = load
        .spawn
        .as_deref()
        .filter(|_| !load.dry_run && !load.print_profile)
    else {
        if load.spawn.is_some() {
            fill(&mut load, 1);
        }
        return Ok((load, None));
    };
    let started = launch(command).start()?;
    fill(&mut load, started.port);
    Ok((load, Some(started)))
}

fn fill(load: &mut Load, port: u16) {
    for word in &mut load.source {
        *word = word.replace(PORT, &port.to_string());
    }
}

/// One start, in milliseconds from when the process was begun.
struct ColdStart {
    listening: f64,
    answered: f64,
}

/// Starts it several times.
pub(super) fn run(load: &Load, out: &mut dyn Write) -> Ended {
    let command = load.spawn.as_deref().unwrap_or_default();
    let url = match load.source.as_slice() {
        [url] if url.starts_with("http://") => url,
        _ => {
            return Err(Failure::new(
                "--coldstart asks one http:// address",
                "write http://127.0.0.1:{port}/health",
            ));
        }
    };
    if !(1..=STARTS_MAX).contains(&load.starts) {
        return Err(Failure::new(
            format!("--starts is not from 1 to {STARTS_MAX}"),
            "",
        ));
    }
    if load.dry_run || load.print_profile {
        output::say(
            out,
            &format!(
                "{} starts of `{command}`, each until {url} gives a good answer\n",
                load.starts
            ),
        )?;
        return Ok(Exit::Pass);
    }
    interrupt::listen()?;
    let mut starts = Vec::new();
    while starts.len() < load.starts && !interrupt::asked() {
        starts.push(one(command, url)?);
    }
    let is_whole = starts.len() == load.starts;
    if starts.is_empty() {
        return Ok(Exit::Interrupted);
    }
    let text = match load.json {
        true => format!("{:#}\n", told(command, url, &starts)),
        false => shown(&starts),
    };
    output::say(out, &text)?;
    Ok(if is_whole {
        Exit::Pass
    } else {
        Exit::Interrupted
    })
}

/// One start: until it listens, and until the address answers well.
fn one(command: &str, url: &str) -> Result<ColdStart, Failure> {
    let begin = Instant::now();
    let started = launch(command).start()?;
    let listening = begin.elapsed();
    let address = url.replace(PORT, &started.port.to_string());
    let rest = address.strip_prefix("http://").unwrap_or(&address);
    let (authority, path) = rest.find('/').map_or((rest, "/"), |at| rest.split_at(at));
    let mut last = None;
    loop {
        let status = ask(authority, path);
        if status.is_some_and(|status| (200..400).contains(&status)) {
            break;
        }
        last = status.or(last);
        if started.has_ended() {
            return Err(started.failed(
                format!("`{command}` ended before it gave a good answer"),
                "look at its output",
            ));
        }
        if begin.elapsed() > READY_MAX || interrupt::asked() {
            let said = last.map_or("nothing".to_owned(), |status| format!("status {status}"));
            return Err(started.failed(
                format!("{address} gave no good answer: {said}"),
                "name a path that is answered with 2xx or 3xx",
            ));
        }
        std::thread::sleep(LOOK);
    }
    let ms = |span: Duration| span.as_secs_f64() * 1e3;
    Ok(ColdStart {
        listening: ms(listening),
        answered: ms(begin.elapsed()),
    })
}

fn answered(starts: &[ColdStart]) -> Vec<f64> {
    starts.iter().map(|start| start.answered).collect()
}

/// A health check has to wait so long before it counts: twice the slowest start, in whole seconds.
fn start_period_s(starts: &[ColdStart]) -> u64 {
    let slowest = answered(starts).into_iter().fold(0.0, f64::max);
    (slowest * 2.0 / 1e3).ceil().max(1.0) as u64
}

fn told(command: &str, url: &str, starts: &[ColdStart]) -> serde_json::Value {
    let all = answered(starts);
    let of = |q| quantile(&all, q);
    json!({
        "schema": "weir-lab-coldstart/1",
        "command": command,
        "url": crate::scenario::without_user(url),
        "starts": starts.iter().map(|start| json!({ "listening_ms": start.listening, "answered_ms": start.answered })).collect::<Vec<_>>(),
        "answered_ms": { "min": of(0.0), "median": median(&all), "p90": of(0.9), "max": of(1.0) },
        "start_period_s": start_period_s(starts),
    })
}

fn shown(starts: &[ColdStart]) -> String {
    let (all, listening) = (
        answered(starts),
        starts
            .iter()
            .map(|start| start.listening)
            .collect::<Vec<f64>>(),
    );
    let mut out = format!(
        "{} starts, from the process's begin\n{:<20}{:>10}{:>10}{:>10}{:>10}\n",
        starts.len(),
        "",
        "least",
        "median",
        "p90",
        "most"
    );
    for (name, all) in [("listening", &listening), ("first good answer", &all)] {
        let cell = |q| quantile(all, q).map_or("-".to_owned(), |ms| format!("{ms:.1} ms"));
        let _ = writeln!(
            out,
            "{name:<20}{:>10}{:>10}{:>10}{:>10}",
            cell(0.0),
            cell(0.5),
            cell(0.9),
            cell(1.0)
        );
    }
    let _ = writeln!(
        out,
        "A health check's start period: {} s (twice the slowest).",
        start_period_s(starts)
    );
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_period_covers_twice_the_slowest() {
        let start = |answered| ColdStart {
            listening: 1.0,
            answered,
        };
        assert_eq!(start_period_s(&[start(20.0)]), 1);
        assert_eq!(start_period_s(&[start(20.0), start(1700.0)]), 4);
    }
}
