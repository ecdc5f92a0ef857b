//! Filters over JSON: a closed set of tests, compiled with bounds.
//!
//! `{"eq": {"a.b": 1}}`, `{"in": {"a": [1, 2]}}`, `{"gt": {"a": 5}}`, `{"exists": "a.b"}`, `{"contains": {…}}`, and
//! `{"not": F}`, `{"and": [F, …]}`, `{"or": [F, …]}` of those. A path goes through objects by key and through arrays by
//! number; a key that holds a dot is written in a JSON pointer, `/a.b/c`.

use serde_json::{Map, Value};
use tools::serve::call::Problem;

use super::contains::{contains, same};

/// Most tests in one filter.
pub const NODES_MAX: usize = 64;
/// Deepest filter.
pub const DEPTH_MAX: usize = 8;
/// Most values of one `in`.
pub const VALUES_MAX: usize = 200;
/// Comparisons that the filter of one page makes, at most: about a tenth of a second.
pub const STEPS_MAX: usize = 10_000_000;
/// Most values of one document that are indexed; a document with more is looked at each time.
pub const FACTS_MAX: usize = 256;
/// Longest text that is indexed, in bytes; of a longer one its beginning.
const FACT_BYTES_MAX: usize = 200;

/// A filter that was checked.
#[derive(Clone, Debug, PartialEq)]
pub enum Filter {
    Eq(Vec<String>, Value),
    In(Vec<String>, Vec<Value>),
    Gt(Vec<String>, Value),
    Exists(Vec<String>),
    Contains(Value),
    Not(Box<Filter>),
    And(Vec<Filter>),
    Or(Vec<Filter>),
}

/// A scalar as the index has it: equal scalars have equal keys, and unequal ones seldom do.
#[derive(Clone, Debug, PartialEq)]
pub enum FactValue {
    Number(f64),
    Text(String),
    /// null, false, true.
    Word(u8),
}

/// What has to stand in the index of a document that fits a filter.
#[derive(Clone, Debug, PartialEq)]
pub enum FactTest {
    /// One of these values at this place.
    AnyOf(String, Vec<FactValue>),
    /// A value at this place that is not less: a long text is known by its beginning alone.
    Above(String, FactValue),
}

impl Filter {
    /// Reads a filter.
    pub fn read(value: &Value) -> Result<Filter, Problem> {
        let mut left = NODES_MAX;
        read(value, DEPTH_MAX, &mut left)
    }

    /// Whether a document fits; nothing where that takes more comparisons than are left.
    pub fn holds(&self, document: &Value, steps: &mut usize) -> Option<bool> {
        *steps = steps.checked_sub(1)?;
        match self {
            Filter::Eq(path, value) => {
                one_of(at(document, path), std::slice::from_ref(value), steps)
            }
            Filter::In(path, values) => one_of(at(document, path), values, steps),
            Filter::Gt(path, value) => {
                Some(at(document, path).is_some_and(|own| above(own, value)))
            }
            Filter::Exists(path) => Some(at(document, path).is_some()),
            Filter::Contains(part) => contains(document, part, steps),
            Filter::Not(filter) => filter.holds(document, steps).map(|holds| !holds),
            Filter::And(filters) => every(filters, true, document, steps),
            // One holds where not each one does not.
            Filter::Or(filters) => every(filters, false, document, steps).map(|none| !none),
        }
    }

    /// What the index can be asked first. A document that fits passes all of these; one that passes may not fit.
    pub fn tests(&self) -> Vec<FactTest> {
        let mut tests = Vec::new();
        self.collect(&mut tests);
        tests
    }

    fn collect(&self, tests: &mut Vec<FactTest>) {
        match self {
            Filter::Eq(path, value) => {
                tests.extend(pair(path, std::slice::from_ref(value)));
            }
            Filter::In(path, values) => tests.extend(pair(path, values)),
            Filter::Gt(path, value) => {
                if let (Some(place), Some(value)) = (place(path), fact(value)) {
                    tests.push(FactTest::Above(place, value));
                }
            }
            Filter::Contains(part) => {
                let (facts, _) = facts(part);
                tests.extend(
                    facts
                        .into_iter()
                        .map(|(place, value)| FactTest::AnyOf(place, vec![value])),
                );
            }
            Filter::And(filters) => filters.iter().for_each(|filter| filter.collect(tests)),
            Filter::Exists(_) | Filter::Not(_) | Filter::Or(_) => {}
        }
    }
}

