//! One thread of a job: takes files, reads them, has parsed what is new, and writes it.

use std::sync::Arc;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::SystemTime;

use memchr::memchr;

use super::{Listed, Shared};
use crate::code::api::{Error, Result};
use crate::code::index::{About, Blob, Depth, Entry, UnitId};
use crate::code::parse::{Language, Nature, Parsed};
use crate::code::place::Stamp;
use crate::code::trigram::Grams;

/// Files and bytes that are handed to the parser at once.
const BATCH_FILES: usize = 32;
const BATCH_BYTES: usize = 512 << 10;
/// Bytes at the head of a file in which git looks for a zero byte.
const BINARY_HEAD_BYTES: usize = 8000;

/// A file that was read and is to be parsed.
struct Read {
    path: Box<str>,
    bytes: Vec<u8>,
    stamp: Stamp,
    racy: bool,
    blob: Blob,
}

/// Whether git takes a file for binary.
pub(crate) fn is_binary(bytes: &[u8]) -> bool {
    memchr(0, &bytes[..bytes.len().min(BINARY_HEAD_BYTES)]).is_some()
}

/// Works until nothing is left, the job is given up, or the store fails.
pub(super) fn run(shared: &Shared<'_>) {
    let mut lane = Lane {
        shared,
        batch: Vec::new(),
        batch_bytes: 0,
        grams: Grams::default(),
    };
    if let Err(error) = lane.work() {
        let mut failed = shared.failed.lock().unwrap_or_else(PoisonError::into_inner);
        failed.get_or_insert(error);
    }
    shared.left.fetch_sub(1, Ordering::Release);
}

struct Lane<'a> {
    shared: &'a Shared<'a>,
    batch: Vec<Read>,
    batch_bytes: usize,
    grams: Grams,
}

