//! What to buy: tiers, replicas and margins for a peak, each number from a measurement that it names.
//!
//! Everything here is arithmetic on facts, and pure. Floors round down: what is recommended is never more than was
//! measured, times the share that may be used. What was not measured is said, never filled in.

use serde::{Deserialize, Serialize};

use super::Setting;
use super::level::LevelFacts;
use super::sweep::{CostModel, Sweep};
use crate::result::Verdict;

/// Digits that a recommended rate keeps.
const DIGITS: i32 = 3;
const DAY_S: f64 = 86_400.0;

/// What was asked of a size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SizeWanted {
    /// Requests a second at the busiest moment.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub peak: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub payload_bytes: Option<u64>,
    /// The share of saturation that may be used.
    pub utilisation: f64,
    /// The share by which another machine may be slower.
    pub derate: f64,
    /// One instance more than is needed, and two at least.
    pub ha: bool,
    /// Rates of single clients, requests a second.
    pub clients: Vec<f64>,
    /// Rates of the CPU table, requests a second.
    pub cpu_rates: Vec<f64>,
    /// The p99 that is to be kept, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub p99_us: Option<f64>,
}

/// A size, with what it rests on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sizing {
    pub setting: Setting,
    pub wanted: SizeWanted,
    pub tiers: Vec<Tier>,
    /// The place of the smallest tier that covers the peak with one instance; absent where none does, or no peak is given.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub chosen: Option<usize>,
    /// By how much rates change with the payload; absent without a cost model.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub payload_factor: Option<f64>,
    /// CPU time for a request, in microseconds: of everything watched at the knee.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cpu_us: Option<f64>,
    /// Of one instance at most, in bytes; and before it had any load, where a soak says so.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub memory_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub idle_bytes: Option<u64>,
    /// Connections at the knee.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub knee_connections: Option<f64>,
    /// The p99 at the share that may be used, as it was measured, with the share that was measured.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub p99_at_use: Option<(f64, f64)>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ready_after_s: Option<f64>,
    /// What had to be assumed, or was not measured.
    pub cautions: Vec<String>,
}

/// One deployment that was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tier {
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cores: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub memory_bytes: Option<u64>,
    /// What it carries at most for sure: the low end of the interval, at the payload of the sweep.
    pub saturation: f64,
    /// Of that, at the payload that was asked for, what is to be used; rounded down.
    pub recommended: f64,
    /// So many are needed for the peak.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub replicas: Option<u64>,
    /// How much more than the peak they carry before they are at the share that may be used, as a share of the peak.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub margin: Option<f64>,
    pub a_day: f64,
    /// Rates of clients, each with how many of them one instance serves.
    pub clients: Vec<(f64, u64)>,
    /// Where the numbers come from.
    pub from: String,
}

/// Rounds down to three digits. A limit that is rounded up past itself is none.
pub fn round_down(value: f64) -> f64 {
    if value < 1.0 || !value.is_finite() {
        return value.max(0.0);
    }
    let magnitude = value.log10().floor() as i32;
    let step = 10f64.powi((magnitude + 1 - DIGITS).max(0));
    // A whole number must not fall under itself by its last bit.
    ((value / step) * (1.0 + 1e-12)).floor() * step
}

/// By how much the rate changes from one payload to another.
pub fn payload_factor(cost: &CostModel, measured_bytes: u64, wanted_bytes: u64) -> Option<f64> {
    let (at, wanted) = (
        cost.line.at(measured_bytes as f64 / 1000.0),
        cost.line.at(wanted_bytes as f64 / 1000.0),
    );
    (at > 0.0 && wanted > 0.0).then(|| at / wanted)
}

/// What a level carries for sure: the low end of its interval, or the least of too few runs.
fn surely(level: &LevelFacts) -> f64 {
    let least = level.rates().into_iter().reduce(f64::min).unwrap_or(0.0);
    level.rate_interval().map_or(least, |interval| interval.low)
}

