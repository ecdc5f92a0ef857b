//! Where the entries lie: in the segments of a log, or in the bundles of an export.

use std::io::{self, ErrorKind};

use super::{CHECKPOINT, Damage, Kind};
use crate::disk::Disk;
use crate::entry::{self, Next, SEGMENT_ENTRIES, TILE_WIDTH};
use crate::log::{CHECKPOINTS, KEY_PUB, read_text};
use crate::note;

/// Missing bundles in a row after which an export is taken to end, whatever size it claims.
const MISSING_MAX: u64 = 256;

/// A directory with entries.
pub(super) struct Source<'d> {
    pub(super) disk: &'d dyn Disk,
    pub(super) layout: Layout,
}

#[derive(Clone)]
pub(super) enum Layout {
    /// These segments, in order.
    Segments(Vec<u64>),
    /// Bundles and tiles of a tree of this many entries.
    Tiles(u64),
}

impl<'d> Source<'d> {
    pub(super) fn open(disk: &'d dyn Disk) -> Result<Source<'d>, Damage> {
        let listed = disk.list();
        let files = listed.map_err(|error| Damage::unreadable(0, "the directory", &error))?;
        let has = |name: &str| files.iter().any(|(file, _)| file == name);
        let segments = entry::segments(&files);
        let layout = if has(CHECKPOINT) && segments.is_empty() {
            let text = read_text(disk, CHECKPOINT);
            let claimed = text.ok().and_then(|text| note::read_checkpoint(&text));
            let bad = || Damage::new(0, Kind::BadCheckpoint, "it is not a checkpoint");
            Layout::Tiles(claimed.ok_or_else(bad)?.size)
        } else if !segments.is_empty() || has(CHECKPOINTS) || has(KEY_PUB) {
            Layout::Segments(segments)
        } else {
            return Err(Damage::new(
                0,
                Kind::Unreadable,
                "there is no log in this directory",
            ));
        };
        Ok(Source { disk, layout })
    }

    /// Whether the segments are there one after another, each finished one with its leaf hashes, and nothing else
    /// that is named like them.
    pub(super) fn check_names(&self) -> Result<(), Damage> {
        let Layout::Segments(segments) = &self.layout else {
            return Ok(());
        };
        for (expected, segment) in (0..).zip(segments) {
            let gone = |name: String| {
                let index = expected * SEGMENT_ENTRIES;
                Damage::new(index, Kind::Removed, format!("{name} is missing"))
            };
            if *segment != expected {
                return Err(gone(entry::segment_name(expected)));
            }
            let leaves = entry::leaves_name(expected);
            let finished = expected + 1 < segments.len() as u64;
            if finished && self.disk.identity(&leaves).is_err() {
                return Err(gone(leaves));
            }
        }
        let listed = self.disk.list();
        let files = listed.map_err(|error| Damage::unreadable(0, "the directory", &error))?;
        // The log may have gone on to another segment since.
        let segments = entry::segments(&files);
        match entry::strange(&files, &segments) {
            Some(name) => {
                let index = segments.len().saturating_sub(1) as u64 * SEGMENT_ENTRIES;
                let what = format!("{name:?} is no file of a log");
                Err(Damage::new(index, Kind::Strange, what))
            }
            None => Ok(()),
        }
    }

    /// A reader at or before index `from`, and the index where it stands.
    pub(super) fn read_from(&self, from: u64) -> (Read, u64) {
        let each = match &self.layout {
            Layout::Segments(_) => SEGMENT_ENTRIES,
            Layout::Tiles(_) => TILE_WIDTH,
        };
        let file = from / each;
        let read = Read {
            layout: self.layout.clone(),
            file,
            open: None,
            offset: 0,
            buffer: Vec::new(),
            torn: false,
        };
        (read, file * each)
    }
}

/// Reads entries one after another, over the ends of files.
pub(super) struct Read {
    layout: Layout,
    /// The file to open next: the place in the list of segments, or the number of the bundle.
    file: u64,
    open: Option<Box<dyn io::Read + Send>>,
    /// Where the next entry begins in the file that was opened last.
    offset: u64,
    buffer: Vec<u8>,
    /// Whether the files ended inside an entry.
    pub(super) torn: bool,
}

/// What a segment that begins in the wrong place is.
fn misplaced(index: u64, begins: u64, name: &str) -> Damage {
    let what = format!("{name} begins with entry {begins}");
    match begins > index {
        true => Damage::new(index, Kind::Removed, what),
        false => Damage::new(begins, Kind::Inserted, what),
    }
}

impl Read {
    /// The next entry's bytes; nothing at the end. `index` is only for what a damage says.
    pub(super) fn next(&mut self, disk: &dyn Disk, index: u64) -> Result<Option<&[u8]>, Damage> {
        loop {
            if self.open.is_none() && !self.open_next(disk, index)? {
                return Ok(None);
            }
            let Some(reader) = &mut self.open else {
                return Ok(None);
            };
            let next = entry::read_next(reader, &mut self.buffer);
            match next.map_err(|error| Damage::unreadable(index, "the entries", &error))? {
                Next::Entry => {
                    self.offset += 2 + self.buffer.len() as u64;
                    return Ok(Some(&self.buffer));
                }
                Next::End => self.open = None,
                // At the end of all files it is being written, or a crash tore it.
                Next::Torn if !self.open_next(disk, index)? => {
                    self.open = None;
                    self.torn = true;
                    return Ok(None);
                }
                Next::Torn | Next::Empty => {
                    let what = "its length does not fit what follows";
                    return Err(Damage::new(index, Kind::Garbled, what));
                }
            }
        }
    }

    /// Goes on behind the last entry that was read, in a log that may have grown. Of an export nothing grows.
    pub(super) fn go_on(&mut self, disk: &dyn Disk, layout: Layout) -> io::Result<()> {
        if matches!(layout, Layout::Tiles(_)) {
            return Ok(());
        }
        self.layout = layout;
        self.torn = false;
        let Some(file) = self.file.checked_sub(1) else {
            return Ok(());
        };
        self.open = Some(disk.read(&entry::segment_name(file), self.offset)?);
        Ok(())
    }

    /// The bytes behind the last entry, as far as they are not zeros or a length.
    pub(super) fn rest(&self) -> &[u8] {
        &self.buffer
    }

    /// Opens the next file that is there.
    fn open_next(&mut self, disk: &dyn Disk, index: u64) -> Result<bool, Damage> {
        for _ in 0..MISSING_MAX {
            let Some(name) = self.name() else {
                return Ok(false);
            };
            let begins = match &self.layout {
                Layout::Segments(_) => self.file * SEGMENT_ENTRIES,
                Layout::Tiles(_) => index,
            };
            if begins != index {
                return Err(misplaced(index, begins, &name));
            }
            self.file += 1;
            match disk.read(&name, 0) {
                Ok(reader) => {
                    self.open = Some(reader);
                    self.offset = 0;
                    return Ok(true);
                }
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(Damage::unreadable(index, &name, &error)),
            }
        }
        Ok(false)
    }

    fn name(&self) -> Option<String> {
        match &self.layout {
            Layout::Segments(segments) => {
                let place = usize::try_from(self.file).ok()?;
                segments
                    .get(place)
                    .map(|segment| entry::segment_name(*segment))
            }
            Layout::Tiles(size) => {
                let left = size
                    .checked_sub(self.file * TILE_WIDTH)
                    .filter(|left| *left > 0)?;
                Some(entry::tile_name("entries", self.file, left.min(TILE_WIDTH)))
            }
        }
    }
}
