//! Tests of the replay window.
