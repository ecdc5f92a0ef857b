//! What is counted while load is sent: histograms and counters that one thread owns, handed over whole.
//!
//! A thread shares nothing while it works. At each interval it hands its tallies over and begins new ones, so
//! memory does not grow with the length of a run, and no request is kept.

use hdrhistogram::Histogram;

/// Longest duration that is told apart, in nanoseconds: one hour. Longer ones count as this, and the exact
/// maximum is kept beside.
pub const LONGEST_NS: u64 = 3_600_000_000_000;
/// Shortest difference that is told apart, in nanoseconds.
const FINEST_NS: u64 = 500;
/// Significant decimal digits of a duration.
const DIGITS: u8 = 3;

/// Why a request failed. A request that failed has one of these and is not in the latency of the good ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Fault {
    /// The name did not resolve.
    Dns,
    /// Nobody listens there.
    Refused,
    /// The connection was not made in time.
    ConnectTimeout,
    /// No local port was free (EADDRNOTAVAIL).
    Ports,
    /// No file descriptor was free.
    Descriptors,
    /// The TLS handshake failed.
    Tls,
    /// The connection was reset.
    Reset,
    /// The connection ended before the answer did.
    Closed,
    /// No first byte, or no last one, within the timeout.
    Timeout,
    /// What came is not the protocol.
    Protocol,
    /// 429.
    Limited,
    /// Another 4xx that was not expected.
    Client,
    /// A 5xx that was not expected.
    Server,
    /// Another status that was not expected.
    Status,
    /// A header field or a text that was expected is not there.
    Check,
    /// The answer is not byte for byte what was sent.
    Integrity,
    /// A JSON-RPC error.
    Rpc,
    /// A tool's result says `isError`.
    Tool,
    /// A stream carried an error event, or ended without its last one.
    Stream,
    /// The run ended first.
    Unfinished,
}

impl Fault {
    pub const ALL: &[Fault] = &[
        Fault::Dns,
        Fault::Refused,
        Fault::ConnectTimeout,
        Fault::Ports,
        Fault::Descriptors,
        Fault::Tls,
        Fault::Reset,
        Fault::Closed,
        Fault::Timeout,
        Fault::Protocol,
        Fault::Limited,
        Fault::Client,
        Fault::Server,
        Fault::Status,
        Fault::Check,
        Fault::Integrity,
        Fault::Rpc,
        Fault::Tool,
        Fault::Stream,
        Fault::Unfinished,
    ];

    /// Its name in every output.
    pub fn as_str(self) -> &'static str {
        match self {
            Fault::Dns => "dns",
            Fault::Refused => "connect-refused",
            Fault::ConnectTimeout => "connect-timeout",
            Fault::Ports => "ephemeral-ports",
            Fault::Descriptors => "descriptors",
            Fault::Tls => "tls",
            Fault::Reset => "reset",
            Fault::Closed => "closed-early",
            Fault::Timeout => "timeout",
            Fault::Protocol => "protocol",
            Fault::Limited => "http-429",
            Fault::Client => "http-4xx",
            Fault::Server => "http-5xx",
            Fault::Status => "http-status",
            Fault::Check => "check",
            Fault::Integrity => "integrity",
            Fault::Rpc => "jsonrpc-error",
            Fault::Tool => "tool-error",
            Fault::Stream => "stream",
            Fault::Unfinished => "unfinished",
        }
    }

    /// What a status that was not expected is.
    pub fn of_status(status: u16) -> Fault {
        match status {
            429 => Fault::Limited,
            400..500 => Fault::Client,
            500..600 => Fault::Server,
            _ => Fault::Status,
        }
    }

    /// Whether an answer came, although a wrong one. Such a request is *completed*, and has failed.
    pub fn has_answer(self) -> bool {
        matches!(
            self,
            Fault::Limited
                | Fault::Client
                | Fault::Server
                | Fault::Status
                | Fault::Check
                | Fault::Integrity
                | Fault::Rpc
                | Fault::Tool
                | Fault::Stream
        )
    }
}

