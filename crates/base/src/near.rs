//! Names that are spelt alike, so that a message can say which one was meant.

/// Longest name that is compared; longer ones are simply far apart.
const LETTERS_MAX: usize = 64;

/// Letters to put in, leave out or replace (Levenshtein, 1965).
pub fn distance(one: &str, other: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (one.chars().collect(), other.chars().collect());
    if a.len().max(b.len()) > LETTERS_MAX {
        return usize::MAX;
    }
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = i;
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

/// The known name that was most likely meant: one within a third of its letters, or the only one that begins so.
pub fn meant<'n>(written: &str, known: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    let known: Vec<&str> = known.into_iter().collect();
    let far = 1 + written.len().min(LETTERS_MAX) / 3;
    let near = known.iter().map(|name| (distance(written, name), *name));
    if let Some((_, name)) = near.filter(|(away, _)| *away <= far).min() {
        return Some(name);
    }
    let mut begin = known.iter().filter(|name| {
        written.len() > 1 && (name.starts_with(written) || written.starts_with(**name))
    });
    match (begin.next(), begin.next()) {
        (Some(name), None) => Some(name),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_meant() {
        let known = [
            "connections",
            "rate",
            "stages",
            "headers",
            "timeout",
            "agents",
        ];
        assert_eq!(meant("conections", known), Some("connections"));
        assert_eq!(meant("header", known), Some("headers"));
        assert_eq!(meant("agent", known), Some("agents"));
        assert_eq!(meant("time", known), Some("timeout"));
        assert_eq!(meant("rats", known), Some("rate"));
        assert_eq!(meant("zebra", known), None);
        assert_eq!(meant(&"x".repeat(100_000), known), None);
    }
}
