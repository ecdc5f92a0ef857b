//! Makes the rows anew from the events, and tells whether they are the same.

use rusqlite::Connection;
use sha2::{Digest, Sha256};
use tools::serve::call::Problem;

use super::db::{Db, Row, cells};
use super::schema::STEPS;
use super::{Store, StorePlace, failed, row, words};
use crate::model::{ObjectKind, problem};

/// Tables that follow from the events, with their columns in an order of their own. The facts are digested one by one.
const OBJECTS: &str = "SELECT row,id,kind,project,version,seq,deleted,type,status,parent,path,depth,number,name,assignee,priority,until,doc \
     FROM objects ORDER BY row";
const OBJECT_COLUMNS: usize = 18;
const EDGES: &str = "SELECT source,relation,target FROM edges ORDER BY 1,2,3";
const FACTS: &str =
    "SELECT project,type,place,object,value FROM facts ORDER BY project,type,place,value,object";
/// Events that are read at once.
const CHUNK: i64 = 500;

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
        self.with_reader(replayed)
    }
}

/// The same of a database that another process may have open to write.
///
/// # Errors
///
/// Where there is none, and as above.
pub fn replay_beside(place: &StorePlace) -> Result<Standing, Problem> {
    super::beside(place, |db, _| replayed(db))
}

fn replayed(db: Db<'_>) -> Result<Standing, Problem> {
    let memory = Connection::open_in_memory().map_err(failed)?;
    for step in STEPS {
        memory.execute_batch(step).map_err(failed)?;
    }
    let again = Db::Sqlite(&memory);
    let (mut events, mut last) = (0, 0);
    again.batch("BEGIN")?;
    loop {
        let mut seen = 0;
        db.each(
            "SELECT seq, kind, after FROM events WHERE seq > ?1 ORDER BY seq LIMIT ?2",
            cells![last, CHUNK],
            |event| {
                seen += 1;
                last = event.int(0)?;
                apply(again, last, event).map(|()| true)
            },
        )?;
        events += seen;
        if seen < CHUNK as u64 {
            break;
        }
    }
    again.batch("COMMIT")?;
    let by_words = matches!(db, Db::Postgres(_));
    Ok(Standing {
        events,
        kept: digest(db, by_words)?,
        replayed: digest(again, by_words)?,
    })
}

fn apply(again: Db<'_>, seq: i64, event: &Row<'_>) -> Result<(), Problem> {
    let kind = ObjectKind::of(event.str(1)?).ok_or_else(|| {
        let what = format!("event {seq} is of no kind that there is");
        problem("unavailable", what)
    })?;
    let doc = event.str(2)?;
    let (stamp, columns) = row::read(kind, doc)?;
    row::write(again, kind, seq, &stamp, &columns, doc)
}

/// A digest of every byte of the tables that follow from events: the same of one state, whichever store has it. The index of words
/// differs, so that of PostgreSQL is compared with what the documents say.
fn digest(db: Db<'_>, by_words: bool) -> Result<String, Problem> {
    let mut digest = Sha256::new();
    for (sql, columns) in [(OBJECTS, OBJECT_COLUMNS), (EDGES, 3)] {
        db.each(sql, &[], |row| {
            (0..columns).try_for_each(|column| row.digest(column, &mut digest))?;
            Ok(true)
        })?;
        digest.update([9]);
    }
    db.each(FACTS, &[], |row| {
        (0..4).try_for_each(|column| row.digest(column, &mut digest))?;
        digest.update(row.fact(4)?);
        digest.update([0]);
        Ok(true)
    })?;
    digest.update([9]);
    match (by_words, db) {
        (false, _) => db.each("SELECT rowid FROM texts ORDER BY 1", &[], |row| {
            row.digest(0, &mut digest).map(|()| true)
        })?,
        (true, Db::Postgres(_)) => db.each(
            "SELECT object, word, weight FROM words ORDER BY 1, 2",
            &[],
            |row| {
                word(&mut digest, row.int(0)?, row.str(1)?, row.int(2)?);
                Ok(true)
            },
        )?,
        (true, Db::Sqlite(_)) => db.each(
            "SELECT row, kind, doc FROM objects WHERE deleted=0 ORDER BY row",
            &[],
            |row| {
                let kind = ObjectKind::of(row.str(1)?);
                let columns = kind.map(|kind| row::read(kind, row.str(2)?)).transpose()?;
                let text = columns.and_then(|(_, columns)| columns.text);
                for (one, weight) in text
                    .iter()
                    .flat_map(|(title, body)| words::weights(title, body))
                {
                    word(&mut digest, row.int(0)?, &one, weight);
                }
                Ok(true)
            },
        )?,
    }
    Ok(base::hex::encode(&digest.finalize()))
}

fn word(digest: &mut Sha256, object: i64, word: &str, weight: i64) {
    digest.update(object.to_be_bytes());
    digest.update(word);
    digest.update([0]);
    digest.update(weight.to_be_bytes());
}
