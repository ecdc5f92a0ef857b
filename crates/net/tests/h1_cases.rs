//! What the engine makes of bytes: text in, text out, one file for each matter below `cases/h1`.
//!
//! A case is a line that begins with `# `, what the other side sends, `----`, and what the engine tells. In what is
//! sent a line break of the file means nothing: `\r`, `\n`, `\t`, `\0`, `\\`, `\xNN` and `\{n:text}` (text, n times) are
//! written out; `\|` stands for silence until the next request. Files whose name begins with `answer` hold answers; a case's title may end with `: METHOD METHOD …`,
//! what was asked. Each case is read whole, byte by byte, and cut in two at every byte, and has to tell the same.
//! `UPDATE=1` rewrites what is told.

#![allow(clippy::unwrap_used, reason = "a test may fail by panic")]

use std::fs;
use std::path::Path;

use net::h1::{Settings, probe};

/// Inputs longer than this are cut at a few bytes only.
const EVERY_CUT_BYTES_MAX: usize = 2000;

fn unescape(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut chars = text.chars().filter(|char| *char != '\n').peekable();
    while let Some(char) = chars.next() {
        if char != '\\' {
            let mut buffer = [0; 4];
            bytes.extend_from_slice(char.encode_utf8(&mut buffer).as_bytes());
            continue;
        }
        match chars.next().unwrap() {
            'r' => bytes.push(b'\r'),
            'n' => bytes.push(b'\n'),
            't' => bytes.push(b'\t'),
            '0' => bytes.push(0),
            '\\' => bytes.push(b'\\'),
            'x' => {
                let digits: String = chars.by_ref().take(2).collect();
                bytes.push(u8::from_str_radix(&digits, 16).unwrap());
            }
            '{' => {
                let inner: String = chars.by_ref().take_while(|char| *char != '}').collect();
                let (times, text) = inner.split_once(':').unwrap();
                bytes.extend(unescape(text).repeat(times.parse().unwrap()));
            }
            other => panic!("\\{other} is no escape"),
        }
    }
    bytes
}

fn tell(answers: bool, title: &str, pieces: Vec<&[u8]>) -> String {
    let settings = Settings::default();
    if !answers {
        return probe::requests(pieces, &settings);
    }
    let methods = title.split_once(": ").map_or("GET", |(_, methods)| methods);
    let methods: Vec<&[u8]> = methods.split(' ').map(str::as_bytes).collect();
    probe::answers(&methods, pieces, &settings)
}

/// Runs one case in every cut; returns what it tells.
fn check(file: &str, title: &str, sent: &str) -> String {
    let answers = file.starts_with("answer");
    let parts: Vec<Vec<u8>> = sent.split("\\|").map(unescape).collect();
    let cut = |size: &dyn Fn(usize) -> usize| {
        let mut pieces: Vec<&[u8]> = Vec::new();
        for (number, part) in parts.iter().enumerate() {
            if number > 0 {
                pieces.push(b"");
            }
            pieces.extend(part.chunks(size(part.len()).max(1)));
        }
        tell(answers, title, pieces)
    };
    let told = cut(&|whole| whole);
    assert_eq!(told, cut(&|_| 1), "{file}: {title}: byte by byte");
    let longest = parts.iter().map(Vec::len).max().unwrap();
    let step = 1 + longest / EVERY_CUT_BYTES_MAX * 97;
    for at in (2..longest).step_by(step) {
        assert_eq!(told, cut(&|_| at), "{file}: {title}: pieces of {at}");
    }
    for at in (1..longest).step_by(step) {
        let mut pieces: Vec<&[u8]> = Vec::new();
        for (number, part) in parts.iter().enumerate() {
            if number > 0 {
                pieces.push(b"");
            }
            let (first, rest) = part.split_at(at.min(part.len()));
            pieces.extend([first, rest].into_iter().filter(|piece| !piece.is_empty()));
        }
        assert_eq!(
            told,
            tell(answers, title, pieces),
            "{file}: {title}: cut at {at}"
        );
    }
    told
}

#[test]
fn cases() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("cases/h1");
    let mut count = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let text = fs::read_to_string(&path).unwrap();
        let (intro, rest) = text.split_once("\n# ").unwrap();
        let mut rewritten = intro.trim_end().to_owned() + "\n";
        for case in rest.split("\n# ") {
            let (title, rest) = case.split_once('\n').unwrap();
            let (sent, expected) = rest.split_once("----\n").unwrap();
            let told = check(&name, title, sent);
            count += 1;
            if std::env::var_os("UPDATE").is_none() {
                assert_eq!(told.trim_end(), expected.trim_end(), "{name}: {title}");
            }
            rewritten += &format!("\n# {title}\n{sent}----\n{told}");
        }
        if std::env::var_os("UPDATE").is_some() {
            fs::write(&path, rewritten).unwrap();
        }
    }
    assert!(count > 100, "{count} cases");
}
