//! The files of cases: what stands in them, and bytes written as text.

use std::fs;
use std::path::{Path, PathBuf};

/// One case of a file.
pub(crate) struct Case {
    pub title: String,
    /// As it stands in the file.
    pub sent: String,
    #[allow(
        dead_code,
        reason = "of the two tests that read cases, one compares them with something else"
    )]
    pub told: String,
}

impl Case {
    /// What is sent, in the parts that silence divides.
    pub(crate) fn parts(&self) -> Vec<Vec<u8>> {
        self.sent.split("\\|").map(unescape).collect()
    }

    /// The methods that answers are to.
    pub(crate) fn methods(&self) -> Vec<&str> {
        let methods = self
            .title
            .split_once(": ")
            .map_or("GET", |(_, methods)| methods);
        methods.split(' ').collect()
    }
}

/// Every file below `cases/h1`: its path, its first line, and its cases.
pub(crate) fn files() -> Vec<(PathBuf, String, Vec<Case>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("cases/h1");
    let paths = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let mut paths: Vec<PathBuf> = paths.collect();
    paths.sort();
    let read = |path: PathBuf| {
        let text = fs::read_to_string(&path).unwrap();
        let (intro, rest) = text.split_once("\n# ").unwrap();
        let cases = rest.split("\n# ").map(|case| {
            let (title, rest) = case.split_once('\n').unwrap();
            let (sent, told) = rest.split_once("----\n").unwrap();
            Case {
                title: title.to_owned(),
                sent: sent.to_owned(),
                told: told.to_owned(),
            }
        });
        let cases = cases.collect();
        (path, intro.trim_end().to_owned(), cases)
    };
    paths.into_iter().map(read).collect()
}

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
