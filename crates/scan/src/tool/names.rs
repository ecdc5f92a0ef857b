//! Which names of tools can be taken for another server's: the same, almost the same, or made to look so.
//!
//! Source: Unicode UTS #39 (skeletons), for the letters that tool names are written in. A server's own
//! names are not held against each other: it can mean what it likes by them.

use std::slice;

use crate::fold::{self, disguise};
use crate::layer::{Layer, Text};

/// Most names that are remembered; more are not compared with.
const NAMES_MAX: usize = 16_384;
/// Shortest name of which one letter more or less makes a lookalike, in bytes.
const NEAR_BYTES_MIN: usize = 5;
/// Bytes of a name that are read.
const NAME_BYTES_MAX: usize = 1024;

/// How a name is like another; the later, the worse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Likeness {
    /// It differs in case, separators or one letter.
    Similar,
    /// It is the same.
    Same,
    /// It has characters that cannot be seen, or that pass for others; no other name is needed.
    Disguised,
    /// It is written with other characters that look the same.
    Confusable,
}

/// The names of tools that are known, each with its server.
#[derive(Default)]
pub struct Names {
    known: Vec<Known>,
}

struct Known {
    server: String,
    tool: Written,
}

/// A name in the forms that are compared.
struct Written {
    name: String,
    /// Folded, lower case, without separators.
    plain: String,
    /// What it looks like.
    skeleton: String,
}

impl Names {
    /// Remembers a name that is not remembered yet. Past the bound it is not.
    pub fn add(&mut self, server: &str, tool: &str) {
        if self.known.len() < NAMES_MAX {
            let (server, tool) = (server.to_owned(), Written::new(tool));
            self.known.push(Known { server, tool });
        }
    }

    /// What a server's tool can be taken for: the likeness, and the server and name of the other tool
    /// (empty where there is none). The worst likeness is told.
    pub fn find(&self, server: &str, tool: &str) -> Option<(Likeness, &str, &str)> {
        let written = Written::new(tool);
        let others = self.known.iter().filter(|known| known.server != server);
        let like = others.filter_map(|known| Some((written.like(&known.tool)?, known)));
        let worst = like.max_by_key(|(likeness, _)| *likeness);
        let worst = worst.map(|(likeness, known)| (likeness, &*known.server, &*known.tool.name));
        match worst {
            Some((Likeness::Confusable, ..)) => worst,
            _ if !disguise(tool.as_bytes()).is_empty() => Some((Likeness::Disguised, "", "")),
            worst => worst,
        }
    }
}

impl Written {
    fn new(name: &str) -> Written {
        let name = &name[..name.floor_char_boundary(NAME_BYTES_MAX)];
        let folded = folded(name);
        let separator = |c: &char| !matches!(c, '_' | '-' | '.' | ' ' | '/' | ':');
        Written {
            name: name.to_owned(),
            plain: folded
                .chars()
                .filter(separator)
                .flat_map(char::to_lowercase)
                .collect(),
            skeleton: skeleton(folded.chars().filter(separator)),
        }
    }

    fn like(&self, other: &Written) -> Option<Likeness> {
        if self.name == other.name {
            return Some(Likeness::Same);
        }
        if self.plain == other.plain {
            let disguised = |name: &str| !disguise(name.as_bytes()).is_empty();
            let confusable = disguised(&self.name) || disguised(&other.name);
            return Some(match confusable {
                true => Likeness::Confusable,
                false => Likeness::Similar,
            });
        }
        if self.skeleton == other.skeleton {
            return Some(Likeness::Confusable);
        }
        near(self.plain.as_bytes(), other.plain.as_bytes()).then_some(Likeness::Similar)
    }
}

fn folded(name: &str) -> String {
    if name.is_ascii() {
        return name.to_owned();
    }
    let whole = 0..name.len();
    let mut out = Text::take();
    fold::fold(
        &Layer::plain(name.as_bytes(), slice::from_ref(&whole)),
        &mut out,
    );
    let text = String::from_utf8_lossy(&out.bytes).into_owned();
    out.give();
    text
}

