//! The plots of a report, each named by its question: one file below, one row here.
//!
//! A plot is a pure function from what a run found to pictures. Where there is nothing to draw it says so in a
//! line, since an empty pair of axes looks like a measurement.

pub mod cells;
pub mod effects;
pub mod errors_over_time;
pub mod latency_over_time;
pub mod latency_spectrum;
pub mod resources_over_time;
pub mod throughput_over_time;

use crate::result::Run;

/// Most flows of a run that are drawn each on its own; the tables name all.
pub const FLOWS_DRAWN_MAX: usize = 8;

/// A plot of one run.
pub struct Plot {
    /// Its anchor in the page, and the name of its file.
    pub name: &'static str,
    /// What it answers.
    pub question: &'static str,
    pub draw: fn(&Run) -> Vec<Figure>,
}

/// One picture with its words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Figure {
    /// What tells it from its neighbours; empty where there is only one.
    pub title: String,
    /// The picture, as an SVG element; empty where the caption says it all.
    pub svg: String,
    /// What it is drawn from: how many, over which time, and how to read it.
    pub caption: String,
}

impl Figure {
    /// Words where there is nothing to draw.
    pub fn words(caption: impl Into<String>) -> Figure {
        Figure {
            title: String::new(),
            svg: String::new(),
            caption: caption.into(),
        }
    }
}

/// The plots of one run, in the order of the page.
pub const PLOTS: &[Plot] = &[
    Plot {
        name: "latency_spectrum",
        question: "How long does a request take, and how long do the slowest take?",
        draw: latency_spectrum::draw,
    },
    Plot {
        name: "latency_over_time",
        question: "Did latency change over time?",
        draw: latency_over_time::draw,
    },
    Plot {
        name: "throughput_over_time",
        question: "Did the target keep up with what was asked of it?",
        draw: throughput_over_time::draw,
    },
    Plot {
        name: "errors_over_time",
        question: "When did it fail, and how?",
        draw: errors_over_time::draw,
    },
    Plot {
        name: "resources_over_time",
        question: "What did it cost in CPU and memory?",
        draw: resources_over_time::draw,
    },
];
