//! `compare` keeps its promises: on noise that is made up (`statistics`), and on servers that are real (`real`).

#[path = "compare/statistics.rs"]
mod statistics;
#[path = "compare/world.rs"]
mod world;
