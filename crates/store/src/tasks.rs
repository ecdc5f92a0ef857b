//! Which agent a task or a context of an agent of others belongs to: whoever began it.
//!
//! A remote agent knows its tasks by ids alone, and one agent must not read or end another's because it learnt an id. A task
//! that is not in this book is nobody's, so a book that lost its last lines makes tasks unknown and never another's.
//!
//! The book is in memory, and in a file of one line a claim. A thread of its own writes the file; a claim does not wait for
//! it. The file is written anew when it is opened, and when it has many more lines than the book has entries. Of several
//! processes that share a state folder the first has the file, and the others remember in memory alone.

use std::collections::{HashMap, VecDeque};
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base::Name;
use serde::{Deserialize, Serialize};

use crate::plain::open_plain;

/// The file, in the state folder.
pub(crate) const FILE: &str = "tasks.jsonl";
/// Tasks and contexts of one agent that are remembered; the oldest make room.
const OWNED_BY_AGENT_MAX: usize = 10_000;
/// Of all agents.
const OWNED_MAX: usize = 200_000;
/// Longest id of a task or a context, in bytes.
pub const TASK_ID_BYTES_MAX: usize = 256;
/// Claims that wait to be written; what finds no room is not in the file, and unknown after a restart.
const CLAIMS_QUEUED_MAX: usize = 4_096;
/// Longest line of the file, in bytes: an id of control characters alone, each escaped.
const LINE_BYTES_MAX: u64 = 8 << 10;
/// Lines of the file beyond the book's entries before it is written anew.
const LINES_SPARE_MAX: usize = 100_000;

/// What belongs to an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OwnedKind {
    Task,
    /// A conversation that tasks are of.
    Context,
}

/// What came of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskClaim {
    /// It is this agent's, since now or before.
    Own,
    /// It is another's.
    Foreign,
    /// There is no room to remember it.
    Full,
}

/// Whose tasks are whose.
pub struct TaskOwners {
    /// Keeps other processes from the file.
    _lock: File,
    book: Arc<Mutex<TaskBook>>,
    claims: Option<SyncSender<ClaimLine>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

/// Where a task or a context is, and its id.
type OwnedKey = (Name, OwnedKind, Box<str>);

#[derive(Default)]
struct TaskBook {
    owners: HashMap<OwnedKey, Name>,
    /// What each agent owns, the oldest first.
    by_agent: HashMap<Name, VecDeque<OwnedKey>>,
}

/// One line of the file.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ClaimLine {
    server: String,
    kind: OwnedKind,
    id: String,
    agent: String,
}

impl TaskBook {
    fn claim(&mut self, key: OwnedKey, agent: &Name) -> (TaskClaim, bool) {
        match self.owners.get(&key) {
            Some(owner) if owner == agent => return (TaskClaim::Own, false),
            Some(_) => return (TaskClaim::Foreign, false),
            None => {}
        }
        let is_full = self.owners.len() >= OWNED_MAX;
        let own = self.by_agent.entry(agent.clone()).or_default();
        if own.len() >= OWNED_BY_AGENT_MAX || is_full {
            match own.pop_front() {
                Some(oldest) => drop(self.owners.remove(&oldest)),
                None => return (TaskClaim::Full, false),
            }
        }
        own.push_back(key.clone());
        self.owners.insert(key, agent.clone());
        (TaskClaim::Own, true)
    }

    fn lines(&self) -> impl Iterator<Item = ClaimLine> {
        self.by_agent.iter().flat_map(|(agent, own)| {
            own.iter().map(|(server, kind, id)| ClaimLine {
                server: server.as_str().to_owned(),
                kind: *kind,
                id: id.to_string(),
                agent: agent.as_str().to_owned(),
            })
        })
    }
}

