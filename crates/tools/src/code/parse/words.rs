//! The words of code: identifiers whole and in parts, and words of prose, each also without its ending.
//!
//! `HTTPServerError`, `http_server_error` and `httpServerError` are one whole (`httpservererror`) and the same
//! three parts, so that a name is found however somebody writes it. An index and a query must cut in the same
//! way: both come here. What is longer than a name can be (hashes, encoded data) is left to exact search.

mod stem;

pub use stem::stem;

/// Bytes of a run of letters over which it is no name.
pub const RUN_BYTES_MAX: usize = 160;
/// Parts of one run that are kept.
pub const PARTS_MAX: usize = 24;

/// What a word is in the run that it stands in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Part {
    /// A whole identifier that has parts, its letters joined.
    Whole,
    /// A part of an identifier, or a word that has no parts.
    #[default]
    Piece,
    /// The part before it without its ending.
    Stem,
}

/// The words of a text, one after the other. Positions never go down; words of one place share one.
pub struct Words<'a> {
    text: &'a str,
    /// Where the next run is looked for.
    next: usize,
    position: usize,
    /// The words of the run in hand, and which of them is next.
    queue: Vec<Word>,
    at: usize,
    /// The letters of the words of the queue.
    letters: String,
    /// The parts of the run in hand.
    parts: Vec<(usize, usize)>,
}

/// A word: its letters are `letters[from..to]` of [`Words`].
#[derive(Clone, Copy, Debug, Default)]
struct Word {
    from: usize,
    to: usize,
    start: usize,
    end: usize,
    position: usize,
    part: Part,
}

impl<'a> Words<'a> {
    /// The words of `text`.
    pub fn of(text: &'a str) -> Words<'a> {
        let (queue, letters, parts) = (Vec::new(), String::new(), Vec::new());
        Words {
            text,
            next: 0,
            position: 0,
            queue,
            at: 0,
            letters,
            parts,
        }
    }

    /// The words of another text, in the memory of these.
    pub fn turn(self, text: &str) -> Words<'_> {
        let (mut queue, mut letters) = (self.queue, self.letters);
        queue.clear();
        letters.clear();
        Words {
            queue,
            letters,
            parts: self.parts,
            ..Words::of(text)
        }
    }

    /// Goes to the next word; false after the last one.
    pub fn advance(&mut self) -> bool {
        self.at += 1;
        while self.at >= self.queue.len() {
            let Some(run) = run(self.text, self.next) else {
                return false;
            };
            self.next = run.end;
            self.cut(run);
        }
        true
    }

    /// Goes to the next word that may be one of those of a sieve; false after the last one. A run that is passed over is
    /// one place, whatever its parts.
    pub fn advance_among(&mut self, sieve: &Sieve) -> bool {
        loop {
            self.at += 1;
            while self.at >= self.queue.len() {
                let Some(run) = run(self.text, self.next) else {
                    return false;
                };
                self.next = run.end;
                match sieve.passes_any(&self.text.as_bytes()[run.start..run.end]) {
                    true => self.cut(run),
                    false => self.position += 1,
                }
            }
            if sieve.passes(self.text().as_bytes()) {
                return true;
            }
        }
    }

    /// The word in hand; before the first and after the last one, an empty one.
    fn now(&self) -> Word {
        self.queue.get(self.at).copied().unwrap_or_default()
    }

    /// The word, in lower case.
    pub fn text(&self) -> &str {
        let now = self.now();
        &self.letters[now.from..now.to]
    }

    /// The first byte of what it was made of.
    pub fn start(&self) -> usize {
        self.now().start
    }

    /// The byte after the last one of what it was made of.
    pub fn end(&self) -> usize {
        self.now().end
    }

    /// Its place among the words, from 0.
    pub fn position(&self) -> usize {
        self.now().position
    }

    /// What it is.
    pub fn part(&self) -> Part {
        self.now().part
    }

