//! Words that are spelt alike.

/// How many letters must be changed, put in, left out or swapped with their neighbour, if at most `most`.
pub(crate) fn distance(one: &str, other: &str, most: usize) -> Option<usize> {
    let (a, b): (Vec<char>, Vec<char>) = (one.chars().collect(), other.chars().collect());
    if a.len().abs_diff(b.len()) > most {
        return None;
    }
    let mut before = vec![0; b.len() + 1];
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let same = usize::from(a[i - 1] != b[j - 1]);
            row[j] = (last[j] + 1).min(row[j - 1] + 1).min(last[j - 1] + same);
            let swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            if swapped {
                row[j] = row[j].min(before[j - 2] + 1);
            }
        }
        if row.iter().min().is_some_and(|least| *least > most) {
            return None;
        }
        before = std::mem::replace(&mut last, row);
    }
    last.last().copied().filter(|distance| *distance <= most)
}

/// How far a word may be from what was meant.
pub(crate) fn tolerance(word: &str) -> usize {
    match word.chars().count() {
        0..=3 => 0,
        4..=7 => 1,
        _ => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_what_must_change() {
        assert_eq!(distance("search", "search", 2), Some(0));
        assert_eq!(distance("serach", "search", 2), Some(1));
        assert_eq!(distance("seach", "search", 2), Some(1));
        assert_eq!(distance("sarchs", "search", 2), Some(2));
        assert_eq!(distance("find", "search", 2), None);
        assert_eq!(distance("", "ab", 2), Some(2));
    }
}
