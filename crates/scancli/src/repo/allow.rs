//! Comments that allow a finding: `weir:allow`, or `weir:allow RULE[,RULE]` for some rules alone.
//!
//! A comment holds for its own line, and for the next one where it has a line of its own. Only `weir scan repo` reads
//! them: whoever writes a file that an agent reads must not decide what passes the gateway. A comment that names no rule
//! that there is allows nothing, and is told.

use super::super::say::Found;

/// What opens such a comment.
const MARK: &str = "weir:allow";
/// Comments of one file that are read; what comes behind them allows nothing.
const COMMENTS_MAX: usize = 1024;

/// The comments of one file.
#[derive(Default)]
pub(super) struct Allows {
    comments: Vec<AllowComment>,
    /// What is wrong with comments, and the lines of these, from 1.
    pub wrong: Vec<(usize, String)>,
}

struct AllowComment {
    /// Lines that it holds for, from 1.
    lines: [usize; 2],
    /// Rules that it allows; all where it names none.
    rules: Vec<String>,
}

impl Allows {
    /// Reads the comments of a file. `known` says whether there is a rule of this id.
    pub(super) fn of(bytes: &[u8], known: impl Fn(&str) -> bool) -> Allows {
        let text = String::from_utf8_lossy(bytes);
        let mut allows = Allows::default();
        if !text.contains(MARK) {
            return allows;
        }
        for (line, number) in text.split('\n').zip(1..) {
            let Some((before, after)) = split(line) else {
                continue;
            };
            if allows.comments.len() == COMMENTS_MAX {
                let what =
                    format!("more than {COMMENTS_MAX} comments {MARK}: this one allows nothing");
                allows.wrong.push((number, what));
                break;
            }
            let rules = named(after);
            if let Some(unknown) = rules.iter().find(|rule| !known(rule)) {
                let what = format!("{MARK} names no rule: `{unknown}`; it allows nothing");
                allows.wrong.push((number, what));
                continue;
            }
            let alone = !before.chars().any(char::is_alphanumeric);
            let lines = [number, if alone { number + 1 } else { number }];
            allows.comments.push(AllowComment { lines, rules });
        }
        allows
    }

    /// Whether a finding is allowed.
    pub(super) fn allow(&self, found: &Found) -> bool {
        let rule = found.finding.rule.id;
        self.comments.iter().any(|comment| {
            comment.lines.contains(&found.at.line)
                && (comment.rules.is_empty() || comment.rules.iter().any(|named| named == rule))
        })
    }
}

/// What stands on a line before and behind the mark, which is a word of its own.
fn split(line: &str) -> Option<(&str, &str)> {
    let at = line.find(MARK)?;
    let (before, after) = (&line[..at], &line[at + MARK.len()..]);
    let word = |c: char| c.is_alphanumeric() || "_-:".contains(c);
    let apart = !before.ends_with(word) && !after.starts_with(word);
    apart.then_some((before, after))
}

/// The rules that a comment names: the first word behind it, where it is one; `(a reason)` is none.
fn named(after: &str) -> Vec<String> {
    let inside = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "_,".contains(c);
    let word = after.trim_start_matches([' ', '\t', '=']);
    let end = word.find(|c| !inside(c)).unwrap_or(word.len());
    let rules = word[..end].split(',').filter(|rule| !rule.is_empty());
    rules.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<(Vec<usize>, Vec<String>)> {
        let allows = Allows::of(text.as_bytes(), |rule| rule == "github_token");
        let comments = allows.comments.into_iter();
        comments.map(|c| (c.lines.to_vec(), c.rules)).collect()
    }

    #[test]
    fn a_comment_holds_for_its_line_or_the_next() {
        assert_eq!(lines("a = 1 # weir:allow\n"), [(vec![1, 1], vec![])]);
        assert_eq!(
            lines("\n  // weir:allow (made up)\nb"),
            [(vec![2, 3], vec![])]
        );
        let named = vec!["github_token".to_owned()];
        assert_eq!(
            lines("<!-- weir:allow github_token -->"),
            [(vec![1, 2], named)]
        );
    }

    #[test]
    fn what_names_no_rule_allows_nothing() {
        assert!(lines("x # weir:allowed, weird\n# weir:allow-all\n").is_empty());
        let allows = Allows::of(b"x\n# weir:allow github_tokens", |rule| {
            rule == "github_token"
        });
        assert!(allows.comments.is_empty());
        assert_eq!(allows.wrong[0].0, 2);
        assert!(allows.wrong[0].1.contains("`github_tokens`"));
    }
}