    /// Makes the words of a run.
    fn cut(&mut self, Run { start, end, is_low }: Run) {
        self.letters.clear();
        self.queue.clear();
        self.at = 0;
        if end - start > RUN_BYTES_MAX {
            self.position += 1;
            return;
        }
        if is_low {
            // Most words have no parts.
            self.letters.push_str(&self.text[start..end]);
            return self.piece(0, start, end);
        }
        let run = &self.text[start..end];
        let mut found = std::mem::take(&mut self.parts);
        parts(run, &mut found);
        if found.len() > 1 {
            let from = self.letters.len();
            lower(run, &mut self.letters);
            self.push(from, start, end, Part::Whole);
        }
        for (at, to) in &found {
            let from = self.letters.len();
            lower(&run[*at..*to], &mut self.letters);
            self.piece(from, start + at, start + to);
        }
        self.parts = found;
    }

    /// A part, whose letters begin at `from`: itself, without its ending, and what its digits divide.
    fn piece(&mut self, from: usize, start: usize, end: usize) {
        let to = self.letters.len();
        self.push(from, start, end, Part::Piece);
        let (rest, tail) = stem::parted(&self.letters[from..to]);
        let rest = from + rest.len();
        if rest < to || !tail.is_empty() {
            self.letters.extend_from_within(from..rest);
            self.letters.push_str(tail);
            self.push(to, start, end, Part::Stem);
        }
        if self.letters[from..to].bytes().any(|b| b.is_ascii_digit()) {
            let word = self.letters[from..to].to_owned();
            for bit in digits(&word) {
                let from = self.letters.len();
                self.letters.push_str(bit);
                self.push(from, start, end, Part::Piece);
            }
        }
        self.position += 1;
    }

    fn push(&mut self, from: usize, start: usize, end: usize, part: Part) {
        if self.letters.len() > from {
            let (to, position) = (self.letters.len(), self.position);
            self.queue.push(Word {
                from,
                to,
                start,
                end,
                position,
                part,
            });
        }
    }
}

/// Some words by their first two letters: most others are seen by these to be none of them.
pub struct Sieve([bool; 1 << 10]);

impl Sieve {
    /// The sieve that some words pass, in lower case.
    pub fn of<'w>(words: impl Iterator<Item = &'w str>) -> Sieve {
        let mut sieve = Sieve([false; 1 << 10]);
        for word in words {
            sieve.0[Sieve::place(word.as_bytes())] = true;
        }
        sieve
    }

    fn passes(&self, word: &[u8]) -> bool {
        self.0[Sieve::place(word)]
    }

    /// Whether a name may have a word that passes. Words begin behind underscores and what is in no name, at capitals, and
    /// where digits and letters meet; their stems begin alike.
    pub fn passes_any(&self, name: &[u8]) -> bool {
        if name.iter().all(u8::is_ascii_lowercase) {
            return self.passes(name);
        }
        let mut before = b'_';
        for (at, byte) in name.iter().enumerate() {
            let begins = byte.is_ascii_alphanumeric()
                && (!before.is_ascii_alphanumeric()
                    || byte.is_ascii_uppercase()
                    || before.is_ascii_digit() != byte.is_ascii_digit());
            before = *byte;
            if !byte.is_ascii() {
                return true;
            }
            if begins {
                let mut after = name[at + 1..].iter().filter(|byte| **byte != b'_');
                let pair = [*byte, after.next().copied().unwrap_or(0)];
                if self.passes(&pair) || self.passes(&pair[..1]) {
                    return true;
                }
            }
        }
        false
    }

    fn place(word: &[u8]) -> usize {
        let letter = |at| usize::from(word.get(at).copied().unwrap_or(0) & 31);
        letter(0) << 5 | letter(1)
    }
}

/// The runs of letters, digits and underscores of a text, in order: what names are made of. The words of a text are
/// those of its runs, one after the other.
pub fn runs(text: &str) -> impl Iterator<Item = &str> {
    let mut from = 0;
    std::iter::from_fn(move || {
        let run = run(text, from)?;
        from = run.end;
        Some(&text[run.start..run.end])
    })
}

/// Letters, digits and underscores that stand together.
#[derive(Clone, Copy)]
struct Run {
    start: usize,
    end: usize,
    /// Whether there are only small ASCII letters and digits.
    is_low: bool,
}

/// What a byte is in a run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A small ASCII letter or a digit.
    Low,
    /// A capital or an underscore.
    High,
    /// Part of a character that is looked at as a whole.
    Other,
    /// Nothing of it.
    Border,
}

