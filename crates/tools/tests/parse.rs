//! What is made of files: one case a language, and promises that hold for any bytes.
//!
//! A case is a file below `cases/parse` and, beside it, what is made of it. `UPDATE=1` writes those anew.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use tools::code::parse::{self, CHUNK_BYTES_MAX, Nature, Note, Parsed};

fn cases() -> Vec<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("cases/parse");
    let files = fs::read_dir(directory).expect("the cases").flatten();
    let mut files: Vec<_> = files.map(|entry| entry.path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension != "out"));
    files.sort();
    files
}

fn name(path: &Path) -> &str {
    path.file_name()
        .and_then(|name| name.to_str())
        .expect("a plain name")
}

/// All that is made of a file, as text.
fn show(parsed: &Parsed, file: &[u8]) -> String {
    let mut out = format!(
        "{} {:?} {:?}\n",
        parsed.language, parsed.nature, parsed.notes
    );
    for symbol in &parsed.symbols {
        let (first, last) = (symbol.span.first, symbol.span.last);
        let name = symbol.qualified(parsed.language);
        let _ = write!(
            out,
            "{first}-{last} {:?} {name} | {}",
            symbol.kind, symbol.signature
        );
        let doc = symbol.doc.map(|doc| String::from_utf8_lossy(doc.of(file)));
        let _ = writeln!(
            out,
            "{}",
            doc.map(|doc| format!(" | {doc:?}")).unwrap_or_default()
        );
    }
    for chunk in &parsed.chunks {
        let comment = chunk.comment(file);
        let _ = writeln!(
            out,
            "chunk {}-{} comments {comment:?}",
            chunk.span.first, chunk.span.last
        );
    }
    out
}

#[test]
fn cases_are_as_they_were_reviewed() {
    let mut wrong = Vec::new();
    for path in cases() {
        let file = fs::read(&path).expect("a case");
        let out = show(&parse::file(name(&path), &file), &file);
        let beside = PathBuf::from(format!("{}.out", path.display()));
        if std::env::var_os("UPDATE").is_some() {
            fs::write(&beside, &out).expect("the expected side");
        }
        let expected = fs::read_to_string(&beside).unwrap_or_default();
        if out != expected {
            wrong.push(format!("{}:\n{out}", path.display()));
        }
    }
    assert!(
        wrong.is_empty(),
        "changed; if for the better, run with UPDATE=1:\n{}",
        wrong.join("\n")
    );
}

#[test]
fn a_long_comment_stays_with_its_definition() {
    let file = include_bytes!("../cases/parse/comment.js");
    let parsed = parse::file("comment.js", file);
    let [short, long] = parsed.symbols.as_slice() else {
        panic!("{:?}", parsed.symbols);
    };
    let of = |symbol: u32| {
        let mut chunks = parsed.chunks.iter();
        chunks
            .find(|chunk| chunk.defines.contains(&symbol))
            .expect("a chunk")
    };
    let doc = short.doc.expect("a comment");
    let chunk = of(0).span.bytes;
    assert!(
        doc.len() > 1_400,
        "it is long, and with the body it fits into no chunk"
    );
    assert!(
        chunk.start <= doc.start && short.at.end <= chunk.end,
        "{chunk:?}"
    );
    // The pieces of one that fits into no chunk have the name of what they are about.
    let doc = long.doc.expect("a comment");
    assert!(doc.len() > CHUNK_BYTES_MAX);
    let pieces = parsed.chunks.iter().filter(|chunk| {
        let bytes = chunk.span.bytes;
        doc.start < bytes.end && bytes.start < doc.end && !chunk.defines.contains(&1)
    });
    let names: Vec<_> = pieces.map(|chunk| chunk.crumbs.join(".")).collect();
    assert_eq!(names, ["takeLease"]);
}

#[test]
fn macros_hide_no_name() {
    let file = include_bytes!("../cases/parse/macros.hpp");
    let parsed = parse::file("macros.hpp", file);
    let names: Vec<_> = parsed
        .symbols
        .iter()
        .map(|symbol| format!("{:?} {}", symbol.kind, symbol.qualified(parsed.language)))
        .collect();
    for name in [
        "Class Pool",
        "Method Pool::Pool",
        "Method Pool::take",
        "Struct Old",
        "Field Old::kept",
        "Enum Colour",
    ] {
        assert!(
            names.iter().any(|known| known == name),
            "{name} in {names:?}"
        );
    }
    let pool = parsed.symbols.iter().find(|symbol| &*symbol.name == "Pool");
    let signature = &*pool.expect("a class").signature;
    assert_eq!(signature, "class LIB_EXPORT Pool : public Base");
}

