//! The sheet of a sweep: what it carries and where it bends first, then how it breaks, then what a request costs.

use super::chart::{Chart, Curve};
use super::common::{
    LEVEL_HEAD, below, ending, failures, interval, level_row, micros_or_none, notes, number_of,
    verdict,
};
use crate::facts::level::LevelFacts;
use crate::facts::sweep::{
    CostModel, DirectLevel, PayloadFacts, PointStanding, Scaling, ShapeFacts, Sweep,
};
use crate::report::sheet::{Grid, Sheet, SheetBlock, SheetPart};
use crate::report::standing::Grade;
use crate::report::words::{
    NONE, bytes, count, micros, number, plural, seconds, share, tick, tick_micros,
};
use crate::result::Verdict;

/// The sheet.
pub fn sheet(sweep: &Sweep) -> Sheet {
    let (grade, answer) = answer(sweep);
    let highest = sweep.closed.iter().map(LevelFacts::rate).reduce(f64::max);
    let mut parts = vec![ladder(sweep)];
    parts.extend(direct(sweep));
    parts.extend(arrivals(sweep));
    parts.extend(overload(sweep));
    parts.extend(recovery(sweep));
    parts.extend(payloads(sweep));
    parts.extend(shapes(sweep));
    parts.extend(ending(&sweep.setting, &not_measured(sweep)));
    Sheet {
        kind: "sweep".to_owned(),
        title: sweep.setting.name.clone(),
        below: below(&sweep.setting),
        grade,
        answer,
        notes: notes(&sweep.setting, highest),
        parts,
    }
}

fn answer(sweep: &Sweep) -> (Grade, String) {
    let (Some(knee), Some(level)) = (&sweep.knee, sweep.at_knee()) else {
        return (
            Grade::Doubtful,
            "No knee: too few levels were measured.".to_owned(),
        );
    };
    let carried = format!(
        "{} requests a second at {} connections (p99 {})",
        number(knee.rate),
        number_of(knee.level),
        micros_or_none(level.middle(|run| run.p99_us))
    );
    let is_valid = level.runs.iter().all(|run| run.verdict == Verdict::Valid);
    match () {
        () if sweep.setting.partial => {
            (Grade::Doubtful, format!("Interrupted: so far, {carried}."))
        }
        () if !knee.is_bent => (
            Grade::Doubtful,
            format!(
                "Not brought to its limit: it carried {carried}, and more load still gave more."
            ),
        ),
        () if !level.is_headline() => (
            Grade::Doubtful,
            format!(
                "It carries about {carried}: measured {}, and fewer than 3 are no headline.",
                plural(level.runs.len(), "time")
            ),
        ),
        () if !is_valid => (
            Grade::Doubtful,
            format!("Not valid at the knee ({}): {carried}.", verdict(level)),
        ),
        () => (Grade::Good, format!("It carries {carried}.")),
    }
}

fn levels(name: &'static str, levels: &[LevelFacts]) -> SheetBlock {
    let mut grid = Grid::new(name, 2, LEVEL_HEAD);
    levels.iter().for_each(|level| grid.row(level_row(level)));
    SheetBlock::Grid(grid.without_empty_columns())
}

fn ladder(sweep: &Sweep) -> SheetPart {
    let mut blocks = vec![
        levels("levels", &sweep.closed),
        SheetBlock::Words(
            "N/X is what Little's law makes the mean of a closed loop: connections over rate. A mean that equals it says \
             nothing that the rate has not said."
                .to_owned(),
        ),
    ];
    if let Some(knee) = &sweep.knee {
        let mut words = format!(
            "The knee is the least level that carries 97 % of the most that any carried: {} connections.",
            number_of(knee.level)
        );
        if let Some(level) = knee.kneedle {
            words += &format!(" Kneedle says {}.", number_of(level));
        }
        if let Some(level) = knee.usl_highest {
            words += &format!(
                " The universal scalability law is highest at {}, which is no knee.",
                number(level)
            );
        }
        blocks.push(SheetBlock::Words(words));
    }
    if let Some(limiter) = &sweep.limiter {
        blocks.push(SheetBlock::Words(limiter.evidence.clone()));
    }
    blocks.push(SheetBlock::Figure(curve(sweep)));
    blocks.push(SheetBlock::Figure(latency(sweep)));
    SheetPart {
        name: "ladder",
        title: "How much does it carry, and where does it bend?".to_owned(),
        blocks,
    }
}

