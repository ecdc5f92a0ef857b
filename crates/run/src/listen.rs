//! A run's events for whoever listens: as a stream of server-sent events, or page by page.
//!
//! A listener has a place in the events and nothing else. What it has not heard is taken from memory, or where it is far behind from the
//! disk; one that does not read waits alone. `Last-Event-ID` and `after` are the same place.

use std::sync::Arc;
use std::time::Duration;

use base::record::CallEnd;
use base::{Refusal, refusal};
use bytes::Bytes;
use gate::{CallEnding, Passed};
use http::HeaderValue;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use net::sse::{self, Event};
use net::{Body, BodySender, Response};

use crate::event::HeardEvent;
use crate::lane::RunShared;
use crate::live::LiveRun;

/// Events that wait for one listener; further ones stay where they are.
const WAITING_MAX: usize = 32;
/// Bytes of events from which on a page is full.
const PAGE_BYTES: usize = 1 << 20;
/// How often a listener that hears nothing is told that it is still heard, in milliseconds.
const KEEP_ALIVE_MS: u64 = 15_000;
/// How often is looked whether it may still listen, in milliseconds.
const LOOK_MS: u64 = 1_000;

/// A listener's place in a run's events.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct EventPlace {
    /// The event that it had last.
    after: u64,
    /// A byte of the file in front of the next one.
    offset: u64,
}

impl EventPlace {
    pub(crate) fn after(after: u64) -> EventPlace {
        EventPlace { after, offset: 0 }
    }
}

/// The next events, from memory or a piece of the disk; none where there are none yet. The place is behind them then.
pub(crate) async fn events(
    shared: &Arc<RunShared>,
    run: &Arc<LiveRun>,
    place: &mut EventPlace,
) -> Result<Vec<HeardEvent>, Refusal> {
    loop {
        // Asked before the file is read: what is on disk and was not told yet is told by its driver.
        let told = run.last();
        let events = match run.after(place.after) {
            Some(events) => events,
            None => read(shared, run, place, told).await?,
        };
        if let Some(last) = events.last() {
            place.after = last.id;
        }
        if !events.is_empty() || place.after >= told {
            return Ok(events);
        }
    }
}

/// Events of the next piece of the file; it may have none.
async fn read(
    shared: &Arc<RunShared>,
    run: &Arc<LiveRun>,
    place: &mut EventPlace,
    told: u64,
) -> Result<Vec<HeardEvent>, Refusal> {
    let unread = |why: String| {
        let public = "the run's events cannot be read";
        Refusal::new(refusal::RUN_UNRECORDED, public).with_private(why)
    };
    let _one = shared.readers.acquire().await;
    let (book, id, offset) = (Arc::clone(shared), Arc::clone(&run.id), place.offset);
    let lines = tokio::task::spawn_blocking(move || book.book.files.lines(&id, offset));
    let lines = lines.await.map_err(|error| unread(error.to_string()))?;
    let lines = lines.map_err(|error| unread(error.to_string()))?;
    let mut events: Vec<HeardEvent> = Vec::new();
    for (line, end) in &lines {
        if let Some((heard, _)) = HeardEvent::read(line) {
            if heard.id > told {
                break;
            }
            // A line whose sync failed was written again: the later one is good.
            events.pop_if(|last| last.id == heard.id);
            if heard.id > place.after {
                events.push(heard);
            }
        }
        place.offset = *end;
    }
    match place.offset == offset {
        true => Err(unread("the file ends before its last event".to_owned())),
        false => Ok(events),
    }
}

/// At most so many events after this one, as they stand in a list of JSON, and whether there are more.
pub(crate) async fn page(
    shared: &Arc<RunShared>,
    run: &Arc<LiveRun>,
    after: u64,
    limit: usize,
) -> Result<(String, bool), Refusal> {
    let mut place = EventPlace::after(after);
    let (mut page, mut count, mut last) = (String::new(), 0, after);
    while count < limit && page.len() < PAGE_BYTES {
        let events = events(shared, run, &mut place).await?;
        if events.is_empty() {
            break;
        }
        for heard in events.iter().take(limit - count) {
            if count > 0 {
                page.push(',');
            }
            page.push_str(&heard.line);
            (count, last) = (count + 1, heard.id);
        }
    }
    Ok((page, last < run.last()))
}

/// Answers with the events after this one as they come, until the run ends.
pub(crate) fn stream(
    shared: &Arc<RunShared>,
    run: &Arc<LiveRun>,
    after: u64,
    passed: Passed,
) -> Response {
    let (sender, body) = Body::stream(WAITING_MAX);
    let listener = RunListener {
        shared: Arc::clone(shared),
        run: Arc::clone(run),
        place: EventPlace::after(after),
        passed,
    };
    tokio::task::spawn_local(listener.feed(sender));
    let mut response = Response::new(body);
    let fields = response.headers_mut();
    let kind = HeaderValue::from_static("text/event-stream");
    fields.insert(CONTENT_TYPE, kind);
    fields.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    fields.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

struct RunListener {
    shared: Arc<RunShared>,
    run: Arc<LiveRun>,
    place: EventPlace,
    passed: Passed,
}

impl RunListener {
    async fn feed(mut self, sender: BodySender) {
        let (end, bytes) = tokio::select! {
            end = self.tell(&sender) => end,
            () = sender.closed() => (CallEnd::Cut, 0),
        };
        let ending = CallEnding {
            status: 200,
            bytes,
            ..CallEnding::of(end)
        };
        self.passed.end(ending);
    }

    async fn tell(&mut self, sender: &BodySender) -> (CallEnd, u64) {
        let mut changes = self.run.changes();
        let mut silent_ms = 0;
        let mut bytes = 0;
        loop {
            changes.mark_unchanged();
            // Asked before the events: what comes in between is seen by the next turn.
            let is_over = self.run.state().is_final();
            let Ok(events) = events(&self.shared, &self.run, &mut self.place).await else {
                return (CallEnd::Failed, bytes);
            };
            for heard in &events {
                let text = event(heard);
                bytes += text.len() as u64;
                if sender.send(text).await.is_err() {
                    return (CallEnd::Cut, bytes);
                }
                silent_ms = 0;
            }
            if is_over && self.place.after >= self.run.last() {
                return (CallEnd::Complete, bytes);
            }
            tokio::select! {
                _ = changes.changed() => continue,
                () = self.shared.drain.started() => return (CallEnd::Cut, bytes),
                () = tokio::time::sleep(Duration::from_millis(LOOK_MS)) => {}
            }
            if !self.passed.is_in_force() {
                return (CallEnd::Refused, bytes);
            }
            silent_ms += LOOK_MS;
            if silent_ms >= KEEP_ALIVE_MS {
                silent_ms = 0;
                if sender.send(Bytes::from_static(b":\n\n")).await.is_err() {
                    return (CallEnd::Cut, bytes);
                }
            }
        }
    }
}

fn event(heard: &HeardEvent) -> Bytes {
    let event = Event {
        name: Some(heard.name.to_owned()),
        id: Some(heard.id.to_string()),
        ..Event::message(heard.line.as_bytes())
    };
    sse::write(&event).into()
}
