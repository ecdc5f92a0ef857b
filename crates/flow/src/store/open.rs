//! Opens the database: refuses what is another program's, of a newer version, or on a file system that cannot lock.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};
use tools::serve::call::Problem;

use super::schema::{APPLICATION_ID, STEPS};
use super::{Durability, STATEMENTS_MAX, failed, unavailable};
use crate::model::problem;

/// How long a connection waits for another's lock.
pub(super) const BUSY: Duration = Duration::from_secs(2);
/// File systems of other machines, by the number that `statfs(2)` gives: NFS, SMB, CIFS, SMB2, AFS, 9P, Ceph, FUSE of sshfs.
const NETWORK: &[i64] = &[
    0x6969,
    0x517b,
    0xff53_4d42,
    0xfe53_4d42,
    0x5346_414f,
    0x0102_1997,
    0x00c3_6400,
    0x6573_5546,
];

/// The file that a connection has open. SQLite goes on writing to a file that was moved or deleted, and nobody would find
/// what it wrote.
pub(super) struct FileSeen {
    path: PathBuf,
    device: u64,
    number: u64,
}

impl FileSeen {
    /// The file that a path leads to now.
    pub(super) fn at(path: &Path) -> Result<FileSeen, Problem> {
        let found = std::fs::metadata(path).map_err(|error| {
            tracing::error!(%error, "the database of flow");
            unavailable("its file cannot be found", "nothing was written")
        })?;
        Ok(FileSeen {
            path: path.to_owned(),
            device: found.dev(),
            number: found.ino(),
        })
    }

    /// Refuses to write where the path leads to another file by now, or to none.
    pub(super) fn refuse_moved(&self) -> Result<(), Problem> {
        let now = FileSeen::at(&self.path)?;
        match (now.device, now.number) == (self.device, self.number) {
            true => Ok(()),
            false => Err(unavailable(
                "another file took the place of the database; start the server again",
                "nothing was written",
            )),
        }
    }
}

/// The connection that writes; the database is made, or brought up to date.
pub(super) fn writer(path: &Path, durability: Durability) -> Result<Connection, Problem> {
    refuse_network(path)?;
    let db = Connection::open(path).map_err(failed)?;
    prepare(&db)?;
    let of_ours = whose(&db, path)?;
    db.pragma_update(None, "journal_mode", "WAL")
        .map_err(failed)?;
    let synchronous = match durability {
        Durability::Os => "NORMAL",
        Durability::Fsync => "FULL",
    };
    db.pragma_update(None, "synchronous", synchronous)
        .map_err(failed)?;
    migrate(&db, of_ours, path)?;
    Ok(db)
}

/// A connection that only reads.
pub(super) fn reader(path: &Path) -> Result<Connection, Problem> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = Connection::open_with_flags(path, flags).map_err(failed)?;
    prepare(&db)?;
    db.pragma_update(None, "query_only", true).map_err(failed)?;
    Ok(db)
}

fn prepare(db: &Connection) -> Result<(), Problem> {
    db.busy_timeout(BUSY).map_err(failed)?;
    db.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    db.pragma_update(None, "trusted_schema", false)
        .map_err(failed)?;
    db.pragma_update(None, "cell_size_check", true)
        .map_err(failed)?;
    db.pragma_update(None, "temp_store", "MEMORY")
        .map_err(failed)?;
    db.pragma_update(None, "cache_size", -8000).map_err(failed)
}

/// Whether the file has tables of ours already; an empty one is new.
fn whose(db: &Connection, path: &Path) -> Result<bool, Problem> {
    let number = |sql: &str| {
        db.query_row(sql, [], |row| row.get::<_, i64>(0))
            .map_err(failed)
    };
    let id = number("SELECT application_id FROM pragma_application_id")?;
    if id == APPLICATION_ID {
        return Ok(true);
    }
    let tables = number("SELECT count(*) FROM sqlite_schema")?;
    if id != 0 || tables != 0 {
        return Err(problem(
            "other_database",
            format!(
                "{} is a database of another program; give flow a folder of its own (weir flow import reads the files of others)",
                path.display()
            ),
        ));
    }
    Ok(false)
}

/// Refuses a database of another program, or of another version.
pub(super) fn refuse_others(db: &Connection, path: &Path) -> Result<(), Problem> {
    let version: i64 = db
        .query_row("SELECT user_version FROM pragma_user_version", [], |row| {
            row.get(0)
        })
        .map_err(failed)?;
    match whose(db, path)? && usize::try_from(version) == Ok(STEPS.len()) {
        true => Ok(()),
        false => Err(problem(
            "other_version",
            format!(
                "{} is of version {version}; weir flow migrate brings an older one up to date",
                path.display()
            ),
        )),
    }
}

fn migrate(db: &Connection, of_ours: bool, path: &Path) -> Result<(), Problem> {
    let version = db
        .query_row("SELECT user_version FROM pragma_user_version", [], |row| {
            row.get::<_, i64>(0)
        })
        .map_err(failed)?;
    let done = usize::try_from(if of_ours { version } else { 0 }).unwrap_or(usize::MAX);
    if done > STEPS.len() {
        return Err(problem(
            "newer_database",
            format!(
                "{} has version {done}, and this weir knows {}; update weir",
                path.display(),
                STEPS.len()
            ),
        ));
    }
    for (number, step) in STEPS.iter().enumerate().skip(done) {
        let whole = format!(
            "BEGIN IMMEDIATE;{step};PRAGMA application_id={APPLICATION_ID};PRAGMA user_version={};COMMIT;",
            number + 1
        );
        db.execute_batch(&whole).map_err(failed)?;
    }
    Ok(())
}

/// SQLite's write-ahead log needs shared memory and locks that file systems of other machines do not have.
fn refuse_network(path: &Path) -> Result<(), Problem> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    let Ok(system) = rustix::fs::statfs(folder) else {
        return Ok(());
    };
    #[allow(
        clippy::unnecessary_cast,
        reason = "its type is another on other machines"
    )]
    let kind = system.f_type as i64;
    refuse_kind(kind, folder)
}

/// Refuses a file system by its number.
fn refuse_kind(kind: i64, folder: &Path) -> Result<(), Problem> {
    // Some of the numbers have their highest bit set, and come as negative ones on some machines.
    match NETWORK.contains(&(kind & 0xffff_ffff)) {
        false => Ok(()),
        true => Err(problem(
            "network_folder",
            format!(
                "{} is on a network file system, where SQLite may lose what was written; name a folder of this machine",
                folder.display()
            ),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers of `linux/magic.h`, and of the file systems that SQLite is safe on.
    #[test]
    fn file_systems_of_other_machines_are_refused() {
        let folder = Path::new("/srv/board");
        for kind in [0x6969, 0xff53_4d42, -0x00ac_b2be, 0x0102_1997, 0x6573_5546] {
            let problem = refuse_kind(kind, folder).err().unwrap();
            assert_eq!(problem.code, "network_folder");
            assert!(
                problem.message.contains("/srv/board"),
                "{}",
                problem.message
            );
        }
        // ext4, tmpfs, xfs, btrfs, overlayfs.
        for kind in [0xef53, 0x0102_1994, 0x5846_5342, 0x9123_683e, 0x794c_7630] {
            assert!(refuse_kind(kind, folder).is_ok(), "{kind:x}");
        }
    }
}
