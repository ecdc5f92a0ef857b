//! How the target misbehaves: what is decided for each request before it is answered.
//!
//! A fault is decided by the number of the request alone, so that a test knows exactly how many there were.
//! A freeze is a window of time in which the whole server answers nothing.

use std::str::FromStr;
use std::time::Duration;

use http::StatusCode;

use super::chance::{Distribution, Purpose, draw, duration, share};

/// The most rules of each kind.
pub const RULES_MAX: usize = 32;
/// The most events of a stream before it breaks.
pub const EVENTS_MAX: u64 = 1_000_000;
/// The most CPU time of one answer.
pub const WORK_MAX: Duration = Duration::from_secs(1);

/// How a stream breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Break {
    /// An event that is an error of the route's dialect, and the end.
    Error,
    /// An event that is not what the dialect has, and the end.
    Garbage,
    /// As [`Fault::Reset`].
    Reset,
    /// As [`Fault::Close`].
    Close,
    /// Nothing more, until the client goes.
    Stall,
}

impl FromStr for Break {
    type Err = String;

    fn from_str(text: &str) -> Result<Break, String> {
        Ok(match text {
            "error" => Break::Error,
            "garbage" => Break::Garbage,
            "reset" => Break::Reset,
            "close" => Break::Close,
            "stall" => Break::Stall,
            _ => {
                return Err(format!(
                    "no stream breaks by '{text}'; there are error, garbage, reset, close and stall"
                ));
            }
        })
    }
}

/// What goes wrong with one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Answered with this status instead, in the error shape of the route.
    Status(StatusCode),
    /// The connection is closed without an answer; over HTTP/2 the stream is reset.
    Close,
    /// The connection is reset (TCP RST) without an answer.
    Reset,
    /// Answered, with one byte of the body changed.
    Corrupt,
    /// Answered with a body that is not what the route has.
    Garbage,
    /// Answered, and broken after so many events. What is no stream breaks after half of its bytes.
    Break(Break, u64),
}

impl FromStr for Fault {
    type Err = String;

    fn from_str(text: &str) -> Result<Fault, String> {
        match text {
            "close" => return Ok(Fault::Close),
            "reset" => return Ok(Fault::Reset),
            "corrupt" => return Ok(Fault::Corrupt),
            "garbage" => return Ok(Fault::Garbage),
            _ => {}
        }
        if let Some((how, events)) = text.split_once('@') {
            return match events.parse() {
                Ok(events @ 0..=EVENTS_MAX) => Ok(Fault::Break(how.parse()?, events)),
                _ => Err(format!(
                    "'{events}' is no number of events up to {EVENTS_MAX}"
                )),
            };
        }
        match text.parse::<u16>() {
            Ok(code @ 400..=599) => StatusCode::from_u16(code)
                .map(Fault::Status)
                .map_err(|error| error.to_string()),
            _ => Err(format!(
                "'{text}' is no fault; there are a status from 400 to 599, close, reset, corrupt, \
                 garbage and, of a stream, error@N, garbage@N, reset@N, close@N and stall@N"
            )),
        }
    }
}

/// A fault and how often it happens: `503:1%`, `close:0.1%`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Chance {
    pub fault: Fault,
    /// From 0 to 1.
    pub share: f64,
}

impl FromStr for Chance {
    type Err = String;

    fn from_str(text: &str) -> Result<Chance, String> {
        let (fault, often) = text
            .split_once(':')
            .ok_or_else(|| format!("'{text}' does not say how often; write {text}:1%"))?;
        Ok(Chance {
            fault: fault.parse()?,
            share: share(often)?,
        })
    }
}

/// A fault that happens to each request whose number is a multiple: `503:100`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Every {
    pub fault: Fault,
    /// At least 1. The first request has number 1.
    pub period: u64,
}

impl FromStr for Every {
    type Err = String;

    fn from_str(text: &str) -> Result<Every, String> {
        let (fault, period) = text
            .split_once(':')
            .ok_or_else(|| format!("'{text}' does not say how often; write {text}:100"))?;
        match period.parse() {
            Ok(period @ 1..) => Ok(Every {
                fault: fault.parse()?,
                period,
            }),
            _ => Err(format!("'{period}' is not a whole number from 1 up")),
        }
    }
}

/// A window in which nothing is answered: `4s..6s`, or `every 10s for 1s` (the first begins at 10 s).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freeze {
    Once { from: Duration, to: Duration },
    Again { period: Duration, length: Duration },
}

impl Freeze {
    /// When the window ends that `at` is in. Both count from the time zero.
    fn end(self, at: Duration) -> Option<Duration> {
        match self {
            Freeze::Once { from, to } => (from <= at && at < to).then_some(to),
            Freeze::Again { period, length } => {
                let nth = u32::try_from(at.as_nanos() / period.as_nanos()).ok()?;
                let from = period.checked_mul(nth)?;
                (nth > 0 && at < from + length).then(|| from + length)
            }
        }
    }
}

