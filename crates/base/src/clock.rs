//! Time as a value: read once at the edge and passed in, so that a judgement can be replayed.

/// One reading of the clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Now {
    /// Milliseconds since 1970-01-01T00:00:00Z. May jump; for records and expiries.
    pub unix_ms: u64,
    /// Milliseconds since the process started. Never goes back; for limits and durations.
    pub mono_ms: u64,
}

/// Writes Unix milliseconds as RFC 3339 in UTC, such as `2026-11-21T14:25:30.123Z`.
pub fn rfc3339(unix_ms: u64) -> String {
    let (days, ms) = (unix_ms / 86_400_000, unix_ms % 86_400_000);
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1000 % 60);
    format!(
        "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z",
        ms % 1000
    )
}

/// Days since 1970 to year, month, day in the proleptic Gregorian calendar, counted in eras of 400
/// years that begin on the first of March, so that the leap day is the last of its year.
pub fn civil(days: u64) -> (u64, u64, u64) {
    let z = days + 719_468;
    let (era, doe) = (z / 146_097, z % 146_097);
    let yoe = (doe - doe / 1460 + doe / 36_524 - doe / 146_096) / 365;
    let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    let mp = (5 * doy + 2) / 153;
    let day = doy - (153 * mp + 2) / 5 + 1;
    let month = if mp < 10 { mp + 3 } else { mp - 9 };
    (yoe + era * 400 + u64::from(month <= 2), month, day)
}

/// The way back: year, month and day to days since 1970.
pub fn days_of(year: u64, month: u64, day: u64) -> u64 {
    let year = year - u64::from(month <= 2);
    let (era, yoe) = (year / 400, year % 400);
    let mp = if month > 2 { month - 3 } else { month + 9 };
    let doy = (153 * mp + 2) / 5 + day - 1;
    let doe = yoe * 365 + yoe / 4 - yoe / 100 + doy;
    era * 146_097 + doe - 719_468
}

#[cfg(test)]
mod tests {
    use super::{civil, days_of, rfc3339};

    #[test]
    fn known_dates() {
        assert_eq!(rfc3339(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(rfc3339(951_782_400_000), "2000-02-29T00:00:00.000Z");
        assert_eq!(rfc3339(1_795_271_130_123), "2026-11-21T14:25:30.123Z");
        assert_eq!(rfc3339(4_102_444_799_999), "2099-12-31T23:59:59.999Z");
    }

    #[test]
    fn days_go_there_and_back() {
        for days in 0..60_000 {
            let (year, month, day) = civil(days);
            assert_eq!(days_of(year, month, day), days);
        }
    }
}
