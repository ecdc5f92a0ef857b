//! One connection and the request that is on it.

use std::net::TcpStream;

use super::answer::Reader;
use super::judge::{Findings, Sent};
use super::prepare::{Places, Prepared};

/// What a connection is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Nothing, connected or not.
    Idle,
    /// It waits for its time, after an answer or after it could not be made.
    Resting,
    /// It is being made, for a request that is due.
    Dialing,
    /// A request was begun to be written, and is not answered.
    Busy,
}

/// A place for a connection, and the request that is on it. All instants are nanoseconds from the start.
pub(super) struct Slot {
    pub stream: Option<TcpStream>,
    pub phase: Phase,
    /// Counts connections, so that events of an earlier one are told apart.
    pub generation: u32,
    pub target: usize,
    /// The server has ended its side, so this connection takes no more requests.
    pub ending: bool,
    pub reader: Reader,
    pub findings: Findings,
    /// The request's bytes, where they are made for it.
    pub out: Vec<u8>,
    pub places: Places,
    /// How much of the request is written.
    pub written: usize,
    pub number: u64,
    pub kind: usize,
    pub step: usize,
    pub intended_ns: u64,
    /// When its connection was begun to be made.
    pub dialed_ns: u64,
    pub sent_ns: u64,
    /// How long the request waited for its connection to be made.
    pub dial_ns: u64,
    /// When the request, or the dialing, is given up.
    pub deadline_ns: u64,
    pub bytes_in: u64,
    /// How long to rest if dialing fails once more.
    pub backoff_ns: u64,
}

impl Slot {
    pub(super) fn new(target: usize) -> Slot {
        Slot {
            stream: None,
            phase: Phase::Idle,
            generation: 0,
            target,
            ending: false,
            reader: Reader::default(),
            findings: Findings::default(),
            out: Vec::new(),
            places: Places::default(),
            written: 0,
            number: 0,
            kind: 0,
            step: 0,
            intended_ns: 0,
            dialed_ns: 0,
            sent_ns: 0,
            dial_ns: 0,
            deadline_ns: u64::MAX,
            bytes_in: 0,
            backoff_ns: 0,
        }
    }

    /// Ends the connection, if there is one. Closing takes it out of epoll.
    pub(super) fn hang_up(&mut self) {
        self.stream = None;
        self.ending = false;
        self.generation = self.generation.wrapping_add(1);
    }

    /// The bytes of its request.
    pub(super) fn request<'a>(&'a self, prepared: &'a Prepared) -> &'a [u8] {
        prepared.fixed().unwrap_or(&self.out)
    }
}

/// What has to come back of a request whose bytes these are.
pub(super) fn sent<'a>(out: &'a [u8], places: &Places) -> Sent<'a> {
    Sent {
        body: out.get(places.body..).unwrap_or_default(),
        id: out.get(places.id.clone()).unwrap_or_default(),
        content_type: places.content_type.clone().and_then(|range| out.get(range)),
    }
}