fn pair(path: &[String], values: &[Value]) -> Option<FactTest> {
    let place = place(path)?;
    let values: Option<Vec<FactValue>> = values.iter().map(fact).collect();
    Some(FactTest::AnyOf(place, values?))
}

/// The scalars of a document with their places, and whether these are all.
pub fn facts(document: &Value) -> (Vec<(String, FactValue)>, bool) {
    let mut all = Vec::new();
    let whole = collect_facts(document, &mut String::new(), &mut all);
    (all, whole)
}

fn collect_facts(value: &Value, place: &mut String, into: &mut Vec<(String, FactValue)>) -> bool {
    let before = place.len();
    match value {
        Value::Object(map) => map.iter().all(|(key, value)| {
            place.push('/');
            place.push_str(&escaped(key));
            let whole = collect_facts(value, place, into);
            place.truncate(before);
            whole
        }),
        Value::Array(values) => {
            place.push_str("/*");
            let whole = values.iter().all(|value| collect_facts(value, place, into));
            place.truncate(before);
            whole
        }
        scalar => {
            if into.len() >= FACTS_MAX || place.len() > FACT_BYTES_MAX * 2 {
                return false;
            }
            if let Some(value) = fact(scalar) {
                let entry = (place.clone(), value);
                if !into.contains(&entry) {
                    into.push(entry);
                }
            }
            true
        }
    }
}

/// A key in a place. An asterisk stands for the entries of an array, so a key that is one is written otherwise.
fn escaped(key: &str) -> String {
    let key = key.replace('~', "~0").replace('/', "~1");
    if key == "*" { "~2".to_owned() } else { key }
}

/// The place of a path in the index; none where it may go through an array.
fn place(path: &[String]) -> Option<String> {
    let by_key = path.iter().all(|key| key.parse::<usize>().is_err());
    by_key.then(|| {
        path.iter()
            .map(|key| format!("/{}", escaped(key)))
            .collect()
    })
}

fn fact(value: &Value) -> Option<FactValue> {
    Some(match value {
        Value::Null => FactValue::Word(0),
        Value::Bool(false) => FactValue::Word(1),
        Value::Bool(true) => FactValue::Word(2),
        Value::Number(number) => FactValue::Number(number.as_f64()?),
        Value::String(text) => {
            let mut end = text.len().min(FACT_BYTES_MAX);
            while !text.is_char_boundary(end) {
                end -= 1;
            }
            FactValue::Text(text[..end].to_owned())
        }
        Value::Array(_) | Value::Object(_) => return None,
    })
}

/// Whether every filter says the same.
fn every(filters: &[Filter], says: bool, document: &Value, steps: &mut usize) -> Option<bool> {
    for filter in filters {
        if filter.holds(document, steps)? != says {
            return Some(false);
        }
    }
    Some(true)
}

fn one_of(own: Option<&Value>, values: &[Value], steps: &mut usize) -> Option<bool> {
    let Some(own) = own else {
        return Some(false);
    };
    for value in values {
        if equal(own, value, steps)? {
            return Some(true);
        }
    }
    Some(false)
}

fn equal(a: &Value, b: &Value, steps: &mut usize) -> Option<bool> {
    *steps = steps.checked_sub(1)?;
    match (a, b) {
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (a, b) in a.iter().zip(b) {
                if !equal(a, b, steps)? {
                    return Some(false);
                }
            }
            Some(true)
        }
        (Value::Object(a), Value::Object(b)) if a.len() == b.len() => {
            for (key, a) in a {
                let Some(b) = b.get(key) else {
                    return Some(false);
                };
                if !equal(a, b, steps)? {
                    return Some(false);
                }
            }
            Some(true)
        }
        (a, b) => Some(same(a, b)),
    }
}

fn above(own: &Value, than: &Value) -> bool {
    match (own, than) {
        (Value::Number(own), Value::Number(than)) => own.as_f64() > than.as_f64(),
        (Value::String(own), Value::String(than)) => own > than,
        _ => false,
    }
}

fn at<'v>(document: &'v Value, path: &[String]) -> Option<&'v Value> {
    path.iter().try_fold(document, |value, key| match value {
        Value::Object(map) => map.get(key),
        Value::Array(values) => values.get(key.parse::<usize>().ok()?),
        _ => None,
    })
}