fn curve(sweep: &Sweep) -> crate::report::plots::Figure {
    let points =
        |levels: &[LevelFacts]| levels.iter().map(|l| (l.at, l.rate())).collect::<Vec<_>>();
    let mut curves = vec![Curve {
        name: "good answers a second".to_owned(),
        points: points(&sweep.closed),
        intervals: sweep.closed.iter().map(LevelFacts::rate_interval).collect(),
        ..Curve::default()
    }];
    if let Some(usl) = &sweep.usl {
        curves.push(Curve {
            name: format!("universal scalability law ({} off)", share(usl.rms)),
            points: sweep.closed.iter().map(|l| (l.at, usl.at(l.at))).collect(),
            is_fitted: true,
            ..Curve::default()
        });
    }
    let runs: u64 = sweep.closed.iter().map(|l| l.sum(|run| run.requests)).sum();
    Chart {
        label: "Good answers a second against connections",
        x_title: "connections",
        y_title: "good answers a second",
        x_is_log: true,
        y_is_log: false,
        x_name: tick,
        y_name: tick,
        curves,
        marker: sweep.knee.map(|knee| (knee.level, "knee".to_owned())),
        caption: format!(
            "n = {} requests. Bars are 95 % intervals of the mean over repeats.",
            count(runs)
        ),
    }
    .figure()
}

fn latency(sweep: &Sweep) -> crate::report::plots::Figure {
    let of = |name: &str, pick: fn(&crate::facts::level::CellFacts) -> Option<f64>| Curve {
        name: name.to_owned(),
        points: sweep
            .closed
            .iter()
            .filter_map(|l| Some((l.rate(), l.middle(pick)?)))
            .collect(),
        ..Curve::default()
    };
    let little = Curve {
        name: "N/X".to_owned(),
        points: sweep
            .closed
            .iter()
            .filter_map(|l| Some((l.rate(), l.little_us()?)))
            .collect(),
        is_fitted: true,
        ..Curve::default()
    };
    Chart {
        label: "Latency against good answers a second",
        x_title: "good answers a second",
        y_title: "response",
        x_is_log: false,
        y_is_log: true,
        x_name: tick,
        y_name: tick_micros,
        curves: vec![of("p50", |run| run.p50_us), of("p90", |run| run.p90_us), of("p99", |run| run.p99_us), little],
        marker: None,
        caption: "Medians over repeats, one point for each level of the ladder. The axis of latency is logarithmic.".to_owned(),
    }
    .figure()
}

fn direct(sweep: &Sweep) -> Option<SheetPart> {
    let direct = sweep.direct.as_ref()?;
    let mut grid = Grid::new(
        "direct",
        1,
        [
            "level",
            "through: good/s",
            "direct: good/s",
            "through: mean",
            "direct: mean",
            "added",
            "95 % sure",
        ],
    );
    for DirectLevel {
        through,
        direct,
        added_us,
        added_interval,
    } in &direct.levels
    {
        grid.row([
            through.label.clone(),
            number(through.rate()),
            number(direct.rate()),
            micros_or_none(through.middle(|run| run.mean_us)),
            micros_or_none(direct.middle(|run| run.mean_us)),
            micros(*added_us),
            interval(*added_interval, micros),
        ]);
    }
    Some(SheetPart {
        name: "direct",
        title: "What does it add to the same load without it?".to_owned(),
        blocks: vec![
            SheetBlock::Grid(grid),
            SheetBlock::Words(format!(
                "Direct is {}. The two took turns, so that the machine's moods met both.",
                direct.target
            )),
        ],
    })
}

