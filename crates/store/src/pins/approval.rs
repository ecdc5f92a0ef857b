//! Approving what waits, by an administrator at the command line.
//!
//! A gateway that runs holds its own log, so what administrators do stands in another one beside it, of the same kind:
//! `log.admin` in the state folder, which `weir audit` verifies and shows. A tool is approved after its record is on
//! the disk, and not at all where it cannot be written.

use std::fmt;
use std::path::Path;
use std::time::{Duration, Instant};

use base::clock::Now;
use base::record::Approval;
use base::{Digest, ItemKind, Name, ServerItem};
use gate::ports::Recorder;

use super::{Book, Folder, Pin, PinsError};
use crate::log::{Durability, Log, LogError, LogSettings, origin_of};
use crate::operator::Operator;
use crate::state::{State, make_dir};

/// The folder of the log, in the state folder.
const FOLDER: &str = "log.admin";
/// What stands behind the state folder's origin in what its checkpoints call it.
const ORIGIN: &str = "admin";
/// Bytes of the whole log: a million approvals.
const LOG_BYTES_MAX: u64 = 1 << 30;
/// How long another approval is waited for.
const WAIT_MAX: Duration = Duration::from_secs(10);
/// How often it is looked whether that one has ended.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Which definitions of one server are to be approved.
pub struct Wanted<'w> {
    /// The items; all that wait where this is absent.
    pub items: Option<&'w [ServerItem]>,
    /// What the digest of a definition begins with; empty where any is meant.
    pub digest: &'w str,
}

/// What became of an item that was to be approved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Approved {
    /// Nothing of it waits.
    Nothing,
    /// Another definition waits than was meant: this one.
    Another(Digest),
    /// This definition is approved.
    Yes(Digest),
}

/// Why nothing was approved.
#[derive(Debug)]
pub enum ApprovalError {
    Pins(PinsError),
    /// The approval cannot be recorded; the text says why.
    NotRecorded(String),
}

impl fmt::Display for ApprovalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ApprovalError::Pins(error) => write!(f, "{error}"),
            ApprovalError::NotRecorded(why) => {
                write!(f, "the approval cannot be recorded: {why}")
            }
        }
    }
}

impl std::error::Error for ApprovalError {}

/// Approves what waits of a server in this state folder, and answers for each item that was asked for, in order. It is
/// recorded before it takes effect.
pub fn approve(
    state: &Path,
    server: &Name,
    wanted: &Wanted<'_>,
    now_ms: u64,
) -> Result<Vec<(ServerItem, Approved)>, ApprovalError> {
    let folder = Folder::of_state(state);
    let answer = folder.change(server, |book| {
        let answers = wanted.of(book);
        let may = |(item, answer): &(ServerItem, Approved)| {
            matches!(answer, Approved::Yes(_)).then(|| item.clone())
        };
        let items: Vec<ServerItem> = answers.iter().filter_map(may).collect();
        if items.is_empty() {
            return (false, Ok(answers));
        }
        if let Err(error) = record(state, server, book, &items, now_ms) {
            return (false, Err(error));
        }
        for item in &items {
            book.approve(item.kind, &item.name, now_ms);
        }
        (true, Ok(answers))
    });
    answer.map_err(ApprovalError::Pins)?
}

impl Wanted<'_> {
    fn of(&self, book: &Book) -> Vec<(ServerItem, Approved)> {
        let answer = |item: &ServerItem| match book.of_item(item).and_then(Pin::held) {
            None => Approved::Nothing,
            Some(held) if held.digest.to_string().starts_with(self.digest) => {
                Approved::Yes(held.digest)
            }
            Some(held) => Approved::Another(held.digest),
        };
        let answered = |item: ServerItem| {
            let answer = answer(&item);
            (item, answer)
        };
        match self.items {
            Some(items) => items.iter().cloned().map(answered).collect(),
            None => {
                let waiting = book.items().filter(|(.., pin)| pin.waiting.is_some());
                let item = |(kind, name, _): (ItemKind, &str, &Pin)| ServerItem {
                    kind,
                    name: name.into(),
                };
                waiting.map(item).map(answered).collect()
            }
        }
    }
}

/// Puts the approval of these items on the disk.
fn record(
    state: &Path,
    server: &Name,
    book: &Book,
    items: &[ServerItem],
    now_ms: u64,
) -> Result<(), ApprovalError> {
    let log = Approvals::open(state)?;
    for item in items {
        if let Some(pin) = book.of_item(item) {
            log.record(server, item, pin, now_ms)?;
        }
    }
    log.close()
}

/// The log of approvals, and who approves.
struct Approvals {
    log: Log,
    operator: Operator,
}

impl Approvals {
    /// Opens the log of a state folder, or begins it.
    fn open(state: &Path) -> Result<Approvals, ApprovalError> {
        let dir = state.join(FOLDER);
        make_dir(&dir).map_err(|error| not_recorded(error.to_string()))?;
        let origin = origin(state, &dir)?;
        let log = open(&dir, &origin)
            .map_err(|error| not_recorded(format!("the log in {}: {error}", dir.display())))?;
        let operator = Operator::who();
        let operator = operator.map_err(|error| not_recorded(format!("who this is: {error}")))?;
        Ok(Approvals { log, operator })
    }

    /// Records that what waits of an item is approved now, in Unix milliseconds.
    fn record(
        &self,
        server: &Name,
        item: &ServerItem,
        pin: &Pin,
        now_ms: u64,
    ) -> Result<(), ApprovalError> {
        let Some(waiting) = &pin.waiting else {
            return Ok(());
        };
        let approval = Approval {
            at: Now {
                unix_ms: now_ms,
                mono_ms: 0,
            },
            by: &self.operator.by,
            login: self.operator.login.as_deref(),
            server: server.as_str(),
            item: (item.kind.as_str(), &item.name),
            digest: waiting.digest,
            before: pin.approved.as_ref().map(|approved| approved.digest),
        };
        match self.log.append(approval.to_json()).blocking_recv() {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(not_recorded(format!("the log: {error}"))),
            Err(_) => Err(not_recorded("the log took no record".to_owned())),
        }
    }

    /// Signs what was recorded.
    fn close(self) -> Result<(), ApprovalError> {
        let closed = self.log.close();
        closed.map_err(|error| not_recorded(format!("the log: {error}")))
    }
}

/// The origin of the log: its own where it has begun.
fn origin(state: &Path, dir: &Path) -> Result<String, ApprovalError> {
    let own = origin_of(dir);
    let own =
        own.map_err(|error| not_recorded(format!("the log in {}: {error}", dir.display())))?;
    match own {
        Some(own) => Ok(own),
        None => {
            let origin = State::open(state).and_then(|state| state.origin());
            let origin = origin.map_err(|error| not_recorded(error.to_string()))?;
            Ok(format!("{origin}/{ORIGIN}"))
        }
    }
}

/// Opens the log, after whoever writes it now.
fn open(dir: &Path, origin: &str) -> Result<Log, LogError> {
    let began = Instant::now();
    loop {
        let settings = LogSettings {
            origin: origin.to_owned(),
            durability: Durability::Fsync,
            bytes_max: LOG_BYTES_MAX,
        };
        match Log::open(dir, settings) {
            Err(LogError::Locked) if began.elapsed() < WAIT_MAX => std::thread::sleep(LOOK_EVERY),
            opened => return opened,
        }
    }
}

fn not_recorded(why: String) -> ApprovalError {
    ApprovalError::NotRecorded(why)
}
