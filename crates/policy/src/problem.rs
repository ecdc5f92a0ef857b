//! What is wrong with a policy, where, and what to do about it.
//!
//! It exists so that the operator is told of every problem at once, with file, line and column.

use std::fmt;

use base::{Lane, near};
use miette::Diagnostic;

/// One problem of a policy text. Shown as `file:line:column: message`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub file: String,
    /// From 1.
    pub line: usize,
    /// From 1, in characters.
    pub column: usize,
    pub message: String,
    /// What to do about it; empty where nothing more can be said.
    pub help: String,
}

/// What to do about a policy that never applies.
const IMPOSSIBLE: &str = "no call can satisfy it: see that its action goes with its resource, and that \
                          the arguments it reads are declared in policy.arguments";

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}:{}:{}: {}",
            self.file, self.line, self.column, self.message
        )?;
        if self.help.is_empty() {
            Ok(())
        } else {
            write!(f, " ({})", self.help)
        }
    }
}

impl Problem {
    /// A problem at a byte offset of a file.
    pub(crate) fn at(file: &str, text: &str, offset: usize, message: impl Into<String>) -> Problem {
        let (line, column) = position(text, offset);
        Problem {
            file: file.into(),
            line,
            column,
            message: message.into(),
            help: String::new(),
        }
    }

    /// What Cedar says of a text, where it says it.
    pub(crate) fn of(file: &str, text: &str, diagnostic: &dyn Diagnostic) -> Problem {
        let offset = diagnostic.labels().and_then(|mut labels| labels.next());
        let offset = offset.map_or(0, |label| label.offset());
        let help = diagnostic
            .help()
            .map(|help| help.to_string())
            .unwrap_or_default();
        let (message, help) = (placed(&diagnostic.to_string()), placed(&help));
        let help = if message.contains("is impossible") {
            IMPOSSIBLE.into()
        } else {
            help
        };
        Problem::at(file, text, offset, message).with_help(help)
    }

    pub(crate) fn with_help(mut self, help: impl Into<String>) -> Problem {
        self.help = help.into();
        self
    }
}

impl Problem {
    /// Says which action was meant where one is misspelt. Cedar knows the nearest entity, which may be of another lane.
    pub(crate) fn meant_action(&mut self, lanes: &[&'static Lane]) {
        let written = self
            .message
            .strip_prefix("unrecognized action `Action::\"")
            .and_then(|rest| rest.split_once('"'));
        let Some((written, _)) = written else {
            return;
        };
        let actions = lanes.iter().flat_map(|lane| lane.actions);
        let actions = actions.map(|action| action.name);
        let known = actions.chain(lanes.iter().map(|lane| lane.name));
        // Of the lane that is named first: mcp:cal is no action of models.
        let lane = written.split(':').next().unwrap_or_default();
        let (of_lane, others): (Vec<&str>, Vec<&str>) =
            known.partition(|name| name.split(':').next() == Some(lane));
        let meant = near::meant(written, of_lane).or_else(|| near::meant(written, others));
        self.help = match meant {
            Some(meant) => format!("did you mean Action::\"{meant}\"?"),
            None => "weir policy explain --help names the actions".to_owned(),
        };
    }
}

/// Cedar's sentence without the number that Cedar gave the policy: the place says which one it is.
fn placed(sentence: &str) -> String {
    let named = sentence.strip_prefix("for policy `policy");
    let rest = named.and_then(|rest| rest.split_once("`, "));
    rest.map_or(sentence, |(_, rest)| rest).into()
}

/// Line and column of a byte offset, both from 1.
pub(crate) fn position(text: &str, offset: usize) -> (usize, usize) {
    let before = &text[..text.floor_char_boundary(offset)];
    let start = before.rfind('\n').map_or(0, |newline| newline + 1);
    (
        before.matches('\n').count() + 1,
        before[start..].chars().count() + 1,
    )
}

#[cfg(test)]
mod tests {
    use super::position;

    #[test]
    fn positions_count_from_one_in_characters() {
        assert_eq!(position("", 0), (1, 1));
        assert_eq!(position("ab\ncd", 2), (1, 3));
        assert_eq!(position("ab\ncd", 3), (2, 1));
        assert_eq!(position("é\néx", 5), (2, 2));
        assert_eq!(position("ab", 99), (1, 3));
    }
}