fn arrivals(sweep: &Sweep) -> Option<SheetPart> {
    if sweep.open.is_empty() {
        return None;
    }
    Some(SheetPart {
        name: "arrivals",
        title: "How long do requests take when they come as they please?".to_owned(),
        blocks: vec![
            levels("arrivals", &sweep.open),
            SheetBlock::Words("Arrivals are shares of what the knee carried. Latency counts from when a request was due.".to_owned()),
        ],
    })
}

fn overload(sweep: &Sweep) -> Option<SheetPart> {
    if sweep.overload_closed.is_empty() && sweep.overload_open.is_empty() {
        return None;
    }
    let mut blocks = Vec::new();
    if !sweep.overload_closed.is_empty() {
        blocks.push(SheetBlock::Words("More connections than the knee needs. By Little's law latency grows with them; what can break is the rate.".to_owned()));
        blocks.push(levels("overload-closed", &sweep.overload_closed));
    }
    if !sweep.overload_open.is_empty() {
        blocks.push(SheetBlock::Words("More arrivals than it carries. What waits longest is dropped by the generator's own queue (never sent); what is sent has to be answered.".to_owned()));
        blocks.push(levels("overload-open", &sweep.overload_open));
    }
    if let (Some(knee), Some(most)) = (
        sweep.at_knee(),
        sweep.overload_closed.last().or(sweep.overload_open.last()),
    ) {
        let failed: u64 = sweep
            .overload_closed
            .iter()
            .chain(&sweep.overload_open)
            .map(|l| l.sum(|run| run.failed))
            .sum();
        let times = |pick: fn(&crate::facts::level::CellFacts) -> Option<f64>| {
            Some(most.middle(pick)? / knee.middle(pick)?)
        };
        blocks.push(SheetBlock::Words(format!(
            "At {} it carries {} of the knee's rate with {} times its p99; {} failed under overload.",
            most.label,
            share(most.rate() / knee.rate().max(f64::MIN_POSITIVE)),
            times(|run| run.p99_us).map_or(NONE.to_owned(), number),
            plural(failed as usize, "request"),
        )));
    }
    Some(SheetPart {
        name: "overload",
        title: "What happens when it is asked for more than it carries?".to_owned(),
        blocks,
    })
}

fn recovery(sweep: &Sweep) -> Option<SheetPart> {
    let recovery = sweep.recovery.as_ref()?;
    let when = match recovery.seconds {
        Some(after) => format!(
            "{} after the overload its p99 is back within 10 % of {}",
            seconds(after),
            micros(recovery.before_p99_us)
        ),
        None => format!(
            "its p99 did not come back to {} in the {} that it was watched",
            micros(recovery.before_p99_us),
            seconds(recovery.watched_s)
        ),
    };
    Some(SheetPart {
        name: "recovery",
        title: "How long does it take to recover?".to_owned(),
        blocks: vec![SheetBlock::Words(format!(
            "{} arrivals a second, then {}, then {} again: {when}. {} failed, {} were never sent.",
            number(recovery.calm_rate),
            number(recovery.overload_rate),
            number(recovery.calm_rate),
            recovery.failed,
            recovery.dropped,
        ))],
    })
}

