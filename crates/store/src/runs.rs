//! The events of runs: a file of lines for each run, which only grows, and is taken away whole.
//!
//! One thread writes for all runs, so that who drives a run never waits in the kernel, and syncs once for all lines that wait. A
//! line is there whole or not at all: what a crash tore off is cut when the folder is opened, and a write that failed is cut at
//! once. It knows no event: lines are bytes without a line break.

use std::collections::HashMap;
use std::io::{self, Read as _};
use std::sync::Arc;
use std::thread::JoinHandle;

use tokio::sync::{mpsc, oneshot};

use crate::disk::{Disk, DiskFile, Held};

/// The folder of a state that holds them.
pub const FOLDER: &str = "runs";
/// What ends the name of a run's file.
const ENDING: &str = ".run";
/// Lines that wait for the writer; more wait for room.
const WAITING_MAX: usize = 4_096;
/// Lines that are written before they are answered.
const BATCH_MAX: usize = 256;
/// Files that are kept open; the others are opened again.
const OPEN_MAX: usize = 512;
/// Bytes that a reader is given at once; a longer line is given alone.
const PIECE_BYTES: u64 = 256 << 10;
/// Bytes of a file's end that are looked at for its last line; a longer one is looked for from the begin.
const TAIL_BYTES: u64 = 16 << 10;
/// Largest line, in bytes: one event.
pub const LINE_BYTES_MAX: usize = 16 << 20;

/// A run's file as it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptRun {
    pub run: String,
    /// Its first line.
    pub first: Vec<u8>,
    /// Its last line, which is the first where there is one alone.
    pub last: Vec<u8>,
    /// Bytes of the file.
    pub bytes: u64,
}

/// A line that cannot be kept, or a file that cannot be read. The text is for the operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunFileError(pub String);

enum RunFileJob {
    Append {
        run: Arc<str>,
        line: Vec<u8>,
        is_durable: bool,
        done: oneshot::Sender<Result<(), RunFileError>>,
    },
    Remove(Arc<str>),
}

/// The files of all runs.
pub struct RunFiles {
    disk: Arc<dyn Disk>,
    jobs: Option<mpsc::Sender<RunFileJob>>,
    writer: Option<JoinHandle<()>>,
    _held: Box<dyn Held>,
}

impl RunFiles {
    /// Takes the folder, mends what a crash left, and gives what is there. With `syncs`, what has to be durable is synced;
    /// without, it is the operating system's.
    ///
    /// # Errors
    /// `WouldBlock` where another process has the folder, and those of the disk.
    pub fn open(disk: Arc<dyn Disk>, syncs: bool) -> io::Result<(RunFiles, Vec<KeptRun>)> {
        let held = disk.lock()?;
        let mut kept = Vec::new();
        for (name, bytes) in disk.list()? {
            if let Some(run) = name.strip_suffix(ENDING) {
                kept.extend(mend(&*disk, &name, run, bytes)?);
            }
        }
        let (sender, receiver) = mpsc::channel(WAITING_MAX);
        let writer = RunWriter {
            disk: Arc::clone(&disk),
            syncs,
            open: HashMap::new(),
        };
        let thread = std::thread::Builder::new().name("runs".to_owned());
        let writer = thread.spawn(move || writer.run(receiver))?;
        let files = RunFiles {
            disk,
            jobs: Some(sender),
            writer: Some(writer),
            _held: held,
        };
        Ok((files, kept))
    }

    /// Puts a line at the end of a run's file; done once it is there, and durable where that is asked for.
    ///
    /// # Errors
    /// Nothing of it was kept.
    pub async fn append(
        &self,
        run: &Arc<str>,
        line: &str,
        is_durable: bool,
    ) -> Result<(), RunFileError> {
        if line.len() > LINE_BYTES_MAX || line.contains('\n') {
            return Err(RunFileError("an event is larger than is kept".to_owned()));
        }
        let mut bytes = Vec::with_capacity(line.len() + 1);
        bytes.extend_from_slice(line.as_bytes());
        bytes.push(b'\n');
        let (done, written) = oneshot::channel();
        let job = RunFileJob::Append {
            run: Arc::clone(run),
            line: bytes,
            is_durable,
            done,
        };
        let closed = || RunFileError("the files of runs are closed".to_owned());
        let jobs = self.jobs.as_ref().ok_or_else(closed)?;
        jobs.send(job).await.map_err(|_| closed())?;
        written.await.map_err(|_| closed())?
    }

