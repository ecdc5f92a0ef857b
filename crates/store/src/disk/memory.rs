//! A disk in memory that forgets what was not synced when it crashes, and fails when it is told to.
//!
//! For tests and the simulation only: nothing outlives the process.

use std::collections::BTreeMap;
use std::io::{self, Cursor, Read};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Disk, DiskFile, Held, Identity};

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
    inode: u64,
}

#[derive(Default)]
struct State {
    files: BTreeMap<String, Stored>,
    fault: Option<Fault>,
    watch: Option<Watch>,
    locked: Arc<()>,
    /// Files opened before a crash belong to a process that is gone, and do nothing more.
    life: u64,
    /// The last number that was given to a file, so that another of the same name is told from it.
    inodes: u64,
    /// Directories that stood here before this one.
    moved: u64,
    /// Files that no name leads to any more, by their numbers: who has them open still writes them.
    nameless: BTreeMap<u64, Stored>,
}

impl State {
    fn next_inode(&mut self) -> u64 {
        self.inodes += 1;
        self.inodes
    }

    /// Puts a file at a name, or nothing.
    fn put(&mut self, name: &str, file: Option<Stored>) {
        let old = match file {
            Some(file) => self.files.insert(name.to_owned(), file),
            None => self.files.remove(name),
        };
        self.nameless.extend(old.map(|old| (old.inode, old)));
    }
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
        let inode = state.next_inode();
        let file = bytes.map(|bytes| Stored {
            synced: bytes.len(),
            bytes,
            inode,
        });
        state.put(name, file);
    }

    /// Puts another directory, which is empty, where this one stood.
    pub fn replace_directory(&self) {
        let mut state = self.state();
        let files = std::mem::take(&mut state.files);
        let nameless = files.into_values().map(|file| (file.inode, file));
        state.nameless.extend(nameless);
        state.moved += 1;
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
        let fresh = state.next_inode();
        let file = state.files.entry(name.to_owned()).or_default();
        if file.inode == 0 {
            file.inode = fresh;
        }
        let (inode, life) = (file.inode, state.life);
        Ok(Box::new(MemoryFile {
            disk: self.clone(),
            name: name.to_owned(),
            inode,
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
            inode: state.next_inode(),
        };
        state.put(name, Some(file));
        Ok(())
    }

    fn lock(&self) -> io::Result<Box<dyn Held>> {
        let state = self.state();
        let moved = state.moved;
        match Arc::strong_count(&state.locked) {
            1 => Ok(Box::new(Lock(Arc::clone(&state.locked), moved))),
            _ => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    fn is_locked(&self) -> io::Result<bool> {
        Ok(Arc::strong_count(&self.state().locked) > 1)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.state().put(name, None);
        Ok(())
    }

    fn identity(&self, name: &str) -> io::Result<Identity> {
        let state = self.state();
        if name.is_empty() {
            return Ok(directory(state.moved));
        }
        let file = state.files.get(name).ok_or(io::ErrorKind::NotFound)?;
        Ok(Identity {
            device: 0,
            inode: file.inode,
            len: file.bytes.len() as u64,
        })
    }
}

/// The directory as it is told from those that stood there before.
fn directory(moved: u64) -> Identity {
    Identity {
        device: 1,
        inode: moved,
        len: 0,
    }
}

/// Held while the log is open.
struct Lock(
    #[expect(dead_code, reason = "counted, not read")] Arc<()>,
    u64,
);

impl Held for Lock {
    fn identity(&self) -> io::Result<Identity> {
        Ok(directory(self.1))
    }
}

struct MemoryFile {
    disk: MemoryDisk,
    name: String,
    inode: u64,
    life: u64,
}

impl MemoryFile {
    fn with<T>(&self, change: impl FnOnce(&mut Stored, &mut Option<Fault>) -> T) -> io::Result<T> {
        let mut state = self.disk.state();
        let State {
            files,
            nameless,
            fault,
            life,
            ..
        } = &mut *state;
        let named = files.get_mut(&self.name);
        let named = named.filter(|file| file.inode == self.inode);
        match named.or_else(|| nameless.get_mut(&self.inode)) {
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

    fn identity(&self) -> io::Result<Identity> {
        self.with(|file, _| Identity {
            device: 0,
            inode: file.inode,
            len: file.bytes.len() as u64,
        })
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
