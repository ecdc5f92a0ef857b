//! One record of a process that ends right after, such as the hook of a coding agent.
//!
//! Opening a log reads its last segment, which may have 65,536 entries. Here a file beside the log says where the entries
//! end that are signed: the tree before the last of them, and where that one begins. Nothing of it is taken on trust:
//! together with the entry it has to give the root that the newest checkpoint signed, and what follows has to be chained
//! to it. Where it does not, the log is opened as always, which says what is wrong. No entry before that one is looked at:
//! `weir audit verify` does that.
//!
//! With `fsync` each record is made durable and signed. With `os` that is done once the next record would take what is
//! not signed over its bound ([`Unsigned`]), so that records which come soon after each other wait for no disk.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use base::Digest;
use base::limit::RECORD_BYTES_MAX;
use gate::ports::{RecordError, Recorder};

use super::open::{self, Doubt, Opened};
use super::{Durability, Log, LogError, LogSettings, Newest, read_text};
use crate::disk::{Disk, DiskFile, FileDisk, Held};
use crate::entry::{self, Entry, Next, SEGMENT_ENTRIES};
use crate::note::{Checkpoint, Signer};
use crate::tree::{self, Edge};
use crate::unsigned::Unsigned;

/// The file that says where the last record ended.
const RESUME: &str = "resume";
/// How often a log that another process writes is tried again.
const RETRY: Duration = Duration::from_millis(2);

/// Puts one record at the end of a log, as durable as the settings say. Waits at most `wait` for other processes that write
/// the log.
///
/// # Errors
/// Those of [`Log::open`], and [`LogError::Full`]. Then the record is not in the log.
pub fn append_once(
    disk: &FileDisk,
    settings: &LogSettings,
    record: &[u8],
    wait: Duration,
) -> Result<(), LogError> {
    let deadline = Instant::now() + wait;
    loop {
        match attempt(disk, settings, record, || reopen(disk, settings)) {
            Err(LogError::Locked) if Instant::now() < deadline => thread::sleep(RETRY),
            ended => return ended,
        }
    }
}

/// Opens the log with a writer of its own, which can begin another segment.
fn reopen(disk: &FileDisk, settings: &LogSettings) -> Result<Log, LogError> {
    let disk = Arc::new(disk.clone());
    Log::open_on(disk, Path::new(""), settings.clone())
}

fn attempt(
    disk: &dyn Disk,
    settings: &LogSettings,
    record: &[u8],
    reopen: impl FnOnce() -> Result<Log, LogError>,
) -> Result<(), LogError> {
    if record.len() > RECORD_BYTES_MAX {
        let error = io::Error::other(format!("it has more than {RECORD_BYTES_MAX} bytes"));
        return Err(LogError::Io("the record", error));
    }
    let folder = disk.lock().map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => LogError::Locked,
        _ => LogError::Io("the log's directory cannot be locked", error),
    })?;
    let mut end = match LogEnd::resume(disk, settings)? {
        Some(end) => end,
        None => {
            // Opening takes the folder itself.
            drop(folder);
            let opened = open::open(disk, settings, None, Doubt::Refuse)?;
            if opened.leaves.len() as u64 == SEGMENT_ENTRIES {
                drop(opened);
                return append_by_writer(reopen()?, record);
            }
            LogEnd::of(opened)
        }
    };
    end.append(record, settings)?;
    // It only saves the next process time.
    let _ = end.write_resume(disk);
    Ok(())
}

fn append_by_writer(log: Log, record: &[u8]) -> Result<(), LogError> {
    let kept = log.append(record.to_vec()).blocking_recv();
    let closed = log.close();
    let kept = kept.unwrap_or_else(|_| Err(RecordError::Failed("the log is closed".into())));
    kept.map(drop).and(closed).map_err(|error| match error {
        RecordError::Full => LogError::Full,
        error => LogError::Io("the record", io::Error::other(error.to_string())),
    })
}