impl TaskOwners {
    /// Reads the file, where there is one. Errors: it cannot be read or written, or is damaged elsewhere than in its last line.
    pub fn open(path: &Path) -> io::Result<TaskOwners> {
        let lock = File::create(path.with_extension("lock"))?;
        if let Err(error) = lock.try_lock() {
            let file = path.display();
            tracing::warn!(%file, %error, "another process keeps whose tasks are whose: here it is lost at the end");
            return Ok(TaskOwners {
                _lock: lock,
                book: Arc::default(),
                claims: None,
                thread: None,
            });
        }
        let book = read(path)?;
        let lines: Vec<ClaimLine> = book.lines().collect();
        let file = write_anew(path, &lines)?;
        let book = Arc::new(Mutex::new(book));
        let (claims, queue) = sync_channel(CLAIMS_QUEUED_MAX);
        let writer = Writer {
            path: path.to_owned(),
            book: Arc::clone(&book),
            out: BufWriter::new(file),
            lines: lines.len(),
        };
        let thread = std::thread::Builder::new()
            .name("tasks".into())
            .spawn(move || writer.run(&queue))?;
        Ok(TaskOwners {
            _lock: lock,
            book,
            claims: Some(claims),
            thread: Some(thread),
        })
    }

    /// The agent that it belongs to, where that is known.
    pub fn owner(&self, server: &Name, kind: OwnedKind, id: &str) -> Option<Name> {
        let key = (server.clone(), kind, Box::from(id));
        self.book().owners.get(&key).cloned()
    }

    /// Makes it this agent's, unless it is another's. An id that is too long is never remembered.
    pub fn claim(&self, server: &Name, kind: OwnedKind, id: &str, agent: &Name) -> TaskClaim {
        if id.len() > TASK_ID_BYTES_MAX {
            return TaskClaim::Full;
        }
        let key = (server.clone(), kind, Box::from(id));
        let (claim, is_new) = self.book().claim(key, agent);
        if let (true, Some(claims)) = (is_new, &self.claims) {
            let line = ClaimLine {
                server: server.as_str().to_owned(),
                kind,
                id: id.to_owned(),
                agent: agent.as_str().to_owned(),
            };
            if claims.try_send(line).is_err() {
                tracing::warn!(%server, "the owner of a task is not kept: it is unknown after a restart");
            }
        }
        claim
    }

    fn book(&self) -> MutexGuard<'_, TaskBook> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes what is not written yet.
impl Drop for TaskOwners {
    fn drop(&mut self) {
        drop(self.claims.take());
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was printed, and there is nothing left to do for it.
            let _ = thread.join();
        }
    }
}

/// The thread that writes the file.
struct Writer {
    path: PathBuf,
    book: Arc<Mutex<TaskBook>>,
    out: BufWriter<File>,
    /// Lines of the file.
    lines: usize,
}

impl Writer {
    fn run(mut self, queue: &Receiver<ClaimLine>) {
        while let Ok(first) = queue.recv() {
            let mut written = self.write(&first);
            while let (Ok(()), Ok(next)) = (&written, queue.try_recv()) {
                written = self.write(&next);
            }
            let kept = written
                .and_then(|()| self.out.flush())
                .and_then(|()| self.compact());
            if let Err(error) = kept {
                tracing::error!(file = %self.path.display(), %error, "owners of tasks are not kept");
            }
        }
    }

    fn write(&mut self, line: &ClaimLine) -> io::Result<()> {
        self.lines += 1;
        write_line(&mut self.out, line)
    }

    fn compact(&mut self) -> io::Result<()> {
        let book = self.book.lock().unwrap_or_else(PoisonError::into_inner);
        if self.lines < book.owners.len() + LINES_SPARE_MAX {
            return Ok(());
        }
        let lines: Vec<ClaimLine> = book.lines().collect();
        drop(book);
        self.out = BufWriter::new(write_anew(&self.path, &lines)?);
        self.lines = lines.len();
        Ok(())
    }
}

fn write_line(out: &mut impl Write, line: &ClaimLine) -> io::Result<()> {
    serde_json::to_writer(&mut *out, line)?;
    out.write_all(b"\n")
}

/// Writes the file in place of what is there, and leaves it open at its end.
fn write_anew(path: &Path, lines: &[ClaimLine]) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    let beside = path.with_extension("new");
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let mut out = BufWriter::new(options.open(&beside)?);
    for line in lines {
        write_line(&mut out, line)?;
    }
    let file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
    file.sync_data()?;
    std::fs::rename(&beside, path)?;
    Ok(file)
}

