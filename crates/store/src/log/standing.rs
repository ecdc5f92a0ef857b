//! Whether the files of an open log still stand where they stood.
//!
//! A file that was moved or removed can be written as before, and nothing of what is written is found again. So an open
//! log looks now and then what stands at its names. That is a few questions to the system and reads no file: what
//! changes the bytes of a file in its place and keeps its length is not seen, and is left to `weir audit verify`.

use std::io::{self, ErrorKind};

use super::open::{CHECKPOINTS, Opened};
use crate::disk::{Disk, Identity};
use crate::entry;

impl Opened {
    /// What no longer stands where it stood, in words.
    pub(super) fn astray(&self, disk: &dyn Disk) -> Option<String> {
        let segment = entry::segment_name(self.segment);
        let files = [
            ("", self.folder.identity(), 0),
            (&segment, self.file.identity(), self.file_len),
            (
                CHECKPOINTS,
                self.checkpoints.identity(),
                self.checkpoints_len,
            ),
        ];
        files.into_iter().find_map(|(name, held, len)| {
            let what = astray(disk, name, held, len)?;
            let name = if name.is_empty() { "its folder" } else { name };
            Some(format!("{name} {what}"))
        })
    }
}

fn astray(disk: &dyn Disk, name: &str, held: io::Result<Identity>, len: u64) -> Option<String> {
    let held = match held {
        Ok(held) => held,
        Err(error) => return Some(format!("cannot be asked for: {error}")),
    };
    match disk.identity(name) {
        Ok(found) if (found.device, found.inode) != (held.device, held.inode) => {
            Some("was replaced by another".to_owned())
        }
        // The segment may be longer: what another puts behind its end is cut before more is written.
        Ok(found) if found.len < len || (name == CHECKPOINTS && found.len > len) => {
            Some("was changed by another".to_owned())
        }
        Ok(_) => None,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            Some("was moved or removed".to_owned())
        }
        Err(error) => Some(format!("cannot be looked at: {error}")),
    }
}
