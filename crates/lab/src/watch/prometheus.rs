//! Reads the text that a Prometheus endpoint answers with: format 0.0.4, and OpenMetrics as far as it differs.
//!
//! An endpoint may answer with tens of thousands of series. Only those that were asked for are kept, up to a bound, and
//! a line that cannot be read is passed over and counted, because a watched server's odd label must not end a run.

use std::collections::HashMap;

/// The most series kept of one endpoint.
pub const SERIES_MAX: usize = 64;
/// The most selectors for one endpoint.
pub const SELECTORS_MAX: usize = 32;
/// The most labels of one series.
const LABELS_MAX: usize = 64;

/// Kept when nothing is asked for: what every client library says of its own process.
pub const DEFAULT_METRICS: &[&str] = &[
    "process_cpu_seconds_total",
    "process_resident_memory_bytes",
    "process_open_fds",
];

/// How a value moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only rises; its rate is of interest. Counts, sums and buckets of histograms and summaries too.
    Counter,
    /// Rises and falls.
    Gauge,
}

/// One value of one series.
#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    /// The name with its labels, as in `requests_total{code="200"}`, labels in the order of the text.
    pub series: String,
    pub kind: Kind,
    pub value: f64,
}

/// Which series to keep: a name (a trailing `*` stands for any ending), and labels that it must carry.
///
/// A name without `_count`, `_sum` or `_bucket` means a histogram's or summary's count and sum too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector {
    name: String,
    is_prefix: bool,
    labels: Vec<(String, String)>,
}

impl Selector {
    /// Reads `name`, `name*` or `name{label="value",…}`.
    ///
    /// # Errors
    /// A sentence that says how a selector is written.
    pub fn parse(text: &str) -> Result<Selector, String> {
        let malformed =
            || format!("{text:?} is not a metric: write name, name* or name{{label=\"value\"}}");
        let (name, labels, rest) = split_series(text).ok_or_else(malformed)?;
        let is_prefix = rest == "*" && labels.is_empty();
        if name.is_empty() || !(rest.is_empty() || is_prefix) {
            return Err(malformed());
        }
        Ok(Selector {
            name: name.to_owned(),
            is_prefix,
            labels,
        })
    }

    fn matches(&self, name: &str, labels: &[(String, String)]) -> bool {
        let is_named = if self.is_prefix {
            name.starts_with(&self.name)
        } else {
            name.strip_prefix(self.name.as_str())
                .is_some_and(|rest| matches!(rest, "" | "_count" | "_sum" | "_total"))
        };
        is_named && self.labels.iter().all(|label| labels.contains(label))
    }
}

/// What was kept of one answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Kept {
    pub values: Vec<Value>,
    /// Lines that could not be read.
    pub unread: u64,
    /// True when more series matched than [`SERIES_MAX`].
    pub is_cut: bool,
}

/// Reads an answer and keeps what a selector matches. Values that are not finite are left out.
pub fn parse(text: &str, selectors: &[Selector]) -> Kept {
    let mut kept = Kept::default();
    let mut types: HashMap<&str, &str> = HashMap::new();
    for line in text.lines() {
        let line = line.trim();
        if let Some(comment) = line.strip_prefix('#') {
            let mut words = comment.split_ascii_whitespace();
            if let (Some("TYPE"), Some(name), Some(kind)) =
                (words.next(), words.next(), words.next())
            {
                types.insert(name, kind);
            }
            continue;
        }
        if line.is_empty() {
            continue;
        }
        let Some((name, labels, value)) = parse_line(line) else {
            kept.unread += 1;
            continue;
        };
        if !value.is_finite()
            || !selectors
                .iter()
                .any(|selector| selector.matches(name, &labels))
        {
            continue;
        }
        if kept.values.len() == SERIES_MAX {
            kept.is_cut = true;
            break;
        }
        kept.values.push(Value {
            series: show(name, &labels),
            kind: kind_of(name, &types),
            value,
        });
    }
    kept
}

type Labels = Vec<(String, String)>;

/// `name{labels} value [time] [# exemplar]`.
fn parse_line(line: &str) -> Option<(&str, Labels, f64)> {
    let (name, labels, rest) = split_series(line)?;
    if name.is_empty() || !rest.starts_with([' ', '\t']) {
        return None;
    }
    let value = rest.split_ascii_whitespace().next()?;
    Some((name, labels, value.parse().ok()?))
}

/// The name, the labels, and what follows them.
fn split_series(text: &str) -> Option<(&str, Labels, &str)> {
    let end = text
        .find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == ':'))
        .unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    match rest.strip_prefix('{') {
        None => Some((name, Vec::new(), rest)),
        Some(inside) => {
            let (labels, rest) = parse_labels(inside)?;
            Some((name, labels, rest))
        }
    }
}

/// Labels up to the closing brace, and what follows it.
fn parse_labels(mut text: &str) -> Option<(Labels, &str)> {
    let mut labels = Vec::new();
    loop {
        text = text.trim_start_matches([' ', ',']);
        if let Some(rest) = text.strip_prefix('}') {
            return Some((labels, rest));
        }
        let (name, rest) = text.split_once('=')?;
        let (value, rest) = parse_quoted(rest.trim_start())?;
        if labels.len() == LABELS_MAX {
            return None;
        }
        labels.push((name.trim().to_owned(), value));
        text = rest;
    }
}

