//! Cursors: where a list goes on. Each is bound to its query, so that one of another query is refused.

use serde::Serialize;
use serde_json::Value;
use sha2::{Digest, Sha256};
use tools::serve::call::Problem;

/// What a query is told apart by.
pub struct QueryMark(String);

impl QueryMark {
    /// The mark of some arguments, whatever their cursor is.
    pub fn of<T: Serialize>(tool: &str, project: &str, arguments: &T) -> QueryMark {
        let mut value = serde_json::to_value(arguments).unwrap_or(Value::Null);
        if let Value::Object(map) = &mut value {
            map.retain(|name, value| {
                !matches!(name.as_str(), "cursor" | "limit" | "max_tokens") && !value.is_null()
            });
        }
        let mut digest = Sha256::new();
        for part in [tool, project, &value.to_string()] {
            digest.update((part.len() as u64).to_be_bytes());
            digest.update(part.as_bytes());
        }
        QueryMark(base::hex::encode(&digest.finalize()[..6]))
    }

    /// A cursor to go on from.
    pub fn cursor(&self, place: i64) -> String {
        format!("{}-{place}", self.0)
    }

    /// Where a cursor goes on.
    ///
    /// # Errors
    ///
    /// One that is made up, or of another query.
    pub fn place(&self, cursor: Option<&str>) -> Result<Option<i64>, Problem> {
        let Some(cursor) = cursor else {
            return Ok(None);
        };
        let place = cursor
            .split_once('-')
            .filter(|(mark, _)| *mark == self.0)
            .and_then(|(_, place)| place.parse::<i64>().ok())
            .filter(|place| *place >= 0);
        place.map(Some).ok_or_else(|| {
            Problem::argument("`cursor`: is not of this query; ask again without it, with the same arguments for each page")
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::QueryMark;

    #[test]
    fn a_cursor_is_of_its_query_alone() {
        let mark = QueryMark::of("t", "p", &json!({"a": 1, "limit": 5}));
        let cursor = mark.cursor(7);
        assert_eq!(mark.place(Some(&cursor)).unwrap(), Some(7));
        let same = QueryMark::of("t", "p", &json!({"a": 1, "cursor": "x", "limit": 9}));
        assert_eq!(same.place(Some(&cursor)).unwrap(), Some(7));
        for other in [
            QueryMark::of("t", "q", &json!({"a": 1})),
            QueryMark::of("u", "p", &json!({"a": 1})),
            QueryMark::of("t", "p", &json!({"a": 2})),
        ] {
            assert!(other.place(Some(&cursor)).is_err());
        }
        for made_up in ["", "x", "-1", "7", &mark.cursor(-1), "' OR 1=1 --"] {
            assert!(mark.place(Some(made_up)).is_err(), "{made_up}");
        }
    }
}