fn payloads(sweep: &Sweep) -> Option<SheetPart> {
    if sweep.payloads.is_empty() {
        return None;
    }
    let mut grid = Grid::new(
        "payloads",
        1,
        [
            "payload",
            "good/s",
            "95 % sure",
            "payload/s",
            "mean at 1 connection",
            "p90",
            "p99",
            "failed",
            "memory",
            "verdict",
        ],
    );
    for PayloadFacts {
        bytes: size,
        light,
        heavy,
    } in &sweep.payloads
    {
        grid.row([
            size_name(*size),
            number(heavy.rate()),
            interval(heavy.rate_interval(), number),
            format!(
                "{}/s",
                crate::output::units::bytes(heavy.rate() * *size as f64)
            ),
            micros_or_none(light.middle(|run| run.mean_us)),
            micros_or_none(heavy.middle(|run| run.p90_us)),
            micros_or_none(heavy.middle(|run| run.p99_us)),
            failures(heavy),
            heavy
                .most(|run| run.target_rss_bytes.map(|b| b as f64))
                .map_or(NONE.to_owned(), |b| bytes(b as u64)),
            verdict(heavy),
        ]);
    }
    let mut blocks = vec![SheetBlock::Grid(grid.without_empty_columns())];
    match &sweep.cost {
        Some(cost) => blocks.extend(cost_blocks(cost)),
        None => blocks.push(SheetBlock::Words(
            "No cost model: it needs three sizes at least.".to_owned(),
        )),
    }
    Some(SheetPart {
        name: "cost",
        title: "What does a request cost, and a kilobyte?".to_owned(),
        blocks,
    })
}

fn size_name(size: u64) -> String {
    match size {
        size if size >= 1000 && size % 1000 == 0 => format!("{} KB", size / 1000),
        size => format!("{size} B"),
    }
}

fn cost_blocks(cost: &CostModel) -> Vec<SheetBlock> {
    let line = &cost.line;
    let mut words = format!(
        "{} for a request ({}) and {} for each kilobyte ({}), of the part of the target that is at its limit.",
        micros(line.intercept),
        interval(line.intercept_interval, micros),
        micros(line.slope),
        interval(line.slope_interval, micros),
    );
    let off = line
        .residuals
        .iter()
        .fold(0.0_f64, |most, r| most.max(r.abs()));
    words += &format!(" The line is off by {} at most", micros(off));
    if let Some(left_out) = line.left_out_max {
        words += &format!(
            ", and by {} at a size that it was not fitted to",
            micros(left_out)
        );
    }
    words.push('.');
    if let Some(largest) = cost
        .kilobytes
        .iter()
        .copied()
        .reduce(f64::max)
        .filter(|kb| *kb > 0.0)
    {
        words += &format!(
            " At {} KB {} of the cost is fixed.",
            number(largest),
            share(line.intercept / line.at(largest))
        );
    }
    let measured = Curve {
        name: "measured".to_owned(),
        points: cost
            .kilobytes
            .iter()
            .copied()
            .zip(cost.found_us.iter().copied())
            .collect(),
        is_loose: false,
        ..Curve::default()
    };
    let fitted = Curve {
        name: "fixed + per kilobyte".to_owned(),
        points: cost
            .kilobytes
            .iter()
            .map(|kb| (*kb, line.at(*kb)))
            .collect(),
        is_fitted: true,
        ..Curve::default()
    };
    let chart = Chart {
        label: "Microseconds for a request against kilobytes",
        x_title: "kilobytes of payload",
        y_title: "10⁶ / rate (µs)",
        x_is_log: false,
        y_is_log: false,
        x_name: tick,
        y_name: tick,
        curves: vec![measured, fitted],
        marker: None,
        caption: "Weighted least squares; each size counts by how sure its rate is.".to_owned(),
    };
    vec![SheetBlock::Words(words), SheetBlock::Figure(chart.figure())]
}

