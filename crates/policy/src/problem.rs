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

/// Says which action was meant where one is misspelt, and leaves out what Cedar says of the same policy because of that.
pub(crate) fn say_meant_actions(problems: &mut Vec<Problem>, lanes: &[&'static Lane]) {
    let place = |problem: &Problem| (problem.file.clone(), problem.line, problem.column);
    let follows = |problem: &Problem| {
        problem.message.contains("is impossible")
            || problem.message.contains("find an applicable action")
    };
    let mut followed = Vec::new();
    for misspelt in problems.iter().filter(|one| one.unknown_action().is_some()) {
        let at = place(misspelt);
        // Those stand at the beginning of the policy.
        let before = problems.iter().filter(|one| follows(one)).map(place);
        let before = before.filter(|start| start.0 == at.0 && *start <= at);
        followed.extend(before.max());
    }
    problems.retain(|one| !(follows(one) && followed.contains(&place(one))));
    for problem in problems {
        problem.meant_action(lanes);
    }
}

impl Problem {
    /// The action that Cedar does not know, where it says so.
    fn unknown_action(&self) -> Option<&str> {
        let rest = self
            .message
            .strip_prefix("unrecognized action `Action::\"")?;
        rest.split_once('"').map(|(written, _)| written)
    }

    /// Cedar knows the nearest entity, which may be an action of another lane.
    fn meant_action(&mut self, lanes: &[&'static Lane]) {
        let Some(written) = self.unknown_action() else {
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
    use super::*;

    #[test]
    fn a_misspelt_action_is_told_alone_with_what_was_meant() {
        static CALL: base::Action = base::Action {
            lane: &LANE,
            name: "mcp:call",
            method: "call",
            entity: |_| None,
            has_arguments: false,
            scan_as: base::ScanAs::Message,
            is_pinned: false,
        };
        static LANE: Lane = Lane {
            name: "mcp",
            is_scanned: true,
            actions: &[&CALL],
            schema: "",
        };
        let at = |line, column, message: &str| Problem {
            line,
            column,
            ..Problem::at("p.cedar", "", 0, message)
        };
        let mut problems = vec![
            at(1, 1, "policy is impossible: x"),
            at(4, 1, "policy is impossible: x"),
            at(4, 1, "unable to find an applicable action given"),
            at(5, 9, "unrecognized action `Action::\"mcp:cal\"`"),
            at(7, 1, "policy is impossible: x"),
        ];
        say_meant_actions(&mut problems, &[&LANE]);
        let lines: Vec<usize> = problems.iter().map(|problem| problem.line).collect();
        assert_eq!(lines, [1, 5, 7]);
        assert_eq!(problems[1].help, "did you mean Action::\"mcp:call\"?");
    }

    #[test]
    fn positions_count_from_one_in_characters() {
        assert_eq!(position("", 0), (1, 1));
        assert_eq!(position("ab\ncd", 2), (1, 3));
        assert_eq!(position("ab\ncd", 3), (2, 1));
        assert_eq!(position("é\néx", 5), (2, 2));
        assert_eq!(position("ab", 99), (1, 3));
    }
}
