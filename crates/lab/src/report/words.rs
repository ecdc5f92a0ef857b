//! Numbers as a reader wants them: three digits that matter, and a unit.
//!
//! A report that prints 1234.5678 ms claims more than was measured. These functions only shorten; they never
//! change a unit's base, and what is not a number is a dash.

pub use crate::output::units::{count, cut, plain as clean};

/// What stands where nothing was measured.
pub const NONE: &str = "–";

/// A number in three significant digits at least, whole from 100 on: `0.0123`, `1.23`, `12.3`, `12,345`.
pub fn number(value: f64) -> String {
    if !value.is_finite() {
        return NONE.to_owned();
    }
    if value == 0.0 {
        return "0".to_owned();
    }
    let sign = if value < 0.0 { "−" } else { "" };
    let size = value.abs();
    // Rounded first, so that 99.96 is 100 and not 100.0.
    let magnitude = |size: f64| size.log10().floor() as i32;
    let places = (2 - magnitude(size)).clamp(0, 9) as usize;
    let rounded: f64 = format!("{size:.places$}").parse().unwrap_or(size);
    if rounded >= 100.0 {
        return format!("{sign}{}", count(rounded.round() as u64));
    }
    if rounded == 0.0 {
        return "0".to_owned();
    }
    let places = (2 - magnitude(rounded)).clamp(0, 9) as usize;
    format!("{sign}{rounded:.places$}")
}

/// A duration in microseconds: `870 µs`, `12.3 ms`, `1.91 s`.
pub fn micros(us: f64) -> String {
    match us {
        us if !us.is_finite() => NONE.to_owned(),
        us if us < 999.5 => format!("{} µs", number(us)),
        us if us < 999_500.0 => format!("{} ms", number(us / 1e3)),
        us => format!("{} s", number(us / 1e6)),
    }
}

/// A duration in microseconds for a tick, without the zeros that it does not need: `1 ms`, `500 µs`, `0.5 µs`.
pub fn tick_micros(us: f64) -> String {
    match us {
        us if us < 1e3 => format!("{} µs", tick(us)),
        us if us < 1e6 => format!("{} ms", tick(us / 1e3)),
        us => format!("{} s", tick(us / 1e6)),
    }
}

/// A tick's number: exact, without zeros at its end, and in thousands from ten thousand on: `0.25`, `2,000`, `50 k`.
pub fn tick(value: f64) -> String {
    match value.abs() {
        size if size >= 1e9 => format!("{} G", plain(value / 1e9)),
        size if size >= 1e6 => format!("{} M", plain(value / 1e6)),
        size if size >= 1e4 => format!("{} k", plain(value / 1e3)),
        size if size >= 1e3 && value.fract() == 0.0 => count(value as u64),
        _ => plain(value),
    }
}

/// A number in its shortest form to the ninth place.
fn plain(value: f64) -> String {
    let text = format!("{value:.9}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0" } else { text }.to_owned()
}

/// A share as a percentage: `0.05 %`.
pub fn share(share: f64) -> String {
    format!("{} %", number(share * 100.0))
}

/// Bytes in binary units: `612 MiB`.
pub fn bytes(bytes: u64) -> String {
    const UNITS: &[&str] = &["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut size = bytes as f64 / 1024.0;
    let mut unit = 0;
    while size >= 1000.0 && unit + 1 < UNITS.len() {
        size /= 1024.0;
        unit += 1;
    }
    format!("{} {}", number(size), UNITS[unit])
}

/// A time that a person waits: `4.5 s`, `1 min 30 s`, `2 h 5 min`.
pub fn seconds(seconds: f64) -> String {
    if !seconds.is_finite() || seconds < 0.0 {
        return NONE.to_owned();
    }
    if seconds < 90.0 {
        let rounded = (seconds * 10.0).round() / 10.0;
        return format!("{} s", plain(rounded));
    }
    let whole = seconds.round() as u64;
    let (hours, minutes, rest) = (whole / 3600, whole / 60 % 60, whole % 60);
    match (hours, minutes, rest) {
        (0, minutes, 0) => format!("{minutes} min"),
        (0, minutes, rest) => format!("{minutes} min {rest} s"),
        (hours, 0, _) => format!("{hours} h"),
        (hours, minutes, _) => format!("{hours} h {minutes} min"),
    }
}

/// An instant on an axis of seconds that is `span` long: `40`, `1:30`, `1:05:00`.
pub fn clock(at: f64, span: f64) -> String {
    if span <= 120.0 {
        return plain(at);
    }
    let whole = at.round() as u64;
    let (hours, minutes, rest) = (whole / 3600, whole / 60 % 60, whole % 60);
    if span >= 7200.0 {
        format!("{hours}:{minutes:02}")
    } else {
        format!("{}:{rest:02}", hours * 60 + minutes)
    }
}

/// The unit that [`clock`] counts in.
pub fn clock_unit(span: f64) -> &'static str {
    match span {
        span if span <= 120.0 => "s",
        span if span < 7200.0 => "min:s",
        _ => "h:min",
    }
}

/// `1 flow`, `2 flows`.
pub fn plural(n: usize, one: &str) -> String {
    let ending = if n == 1 { "" } else { "s" };
    format!("{} {one}{ending}", count(n as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits() {
        let cases = [
            (0.0, "0"),
            (0.012_34, "0.0123"),
            (1.0, "1.00"),
            (9.999, "10.0"),
            (99.96, "100"),
            (1234.6, "1,235"),
            (-2.5, "−2.50"),
            (1e-12, "0"),
            (f64::NAN, NONE),
            (f64::INFINITY, NONE),
        ];
        for (value, text) in cases {
            assert_eq!(number(value), text, "{value}");
        }
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(count(123), "123");
    }

    #[test]
    fn units_change_where_they_should() {
        assert_eq!(micros(870.0), "870 µs");
        assert_eq!(micros(999.6), "1.00 ms");
        assert_eq!(micros(12_345.0), "12.3 ms");
        assert_eq!(micros(1_905_000.0), "1.91 s");
        assert_eq!(bytes(512), "512 B");
        assert_eq!(bytes(641_728_512), "612 MiB");
        assert_eq!(share(0.0005), "0.0500 %");
        assert_eq!(seconds(4.5), "4.5 s");
        assert_eq!(seconds(90.0), "1 min 30 s");
        assert_eq!(seconds(7500.0), "2 h 5 min");
    }

    #[test]
    fn ticks_are_exact_and_short() {
        assert_eq!(tick(0.25), "0.25");
        assert_eq!(tick(2000.0), "2,000");
        assert_eq!(tick(50_000.0), "50 k");
        assert_eq!(tick(1_500_000.0), "1.5 M");
        assert_eq!(tick_micros(2000.0), "2 ms");
        assert_eq!(clock(90.0, 600.0), "1:30");
        assert_eq!(clock(40.0, 100.0), "40");
        assert_eq!(clock(7260.0, 9000.0), "2:01");
    }

    #[test]
    fn what_hides_or_turns_text_is_replaced() {
        assert_eq!(clean("a\u{0}b\u{202e}c\nd"), "a\u{fffd}b\u{fffd}c\u{fffd}d");
        assert_eq!(clean("<é>"), "<é>");
        assert_eq!(cut("abcdef", 4), "abc…");
        assert_eq!(cut("abcd", 4), "abcd");
    }
}
