//! The language that a question names: "python http server" prefers files of Python, and looks for no `python` in them.
//!
//! A name that is an ordinary word as well counts behind `in` only, and two languages in one question are what it is about.

use crate::code::parse::Language;

/// Names of languages in questions, and what the table of languages calls them.
const NAMES: &[(&str, &str)] = &[
    ("bash", "bash"),
    ("c#", "csharp"),
    ("c++", "cpp"),
    ("cpp", "cpp"),
    ("csharp", "csharp"),
    ("golang", "go"),
    ("java", "java"),
    ("javascript", "javascript"),
    ("js", "javascript"),
    ("kotlin", "kotlin"),
    ("php", "php"),
    ("python", "python"),
    ("python3", "python"),
    ("ruby", "ruby"),
    ("rust", "rust"),
    ("ts", "typescript"),
    ("typescript", "typescript"),
];
/// The same, of which each is a word or a letter besides.
const BEHIND_IN: &[(&str, &str)] = &[
    ("c", "c"),
    ("go", "go"),
    ("lua", "lua"),
    ("perl", "perl"),
    ("scala", "scala"),
    ("shell", "bash"),
    ("sql", "sql"),
    ("swift", "swift"),
];

/// The one language that a question names, with its name as it stands there in lower case: at the beginning, at the end,
/// or behind `in`. Elsewhere it is what the question is about: `which crate has Bash support`.
pub(super) fn named(query: &str) -> Option<(Language, String)> {
    let is_part = |letter: char| letter.is_alphanumeric() || matches!(letter, '+' | '#');
    let words = query.split_whitespace();
    let words: Vec<String> = words
        .map(|word| word.trim_matches(|letter| !is_part(letter)).to_lowercase())
        .collect();
    let mut found: Option<(Language, &String)> = None;
    for (at, word) in words.iter().enumerate() {
        let is_behind = at > 0 && words[at - 1] == "in";
        let is_outside = is_behind || at == 0 || at + 1 == words.len();
        let of = |names: &[(&str, &str)]| {
            let name = names.iter().find(|(name, _)| name == word);
            name.and_then(|(_, of)| Language::named(of))
        };
        let language = match is_behind {
            true => of(NAMES).or_else(|| of(BEHIND_IN)),
            false => of(NAMES),
        };
        if let Some(language) = language {
            if !is_outside || found.is_some_and(|(other, _)| other != language) {
                return None;
            }
            found = Some((language, word));
        }
    }
    found.map(|(language, name)| (language, name.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_language_is_named_by_its_name() {
        let name = |query: &str| named(query).map(|(language, _)| language.name());
        assert_eq!(name("python http server"), Some("python"));
        assert_eq!(name("where is a socket opened, in C++?"), Some("cpp"));
        assert_eq!(name("parse a header in Go"), Some("go"));
        assert_eq!(name("where do retries go"), None);
        assert_eq!(name("swift retries in python or rust"), None);
        assert_eq!(name("pythonic names"), None);
        assert_eq!(name("which crate has Bash support"), None);
    }

    #[test]
    fn each_name_is_of_the_table() {
        for (_, of) in NAMES.iter().chain(BEHIND_IN) {
            assert_eq!(Language::named(of).map(Language::name), Some(*of));
        }
    }
}
