//! Answers that come piece by piece: server-sent events, and models that speak as they think.
//!
//! Times are of the pieces as they arrive here. Events that arrive in one piece arrive at one instant, and their
//! gaps are zero: that is what a client sees. A stream that never ends is ended by the flow's timeout.

use http::header::CONTENT_TYPE;
use http::response::Parts;

use super::Thread;
use super::check::{Checker, head};
use super::exchange::{self, Life};
use super::fault::Bad;
use super::link::Link;
use super::llm::{Dialect, Reader, Seen};
use super::sse::Parser;
use crate::plan::{KEPT_BYTES_MAX, Protocol};
use crate::tally::{Fault, Metric};

/// What kind of body an answer has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Media {
    Events,
    Json,
    Other,
}

impl Media {
    pub(super) fn of(parts: &Parts) -> Media {
        let value = parts.headers.get(CONTENT_TYPE);
        let text = value
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default();
        let kind = text.split(';').next().unwrap_or_default().trim();
        if kind.eq_ignore_ascii_case("text/event-stream") {
            Media::Events
        } else if kind.eq_ignore_ascii_case("application/json") {
            Media::Json
        } else {
            Media::Other
        }
    }
}

/// The pace of one stream.
struct Pace<'a> {
    thread: &'a Thread,
    life: &'a Life,
    first_ns: Option<u64>,
    last_ns: u64,
    tokens: u64,
}

impl Pace<'_> {
    /// A token, or an event, came.
    fn beat(&mut self, now_ns: u64) {
        let mut tallies = self.thread.tallies.borrow_mut();
        let tally = tallies.of(self.life.kind, self.life.step);
        match self.first_ns {
            None => {
                self.first_ns = Some(now_ns);
                let waited = now_ns.saturating_sub(self.life.sent_ns());
                tally.record(Metric::FirstToken, waited);
            }
            Some(_) => tally.record(Metric::TokenGap, now_ns.saturating_sub(self.last_ns)),
        }
        self.last_ns = now_ns;
        self.tokens += 1;
    }

    /// The stream ended; the server may have counted its tokens.
    fn end(&self, counted: Option<u64>, good: bool) {
        let tokens = counted.unwrap_or(self.tokens);
        let mut tallies = self.thread.tallies.borrow_mut();
        let tally = tallies.of(self.life.kind, self.life.step);
        tally.tokens += tokens;
        let lasted = self
            .first_ns
            .map_or(0, |first| self.last_ns.saturating_sub(first));
        if good && tokens > 1 && lasted > 0 {
            let rate = (tokens - 1) as f64 / (lasted as f64 / 1e9);
            tally.record(Metric::TokenRate, (rate * 1000.0).round() as u64);
        }
    }
}

/// Sends a request and reads its answer, streamed or not.
///
/// # Errors
///
/// It is not answered, or not as it should be.
pub(super) async fn converse(thread: &Thread, link: &Link, life: &Life) -> Result<(), Bad> {
    let (answer, asked) = exchange::ask(thread, link, life).await?;
    let expect = &thread.flow.requests[life.kind].expect;
    let (parts, body) = answer.into_parts();
    let mut checker = Checker::new(expect, &asked);
    if let Err(bad) = head(expect, &asked, &parts) {
        exchange::read(life, body, |_| {}).await?;
        return Err(bad);
    }
    let dialect = match thread.flow.protocol {
        Protocol::Openai => Some(Dialect::Openai),
        Protocol::Anthropic => Some(Dialect::Anthropic),
        _ => None,
    };
    match (Media::of(&parts), dialect) {
        (Media::Events, dialect) => {
            let reader = dialect.map(Reader::new);
            events(thread, life, body, reader, &mut checker).await?;
        }
        (Media::Json, Some(dialect)) => {
            whole(thread, life, body, Reader::new(dialect), &mut checker).await?;
        }
        (_, dialect) => {
            exchange::read(life, body, |_| {}).await?;
            let wanted = match dialect {
                Some(_) => "neither an event stream nor JSON",
                None => "no event stream",
            };
            let what = format!("the answer is {wanted} by its content type");
            return Err(Bad::new(Fault::Protocol, what));
        }
    }
    checker.finish()
}

/// Reads a stream of events; with a reader, each is what the dialect says.
async fn events(
    thread: &Thread,
    life: &Life,
    body: hyper::body::Incoming,
    mut reader: Option<Reader>,
    checker: &mut Checker<'_>,
) -> Result<(), Bad> {
    let mut pace = Pace {
        thread,
        life,
        first_ns: None,
        last_ns: 0,
        tokens: 0,
    };
    let (mut parser, mut wrong) = (Parser::new(), None);
    let came = exchange::read(life, body, |piece| {
        let now_ns = thread.now_ns();
        checker.push(piece);
        let pushed = parser.push(piece, |event| {
            match reader.as_mut().map_or(Ok(Seen::Token), |r| r.event(event)) {
                Ok(Seen::Token) => pace.beat(now_ns),
                Ok(Seen::End | Seen::Other) => {}
                Err(bad) => wrong = wrong.take().or(Some(bad)),
            }
        });
        if let Err(long) = pushed {
            wrong = wrong
                .take()
                .or(Some(Bad::new(Fault::Protocol, long.to_string())));
        }
    });
    let came = came.await;
    let whole = reader.as_ref().is_none_or(|reader| reader.ended);
    let ended = match (wrong, came, whole) {
        (Some(bad), _, _) => Err(bad),
        (None, Err(bad), false) if bad.fault == Fault::Closed => Err(Bad::new(
            Fault::Stream,
            "the stream was cut before its last event",
        )),
        (None, Err(bad), _) => Err(bad),
        (None, Ok(()), false) => Err(Bad::new(
            Fault::Stream,
            "the stream ended without its last event",
        )),
        (None, Ok(()), true) => Ok(()),
    };
    let counted = reader.and_then(|reader| reader.counted);
    pace.end(counted, ended.is_ok());
    ended
}

/// Reads an answer that is not streamed.
async fn whole(
    thread: &Thread,
    life: &Life,
    body: hyper::body::Incoming,
    mut reader: Reader,
    checker: &mut Checker<'_>,
) -> Result<(), Bad> {
    let kept = kept(life, body, checker).await?;
    reader.whole(&kept)?;
    let mut tallies = thread.tallies.borrow_mut();
    tallies.of(life.kind, life.step).tokens += reader.counted.unwrap_or(0);
    Ok(())
}

/// Reads a body that has to be understood as a whole.
///
/// # Errors
///
/// It does not come whole, or is longer than what is kept.
pub(super) async fn kept(
    life: &Life,
    body: hyper::body::Incoming,
    checker: &mut Checker<'_>,
) -> Result<Vec<u8>, Bad> {
    let (mut kept, mut long) = (Vec::new(), false);
    let read = exchange::read(life, body, |piece| {
        checker.push(piece);
        long |= kept.len() + piece.len() > KEPT_BYTES_MAX;
        if !long {
            kept.extend_from_slice(piece);
        }
    });
    read.await?;
    if long {
        let what = format!("the answer is longer than {KEPT_BYTES_MAX} bytes");
        return Err(Bad::new(Fault::Protocol, what));
    }
    Ok(kept)
}
