//! The order of measuring: blocks of A and B next to each other, drawn by a seed, with controls of A and A between.
//!
//! Noise that lasts longer than a block is shared by both runs of it and cancels; what falls on whoever comes second
//! is spread by turning the order. One block in five runs A twice: what it shows is the rig's own error, live.
//! Looking at the data before the last block costs, so each look has its own share of the promise and the shares sum
//! to one: whatever makes the comparison stop early, the promise holds. A block that measured something else is
//! dropped with its reason, and replaced up to a bound.

use crate::exit::Failure;

use super::answer::{Answer, Judged, Pair, Rule, SAMPLES_MIN, judge_blocks};
use super::metrics::Measured;

/// Most blocks that a comparison may ask for.
pub const BLOCKS_MAX: usize = 1000;
/// Blocks before the first look, and the default when the number is fixed.
pub const BLOCKS_FIRST: usize = 6;
/// One block in this many is a control.
const CONTROL_EVERY: usize = 5;
/// The shares of the promise that the looks of `--blocks auto` spend.
const LOOK_SHARES: [f64; 3] = [0.25, 0.25, 0.5];

/// One of the two that are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    A,
    B,
}

/// Measures one side once. It is handed the number of the run, from 0, for seeds and messages.
pub trait Bench {
    /// # Errors
    ///
    /// The side cannot be measured at all; the comparison ends.
    fn measure(&mut self, side: Side, run: usize) -> Result<Measured, Failure>;

    /// Told after each block.
    fn after(&mut self, _block: &Block) {}
}

/// When to look, and when to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// This many blocks and one look.
    Fixed(usize),
    /// Up to three looks; stops when the answer is known or the interval is half as wide as the margin.
    Auto { most: usize },
}

impl Count {
    /// After how many blocks to look, and which share of the promise each look spends.
    pub fn looks(self) -> Vec<(usize, f64)> {
        match self {
            Count::Fixed(blocks) => vec![(blocks, 1.0)],
            Count::Auto { most } if most <= BLOCKS_FIRST + 1 => vec![(most, 1.0)],
            Count::Auto { most } => {
                let middle = ((BLOCKS_FIRST * most) as f64).sqrt().round() as usize;
                let middle = middle.clamp(BLOCKS_FIRST + 1, most - 1);
                let looks = [BLOCKS_FIRST, middle, most].into_iter();
                looks.zip(LOOK_SHARES).collect()
            }
        }
    }
}

/// What a block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A and B.
    Pair,
    /// A and A, taken as if the second were B.
    Control,
}

/// One block that was run.
#[derive(Clone, Debug)]
pub struct Block {
    pub number: usize,
    pub kind: Kind,
    /// Which place came first.
    pub first: Side,
    pub pair: Pair,
    /// Why it is not used, if it is not.
    pub dropped: Option<String>,
}

/// All that a comparison measured, and what it concludes.
#[derive(Clone, Debug)]
pub struct Interleaved {
    pub judged: Judged,
    pub blocks: Vec<Block>,
    /// The look at which it ended, from 1, and how many there could have been.
    pub look: usize,
    pub looks: usize,
    /// Pairs that were asked for until that look.
    pub wanted: usize,
    /// The part of the promise that this look spent.
    pub alpha: f64,
    pub interrupted: bool,
}

impl Interleaved {
    /// The pairs that are used.
    pub fn pairs(&self) -> Vec<Pair> {
        used(&self.blocks, Kind::Pair)
    }

    /// The controls that are used.
    pub fn controls(&self) -> Vec<Pair> {
        used(&self.blocks, Kind::Control)
    }
}

fn used(blocks: &[Block], kind: Kind) -> Vec<Pair> {
    let used = blocks
        .iter()
        .filter(|b| b.kind == kind && b.dropped.is_none());
    used.map(|block| block.pair.clone()).collect()
}

/// Runs blocks until the count says stop.
///
/// # Errors
///
/// A side that cannot be measured.
pub fn interleave(
    count: Count,
    rule: &Rule,
    seed: u64,
    bench: &mut dyn Bench,
) -> Result<Interleaved, Failure> {
    let looks = count.looks();
    let mut order = Order::new(seed);
    let mut blocks = Vec::new();
    let mut look = 0;
    loop {
        let (wanted, share) = looks[look];
        let interrupted = order.run_until(wanted, &mut blocks, bench)?;
        let rule_now = Rule {
            alpha: rule.alpha * share,
            ..rule.clone()
        };
        let judged = judge_blocks(&used(&blocks, Kind::Pair), &rule_now);
        look += 1;
        if look == looks.len() || interrupted || settled(&judged, rule.margin) {
            return Ok(Interleaved {
                judged,
                blocks,
                look,
                looks: looks.len(),
                wanted,
                alpha: rule_now.alpha,
                interrupted,
            });
        }
    }
}

