//! A record as a row of `weir.records`, and rows as the binary format of `COPY` (PostgreSQL's documentation of COPY, "Binary Format").
//!
//! The columns beside the record are what is searched by. They follow from the record alone, so that verifying tells where one was
//! changed.

use std::borrow::Cow;

use base::Digest;
use bytes::{BufMut, Bytes, BytesMut};
use serde::Deserialize;

/// Most bytes of a text to search by.
const TEXT_BYTES_MAX: usize = 256;
/// Days from 1970 to 2000, from which PostgreSQL counts.
const DAYS_TO_2000: i64 = 10_957;
const DAY_MS: u64 = 86_400_000;
const SIGNATURE: &[u8] = b"PGCOPY\n\xff\r\n\0";
const COLUMNS: i16 = 13;

/// The statement that takes such rows.
pub(super) const COPY: &str = "COPY weir.records (day, origin, idx, at, kind, call, agent, server, lane, decision, refusal, leaf, record) \
     FROM STDIN (FORMAT binary)";

/// What is searched by.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Columns {
    /// Unix milliseconds; 0 where the record has no time.
    pub at: u64,
    pub kind: String,
    pub call: Option<String>,
    pub agent: Option<String>,
    pub server: Option<String>,
    pub lane: Option<String>,
    /// `pass` or `refuse`, or how a call ended.
    pub decision: Option<String>,
    pub refusal: Option<String>,
}

#[derive(Deserialize)]
struct Written<'r> {
    #[serde(borrow)]
    at: Option<Cow<'r, str>>,
    #[serde(borrow)]
    kind: Option<Cow<'r, str>>,
    #[serde(borrow)]
    call: Option<Cow<'r, str>>,
    #[serde(borrow)]
    agent: Option<Cow<'r, str>>,
    #[serde(borrow)]
    server: Option<Cow<'r, str>>,
    #[serde(borrow)]
    lane: Option<Cow<'r, str>>,
    #[serde(borrow)]
    decision: Option<Cow<'r, str>>,
    #[serde(borrow)]
    end: Option<Cow<'r, str>>,
    #[serde(borrow)]
    refusal: Option<Cow<'r, str>>,
    #[serde(borrow)]
    why: Option<Cow<'r, str>>,
}

impl Columns {
    /// Those of a record. One that is not what records are has few of them; it is kept all the same.
    pub(super) fn of(record: &[u8]) -> Columns {
        let Ok(written) = serde_json::from_slice::<Written<'_>>(record) else {
            return Columns::default();
        };
        let at = written.at.as_deref().and_then(config::kinds::unix_ms);
        Columns {
            at: at.unwrap_or(0),
            kind: text(written.kind).unwrap_or_default(),
            call: text(written.call),
            agent: text(written.agent),
            server: text(written.server),
            lane: text(written.lane),
            decision: text(written.decision.or(written.end)),
            refusal: text(written.refusal.or(written.why)),
        }
    }
}

/// A text that PostgreSQL takes: without NUL, and not long.
fn text(text: Option<Cow<'_, str>>) -> Option<String> {
    let mut text = text?.replace('\0', "\u{fffd}");
    let mut end = TEXT_BYTES_MAX.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
    Some(text)
}

/// The day of an entry, in days from 1970: that of its record, but never one before that of the entry before it.
pub(super) fn day(at_unix_ms: u64, before: i64) -> i64 {
    super::signed(at_unix_ms / DAY_MS).max(before)
}

/// A day as `YYYY-MM-DD`.
pub(super) fn date(day: i64) -> String {
    let (year, month, day) = base::clock::civil(super::unsigned(day));
    format!("{year:04}-{month:02}-{day:02}")
}

/// Rows on their way.
#[derive(Default)]
pub(super) struct Rows {
    bytes: BytesMut,
    pub(super) count: usize,
}

impl Rows {
    /// Bytes of all of them.
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Adds the entry `idx` of an origin.
    pub(super) fn add(
        &mut self,
        day: i64,
        (origin, idx): (i64, u64),
        columns: &Columns,
        leaf: &Digest,
        record: &[u8],
    ) {
        if self.count == 0 {
            self.bytes.put_slice(SIGNATURE);
            self.bytes.put_i32(0);
            self.bytes.put_i32(0);
        }
        self.count += 1;
        self.bytes.put_i16(COLUMNS);
        self.bytes.put_i32(4);
        self.bytes
            .put_i32(i32::try_from(day - DAYS_TO_2000).unwrap_or(i32::MAX));
        self.number(origin);
        self.number(super::signed(idx));
        self.number(super::signed(columns.at));
        self.field(columns.kind.as_bytes());
        let texts = [
            &columns.call,
            &columns.agent,
            &columns.server,
            &columns.lane,
            &columns.decision,
            &columns.refusal,
        ];
        for text in texts {
            match text {
                Some(text) => self.field(text.as_bytes()),
                None => self.bytes.put_i32(-1),
            }
        }
        self.field(&leaf.0);
        self.field(record);
    }

    fn number(&mut self, number: i64) {
        self.bytes.put_i32(8);
        self.bytes.put_i64(number);
    }

    fn field(&mut self, bytes: &[u8]) {
        // A record has at most 64 KiB.
        self.bytes
            .put_i32(i32::try_from(bytes.len()).unwrap_or(i32::MAX));
        self.bytes.put_slice(bytes);
    }

    /// All of them, as the statement takes them.
    pub(super) fn finish(mut self) -> Vec<Bytes> {
        self.bytes.put_i16(-1);
        vec![self.bytes.freeze()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_follow_from_the_record_and_nothing_in_it_is_refused_by_the_database() {
        let record = br#"{"agent":"dev","at":"2026-11-28T00:00:00.250Z","call":"ab","decision":"refuse","kind":"judgement","lane":"mcp","refusal":"policy.forbidden","server":"x\u0000'; DROP TABLE weir.records; --"}"#;
        let columns = Columns::of(record);
        assert_eq!(columns.at % 1000, 250);
        assert_eq!(columns.agent.as_deref(), Some("dev"));
        assert_eq!(columns.refusal.as_deref(), Some("policy.forbidden"));
        assert!(columns.server.unwrap().starts_with("x\u{fffd}'; DROP"));
        let long = format!(r#"{{"agent":"{}"}}"#, "\u{e9}".repeat(300));
        assert_eq!(Columns::of(long.as_bytes()).agent.unwrap().len(), 256);
        assert_eq!(Columns::of(b"no record"), Columns::default());
        let outcome =
            Columns::of(br#"{"call":"ab","end":"refused","kind":"outcome","why":"scan.secret"}"#);
        assert_eq!(outcome.decision.as_deref(), Some("refused"));
        assert_eq!(outcome.refusal.as_deref(), Some("scan.secret"));
    }

    #[test]
    fn days_never_go_back() {
        assert_eq!(day(86_400_000, 0), 1);
        assert_eq!(day(86_400_000, 7), 7);
        assert_eq!(date(20_785), "2026-11-28");
    }
}