/// What a histogram is of. Durations are in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Metric {
    /// From the intended start to the last byte, of good answers.
    Response,
    /// From the send to the last byte, of good answers.
    Service,
    /// From the intended start to the send: the generator's own lateness, and waiting for a free connection.
    Lag,
    /// From the intended start to the end, of requests that failed.
    Failed,
    /// Making a TCP connection.
    Connect,
    /// A TLS handshake.
    Tls,
    /// From the send to the first token of a stream.
    FirstToken,
    /// Between two tokens (or events) of a stream.
    TokenGap,
    /// Tokens a second of one stream after its first token, times 1,000.
    TokenRate,
}

impl Metric {
    pub const ALL: &[Metric] = &[
        Metric::Response,
        Metric::Service,
        Metric::Lag,
        Metric::Failed,
        Metric::Connect,
        Metric::Tls,
        Metric::FirstToken,
        Metric::TokenGap,
        Metric::TokenRate,
    ];

    /// Its name in every output.
    pub fn as_str(self) -> &'static str {
        match self {
            Metric::Response => "response",
            Metric::Service => "service",
            Metric::Lag => "lag",
            Metric::Failed => "failed",
            Metric::Connect => "connect",
            Metric::Tls => "tls",
            Metric::FirstToken => "first_token",
            Metric::TokenGap => "token_gap",
            Metric::TokenRate => "token_rate",
        }
    }
}

/// A histogram, with the exact sum, least and most beside it.
#[derive(Clone)]
pub struct Distribution {
    pub histogram: Histogram<u64>,
    pub least: u64,
    pub most: u64,
    pub sum: u128,
}

impl Default for Distribution {
    fn default() -> Distribution {
        let histogram = Histogram::new_with_bounds(FINEST_NS, LONGEST_NS, DIGITS);
        Distribution {
            histogram: histogram.expect("constant bounds are in order"),
            least: u64::MAX,
            most: 0,
            sum: 0,
        }
    }
}

impl Distribution {
    pub fn record(&mut self, value: u64) {
        self.histogram.saturating_record(value);
        self.least = self.least.min(value);
        self.most = self.most.max(value);
        self.sum += u128::from(value);
    }

    pub fn add(&mut self, other: &Distribution) {
        self.histogram
            .add(&other.histogram)
            .expect("all distributions have the same bounds");
        self.least = self.least.min(other.least);
        self.most = self.most.max(other.most);
        self.sum += other.sum;
    }

    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    pub fn mean(&self) -> Option<f64> {
        (self.count() > 0).then(|| self.sum as f64 / self.count() as f64)
    }

    /// The value that a share `q` of all is at or under, within 0.1 % and never outside least and most.
    pub fn quantile(&self, q: f64) -> Option<u64> {
        (self.count() > 0).then(|| {
            self.histogram
                .value_at_quantile(q)
                .clamp(self.least, self.most)
        })
    }
}

/// What a tally is of: a kind of request of a flow, in the stage in which it was due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    pub flow: u16,
    pub request: u16,
    pub step: u16,
}

/// Counters and histograms of one key over one interval, or of many added up.
#[derive(Clone)]
pub struct Tally {
    /// Requests that were written to a connection.
    pub sent: u64,
    /// Requests that were answered, well or not.
    pub completed: u64,
    /// Requests whose answer was good.
    pub good: u64,
    /// Requests that failed, by [`Fault`].
    pub faults: [u64; Fault::ALL.len()],
    /// Requests that were due and never sent, since the queue was full.
    pub dropped: u64,
    /// Requests that had to wait for a free connection.
    pub queued: u64,
    /// Connections made.
    pub connections: u64,
    /// Bytes written and read, heads and framing included, TLS not.
    pub bytes_out: u64,
    pub bytes_in: u64,
    /// Tokens or events of streams.
    pub tokens: u64,
    /// Answers by status; the last place counts what is no status.
    pub statuses: Box<[u64; 601]>,
    distributions: [Option<Box<Distribution>>; Metric::ALL.len()],
}

impl Default for Tally {
    fn default() -> Tally {
        Tally {
            sent: 0,
            completed: 0,
            good: 0,
            faults: [0; Fault::ALL.len()],
            dropped: 0,
            queued: 0,
            connections: 0,
            bytes_out: 0,
            bytes_in: 0,
            tokens: 0,
            statuses: Box::new([0; 601]),
            distributions: Default::default(),
        }
    }
}