impl FromStr for Freeze {
    type Err = String;

    fn from_str(text: &str) -> Result<Freeze, String> {
        let text = text.trim();
        if let Some((from, to)) = text.split_once("..") {
            let (from, to) = (duration(from)?, duration(to)?);
            if from >= to {
                return Err(format!("the window '{text}' ends before it begins"));
            }
            return Ok(Freeze::Once { from, to });
        }
        let Some((period, length)) = text
            .strip_prefix("every ")
            .and_then(|rest| rest.split_once(" for "))
        else {
            return Err(format!(
                "'{text}' is no window; write 4s..6s, or 'every 10s for 1s'"
            ));
        };
        let (period, length) = (duration(period)?, duration(length)?);
        if length.is_zero() || length >= period {
            return Err(format!(
                "in '{text}' the freeze must be shorter than its period, and not 0"
            ));
        }
        Ok(Freeze::Again { period, length })
    }
}

/// When the time of the freezes is zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Zero {
    /// When the first request arrives, so that a load test knows it.
    #[default]
    FirstRequest,
    /// When the target starts.
    Start,
}

impl FromStr for Zero {
    type Err = String;

    fn from_str(text: &str) -> Result<Zero, String> {
        match text {
            "first-request" => Ok(Zero::FirstRequest),
            "start" => Ok(Zero::Start),
            other => Err(format!("'{other}' is neither first-request nor start")),
        }
    }
}

/// How every route behaves beside what it answers.
#[derive(Clone, Debug)]
pub struct Behaviour {
    /// The time before each answer begins.
    pub delay: Distribution,
    /// CPU time that each answer takes beside what it takes anyway, so that a dearer server can be had.
    pub work: Duration,
    /// The same for each kilobyte (1,000 bytes) of the request's body whose length is announced.
    pub work_per_kb: Duration,
    /// Time before an answer, for each kilobyte of the request's body whose length is announced; no CPU time.
    pub delay_per_kb: Duration,
    /// How many requests are worked on at once; the others wait in order. None: all.
    pub pool: Option<usize>,
    /// Faults by chance; their shares sum to at most 1.
    pub chances: Vec<Chance>,
    /// Faults by number. They go before those by chance; of two, the first one counts.
    pub every: Vec<Every>,
    pub freezes: Vec<Freeze>,
    pub zero: Zero,
}

impl Default for Behaviour {
    fn default() -> Behaviour {
        Behaviour {
            delay: Distribution::NONE,
            work: Duration::ZERO,
            work_per_kb: Duration::ZERO,
            delay_per_kb: Duration::ZERO,
            pool: None,
            chances: Vec::new(),
            every: Vec::new(),
            freezes: Vec::new(),
            zero: Zero::default(),
        }
    }
}

impl Behaviour {
    /// Checks what a single rule cannot. The error says what is wrong.
    pub fn check(&self) -> Result<(), String> {
        for (what, count) in [
            ("--error", self.chances.len()),
            ("--error-every", self.every.len()),
            ("--freeze", self.freezes.len()),
        ] {
            if count > RULES_MAX {
                return Err(format!(
                    "{what} is given {count} times; at most {RULES_MAX} are allowed"
                ));
            }
        }
        let sum: f64 = self.chances.iter().map(|chance| chance.share).sum();
        if sum > 1.0 + 1e-9 {
            return Err(format!(
                "the shares of --error sum to {:.4} %, more than all",
                sum * 100.0
            ));
        }
        Ok(())
    }

    /// Whether a request is just answered, with nothing to draw and nothing to wait for.
    pub fn is_plain(&self) -> bool {
        self.delay.is_none()
            && self.work.is_zero()
            && self.work_per_kb.is_zero()
            && self.delay_per_kb.is_zero()
            && self.pool.is_none()
            && self.chances.is_empty()
            && self.every.is_empty()
            && self.freezes.is_empty()
    }

    /// The CPU time of an answer to a body of so many bytes, at most [`WORK_MAX`].
    pub fn work_for(&self, bytes: u64) -> Duration {
        (self.work + per_kb(self.work_per_kb, bytes)).min(WORK_MAX)
    }

    /// The delay of the `nth` request, whose body has so many bytes.
    pub fn delay_for(&self, seed: u64, nth: u64, bytes: u64) -> Duration {
        self.delay(seed, nth) + per_kb(self.delay_per_kb, bytes)
    }

    /// The delay of the `nth` request. The first has number 1.
    pub fn delay(&self, seed: u64, nth: u64) -> Duration {
        self.delay.sample(&mut draw(seed, nth, Purpose::Delay))
    }

    /// What goes wrong with the `nth` request, if anything does.
    pub fn fault(&self, seed: u64, nth: u64) -> Option<Fault> {
        if let Some(rule) = self
            .every
            .iter()
            .find(|rule| nth.is_multiple_of(rule.period))
        {
            return Some(rule.fault);
        }
        if self.chances.is_empty() {
            return None;
        }
        let at = draw(seed, nth, Purpose::Fault).f64();
        let mut below = 0.0;
        self.chances
            .iter()
            .find(|chance| {
                below += chance.share;
                at < below
            })
            .map(|chance| chance.fault)
    }

