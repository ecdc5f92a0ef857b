//! Impossible states: loud in development, counted and refused in production.

use std::sync::atomic::{AtomicU64, Ordering};

/// How often an impossible state was reached since the process started.
pub static NEVERS: AtomicU64 = AtomicU64::new(0);

/// Counts one; panics where debug assertions are on.
pub fn count(what: &str) {
    NEVERS.fetch_add(1, Ordering::Relaxed);
    debug_assert!(false, "never: {what}");
}

/// Says that this state is impossible. Follow it with the refusal that production gives instead.
#[macro_export]
macro_rules! never {
    ($($what:tt)*) => { $crate::never::count(&format!($($what)*)) };
}