fn read(path: &Path) -> io::Result<TaskBook> {
    let mut book = TaskBook::default();
    let file = match open_plain(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(book),
        Err(error) => return Err(error),
    };
    let mut reader = BufReader::new(file);
    let mut line = Vec::new();
    loop {
        line.clear();
        let bytes = io::Read::take(&mut reader, LINE_BYTES_MAX).read_until(b'\n', &mut line)?;
        if bytes == 0 {
            return Ok(book);
        }
        let read = serde_json::from_slice::<ClaimLine>(&line).ok();
        let read = read.filter(|_| line.ends_with(b"\n"));
        let claim = read.and_then(|line| {
            let key = (Name::new(&line.server)?, line.kind, line.id.into());
            Some((key, Name::new(&line.agent)?))
        });
        match claim {
            Some((key, agent)) => drop(book.claim(key, &agent)),
            // Cut while it was written.
            None if reader.fill_buf()?.is_empty() => return Ok(book),
            None => {
                let what = "a line is damaged; move the file away, and its tasks are unknown";
                return Err(io::Error::new(io::ErrorKind::InvalidData, what));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        Name::new(text).unwrap()
    }

    #[test]
    fn who_begins_a_task_owns_it_also_after_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FILE);
        let (one, two, server) = (name("one"), name("two"), name("helper"));
        let owners = TaskOwners::open(&path).unwrap();
        assert_eq!(owners.owner(&server, OwnedKind::Task, "t1"), None);
        assert_eq!(
            owners.claim(&server, OwnedKind::Task, "t1", &one),
            TaskClaim::Own
        );
        assert_eq!(
            owners.claim(&server, OwnedKind::Task, "t1", &one),
            TaskClaim::Own
        );
        assert_eq!(
            owners.claim(&server, OwnedKind::Task, "t1", &two),
            TaskClaim::Foreign
        );
        // The same id is another's elsewhere, and as a context.
        assert_eq!(
            owners.claim(&name("other"), OwnedKind::Task, "t1", &two),
            TaskClaim::Own
        );
        assert_eq!(
            owners.claim(&server, OwnedKind::Context, "t1", &two),
            TaskClaim::Own
        );
        let long = "x".repeat(TASK_ID_BYTES_MAX + 1);
        assert_eq!(
            owners.claim(&server, OwnedKind::Task, &long, &one),
            TaskClaim::Full
        );
        drop(owners);
        let owners = TaskOwners::open(&path).unwrap();
        assert_eq!(owners.owner(&server, OwnedKind::Task, "t1"), Some(one));
        assert_eq!(owners.owner(&server, OwnedKind::Context, "t1"), Some(two));
    }

    #[test]
    fn a_line_that_was_cut_is_left_out_and_a_damaged_one_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FILE);
        let owners = TaskOwners::open(&path).unwrap();
        let server = name("helper");
        for id in ["t1", "t2"] {
            owners.claim(&server, OwnedKind::Task, id, &name("one"));
        }
        drop(owners);
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, &text[..text.len() - 3]).unwrap();
        let owners = TaskOwners::open(&path).unwrap();
        assert!(owners.owner(&server, OwnedKind::Task, "t1").is_some());
        assert!(owners.owner(&server, OwnedKind::Task, "t2").is_none());
        drop(owners);
        std::fs::write(&path, format!("oops\n{text}")).unwrap();
        let Err(error) = TaskOwners::open(&path) else {
            panic!("a damaged file was read");
        };
        assert!(error.to_string().contains("move the file away"), "{error}");
    }

    #[test]
    fn an_agent_with_too_many_tasks_loses_its_own_oldest() {
        let mut book = TaskBook::default();
        let key = |id: usize| (name("helper"), OwnedKind::Task, Box::from(id.to_string()));
        book.claim(
            (name("helper"), OwnedKind::Task, "other".into()),
            &name("two"),
        );
        for id in 0..=OWNED_BY_AGENT_MAX {
            assert_eq!(book.claim(key(id), &name("one")), (TaskClaim::Own, true));
        }
        assert!(!book.owners.contains_key(&key(0)) && book.owners.contains_key(&key(1)));
        assert_eq!(book.owners.len(), OWNED_BY_AGENT_MAX + 1);
    }
}
