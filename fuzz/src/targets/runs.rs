//! Starts of runs and their events, in the words of each client.

/// A body that starts a run, in each shape.
pub fn run_start(data: &[u8]) {
    run::fuzzing::start(data);
}

/// Events of a run, said in each shape.
pub fn run_events(data: &[u8]) {
    run::fuzzing::events(data);
}