/// Where a log ends, with the files that grow there.
struct LogEnd {
    signer: Signer,
    edge: Edge,
    prev: Digest,
    file: Box<dyn DiskFile>,
    file_len: u64,
    checkpoints: Box<dyn DiskFile>,
    checkpoints_len: u64,
    unsigned: Unsigned,
    /// Bytes of all files.
    bytes: u64,
    /// Where the last entry begins, where that is known.
    last: Option<ResumePoint>,
    /// Whether the next process finds where to go on.
    has_resume: bool,
    /// The last entry that this process signed.
    signed: Option<ResumePoint>,
    _folder: Option<Box<dyn Held>>,
}

/// One entry, by the tree before it and where it begins in its segment; that of the last that is signed is kept in the
/// file [`RESUME`].
#[derive(Clone)]
struct ResumePoint {
    before: Edge,
    at: u64,
}

/// The entries from a [`ResumePoint`] to the end of the segment.
struct HeldTail {
    edge: Edge,
    prev: Digest,
    unsigned: Unsigned,
    last: ResumePoint,
    end: u64,
}

impl ResumePoint {
    fn read(disk: &dyn Disk) -> Option<ResumePoint> {
        let text = read_text(disk, RESUME).ok()?;
        // What was written last ends the file, so that half of it is none.
        let mut lines = text.strip_suffix("end\n")?.lines();
        let size = lines.next()?.parse().ok()?;
        let at = lines.next()?.parse().ok()?;
        let roots: Option<Vec<Digest>> = lines.map(Digest::from_hex).collect();
        let before = Edge::of(size, roots?)?;
        Some(ResumePoint { before, at })
    }

    /// The segment of the last entry, where another may follow in it.
    fn segment(&self) -> Option<u64> {
        let size = self.before.size() + 1;
        let has_room = !size.is_multiple_of(SEGMENT_ENTRIES);
        has_room.then_some(self.before.size() / SEGMENT_ENTRIES)
    }

    /// Reads this entry and those behind it; nothing where the checkpoint did not sign this one as its last, or where
    /// something else than its successors follows.
    fn hold(&self, disk: &dyn Disk, newest: &Checkpoint) -> Option<HeldTail> {
        let name = entry::segment_name(self.segment()?);
        let mut reader = disk.read(&name, self.at).ok()?;
        let mut bytes = Vec::new();
        let mut held: Option<HeldTail> = None;
        loop {
            match entry::read_next(&mut reader, &mut bytes).ok()? {
                Next::Entry => {}
                Next::End => return held,
                Next::Torn | Next::Empty => return None,
            }
            let entry = Entry::parse(&bytes)?;
            let (before, at, unsigned) = match held {
                None => (self.before.clone(), self.at, Unsigned::default()),
                Some(held) if held.prev == entry.prev => {
                    let mut unsigned = held.unsigned;
                    unsigned.push(entry.record);
                    (held.edge, held.end, unsigned)
                }
                Some(_) => return None,
            };
            let prev = tree::leaf_hash(&bytes);
            let mut edge = before.clone();
            edge.push(prev);
            let is_signed = || (edge.size(), edge.root()) == (newest.size, newest.root);
            if entry.seq != before.size()
                || unsigned.is_over()
                || (unsigned.entries() == 0 && !is_signed())
            {
                return None;
            }
            held = Some(HeldTail {
                edge,
                prev,
                unsigned,
                last: ResumePoint { before, at },
                end: at + 2 + bytes.len() as u64,
            });
        }
    }
}

