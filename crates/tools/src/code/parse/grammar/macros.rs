//! Takes macros out of C and C++ that hide a definition from the grammar.
//!
//! A grammar reads a file as the preprocessor has not seen it. To it, `class API_EXPORT Foo : Bar {` is a function of the
//! type `API_EXPORT`, and `NAMESPACE_BEGIN(net)` on a line of its own is the type of what follows. Such macros become
//! spaces, one for each byte, so that every place in the text stays what it was. Nothing is expanded, and a macro is
//! left where it may be a type, a value or a definition.

use std::borrow::Cow;
use std::ops::Range;

/// Words that begin a type.
const KEYWORDS: &[&[u8]] = &[b"class", b"struct", b"union", b"enum"];
/// Words behind the name of a class that are none.
const ENDINGS: &[&[u8]] = &[b"final", b"sealed", b"abstract"];
/// Words between such a keyword and the name.
const WORDS_MAX: usize = 8;
/// Bytes of a macro's arguments.
const ARGUMENTS_MAX: usize = 400;
/// Parts of names of macros that stand on a line of their own without arguments.
const ALONE: &[&[u8]] = &[b"NAMESPACE", b"NS", b"BEGIN", b"END", b"OBJECT", b"DECLS"];

/// The text without such macros.
pub(super) fn blanked(text: &[u8]) -> Cow<'_, [u8]> {
    let mut bare = Cow::Borrowed(text);
    let mut before = Before::Start;
    let mut start = 0;
    while start < text.len() {
        let end = memchr::memchr(b'\n', &text[start..]).map_or(text.len(), |at| start + at + 1);
        let line = text[start..end].trim_ascii();
        if is_alone(line) && before.ends_statement() && begins_statement(text, end) {
            blank(&mut bare, start..end);
            before = Before::Start;
        } else {
            for hidden in headers(text, start..end) {
                blank(&mut bare, hidden);
            }
            before = before.then(line);
        }
        start = end;
    }
    bare
}

/// Replaces bytes by spaces; lines stay lines.
fn blank(bare: &mut Cow<'_, [u8]>, part: Range<usize>) {
    for byte in &mut bare.to_mut()[part] {
        if !byte.is_ascii_whitespace() {
            *byte = b' ';
        }
    }
}

/// What the last line that is not blank was.
enum Before {
    /// There was none, or one that is gone.
    Start,
    /// One with this last byte.
    Ends(u8),
    /// A comment or an instruction to the preprocessor.
    Apart,
}

impl Before {
    fn then(self, line: &[u8]) -> Before {
        match line.last() {
            None => self,
            Some(_) if line.starts_with(b"#") || line.starts_with(b"//") => Before::Apart,
            Some(_) if line.ends_with(b"*/") => Before::Apart,
            Some(last) => Before::Ends(*last),
        }
    }

    fn ends_statement(&self) -> bool {
        match self {
            Before::Start | Before::Apart => true,
            Before::Ends(last) => matches!(last, b';' | b'{' | b'}' | b':'),
        }
    }
}

/// Whether a line is one macro that ends no statement: `Q_OBJECT`, `NAMESPACE_BEGIN(net)`.
fn is_alone(line: &[u8]) -> bool {
    let name = &line[..word(line, 0)];
    if name.len() < 3 || !is_loud(name) {
        return false;
    }
    let rest = line[name.len()..].trim_ascii();
    if rest.is_empty() {
        let mut parts = name.split(|byte| *byte == b'_');
        return parts.any(|part| ALONE.contains(&part));
    }
    arguments(rest, 0) == Some(rest.len())
}

/// Whether what comes at a place, behind blank lines, begins a statement. `name(` does not: it may need a type.
fn begins_statement(text: &[u8], at: usize) -> bool {
    let rest = text[at..].trim_ascii_start();
    match rest.first() {
        None | Some(b'}' | b'#' | b'/' | b'[' | b'~') => true,
        Some(first) if is_letter(*first) => {
            let after = skip(rest, word(rest, 0), b" \t");
            let name = &rest[..word(rest, 0)];
            rest.get(after) != Some(&b'(') || is_loud(name)
        }
        Some(_) => false,
    }
}

/// The macros between keyword and name in one line, where a body or bases follow.
fn headers(text: &[u8], line: Range<usize>) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut at = line.start;
    while at < line.end {
        let end = word(text, at);
        if end == at {
            at += 1;
            continue;
        }
        if KEYWORDS.contains(&&text[at..end]) {
            found.extend(header(text, end, line.end));
        }
        at = end;
    }
    found
}

/// The macros behind a keyword that ends at `at`.
fn header(text: &[u8], at: usize, line_end: usize) -> Option<Range<usize>> {
    let line = &text[..line_end];
    let mut words: Vec<Range<usize>> = Vec::new();
    let mut next = skip(line, at, b" \t");
    while words.len() < WORDS_MAX {
        let end = qualified(line, next);
        if end == next {
            break;
        }
        let behind = skip(line, end, b" \t");
        let end = arguments(line, behind).unwrap_or(end);
        // `enum class` has two keywords.
        if !(words.is_empty() && KEYWORDS.contains(&&line[next..end])) {
            words.push(next..end);
        }
        next = skip(line, end, b" \t");
    }
    while words
        .last()
        .is_some_and(|last| ENDINGS.contains(&&line[last.clone()]))
    {
        words.pop();
    }
    let (name, macros) = words.split_last()?;
    let (first, last) = (macros.first()?, macros.last()?);
    let is_macro = |part: &Range<usize>| is_macro(&line[part.start..word(line, part.start)]);
    let has_body = has_body(text, next);
    (macros.iter().all(is_macro) && !line[name.clone()].contains(&b'(') && has_body)
        .then_some(first.start..last.end)
}

