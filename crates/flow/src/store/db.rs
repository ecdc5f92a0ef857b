//! One statement of SQL on either store: which values it is given, and how its rows are read.
//!
//! Statements are written once, in what SQLite and PostgreSQL have in common, with `?` or `?1` for values. Where the two
//! differ, the caller asks which it is. Everything that goes wrong is a `Problem` by the time it leaves here.

use ::postgres::{self, Session, ValueType};
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, ToSql, params_from_iter};
use sha2::{Digest, Sha256};
use tools::serve::call::Problem;

use super::{failed, postgres as server};
use crate::model::filter::FactValue;

/// A connection that a transaction is open on.
#[derive(Clone, Copy)]
pub(super) enum Db<'c> {
    Sqlite(&'c Connection),
    Postgres(&'c Session),
}

/// A value that a statement is given.
#[derive(Clone, Debug)]
pub(super) enum Cell<'v> {
    Int(Option<i64>),
    Text(Option<&'v str>),
    Fact(&'v FactValue),
}

/// The values of a statement.
macro_rules! cells {
    ($($value:expr),* $(,)?) => {
        &[$($crate::store::db::Cell::from($value)),*][..]
    };
}
pub(super) use cells;

impl From<i64> for Cell<'_> {
    fn from(number: i64) -> Self {
        Cell::Int(Some(number))
    }
}

impl From<Option<i64>> for Cell<'_> {
    fn from(number: Option<i64>) -> Self {
        Cell::Int(number)
    }
}

impl From<bool> for Cell<'_> {
    fn from(flag: bool) -> Self {
        Cell::Int(Some(i64::from(flag)))
    }
}

impl<'v> From<&'v str> for Cell<'v> {
    fn from(text: &'v str) -> Self {
        Cell::Text(Some(text))
    }
}

impl<'v> From<&'v String> for Cell<'v> {
    fn from(text: &'v String) -> Self {
        Cell::Text(Some(text))
    }
}

impl<'v> From<Option<&'v str>> for Cell<'v> {
    fn from(text: Option<&'v str>) -> Self {
        Cell::Text(text)
    }
}

impl<'v> From<&'v FactValue> for Cell<'v> {
    fn from(fact: &'v FactValue) -> Self {
        Cell::Fact(fact)
    }
}

impl ToSql for Cell<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(match self {
            Cell::Int(Some(number)) => (*number).into(),
            Cell::Text(Some(text)) => ToSqlOutput::Borrowed(ValueRef::Text(text.as_bytes())),
            Cell::Int(None) | Cell::Text(None) => ToSqlOutput::Borrowed(ValueRef::Null),
            Cell::Fact(FactValue::Number(number)) => (*number).into(),
            Cell::Fact(FactValue::Text(text)) => {
                ToSqlOutput::Borrowed(ValueRef::Text(text.as_bytes()))
            }
            Cell::Fact(FactValue::Word(word)) => ToSqlOutput::Owned(vec![*word].into()),
        })
    }
}

/// A fact as one text whose order, byte by byte, is that of SQLite's values: numbers by size, then texts, then words.
pub(super) fn encoded(fact: &FactValue) -> String {
    match fact {
        FactValue::Number(number) => {
            // -0.0 is 0.0.
            let bits = (number + 0.0).to_bits();
            let ordered = match bits >> 63 {
                0 => bits | 1 << 63,
                _ => !bits,
            };
            format!("n{ordered:016x}")
        }
        FactValue::Text(text) => format!("t{text}"),
        FactValue::Word(word) => format!("w{word}"),
    }
}