/// Whether more blocks would not change what is said: the answer is known, or the interval of the leading metric is
/// so narrow that only the margin itself is in doubt.
fn settled(judged: &Judged, margin: f64) -> bool {
    if judged.answer != Answer::CannotTell {
        return true;
    }
    let leading = judged.findings.first();
    leading.is_some_and(|finding| finding.interval.half_width() <= 0.5 * margin)
}

/// Draws what comes next.
struct Order {
    rng: fastrand::Rng,
    /// The place of the control in the current five.
    control: usize,
    /// The order of the pair before, if this one is to be its mirror image.
    mirror: Option<Side>,
    runs: usize,
}

impl Order {
    fn new(seed: u64) -> Order {
        Order {
            rng: fastrand::Rng::with_seed(seed),
            control: 0,
            mirror: None,
            runs: 0,
        }
    }

    /// Runs blocks until this many pairs are used, or a bound of attempts is reached; tells whether it was interrupted.
    fn run_until(
        &mut self,
        wanted: usize,
        blocks: &mut Vec<Block>,
        bench: &mut dyn Bench,
    ) -> Result<bool, Failure> {
        // Dropped blocks are replaced, but a host that never comes to rest must not hold the comparison for ever.
        let attempts_max = 2 * (wanted + wanted.div_ceil(CONTROL_EVERY - 1));
        while used(blocks, Kind::Pair).len() < wanted && blocks.len() < attempts_max {
            let block = self.next(blocks.len(), bench)?;
            let interrupted = block.pair.a.interrupted || block.pair.b.interrupted;
            bench.after(&block);
            blocks.push(block);
            if interrupted {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn next(&mut self, number: usize, bench: &mut dyn Bench) -> Result<Block, Failure> {
        let place = number % CONTROL_EVERY;
        if place == 0 {
            // Not the first of all: a comparison should begin with what it is asked.
            self.control = self.rng.usize(1..CONTROL_EVERY);
        }
        let kind = if place == self.control {
            Kind::Control
        } else {
            Kind::Pair
        };
        let drawn = if self.rng.bool() { Side::A } else { Side::B };
        let first = match kind {
            Kind::Control => drawn,
            Kind::Pair => self.mirrored(drawn),
        };
        let pair = self.measure(kind, first, bench)?;
        let unfit = [&pair.a, &pair.b]
            .into_iter()
            .find_map(|side| side.unfit.clone());
        Ok(Block {
            number,
            kind,
            first,
            pair,
            dropped: unfit,
        })
    }

    /// Every second pair is in the opposite order of the one before, so that a steady drift cancels.
    fn mirrored(&mut self, drawn: Side) -> Side {
        match self.mirror.take() {
            Some(Side::A) => Side::B,
            Some(Side::B) => Side::A,
            None => {
                self.mirror = Some(drawn);
                drawn
            }
        }
    }

    fn measure(&mut self, kind: Kind, first: Side, bench: &mut dyn Bench) -> Result<Pair, Failure> {
        let second = match first {
            Side::A => Side::B,
            Side::B => Side::A,
        };
        let mut pair = Pair::default();
        for place in [first, second] {
            let side = if kind == Kind::Control {
                Side::A
            } else {
                place
            };
            let measured = bench.measure(side, self.runs)?;
            self.runs += 1;
            let interrupted = measured.interrupted;
            match place {
                Side::A => pair.a = measured,
                Side::B => pair.b = measured,
            }
            if interrupted {
                break;
            }
        }
        Ok(pair)
    }
}

impl Count {
    /// Reads `--blocks`: a number, or `auto` for up to `most`.
    ///
    /// # Errors
    ///
    /// It is neither; too few to say anything, or more than anybody waits for.
    pub fn read(text: &str, most: usize) -> Result<Count, Failure> {
        let help = format!("ask for {SAMPLES_MIN} to {BLOCKS_MAX}, or for `auto`");
        let checked = |blocks: usize| {
            if (SAMPLES_MIN..=BLOCKS_MAX).contains(&blocks) {
                return Ok(blocks);
            }
            Err(Failure::new(
                format!("{blocks} blocks cannot be compared"),
                help.clone(),
            ))
        };
        if text == "auto" {
            return Ok(Count::Auto {
                most: checked(most)?,
            });
        }
        let Ok(blocks) = text.parse() else {
            return Err(Failure::new(
                format!("--blocks {text} is no number of blocks"),
                help,
            ));
        };
        Ok(Count::Fixed(checked(blocks)?))
    }
}