impl LogEnd {
    /// The end that the last such process left; nothing where the log does not end there.
    fn resume(disk: &dyn Disk, settings: &LogSettings) -> Result<Option<LogEnd>, LogError> {
        let Some(point) = ResumePoint::read(disk) else {
            return Ok(None);
        };
        let listing = |error| LogError::Io("the log's directory", error);
        let files = disk.list().map_err(listing)?;
        let segment = entry::segments(&files).last().copied();
        if segment.is_none() || segment != point.segment() {
            return Ok(None);
        }
        let signer = open::signer(disk, &settings.origin, true)?;
        let (checkpoints, checkpoints_len, newest) = open::checkpoints(disk, &signer)?;
        let held = newest.and_then(|Newest { checkpoint, .. }| point.hold(disk, &checkpoint));
        let Some(held) = held else {
            return Ok(None);
        };
        if held.edge.size().is_multiple_of(SEGMENT_ENTRIES) {
            return Ok(None);
        }
        let name = entry::segment_name(segment.unwrap_or_default());
        let opening = |error| LogError::Io("the log's last segment", error);
        let file = disk.append(&name).map_err(opening)?;
        if file.length().map_err(opening)? != held.end {
            return Ok(None);
        }
        Ok(Some(LogEnd {
            signer,
            edge: held.edge,
            prev: held.prev,
            file,
            file_len: held.end,
            checkpoints,
            checkpoints_len,
            unsigned: held.unsigned,
            bytes: files.iter().map(|(_, len)| len).sum(),
            last: Some(held.last),
            has_resume: true,
            signed: None,
            _folder: None,
        }))
    }

    fn of(opened: Opened) -> LogEnd {
        LogEnd {
            unsigned: opened.unsigned,
            signer: opened.signer,
            edge: opened.edge,
            prev: opened.prev,
            file: opened.file,
            file_len: opened.file_len,
            checkpoints: opened.checkpoints,
            checkpoints_len: opened.checkpoints_len,
            bytes: opened.bytes,
            last: None,
            has_resume: false,
            signed: None,
            _folder: Some(opened.folder),
        }
    }

    fn append(&mut self, record: &[u8], settings: &LogSettings) -> Result<(), LogError> {
        let mut buffer = Vec::with_capacity(record.len() + entry::ENTRY_EXTRA_BYTES);
        let prev = entry::push(&mut buffer, &self.prev, record, self.edge.size());
        if self.bytes + buffer.len() as u64 > settings.bytes_max {
            return Err(LogError::Full);
        }
        if self.unsigned.room(std::iter::once(record)) == 0 {
            self.sign()?;
        }
        if let Err(error) = self.file.write_at(&buffer, self.file_len) {
            // What stands there is torn, and the next process cuts it too.
            let _ = self.file.truncate(self.file_len);
            return Err(LogError::Io("the log's last segment", error));
        }
        self.last = Some(ResumePoint {
            before: self.edge.clone(),
            at: self.file_len,
        });
        self.edge.push(prev);
        self.prev = prev;
        self.file_len += buffer.len() as u64;
        self.unsigned.push(record);
        // The first record of this way is signed, so that the next process has where to go on.
        match settings.durability {
            Durability::Os if self.has_resume => Ok(()),
            Durability::Os | Durability::Fsync => self.sign(),
        }
    }

    /// Makes all entries durable and signs them.
    fn sign(&mut self) -> Result<(), LogError> {
        let synced = self.file.sync();
        synced.map_err(|error| LogError::Io("the log's last segment", error))?;
        let (size, root) = (self.edge.size(), self.edge.root());
        let note = self.signer.checkpoint(&Checkpoint { size, root });
        let failed = |error| LogError::Io("the log's checkpoints", error);
        let (file, len) = (&mut self.checkpoints, self.checkpoints_len);
        if let Err(error) = file.write_at(note.as_bytes(), len) {
            let _ = file.truncate(len);
            return Err(failed(error));
        }
        file.sync().map_err(failed)?;
        self.checkpoints_len += note.len() as u64;
        self.unsigned = Unsigned::default();
        self.signed = self.last.clone();
        Ok(())
    }

