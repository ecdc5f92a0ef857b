//! Many runs as one table: a row for each cell of a matrix, or for each flow of a cell that has several.

use super::super::table::Table;
use super::super::units::{count, cut, duration_or_none, failed_share, number, plain};
use crate::result::{Quantiles, Run, Summary, Verdict};

/// Most columns of a cell's label.
const LABEL_MAX: usize = 32;

/// The table, ending in a line feed; under it the cells whose numbers cannot be used, and the requests in all.
pub fn matrix(cells: &[(String, Run)]) -> String {
    let head = [
        "cell", "requests", "errors", "rate", "p50", "p95", "p99", "max", "CPU/req",
    ];
    let mut table = Table::new(1, head);
    for (label, run) in cells {
        let mark = if run.validity.verdict == Verdict::Valid {
            ""
        } else {
            " *"
        };
        let label = cut(&plain(label), LABEL_MAX);
        if let [_] = run.flows.as_slice() {
            table.row(row(format!("{label}{mark}"), &run.measured));
            continue;
        }
        for flow in &run.flows {
            let name = format!("{label} {}{mark}", cut(&plain(&flow.name), LABEL_MAX));
            table.row(row(name, &flow.measured));
        }
    }
    let mut lines = table.lines();
    for (label, run) in cells {
        let verdict = run.validity.verdict;
        if verdict != Verdict::Valid {
            let broken = run.validity.criteria.iter().find(|c| !c.holds);
            let why = broken.map_or_else(String::new, |c| format!(": {}", plain(&c.evidence)));
            lines.push(format!(" * {} is {}{why}", plain(label), verdict.as_str()));
        }
        let breached = run.thresholds.iter().filter(|t| !t.ok).count();
        if breached > 0 {
            let label = plain(label);
            lines.push(format!(
                " {label} breaches {breached} of {} thresholds",
                run.thresholds.len()
            ));
        }
    }
    lines.push(totals(cells));
    lines.join("\n") + "\n"
}

fn row(name: String, summary: &Summary) -> Vec<String> {
    let found = summary.latency.get("response");
    let at = |pick: fn(&Quantiles) -> f64| duration_or_none(found.map(pick));
    vec![
        name,
        count(summary.requests),
        count(summary.failed),
        format!("{}/s", number(summary.rate)),
        at(|q| q.p50),
        at(|q| q.p95),
        at(|q| q.p99),
        at(|q| q.max),
        duration_or_none(summary.watched_cpu_us),
    ]
}

fn totals(cells: &[(String, Run)]) -> String {
    let sum = |pick: fn(&Run) -> u64| cells.iter().map(|(_, run)| pick(run)).sum::<u64>();
    let failed = sum(|run| run.total.failed);
    let ended = failed + sum(|run| run.total.good);
    format!(
        " {} cells, {} requests completed, {} failed: {}",
        cells.len(),
        count(sum(|run| run.requests)),
        count(failed),
        failed_share(failed, ended)
    )
}