impl Sizing {
    /// Sizes by a sweep. `idle_bytes` is of a soak, where there is one.
    ///
    /// # Errors
    ///
    /// The sweep has no knee, or a payload is asked for and there is no cost model.
    pub fn of(
        sweep: &Sweep,
        idle_bytes: Option<u64>,
        wanted: SizeWanted,
    ) -> Result<Sizing, String> {
        let knee = sweep
            .at_knee()
            .ok_or("the sweep found no knee, so there is nothing to size by: sweep again")?;
        let mut cautions = Vec::new();
        let factor = factor_of(sweep, &wanted, &mut cautions)?;
        let mut sizing = Sizing {
            setting: sweep.setting.clone(),
            tiers: Vec::new(),
            chosen: None,
            payload_factor: factor,
            cpu_us: knee.middle(|run| run.target_cpu_us),
            memory_bytes: most_memory(sweep),
            idle_bytes,
            knee_connections: Some(knee.at),
            p99_at_use: p99_at(sweep, wanted.utilisation),
            ready_after_s: sweep.setting.ready_after_s,
            cautions,
            wanted,
        };
        if sweep.shapes.is_empty() {
            let from = format!("the knee of the ladder, {} connections", knee.at);
            let cores = knee.most(|run| run.target_cores);
            sizing.add(sweep.setting.name.clone(), cores, None, knee, from);
        }
        for shape in &sweep.shapes {
            let from = format!("the shape {}, {} connections", shape.shape, shape.level.at);
            let memory = shape.shape.memory_bytes;
            sizing.add(
                shape.shape.to_string(),
                Some(shape.shape.cores),
                memory,
                &shape.level,
                from,
            );
        }
        sizing
            .tiers
            .sort_by(|a, b| a.recommended.total_cmp(&b.recommended));
        sizing.choose();
        sizing.caution(sweep, knee);
        Ok(sizing)
    }

    fn add(
        &mut self,
        name: String,
        cores: Option<f64>,
        memory: Option<u64>,
        level: &LevelFacts,
        from: String,
    ) {
        let saturation = surely(level);
        let slower = 1.0 - self.wanted.derate;
        let carried = saturation * slower * self.payload_factor.unwrap_or(1.0);
        let recommended = round_down(carried * self.wanted.utilisation);
        let mut tier = Tier {
            name,
            cores,
            memory_bytes: memory,
            saturation,
            recommended,
            replicas: None,
            margin: None,
            a_day: recommended * DAY_S,
            clients: self
                .wanted
                .clients
                .iter()
                .map(|rate| (*rate, (carried / rate * (1.0 + 1e-12)) as u64))
                .collect(),
            from,
        };
        if let Some(peak) = self.wanted.peak
            && recommended > 0.0
        {
            let needed = (peak / recommended).ceil().max(1.0) as u64;
            let replicas = if self.wanted.ha {
                needed.saturating_add(1).max(2)
            } else {
                needed
            };
            tier.replicas = Some(replicas);
            tier.margin = Some(replicas as f64 * recommended / peak - 1.0);
        }
        self.tiers.push(tier);
    }

    /// The smallest tier that one instance of is enough; without one the largest, several times.
    fn choose(&mut self) {
        let Some(peak) = self.wanted.peak else { return };
        let covers = |tier: &Tier| tier.recommended >= peak;
        self.chosen = self
            .tiers
            .iter()
            .position(covers)
            .or(self.tiers.len().checked_sub(1));
    }

    fn caution(&mut self, sweep: &Sweep, knee: &LevelFacts) {
        let mut say = |is: bool, text: String| {
            if is {
                self.cautions.push(text);
            }
        };
        let levels = || std::iter::once(knee).chain(sweep.shapes.iter().map(|shape| &shape.level));
        say(
            levels().any(|level| !level.is_headline()),
            "A level was measured fewer than 3 times, so there is no interval: its least run is taken.".to_owned(),
        );
        let verdicts = levels()
            .flat_map(|level| &level.runs)
            .map(|run| run.verdict);
        say(
            verdicts.clone().any(|verdict| verdict != Verdict::Valid),
            "Runs behind these numbers are not valid; see the sweep.".to_owned(),
        );
        say(
            !sweep.knee.is_some_and(|knee| knee.is_bent),
            "The server was not brought to its limit: it carries this at least.".to_owned(),
        );
        let is_many = self
            .tiers
            .iter()
            .any(|tier| tier.replicas.is_some_and(|n| n > 1));
        say(
            is_many,
            "Several instances are taken to carry their sum. That was not measured: a balancer, a store or a neighbour may \
             take its part."
                .to_owned(),
        );
        say(
            self.p99_at_use.is_none(),
            format!(
                "The p99 at {:.0} % of saturation was not measured: sweep with --open auto.",
                self.wanted.utilisation * 100.0
            ),
        );
        say(
            self.wanted.derate == 0.0,
            "This is the machine of the sweep; another one may be slower: give --derate."
                .to_owned(),
        );
    }