/// What each byte is: every byte of every file is looked up.
const KINDS: [Kind; 256] = {
    let mut kinds = [Kind::Border; 256];
    let mut byte = 0;
    while byte < kinds.len() {
        kinds[byte] = match byte as u8 {
            b'a'..=b'z' | b'0'..=b'9' => Kind::Low,
            b'A'..=b'Z' | b'_' => Kind::High,
            0x80.. => Kind::Other,
            _ => Kind::Border,
        };
        byte += 1;
    }
    kinds
};

/// The next run at or after `from`. In a script without spaces each character is a run.
fn run(text: &str, from: usize) -> Option<Run> {
    let mut kinds = text.as_bytes()[from..]
        .iter()
        .map(|byte| KINDS[usize::from(*byte)]);
    let start = from + kinds.position(|kind| kind != Kind::Border)?;
    let (mut end, mut is_low) = (start, true);
    for byte in &text.as_bytes()[start..] {
        match KINDS[usize::from(*byte)] {
            Kind::Low => {}
            Kind::High => is_low = false,
            Kind::Border => break,
            // Most of code is ASCII: the rest is looked at character by character.
            Kind::Other => return run_of_any(text, start),
        }
        end += 1;
    }
    Some(Run { start, end, is_low })
}

fn run_of_any(text: &str, from: usize) -> Option<Run> {
    let is_word = |c: char| c == '_' || c.is_alphanumeric();
    let mut characters = text[from..]
        .char_indices()
        .skip_while(|(_, c)| !is_word(*c));
    let (start, first) = characters.next()?;
    let end = match is_dense(first) {
        true => Some(start + first.len_utf8()),
        false => characters
            .find(|(_, c)| !is_word(*c) || is_dense(*c))
            .map(|(at, _)| at),
    };
    Some(Run {
        start: from + start,
        end: end.map_or(text.len(), |end| from + end),
        is_low: false,
    })
}

/// Scripts that are written without spaces: Chinese, Japanese, and Thai.
fn is_dense(c: char) -> bool {
    matches!(c, '\u{0E00}'..='\u{0E7F}' | '\u{3040}'..='\u{30FF}' | '\u{3400}'..='\u{4DBF}'
        | '\u{4E00}'..='\u{9FFF}' | '\u{F900}'..='\u{FAFF}' | '\u{20000}'..='\u{2FFFF}')
}

/// The parts of an identifier: `parseHTTPHeader2` is `parse`, `HTTP`, `Header2`.
fn parts(run: &str, parts: &mut Vec<(usize, usize)>) {
    parts.clear();
    let is_plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    if run.bytes().all(is_plain) {
        // Most words have no parts.
        parts.push((0, run.len()));
        return;
    }
    let mut start = 0;
    let mut border = |at: usize, before: char, c: char, after: Option<char>| {
        if divides(before, c, after) {
            parts.push((start, at));
            start = at;
        }
    };
    if run.is_ascii() {
        let bytes = run.as_bytes();
        for at in 1..bytes.len() {
            // Before a small letter or a digit nothing divides.
            if KINDS[usize::from(bytes[at])] == Kind::High {
                let after = bytes.get(at + 1).copied().map(char::from);
                border(at, char::from(bytes[at - 1]), char::from(bytes[at]), after);
            }
        }
    } else {
        let mut before: Option<char> = None;
        let mut characters = run.char_indices().peekable();
        while let Some((at, c)) = characters.next() {
            let after = characters.peek().map(|(_, c)| *c);
            if let Some(before) = before.replace(c) {
                border(at, before, c, after);
            }
        }
    }
    parts.push((start, run.len()));
    parts.retain_mut(|(start, end)| {
        let part = &run[*start..*end];
        *start += part.len() - part.trim_start_matches('_').len();
        *start < *end
    });
    parts.truncate(PARTS_MAX);
}

