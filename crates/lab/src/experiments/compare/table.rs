//! A comparison as text: the answer first, then a line for each metric, then the intervals as a picture.

use std::fmt::Write;

use super::answer::{Answer, ErrorsAnswer};
use super::comparison::{Comparison, Form, MetricAnswer, Sure};
use super::metrics::{METRIC, Metric, Unit};
use crate::output::table::Table;
use crate::output::units;
use crate::stats::power;

/// Columns of the picture, odd so that zero has one.
const PICTURE: usize = 61;

/// Dropped blocks that are named one by one; compare.json has all of them.
const DROPPED_SHOWN_MAX: usize = 5;

/// All of it.
pub fn table(comparison: &Comparison) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "{}\n", headline(comparison));
    let _ = writeln!(out, " A  {}\n B  {}\n", comparison.a, comparison.b);
    out.push_str(&metrics(comparison));
    out.push_str(&picture(comparison));
    out.push_str(&conditions(comparison));
    for note in &comparison.notes {
        let _ = writeln!(out, "note: {note}");
    }
    out
}

/// The answer in one line, with the number that it rests on.
pub fn headline(comparison: &Comparison) -> String {
    if let Some(dropped) = comparison.dropped_too_many() {
        return dropped_too_many(comparison, dropped);
    }
    let named = |name: &String| {
        comparison
            .metrics
            .iter()
            .find(|metric| metric.name == *name)
    };
    let leading = comparison.leading.as_ref().and_then(named);
    let effect = leading.map(effect).unwrap_or_default();
    let partial = if comparison.partial {
        " (interrupted)"
    } else {
        ""
    };
    match (comparison.answer, leading) {
        (Answer::Worse, None) => {
            format!("B is WORSE than A{partial}: {}", errors_effect(comparison))
        }
        (Answer::Worse, _) => format!("B is WORSE than A{partial}: {effect}"),
        (Answer::Better, _) => format!("B is BETTER than A{partial}: {effect}"),
        (Answer::Same, _) => format!(
            "B is the SAME as A within {}{partial}: {effect}",
            percent(comparison.margin)
        ),
        (Answer::CannotTell, Some(metric)) => {
            let needed = needed(comparison, metric);
            format!("CANNOT TELL whether B differs from A{partial}: {effect}{needed}")
        }
        (Answer::CannotTell, None) => format!("CANNOT TELL whether B differs from A{partial}"),
    }
}

fn effect(metric: &MetricAnswer) -> String {
    let title = row(metric).map_or(metric.name.as_str(), |row| row.title);
    let change = signed(metric.change);
    match &metric.sure {
        Some(sure) => format!("{title} {change} {}", interval(sure)),
        None => format!("{title} {change}"),
    }
}

fn errors_effect(comparison: &Comparison) -> String {
    let Some(errors) = &comparison.errors else {
        return "errors increased".to_owned();
    };
    format!(
        "errors increased from {} of {} to {} of {} requests",
        units::count(errors.failed_a),
        units::count(errors.requests_a),
        units::count(errors.failed_b),
        units::count(errors.requests_b)
    )
}

/// Why nothing is concluded where the machine, and not the servers, decided what could be measured.
fn dropped_too_many(comparison: &Comparison, dropped: usize) -> String {
    let pairs = comparison.blocks.iter().filter(|block| !block.control);
    let wanted = comparison.blocks_wanted.unwrap_or_default();
    format!(
        "CANNOT TELL whether B differs from A: {dropped} of {} blocks were dropped, {} of {wanted} that are needed are left",
        pairs.clone().count(),
        pairs.filter(|block| block.dropped.is_none()).count(),
    )
}

/// What would be needed to tell.
fn needed(comparison: &Comparison, metric: &MetricAnswer) -> String {
    let Some(sure) = &metric.sure else {
        return String::new();
    };
    let least = percent(sure.detectable_change.min(9.0));
    let blocks = match sure.blocks_needed {
        Some(power::BLOCKS_MAX..) => "; no number of blocks helps against this noise".to_owned(),
        Some(blocks) => format!(
            "; a margin of {} needs about {blocks} blocks",
            percent(comparison.margin)
        ),
        None => String::new(),
    };
    format!("; less than {least} is not found reliably{blocks}")
}

fn metrics(comparison: &Comparison) -> String {
    let mut table = Table::new(
        2,
        [
            "metric",
            "answer",
            "A",
            "B",
            "change",
            "interval",
            "least found",
        ],
    );
    for metric in &comparison.metrics {
        let Some(row) = row(metric) else { continue };
        let (interval, least) = match &metric.sure {
            Some(sure) => (interval(sure), least(sure.detectable_change)),
            None => ("none possible".to_owned(), "-".to_owned()),
        };
        table.row(vec![
            row.title.to_owned(),
            metric.answer.as_str().to_owned(),
            quantity(metric.a, row.unit),
            quantity(metric.b, row.unit),
            signed(metric.change),
            interval,
            least,
        ]);
    }
    if let Some(errors) = &comparison.errors
        && errors.requests_a.max(errors.requests_b) > 0
    {
        table.row(errors_row(errors));
    }
    table.lines().join("\n") + "\n"
}

fn errors_row(errors: &ErrorsAnswer) -> Vec<String> {
    let share =
        |failed, requests| format!("{} of {}", units::count(failed), units::count(requests));
    vec![
        "errors".to_owned(),
        match errors.answer {
            Answer::Worse => errors.answer.as_str().to_owned(),
            _ => "no increase".to_owned(),
        },
        share(errors.failed_a, errors.requests_a),
        share(errors.failed_b, errors.requests_b),
        String::new(),
        match errors.p_value {
            p if p < 0.001 => "p < 0.001".to_owned(),
            p => format!("p = {p:.3}"),
        },
        String::new(),
    ]
}

