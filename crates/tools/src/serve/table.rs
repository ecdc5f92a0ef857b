//! A table of tools: names, schemas, annotations and what answers, one row a tool.
//!
//! The listing, the calls and the tests that call every name are made from it, so a tool is one row.

use serde::Serialize;
use serde_json::{Map, Value};

use super::call::{Ask, Call, Problem, Said, bounded};
use super::{Service, resource};

/// What a tool does with its arguments.
pub type Run<S> = fn(&Call<'_, S>, Map<String, Value>) -> Result<Said, Problem>;

/// One tool.
pub struct Tool<S: Service> {
    /// Its name.
    pub name: &'static str,
    /// Its name for people.
    pub title: &'static str,
    /// What it is for, and when to take it.
    pub doc: &'static str,
    /// What it does to what is kept.
    pub effect: Effect,
    /// Whose tool it is.
    pub whose: Whose,
    /// The schema of its arguments.
    pub input: fn() -> Map<String, Value>,
    /// The schema of its answers.
    pub output: fn() -> Map<String, Value>,
    /// Answers a call.
    pub run: Run<S>,
}

/// What a tool does to what is kept. None touches the files of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing.
    Reads,
    /// It adds; doing it twice is doing it once.
    Adds,
    /// It adds or changes; doing it twice is doing it twice.
    Writes,
    /// It changes or takes away; doing it twice is doing it twice.
    Overwrites,
    /// It takes away; doing it twice is doing it once.
    Removes,
}

/// Whose tool a row is.
#[derive(Clone, Copy)]
pub enum Whose {
    /// Always listed.
    Ours,
    /// Of the server that this one takes the place of: listed where that is asked for.
    Theirs,
    /// Both have one of this name: always listed, with the other's schemas where those are asked for.
    Both {
        /// The schema of the other's arguments.
        input: fn() -> Map<String, Value>,
        /// The schema of the other's answers.
        output: fn() -> Map<String, Value>,
    },
}

impl<S: Service> Tool<S> {
    /// Whether it stands in a listing.
    pub fn is_listed(&self, compat: bool) -> bool {
        compat || !matches!(self.whose, Whose::Theirs)
    }

    /// The schemas of its arguments and answers.
    pub fn schemas(&self, compat: bool) -> (Map<String, Value>, Map<String, Value>) {
        match self.whose {
            Whose::Both { input, output } if compat => (input(), output()),
            Whose::Both { .. } | Whose::Ours | Whose::Theirs => ((self.input)(), (self.output)()),
        }
    }
}

/// The tool of a name.
pub(super) fn find<S: Service>(name: &str) -> Option<&'static Tool<S>> {
    S::TOOLS.iter().find(|tool| tool.name == name)
}

/// Answers one call.
///
/// # Errors
///
/// What is wrong with the call and how to mend it, or what failed.
pub fn run<S: Service>(call: &Call<'_, S>, ask: Ask) -> Result<Said, Problem> {
    if let Some(question) = ask.tool.strip_prefix(resource::ASKED) {
        return resource::answer(call, question, &ask.arguments);
    }
    let inside = || S::INSIDE.iter().find(|tool| tool.name == ask.tool);
    let tool = find::<S>(&ask.tool)
        .or_else(inside)
        .ok_or_else(|| Problem {
            code: "no_tool".to_owned(),
            message: format!("there is no tool {:?}", ask.tool),
            data: None,
        })?;
    (tool.run)(call, ask.arguments).and_then(bounded::<S>)
}

/// An answer in both its forms.
pub fn said<T: Serialize>(answer: &T, text: String) -> Result<Said, Problem> {
    let value =
        serde_json::to_value(answer).map_err(|error| Problem::ours(format!("JSON: {error}")))?;
    Ok(Said {
        value,
        text,
        session: None,
    })
}