/// Whether a body, bases or the arguments of a template come at a place.
fn has_body(text: &[u8], at: usize) -> bool {
    let at = skip(text, at, b" \t\r\n");
    match text.get(at) {
        Some(b'{' | b'<') => true,
        Some(b':') => {
            let of = skip(text, at + 1, b" \t\r\n");
            // `enum A b : 4` is a field of four bits.
            text.get(at + 1) != Some(&b':') && text.get(of).is_some_and(|of| is_letter(*of))
        }
        _ => false,
    }
}

/// Whether a word between keyword and name is a macro; of a library with small letters it says what it is for.
fn is_macro(word: &[u8]) -> bool {
    let large = word.to_ascii_uppercase();
    let has = |part: &[u8]| memchr::memmem::find(&large, part).is_some();
    is_loud(word)
        || [&b"EXPORT"[..], b"DLL", b"API", b"ALIGN"]
            .into_iter()
            .any(has)
}

/// Whether a word has no small letter, and more than one sign.
fn is_loud(word: &[u8]) -> bool {
    word.len() > 1
        && (word[0].is_ascii_alphabetic() || word[0] == b'_')
        && !word.iter().any(u8::is_ascii_lowercase)
}

fn is_letter(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_' || byte >= 0x80
}

/// Where a word that begins at a place ends.
fn word(text: &[u8], at: usize) -> usize {
    let is_part = |byte: &u8| is_letter(*byte) || byte.is_ascii_digit();
    let rest = text.get(at..).unwrap_or_default();
    at + rest.iter().take_while(|byte| is_part(byte)).count()
}

/// The same, where it may be `a::b`.
fn qualified(text: &[u8], at: usize) -> usize {
    let mut end = word(text, at);
    while end > at && text.get(end..end + 2) == Some(b"::") && word(text, end + 2) > end + 2 {
        end = word(text, end + 2);
    }
    end
}

/// Where arguments in parentheses that begin at a place end, if there are any.
fn arguments(text: &[u8], at: usize) -> Option<usize> {
    let rest = text.get(at..)?;
    let mut depth = 0_usize;
    for (length, byte) in rest.iter().take(ARGUMENTS_MAX).enumerate() {
        match byte {
            b'(' => depth += 1,
            b')' => depth = depth.checked_sub(1)?,
            b';' | b'{' | b'}' => return None,
            _ => {}
        }
        if depth == 0 {
            return (length > 0).then_some(at + length + 1);
        }
    }
    None
}

fn skip(text: &[u8], at: usize, what: &[u8]) -> usize {
    let rest = text.get(at..).unwrap_or_default();
    at + rest.iter().take_while(|byte| what.contains(byte)).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let bare = blanked(text.as_bytes());
        let bare = String::from_utf8_lossy(&bare);
        assert_eq!(bare.len(), text.len());
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(words(&bare), words(expected));
    }

    #[test]
    fn macros_before_a_name_are_taken_out() {
        check(
            "class API_EXPORT Foo : public Bar {};",
            "class Foo : public Bar {};",
        );
        check(
            "struct A_EXPORT OLD(\"x\") Foo final\n{\n};",
            "struct Foo final\n{\n};",
        );
        check(
            "enum class API Colour : int { Red };",
            "enum class Colour : int { Red };",
        );
        check(
            "class wxDLLIMPEXP_CORE wxWindow : wxBase {",
            "class wxWindow : wxBase {",
        );
        check(
            "template <> class API Of<int> {",
            "template <> class Of<int> {",
        );
        check("class API a::Foo {", "class a::Foo {");
    }

    #[test]
    fn types_and_values_stay() {
        for text in [
            "struct FOO bar = {0};",
            "struct stat st{};",
            "enum COLOUR c : 4;",
            "struct FOO make(int a) {",
            "class Foo final {",
            "struct { int A; } Foo;",
            "class API Foo;",
            "enum E {\n  PENDING\n};",
            "int a = f(1,\n  MACRO(x)\n);",
            "}\nTEST(Foo, Bar)\n{\n}",
            "}\nSTATIC(int)\nadd(int a)\n{\n}",
            "if (x)\n  STOP(1)\nelse y();",
        ] {
            check(text, text);
        }
    }

    #[test]
    fn macros_that_are_a_line_are_taken_out() {
        check(
            "#pragma once\nNAMESPACE_BEGIN(net)\nclass A {\n",
            "#pragma once\nclass A {\n",
        );
        check(
            "LIB_BEGIN_NAMESPACE\nint a;\nLIB_END_NAMESPACE\n",
            "int a;\n",
        );
        check(
            "class A {\n  Q_OBJECT\n  PROPERTY(int, a)\n public:\n",
            "class A {\n public:\n",
        );
    }
}
