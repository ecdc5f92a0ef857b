//! From a question to a query over the fields of the index.

use tantivy::Term;

use super::{language, table};
use crate::code::index::{Clause, Fields, Scored, as_spelt, words_of};
use crate::code::parse::Language;
use crate::code::parse::words::Part;

/// What a question looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// One name, perhaps with parents.
    Symbol,
    /// A path or a file's name.
    Path,
    /// Words.
    Words,
}

/// Words of one question that count.
const TERMS_MAX: usize = 48;
/// Names of one question that count.
const NAMES_MAX: usize = 8;

/// A word to look for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Wanted {
    /// The word, as the index has it.
    pub text: String,
    /// How much it counts.
    pub weight: f32,
    /// Its place in the question; words of one place mean the same.
    pub place: usize,
}

/// What to look for.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// What the question looks like.
    pub class: Class,
    /// The question.
    pub query: String,
    /// The words to look for.
    pub wanted: Vec<Wanted>,
    /// Names to look for among definitions, with their weights.
    pub names: Vec<(String, f32)>,
    /// The same names as they are spelt, with what that adds.
    pub spelt: Vec<(String, f32)>,
    /// The language whose files are preferred, once [`Plan::prefer`] said so.
    pub language: Option<Language>,
}

impl Plan {
    /// Reads a question.
    pub(crate) fn of(query: &str) -> Plan {
        let query = query.trim();
        Plan::as_class(query, class(query))
    }

    /// Reads a question as one of a class.
    pub(crate) fn as_class(query: &str, class: Class) -> Plan {
        let mut plan = Plan {
            class,
            query: query.to_owned(),
            wanted: wanted(query, class),
            names: Vec::new(),
            spelt: Vec::new(),
            language: None,
        };
        plan.find_names();
        plan
    }

    /// Looks for one more word.
    pub(crate) fn want(&mut self, text: String, weight: f32, place: usize) {
        self.wanted.push(Wanted {
            text,
            weight,
            place,
        });
    }

    /// Looks for another word in the place of one that no piece has.
    pub(crate) fn respelt(&mut self, word: &str, alike: &str, place: usize) {
        let meant = self.wanted.iter().filter(|one| one.place == place);
        let weight = meant.map(|one| one.weight).fold(0.0, f32::max);
        self.wanted.retain(|one| one.place != place);
        for (text, _, part) in words_of(alike) {
            let share = if part == Part::Stem { table::STEM } else { 1.0 };
            self.want(text, weight * table::RESPELT * share, place);
        }
        for (name, _) in &mut self.names {
            if name == word {
                alike.clone_into(name);
            }
        }
    }

    /// The language that the question names, with its name, where it asks for something besides.
    pub(crate) fn named_language(&self) -> Option<(Language, String)> {
        let (language, name) =
            language::named(&self.query).filter(|_| self.class == Class::Words)?;
        let of_name = |one: &Wanted| words_of(&name).iter().any(|(text, ..)| *text == one.text);
        let has_more = self
            .wanted
            .iter()
            .any(|one| one.weight > table::STOP_WORD * 2.0 && !of_name(one));
        has_more.then_some((language, name))
    }

    /// Prefers the files of a language that the question names, and hardly looks for its name.
    pub(crate) fn prefer(&mut self, language: Language, name: &str) {
        for (text, ..) in words_of(name) {
            for one in self.wanted.iter_mut().filter(|one| one.text == text) {
                one.weight *= table::LANGUAGE_WORD;
            }
            self.names.retain(|(name, _)| *name != text);
        }
        self.language = Some(language);
    }

    /// What the score of a file is multiplied by for its language, at most one.
    pub(crate) fn preference(&self, language: Language) -> f32 {
        match self.language {
            Some(wanted) if wanted != language => table::OTHER_LANGUAGE,
            _ => 1.0,
        }
    }

    /// Whether the question is about code for sure: it is a name, has one in it, or says so.
    pub(crate) fn is_about_code(&self) -> bool {
        let says = |one: &Wanted| table::CODE_WORDS.contains(&one.text.as_str());
        match self.class {
            Class::Symbol => true,
            Class::Path => false,
            Class::Words => !self.spelt.is_empty() || self.wanted.iter().any(says),
        }
    }

