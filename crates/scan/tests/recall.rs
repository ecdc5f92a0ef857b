//! Recall through disguises: every hit of every rule, in every disguise and in two, in every kind of input.
//!
//! `UPDATE=1` writes the table to `docs/reference/recall.md`; otherwise the test holds that it is true.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    reason = "a test reads, writes and prints its page"
)]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use scan::{Action, Class, Direction, Engine, Rule, Settings};
use unicode_normalization::UnicodeNormalization;

/// What has to be found of all hits in one disguise, and in two, in a thousand.
const ONE_MIN: usize = 990;
const TWO_MIN: usize = 950;

/// One way to hide a text; nothing where the text cannot be hidden so.
type Disguise = fn(&str) -> Option<String>;

const DISGUISES: &[(&str, Disguise)] = &[
    ("plain", |text| Some(text.to_owned())),
    ("percent", |text| {
        Some(each_byte(text, |b| format!("%{b:02X}")))
    }),
    ("percent twice", |text| {
        Some(each_byte(text, |b| format!("%25{b:02x}")))
    }),
    ("base64", |text| Some(STANDARD.encode(text))),
    ("base64url", |text| Some(URL_SAFE_NO_PAD.encode(text))),
    ("base64 of UTF-16", |text| {
        let wide: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
        text.is_ascii().then(|| STANDARD.encode(wide))
    }),
    ("hex", |text| Some(each_byte(text, |b| format!("{b:02x}")))),
    ("hex, upper case", |text| {
        Some(each_byte(text, |b| format!("{b:02X}")))
    }),
    ("hex with -", |text| separated(text, "-", "")),
    ("hex with :", |text| separated(text, ":", "")),
    ("hex with spaces", |text| separated(text, " ", "")),
    ("hex with \\x", |text| {
        Some(each_byte(text, |b| format!("\\x{b:02x}")))
    }),
    ("hex with 0x", |text| separated(text, ", ", "0x")),
    ("base32", |text| Some(base32(text.as_bytes()))),
    ("base32, lower case", |text| {
        Some(base32(text.as_bytes()).to_ascii_lowercase())
    }),
    ("gzip in base64", |text| Some(STANDARD.encode(gzip(text)))),
    ("deflate in hex", |text| {
        let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::new(6));
        zlib.write_all(text.as_bytes()).ok()?;
        Some(
            zlib.finish()
                .ok()?
                .iter()
                .map(|b| format!("{b:02x}"))
                .collect(),
        )
    }),
    ("\\u escapes", |text| {
        Some(
            text.encode_utf16()
                .map(|unit| format!("\\u{unit:04x}"))
                .collect(),
        )
        .filter(|_| text.chars().all(|c| c.len_utf16() == 1))
    }),
    ("entities", |text| {
        Some(
            text.chars()
                .map(|c| format!("&#{};", u32::from(c)))
                .collect(),
        )
    }),
    ("\\u escapes of some", |text| {
        some(text, |c| format!("\\u{:04x}", u32::from(c)))
    }),
    ("entities of some", |text| {
        some(text, |c| format!("&#x{:x};", u32::from(c)))
    }),
    ("percent of some", |text| {
        some(text, |c| {
            each_byte(c.encode_utf8(&mut [0; 4]), |b| format!("%{b:02X}"))
        })
    }),
    ("tags of HTML", |text| between(text, "<wbr>")),
    ("decomposed", |text| {
        let apart: String = text.nfd().collect();
        (apart != text).then_some(apart)
    }),
    ("fullwidth", |text| {
        ascii(text, |c| match c {
            '!'..='~' => char::from_u32(u32::from(c) + 0xfee0),
            _ => None,
        })
    }),
    ("mathematical", |text| {
        ascii(text, |c| match c {
            'a'..='z' => char::from_u32(u32::from(c) - 0x61 + 0x1d41a),
            'A'..='Z' => char::from_u32(u32::from(c) - 0x41 + 0x1d400),
            '0'..='9' => char::from_u32(u32::from(c) - 0x30 + 0x1d7ce),
            _ => None,
        })
    }),
    ("confusable", |text| {
        ascii(text, |c| {
            let (from, to) = ("aeopcxyijsAEOPCXBHKMT", "аеорсхуіјѕАЕОРСХВНКМТ");
            to.chars().nth(from.chars().position(|known| known == c)?)
        })
    }),
    ("combining marks", |text| between(text, "\u{301}")),
    ("zero width", |text| between(text, "\u{200b}")),
    ("soft hyphen", |text| between(text, "\u{ad}")),
    ("bidi controls", |text| between(text, "\u{202e}\u{202c}")),
    ("variation selectors", |text| between(text, "\u{fe0f}")),
    ("tags", |text| {
        ascii(text, |c| char::from_u32(u32::from(c) + 0xe_0000))
    }),
    ("selectors that spell it", |text| {
        let selector = |c: char| match u32::from(c) {
            code @ 16..=127 => char::from_u32(code + 0xe_00f0),
            _ => None,
        };
        ascii(text, selector)
    }),
    ("small capitals", |text| {
        ascii(text, |c| {
            let (from, to) = ("abcdefghijklmnoprstuvwyz", "ᴀʙᴄᴅᴇꜰɢʜɪᴊᴋʟᴍɴᴏᴘʀꜱᴛᴜᴠᴡʏᴢ");
            to.chars().nth(from.chars().position(|known| known == c)?)
        })
    }),
    ("leetspeak", |text| {
        let leet = |c| match c {
            'e' => '3',
            'o' => '0',
            'a' => '4',
            's' => '5',
            _ => c,
        };
        text.is_ascii().then(|| text.chars().map(leet).collect())
    }),
    ("spaced out", |text| spaced(text, " ")),
    ("spaced with .", |text| spaced(text, ".")),
    ("spaced with -", |text| spaced(text, "-")),
    ("spaced with _", |text| spaced(text, "_")),
];

