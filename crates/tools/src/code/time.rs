//! Times as texts: RFC 3339 in UTC, to the millisecond.

use std::time::{SystemTime, UNIX_EPOCH};

/// A time as RFC 3339 writes it; what is before 1970 is 1970.
pub(super) fn text(at: SystemTime) -> String {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    base::clock::rfc3339(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}