    /// The words that were asked for, as they were written, in lower case.
    pub(crate) fn words(&self) -> Vec<&str> {
        self.wanted
            .iter()
            .map(|wanted| wanted.text.as_str())
            .collect()
    }

    /// The words to look for, each in all fields.
    pub(crate) fn clauses(&self, fields: &Fields) -> Vec<Clause> {
        let weights = match self.class {
            Class::Symbol => table::SYMBOL,
            Class::Path => table::PATH,
            Class::Words => table::WORDS,
        };
        let clause = |field, text: &str, weight| Clause {
            term: Term::from_field_text(field, text),
            weight,
        };
        let mut clauses = Vec::new();
        for wanted in &self.wanted {
            for (scored, weight) in Scored::ALL.into_iter().zip(weights) {
                let weight = weight * wanted.weight;
                clauses.push(clause(fields.of(scored), &wanted.text, weight));
            }
        }
        for (name, weight) in &self.names {
            clauses.push(clause(fields.names, name, *weight));
        }
        for (name, weight) in &self.spelt {
            clauses.push(clause(fields.names, &as_spelt(name), *weight));
        }
        clauses
    }

    /// Names in the question: all of it, and each run that only code has.
    fn find_names(&mut self) {
        let (mut names, mut spelt) = (Vec::new(), Vec::new());
        let mut push = |name: String, weight: f32| {
            if !name.is_empty() && names.len() < NAMES_MAX && !names.iter().any(|(n, _)| *n == name)
            {
                names.push((name, weight));
            }
        };
        for run in self
            .query
            .split(|letter: char| letter.is_whitespace() || letter == ',')
        {
            let run = run.trim_matches(|letter: char| !(letter.is_alphanumeric() || letter == '_'));
            let parts = parts_of_name(run);
            let Some(last) = parts.last() else {
                continue;
            };
            let alone = self.class == Class::Symbol;
            let weight = match (alone, is_of_code(run)) {
                (true, _) => table::DEFINES_SYMBOL,
                (false, true) => table::DEFINES_AMONG_WORDS,
                (false, false) if table::STOP_WORDS.contains(&last.as_str()) => continue,
                (false, false) => table::DEFINES_PLAIN,
            };
            if let [.., parent, name] = parts.as_slice() {
                let ratio = table::DEFINES_QUALIFIED / table::DEFINES_SYMBOL;
                push(format!("{parent}.{name}"), weight * ratio);
            }
            push(last.clone(), weight);
            if let Some(name) = parts_of(run).last().filter(|_| alone || is_of_code(run)) {
                spelt.push((name.to_owned(), weight * table::SPELT));
            }
        }
        spelt.truncate(NAMES_MAX);
        (self.names, self.spelt) = (names, spelt);
    }
}

/// A name in its parts, in lower case: `net::Pool.take()` is net, pool, take.
pub(crate) fn parts_of_name(name: &str) -> Vec<String> {
    parts_of(name).map(str::to_lowercase).collect()
}

/// A name in its parts, as they are spelt.
fn parts_of(name: &str) -> impl Iterator<Item = &str> {
    let parts = name.split(|letter: char| {
        !(letter.is_alphanumeric() || matches!(letter, '_' | '$' | '-' | '?' | '!'))
    });
    let parts = parts.map(|part| part.trim_matches('-'));
    parts.filter(|part| !part.is_empty())
}

/// Whether a run of letters is one that prose does not have: `a_b`, `aB`, `a::b`, `a.b`, `a()`.
fn is_of_code(run: &str) -> bool {
    let inner = |letter: char| run.trim_matches(letter).contains(letter);
    let humps = run.chars().zip(run.chars().skip(1));
    inner('_')
        || run.contains("::")
        || run.contains("->")
        || run.contains('(')
        || (inner('.') && !run.ends_with('.'))
        || humps
            .filter(|(a, b)| a.is_lowercase() && b.is_uppercase())
            .count()
            > 0
}

