//! Which objects a list is of, as SQL: tests of their columns, and sets of objects that an index names.
//!
//! SQLite looks each of those sets up by itself. PostgreSQL would join them, and of tables that were filled a moment ago it has no
//! statistics: it takes thousands of rows for one, and walks through all of a set for each object. So it is told how: a set is
//! counted first; a small one gives the objects, one by one by their key; others are tests by a hash, and one that names nearly
//! everything is left out. Whoever asks tests each object once more, so that what is left out here changes no answer.

use std::fmt::Write as _;

use tools::serve::call::Problem;

use super::db::{Cell, Db};
use super::row::NOT_WHOLE;
use crate::model::ObjectKind;
use crate::model::filter::{FactTest, FactValue, Filter};

/// Tests of a filter that the index is asked for.
const INDEXED_TESTS_MAX: usize = 3;
/// Objects of a set that are looked up one by one.
const LOOKED_UP_MAX: i64 = 1_000;
/// Objects of a set that is a test: more of them are no test any more, and PostgreSQL might not hash them.
const HASHED_MAX: i64 = 20_000;

/// Which objects, as SQL and its values.
pub(super) struct Where {
    is_sqlite: bool,
    sql: String,
    values: Vec<Given>,
    sets: Vec<NamedSet>,
}

/// Objects that an index names.
struct NamedSet {
    /// The column of objects by which they are named.
    column: &'static str,
    /// A statement whose rows are values of that column; one may come twice.
    sql: String,
    values: Vec<Given>,
    /// Whether objects that are not in it may be given all the same, since they are tested again.
    is_hint: bool,
}

/// A value that is kept until it is asked with.
pub(super) enum Given {
    Int(i64),
    Text(String),
    Fact(FactValue),
}

impl Given {
    fn cell(&self) -> Cell<'_> {
        match self {
            Given::Int(number) => Cell::Int(Some(*number)),
            Given::Text(text) => Cell::Text(Some(text)),
            Given::Fact(fact) => Cell::Fact(fact),
        }
    }
}

impl From<&str> for Given {
    fn from(text: &str) -> Given {
        Given::Text(text.to_owned())
    }
}

impl From<i64> for Given {
    fn from(number: i64) -> Given {
        Given::Int(number)
    }
}

impl Where {
    /// Objects of a kind.
    pub(super) fn new(db: Db<'_>, project: &str, kind: ObjectKind) -> Where {
        Where {
            sql: "o.project=? AND o.kind=?".to_owned(),
            values: vec![project.into(), kind.as_str().into()],
            ..Where::projects(db)
        }
    }

    /// Every project.
    pub(super) fn projects(db: Db<'_>) -> Where {
        Where {
            is_sqlite: matches!(db, Db::Sqlite(_)),
            sql: "o.kind='project' AND o.deleted=0".to_owned(),
            values: Vec::new(),
            sets: Vec::new(),
        }
    }

    pub(super) fn and(&mut self, sql: &str, values: impl IntoIterator<Item = Given>) {
        self.sql.push_str(" AND ");
        self.sql.push_str(sql);
        self.values.extend(values);
    }

    pub(super) fn eq(&mut self, column: &str, value: impl Into<Given>) {
        self.and(&format!("o.{column}=?"), [value.into()]);
    }