    /// Reads lines of a run from this byte on, as many as are read at once; none at the file's end. With each goes the byte behind it.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn lines(&self, run: &str, offset: u64) -> io::Result<Vec<(String, u64)>> {
        let mut read = self.disk.read(&file(run), offset)?;
        let mut bytes = Vec::new();
        let whole = loop {
            let came = read.by_ref().take(PIECE_BYTES).read_to_end(&mut bytes)?;
            let end = bytes.iter().rposition(|b| *b == b'\n');
            if end.is_some() || came == 0 || bytes.len() > LINE_BYTES_MAX {
                break end.map_or(0, |at| at + 1);
            }
        };
        let mut end = offset;
        let lines = bytes[..whole].split_inclusive(|b| *b == b'\n');
        let lines = lines.map(|line| {
            end += line.len() as u64;
            let text = String::from_utf8_lossy(&line[..line.len() - 1]);
            (text.into_owned(), end)
        });
        Ok(lines.collect())
    }

    /// Takes a run's file away, after what was appended to it.
    pub fn remove(&self, run: &Arc<str>) {
        if let Some(jobs) = &self.jobs {
            // Where the writer has no room the file stays until the next time.
            let _ = jobs.try_send(RunFileJob::Remove(Arc::clone(run)));
        }
    }
}

impl Drop for RunFiles {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(writer) = self.writer.take() {
            let _ = writer.join();
        }
    }
}

fn file(run: &str) -> String {
    format!("{run}{ENDING}")
}

/// Cuts what a crash tore off, and gives the first and the last line; a file without a whole line is taken away.
fn mend(disk: &dyn Disk, name: &str, run: &str, bytes: u64) -> io::Result<Option<KeptRun>> {
    let from = bytes.saturating_sub(TAIL_BYTES);
    let mut tail = Vec::new();
    disk.read(name, from)?.read_to_end(&mut tail)?;
    let enough = tail.iter().filter(|b| **b == b'\n').count() > 1;
    let from = if enough { from } else { 0 };
    if !enough {
        tail.clear();
        disk.read(name, 0)?.read_to_end(&mut tail)?;
    }
    let Some(end) = tail.iter().rposition(|b| *b == b'\n') else {
        disk.remove(name)?;
        return Ok(None);
    };
    let bytes = from + end as u64 + 1;
    let torn = tail.len() > end + 1;
    tail.truncate(end);
    if torn {
        disk.append(name)?.truncate(bytes)?;
    }
    let begin = tail
        .iter()
        .rposition(|b| *b == b'\n')
        .map_or(0, |at| at + 1);
    Ok(Some(KeptRun {
        run: run.to_owned(),
        first: first_line(disk, name)?,
        last: tail[begin..].to_vec(),
        bytes,
    }))
}

fn first_line(disk: &dyn Disk, name: &str) -> io::Result<Vec<u8>> {
    let mut read = disk.read(name, 0)?;
    let (mut line, mut piece) = (Vec::new(), [0; 4096]);
    loop {
        let came = read.read(&mut piece)?;
        let end = piece[..came].iter().position(|b| *b == b'\n');
        line.extend_from_slice(&piece[..end.unwrap_or(came)]);
        if end.is_some() || came == 0 || line.len() > LINE_BYTES_MAX {
            return Ok(line);
        }
    }
}

/// The thread that writes.
struct RunWriter {
    disk: Arc<dyn Disk>,
    syncs: bool,
    open: HashMap<Arc<str>, OpenRunFile>,
}

struct OpenRunFile {
    file: Box<dyn DiskFile>,
    bytes: u64,
    /// Something was written that is to be durable: where the file ended before it.
    owed: Option<u64>,
}

type Written = (
    Arc<str>,
    oneshot::Sender<Result<(), RunFileError>>,
    Result<(), RunFileError>,
);

impl RunWriter {
    fn run(mut self, mut jobs: mpsc::Receiver<RunFileJob>) {
        while let Some(job) = jobs.blocking_recv() {
            let mut batch = vec![job];
            while batch.len() < BATCH_MAX
                && let Ok(job) = jobs.try_recv()
            {
                batch.push(job);
            }
            self.write(batch);
        }
    }

    fn write(&mut self, batch: Vec<RunFileJob>) {
        let mut written: Vec<Written> = Vec::new();
        for job in batch {
            match job {
                RunFileJob::Append {
                    run,
                    line,
                    is_durable,
                    done,
                } => {
                    let kept = self.append(&run, &line, is_durable && self.syncs);
                    written.push((run, done, kept.map_err(told)));
                }
                RunFileJob::Remove(run) => {
                    self.open.remove(&run);
                    if let Err(error) = self.disk.remove(&file(&run)) {
                        tracing::warn!(%run, %error, "a run's file cannot be taken away");
                    }
                }
            }
        }
        let failed = self.sync();
        for (run, done, kept) in written {
            let lost = failed.get(&run).cloned();
            let _ = done.send(lost.map_or(kept, Err));
        }
        if self.open.len() > OPEN_MAX {
            self.open.clear();
        }
    }

    fn append(&mut self, run: &Arc<str>, line: &[u8], is_owed: bool) -> io::Result<()> {
        if !self.open.contains_key(run) {
            let file = self.disk.append(&file(run))?;
            let bytes = file.length()?;
            let open = OpenRunFile {
                file,
                bytes,
                owed: None,
            };
            self.open.insert(Arc::clone(run), open);
        }
        let open = self.open.get_mut(run).expect("it was put there");
        if let Err(error) = open.file.write_at(line, open.bytes) {
            // A part of a line must not stand before the next one.
            if open.file.truncate(open.bytes).is_err() {
                self.open.remove(run);
            }
            return Err(error);
        }
        if is_owed {
            open.owed.get_or_insert(open.bytes);
        }
        open.bytes += line.len() as u64;
        Ok(())
    }

