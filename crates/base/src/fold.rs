//! Names that are equal but for their case, by Unicode's simple case folding.

/// Whether two names are equal under Unicode simple case folding.
pub fn equal_folded(one: &str, other: &str) -> bool {
    if one.is_ascii() && other.is_ascii() {
        return one.eq_ignore_ascii_case(other);
    }
    one.chars().map(fold).eq(other.chars().map(fold))
}

/// A name with its case folded.
pub fn folded(name: &str) -> String {
    name.chars().map(fold).collect()
}

/// Folds the case of one character by the mappings that give one character. It takes every pair for equal
/// that Unicode's simple folding does, and `ı` and `i` besides, which Java's comparison takes for equal.
fn fold(c: char) -> char {
    if c.is_ascii() {
        return c.to_ascii_lowercase();
    }
    let upper = single(c.to_uppercase()).unwrap_or(c);
    single(upper.to_lowercase()).unwrap_or(upper)
}

fn single(mut chars: impl Iterator<Item = char>) -> Option<char> {
    let first = chars.next()?;
    chars.next().is_none().then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_is_folded_as_unicode_does_it() {
        for (one, other) in [
            ("name", "NAME"),
            ("arguments", "argument\u{17f}"),
            ("task", "tas\u{212a}"),
            ("straße", "STRA\u{1e9e}E"),
            ("\u{b5}", "\u{3bc}"),
            ("ς", "Σ"),
            ("ǆ", "ǅ"),
        ] {
            assert!(equal_folded(one, other), "{one} {other}");
            assert_eq!(folded(one), folded(other));
        }
        for (one, other) in [("name", "names"), ("a", "á"), ("ss", "ß"), ("", "a")] {
            assert!(!equal_folded(one, other), "{one} {other}");
        }
    }
}