    /// The first moment from `at` on that is in no freeze. Both count from the time zero.
    pub fn thawed(&self, mut at: Duration) -> Duration {
        // Each round leaves one window; two that overlap take two. Windows that follow each other without end
        // cannot be written, as a freeze is shorter than its period, but several may cover one another's gaps.
        for _ in 0..RULES_MAX {
            match self.freezes.iter().find_map(|freeze| freeze.end(at)) {
                Some(end) => at = end,
                None => break,
            }
        }
        at
    }
}

/// So much for each kilobyte of a body, at most [`WORK_MAX`].
fn per_kb(each: Duration, bytes: u64) -> Duration {
    let seconds = each.as_secs_f64() * bytes as f64 / 1000.0;
    Duration::from_secs_f64(seconds.min(WORK_MAX.as_secs_f64()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn behaviour(chances: &[&str], every: &[&str], freezes: &[&str]) -> Behaviour {
        Behaviour {
            chances: chances.iter().map(|text| text.parse().unwrap()).collect(),
            every: every.iter().map(|text| text.parse().unwrap()).collect(),
            freezes: freezes.iter().map(|text| text.parse().unwrap()).collect(),
            ..Behaviour::default()
        }
    }

    #[test]
    fn what_is_no_rule_is_refused() {
        for text in [
            "503",
            "200:1%",
            "600:1%",
            "503:",
            "503:101%",
            "broken:1%",
            "reset@:1%",
            "reset@-1:1%",
            "corrupt@3:1%",
            "stall@1000001:1%",
            ":1%",
        ] {
            assert!(text.parse::<Chance>().is_err(), "{text}");
        }
        for text in ["503", "503:0", "503:1%", "503:-1"] {
            assert!(text.parse::<Every>().is_err(), "{text}");
        }
        for text in [
            "4s",
            "6s..4s",
            "4s..4s",
            "..",
            "every 1s for 1s",
            "every 10s",
            "every 10s for 0s",
            "every 10 for 1",
        ] {
            assert!(text.parse::<Freeze>().is_err(), "{text}");
        }
        assert!(
            behaviour(&["503:60%", "close:50%"], &[], &[])
                .check()
                .is_err()
        );
        assert!(
            behaviour(&["503:0.5", "close:50%"], &[], &[])
                .check()
                .is_ok()
        );
        let many = ["503:1%"; RULES_MAX + 1];
        assert!(behaviour(&many, &[], &[]).check().is_err());
    }

    #[test]
    fn a_break_says_how_and_after_how_many_events() {
        let rule = "stall@3:10".parse::<Every>().unwrap();
        assert_eq!(rule.fault, Fault::Break(Break::Stall, 3));
        assert_eq!("garbage".parse(), Ok(Fault::Garbage));
        assert_eq!("garbage@0".parse(), Ok(Fault::Break(Break::Garbage, 0)));
    }

    #[test]
    fn faults_by_number_are_exact_and_go_first() {
        let behaviour = behaviour(&["500:100%"], &["503:3", "close:2"], &[]);
        let faults: Vec<_> = (1..=6).map(|nth| behaviour.fault(0, nth)).collect();
        let status = |code| Some(Fault::Status(StatusCode::from_u16(code).unwrap()));
        assert_eq!(
            faults,
            [
                status(500),
                Some(Fault::Close),
                status(503),
                Some(Fault::Close),
                status(500),
                status(503)
            ]
        );
    }

    #[test]
    fn faults_by_chance_come_as_often_as_they_should() {
        let behaviour = behaviour(&["503:1%", "corrupt:10%"], &[], &[]);
        let count = |fault| {
            (1..=100_000)
                .filter(|nth| behaviour.fault(3, *nth) == Some(fault))
                .count()
        };
        // Four standard deviations; the seed is fixed.
        assert!(count(Fault::Status(StatusCode::SERVICE_UNAVAILABLE)).abs_diff(1_000) < 126);
        assert!(count(Fault::Corrupt).abs_diff(10_000) < 380);
        assert_eq!(count(Fault::Close), 0);
    }

    #[test]
    fn a_freeze_holds_until_its_end() {
        let at = Duration::from_millis;
        let once = behaviour(&[], &[], &["4s..6s", "5s..7s"]);
        assert_eq!(once.thawed(at(3_999)), at(3_999));
        assert_eq!(once.thawed(at(4_000)), at(7_000));
        assert_eq!(once.thawed(at(7_000)), at(7_000));
        let again = behaviour(&[], &[], &["every 10s for 1s"]);
        assert_eq!(again.thawed(at(500)), at(500));
        assert_eq!(again.thawed(at(10_500)), at(11_000));
        assert_eq!(again.thawed(at(11_000)), at(11_000));
        assert_eq!(again.thawed(at(20_000)), at(21_000));
    }
}