/// Whether a part begins at `c`: after an underscore, at a capital after a small letter or a digit, and at the
/// last capital of an acronym that goes on with a small letter.
fn divides(before: char, c: char, after: Option<char>) -> bool {
    if c == '_' {
        return before != '_';
    }
    let small = |c: char| c.is_lowercase();
    c.is_uppercase() && (small(before) || before.is_numeric())
        || c.is_uppercase()
            && before.is_uppercase()
            && after.is_some_and(|after| small(after) && after != 's')
}

/// What the digits of a word divide: `sha256` is `sha` and `256`. Single characters are too common to be kept.
fn digits(word: &str) -> impl Iterator<Item = &str> {
    let is_mixed =
        word.bytes().any(|b| b.is_ascii_digit()) && word.bytes().any(|b| !b.is_ascii_digit());
    let letters = word.split(|c: char| c.is_ascii_digit());
    let numbers = word.split(|c: char| !c.is_ascii_digit());
    letters
        .chain(numbers)
        .filter(move |bit| is_mixed && bit.len() > 1)
}

/// The letters of a run in lower case, without underscores.
fn lower(run: &str, into: &mut String) {
    if run.is_ascii() {
        let from = into.len();
        match run.as_bytes().contains(&b'_') {
            true => run.split('_').for_each(|part| into.push_str(part)),
            false => into.push_str(run),
        }
        into[from..].make_ascii_lowercase();
    } else {
        into.extend(
            run.chars()
                .filter(|c| *c != '_')
                .flat_map(char::to_lowercase),
        );
    }
}

/// A word of a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Term {
    /// The run as it was typed.
    pub typed: String,
    /// Its letters joined, in lower case.
    pub whole: String,
    /// Its parts in lower case; one, equal to `whole`, where it has no parts.
    pub parts: Vec<String>,
    /// Each part without its ending.
    pub stems: Vec<String>,
    /// Whether it says little in a question: `where`, `the`, `how`.
    pub common: bool,
}

/// Terms of a query that are kept.
pub const TERMS_MAX: usize = 64;

/// The terms of a query, in order.
pub fn terms(query: &str) -> Vec<Term> {
    let mut terms = Vec::new();
    let mut from = 0;
    while let Some(run) = run(query, from) {
        from = run.end;
        let typed = &query[run.start..run.end];
        if typed.len() <= RUN_BYTES_MAX && terms.len() < TERMS_MAX {
            terms.extend(term(typed));
        }
    }
    terms
}

fn term(typed: &str) -> Option<Term> {
    let joined = |run: &str| {
        let mut letters = String::new();
        lower(run, &mut letters);
        letters
    };
    let whole = joined(typed);
    if whole.is_empty() {
        return None;
    }
    let mut found = Vec::new();
    parts(typed, &mut found);
    let parts: Vec<_> = found
        .into_iter()
        .map(|(from, to)| joined(&typed[from..to]))
        .collect();
    let stems = parts.iter().map(|part| stem(part).into_owned()).collect();
    let common = COMMON.binary_search(&whole.as_str()).is_ok();
    Some(Term {
        typed: typed.to_owned(),
        whole,
        parts,
        stems,
        common,
    })
}

/// Words of questions that say little about what is asked for, sorted.
const COMMON: &[&str] = &[
    "a", "about", "all", "an", "and", "any", "are", "as", "at", "be", "been", "by", "can", "code",
    "could", "did", "do", "does", "each", "every", "find", "for", "from", "get", "gets", "given",
    "had", "has", "have", "how", "i", "if", "in", "into", "is", "it", "its", "me", "my", "of",
    "on", "or", "our", "show", "so", "some", "such", "than", "that", "the", "their", "them",
    "then", "there", "these", "they", "this", "those", "through", "to", "use", "used", "uses",
    "using", "was", "we", "were", "what", "when", "where", "whether", "which", "who", "why",
    "will", "with", "you", "your",
];

#[cfg(test)]
mod tests {
    use super::*;

    /// `whole=`, `piece`, `~stem`, each with its position.
    fn show(text: &str) -> String {
        let mut words = Words::of(text);
        let mut shown = Vec::new();
        while words.advance() {
            let word = match words.part() {
                Part::Whole => format!("{}=", words.text()),
                Part::Piece => words.text().to_owned(),
                Part::Stem => format!("~{}", words.text()),
            };
            shown.push(format!("{word}@{}", words.position()));
        }
        shown.join(" ")
    }