/// One kind of input that carries a text; nothing where it cannot.
type Carrier = fn(&Engine, Direction, &str) -> Option<Action>;

const KINDS: &[(&str, Carrier)] = &[
    ("text", |engine, direction, text| {
        Some(in_text(engine, direction, &format!("see {text}")))
    }),
    ("argument", |engine, direction, text| {
        let json = format!(
            r#"{{"name":"send","arguments":{{"body":{}}}}}"#,
            quoted(text)
        );
        Some(in_json(engine, direction, &json))
    }),
    ("query", |engine, direction, text| {
        let url = format!("https://e.example/p?q={}", url_safe(text)?);
        Some(in_text(engine, direction, &url))
    }),
    ("two fields", |engine, direction, text| {
        let [a, b] = pieces(text)?;
        let json = format!(r#"{{"first":{},"second":{}}}"#, quoted(&a), quoted(&b));
        Some(in_json(engine, direction, &json))
    }),
    ("three fields", |engine, direction, text| {
        let [a, b, c] = pieces(text)?;
        let (a, b, c) = (quoted(&a), quoted(&b), quoted(&c));
        let json = format!(r#"{{"a":{a},"b":[{b},{c}]}}"#);
        Some(in_json(engine, direction, &json))
    }),
    ("deltas", |engine, direction, text| {
        let parts: [String; 4] = pieces(text)?;
        let part = |text: &String| format!(r#"{{"type":"delta","text":{}}}"#, quoted(text));
        let json = format!("[{}]", parts.each_ref().map(part).join(","));
        Some(in_json(engine, direction, &json))
    }),
    ("parameters", |engine, direction, text| {
        let [a, b, c] = pieces(text)?;
        let (a, b, c) = (url_safe(&a)?, url_safe(&b)?, url_safe(&c)?);
        let url = format!("https://e.example/p?a={a}&b={b}&c={c}");
        Some(in_text(engine, direction, &url))
    }),
    ("path", |engine, direction, text| {
        let [a, b, c] = pieces(text)?;
        let (a, b, c) = (url_safe(&a)?, url_safe(&b)?, url_safe(&c)?);
        Some(in_text(
            engine,
            direction,
            &format!("https://e.example/{a}/{b}/{c}"),
        ))
    }),
    ("labels", |engine, direction, text| {
        let [a, b, c] = pieces(text)?;
        let label = |c: char| c.is_ascii_alphanumeric() || c == '-';
        let fits = text.chars().all(label) && text.len() < 150;
        fits.then(|| {
            in_text(
                engine,
                direction,
                &format!("https://{a}.{b}.{c}.e.example/"),
            )
        })
    }),
    ("events", |engine, direction, text| {
        let [a, b] = pieces(text)?;
        let fits = !text.contains(['\n', '\r']) && !b.starts_with(' ');
        fits.then(|| in_text(engine, direction, &format!("data: {a}\n\ndata: {b}\n\n")))
    }),
];

fn each_byte(text: &str, form: fn(u8) -> String) -> String {
    text.bytes().map(form).collect()
}

fn separated(text: &str, joint: &str, prefix: &str) -> Option<String> {
    let bytes: Vec<String> = text.bytes().map(|b| format!("{prefix}{b:02x}")).collect();
    Some(bytes.join(joint))
}

fn base32(bytes: &[u8]) -> String {
    let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
    let bit = |at: usize| {
        bytes
            .get(at / 8)
            .map_or(0, |b| usize::from(b >> (7 - at % 8) & 1))
    };
    let character = |i: usize| {
        let value = (i * 5..i * 5 + 5).fold(0, |sum, at| sum * 2 + bit(at));
        char::from(alphabet[value])
    };
    (0..(bytes.len() * 8).div_ceil(5)).map(character).collect()
}

fn gzip(text: &str) -> Vec<u8> {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::new(6));
    gzip.write_all(text.as_bytes()).expect("a vector takes all");
    gzip.finish().expect("a vector takes all")
}

/// The text with some of its ASCII characters in another form; nothing where none has one.
fn ascii(text: &str, form: fn(char) -> Option<char>) -> Option<String> {
    let other: String = text.chars().map(|c| form(c).unwrap_or(c)).collect();
    (text.is_ascii() && other != text).then_some(other)
}

/// One letter or digit in three in another form.
fn some(text: &str, form: fn(char) -> String) -> Option<String> {
    let alone = |(at, c): (usize, char)| match at % 3 == 1 && c.is_alphanumeric() {
        true => form(c),
        false => c.to_string(),
    };
    let fits = text.chars().all(|c| c.len_utf16() == 1);
    fits.then(|| text.chars().enumerate().map(alone).collect())
}

fn between(text: &str, mark: &str) -> Option<String> {
    let pieces: Vec<String> = text.chars().map(String::from).collect();
    text.is_ascii().then(|| {
        pieces
            .chunks(3)
            .map(<[String]>::concat)
            .collect::<Vec<_>>()
            .join(mark)
    })
}

fn spaced(text: &str, mark: &str) -> Option<String> {
    let pieces: Vec<String> = text.chars().map(String::from).collect();
    let fits = text.is_ascii() && text.len() < 400 && !text.contains(['\n', '"', '\\']);
    fits.then(|| pieces.join(mark))
}

/// The text in N pieces of about one length.
fn pieces<const N: usize>(text: &str) -> Option<[String; N]> {
    let characters: Vec<char> = text.chars().collect();
    let length = characters.len().div_ceil(N);
    let all: Vec<String> = characters
        .chunks(length.max(1))
        .map(String::from_iter)
        .collect();
    all.try_into().ok()
}

/// The text as it stands in a URL: unreserved characters stay.
fn url_safe(text: &str) -> Option<String> {
    let byte = |b: u8| match b {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
            char::from(b).to_string()
        }
        _ => format!("%{b:02X}"),
    };
    (text.len() < 1000).then(|| text.bytes().map(byte).collect())
}

fn in_text(engine: &Engine, direction: Direction, text: &str) -> Action {
    engine
        .text(direction, text, "")
        .map_or(Action::Refuse, |report| report.action)
}

/// A text as a string of JSON. Objects are written by hand: their keys keep their order then.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn in_json(engine: &Engine, direction: Direction, json: &str) -> Action {
    engine
        .json(direction, json.as_bytes(), "")
        .map_or(Action::Refuse, |report| report.action)
}