    /// Makes durable what has to be; gives the runs for which that failed. What was to be durable is cut, as it is written again, and
    /// the file is opened again.
    fn sync(&mut self) -> HashMap<Arc<str>, RunFileError> {
        let mut failed = HashMap::new();
        for (run, open) in &mut self.open {
            if let Some(before) = open.owed.take()
                && let Err(error) = open.file.sync()
            {
                // Where it cannot be cut it stands there twice, and who reads it takes the later one.
                let _ = open.file.truncate(before);
                failed.insert(Arc::clone(run), told(error));
            }
        }
        failed.keys().for_each(|run| drop(self.open.remove(run)));
        failed
    }
}

#[allow(clippy::needless_pass_by_value, reason = "it is given to map_err")]
fn told(error: io::Error) -> RunFileError {
    RunFileError(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::{Fault, MemoryDisk};

    fn block<T>(future: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        runtime.unwrap().block_on(future)
    }

    fn open(disk: &MemoryDisk) -> (RunFiles, Vec<KeptRun>) {
        RunFiles::open(Arc::new(disk.clone()), true).unwrap()
    }

    fn all(files: &RunFiles) -> Vec<String> {
        let lines = files.lines("a", 0).unwrap().into_iter();
        lines.map(|(line, _)| line).collect()
    }

    #[test]
    fn lines_come_back_in_order_and_a_torn_one_is_cut() {
        let disk = MemoryDisk::new();
        let run: Arc<str> = "a".into();
        let (files, kept) = open(&disk);
        assert_eq!(kept, []);
        for line in ["one", "two", "three"] {
            block(files.append(&run, line, true)).unwrap();
        }
        assert_eq!(all(&files), ["one", "two", "three"]);
        let later = files.lines("a", 4).unwrap();
        assert_eq!(later, [("two".to_owned(), 8), ("three".to_owned(), 14)]);
        assert_eq!(files.lines("a", 14).unwrap(), []);
        drop(files);
        let mut bytes = disk.bytes("a.run").unwrap();
        bytes.extend_from_slice(b"{\"torn\":");
        disk.tamper("a.run", Some(bytes));
        disk.tamper("b.run", Some(b"no whole line".to_vec()));
        let (files, kept) = open(&disk);
        assert_eq!(kept.len(), 1);
        assert_eq!(
            (&*kept[0].first, &*kept[0].last),
            (&b"one"[..], &b"three"[..])
        );
        assert_eq!(kept[0].bytes, 14);
        block(files.append(&run, "four", true)).unwrap();
        assert_eq!(all(&files).last().unwrap(), "four");
    }

    #[test]
    fn what_a_full_disk_took_in_part_is_not_there() {
        let disk = MemoryDisk::new();
        let run: Arc<str> = "a".into();
        let (files, _) = open(&disk);
        block(files.append(&run, "one", true)).unwrap();
        disk.fail(Some(Fault::Room(2)));
        assert!(block(files.append(&run, "a longer line", true)).is_err());
        disk.fail(Some(Fault::Sync));
        assert!(block(files.append(&run, "x", true)).is_err());
        disk.fail(None);
        block(files.append(&run, "two", true)).unwrap();
        assert_eq!(all(&files), ["one", "two"]);
    }

    #[test]
    fn a_long_line_comes_whole_and_many_lines_in_pieces() {
        let disk = MemoryDisk::new();
        let run: Arc<str> = "a".into();
        let (files, _) = open(&disk);
        let long = "x".repeat(3 * usize::try_from(PIECE_BYTES).unwrap());
        block(files.append(&run, &long, false)).unwrap();
        for _ in 0..4 {
            block(files.append(&run, &long[..100_000], false)).unwrap();
        }
        let (mut offset, mut counts) = (0, Vec::new());
        loop {
            let lines = files.lines("a", offset).unwrap();
            let Some((_, end)) = lines.last() else { break };
            offset = *end;
            counts.push(lines.len());
        }
        assert_eq!(counts.iter().sum::<usize>(), 5);
        assert!(counts.len() > 1, "{counts:?}");
    }

    #[test]
    fn one_process_at_a_time() {
        let disk = MemoryDisk::new();
        let first = open(&disk);
        let second = RunFiles::open(Arc::new(disk.clone()), true);
        assert!(second.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock));
        drop(first);
        assert!(RunFiles::open(Arc::new(disk), true).is_ok());
    }

    #[test]
    fn a_run_is_taken_away_after_what_was_written() {
        let disk = MemoryDisk::new();
        let run: Arc<str> = "a".into();
        let (files, _) = open(&disk);
        block(files.append(&run, "one", true)).unwrap();
        files.remove(&run);
        drop(files);
        assert_eq!(disk.bytes("a.run"), None);
    }
}