    pub(super) fn one_of(&mut self, column: &str, words: &[&'static str]) {
        let marks = marks(words.len());
        let values = words.iter().map(|word| Given::from(*word));
        self.and(&format!("o.{column} IN ({marks})"), values);
    }

    pub(super) fn tags(&mut self, tags: &[String]) {
        for tag in tags {
            let tagged = "SELECT e.source FROM edges e WHERE e.relation='tag' AND e.target=?";
            let value = [tag.as_str().into()];
            if self.is_sqlite {
                self.and(&format!("EXISTS({tagged} AND e.source=o.id)"), value);
            } else {
                self.sets.push(NamedSet {
                    column: "id",
                    sql: tagged.to_owned(),
                    values: value.into(),
                    is_hint: false,
                });
            }
        }
    }

    /// The tests of a filter that the index of facts answers.
    pub(super) fn facts(&mut self, project: &str, types: &[String], filter: &Filter) {
        let marks_of_types = marks(types.len());
        let of = || {
            let types = types.iter().map(|of| of.as_str().into());
            std::iter::once(project.into()).chain(types)
        };
        for test in filter.tests().into_iter().take(INDEXED_TESTS_MAX) {
            let (place, sql, tested) = match test {
                FactTest::AnyOf(place, values) => (
                    place,
                    format!("value IN ({})", marks(values.len())),
                    values.into_iter().map(Given::Fact).collect(),
                ),
                FactTest::Above(place, value) => {
                    (place, "value >= ?".to_owned(), vec![Given::Fact(value)])
                }
            };
            let mut values: Vec<Given> = of().collect();
            values.push(Given::Text(place));
            values.extend(tested);
            values.extend(of());
            values.push(NOT_WHOLE.into());
            let sql = format!(
                "SELECT object FROM facts WHERE project=? AND type IN ({marks_of_types}) AND place=? AND {sql} \
                 UNION ALL SELECT object FROM facts WHERE project=? AND type IN ({marks_of_types}) AND place=?"
            );
            if self.is_sqlite {
                self.and(&format!("o.row IN ({sql})"), values);
            } else {
                self.sets.push(NamedSet {
                    column: "row",
                    sql,
                    values,
                    is_hint: true,
                });
            }
        }
    }

    /// What stands behind `FROM`, up to the last test, and its values.
    pub(super) fn found(&self, db: Db<'_>) -> Result<(String, Vec<Cell<'_>>), Problem> {
        let mut sets = Vec::with_capacity(self.sets.len());
        for set in &self.sets {
            sets.push((set.count(db)?, set));
        }
        sets.sort_by_key(|(count, _)| *count);
        let given = sets.first().filter(|(count, _)| *count <= LOOKED_UP_MAX);
        let (mut sql, mut values) = match given {
            None => ("objects o".to_owned(), Vec::new()),
            Some((_, set)) => {
                let sql = format!(
                    "(SELECT DISTINCT named.key FROM ({}) named(key)) f \
                     CROSS JOIN LATERAL (SELECT * FROM objects x WHERE x.{}=f.key LIMIT 1 OFFSET 0) o",
                    set.sql, set.column
                );
                (sql, set.cells().collect())
            }
        };
        let tests = &sets[usize::from(given.is_some())..];
        let _ = write!(sql, " WHERE {}", self.sql);
        values.extend(self.values.iter().map(Given::cell));
        for (count, set) in tests {
            if *count <= HASHED_MAX {
                let NamedSet {
                    column, sql: of, ..
                } = set;
                // Not a join, for which it would choose the order; and of a size that it knows.
                let _ = write!(
                    sql,
                    " AND (o.{column} IN (SELECT * FROM ({of} LIMIT {HASHED_MAX}) named)) IS TRUE"
                );
            } else if set.is_hint {
                continue;
            } else {
                let NamedSet {
                    column, sql: of, ..
                } = set;
                let _ = write!(
                    sql,
                    " AND EXISTS(SELECT * FROM ({of}) named(key) WHERE named.key=o.{column} LIMIT 1 OFFSET 0)"
                );
            }
            values.extend(set.cells());
        }
        Ok((sql, values))
    }
}

impl NamedSet {
    fn cells(&self) -> impl Iterator<Item = Cell<'_>> {
        self.values.iter().map(Given::cell)
    }

    /// How many rows it has, or that they are too many for a test.
    fn count(&self, db: Db<'_>) -> Result<i64, Problem> {
        let sql = format!(
            "SELECT count(*) FROM ({} LIMIT {}) named",
            self.sql,
            HASHED_MAX + 1
        );
        let values: Vec<Cell<'_>> = self.cells().collect();
        let count = db.one(&sql, &values, |row| row.int(0))?;
        Ok(count.unwrap_or_default())
    }
}

/// So many question marks.
fn marks(count: usize) -> String {
    vec!["?"; count].join(",")
}