/// The intervals beside each other: `|` is no change, `:` the margin, `[--o--]` an interval with its estimate, `<` and
/// `>` go on beyond the picture.
fn picture(comparison: &Comparison) -> String {
    let margin = comparison.margin.ln_1p();
    let sure = comparison
        .metrics
        .iter()
        .filter_map(|m| Some((m, m.sure.as_ref()?)));
    let ends = sure
        .clone()
        .flat_map(|(_, sure)| [sure.interval.low, sure.interval.high]);
    let widest = ends.map(|end| end.ln_1p().abs()).fold(0.0, f64::max);
    if widest == 0.0 {
        return "\n".to_owned();
    }
    // At least the margin with room beside it; at most what leaves the margin two columns wide.
    let reach = widest.clamp(2.0 * margin, 16.0 * margin);
    let column = |ln: f64| -> i64 {
        let middle = (PICTURE / 2) as f64;
        (middle + ln / reach * middle).round() as i64
    };
    let mut out = format!("\n {:<16} ", "");
    let scale = [(-reach).exp_m1(), reach.exp_m1()].map(signed);
    let gap = PICTURE - scale[0].chars().count() - scale[1].chars().count();
    let _ = writeln!(out, "{}{:^gap$}{}", scale[0], "no change", scale[1]);
    for (metric, sure) in sure {
        let title = row(metric).map_or(metric.name.as_str(), |row| row.title);
        let ends = [sure.interval.low, metric.change, sure.interval.high];
        let drawn = draw(ends.map(|end| column(end.ln_1p())), column(margin));
        let _ = writeln!(out, " {title:<16} {drawn}");
    }
    out.push('\n');
    out
}

fn draw([low, estimate, high]: [i64; 3], margin: i64) -> String {
    let last = PICTURE as i64 - 1;
    let middle = last / 2;
    let cell = |at: i64| match at {
        0 if low < 0 => '<',
        at if at == last && high > last => '>',
        at if at == estimate => 'o',
        at if at == low => '[',
        at if at == high => ']',
        at if low < at && at < high => '-',
        at if at == middle => '|',
        at if at == margin || at == last - margin => ':',
        _ => ' ',
    };
    let line: String = (0..=last).map(cell).collect();
    line.trim_end().to_owned()
}

/// Under what conditions this was found.
pub fn conditions(comparison: &Comparison) -> String {
    let mut out = String::new();
    if comparison.form == Form::Blocks {
        let used = |control: bool| {
            let blocks = comparison.blocks.iter();
            blocks.filter(move |b| b.control == control && b.dropped.is_none())
        };
        let controls: Vec<String> = used(true)
            .filter_map(|b| Some(signed(control(comparison, b)?)))
            .collect();
        let _ = writeln!(
            out,
            "{} blocks of A and B; controls of A and A: {}",
            used(false).count(),
            if controls.is_empty() {
                "none".to_owned()
            } else {
                controls.join(", ")
            }
        );
    }
    let dropped = comparison.blocks.iter();
    let dropped = dropped.filter_map(|block| Some((block.number + 1, block.dropped.as_ref()?)));
    for (number, reason) in dropped.clone().take(DROPPED_SHOWN_MAX) {
        let _ = writeln!(out, "block {number} dropped: {reason}");
    }
    let more = dropped.count().saturating_sub(DROPPED_SHOWN_MAX);
    if more > 0 {
        let _ = writeln!(out, "and {more} more dropped");
    }
    let promise = percent(comparison.alpha);
    let looks = match comparison.looks {
        Some(looks) if looks.of > 1 => format!(
            " (look {} of {}: {})",
            looks.at,
            looks.of,
            percent(looks.alpha)
        ),
        _ => String::new(),
    };
    let _ = writeln!(
        out,
        "margin {}; false alarms at most {promise} over all metrics{looks}; seed {}",
        percent(comparison.margin),
        comparison.seed
    );
    out
}

/// The change that a control shows, in the first metric that it has.
fn control(comparison: &Comparison, block: &super::comparison::BlockResult) -> Option<f64> {
    let first = comparison.metrics.first()?;
    let value = block.values.iter().find(|value| value.name == first.name)?;
    Some(value.b / value.a - 1.0)
}

pub fn row(metric: &MetricAnswer) -> Option<&'static Metric> {
    METRIC.iter().find(|row| row.name == metric.name)
}

pub fn interval(sure: &Sure) -> String {
    format!(
        "[{}, {}]",
        signed(sure.interval.low),
        signed(sure.interval.high)
    )
}

/// `+1.2 %`; from 100 % on as a factor.
pub fn signed(change: f64) -> String {
    if change >= 1.0 {
        return format!("x{:.2}", 1.0 + change);
    }
    format!("{:+.1} %", 100.0 * change)
}

/// The least change that is found, in both directions while they are alike.
pub fn least(change: f64) -> String {
    match change {
        // Beyond this the number says no more than that nothing is found.
        _ if change > 9.0 => "over x10".to_owned(),
        _ if change >= 1.0 => percent(change),
        _ => format!("±{}", percent(change)),
    }
}

pub fn percent(share: f64) -> String {
    let percent = 100.0 * share;
    if share >= 1.0 {
        format!("x{:.1}", 1.0 + share)
    } else if (percent - percent.round()).abs() < 1e-9 {
        format!("{percent:.0} %")
    } else if percent < 1.0 {
        format!("{percent:.2} %")
    } else {
        format!("{percent:.1} %")
    }
}

/// A value in its unit.
pub fn quantity(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Microseconds => units::duration(value),
        Unit::PerSecond => format!("{}/s", units::number(value)),
        Unit::Bytes => units::memory(value as u64),
    }
}