    /// The tier that was chosen.
    pub fn choice(&self) -> Option<&Tier> {
        self.tiers.get(self.chosen?)
    }
}

fn factor_of(
    sweep: &Sweep,
    wanted: &SizeWanted,
    cautions: &mut Vec<String>,
) -> Result<Option<f64>, String> {
    let Some(bytes) = wanted.payload_bytes else {
        return Ok(None);
    };
    let cost = sweep
        .cost
        .as_ref()
        .ok_or("--payload needs a cost model: sweep with --payload 1KB,2KB,5KB,10KB")?;
    let Some(measured) = sweep.payload_bytes else {
        return Err(
            "the payload of the sweep's ladder is not known: sweep with --unique SIZE".to_owned(),
        );
    };
    let largest = cost.kilobytes.iter().copied().fold(0.0, f64::max);
    if bytes as f64 / 1000.0 > super::sweep::BEYOND * largest {
        return Err(format!(
            "{bytes} bytes are over 1.5 times the largest payload that was measured ({largest} KB): sweep with --payload {bytes}"
        ));
    }
    if bytes as f64 / 1000.0 > largest {
        cautions.push(
            "The payload is larger than any that was measured: the cost is extrapolated."
                .to_owned(),
        );
    }
    payload_factor(cost, measured, bytes)
        .map(Some)
        .ok_or_else(|| "the cost model says nothing of this payload".to_owned())
}

fn most_memory(sweep: &Sweep) -> Option<u64> {
    let payloads = sweep.payloads.iter().flat_map(|p| [&p.light, &p.heavy]);
    let levels = sweep
        .closed
        .iter()
        .chain(&sweep.open)
        .chain(&sweep.overload_closed)
        .chain(&sweep.overload_open);
    let runs = levels.chain(payloads).flat_map(|level| &level.runs);
    runs.filter_map(|run| run.target_rss_bytes).max()
}