    #[track_caller]
    fn check(text: &str, expected: &str) {
        assert_eq!(show(text), expected);
    }

    #[test]
    fn one_name_has_one_whole_however_it_is_written() {
        check("HTTPServerLoop", "httpserverloop=@0 http@0 server@1 loop@2");
        check(
            "http_server_loop",
            "httpserverloop=@0 http@0 server@1 loop@2",
        );
        check("httpServerLoop", "httpserverloop=@0 http@0 server@1 loop@2");
        check(
            "HTTP_SERVER_LOOP",
            "httpserverloop=@0 http@0 server@1 loop@2",
        );
    }

    #[test]
    fn words_of_prose_have_no_whole() {
        check("the pool, then", "the@0 pool@1 then@2");
        check("retries", "retries@0 ~retry@0");
    }

    #[test]
    fn acronyms_digits_and_underscores_divide() {
        check("parseURLs", "parseurls=@0 parse@0 ~pars@0 urls@1 ~url@1");
        check("__init__", "init@0");
        check("sha256", "sha256@0 sha@0 256@0");
        check("x2", "x2@0");
        check("utf8Decode", "utf8decode=@0 utf8@0 utf@0 decode@1 ~decod@1");
        check("IOError", "ioerror=@0 io@0 error@1");
        check("_", "");
        check("__", "");
    }

    #[test]
    fn other_scripts_are_words_and_those_without_spaces_are_characters() {
        check("Поиск кода", "поиск@0 кода@1");
        check("検索だ", "検@0 索@1 だ@2");
        check("Straße", "straße@0");
    }

    #[test]
    fn what_is_too_long_for_a_name_is_one_place_without_a_word() {
        let long = "a".repeat(RUN_BYTES_MAX + 1);
        check(&format!("one {long} two"), "one@0 two@2");
    }

    #[test]
    fn places_go_up_and_stand_in_the_text() {
        let text = "fn HTTPGet2(url: &str) -> Result<ÄPart, _> { naïve_café検索() }";
        let (mut words, mut last) = (Words::of(text), 0);
        while words.advance() {
            assert!(words.position() >= last && text.get(words.start()..words.end()).is_some());
            last = words.position();
        }
        assert!(last > 5);
        let mut again = words.turn("ab CdEf");
        let mut found = Vec::new();
        while again.advance() {
            found.push((again.text().to_owned(), again.position()));
        }
        let wanted = [("ab", 0), ("cdef", 1), ("cd", 1), ("ef", 2)];
        assert_eq!(found, wanted.map(|(text, at)| (text.to_owned(), at)));
    }

    #[test]
    fn a_query_knows_its_terms() {
        let terms = terms("where is UserStore.getById cached?");
        let common: Vec<_> = terms.iter().map(|term| term.common).collect();
        assert_eq!(common, [true, true, false, false, false]);
        assert_eq!(terms[3].whole, "getbyid");
        assert_eq!(terms[3].parts, ["get", "by", "id"]);
        assert_eq!(terms[4].stems, ["cach"]);
        assert!(COMMON.is_sorted());
    }

    #[test]
    fn a_sieve_lets_every_word_through_that_is_asked_for() {
        let text = "Caches cached_value, HTTPServerError v2x i18n; retries a retried Ünder naïve 7zip \
            parse_Files x86_64 the ValidationOfIt classes_ _hidden é日本 index indices a_b__c aB sha256sum2 \
            utf8Decode HTTP2 __x__ A1 naïve_Part";
        let all = |text| {
            let (mut words, mut all) = (Words::of(text), Vec::new());
            while words.advance() {
                all.push((words.text().to_owned(), words.start()));
            }
            all
        };
        for (asked, _) in all(text) {
            let sieve = Sieve::of([asked.as_str(), "unasked"].into_iter());
            let (mut words, mut found) = (Words::of(text), Vec::new());
            while words.advance_among(&sieve) {
                found.push((words.text().to_owned(), words.start()));
            }
            found.retain(|(word, _)| *word == asked);
            let mut plain = all(text);
            plain.retain(|(word, _)| *word == asked);
            assert_eq!(found, plain);
        }
    }
}
