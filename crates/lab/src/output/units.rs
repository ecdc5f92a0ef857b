//! How quantities are written for people: one function for each kind, used wherever a number is shown.
//!
//! Durations have three significant digits, since a histogram knows no more (0.1 %). What is counted is never
//! rounded. A quantity that is not finite is written `–`, never `NaN`.

/// What stands where there is no number.
pub const NONE: &str = "–";

/// A duration given in microseconds: `12.3 µs`, `4.56 ms`, `1.90 s`, `3m 07s`.
pub fn duration(us: f64) -> String {
    if !us.is_finite() {
        return NONE.to_owned();
    }
    // The bound of each unit lies where three digits would round up into the next.
    match us.abs() {
        0.0 => "0 µs".to_owned(),
        size if size < 999.5 => format!("{} µs", three(us)),
        size if size < 999_500.0 => format!("{} ms", three(us / 1e3)),
        size if size < 119.5e6 => format!("{} s", three(us / 1e6)),
        _ => clock(us / 1e6),
    }
}

/// A duration where there may be none.
pub fn duration_or_none(us: Option<f64>) -> String {
    us.map_or_else(|| NONE.to_owned(), duration)
}

/// A length of a run in seconds: `4.2 s`, `30 s`, `2m 05s`, `1h 02m 03s`.
pub fn clock(seconds: f64) -> String {
    if !seconds.is_finite() {
        return NONE.to_owned();
    }
    let whole = seconds.round() as u64;
    match whole {
        0..10 => format!("{seconds:.1} s"),
        10..120 => format!("{whole} s"),
        120..3600 => format!("{}m {:02}s", whole / 60, whole % 60),
        _ => format!(
            "{}h {:02}m {:02}s",
            whole / 3600,
            whole / 60 % 60,
            whole % 60
        ),
    }
}

/// A count, whole and in groups of three: `7,390,997`.
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number that was measured, such as a rate: `0.25`, `87.3`, `1,934`.
pub fn number(value: f64) -> String {
    match value.abs() {
        _ if !value.is_finite() => NONE.to_owned(),
        0.0 => "0".to_owned(),
        size if size < 999.5 => three(value),
        _ if value < 0.0 => format!("-{}", count(-value.round() as u64)),
        _ => count(value.round() as u64),
    }
}

/// A level or another planned number: whole where it is whole.
pub fn level(value: f64) -> String {
    if value.fract() == 0.0 && (0.0..1e15).contains(&value) {
        count(value as u64)
    } else {
        number(value)
    }
}

/// Bytes that travelled, in powers of 1,000: `812 B`, `1.20 MB`.
pub fn bytes(n: f64) -> String {
    scaled(n, 1000.0, &["B", "kB", "MB", "GB", "TB", "PB"])
}

/// Bytes of memory, in powers of 1,024: `12.1 MiB`.
pub fn memory(n: u64) -> String {
    scaled(n as f64, 1024.0, &["B", "KiB", "MiB", "GiB", "TiB", "PiB"])
}

/// A share of one in percent: `0.050 %`.
pub fn percent(share: f64) -> String {
    if share.is_finite() {
        format!("{:.3} %", share * 100.0)
    } else {
        NONE.to_owned()
    }
}

/// The share of failures among all. None among `n` is no proof that there are none: the truth is then under 3/n with
/// 95 % confidence (the rule of three), which is said beside it: `0.000 % (95 % sure: under 0.00011 %)`.
pub fn failed_share(failed: u64, all: u64) -> String {
    match (failed, all) {
        (_, 0) => NONE.to_owned(),
        (0, _) => format!(
            "{} (95 % sure: under {} %)",
            percent(0.0),
            small(bound_of_none(all) * 100.0)
        ),
        // A failure must not look like none.
        _ if (failed as f64 / all as f64) < 5e-6 => {
            format!("{} %", small(failed as f64 / all as f64 * 100.0))
        }
        _ => percent(failed as f64 / all as f64),
    }
}

/// The upper bound, with 95 % confidence, of a share of which none was seen among `n`.
pub fn bound_of_none(n: u64) -> f64 {
    if n == 0 {
        1.0
    } else {
        (3.0 / n as f64).min(1.0)
    }
}