/// What a question looks like.
fn class(query: &str) -> Class {
    if query.split_whitespace().count() != 1 {
        return Class::Words;
    }
    let name = query.rsplit('/').next().unwrap_or(query);
    let extension = name.rsplit_once('.').map(|(_, extension)| extension);
    let known = extension.is_some_and(|extension| {
        !crate::code::parse::Language::detect(&format!("x.{extension}"), b"")
            .name()
            .eq("text")
            || matches!(extension, "txt" | "lock" | "cfg")
    });
    if query.contains('/') || (known && !query.contains("::") && !query.contains('(')) {
        return Class::Path;
    }
    Class::Symbol
}

/// The words of a question.
fn wanted(query: &str, class: Class) -> Vec<Wanted> {
    let words = words_of(query);
    let mut wanted: Vec<Wanted> = Vec::new();
    let mut push = |text: &str, weight: f32, place: usize| match wanted
        .iter()
        .position(|known| known.text == text)
    {
        Some(at) => wanted[at].weight = wanted[at].weight.max(weight),
        None if wanted.len() < TERMS_MAX => wanted.push(Wanted {
            text: text.to_owned(),
            weight,
            place,
        }),
        None => {}
    };
    let is_stop = |text: &str| class == Class::Words && table::STOP_WORDS.contains(&text);
    // The stem of such a word says as little.
    let is_stop_at = |at: usize| {
        let (text, _, part) = &words[at];
        is_stop(text) || at > 0 && *part == Part::Stem && is_stop(&words[at - 1].0)
    };
    let all_stop = (0..words.len()).all(is_stop_at);
    for (at, (text, place, part)) in words.iter().enumerate() {
        let stem_follows = words
            .get(at + 1)
            .is_some_and(|next| next.2 == Part::Stem && next.1 == *place);
        let weight = match part {
            Part::Whole => table::WHOLE,
            Part::Stem => table::STEM,
            Part::Piece if stem_follows => table::PIECE_BESIDE_STEM,
            Part::Piece => table::PIECE,
        };
        let stop = !all_stop && is_stop_at(at);
        push(
            text,
            if stop {
                weight * table::STOP_WORD
            } else {
                weight
            },
            *place,
        );
    }
    if class == Class::Words {
        let pieces: Vec<_> = words
            .iter()
            .filter(|(_, _, part)| *part == Part::Piece)
            .collect();
        for pair in pieces.windows(2) {
            if let [(one, place, _), (two, ..)] = pair
                && !is_stop(one)
                && !is_stop(two)
            {
                push(&format!("{one}{two}"), table::PAIR, *place);
            }
        }
    }
    wanted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_classed_by_its_looks() {
        for (query, wanted) in [
            ("Gate::pass", Class::Symbol),
            ("parse_file", Class::Symbol),
            ("requests.Session", Class::Symbol),
            ("retry", Class::Symbol),
            ("crates/gate/src/pass.rs", Class::Path),
            ("pass.rs", Class::Path),
            ("src/code", Class::Path),
            ("where are retries bounded", Class::Words),
        ] {
            assert_eq!(class(query), wanted, "{query}");
        }
    }

    #[test]
    fn names_are_found_among_words() {
        let plan = Plan::of("where is `Gate::pass` called from stdio_child");
        let names: Vec<&str> = plan.names.iter().map(|(name, _)| name.as_str()).collect();
        for name in ["gate.pass", "pass", "stdio_child"] {
            assert!(names.contains(&name), "{names:?}");
        }
        assert!(!names.contains(&"where"));
    }

    #[test]
    fn words_that_say_little_count_little() {
        let plan = Plan::of("how is the timeout computed");
        let weight = |text: &str| {
            let found = plan.wanted.iter().find(|wanted| wanted.text == text);
            found.map(|wanted| wanted.weight).unwrap()
        };
        assert!(weight("the") < 0.1 && weight("timeout") > 0.4);
        let plan = Plan::of("where are these");
        assert!(plan.wanted.iter().all(|wanted| wanted.weight > 0.4));
        let plan = Plan::of("where is it bounded");
        assert!(
            plan.wanted
                .iter()
                .all(|one| one.weight < 0.1 || one.place == 3)
        );
        assert!(
            Plan::of("the is")
                .wanted
                .iter()
                .all(|wanted| wanted.weight > 0.4)
        );
    }
}
