//! What tests of more than one file share, and the known answers.

pub(crate) mod fixture;
pub(crate) mod vectors;