impl<'c> Db<'c> {
    /// Gives each row to a reader, until that one says that it has enough.
    pub(super) fn each(
        self,
        sql: &str,
        values: &[Cell<'_>],
        mut read: impl FnMut(&Row<'_>) -> Result<bool, Problem>,
    ) -> Result<(), Problem> {
        match self {
            Db::Sqlite(db) => {
                let mut select = db.prepare_cached(sql).map_err(failed)?;
                let mut rows = select.query(params_from_iter(values)).map_err(failed)?;
                while let Some(row) = rows.next().map_err(failed)? {
                    if !read(&Row::Sqlite(row))? {
                        break;
                    }
                }
            }
            Db::Postgres(session) => {
                let rows = given(values, |values| session.rows(&numbered(sql), values));
                for row in &rows.map_err(server::failed)? {
                    if !read(&Row::Postgres(row))? {
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    /// The first row, if there is one.
    pub(super) fn one<T>(
        self,
        sql: &str,
        values: &[Cell<'_>],
        read: impl Fn(&Row<'_>) -> Result<T, Problem>,
    ) -> Result<Option<T>, Problem> {
        let mut found = None;
        self.each(sql, values, |row| {
            found = Some(read(row)?);
            Ok(false)
        })?;
        Ok(found)
    }

    /// All rows.
    pub(super) fn all<T>(
        self,
        sql: &str,
        values: &[Cell<'_>],
        read: impl Fn(&Row<'_>) -> Result<T, Problem>,
    ) -> Result<Vec<T>, Problem> {
        let mut all = Vec::new();
        self.each(sql, values, |row| {
            all.push(read(row)?);
            Ok(true)
        })?;
        Ok(all)
    }

    /// Does a statement that answers no rows.
    pub(super) fn execute(self, sql: &str, values: &[Cell<'_>]) -> Result<(), Problem> {
        match self {
            Db::Sqlite(db) => db
                .prepare_cached(sql)
                .and_then(|mut statement| statement.execute(params_from_iter(values)))
                .map(drop)
                .map_err(failed),
            Db::Postgres(session) => {
                given(values, |values| session.execute(&numbered(sql), values))
                    .map(drop)
                    .map_err(server::failed)
            }
        }
    }

    /// Statements without values.
    pub(super) fn batch(self, sql: &str) -> Result<(), Problem> {
        match self {
            Db::Sqlite(db) => db.execute_batch(sql).map_err(failed),
            Db::Postgres(session) => session.batch(sql).map_err(server::failed),
        }
    }
}

/// Gives values to a statement of PostgreSQL.
fn given<T>(values: &[Cell<'_>], run: impl FnOnce(&[postgres::SqlValue<'_>]) -> T) -> T {
    // PostgreSQL keeps no NUL, so nothing that is asked for with one is found.
    let own: Vec<Option<String>> = values
        .iter()
        .map(|value| match value {
            Cell::Fact(fact) => Some(encoded(fact)),
            Cell::Text(Some(text)) if text.contains('\0') => Some(text.replace('\0', "\u{fffd}")),
            Cell::Int(_) | Cell::Text(_) => None,
        })
        .collect();
    let values: Vec<postgres::SqlValue<'_>> = values
        .iter()
        .zip(&own)
        .map(|(value, own)| match value {
            Cell::Int(number) => postgres::SqlValue::Int(*number),
            Cell::Text(text) => postgres::SqlValue::Text(own.as_deref().or(*text)),
            Cell::Fact(_) => postgres::SqlValue::Text(own.as_deref()),
        })
        .collect();
    run(&values)
}

/// SQLite's `?1` and `?` as PostgreSQL's `$1`. No text in our statements has a question mark.
fn numbered(sql: &str) -> String {
    let mut text = String::with_capacity(sql.len() + 16);
    let mut next = 0;
    let mut rest = sql.chars().peekable();
    while let Some(letter) = rest.next() {
        if letter != '?' {
            text.push(letter);
            continue;
        }
        text.push('$');
        if !rest.peek().is_some_and(char::is_ascii_digit) {
            next += 1;
            text.push_str(&next.to_string());
        }
    }
    text
}

/// A row of an answer.
pub(super) enum Row<'r> {
    Sqlite(&'r rusqlite::Row<'r>),
    Postgres(&'r postgres::Row),
}

impl Row<'_> {
    pub(super) fn int(&self, at: usize) -> Result<i64, Problem> {
        match self {
            Row::Sqlite(row) => row.get(at).map_err(failed),
            Row::Postgres(row) => row.try_get(at).map_err(server::unread),
        }
    }

    pub(super) fn opt_int(&self, at: usize) -> Result<Option<i64>, Problem> {
        match self {
            Row::Sqlite(row) => row.get(at).map_err(failed),
            Row::Postgres(row) => row.try_get(at).map_err(server::unread),
        }
    }

    pub(super) fn flag(&self, at: usize) -> Result<bool, Problem> {
        match self {
            Row::Sqlite(row) => row.get(at).map_err(failed),
            Row::Postgres(row) => row.try_get(at).map_err(server::unread),
        }
    }

    pub(super) fn real(&self, at: usize) -> Result<f64, Problem> {
        match self {
            Row::Sqlite(row) => row.get(at).map_err(failed),
            Row::Postgres(row) => row.try_get(at).map_err(server::unread),
        }
    }

    pub(super) fn str(&self, at: usize) -> Result<&str, Problem> {
        match self {
            Row::Sqlite(row) => {
                let text = row.get_ref(at).map_err(failed)?;
                text.as_str().map_err(|error| failed(error.into()))
            }
            Row::Postgres(row) => row.try_get(at).map_err(server::unread),
        }
    }

    pub(super) fn text(&self, at: usize) -> Result<String, Problem> {
        self.str(at).map(str::to_owned)
    }

    pub(super) fn opt_text(&self, at: usize) -> Result<Option<String>, Problem> {
        match self {
            Row::Sqlite(row) => row.get(at).map_err(failed),
            Row::Postgres(row) => row.try_get(at).map_err(server::unread),
        }
    }

    /// A fact of the index, encoded.
    pub(super) fn fact(&self, at: usize) -> Result<String, Problem> {
        let Row::Sqlite(row) = self else {
            return self.text(at);
        };
        let fact = match row.get_ref(at).map_err(failed)? {
            ValueRef::Real(number) => FactValue::Number(number),
            // A number without a fraction may be kept as one.
            ValueRef::Integer(number) => FactValue::Number(number as f64),
            ValueRef::Text(text) => FactValue::Text(String::from_utf8_lossy(text).into_owned()),
            ValueRef::Blob(bytes) => FactValue::Word(bytes.first().copied().unwrap_or_default()),
            ValueRef::Null => FactValue::Word(u8::MAX),
        };
        Ok(encoded(&fact))
    }

    /// Adds a column to a digest, the same on both stores.
    pub(super) fn digest(&self, at: usize, into: &mut Sha256) -> Result<(), Problem> {
        let is_number = match self {
            Row::Sqlite(row) => {
                let value = row.get_ref(at).map_err(failed)?;
                matches!(value, ValueRef::Integer(_))
            }
            Row::Postgres(row) => row.columns()[at].type_() == &ValueType::INT8,
        };
        let (tag, bytes) = match is_number {
            true => match self.opt_int(at)? {
                Some(number) => (1, number.to_be_bytes().to_vec()),
                None => (0, Vec::new()),
            },
            false => match self.opt_text(at)? {
                Some(text) => (3, text.into_bytes()),
                None => (0, Vec::new()),
            },
        };
        into.update([tag]);
        into.update((bytes.len() as u64).to_be_bytes());
        into.update(&bytes);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_numbered() {
        assert_eq!(numbered("a=? AND b IN (?,?)"), "a=$1 AND b IN ($2,$3)");
        assert_eq!(numbered("a=?2 AND b=?1"), "a=$2 AND b=$1");
    }

    #[test]
    fn facts_are_ordered_as_their_values() {
        let number = |number| encoded(&FactValue::Number(number));
        let numbers = [
            f64::MIN,
            -2.5,
            -1.0,
            -f64::MIN_POSITIVE,
            0.0,
            f64::MIN_POSITIVE,
            1.0,
            1.5,
            10.0,
            f64::MAX,
        ];
        for pair in numbers.windows(2) {
            assert!(number(pair[0]) < number(pair[1]), "{pair:?}");
        }
        assert_eq!(number(0.0), number(-0.0));
        let text = |text: &str| encoded(&FactValue::Text(text.to_owned()));
        assert!(number(f64::MAX) < text("") && text("a") < text("b"));
        assert!(text("\u{10ffff}") < encoded(&FactValue::Word(0)));
    }
}
