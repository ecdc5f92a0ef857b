//! The disk as the log sees it: a few named files that only grow.
//!
//! It is a trait so that tests and the gate's simulation can put a disk under the log that is slow, full,
//! failing, or that loses what was not synced. [`FileDisk`] is the real one; [`MemoryDisk`] the other.
//! Neither knows what the files mean.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::plain::open_plain;

pub use memory::{Fault, MemoryDisk, Op};

mod memory;

/// One directory. Names may contain `/`.
pub trait Disk: Send + Sync {
    /// The names and lengths in bytes of the files directly in the directory, in any order.
    fn list(&self) -> io::Result<Vec<(String, u64)>>;
    /// Opens a file for reading from `offset`; `NotFound` where there is none.
    fn read(&self, name: &str, offset: u64) -> io::Result<Box<dyn Read + Send>>;
    /// Opens a file for appending, and makes it, with a durable name, where there is none.
    fn append(&self, name: &str) -> io::Result<Box<dyn DiskFile>>;
    /// Writes a whole file that is then there, durably, or not at all. A secret one is for its owner only.
    fn write(&self, name: &str, bytes: &[u8], secret: bool) -> io::Result<()>;
    /// Takes the directory itself, whatever names are in it, for one writer until the value is dropped;
    /// `WouldBlock` where it is taken.
    fn lock(&self) -> io::Result<Box<dyn Held>>;
    /// Whether the directory is taken.
    fn is_locked(&self) -> io::Result<bool>;
    /// Takes a file away; that it is not there is no error.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// What stands at a name now, or with an empty name the directory; `NotFound` where nothing does.
    fn identity(&self, name: &str) -> io::Result<Identity>;
}

/// What tells a file or a directory from another that takes its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    pub device: u64,
    pub inode: u64,
    /// Length in bytes; of a directory 0.
    pub len: u64,
}

/// A directory that was taken.
pub trait Held: Send + Sync {
    fn identity(&self) -> io::Result<Identity>;
}

/// One file that is appended to. The caller knows its length.
pub trait DiskFile: Send {
    /// Length in bytes.
    fn length(&self) -> io::Result<u64>;
    /// Writes all of `bytes` at `offset`, or fails having written any part of them.
    fn write_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<()>;
    /// Makes all that was written durable. After an error nothing is known of what was written since the
    /// last success, and a later success does not mend that.
    fn sync(&mut self) -> io::Result<()>;
    /// Cuts the file.
    fn truncate(&mut self, len: u64) -> io::Result<()>;
    /// What this open file is, whatever stands at its name.
    fn identity(&self) -> io::Result<Identity>;
}

/// A directory of the file system.
#[derive(Clone)]
pub struct FileDisk {
    dir: PathBuf,
}

impl FileDisk {
    /// A directory that may not exist yet; the first write makes it.
    pub fn new(dir: &Path) -> FileDisk {
        FileDisk {
            dir: dir.to_owned(),
        }
    }

    /// Makes the names in a file's directory durable.
    fn sync_names(&self, name: &str) -> io::Result<()> {
        let path = self.dir.join(name);
        File::open(path.parent().unwrap_or(&self.dir))?.sync_all()
    }

    fn make_directory(&self, name: &str) -> io::Result<PathBuf> {
        let path = self.dir.join(name);
        std::fs::create_dir_all(path.parent().unwrap_or(&self.dir))?;
        Ok(path)
    }
}

impl Disk for FileDisk {
    fn list(&self) -> io::Result<Vec<(String, u64)>> {
        let mut names = Vec::new();
        let entries = match std::fs::read_dir(&self.dir) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(names),
            Err(error) => return Err(error),
        };
        for entry in entries {
            let entry = entry?;
            let len = match entry.metadata() {
                Ok(metadata) => metadata.len(),
                // A draft may have got its name, or have gone, since the names were read.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            // A name that is not text is not one of ours, and stands here as one that is none either.
            names.push((entry.file_name().to_string_lossy().into_owned(), len));
        }
        Ok(names)
    }

    fn read(&self, name: &str, offset: u64) -> io::Result<Box<dyn Read + Send>> {
        let mut file = open_plain(&self.dir.join(name))?;
        file.seek(SeekFrom::Start(offset))?;
        Ok(Box::new(io::BufReader::with_capacity(256 << 10, file)))
    }

    fn append(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let path = self.make_directory(name)?;
        let mut options = OpenOptions::new();
        options
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o640);
        let file = options.open(path)?;
        self.sync_names(name)?;
        Ok(Box::new(file))
    }

    fn write(&self, name: &str, bytes: &[u8], secret: bool) -> io::Result<()> {
        let path = self.make_directory(name)?;
        let mut draft = path.clone().into_os_string();
        draft.push(".new");
        let mut options = OpenOptions::new();
        options
            .write(true)
            .create(true)
            .truncate(true)
            .mode(if secret { 0o600 } else { 0o640 });
        let file = options.open(&draft)?;
        file.write_all_at(bytes, 0)?;
        file.sync_all()?;
        std::fs::rename(&draft, &path)?;
        self.sync_names(name)
    }

    fn lock(&self) -> io::Result<Box<dyn Held>> {
        std::fs::create_dir_all(&self.dir)?;
        let dir = File::open(&self.dir)?;
        rustix::fs::flock(&dir, rustix::fs::FlockOperation::NonBlockingLockExclusive)?;
        Ok(Box::new(dir))
    }

    fn is_locked(&self) -> io::Result<bool> {
        let dir = File::open(&self.dir)?;
        match rustix::fs::flock(&dir, rustix::fs::FlockOperation::NonBlockingLockShared) {
            Ok(()) => Ok(false),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(true),
            Err(error) => Err(error.into()),
        }
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        match std::fs::remove_file(self.dir.join(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    fn identity(&self, name: &str) -> io::Result<Identity> {
        Ok(identity(&std::fs::metadata(self.dir.join(name))?))
    }
}

fn identity(metadata: &std::fs::Metadata) -> Identity {
    let len = if metadata.is_dir() { 0 } else { metadata.len() };
    Identity {
        device: metadata.dev(),
        inode: metadata.ino(),
        len,
    }
}

impl Held for File {
    fn identity(&self) -> io::Result<Identity> {
        Ok(identity(&self.metadata()?))
    }
}

impl DiskFile for File {
    fn length(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn write_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.write_all_at(bytes, offset)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.sync_data()
    }

    fn truncate(&mut self, len: u64) -> io::Result<()> {
        self.set_len(len)
    }

    fn identity(&self) -> io::Result<Identity> {
        Held::identity(self)
    }
}