fn shapes(sweep: &Sweep) -> Option<SheetPart> {
    if sweep.shapes.is_empty() {
        return None;
    }
    let mut grid = Grid::new(
        "shapes",
        1,
        [
            "shape",
            "good/s",
            "95 % sure",
            "good/s a core",
            "cores used",
            "memory",
            "p99",
            "failed",
            "held",
            "verdict",
        ],
    );
    for ShapeFacts { shape, how, level } in &sweep.shapes {
        grid.row([
            shape.to_string(),
            number(level.rate()),
            interval(level.rate_interval(), number),
            number(level.rate() / shape.cores),
            level
                .middle(|run| run.target_cores)
                .map_or(NONE.to_owned(), number),
            level
                .most(|run| run.target_rss_bytes.map(|b| b as f64))
                .map_or(NONE.to_owned(), |b| bytes(b as u64)),
            micros_or_none(level.middle(|run| run.p99_us)),
            failures(level),
            how.clone(),
            verdict(level),
        ]);
    }
    let mut blocks = vec![SheetBlock::Grid(grid.without_empty_columns())];
    if let Some(scaling) = &sweep.scaling {
        blocks.extend(scaling_blocks(scaling));
    }
    Some(SheetPart {
        name: "shapes",
        title: "How does it scale with cores?".to_owned(),
        blocks,
    })
}

fn scaling_blocks(scaling: &Scaling) -> Vec<SheetBlock> {
    let most = scaling.measured.iter().map(|p| p.0).fold(0.0, f64::max);
    let mut grid = Grid::new(
        "scaling",
        1,
        [
            "cores",
            "good/s, lower model",
            "good/s, upper model",
            "standing",
        ],
    );
    let ahead = [0.5 * most, most, 1.5 * most, 2.0 * most];
    for at in ahead {
        let Some(point) = scaling.project(at) else {
            continue;
        };
        let standing = match point.standing {
            PointStanding::Measured => "measured",
            PointStanding::Interpolated => "interpolated, by both models",
            PointStanding::Extrapolated => "extrapolated, by both models",
            PointStanding::Beyond => "over 1.5 times the largest measured: no capacity",
        };
        grid.row([
            number(at),
            number(point.low),
            number(point.high),
            standing.to_owned(),
        ]);
    }
    let Some((usl, power)) = scaling.usl.as_ref().zip(scaling.power.as_ref()) else {
        return vec![SheetBlock::Words(
            "Fewer than three shapes have no curve.".to_owned(),
        )];
    };
    let along: Vec<f64> = (0..=40)
        .map(|i| most * (0.1 + 1.4 * f64::from(i) / 40.0))
        .collect();
    let curve = |name: &str, of: &dyn Fn(f64) -> f64| Curve {
        name: name.to_owned(),
        points: along.iter().map(|at| (*at, of(*at))).collect(),
        is_fitted: true,
        ..Curve::default()
    };
    let measured = Curve {
        name: "measured".to_owned(),
        points: scaling.measured.clone(),
        ..Curve::default()
    };
    let chart = Chart {
        label: "Good answers a second against cores",
        x_title: "cores",
        y_title: "good answers a second",
        x_is_log: false,
        y_is_log: false,
        x_name: tick,
        y_name: tick,
        curves: vec![
            measured,
            curve("universal scalability law", &|at| usl.at(at)),
            curve("power law", &|at| power.at(at)),
        ],
        marker: None,
        caption: "What lies between the two models is how unsure a projection is.".to_owned(),
    };
    vec![SheetBlock::Grid(grid), SheetBlock::Figure(chart.figure())]
}

fn not_measured(sweep: &Sweep) -> Vec<String> {
    let mut lines = Vec::new();
    let mut missing = |is_missing: bool, text: &str| {
        if is_missing {
            lines.push(text.to_owned());
        }
    };
    missing(
        sweep.direct.is_none(),
        "What it adds to a direct request: give --direct URL.",
    );
    missing(
        sweep.open.is_empty(),
        "Latency under arrivals: give --open auto.",
    );
    missing(
        sweep.overload_closed.is_empty() && sweep.overload_open.is_empty(),
        "Overload and recovery: give --overload 8.",
    );
    missing(
        sweep.payloads.is_empty(),
        "What a kilobyte costs: give --payload 1KB,2KB,5KB,10KB.",
    );
    missing(
        sweep.shapes.is_empty(),
        "Scaling with cores: give --command and --shapes 0.5c,1c,2c.",
    );
    lines
}
