//! Requests that differ: templates, feeds and payloads made from a seed.
//!
//! Everything that varies is a function of the run's seed and the request's number, so a request can be made
//! again from its number, and the number of threads changes nothing. It is a list of substitutions and stays
//! one: what needs a program belongs in a program.

use std::sync::Arc;

/// Most columns of a feed.
pub const FEED_COLUMNS_MAX: usize = 256;
/// Most rows of a feed.
pub const FEED_ROWS_MAX: usize = 1_000_000;
/// Longest payload that is made, in bytes.
pub const UNIQUE_BYTES_MAX: usize = 64 << 20;
/// Shortest unique JSON payload, in bytes: the identifier and an empty text around it.
pub const UNIQUE_BYTES_MIN: usize = 48;

/// Rows of values that requests take in turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Feed {
    pub name: String,
    pub columns: Vec<String>,
    pub rows: Vec<Vec<Arc<str>>>,
    pub order: Order,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Row by row, and again from the first.
    Sequential,
    /// Any row, each time.
    Random,
}

impl Feed {
    fn value(&self, column: usize, at: &At) -> &str {
        let rows = self.rows.len() as u64;
        let row = match self.order {
            Order::Sequential => at.number % rows,
            Order::Random => mix(at.seed ^ 0x5eed_f00d, at.number) % rows,
        };
        &self.rows[row as usize][column]
    }
}

/// Which request is being made.
#[derive(Clone, Copy, Debug)]
pub struct At<'a> {
    pub seed: u64,
    /// The run and the flow, as `weir-lab-id` has it before the dash.
    pub run: &'a str,
    /// The request's number in its flow, from 0.
    pub number: u64,
    pub feeds: &'a [Feed],
    /// Nanoseconds since 1970, as read when the run began plus what passed since.
    pub unix_ns: u64,
}

/// A text with substitutions, compiled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template(Vec<Part>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(Box<[u8]>),
    Seq,
    Id,
    Uuid,
    NowMs,
    NowNs,
    Rand { low: u64, high: u64 },
    Letters { count: usize },
    Feed { feed: usize, column: usize },
}

impl Template {
    /// A text without substitutions, whatever it holds.
    pub fn plain(text: impl Into<Vec<u8>>) -> Template {
        Template(vec![Part::Text(text.into().into_boxed_slice())])
    }