/// How many were found of how many.
#[derive(Clone, Copy, Default)]
struct Count {
    found: usize,
    all: usize,
}

impl Count {
    fn add(&mut self, found: bool) {
        self.found += usize::from(found);
        self.all += 1;
    }

    fn share(self) -> String {
        match self.all {
            0 => "–".to_owned(),
            all => format!("{:.1}", self.found as f64 * 100.0 / all as f64),
        }
    }
}

fn subjects() -> Vec<(&'static Rule, Direction)> {
    let rules = scan::rules().iter().filter(|rule| !rule.hits.is_empty());
    let asked = |rule: &&Rule| {
        matches!(
            rule.class,
            Class::Secret | Class::Injection | Class::Personal
        )
    };
    let with_direction = |rule: &'static Rule| {
        let mut directions = rule.directions.iter();
        let direction = directions.find(|d| rule.default_action(**d) > Action::Off)?;
        Some((rule, *direction))
    };
    rules.filter(asked).filter_map(with_direction).collect()
}

#[test]
fn hits_are_found_in_one_disguise_and_in_two() {
    let engine = Engine::new(Settings::default(), [1; 32]);
    let mut table: BTreeMap<(usize, usize), Count> = BTreeMap::new();
    let (mut one, mut two) = (Count::default(), Count::default());
    let mut missed: BTreeMap<String, usize> = BTreeMap::new();
    let mut turn = 0;
    for (rule, direction) in subjects() {
        for hit in rule.hits {
            for (d, (name, disguise)) in DISGUISES.iter().enumerate() {
                // A token in leetspeak is another token: only orders survive it.
                if *name == "leetspeak" && rule.class != Class::Injection {
                    continue;
                }
                let Some(hidden) = disguise(hit) else {
                    continue;
                };
                for (k, (kind, carrier)) in KINDS.iter().enumerate() {
                    let Some(action) = carrier(&engine, direction, &hidden) else {
                        continue;
                    };
                    let found = action > Action::Off;
                    table.entry((d, k)).or_default().add(found);
                    one.add(found);
                    if !found {
                        *missed
                            .entry(format!("{name} / {kind} / {}", rule.id))
                            .or_default() += 1;
                    }
                }
                // One second disguise and one kind for each, in turn: all pairs come up again and again.
                turn += 1;
                let (_, second) = DISGUISES[turn % DISGUISES.len()];
                let (_, carrier) = KINDS[turn / DISGUISES.len() % KINDS.len()];
                if let Some(hidden) = second(&hidden)
                    && let Some(action) = carrier(&engine, direction, &hidden)
                {
                    two.add(action > Action::Off);
                }
            }
        }
    }
    if std::env::var_os("RECALL_MISSED").is_some() {
        for (what, count) in &missed {
            println!("{count:4} {what}");
        }
    }
    println!(
        "one: {} of {}, two: {} of {}",
        one.found, one.all, two.found, two.all
    );
    assert!(one.found * 1000 >= one.all * ONE_MIN, "{}", one.share());
    assert!(two.found * 1000 >= two.all * TWO_MIN, "{}", two.share());
    page(&table, one, two);
}

/// Writes the reference page, or holds that it is what it was.
fn page(table: &BTreeMap<(usize, usize), Count>, one: Count, two: Count) {
    let mut page = format!(
        "# Recall through disguises\n\nGenerated by `make docs UPDATE=1`; do not edit.\n\nEvery hit of \
         every rule that reads text, hidden in each disguise, in each kind of input: the share that \
         is found, in per cent. A dash: the kind cannot carry that disguise.\n\nIn one disguise: {} % of {}. \
         In two, one inside the other: {} % of {}.\n\n| disguise |",
        one.share(),
        one.all,
        two.share(),
        two.all
    );
    for (kind, _) in KINDS {
        let _ = write!(page, " {kind} |");
    }
    let _ = writeln!(page, "\n|---|{}", "--:|".repeat(KINDS.len()));
    for (d, (name, _)) in DISGUISES.iter().enumerate() {
        let _ = write!(page, "| {name} |");
        for k in 0..KINDS.len() {
            let count = table.get(&(d, k)).copied().unwrap_or_default();
            let _ = write!(page, " {} |", count.share());
        }
        page.push('\n');
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/recall.md");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, page).expect("the docs folder is there");
    } else {
        let known = std::fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(known, page, "run `make docs UPDATE=1`");
    }
}