/// The p99 of the level whose share of the knee is nearest above what may be used, with that share.
fn p99_at(sweep: &Sweep, utilisation: f64) -> Option<(f64, f64)> {
    let knee = sweep.knee?.rate;
    let shares = sweep
        .open
        .iter()
        .filter_map(|level| Some((level.at / knee, level.middle(|run| run.p99_us)?)));
    // A rate that was rounded down lies a little under its share.
    shares
        .filter(|(share, _)| *share >= utilisation - 0.01)
        .min_by(|a, b| a.0.total_cmp(&b.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::shape::CpuShape;
    use crate::facts::level::{CellFacts, Loop};
    use crate::facts::sweep::ShapeFacts;
    use crate::stats::knee::Knee;
    use crate::stats::line::{Line, PointOfFit};

    fn level(at: f64, rate: f64) -> LevelFacts {
        let mut level = LevelFacts::new(format!("{at}"), Loop::Closed, at);
        level.runs.push(CellFacts {
            rate,
            ..CellFacts::default()
        });
        level
    }

    /// What page S2 measured, so that its own results come out.
    fn published() -> Sweep {
        let points = [(2.0, 5537.0), (5.0, 4762.0), (10.0, 3856.0)];
        let fit = points.map(|(x, rate)| PointOfFit {
            x,
            y: 1e6 / rate,
            weight: 1.0,
        });
        let shape = |text: &str, rate: f64| ShapeFacts {
            shape: text.parse::<CpuShape>().unwrap(),
            how: String::new(),
            level: level(128.0, rate),
        };
        Sweep {
            closed: vec![level(8.0, 6445.0), level(16.0, 7700.0), level(32.0, 7711.0)],
            knee: Knee::of(&[(8.0, 6445.0), (16.0, 7700.0), (32.0, 7711.0)]),
            cost: Some(CostModel {
                line: Line::fit(&fit, 0.05).unwrap(),
                kilobytes: vec![2.0, 5.0, 10.0],
                found_us: fit.map(|p| p.y).to_vec(),
            }),
            payload_bytes: Some(10_000),
            shapes: vec![
                shape("2c", 3856.0),
                shape("4c", 7301.0),
                shape("8c", 11_706.0),
            ],
            ..Sweep::default()
        }
    }

    fn wanted() -> SizeWanted {
        SizeWanted {
            peak: Some(3000.0),
            payload_bytes: Some(5000),
            utilisation: 0.6,
            derate: 0.0,
            ha: false,
            clients: vec![0.1, 1.0 / 3.0, 10.0],
            cpu_rates: Vec::new(),
            p99_us: None,
        }
    }

    #[test]
    fn the_published_choice_comes_out_and_its_floor_does_not_round_up() {
        let sizing = Sizing::of(&published(), None, wanted()).unwrap();
        // (161 + 98) / (161 + 49): × 1.233; 5 KB at 3,000 a second is the middle tier.
        assert!((sizing.payload_factor.unwrap() - 1.233).abs() < 2e-3);
        assert_eq!(sizing.choice().unwrap().name, "4c");
        let of_10_kb = Sizing::of(
            &published(),
            None,
            SizeWanted {
                payload_bytes: None,
                ..wanted()
            },
        )
        .unwrap();
        let recommended: Vec<f64> = of_10_kb.tiers.iter().map(|tier| tier.recommended).collect();
        assert_eq!(recommended, [2310.0, 4380.0, 7020.0]);
    }

    #[test]
    fn the_published_clients_and_days_come_out() {
        let mut sweep = published();
        sweep.shapes.clear();
        let sizing = Sizing::of(
            &sweep,
            None,
            SizeWanted {
                payload_bytes: None,
                ..wanted()
            },
        )
        .unwrap();
        let clients: Vec<u64> = sizing.tiers[0].clients.iter().map(|(_, n)| *n).collect();
        assert_eq!(clients, [77_000, 23_100, 770]);
        assert_eq!(7700.0 * DAY_S, 665_280_000.0);
    }

    #[test]
    fn spare_instances_are_counted_and_margins_computed() {
        let high = SizeWanted {
            peak: Some(20_000.0),
            payload_bytes: None,
            ha: true,
            ..wanted()
        };
        let sizing = Sizing::of(&published(), None, high).unwrap();
        let tier = sizing.choice().unwrap();
        // 3 × 7,020 cover it, and one more stands by.
        assert_eq!((tier.name.as_str(), tier.replicas), ("8c", Some(4)));
        assert!((tier.margin.unwrap() - (4.0 * 7020.0 / 20_000.0 - 1.0)).abs() < 1e-12);
        assert!(
            sizing
                .cautions
                .iter()
                .any(|line| line.contains("fewer than 3 times"))
        );
        assert!(
            sizing
                .cautions
                .iter()
                .any(|line| line.contains("not measured"))
        );
    }

    #[test]
    fn floors_round_down() {
        let cases = [
            (4380.6, 4380.0),
            (4389.9, 4380.0),
            (999.9, 999.0),
            (12_345.0, 12_300.0),
            (0.5, 0.5),
            (7000.0, 7000.0),
        ];
        for (value, floor) in cases {
            assert_eq!(round_down(value), floor, "{value}");
        }
    }

    #[test]
    fn what_was_not_measured_is_refused() {
        let mut sweep = published();
        let far = SizeWanted {
            payload_bytes: Some(20_000),
            ..wanted()
        };
        assert!(
            Sizing::of(&sweep, None, far)
                .unwrap_err()
                .contains("1.5 times")
        );
        sweep.cost = None;
        assert!(
            Sizing::of(&sweep, None, wanted())
                .unwrap_err()
                .contains("cost model")
        );
        sweep.knee = None;
        assert!(
            Sizing::of(&sweep, None, wanted())
                .unwrap_err()
                .contains("no knee")
        );
    }
}
