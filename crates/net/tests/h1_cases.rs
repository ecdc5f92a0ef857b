//! What the engine makes of bytes: text in, text out, one file for each matter below `cases/h1`.
//!
//! A case is a line that begins with `# `, what the other side sends, `----`, and what the engine
//! tells. In what is sent a line break of the file means nothing: `\r`, `\n`, `\t`, `\0`, `\\`,
//! `\xNN` and `\{n:text}` (text, n times) are written out; `\|` stands for silence until the next
//! request. Files whose name begins with `answer` hold answers; a case's title may end with `:
//! METHOD METHOD …`, what was asked. Each case is read whole, byte by byte, and cut in two at every
//! byte, and has to tell the same. `UPDATE=1` rewrites what is told.

#![allow(clippy::unwrap_used, reason = "a test may fail by panic")]

#[path = "h1/text.rs"]
mod text;

use std::fs;

use net::h1::{ConnectionSettings, probe};
use text::Case;

/// Inputs longer than this are cut at a few bytes only.
const EVERY_CUT_BYTES_MAX: usize = 2000;

fn tell(case: &Case, answers: bool, pieces: Vec<&[u8]>) -> String {
    let settings = ConnectionSettings::default();
    if !answers {
        return probe::requests(pieces, &settings);
    }
    let methods: Vec<&[u8]> = case.methods().into_iter().map(str::as_bytes).collect();
    probe::answers(&methods, pieces, &settings)
}

/// Runs one case in every cut; returns what it tells.
fn check(file: &str, case: &Case) -> String {
    let answers = file.starts_with("answer");
    let (parts, title) = (case.parts(), &case.title);
    let cut = |size: &dyn Fn(usize) -> usize| {
        let mut pieces: Vec<&[u8]> = Vec::new();
        for (number, part) in parts.iter().enumerate() {
            if number > 0 {
                pieces.push(b"");
            }
            pieces.extend(part.chunks(size(part.len()).max(1)));
        }
        tell(case, answers, pieces)
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
            tell(case, answers, pieces),
            "{file}: {title}: cut at {at}"
        );
    }
    told
}

#[test]
fn cases() {
    let (mut count, update) = (0, std::env::var_os("UPDATE").is_some());
    for (path, intro, cases) in text::files() {
        let name = path.file_name().unwrap().to_str().unwrap();
        let mut rewritten = intro + "\n";
        for case in cases {
            let told = check(name, &case);
            count += 1;
            if !update {
                assert_eq!(
                    told.trim_end(),
                    case.told.trim_end(),
                    "{name}: {}",
                    case.title
                );
            }
            rewritten += &format!("\n# {}\n{}----\n{told}", case.title, case.sent);
        }
        if update {
            fs::write(&path, rewritten).unwrap();
        }
    }
    assert!(count > 250, "{count} cases");
}
