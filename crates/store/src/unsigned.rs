//! How much of a log's end may stand there without a signature, and the count of it.
//!
//! The writer signs before an entry would take the end over the bound, whatever the clocks do, so that every
//! crash leaves an end within it. Opening and verifying hold a log to the same count. The times are those in
//! the records, which whoever writes the folder can choose; the number of entries is not for them to choose.

use base::limit::{LOG_UNSIGNED_ENTRIES_MAX, LOG_UNSIGNED_MS_MAX};

/// What stands before the time of a record. In canonical JSON only texts come before it, whose quotes are
/// escaped, so its first place is that of the key.
const AT: &[u8] = b"\"at\":\"";

/// The entries after the newest checkpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Unsigned {
    entries: u64,
    /// The least and the greatest time of their records, in Unix milliseconds.
    times: Option<(u64, u64)>,
}

impl Unsigned {
    /// So many entries, of which the times are not known.
    pub(crate) fn of(entries: u64) -> Unsigned {
        Unsigned {
            entries,
            times: None,
        }
    }

    /// How many there are.
    pub(crate) fn entries(&self) -> u64 {
        self.entries
    }

    /// Counts one more.
    pub(crate) fn push(&mut self, record: &[u8]) {
        self.push_at(recorded_at(record));
    }

    /// As [`Unsigned::push`], by the time of the record.
    pub(crate) fn push_at(&mut self, at: Option<u64>) {
        self.entries += 1;
        if let Some(at) = at {
            let (from, to) = self.times.unwrap_or((at, at));
            self.times = Some((from.min(at), to.max(at)));
        }
    }

    /// Whether there are more than an interval may hold.
    pub(crate) fn is_over(&self) -> bool {
        let span = self.times.map_or(0, |(from, to)| to - from);
        self.entries > LOG_UNSIGNED_ENTRIES_MAX || span > LOG_UNSIGNED_MS_MAX
    }

    /// How many of these records may follow before the end has to be signed.
    pub(crate) fn room<'r>(&self, records: impl Iterator<Item = &'r [u8]>) -> usize {
        let mut with = self.clone();
        let fits = |record: &&[u8]| {
            with.push(record);
            !with.is_over()
        };
        records.take_while(fits).count()
    }
}

/// What is said of an end that is over the bound, or of a log that nobody ever signed.
pub(crate) fn told(entries: u64, ever_signed: bool) -> String {
    let seconds = LOG_UNSIGNED_MS_MAX / 1000;
    let why = match ever_signed {
        true => format!(
            "a crash leaves at most {LOG_UNSIGNED_ENTRIES_MAX} entries of {seconds} s behind the newest checkpoint"
        ),
        false => "there is no checkpoint, and every log begins with one".to_owned(),
    };
    format!("unsigned tail of {entries}: {why}")
}

/// When a record says that it was made, in Unix milliseconds; nothing where it says no time.
pub(crate) fn recorded_at(record: &[u8]) -> Option<u64> {
    let start = record.windows(AT.len()).position(|window| window == AT)? + AT.len();
    let text = record.get(start..start + 24)?;
    let number = |from: usize, to: usize| -> Option<i64> {
        let digits = &text[from..to];
        let is_number = digits.iter().all(u8::is_ascii_digit);
        let add = |sum: i64, digit: &u8| sum * 10 + i64::from(digit - b'0');
        is_number.then(|| digits.iter().fold(0, add))
    };
    let marks = [
        (4, b'-'),
        (7, b'-'),
        (10, b'T'),
        (13, b':'),
        (16, b':'),
        (19, b'.'),
        (23, b'Z'),
    ];
    if marks.iter().any(|(at, mark)| text[*at] != *mark) {
        return None;
    }
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    let seconds = days(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second;
    u64::try_from(seconds * 1000 + number(20, 23)?).ok()
}

/// Days from 1970-01-01 to a date of the Gregorian calendar.
fn days(year: i64, month: i64, day: i64) -> i64 {
    // Years begin in March, so that the leap day is the last of its year.
    let year = if month <= 2 { year - 1 } else { year };
    let in_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    365 * year + year / 4 - year / 100 + year / 400 + in_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Vec<u8> {
        format!(
            r#"{{"action":"\"at\":\"","at":"{}","x":1}}"#,
            base::clock::rfc3339(ms)
        )
        .into_bytes()
    }

    #[test]
    fn a_time_is_read_back() {
        for ms in [
            0,
            951_782_399_999,
            951_782_400_000,
            1_767_225_600_001,
            4_102_444_800_000,
        ] {
            assert_eq!(recorded_at(&at(ms)), Some(ms));
        }
        for none in [
            &b"{}"[..],
            br#"{"at":"2026"}"#,
            br#"{"at":"2026-01-01 00:00:00.000Z"}"#,
        ] {
            assert_eq!(recorded_at(none), None);
        }
    }

    #[test]
    fn entries_and_times_are_bounded() {
        let mut end = Unsigned::default();
        end.push(&at(50_000));
        assert!(!end.is_over());
        let (near, far) = (at(50_000 - LOG_UNSIGNED_MS_MAX), at(50_001));
        assert_eq!(end.room([&near[..], &far[..]].into_iter()), 1);
        end.push(&near);
        assert!(!end.is_over());
        end.push(&far);
        assert!(end.is_over());

        let mut end = Unsigned::default();
        let many = std::iter::repeat_n(&b"{}"[..], 10_000);
        assert_eq!(end.room(many) as u64, LOG_UNSIGNED_ENTRIES_MAX);
        (0..LOG_UNSIGNED_ENTRIES_MAX).for_each(|_| end.push(b"{}"));
        assert!(!end.is_over());
        end.push(b"{}");
        assert!(end.is_over());
    }
}