impl Tally {
    pub fn record(&mut self, metric: Metric, value: u64) {
        self.distributions[metric as usize]
            .get_or_insert_default()
            .record(value);
    }

    /// What was recorded, if anything was.
    pub fn distribution(&self, metric: Metric) -> Option<&Distribution> {
        self.distributions[metric as usize].as_deref()
    }

    /// Counts a good answer: three instants, in nanoseconds on one clock.
    pub fn good(&mut self, intended: u64, sent: u64, done: u64) {
        self.completed += 1;
        self.good += 1;
        self.record(Metric::Response, done.saturating_sub(intended));
        self.record(Metric::Service, done.saturating_sub(sent));
        self.record(Metric::Lag, sent.saturating_sub(intended));
    }

    /// Counts a request that failed, with when it was due and when it ended.
    pub fn failed(&mut self, fault: Fault, intended: u64, done: u64) {
        self.completed += u64::from(fault.has_answer());
        self.faults[fault as usize] += 1;
        self.record(Metric::Failed, done.saturating_sub(intended));
    }

    pub fn status(&mut self, status: u16) {
        let last = self.statuses.len() - 1;
        self.statuses[usize::from(status).min(last)] += 1;
    }

    pub fn failures(&self) -> u64 {
        self.faults.iter().sum()
    }

    pub fn add(&mut self, other: &Tally) {
        self.sent += other.sent;
        self.completed += other.completed;
        self.good += other.good;
        self.dropped += other.dropped;
        self.queued += other.queued;
        self.connections += other.connections;
        self.bytes_out += other.bytes_out;
        self.bytes_in += other.bytes_in;
        self.tokens += other.tokens;
        let pairs = self.faults.iter_mut().zip(&other.faults);
        pairs.for_each(|(mine, theirs)| *mine += theirs);
        let pairs = self.statuses.iter_mut().zip(other.statuses.iter());
        pairs.for_each(|(mine, theirs)| *mine += theirs);
        for (mine, theirs) in self.distributions.iter_mut().zip(&other.distributions) {
            if let Some(theirs) = theirs {
                mine.get_or_insert_default().add(theirs);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_within_a_thousandth() {
        let mut distribution = Distribution::default();
        (1..=100_000u64).for_each(|us| distribution.record(us * 1000));
        for q in [0.5, 0.9, 0.99, 0.999] {
            let (found, truth) = (distribution.quantile(q).unwrap() as f64, q * 1e8);
            assert!((found / truth - 1.0).abs() < 0.001, "{q}: {found}");
        }
        assert_eq!(distribution.quantile(1.0), Some(100_000_000));
        assert_eq!(distribution.quantile(0.0), Some(1000));
        assert_eq!(distribution.mean(), Some(50_000_500.0));
    }

    #[test]
    fn what_is_longer_than_an_hour_keeps_its_maximum() {
        let mut distribution = Distribution::default();
        distribution.record(LONGEST_NS * 3);
        assert_eq!(distribution.most, LONGEST_NS * 3);
        assert_eq!(Distribution::default().quantile(0.5), None);
    }

    #[test]
    fn sums_are_the_same_in_any_order() {
        let (mut one, mut two) = (Tally::default(), Tally::default());
        one.good(10, 20, 5_000);
        one.status(200);
        two.failed(Fault::of_status(503), 10, 9_000);
        two.failed(Fault::Reset, 10, 9_000);
        two.status(503);
        let mut sum = Tally::default();
        sum.add(&two);
        sum.add(&one);
        assert_eq!((sum.completed, sum.good, sum.failures()), (2, 1, 2));
        assert_eq!((sum.statuses[200], sum.statuses[503]), (1, 1));
        let count = |metric| sum.distribution(metric).map(Distribution::count);
        assert_eq!(count(Metric::Response), Some(1));
        assert_eq!(count(Metric::Failed), Some(2));
        assert_eq!(count(Metric::FirstToken), None);
    }

    #[test]
    fn names_are_in_the_order_of_their_numbers() {
        assert!(Fault::ALL.iter().enumerate().all(|(i, f)| *f as usize == i));
        assert!(
            Metric::ALL
                .iter()
                .enumerate()
                .all(|(i, m)| *m as usize == i)
        );
    }
}
