//! Reads a file by its grammar: one parse, then one walk over the tree.
//!
//! The walk finds definitions with their documentation, comments, and how deep each line
//! stands. It trusts nothing about the file: depth, nodes, symbols and time are bounded, and what is over a bound is
//! left out or given up, with a note.

mod define;
mod macros;
mod walk;

use std::borrow::Cow;
use std::ops::ControlFlow;

use tree_sitter::{ParseOptions, Parser};

use super::chunks::Scope;
use super::lines::Lines;
use super::shapes::Shape;
use super::types::{Bytes, Note, Symbol};

/// What was found in a file.
#[derive(Default)]
pub(super) struct Found {
    /// By the place of the definition; an outer one before those in it.
    pub symbols: Vec<Symbol>,
    /// What gives a parent to what is in it; by place, an outer one before those in it.
    pub scopes: Vec<Scope>,
    /// In order, apart from each other.
    pub comments: Vec<Bytes>,
    /// How deep a cut before each line is, by row.
    pub depths: Vec<usize>,
    /// What could not be done.
    pub notes: Vec<Note>,
}

/// Nodes of a tree that are walked.
pub(super) const NODES_MAX: usize = 8_000_000;
/// Nodes between two looks at whether to stop.
const NODES_BETWEEN: usize = 4096;
/// Nodes above a node; deeper ones are not looked at.
pub(super) const DEPTH_MAX: usize = 400;
/// Symbols of one file.
pub(super) const SYMBOLS_MAX: usize = 20_000;

/// Reads `text`. `stop` is asked often; once it says so, nothing more is done.
///
/// # Errors
///
/// [`Note::TimedOut`] when it was stopped, [`Note::NotParsed`] when there are too many nodes.
pub(super) fn find(
    shape: &'static Shape,
    joint: &'static str,
    text: &[u8],
    lines: &Lines,
    stop: &mut dyn FnMut() -> bool,
) -> Result<Found, Note> {
    let acts = shape.acts();
    let mut parser = Parser::new();
    parser
        .set_language(&acts.language)
        .map_err(|_| Note::NotParsed)?;
    let mut progress = |_: &_| {
        if stop() {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    };
    let options = ParseOptions::new().progress_callback(&mut progress);
    // The grammar alone reads the text without macros: names and signatures are those of the file.
    let bare = match shape.preprocessed {
        true => macros::blanked(text),
        false => Cow::Borrowed(text),
    };
    let mut read = |at: usize, _| bare.get(at..).unwrap_or_default();
    let tree = parser
        .parse_with_options(&mut read, None, Some(options))
        .ok_or(Note::TimedOut)?;
    let mut found = walk::walk(shape, joint, text, lines, &tree, stop)?;
    if tree.root_node().has_error() {
        found.notes.push(Note::SyntaxErrors);
    }
    Ok(found)
}
