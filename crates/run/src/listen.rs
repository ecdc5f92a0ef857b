//! A run's events for whoever listens: as they come, or page by page.
//!
//! A listener has a place in the events and nothing else. What it has not heard is taken from memory, or where it is far behind from the
//! disk; one that does not read waits alone. `Last-Event-ID` and `after` are the same place. In which words a listener is told
//! them is its [`EventWriter`]'s business.

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
use tokio::sync::watch;

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

/// Says events in the words of one kind of client.
pub(crate) trait EventWriter {
    /// An event as server-sent events; empty where there are no words for it.
    fn write(&mut self, heard: &HeardEvent) -> String;
}

/// The words of `GET /v1/runs/ID/events`.
pub(crate) struct OwnWriter;

impl EventWriter for OwnWriter {
    fn write(&mut self, heard: &HeardEvent) -> String {
        let event = Event {
            name: Some(heard.name.to_owned()),
            id: Some(heard.id.to_string()),
            ..Event::message(heard.line.as_bytes())
        };
        String::from_utf8_lossy(&sse::write(&event)).into_owned()
    }
}

/// What a listener hears next.
pub(crate) enum Heard {
    Events(Vec<HeardEvent>),
    /// Nothing for a while: it is told that it is still heard.
    Silence,
    Over(CallEnd),
}

/// The events of a run as they come.
pub(crate) struct EventFeed {
    shared: Arc<RunShared>,
    run: Arc<LiveRun>,
    place: EventPlace,
    changes: watch::Receiver<u64>,
    silent_ms: u64,
}

impl EventFeed {
    pub(crate) fn new(shared: &Arc<RunShared>, run: &Arc<LiveRun>, after: u64) -> EventFeed {
        EventFeed {
            shared: Arc::clone(shared),
            changes: run.changes(),
            run: Arc::clone(run),
            place: EventPlace::after(after),
            silent_ms: 0,
        }
    }

    /// What comes next. It may be dropped while it waits: no event is lost.
    pub(crate) async fn next(&mut self, passed: &Passed) -> Heard {
        loop {
            self.changes.mark_unchanged();
            // Asked before the events: what comes in between is seen by the next turn.
            let is_over = self.run.state().is_final();
            let Ok(events) = events(&self.shared, &self.run, &mut self.place).await else {
                return Heard::Over(CallEnd::Failed);
            };
            if !events.is_empty() {
                self.silent_ms = 0;
                return Heard::Events(events);
            }
            if is_over && self.place.after >= self.run.last() {
                return Heard::Over(CallEnd::Complete);
            }
            tokio::select! {
                _ = self.changes.changed() => continue,
                () = self.shared.drain.started() => return Heard::Over(CallEnd::Cut),
                () = tokio::time::sleep(Duration::from_millis(LOOK_MS)) => {}
            }
            if !passed.is_in_force() {
                return Heard::Over(CallEnd::Refused);
            }
            self.silent_ms += LOOK_MS;
            if self.silent_ms >= KEEP_ALIVE_MS {
                self.silent_ms = 0;
                return Heard::Silence;
            }
        }
    }
}

/// All events that there are by now, from the first.
pub(crate) async fn all(
    shared: &Arc<RunShared>,
    run: &Arc<LiveRun>,
    writer: &mut dyn EventWriter,
) -> Result<(), Refusal> {
    let mut place = EventPlace::default();
    loop {
        let events = events(shared, run, &mut place).await?;
        if events.is_empty() {
            return Ok(());
        }
        for heard in &events {
            writer.write(heard);
        }
    }
}

/// Answers with the events after this one as they come, until the run ends.
pub(crate) fn stream(
    shared: &Arc<RunShared>,
    run: &Arc<LiveRun>,
    after: u64,
    passed: Passed,
    writer: Box<dyn EventWriter>,
) -> Response {
    let (sender, body) = Body::stream(WAITING_MAX);
    let listener = RunListener {
        feed: EventFeed::new(shared, run, after),
        passed,
        writer,
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
    feed: EventFeed,
    passed: Passed,
    writer: Box<dyn EventWriter>,
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
        let mut bytes = 0;
        loop {
            let events = match self.feed.next(&self.passed).await {
                Heard::Events(events) => events,
                Heard::Silence => {
                    if sender.send(Bytes::from_static(b":\n\n")).await.is_err() {
                        return (CallEnd::Cut, bytes);
                    }
                    continue;
                }
                Heard::Over(end) => return (end, bytes),
            };
            for heard in &events {
                let text = self.writer.write(heard);
                bytes += text.len() as u64;
                if !text.is_empty() && sender.send(text.into()).await.is_err() {
                    return (CallEnd::Cut, bytes);
                }
            }
        }
    }
}