impl Lane<'_> {
    fn work(&mut self) -> Result<()> {
        loop {
            if self.shared.work.cancel.is_cancelled() {
                return Err(Error::Cancelled);
            }
            if self
                .shared
                .failed
                .lock()
                .is_ok_and(|failed| failed.is_some())
            {
                return Ok(());
            }
            let at = self.shared.next.fetch_add(1, Ordering::Relaxed);
            let Some(listed) = self.shared.todo.get(at) else {
                return self.flush();
            };
            self.take(listed)?;
            if self.batch.len() >= BATCH_FILES || self.batch_bytes >= BATCH_BYTES {
                self.flush()?;
            }
        }
    }

    /// Reads a file; what is not to be parsed is done then.
    fn take(&mut self, listed: &Listed) -> Result<()> {
        let limits = &self.shared.means.limits;
        let read_at = SystemTime::now();
        let (bytes, stamp) = match self.shared.place.read(&listed.path, limits.text_bytes) {
            Ok(read) => read,
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
                self.by_name(
                    listed,
                    listed.stamp,
                    Depth::Unreadable,
                    Blob::default(),
                    b"",
                );
                return Ok(());
            }
            Err(_) => {
                // It is gone, or a link or a way out took its place: then there is no such file here.
                self.done(Entry::unseen(&listed.path, listed.stamp), |_| {});
                return Ok(());
            }
        };
        let Some(bytes) = bytes else {
            self.by_name(listed, stamp, Depth::Large, Blob::default(), b"");
            return Ok(());
        };
        let blob = Blob::of(&bytes);
        if is_binary(&bytes) {
            self.by_name(listed, stamp, Depth::Binary, blob, &bytes);
            return Ok(());
        }
        let racy = stamp.is_racy(read_at);
        let unit = UnitId::of(&listed.path, &blob);
        if !self.shared.work.force
            && self.shared.work.tree.family.knows(unit)
            && let Some(about) = self.known(listed, unit)?
        {
            let entry = Entry::new(listed.path.clone(), stamp, racy, blob, about);
            let size = bytes.len() as u64;
            self.done(entry, |job| {
                job.files_unchanged += 1;
                job.bytes += size;
            });
            return Ok(());
        }
        self.batch_bytes += bytes.len();
        self.batch.push(Read {
            path: listed.path.clone(),
            bytes,
            stamp,
            racy,
            blob,
        });
        Ok(())
    }

    /// What is known of a unit that is in the index.
    fn known(&self, listed: &Listed, unit: UnitId) -> Result<Option<About>> {
        if let Some(before) = &listed.before
            && before.unit == unit
            && before.about.depth.is_indexed()
        {
            return Ok(Some(before.about.clone()));
        }
        let unit = self.shared.work.tree.family.unit(unit)?;
        Ok(unit.map(|unit| about(&unit.parsed)))
    }

    fn by_name(&mut self, listed: &Listed, stamp: Stamp, depth: Depth, blob: Blob, head: &[u8]) {
        let head = &head[..head.len().min(BINARY_HEAD_BYTES)];
        let mut about = About::only(depth, Language::detect(&listed.path, head));
        if depth == Depth::Binary {
            about.nature = Nature::Binary;
        }
        let racy = stamp.is_racy(self.shared.as_of) || depth == Depth::Unreadable;
        let entry = Entry::new(listed.path.clone(), stamp, racy, blob, about);
        self.done(entry, |job| job.files_skipped += 1);
    }

    /// Parses and writes what was gathered.
    fn flush(&mut self) -> Result<()> {
        let batch = std::mem::take(&mut self.batch);
        self.batch_bytes = 0;
        let limit = self.shared.means.limits.file_bytes;
        let (small, large): (Vec<_>, Vec<_>) = batch
            .into_iter()
            .partition(|read| read.bytes.len() as u64 <= limit);
        let files: Vec<(&str, &[u8])> = small
            .iter()
            .map(|read| (&*read.path, read.bytes.as_slice()))
            .collect();
        let parsed = match files.is_empty() {
            true => Vec::new(),
            false => {
                let parsed = self.shared.means.parsers.pool().parse(&files);
                parsed.map_err(|error| Error::Io(error.to_string()))?
            }
        };
        for (read, parsed) in small.into_iter().zip(parsed) {
            self.write(read, &parsed)?;
        }
        for read in large {
            let language = Language::detect(&read.path, &read.bytes[..BINARY_HEAD_BYTES]);
            self.write(read, &Parsed::empty(language))?;
        }
        Ok(())
    }

    fn write(&mut self, read: Read, parsed: &Parsed) -> Result<()> {
        let unit = UnitId::of(&read.path, &read.blob);
        let family = &self.shared.work.tree.family;
        let again = self.shared.work.force;
        family.put(
            unit,
            &read.path,
            &read.bytes,
            parsed,
            &mut self.grams,
            again,
        )?;
        let about = about(parsed);
        let (chunks, size) = (parsed.chunks.len() as u64, read.bytes.len() as u64);
        let fallback = u64::from(is_fallback(parsed));
        let entry = Entry::new(read.path, read.stamp, read.racy, read.blob, about);
        self.done(entry, |job| {
            job.files_indexed += 1;
            job.files_fallback += fallback;
            job.chunks += chunks;
            job.bytes += size;
        });
        Ok(())
    }

    fn done(&self, entry: Entry, count: impl FnOnce(&mut crate::code::api::Job)) {
        let mut done = self
            .shared
            .done
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        done.push(Arc::new(entry));
        drop(done);
        self.shared.work.job.change(|job| {
            job.files_done += 1;
            count(job);
            estimate(job, self.shared.began.elapsed());
        });
    }
}

/// Says how long a job has run, and how long it may go on once a tenth of it is done.
fn estimate(job: &mut crate::code::api::Job, took: std::time::Duration) {
    job.took_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
    let left = job.files_seen.saturating_sub(job.files_done);
    if job.files_done * 10 > job.files_seen && job.files_done > 0 {
        job.left_ms = Some(job.took_ms.saturating_mul(left) / job.files_done);
    }
}

fn is_fallback(parsed: &Parsed) -> bool {
    use crate::code::parse::Note;
    parsed
        .notes
        .iter()
        .any(|note| matches!(note, Note::NotParsed | Note::TimedOut | Note::Crashed))
}

/// What an entry keeps of what the parser said.
fn about(parsed: &Parsed) -> About {
    let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    About {
        depth: match parsed.chunks.is_empty() {
            true => Depth::Text,
            false => Depth::Meaning,
        },
        language: parsed.language,
        nature: parsed.nature,
        chunks: count(parsed.chunks.len()),
        symbols: count(parsed.symbols.len()),
        notes: parsed.notes.clone(),
    }
}
