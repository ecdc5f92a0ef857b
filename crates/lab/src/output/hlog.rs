//! The histograms of each interval as a log in HdrHistogram's format V2, which its tools in other languages read.
//!
//! Lines are written while the run goes on, so the file's size grows with the run and memory does not. A line's tag is
//! `flow/metric`; in a flow's name `%`, `,` and what is not visible ASCII are written as `%2C`. Values are nanoseconds
//! (tokens a second times 1,000 for `token_rate`), and so is the third column, where Java's writer puts milliseconds.
//! Until the run ends the log is a hidden `.partial` file beside its place.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::time::{Duration, SystemTime};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use hdrhistogram::serialization::interval_log::{
    IntervalLogIterator, IntervalLogWriterBuilder, IntervalLogWriterError, LogEntry, Tag,
};
use hdrhistogram::serialization::{Deserializer, V2DeflateSerializeError, V2DeflateSerializer};

use super::artefact::Draft;
use super::{Observer, Snapshot};
use crate::exit::Failure;
use crate::tally::{Metric, Tally};

/// Longest line that is read, in bytes. A histogram of every value that there is takes under 100,000.
const LINE_BYTES_MAX: u64 = 1 << 20;
/// What Java's reader looks for first, and the names of the columns.
const VERSION: &str = "[Histogram log format version 1.3]";
const LEGEND: &str =
    "\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"\n";

/// Writes an interval log as the run goes on.
pub struct HistogramLog {
    /// Absent once it ended or failed.
    draft: Option<Draft>,
    serializer: V2DeflateSerializer,
    written: Totals,
    failure: Option<Failure>,
}

/// What a log holds, to compare what was written with what is read back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Lines with a histogram.
    pub intervals: u64,
    /// Values in all of them.
    pub values: u64,
}

impl HistogramLog {
    /// Begins a log.
    ///
    /// # Errors
    ///
    /// The file cannot be written.
    pub fn begin(path: &Path) -> Result<HistogramLog, Failure> {
        Ok(HistogramLog {
            draft: Some(Draft::begin(path)?),
            serializer: V2DeflateSerializer::new(),
            written: Totals::default(),
            failure: None,
        })
    }

    fn write(&mut self, t_s: f64, seconds: f64, flow: &str, tally: &Tally) -> Result<(), Failure> {
        let Some(draft) = &mut self.draft else {
            return Ok(());
        };
        let seconds_of = |s: f64| Duration::try_from_secs_f64(s.max(0.0)).unwrap_or_default();
        let (start, length) = (seconds_of(t_s - seconds), seconds_of(seconds));
        if self.written.intervals == 0 {
            // An interval is handed over soon after its end, so this is the run's start within milliseconds.
            let elapsed = seconds_of(t_s);
            let start = SystemTime::now().checked_sub(elapsed);
            head(draft, start.unwrap_or(SystemTime::UNIX_EPOCH))?;
        }
        let mut failed = None;
        for metric in Metric::ALL {
            let Some(distribution) = tally.distribution(*metric) else {
                continue;
            };
            let tag = format!("{}/{}", escaped(flow), metric.as_str());
            let tag = Tag::new(&tag).expect("what a tag may not hold is escaped");
            let written = IntervalLogWriterBuilder::new()
                .begin_log_with(draft, &mut self.serializer)
                .map_err(IntervalLogWriterError::IoError)
                .and_then(|mut log| {
                    log.write_histogram(&distribution.histogram, start, length, Some(tag))
                });
            if let Err(e) = written {
                failed = Some(e);
                break;
            }
            self.written.intervals += 1;
            self.written.values += distribution.count();
        }
        // A run that is killed leaves whole intervals in the draft.
        let flushed = match failed {
            None => draft.flush().map_err(IntervalLogWriterError::IoError),
            Some(e) => Err(e),
        };
        flushed.map_err(|e| failure(draft, &e))
    }
}

/// What stands before the first interval.
fn head(draft: &mut Draft, start: SystemTime) -> Result<(), Failure> {
    let begun = IntervalLogWriterBuilder::new()
        .add_comment(VERSION)
        .add_comment("[weir lab: values and maxima in nanoseconds]")
        .with_start_time(start)
        .with_base_time(start)
        .begin_log_with(draft, &mut V2DeflateSerializer::new())
        .map(drop);
    let begun = begun.and_then(|()| draft.write_all(LEGEND.as_bytes()));
    begun.map_err(|e| draft.failure(&e))
}

fn failure(draft: &Draft, e: &IntervalLogWriterError<V2DeflateSerializeError>) -> Failure {
    match e {
        IntervalLogWriterError::IoError(e) => draft.failure(e),
        IntervalLogWriterError::SerializeError(e) => {
            Failure::new(format!("a histogram cannot be written: {e}"), "")
        }
    }
}

impl Observer for HistogramLog {
    fn interval(&mut self, _: &Snapshot) {}