/// A text in quotes with `\\`, `\"` and `\n`, and what follows it.
fn parse_quoted(text: &str) -> Option<(String, &str)> {
    let inside = text.strip_prefix('"')?;
    let mut value = String::new();
    let mut chars = inside.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((value, &inside[at + 1..])),
            '\\' => match chars.next()?.1 {
                'n' => value.push('\n'),
                other => value.push(other),
            },
            c => value.push(c),
        }
    }
    None
}

fn show(name: &str, labels: &[(String, String)]) -> String {
    if labels.is_empty() {
        return name.to_owned();
    }
    let inside: Vec<String> = labels
        .iter()
        .map(|(label, value)| format!("{label}={value:?}"))
        .collect();
    format!("{name}{{{}}}", inside.join(","))
}

fn kind_of(name: &str, types: &HashMap<&str, &str>) -> Kind {
    let family = ["_total", "_count", "_sum", "_bucket"]
        .iter()
        .find_map(|ending| name.strip_suffix(ending));
    let declared = types.get(name).copied();
    let of_family = family.and_then(|family| types.get(family)).copied();
    match (declared, of_family) {
        (Some("counter"), _) => Kind::Counter,
        (Some("gauge"), _) => Kind::Gauge,
        (_, Some("counter" | "histogram" | "summary")) => Kind::Counter,
        (None, None) if name.ends_with("_total") => Kind::Counter,
        _ => Kind::Gauge,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANSWER: &str = r#"
# HELP http_requests_total Requests.
# TYPE http_requests_total counter
http_requests_total{method="post",code="200"} 1027 1395066363000
http_requests_total{method="post",code="400"} 3
# TYPE took_seconds histogram
took_seconds_bucket{le="0.1"} 5
took_seconds_bucket{le="+Inf"} 6 # {trace="a b"} 0.4 1.5
took_seconds_sum 1.5
took_seconds_count 6
# TYPE in_use gauge
in_use{path="C:\\DIR\\",why="a \"b\"\nc"} 1.2e1
nothing NaN
{"quoted.name"} 1
broken{x="1 2
no_value
# EOF
"#;

    fn kept(selectors: &[&str]) -> Kept {
        let selectors: Vec<_> = selectors
            .iter()
            .map(|s| Selector::parse(s).unwrap())
            .collect();
        parse(ANSWER, &selectors)
    }

    fn shown(selectors: &[&str]) -> Vec<(String, Kind, f64)> {
        kept(selectors)
            .values
            .into_iter()
            .map(|value| (value.series, value.kind, value.value))
            .collect()
    }

    #[test]
    fn what_is_asked_for_is_kept() {
        assert_eq!(
            shown(&["http_requests_total{code=\"400\"}"]),
            [(
                "http_requests_total{method=\"post\",code=\"400\"}".to_owned(),
                Kind::Counter,
                3.0
            )]
        );
        assert_eq!(
            shown(&["took_seconds"]),
            [
                ("took_seconds_sum".to_owned(), Kind::Counter, 1.5),
                ("took_seconds_count".to_owned(), Kind::Counter, 6.0)
            ]
        );
        assert_eq!(shown(&["took_seconds_bucket"]).len(), 2);
        assert_eq!(shown(&["took*"]).len(), 4);
        assert_eq!(
            shown(&["http_requests"]).len(),
            2,
            "OpenMetrics names the family"
        );
        let gauge = shown(&["in_use"]);
        assert_eq!(
            gauge[0].0,
            "in_use{path=\"C:\\\\DIR\\\\\",why=\"a \\\"b\\\"\\nc\"}"
        );
        assert_eq!((gauge[0].1, gauge[0].2), (Kind::Gauge, 12.0));
        assert!(shown(&["nothing"]).is_empty(), "NaN is no value");
        assert!(shown(&["absent"]).is_empty());
    }

    #[test]
    fn broken_lines_are_counted_and_passed_over() {
        assert_eq!(kept(&["in_use"]).unread, 3);
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let text: String = (0..200)
            .map(|i| format!("many{{i=\"{i}\"}} {i}\n"))
            .collect();
        let kept = parse(&text, &[Selector::parse("many").unwrap()]);
        assert_eq!(kept.values.len(), SERIES_MAX);
        assert!(kept.is_cut);
    }

    #[test]
    fn selectors_are_refused() {
        for text in [
            "",
            "a b",
            "{a=\"b\"}",
            "a{b}",
            "a{b=c}",
            "a{b=\"c\"",
            "a{b=\"c\"}*",
            "a**",
            "*",
        ] {
            let error = Selector::parse(text).unwrap_err();
            assert!(error.contains("write name"), "{text:?}: {error}");
        }
    }

    #[test]
    fn no_bytes_break_the_parser() {
        let mut random = fastrand::Rng::with_seed(2);
        let selectors = [
            Selector::parse("http*").unwrap(),
            Selector::parse("in_use").unwrap(),
        ];
        for _ in 0..3_000 {
            let mut bytes = ANSWER.as_bytes().to_vec();
            for _ in 0..random.usize(1..12) {
                let at = random.usize(0..bytes.len());
                match random.u8(0..3) {
                    0 => bytes[at] = random.u8(..),
                    1 => bytes[at] = b"{}\"\\,= \n#"[random.usize(0..9)],
                    _ => bytes.insert(at, b"{}\"\\,= \n#"[random.usize(0..9)]),
                }
            }
            parse(&String::from_utf8_lossy(&bytes), &selectors);
        }
    }
}