/// What holds whatever the file is.
#[track_caller]
fn sound(path: &str, file: &[u8], parsed: &Parsed) {
    let mut at = 0;
    let mut defined = 0;
    for chunk in &parsed.chunks {
        let bytes = chunk.span.bytes;
        assert_eq!(bytes.start, at, "{path}: a gap before a chunk");
        assert!(
            !bytes.is_empty() && bytes.len() <= CHUNK_BYTES_MAX,
            "{path}: {} bytes",
            bytes.len()
        );
        assert!(1 <= chunk.span.first && chunk.span.first <= chunk.span.last);
        let lines = file[..bytes.end as usize]
            .iter()
            .filter(|b| **b == b'\n')
            .count();
        let ended = bytes.of(file).ends_with(b"\n");
        assert_eq!(
            chunk.span.last as usize,
            lines + usize::from(!ended),
            "{path}"
        );
        for index in &chunk.defines {
            assert_eq!(
                *index, defined,
                "{path}: definitions stand in order, each in one chunk"
            );
            let start = parsed.symbols[*index as usize].span.bytes.start;
            assert!(bytes.start <= start && start < bytes.end);
            defined += 1;
        }
        let mut comment = bytes.start;
        for part in &chunk.comments {
            assert!(
                comment <= part.start && part.start < part.end && part.end <= bytes.end,
                "{path}"
            );
            comment = part.end;
        }
        at = bytes.end;
    }
    let is_text = parsed.nature != Nature::Binary && !parsed.notes.contains(&Note::TooLarge);
    assert_eq!(
        at as usize,
        if is_text { file.len() } else { 0 },
        "{path}: all bytes are in chunks"
    );
    assert_eq!(defined as usize, parsed.symbols.len(), "{path}");
    for symbol in &parsed.symbols {
        let (at, span) = (symbol.at, symbol.span.bytes);
        assert!(
            span.start <= at.start && at.end <= span.end && span.end as usize <= file.len(),
            "{path}"
        );
        assert!(
            !symbol.name.is_empty() && !symbol.signature.contains('\n'),
            "{path}: {symbol:?}"
        );
    }
    let wire = postcard::to_allocvec(parsed).expect("a parse is written");
    assert_eq!(
        &postcard::from_bytes::<Parsed>(&wire).expect("and read again"),
        parsed
    );
}

/// A generator whose numbers are the same each time.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound.max(1)
    }
}

#[test]
fn every_byte_is_in_one_chunk_however_a_file_is_broken() {
    let mut random = Random(1);
    for path in cases() {
        let whole = fs::read(&path).expect("a case");
        let name = name(&path);
        sound(name, &whole, &parse::file(name, &whole));
        for _ in 0..30 {
            let mut file = whole.clone();
            for _ in 0..=random.below(6) {
                let (from, to) = (random.below(file.len()), random.below(file.len()));
                match random.below(5) {
                    0 => drop(file.drain(from.min(to)..from.max(to))),
                    1 => file.extend_from_within(from.min(to)..from.max(to)),
                    2 if !file.is_empty() => file[from] = random.below(256) as u8,
                    3 => file.truncate(from),
                    _ => file.splice(from..from, *b"({[\"'/*<!--").for_each(drop),
                }
            }
            sound(name, &file, &parse::file(name, &file));
        }
    }
}

#[test]
fn the_sources_of_this_project_are_read_without_trouble() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let (mut todo, mut count) = (vec![root], 0);
    while let Some(path) = todo.pop() {
        if path.is_dir() {
            todo.extend(
                fs::read_dir(&path)
                    .expect("a directory")
                    .flatten()
                    .map(|entry| entry.path()),
            );
        } else {
            let file = fs::read(&path).expect("a source");
            let parsed = parse::file(&path.to_string_lossy(), &file);
            sound(&path.to_string_lossy(), &file, &parsed);
            assert_eq!(parsed.notes, [], "{}", path.display());
            count += 1;
        }
    }
    assert!(count > 10);
}

#[test]
fn deep_nesting_long_lines_and_large_files_are_taken() {
    let deep = format!("x = {}1{}", "(".repeat(50_000), ")".repeat(50_000));
    let line = format!("let x = \"{}\";\n", "é".repeat(5000));
    let many = "def f(): pass\n".repeat(30_000);
    let blank = "\n".repeat(100_000);
    let large = "x = 1\n".repeat(parse::GRAMMAR_BYTES_MAX / 6 + 1);
    for (path, text) in [
        ("a.py", &deep),
        ("a.rs", &line),
        ("b.py", &many),
        ("c.py", &blank),
        ("d.py", &large),
    ] {
        sound(path, text.as_bytes(), &parse::file(path, text.as_bytes()));
    }
    assert!(
        parse::file("d.py", large.as_bytes())
            .notes
            .contains(&Note::NotParsed)
    );
    assert!(
        parse::file("b.py", many.as_bytes())
            .notes
            .contains(&Note::Cut)
    );
    let huge = vec![b'a'; parse::FILE_BYTES_MAX + 1];
    assert_eq!(parse::file("a.txt", &huge).notes, [Note::TooLarge]);
}

#[test]
fn a_file_that_takes_too_long_is_cut_without_its_grammar() {
    let text = "def f(): pass\n".repeat(2000);
    let mut asked = 0;
    let parsed = parse::file_until("a.py", text.as_bytes(), &mut || {
        asked += 1;
        asked > 3
    });
    assert_eq!(parsed.notes, [Note::TimedOut]);
    sound("a.py", text.as_bytes(), &parsed);
    assert!(parsed.symbols.is_empty());
}

#[test]
fn binary_files_have_no_chunks() {
    let parsed = parse::file("a.py", b"x = 1\n\0\xff");
    assert_eq!((parsed.nature, parsed.chunks.len()), (Nature::Binary, 0));
    sound("a.txt", b"", &parse::file("a.txt", b""));
    assert_eq!(parse::file("a.txt", b"caf\xe9\n").notes, [Note::NotUtf8]);
}
