//! The log of writes that SQLite has not folded into its file yet. It grows as long as another program reads an old state of the
//! database, a `sqlite3` that somebody left open or a backup that hangs: that is told, and the log is folded as soon as it can be.

use std::path::PathBuf;

use rusqlite::Connection;

/// Bytes of the log from which on it is told. SQLite folds it at about 4 MiB.
pub(super) const WAL_BYTES_MAX: u64 = 16 << 20;
/// After how many commits it is tried again to fold a log that was too large.
const TRY_EVERY: u32 = 64;

/// What the writer remembers of the log.
#[derive(Debug, Default)]
pub(super) struct Wal {
    commits: u32,
    is_told: bool,
}

impl Wal {
    /// Looks at the log behind a commit. A log that is too large is folded and cut, where nobody reads what is in it.
    pub(super) fn committed(&mut self, db: &Connection) {
        let bytes = bytes(db);
        if bytes <= WAL_BYTES_MAX {
            if self.is_told {
                tracing::info!(bytes, "the log of flow.db was folded into its file");
            }
            *self = Wal::default();
            return;
        }
        if self.commits.is_multiple_of(TRY_EVERY) && !fold(db) && !self.is_told {
            self.is_told = true;
            tracing::warn!(
                bytes,
                "the log of flow.db grows: another program reads an old state of the database and keeps it from being folded"
            );
        }
        self.commits = self.commits.wrapping_add(1);
    }
}

/// Folds the log, and says whether that could be done. Nobody is waited for.
fn fold(db: &Connection) -> bool {
    let waits = db.busy_timeout(std::time::Duration::ZERO);
    let is_busy = db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| {
        row.get::<_, bool>(0)
    });
    let again = db.busy_timeout(super::open::BUSY);
    waits.is_ok() && again.is_ok() && matches!(is_busy, Ok(false))
}

/// The bytes of the log beside the file of a connection.
pub(super) fn bytes(db: &Connection) -> u64 {
    let file = db.path().map(|path| PathBuf::from(format!("{path}-wal")));
    let found = file.and_then(|file| std::fs::metadata(file).ok());
    found.map_or(0, |found| found.len())
}

/// What is told of a log that is too large.
pub(super) fn trouble(db: &Connection) -> Option<String> {
    let bytes = bytes(db);
    (bytes > WAL_BYTES_MAX).then(|| {
        format!(
            "the log of the database has {} MiB and grows: another program reads an old state of flow.db; end that program",
            bytes >> 20
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_that_a_reader_holds_is_told_and_folded_once_the_reader_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("flow.db");
        let db = Connection::open(&path).unwrap();
        db.execute_batch("PRAGMA journal_mode=WAL; CREATE TABLE t(x)")
            .unwrap();
        let reader = Connection::open(&path).unwrap();
        reader.execute_batch("BEGIN; SELECT * FROM t").unwrap();
        let mut wal = Wal::default();
        while bytes(&db) <= WAL_BYTES_MAX {
            assert_eq!(trouble(&db), None);
            db.execute("INSERT INTO t VALUES(zeroblob(1000000))", [])
                .unwrap();
            wal.committed(&db);
        }
        assert!(wal.is_told && trouble(&db).unwrap().contains("16 MiB"));
        reader.execute_batch("COMMIT").unwrap();
        for _ in 0..=TRY_EVERY {
            wal.committed(&db);
        }
        assert!(bytes(&db) < 1 << 20 && trouble(&db).is_none() && !wal.is_told);
    }
}