/// Text from outside, fit for a terminal and for a page: what would steer, hide or turn text, and what XML does
/// not allow, is replaced.
pub fn plain(text: &str) -> String {
    let hides = |c: char| {
        c.is_control()
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}')
            || matches!(c, '\u{feff}' | '\u{fffe}' | '\u{ffff}')
    };
    let fit = |c: char| if hides(c) { '\u{fffd}' } else { c };
    text.chars().map(fit).collect()
}

/// The last characters go when a text is longer than `width` characters.
pub fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let kept: String = text.chars().take(width.saturating_sub(1)).collect();
    format!("{kept}…")
}

/// Three significant digits of a number under 1,000; two of one under 1.
fn three(value: f64) -> String {
    match value.abs() {
        size if size < 9.995 => format!("{value:.2}"),
        size if size < 99.95 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// Two significant digits of a small positive number, without an exponent.
fn small(value: f64) -> String {
    let places = (1.0 - value.log10().floor()).clamp(0.0, 20.0) as usize;
    format!("{value:.places$}")
}

fn scaled(value: f64, base: f64, units: &[&str]) -> String {
    if !value.is_finite() {
        return NONE.to_owned();
    }
    let (mut value, mut place) = (value, 0);
    while value.abs() >= 999.5 && place + 1 < units.len() {
        value /= base;
        place += 1;
    }
    if place == 0 {
        format!("{value:.0} {}", units[0])
    } else {
        format!("{} {}", three(value), units[place])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_keep_three_digits_and_their_unit_when_rounded() {
        let cases = [
            (0.0, "0 µs"),
            (0.4, "0.40 µs"),
            (12.34, "12.3 µs"),
            (999.4, "999 µs"),
            (999.6, "1.00 ms"),
            (4_560.0, "4.56 ms"),
            (9_996.0, "10.0 ms"),
            (999_600.0, "1.00 s"),
            (1_902_000.0, "1.90 s"),
            (119.6e6, "2m 00s"),
            (7_263e6, "2h 01m 03s"),
            (f64::NAN, "–"),
            (f64::INFINITY, "–"),
        ];
        for (us, text) in cases {
            assert_eq!(duration(us), text, "{us}");
        }
    }

    #[test]
    fn counts_are_whole() {
        let cases = [
            (0, "0"),
            (999, "999"),
            (1000, "1,000"),
            (7_390_997, "7,390,997"),
            (u64::MAX, "18,446,744,073,709,551,615"),
        ];
        for (n, text) in cases {
            assert_eq!(count(n), text);
        }
    }

    #[test]
    fn numbers_levels_and_bytes() {
        let numbers = [0.0, 0.25, 87.34, 999.4, 1_933.9, -5.0, -1500.0, f64::NAN].map(number);
        assert_eq!(
            numbers,
            ["0", "0.25", "87.3", "999", "1,934", "-5.00", "-1,500", "–"]
        );
        assert_eq!([level(64.0), level(0.5)], ["64", "0.50"]);
        let sizes = [0.0, 812.0, 999.6, 1_204_000.0, 3e15, 3e20].map(bytes);
        assert_eq!(
            sizes,
            ["0 B", "812 B", "1.00 kB", "1.20 MB", "3.00 PB", "300000 PB"]
        );
        assert_eq!(memory(12 * 1024 * 1024 + 100_000), "12.1 MiB");
    }

    #[test]
    fn no_failure_is_shown_with_its_bound_and_one_is_never_shown_as_none() {
        assert_eq!(
            failed_share(0, 2_700_000),
            "0.000 % (95 % sure: under 0.00011 %)"
        );
        assert_eq!(failed_share(0, 2), "0.000 % (95 % sure: under 100 %)");
        assert_eq!(failed_share(1, 2_000), "0.050 %");
        assert_eq!(failed_share(1, 7_390_997), "0.000014 %");
        assert_eq!(failed_share(0, 0), "–");
        assert_eq!(percent(f64::NAN), "–");
    }

    #[test]
    fn texts_cannot_steer_a_terminal() {
        assert_eq!(
            plain("a\u{1b}[2Jb\n\u{9b}c"),
            "a\u{fffd}[2Jb\u{fffd}\u{fffd}c"
        );
        assert_eq!(cut("µµµµ", 3), "µµ…");
        assert_eq!(cut("µµµ", 3), "µµµ");
    }
}