    /// Says which entry is the last that is signed, for the next process. Not synced: half of it is found to be none.
    fn write_resume(&self, disk: &dyn Disk) -> io::Result<()> {
        let Some(ResumePoint { before, at }) = &self.signed else {
            return Ok(());
        };
        let mut text = format!("{}\n{at}\n", before.size());
        for root in before.roots() {
            text.push_str(&format!("{root}\n"));
        }
        text.push_str("end\n");
        let mut file = disk.append(RESUME)?;
        file.truncate(0)?;
        file.write_at(text.as_bytes(), 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit;
    use crate::disk::MemoryDisk;

    fn settings() -> LogSettings {
        LogSettings {
            origin: "test.example/hook".into(),
            durability: Durability::Fsync,
            bytes_max: 1 << 30,
        }
    }

    fn reopened(disk: &MemoryDisk) -> Result<Log, LogError> {
        Log::open_on(Arc::new(disk.clone()), Path::new("memory"), settings())
    }

    fn once(disk: &MemoryDisk, record: &str) -> Result<(), LogError> {
        attempt(disk, &settings(), record.as_bytes(), || reopened(disk))
    }

    fn entries(disk: &MemoryDisk) -> u64 {
        let verified = audit::verify_disk(disk, None).unwrap();
        assert_eq!((verified.unsigned, verified.torn), (0, false));
        verified.entries
    }

    #[test]
    fn records_of_many_processes_are_one_log() {
        let disk = MemoryDisk::new();
        for size in 1..=9 {
            once(&disk, r#"{"n":1}"#).unwrap();
            assert_eq!(entries(&disk), size);
        }
        // A gateway goes on with it, and it with what the gateway wrote.
        let log = reopened(&disk).unwrap();
        log.append(b"{}".to_vec()).blocking_recv().unwrap().unwrap();
        log.close().unwrap();
        once(&disk, r#"{"n":2}"#).unwrap();
        assert_eq!(entries(&disk), 11);
    }

    #[test]
    fn records_that_come_soon_after_each_other_are_signed_together() {
        let disk = MemoryDisk::new();
        let os = LogSettings {
            durability: Durability::Os,
            ..settings()
        };
        let unsigned_after = |seconds: u64| {
            let at = base::clock::rfc3339(seconds * 1000);
            let record = format!(r#"{{"at":"{at}"}}"#);
            attempt(&disk, &os, record.as_bytes(), || reopened(&disk)).unwrap();
            audit::verify_disk(&disk, None).unwrap().unsigned
        };
        // The first is signed; then what is not signed spans ten seconds at most.
        let seconds = [100, 101, 105, 111, 112, 121, 122, 200];
        assert_eq!(seconds.map(unsigned_after), [0, 1, 2, 3, 1, 2, 3, 1]);
        assert_eq!(unsigned_after(201), 2);
        // They are chained: where one of them was changed, nobody goes on.
        let name = entry::segment_name(0);
        let mut bytes = disk.bytes(&name).unwrap();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        assert_eq!(text.matches("00:03:20").count(), 1);
        let at = bytes.windows(8).position(|window| window == b"00:03:20");
        bytes[at.unwrap() + 7] = b'1';
        disk.tamper(&name, Some(bytes));
        let refused = attempt(&disk, &os, b"{}", || reopened(&disk));
        assert!(
            matches!(refused, Err(LogError::Damaged { .. })),
            "{refused:?}"
        );
    }

    #[test]
    fn it_goes_on_without_reading_what_was_before() {
        let disk = MemoryDisk::new();
        (0..3).for_each(|_| once(&disk, r#"{"n":1}"#).unwrap());
        let name = entry::segment_name(0);
        let mut bytes = disk.bytes(&name).unwrap();
        let at = bytes.iter().position(|byte| *byte == b'n').unwrap();
        bytes[at] = b'm';
        disk.tamper(&name, Some(bytes));
        once(&disk, r#"{"n":2}"#).unwrap();
        let damage = audit::verify_disk(&disk, None).unwrap_err();
        assert_eq!((damage.index, damage.kind), (0, audit::Kind::Changed));
        // Where the file that helps is gone, the log is opened as always.
        disk.tamper(RESUME, Some(Vec::new()));
        let refused = once(&disk, r#"{"n":3}"#);
        assert!(
            matches!(refused, Err(LogError::Damaged { .. })),
            "{refused:?}"
        );
    }

    #[test]
    fn a_file_that_lies_about_the_end_changes_nothing() {
        let disk = MemoryDisk::new();
        (0..5).for_each(|_| once(&disk, r#"{"n":1}"#).unwrap());
        let good = String::from_utf8(disk.bytes(RESUME).unwrap()).unwrap();
        let before = good.lines().nth(2).unwrap();
        let lies = [
            String::new(),
            "end\n".into(),
            good.replacen("4\n", "3\n", 1),
            good.replacen("4\n", "99999999999999999999\n", 1),
            good.replace(before, &"0".repeat(64)),
            good[..good.len() - 5].to_owned(),
            good.replace("end\n", ""),
        ];
        for lie in lies {
            assert_ne!(lie, good);
            let size = entries(&disk);
            disk.tamper(RESUME, Some(lie.clone().into_bytes()));
            once(&disk, r#"{"n":2}"#).unwrap();
            assert_eq!(entries(&disk), size + 1, "{lie:?}");
        }
    }

    #[test]
    fn what_a_crash_left_is_cut_or_signed() {
        let disk = MemoryDisk::new();
        (0..2).for_each(|_| once(&disk, r#"{"n":1}"#).unwrap());
        let (name, notes) = (
            entry::segment_name(0),
            disk.bytes(open::CHECKPOINTS).unwrap(),
        );
        once(&disk, r#"{"n":2}"#).unwrap();
        // The checkpoint of the third did not reach the disk, and of a fourth only the beginning did.
        disk.tamper(open::CHECKPOINTS, Some(notes));
        let mut bytes = disk.bytes(&name).unwrap();
        bytes.extend([0, 200, b'{']);
        disk.tamper(&name, Some(bytes));
        once(&disk, r#"{"n":3}"#).unwrap();
        assert_eq!(entries(&disk), 4);
    }

    #[test]
    fn a_full_segment_is_followed_by_another_and_a_full_log_is_refused() {
        let disk = MemoryDisk::new();
        let log = reopened(&disk).unwrap();
        for _ in 0..SEGMENT_ENTRIES / 4096 {
            let kept: Vec<_> = (0..4096).map(|_| log.append(b"{}".to_vec())).collect();
            kept.into_iter()
                .for_each(|kept| assert!(kept.blocking_recv().unwrap().is_ok()));
        }
        log.close().unwrap();
        (0..3).for_each(|_| once(&disk, r#"{"n":2}"#).unwrap());
        // The next segment begins with what is open.
        assert_eq!(entries(&disk), SEGMENT_ENTRIES + 4);

        let full = LogSettings {
            bytes_max: disk.list().unwrap().iter().map(|(_, len)| len).sum(),
            ..settings()
        };
        let refused = attempt(&disk, &full, b"{}", || reopened(&disk));
        assert!(matches!(refused, Err(LogError::Full)), "{refused:?}");
        let long = "x".repeat(RECORD_BYTES_MAX + 1);
        assert!(matches!(once(&disk, &long), Err(LogError::Io(..))));
        assert_eq!(entries(&disk), SEGMENT_ENTRIES + 4);
    }

    #[test]
    fn processes_wait_for_each_other() {
        let folder = tempfile::tempdir().unwrap();
        let write = || {
            let disk = FileDisk::new(folder.path());
            for _ in 0..8 {
                append_once(&disk, &settings(), b"{}", Duration::from_secs(60)).unwrap();
            }
        };
        thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(write)).collect();
            threads
                .into_iter()
                .for_each(|thread| thread.join().unwrap());
        });
        let verified = audit::verify(folder.path(), None).unwrap();
        assert_eq!((verified.entries, verified.unsigned), (32, 0));
        let _held = FileDisk::new(folder.path()).lock().unwrap();
        let disk = FileDisk::new(folder.path());
        let refused = append_once(&disk, &settings(), b"{}", Duration::ZERO);
        assert!(matches!(refused, Err(LogError::Locked)), "{refused:?}");
    }
}
