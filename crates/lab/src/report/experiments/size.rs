//! The sheet of a size: what to buy first, then each tier with what it rests on, then CPU, clients and margins.

use super::common::{below, ending, micros_or_none};
use crate::facts::size::{Sizing, Tier};
use crate::output::units;
use crate::report::sheet::{Grid, Sheet, SheetBlock, SheetPart};
use crate::report::standing::Grade;
use crate::report::words::{NONE, bytes, count, micros, number, share};

/// The sheet.
pub fn sheet(sizing: &Sizing) -> Sheet {
    let (grade, answer) = answer(sizing);
    let mut parts = vec![tiers(sizing)];
    parts.extend(clients(sizing));
    parts.extend(cpu(sizing));
    parts.push(margins(sizing));
    parts.extend(ending(&sizing.setting, &[]));
    let mut notes = vec![format!(
        "Everything rests on a sweep of {}, on {}.",
        sizing.setting.started, sizing.setting.machine.cpu
    )];
    notes.extend(sizing.cautions.iter().cloned());
    Sheet {
        kind: "size".to_owned(),
        title: sizing.setting.name.clone(),
        below: below(&sizing.setting),
        grade,
        answer,
        notes,
        parts,
    }
}

fn answer(sizing: &Sizing) -> (Grade, String) {
    let slow = match (sizing.wanted.p99_us, sizing.p99_at_use) {
        (Some(wanted), Some((used, found))) if found > wanted => Some(format!(
            " Its p99 at {} of saturation is {}, over the {} that were asked for.",
            share(used),
            micros(found),
            micros(wanted)
        )),
        (Some(_), None) => Some(" Whether the p99 is kept was not measured.".to_owned()),
        _ => None,
    };
    let words = match (sizing.wanted.peak, sizing.choice()) {
        (Some(peak), Some(tier)) => match (tier.replicas, tier.margin) {
            (Some(replicas), Some(margin)) => format!(
                "{} of {} for {} requests a second: {} above the peak, at {} of saturation.",
                count(replicas),
                tier.name,
                number(peak),
                share(margin),
                share(sizing.wanted.utilisation)
            ),
            _ => format!(
                "{} a second are not covered by anything that was measured.",
                number(peak)
            ),
        },
        _ => match sizing.tiers.last() {
            Some(tier) => format!(
                "One {} is for {} requests a second at most.",
                tier.name,
                number(tier.recommended)
            ),
            None => "Nothing was measured to size by.".to_owned(),
        },
    };
    let grade = if slow.is_some() {
        Grade::Bad
    } else {
        Grade::Good
    };
    (grade, words + &slow.unwrap_or_default())
}

fn tiers(sizing: &Sizing) -> SheetPart {
    let mut grid = Grid::new(
        "tiers",
        1,
        [
            "tier",
            "cores",
            "memory limit",
            "saturation",
            "recommended at most",
            "a day",
            "instances for the peak",
            "margin",
            "from",
        ],
    );
    let row = |tier: &Tier| {
        [
            tier.name.clone(),
            tier.cores.map_or(NONE.to_owned(), number),
            tier.memory_bytes.map_or(NONE.to_owned(), bytes),
            number(tier.saturation),
            units::count(tier.recommended as u64),
            units::count(tier.a_day as u64),
            tier.replicas.map_or(NONE.to_owned(), count),
            tier.margin.map_or(NONE.to_owned(), share),
            tier.from.clone(),
        ]
    };
    sizing.tiers.iter().for_each(|tier| grid.row(row(tier)));
    let mut words = format!(
        "Saturation is what was carried for sure (the low end of its interval). Recommended is {} of that",
        share(sizing.wanted.utilisation)
    );
    if let Some(factor) = sizing.payload_factor {
        words += &format!(", times {} for the payload", number(factor));
    }
    if sizing.wanted.derate > 0.0 {
        words += &format!(
            ", less {} for a slower machine",
            share(sizing.wanted.derate)
        );
    }
    SheetPart {
        name: "tiers",
        title: "Which deployment?".to_owned(),
        blocks: vec![
            SheetBlock::Grid(grid.without_empty_columns()),
            SheetBlock::Words(words + ", rounded down to three digits."),
        ],
    }
}

fn clients(sizing: &Sizing) -> Option<SheetPart> {
    if sizing.wanted.clients.is_empty() {
        return None;
    }
    let mut grid = Grid::new(
        "clients",
        1,
        ["tier", "requests a second of each", "clients at saturation"],
    );
    for tier in &sizing.tiers {
        for (rate, n) in &tier.clients {
            grid.row([tier.name.clone(), number(*rate), count(*n)]);
        }
    }
    Some(SheetPart {
        name: "clients",
        title: "How many clients?".to_owned(),
        blocks: vec![SheetBlock::Grid(grid)],
    })
}

/// One basis for the whole table: the CPU time for a request at the knee.
fn cpu(sizing: &Sizing) -> Option<SheetPart> {
    let cpu_us = sizing.cpu_us?;
    let mut grid = Grid::new(
        "cpu",
        0,
        ["requests a second", "cores", "of one core", "memory"],
    );
    for rate in &sizing.wanted.cpu_rates {
        let cores = rate * cpu_us / 1e6;
        grid.row([
            number(*rate),
            number(cores),
            if cores < 1.0 {
                share(cores)
            } else {
                NONE.to_owned()
            },
            sizing
                .memory_bytes
                .map_or(NONE.to_owned(), |most| format!("{} at most", bytes(most))),
        ]);
    }
    Some(SheetPart {
        name: "cpu",
        title: "How much CPU and memory at which rate?".to_owned(),
        blocks: vec![
            SheetBlock::Grid(grid.without_empty_columns()),
            SheetBlock::Words(format!(
                "Every row rests on {} of CPU time for a request, at the knee.",
                micros(cpu_us)
            )),
        ],
    })
}

fn margins(sizing: &Sizing) -> SheetPart {
    let mut grid = Grid::new("margins", 1, ["what", "measured", "asked for", "margin"]);
    if let (Some(peak), Some(tier)) = (sizing.wanted.peak, sizing.choice()) {
        let all = tier.recommended * tier.replicas.unwrap_or(0) as f64;
        grid.row([
            "rate".to_owned(),
            number(all),
            number(peak),
            tier.margin.map_or(NONE.to_owned(), share),
        ]);
    }
    if let Some((used, found)) = sizing.p99_at_use {
        let wanted = sizing.wanted.p99_us;
        grid.row([
            format!("p99 at {} of saturation", share(used)),
            micros(found),
            micros_or_none(wanted),
            wanted.map_or(NONE.to_owned(), |wanted| share(1.0 - found / wanted)),
        ]);
    }
    if let Some(memory) = sizing.memory_bytes {
        let limit = sizing.choice().and_then(|tier| tier.memory_bytes);
        grid.row([
            "memory".to_owned(),
            bytes(memory),
            limit.map_or(NONE.to_owned(), bytes),
            limit.map_or(NONE.to_owned(), |limit| {
                share(1.0 - memory as f64 / limit as f64)
            }),
        ]);
    }
    SheetPart {
        name: "margins",
        title: "How much room is there?".to_owned(),
        blocks: vec![
            SheetBlock::Grid(grid),
            SheetBlock::Words(
                "Margins are computed from what was measured; none is asserted.".to_owned(),
            ),
        ],
    }
}