fn read(value: &Value, depth: usize, left: &mut usize) -> Result<Filter, Problem> {
    *left = left
        .checked_sub(1)
        .ok_or_else(|| Problem::argument(format!("`filter`: has more than {NODES_MAX} tests")))?;
    if depth == 0 {
        return Err(Problem::argument(format!(
            "`filter`: is deeper than {DEPTH_MAX} levels"
        )));
    }
    let entry = value.as_object().filter(|map| map.len() == 1);
    let Some((word, inner)) = entry.and_then(|map| map.iter().next()) else {
        return Err(shape());
    };
    match word.as_str() {
        "eq" => each(inner, |path, value| Ok(Filter::Eq(path, value.clone()))),
        "gt" => each(inner, |path, value| match value {
            Value::Number(_) | Value::String(_) => Ok(Filter::Gt(path, value.clone())),
            _ => Err(Problem::argument("`filter`: gt takes a number or a text")),
        }),
        "in" => each(inner, |path, value| match value.as_array() {
            Some(values) if values.len() <= VALUES_MAX => Ok(Filter::In(path, values.clone())),
            _ => Err(Problem::argument(format!(
                "`filter`: in takes an array of at most {VALUES_MAX} values"
            ))),
        }),
        "exists" => match inner.as_str() {
            Some(text) => Ok(Filter::Exists(path(text)?)),
            None => Err(Problem::argument("`filter`: exists takes a path")),
        },
        "contains" => {
            super::bounds::json("filter", inner)?;
            Ok(Filter::Contains(inner.clone()))
        }
        "not" => Ok(Filter::Not(Box::new(read(inner, depth - 1, left)?))),
        "and" => Ok(Filter::And(list(inner, depth, left)?)),
        "or" => Ok(Filter::Or(list(inner, depth, left)?)),
        _ => Err(shape()),
    }
}

fn list(value: &Value, depth: usize, left: &mut usize) -> Result<Vec<Filter>, Problem> {
    let values = value
        .as_array()
        .filter(|values| !values.is_empty())
        .ok_or_else(|| Problem::argument("`filter`: and, or take an array of filters"))?;
    let filters = values.iter().map(|value| read(value, depth - 1, left));
    filters.collect()
}

/// One test for each path of an object; several are all to hold.
fn each(
    value: &Value,
    make: impl Fn(Vec<String>, &Value) -> Result<Filter, Problem>,
) -> Result<Filter, Problem> {
    let map: &Map<String, Value> = value
        .as_object()
        .filter(|map| !map.is_empty() && map.len() <= NODES_MAX)
        .ok_or_else(shape)?;
    let mut filters = map
        .iter()
        .map(|(text, value)| {
            super::bounds::json("filter", value)?;
            make(path(text)?, value)
        })
        .collect::<Result<Vec<Filter>, Problem>>()?;
    match filters.len() {
        1 => Ok(filters.remove(0)),
        _ => Ok(Filter::And(filters)),
    }
}

fn path(text: &str) -> Result<Vec<String>, Problem> {
    let keys: Vec<String> = match text.strip_prefix('/') {
        Some(pointer) => pointer
            .split('/')
            .map(|key| key.replace("~1", "/").replace("~0", "~"))
            .collect(),
        None => text.split('.').map(str::to_owned).collect(),
    };
    if text.is_empty() || keys.len() > super::bounds::JSON_DEPTH_MAX {
        return Err(Problem::argument(format!("`filter`: {text:?} is no path")));
    }
    Ok(keys)
}

