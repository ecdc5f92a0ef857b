//! Makes the rows anew from the events, and tells whether they are the same.

use rusqlite::Connection;
use sha2::{Digest, Sha256};
use tools::serve::call::Problem;

use super::schema::STEPS;
use super::{Store, failed, row};
use crate::model::{ObjectKind, problem};

/// Tables that follow from the events, with their columns in an order of their own.
const DERIVED: &[&str] = &[
    "SELECT row,id,kind,project,version,seq,deleted,type,status,parent,path,depth,number,name,assignee,priority,until,doc \
     FROM objects ORDER BY row",
    "SELECT source,relation,target FROM edges ORDER BY 1,2,3",
    "SELECT project,type,place,value,object FROM facts ORDER BY 1,2,3,4,5",
    "SELECT rowid FROM texts ORDER BY 1",
];

/// What a check of the log of events found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// How many events there are.
    pub events: u64,
    /// A digest of the rows as they are.
    pub kept: String,
    /// The same of rows made anew from the events.
    pub replayed: String,
}

impl Store {
    /// Replays all events into memory, and compares.
    ///
    /// # Errors
    ///
    /// A database that cannot be read, or events that cannot be what they are.
    pub fn replay(&self) -> Result<Standing, Problem> {
        replayed(&self.reader()?)
    }
}

/// The same of a folder whose database another process may have open to write.
///
/// # Errors
///
/// Where there is none, and as above.
pub fn replay_beside(folder: &std::path::Path) -> Result<Standing, Problem> {
    replayed(&super::beside(folder)?)
}

fn replayed(db: &Connection) -> Result<Standing, Problem> {
    db.execute_batch("BEGIN DEFERRED").map_err(failed)?;
    let memory = Connection::open_in_memory().map_err(failed)?;
    for step in STEPS {
        memory.execute_batch(step).map_err(failed)?;
    }
    let mut events = 0;
    let mut select = db
        .prepare("SELECT seq, kind, after FROM events ORDER BY seq")
        .map_err(failed)?;
    let mut rows = select.query([]).map_err(failed)?;
    memory.execute_batch("BEGIN").map_err(failed)?;
    while let Some(event) = rows.next().map_err(failed)? {
        let seq: i64 = event.get(0).map_err(failed)?;
        let kind: String = event.get(1).map_err(failed)?;
        let doc: String = event.get(2).map_err(failed)?;
        let kind = ObjectKind::of(&kind).ok_or_else(|| {
            problem(
                "unavailable",
                format!("event {seq} is of no kind that there is"),
            )
        })?;
        let (stamp, columns) = row::read(kind, &doc)?;
        row::write(&memory, kind, seq, &stamp, &columns, &doc)?;
        events += 1;
    }
    memory.execute_batch("COMMIT").map_err(failed)?;
    Ok(Standing {
        events,
        kept: digest(db)?,
        replayed: digest(&memory)?,
    })
}

/// A digest of every byte of the tables that follow from events.
fn digest(db: &Connection) -> Result<String, Problem> {
    use rusqlite::types::ValueRef;
    let mut digest = Sha256::new();
    for sql in DERIVED {
        let mut select = db.prepare(sql).map_err(failed)?;
        let columns = select.column_count();
        let mut rows = select.query([]).map_err(failed)?;
        while let Some(row) = rows.next().map_err(failed)? {
            for column in 0..columns {
                let (tag, bytes): (u8, Vec<u8>) = match row.get_ref(column).map_err(failed)? {
                    ValueRef::Null => (0, Vec::new()),
                    ValueRef::Integer(number) => (1, number.to_be_bytes().into()),
                    ValueRef::Real(number) => (2, number.to_be_bytes().into()),
                    ValueRef::Text(text) => (3, text.into()),
                    ValueRef::Blob(blob) => (4, blob.into()),
                };
                digest.update([tag]);
                digest.update((bytes.len() as u64).to_be_bytes());
                digest.update(&bytes);
            }
        }
        digest.update([9]);
    }
    Ok(base::hex::encode(&digest.finalize()))
}
