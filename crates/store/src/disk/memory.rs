//! A disk in memory that forgets what was not synced when it crashes, and fails when it is told to.
//!
//! For tests and the simulation only: nothing outlives the process.

use std::any::Any;
use std::collections::BTreeMap;
use std::io::{self, Cursor, Read};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Disk, DiskFile};

/// What the disk is asked to do, as a [`MemoryDisk::watch`] sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    Write,
    Sync,
    Truncate,
}

/// How the disk fails until it is mended with `None`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Only so many more bytes fit; a write over it writes what fits and says that the disk is full.
    Room(u64),
    /// Every write fails.
    Write,
    /// Every sync fails.
    Sync,
}

type Watch = Arc<dyn Fn(Op) + Send + Sync>;

#[derive(Default)]
struct Stored {
    bytes: Vec<u8>,
    synced: usize,
}

#[derive(Default)]
struct State {
    files: BTreeMap<String, Stored>,
    fault: Option<Fault>,
    watch: Option<Watch>,
    locked: Arc<()>,
    /// Files opened before a crash belong to a process that is gone, and do nothing more.
    life: u64,
}

/// One directory in memory. Clones are the same directory.
#[derive(Clone, Default)]
pub struct MemoryDisk(Arc<Mutex<State>>);

impl MemoryDisk {
    pub fn new() -> MemoryDisk {
        MemoryDisk::default()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fails from now on, or with `None` no more.
    pub fn fail(&self, fault: Option<Fault>) {
        self.state().fault = fault;
    }

    /// Runs before each operation, on the thread that asks for it; it may block to make the disk slow.
    pub fn watch(&self, watch: impl Fn(Op) + Send + Sync + 'static) {
        self.state().watch = Some(Arc::new(watch));
    }

    /// Loses power: of each file stays what was synced, and as many of the bytes after it as `keep` says
    /// when it is given their number. Open files and locks are of the past.
    pub fn crash(&self, mut keep: impl FnMut(usize) -> usize) {
        let mut state = self.state();
        for file in state.files.values_mut() {
            let unsynced = file.bytes.len() - file.synced;
            file.bytes
                .truncate(file.synced + keep(unsynced).min(unsynced));
            file.synced = file.bytes.len();
        }
        state.life += 1;
        state.locked = Arc::default();
        state.fault = None;
    }

    /// A file's bytes.
    pub fn bytes(&self, name: &str) -> Option<Vec<u8>> {
        self.state().files.get(name).map(|file| file.bytes.clone())
    }

    /// Puts a file there as it should not be: what a tamperer or a broken disk does. `None` removes it.
    pub fn tamper(&self, name: &str, bytes: Option<Vec<u8>>) {
        let mut state = self.state();
        match bytes {
            Some(bytes) => {
                let synced = bytes.len();
                state
                    .files
                    .insert(name.to_owned(), Stored { bytes, synced });
            }
            None => {
                state.files.remove(name);
            }
        }
    }

    fn before(&self, op: Op) {
        let watch = self.state().watch.clone();
        if let Some(watch) = watch {
            watch(op);
        }
    }
}

/// How much of `bytes` a write may still put down, and the error that follows.
fn admit(fault: &mut Option<Fault>, bytes: usize) -> (usize, io::Result<()>) {
    match fault {
        Some(Fault::Write) => (0, Err(io::Error::other("the disk is told to fail writes"))),
        Some(Fault::Room(room)) => {
            let fits = bytes.min(usize::try_from(*room).unwrap_or(usize::MAX));
            *room -= fits as u64;
            let full = io::Error::from(io::ErrorKind::StorageFull);
            (fits, if fits == bytes { Ok(()) } else { Err(full) })
        }
        Some(Fault::Sync) | None => (bytes, Ok(())),
    }
}

impl Disk for MemoryDisk {
    fn list(&self) -> io::Result<Vec<(String, u64)>> {
        let state = self.state();
        Ok(state
            .files
            .iter()
            .map(|(name, file)| (name.clone(), file.bytes.len() as u64))
            .collect())
    }

    fn read(&self, name: &str, offset: u64) -> io::Result<Box<dyn Read + Send>> {
        let mut bytes = Cursor::new(self.bytes(name).ok_or(io::ErrorKind::NotFound)?);
        bytes.set_position(offset);
        Ok(Box::new(bytes))
    }

    fn append(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let mut state = self.state();
        state.files.entry(name.to_owned()).or_default();
        let life = state.life;
        Ok(Box::new(MemoryFile {
            disk: self.clone(),
            name: name.to_owned(),
            life,
        }))
    }

    fn write(&self, name: &str, bytes: &[u8], _secret: bool) -> io::Result<()> {
        self.before(Op::Write);
        let mut state = self.state();
        admit(&mut state.fault, bytes.len()).1?;
        if state.fault == Some(Fault::Sync) {
            return Err(io::Error::other("the disk is told to fail syncs"));
        }
        let file = Stored {
            bytes: bytes.to_vec(),
            synced: bytes.len(),
        };
        state.files.insert(name.to_owned(), file);
        Ok(())
    }

    fn lock(&self) -> io::Result<Box<dyn Any + Send + Sync>> {
        let state = self.state();
        match Arc::strong_count(&state.locked) {
            1 => Ok(Box::new(Arc::clone(&state.locked))),
            _ => Err(io::ErrorKind::WouldBlock.into()),
        }
    }
}

struct MemoryFile {
    disk: MemoryDisk,
    name: String,
    life: u64,
}

impl MemoryFile {
    fn with<T>(&self, change: impl FnOnce(&mut Stored, &mut Option<Fault>) -> T) -> io::Result<T> {
        let mut state = self.disk.state();
        let State {
            files, fault, life, ..
        } = &mut *state;
        match files.get_mut(&self.name) {
            Some(file) if *life == self.life => Ok(change(file, fault)),
            _ => Err(io::Error::other(
                "the file belongs to a process that crashed",
            )),
        }
    }
}

impl DiskFile for MemoryFile {
    fn length(&self) -> io::Result<u64> {
        self.with(|file, _| file.bytes.len() as u64)
    }

    fn write_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.disk.before(Op::Write);
        self.with(|file, fault| {
            let (fits, result) = admit(fault, bytes.len());
            let start = usize::try_from(offset).expect("a file in memory is addressable");
            let end = start + fits;
            if file.bytes.len() < end {
                file.bytes.resize(end, 0);
            }
            file.bytes[start..end].copy_from_slice(&bytes[..fits]);
            file.synced = file.synced.min(start);
            result
        })?
    }

    fn sync(&mut self) -> io::Result<()> {
        self.disk.before(Op::Sync);
        self.with(|file, fault| {
            if *fault == Some(Fault::Sync) {
                return Err(io::Error::other("the disk is told to fail syncs"));
            }
            file.synced = file.bytes.len();
            Ok(())
        })?
    }

    fn truncate(&mut self, len: u64) -> io::Result<()> {
        self.disk.before(Op::Truncate);
        self.with(|file, _| {
            file.bytes
                .truncate(usize::try_from(len).unwrap_or(usize::MAX));
            file.synced = file.synced.min(file.bytes.len());
        })
    }
}
