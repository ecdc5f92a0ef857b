//! What each experiment says: a function for each, from its facts to a sheet. Nothing is measured or fitted here.

pub mod certificate;
pub mod chart;
pub mod common;
pub mod size;
pub mod soak;
pub mod sweep;