    /// Compiles a text. `${…}` is one of `seq`, `id`, `uuid`, `now_ms`, `now_ns`, `rand(LOW,HIGH)`,
    /// `letters(COUNT)`, `env.NAME`, `FEED.COLUMN`; `$${` is a literal `${`.
    ///
    /// # Errors
    ///
    /// The sentence that says which substitution is wrong and which there are.
    pub fn parse(
        text: &str,
        feeds: &[Feed],
        env: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Template, String> {
        let (mut parts, mut plain, mut rest) = (Vec::new(), Vec::new(), text);
        while let Some(at) = rest.find("${") {
            if rest[..at].ends_with('$') {
                plain.extend_from_slice(&rest.as_bytes()[..at - 1]);
                plain.extend_from_slice(b"${");
                rest = &rest[at + 2..];
                continue;
            }
            plain.extend_from_slice(&rest.as_bytes()[..at]);
            let Some(end) = rest[at..].find('}') else {
                return Err(format!("`{}` has no closing brace", &rest[at..]));
            };
            let name = rest[at + 2..at + end].trim();
            match name.strip_prefix("env.") {
                Some(variable) => match env(variable) {
                    Some(value) => plain.extend_from_slice(value.as_bytes()),
                    None => return Err(format!("the variable {variable} is not set")),
                },
                None => {
                    push_text(&mut parts, &mut plain);
                    parts.push(Part::parse(name, feeds)?);
                }
            }
            rest = &rest[at + end + 1..];
        }
        plain.extend_from_slice(rest.as_bytes());
        push_text(&mut parts, &mut plain);
        Ok(Template(parts))
    }

    /// The bytes, when they are the same for every request.
    pub fn fixed(&self) -> Option<&[u8]> {
        match self.0.as_slice() {
            [] => Some(b""),
            [Part::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// Appends the bytes of one request.
    pub fn render(&self, at: &At, out: &mut Vec<u8>) {
        for (place, part) in self.0.iter().enumerate() {
            part.render(place as u64, at, out);
        }
    }
}

fn push_text(parts: &mut Vec<Part>, plain: &mut Vec<u8>) {
    if !plain.is_empty() {
        parts.push(Part::Text(std::mem::take(plain).into_boxed_slice()));
    }
}

impl Part {
    fn parse(name: &str, feeds: &[Feed]) -> Result<Part, String> {
        let call = name.strip_suffix(')').and_then(|rest| rest.split_once('('));
        match (name, call) {
            ("seq", _) => Ok(Part::Seq),
            ("id", _) => Ok(Part::Id),
            ("uuid", _) => Ok(Part::Uuid),
            ("now_ms", _) => Ok(Part::NowMs),
            ("now_ns", _) => Ok(Part::NowNs),
            (_, Some(("rand", bounds))) => {
                let pair = bounds.split_once(',').and_then(|(low, high)| {
                    Some((low.trim().parse().ok()?, high.trim().parse().ok()?))
                });
                match pair {
                    Some((low, high)) if low <= high => Ok(Part::Rand { low, high }),
                    _ => Err(format!("`{name}` needs two whole numbers: rand(1,9)")),
                }
            }
            (_, Some(("letters", count))) => match count.trim().parse() {
                Ok(count) if count <= UNIQUE_BYTES_MAX => Ok(Part::Letters { count }),
                _ => Err(format!("`{name}` needs a count up to {UNIQUE_BYTES_MAX}")),
            },
            _ => Part::feed(name, feeds),
        }
    }

    fn feed(name: &str, feeds: &[Feed]) -> Result<Part, String> {
        let found = name.split_once('.').and_then(|(feed, column)| {
            let at = feeds.iter().position(|f| f.name == feed)?;
            let column = feeds[at].columns.iter().position(|c| c == column)?;
            Some(Part::Feed { feed: at, column })
        });
        found.ok_or_else(|| {
            let columns = feeds.iter().flat_map(|feed| {
                let name = &feed.name;
                feed.columns
                    .iter()
                    .map(move |column| format!("{name}.{column}"))
            });
            let mut known: Vec<String> =
                ["seq", "id", "uuid", "now_ms", "now_ns", "rand(LOW,HIGH)"]
                    .into_iter()
                    .chain(["letters(COUNT)", "env.NAME"])
                    .map(String::from)
                    .collect();
            known.extend(columns);
            format!("`{name}` is not known; there are {}", known.join(", "))
        })
    }

    fn render(&self, place: u64, at: &At, out: &mut Vec<u8>) {
        match self {
            Part::Text(text) => out.extend_from_slice(text),
            Part::Seq => decimal(at.number, out),
            Part::Id => id(at, out),
            Part::Uuid => uuid(
                mix(at.seed, at.number),
                mix(at.seed ^ place, !at.number),
                out,
            ),
            Part::NowMs => decimal(at.unix_ns / 1_000_000, out),
            Part::NowNs => decimal(at.unix_ns, out),
            Part::Rand { low, high } => {
                let draw = u128::from(mix(at.seed ^ (place << 32), at.number));
                let span = u128::from(high - low) + 1;
                decimal(low + ((draw * span) >> 64) as u64, out);
            }
            Part::Letters { count } => letters(mix(at.seed ^ place, at.number), *count, out),
            Part::Feed { feed, column } => {
                out.extend_from_slice(at.feeds[*feed].value(*column, at).as_bytes());
            }
        }
    }
}

/// What a request carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    None,
    Template(Template),
    /// A payload of this size that no other request has: JSON with the request's identifier first.
    Unique {
        bytes: usize,
    },
}

impl Body {
    /// Its length, when that is the same for every request.
    pub fn fixed_bytes(&self) -> Option<usize> {
        match self {
            Body::None => Some(0),
            Body::Template(template) => template.fixed().map(<[u8]>::len),
            Body::Unique { bytes } => Some(*bytes),
        }
    }

    /// Appends the bytes of one request.
    pub fn render(&self, at: &At, out: &mut Vec<u8>) {
        match self {
            Body::None => {}
            Body::Template(template) => template.render(at, out),
            Body::Unique { bytes } => unique(*bytes, at, out),
        }
    }
}

/// `RUN-SEQ`: what the field `weir-lab-id` carries.
pub fn id(at: &At, out: &mut Vec<u8>) {
    out.extend_from_slice(at.run.as_bytes());
    out.push(b'-');
    decimal(at.number, out);
}

/// A JSON object of exactly `bytes` bytes, of letters drawn from the seed and the number.
fn unique(bytes: usize, at: &At, out: &mut Vec<u8>) {
    let begin = out.len();
    out.extend_from_slice(b"{\"id\":\"");
    id(at, out);
    out.extend_from_slice(b"\",\"text\":\"");
    let used = out.len() - begin + 2;
    letters(mix(at.seed, at.number), bytes.saturating_sub(used), out);
    out.extend_from_slice(b"\"}");
}

/// Appends letters from `a` to `p`: eight at a time from a 64-bit counter that is mixed, so that they cannot
/// be compressed to less than half, and that a wrong byte anywhere is a difference.
fn letters(key: u64, count: usize, out: &mut Vec<u8>) {
    const LOW: u64 = 0x0f0f_0f0f_0f0f_0f0f;
    const A: u64 = 0x6161_6161_6161_6161;
    let begin = out.len();
    out.resize(begin + count, 0);
    let mut blocks = out[begin..].chunks_exact_mut(16);
    let mut state = key;
    for block in &mut blocks {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let word = scramble(state);
        let (low, high) = block.split_at_mut(8);
        low.copy_from_slice(&((word & LOW) + A).to_le_bytes());
        high.copy_from_slice(&(((word >> 4) & LOW) + A).to_le_bytes());
    }
    let rest = blocks.into_remainder();
    let word = scramble(state.wrapping_add(0x9e37_79b9_7f4a_7c15));
    for (at, byte) in rest.iter_mut().enumerate() {
        *byte = b'a' + (word >> (4 * at) & 15) as u8;
    }
}

/// SplitMix64's output function (Steele, Lea and Flood, 2014).
fn scramble(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A draw for one request of one seed.
pub fn mix(seed: u64, number: u64) -> u64 {
    scramble(scramble(seed).wrapping_add(number.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
}

/// Appends a number in decimal.
pub fn decimal(mut number: u64, out: &mut Vec<u8>) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

/// Appends a version 4 UUID (RFC 9562, section 5.4) of two draws.
fn uuid(high: u64, low: u64, out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let high = high & !0xf000 | 0x4000;
    let low = low & !(0b11 << 62) | 0b10 << 62;
    let bits = u128::from(high) << 64 | u128::from(low);
    for digit in 0..32 {
        if matches!(digit, 8 | 12 | 16 | 20) {
            out.push(b'-');
        }
        out.push(DIGITS[(bits >> (124 - 4 * digit) & 15) as usize]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(number: u64, feeds: &[Feed]) -> At<'_> {
        At {
            seed: 7,
            run: "00c0ffee0001",
            number,
            feeds,
            unix_ns: 1_795_271_130_123_456_789,
        }
    }

    fn rendered(text: &str, number: u64, feeds: &[Feed]) -> String {
        let env = |name: &str| (name == "HOST").then(|| "box".to_owned());
        let template = Template::parse(text, feeds, &env).unwrap();
        let mut out = Vec::new();
        template.render(&at(number, feeds), &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn substitutions() {
        assert_eq!(rendered("a${seq}b$${c}", 12, &[]), "a12b${c}");
        assert_eq!(rendered("${id}", 0, &[]), "00c0ffee0001-0");
        assert_eq!(rendered("http://${env.HOST}/", 0, &[]), "http://box/");
        assert_eq!(rendered("${now_ms}", 0, &[]), "1795271130123");
        assert_eq!(rendered("${letters(37)}", 3, &[]).len(), 37);
        let uuid = rendered("${uuid}", 5, &[]);
        assert_eq!((uuid.len(), &uuid[14..15]), (36, "4"));
        assert_ne!(uuid, rendered("${uuid}", 6, &[]));
        for number in 0..1000 {
            let drawn: u64 = rendered("${rand(3,5)}", number, &[]).parse().unwrap();
            assert!((3..=5).contains(&drawn));
        }
    }

    #[test]
    fn feeds_go_round() {
        let rows = [["a", "1"], ["b", "2"]];
        let feed = Feed {
            name: "words".into(),
            columns: vec!["word".into(), "number".into()],
            rows: rows.map(|row| row.map(Arc::from).to_vec()).to_vec(),
            order: Order::Sequential,
        };
        let feeds = [feed];
        let all: String = (0..3)
            .map(|n| rendered("${words.word}${words.number} ", n, &feeds))
            .collect();
        assert_eq!(all, "a1 b2 a1 ");
    }

    #[test]
    fn what_is_wrong_is_said() {
        let parse = |text| Template::parse(text, &[], &|_| None).unwrap_err();
        assert!(parse("${sequence}").contains("there are seq, id"));
        assert!(parse("${seq").contains("no closing brace"));
        assert!(parse("${rand(5,3)}").contains("rand(1,9)"));
        assert!(parse("${env.MISSING}").contains("MISSING is not set"));
        assert!(parse("${letters(99999999999)}").contains("count"));
    }

    #[test]
    fn payloads_are_exact_unique_and_repeatable() {
        let mut seen = std::collections::HashSet::new();
        for bytes in [UNIQUE_BYTES_MIN, 100, 1024, 1031] {
            for number in [0, 1, u64::from(u32::MAX)] {
                let (mut one, mut two) = (Vec::new(), Vec::new());
                Body::Unique { bytes }.render(&at(number, &[]), &mut one);
                Body::Unique { bytes }.render(&at(number, &[]), &mut two);
                assert_eq!((one.len(), &one), (bytes, &two));
                serde_json::from_slice::<serde_json::Value>(&one).unwrap();
                assert!(seen.insert(one));
            }
        }
    }
}
