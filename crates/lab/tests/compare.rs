//! `compare` keeps its promises on noise that is made up, says what it found, and reads earlier runs.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

#[path = "compare/real.rs"]
mod real;
#[path = "compare/shown.rs"]
mod shown;
#[path = "compare/statistics.rs"]
mod statistics;
#[path = "compare/world.rs"]
mod world;