/// What a reader sees: one letter for those that look alike in many typefaces.
fn skeleton(name: impl Iterator<Item = char>) -> String {
    let one: String = name
        .map(|c| match c {
            'I' | '1' | '|' => 'l',
            '0' => 'o',
            other => other,
        })
        .flat_map(char::to_lowercase)
        .collect();
    one.replace("rn", "m").replace("vv", "w")
}

/// Whether two names are one edit apart: a character put in, left out, replaced, or two swapped. Numbers
/// of a series (`step1`, `step2`) are not.
fn near(a: &[u8], b: &[u8]) -> bool {
    let (short, long) = if a.len() <= b.len() { (a, b) } else { (b, a) };
    if short.len() < NEAR_BYTES_MIN || long.len() - short.len() > 1 {
        return false;
    }
    let head = short.iter().zip(long).take_while(|(x, y)| x == y).count();
    let (short, long) = (&short[head..], &long[head..]);
    let digit = |byte: Option<&u8>| byte.is_none_or(u8::is_ascii_digit);
    if digit(short.first()) && digit(long.first()) {
        return false;
    }
    match (short, long) {
        (short, [_, rest @ ..]) if short.len() == rest.len() => short == rest,
        ([x, y, rest @ ..], [v, w, other @ ..]) if x == w && y == v && rest == other => true,
        ([_, rest @ ..], [_, other @ ..]) => rest == other,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::Likeness::{Confusable, Disguised, Same, Similar};
    use super::*;

    fn like(tool: &str, known: &str) -> Option<Likeness> {
        let mut names = Names::default();
        names.add("files", known);
        assert!(
            names
                .find("files", known)
                .is_none_or(|(l, ..)| l == Disguised)
        );
        names.find("other", tool).map(|(likeness, ..)| likeness)
    }

    #[test]
    fn names_that_are_taken_for_others_are_found() {
        for (tool, known, likeness) in [
            ("read_file", "read_file", Same),
            ("read-file", "read_file", Similar),
            ("readFile", "read_file", Similar),
            ("READ_FILE", "read_file", Similar),
            ("read_files", "read_file", Similar),
            ("raed_file", "read_file", Similar),
            ("read_fi1e", "read_file", Confusable),
            ("read_fiIe", "read_file", Confusable),
            ("get_t0ken", "get_token", Confusable),
            ("retum_item", "return_item", Confusable),
            ("rе\u{430}d_file", "read_file", Confusable),
            ("read\u{200b}_file", "read_file", Confusable),
            ("ｒead_file", "read_file", Confusable),
            ("sеnd", "read_file", Disguised),
            ("résumé", "resume", Similar),
        ] {
            assert_eq!(like(tool, known), Some(likeness), "{tool} for {known}");
        }
    }

    #[test]
    fn names_of_their_own_are_left_alone() {
        for (tool, known) in [
            ("read_file", "write_file"),
            ("get", "set"),
            ("list", "lists"),
            ("step1", "step2"),
            ("model", "model4"),
            ("search_web", "search_code"),
            ("прочитать", "read_file"),
            ("读取文件", "read_file"),
            ("", "read_file"),
        ] {
            assert_eq!(like(tool, known), None, "{tool} for {known}");
        }
    }

    #[test]
    fn the_worst_likeness_is_told_with_the_other_tool() {
        let mut names = Names::default();
        for (server, tool) in [("a", "read_fi1e"), ("b", "read_file"), ("b", "send")] {
            names.add(server, tool);
        }
        assert_eq!(
            names.find("c", "read_file"),
            Some((Confusable, "a", "read_fi1e"))
        );
        assert_eq!(names.find("a", "send"), Some((Same, "b", "send")));
        assert_eq!(names.find("b", "send"), None);
    }

    #[test]
    fn names_are_bounded() {
        let mut names = Names::default();
        let long = "x".repeat(100_000);
        names.add("a", &long);
        assert_eq!(
            names.find("b", &long).map(|(likeness, ..)| likeness),
            Some(Same)
        );
        assert!(names.known[0].tool.name.len() <= NAME_BYTES_MAX);
    }
}