    /// After the first failure nothing more is written, and [`Observer::finish`] tells it.
    fn histograms(&mut self, t_s: f64, seconds: f64, flow: &str, tally: &Tally) {
        if let Err(failure) = self.write(t_s, seconds, flow, tally) {
            self.draft = None;
            self.failure.get_or_insert(failure);
        }
    }

    fn finish(&mut self) -> Result<(), Failure> {
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        let Some(draft) = self.draft.take() else {
            return Ok(());
        };
        let written = self.written;
        draft.keep(|path| match totals(path)? {
            back if back == written => Ok(()),
            back => Err(Failure::new(format!("{back:?} instead of {written:?}"), "")),
        })
    }
}

/// Reads a log, line by line, and counts what is in it.
///
/// # Errors
///
/// It cannot be read, or a line is no part of such a log.
pub fn totals(path: &Path) -> Result<Totals, Failure> {
    let fail = |line: usize, why: String| {
        Failure::new(format!("{}, line {line}: {why}", path.display()), "")
    };
    let file = File::open(path).map_err(|e| fail(0, e.to_string()))?;
    let (mut reader, mut bytes) = (BufReader::new(file), Vec::new());
    let mut found = Totals::default();
    for number in 1.. {
        bytes.clear();
        let read = (&mut reader)
            .take(LINE_BYTES_MAX)
            .read_until(b'\n', &mut bytes);
        if read.map_err(|e| fail(number, e.to_string()))? == 0 {
            break;
        }
        for entry in IntervalLogIterator::new(&bytes) {
            match entry {
                Err(e) => return Err(fail(number, format!("is no interval: {e:?}"))),
                Ok(LogEntry::Interval(interval)) => {
                    let values = values(interval.encoded_histogram());
                    found.intervals += 1;
                    found.values += values.map_err(|why| fail(number, why))?;
                }
                Ok(_) => {}
            }
        }
    }
    Ok(found)
}

/// How many values an encoded histogram holds.
fn values(encoded: &str) -> Result<u64, String> {
    let bytes = BASE64_STANDARD.decode(encoded).map_err(|e| e.to_string())?;
    let histogram = Deserializer::new().deserialize::<u64, _>(&mut bytes.as_slice());
    histogram.map(|h| h.len()).map_err(|e| e.to_string())
}

/// A name as a part of a tag. No two names are written alike.
fn escaped(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    for byte in name.bytes() {
        match byte {
            b'%' | b',' | 0..=b' ' | 0x7f.. => {
                write!(text, "%{byte:02X}").expect("a string takes any text");
            }
            _ => text.push(char::from(byte)),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(n: u64) -> Tally {
        let mut tally = Tally::default();
        (1..=n).for_each(|i| tally.good(0, 100, i * 1000));
        tally
    }

    #[test]
    fn what_was_written_is_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.hlog");
        let mut log = HistogramLog::begin(&path).unwrap();
        log.histograms(1.0, 1.0, "a, b", &tally(1000));
        log.histograms(2.0, 1.0, "c", &tally(500));
        assert!(!path.exists(), "it stands at its place when it is whole");
        log.finish().unwrap();
        let expected = Totals {
            intervals: 6,
            values: 4500,
        };
        assert_eq!(totals(&path).unwrap(), expected);
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(
            text.contains("\nTag=a%2C%20b/response,0.000,1.000,"),
            "{text}"
        );
        assert!(text.contains("\nTag=c/lag,1.000,1.000,"), "{text}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_broken_line_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.hlog");
        for (text, why) in [
            ("#fine\nnonsense\n", "line 2: is no interval"),
            ("Tag=a,0.0,1.0,2.0,!!!\n", "line 1: Invalid symbol"),
            ("Tag=a,0.0,1.0,2.0,AAAA\n", "line 1:"),
        ] {
            std::fs::write(&path, text).unwrap();
            let said = totals(&path).unwrap_err().to_string();
            assert!(said.contains(why), "{said}");
        }
    }

    #[test]
    fn a_full_disk_is_told_at_the_end_and_stops_nothing() {
        let log = HistogramLog::begin(Path::new("/dev/full"));
        let mut log = log.unwrap();
        log.histograms(1.0, 1.0, "a", &tally(10));
        log.histograms(2.0, 1.0, "a", &tally(10));
        let said = log.finish().unwrap_err().to_string();
        assert!(said.contains("No space left on device"), "{said}");
        assert!(log.finish().is_ok(), "told once");
    }

    #[test]
    fn a_run_that_never_ends_leaves_no_log() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.hlog");
        let mut log = HistogramLog::begin(&path).unwrap();
        log.histograms(1.0, 1.0, "a", &tally(10));
        drop(log);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn names_stay_apart() {
        assert_eq!(escaped("a b,c%2C"), "a%20b%2Cc%252C");
        assert_eq!(escaped("µ"), "%C2%B5");
    }
}