fn shape() -> Problem {
    Problem::argument(
        "`filter`: is one of {\"eq\": {path: value}}, {\"in\": {path: [values]}}, {\"gt\": {path: value}}, {\"exists\": path}, {\"contains\": {…}}, {\"not\": filter}, {\"and\": [filters]}, {\"or\": [filters]}",
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn filters_hold_where_they_should() {
        let document = json!({"a": {"b": 2, "c.d": "x"}, "list": [{"n": 1}, {"n": 2}], "t": true, "nil": null});
        for (filter, holds) in [
            (json!({"eq": {"a.b": 2}}), true),
            (json!({"eq": {"a.b": 2.0}}), true),
            (json!({"eq": {"/a/c.d": "x"}}), true),
            (json!({"eq": {"a.b": 2, "t": false}}), false),
            (json!({"eq": {"list.1.n": 2}}), true),
            (json!({"eq": {"missing": null}}), false),
            (json!({"in": {"a.b": [1, 2]}}), true),
            (json!({"in": {"a.b": []}}), false),
            (json!({"gt": {"a.b": 1}}), true),
            (json!({"gt": {"a.b": 2}}), false),
            (json!({"gt": {"a.b": "1"}}), false),
            (json!({"exists": "nil"}), true),
            (json!({"exists": "a.z"}), false),
            (json!({"contains": {"list": [{"n": 2}]}}), true),
            (json!({"not": {"exists": "a"}}), false),
            (
                json!({"or": [{"eq": {"t": false}}, {"eq": {"t": true}}]}),
                true,
            ),
            (
                json!({"and": [{"eq": {"t": false}}, {"eq": {"t": true}}]}),
                false,
            ),
        ] {
            assert_eq!(
                Filter::read(&filter).unwrap().holds(&document, &mut 100),
                Some(holds),
                "{filter}"
            );
        }
    }

    #[test]
    fn what_is_no_filter_is_refused() {
        let mut deep = json!({"exists": "a"});
        for _ in 0..DEPTH_MAX {
            deep = json!({"not": deep});
        }
        let wide = json!({"and": vec![json!({"exists": "a"}); NODES_MAX]});
        for filter in [
            json!({}),
            json!([]),
            json!({"eq": {"a": 1}, "in": {}}),
            json!({"eq": {}}),
            json!({"regex": {"a": ".*"}}),
            json!({"gt": {"a": [1]}}),
            json!({"in": {"a": 1}}),
            json!({"or": []}),
            json!({"exists": ""}),
            deep,
            wide,
        ] {
            assert_eq!(
                Filter::read(&filter).unwrap_err().code,
                "bad_argument",
                "{filter}"
            );
        }
    }

    /// What the index is asked may let too much pass, and never too little.
    #[test]
    fn the_index_leaves_out_nothing_that_fits() {
        let mut random = fastrand::Rng::with_seed(7);
        let mut fits = 0;
        for _ in 0..20_000 {
            let document = sample(&mut random, 3);
            let filter = match random.u8(..3) {
                0 => Filter::Contains(part(&mut random, &document)),
                1 => Filter::Eq(vec!["a".to_owned()], sample(&mut random, 1)),
                _ => Filter::Gt(vec!["b".to_owned()], json!(random.u8(..4))),
            };
            if filter.holds(&document, &mut 1000) == Some(false) {
                continue;
            }
            fits += 1;
            let (facts, whole) = facts(&document);
            assert!(whole);
            for test in filter.tests() {
                let passes = facts.iter().any(|(place, value)| match &test {
                    FactTest::AnyOf(at, values) => at == place && values.contains(value),
                    FactTest::Above(at, FactValue::Number(than)) => {
                        at == place && matches!(value, FactValue::Number(own) if own > than)
                    }
                    FactTest::Above(..) => false,
                });
                assert!(passes, "{document} {filter:?} {test:?}");
            }
        }
        assert!(fits > 3000, "{fits}");
    }

    fn sample(random: &mut fastrand::Rng, depth: u8) -> Value {
        match random.u8(..if depth == 0 { 4 } else { 7 }) {
            0 => json!(random.u8(..4)),
            1 => json!(random.bool()),
            2 => Value::from(["x", "y", "/", "*"][random.usize(..4)]),
            3 => Value::Null,
            4 => (0..random.u8(..3))
                .map(|_| sample(random, depth - 1))
                .collect(),
            _ => {
                let keys = ["a", "b", "*", "c/d", "0"];
                let entries = (0..random.usize(..4)).map(|_| {
                    (
                        keys[random.usize(..5)].to_owned(),
                        sample(random, depth - 1),
                    )
                });
                Value::Object(entries.collect())
            }
        }
    }

    /// Something that the document contains.
    fn part(random: &mut fastrand::Rng, document: &Value) -> Value {
        match document {
            Value::Object(map) => {
                let some = map.iter().filter(|_| random.bool()).collect::<Vec<_>>();
                let some = some
                    .into_iter()
                    .map(|(key, value)| (key.clone(), part(random, value)));
                Value::Object(some.collect())
            }
            Value::Array(values) => {
                let some = values.iter().filter(|_| random.bool()).collect::<Vec<_>>();
                some.into_iter().map(|value| part(random, value)).collect()
            }
            scalar => scalar.clone(),
        }
    }
}
