//! The walk: each node once, with what stands around it.

use memchr::memmem;
use tree_sitter::{Node, Tree, TreeCursor};

use super::super::chunks::{GLUED, Scope};
use super::super::lines::Lines;
use super::super::shapes::{Act, Acts, BETWEEN, COMMENT, DOCSTRING, LAMBDA, Shape, WRAP};
use super::super::types::{Bytes, Note};
use super::{DEPTH_MAX, Found, NODES_BETWEEN, NODES_MAX, define};

/// A node whose children are being walked.
pub(super) struct Frame<'t> {
    pub node: Node<'t>,
    pub act: Act,
    /// Whether it stands in a function.
    pub in_function: bool,
    /// Comments that end right before the next child.
    run: Option<Run>,
    /// The documentation before it, for a definition in it.
    pub doc: Option<Bytes>,
    /// Scopes that are open outside of it.
    scopes: usize,
}

/// Comments on adjacent lines, and attributes after them.
#[derive(Clone, Copy)]
struct Run {
    bytes: Bytes,
    /// The first row of the last one.
    first: usize,
    /// The last row of them.
    row: usize,
}

/// A definition or scope around the node in hand.
pub(super) struct Open {
    pub name: Box<str>,
    pub is_type: bool,
}

pub(super) struct Walk<'t, 'x> {
    pub shape: &'static Shape,
    pub acts: &'static Acts,
    pub joint: &'static str,
    pub text: &'x [u8],
    pub lines: &'x Lines,
    pub frames: Vec<Frame<'t>>,
    /// The scopes around the node in hand, outermost first.
    pub open: Vec<Open>,
    pub found: Found,
    /// For each row, how many more nodes begin than end to stand around it.
    steps: Vec<i32>,
    /// Rows that must not be parted from the one before.
    glued: Vec<usize>,
}

/// Walks a tree.
pub(super) fn walk(
    shape: &'static Shape,
    joint: &'static str,
    text: &[u8],
    lines: &Lines,
    tree: &Tree,
    stop: &mut dyn FnMut() -> bool,
) -> Result<Found, Note> {
    let mut walk = Walk {
        shape,
        acts: shape.acts(),
        joint,
        text,
        lines,
        frames: Vec::new(),
        open: Vec::new(),
        found: Found::default(),
        steps: vec![0; lines.count() + 2],
        glued: Vec::new(),
    };
    let mut cursor = tree.walk();
    walk.all(&mut cursor, stop)?;
    Ok(walk.finish())
}

impl<'t, 'x> Walk<'t, 'x> {
    fn all(
        &mut self,
        cursor: &mut TreeCursor<'t>,
        stop: &mut dyn FnMut() -> bool,
    ) -> Result<(), Note> {
        for count in 0..NODES_MAX {
            if count % NODES_BETWEEN == 0 && stop() {
                return Err(Note::TimedOut);
            }
            let node = cursor.node();
            let frame = self.enter(node);
            let descends = self.frames.len() < DEPTH_MAX && self.descends(&frame);
            if descends && cursor.goto_first_child() {
                self.frames.push(frame);
                continue;
            }
            self.open.truncate(frame.scopes);
            while !cursor.goto_next_sibling() {
                if !cursor.goto_parent() {
                    return Ok(());
                }
                let frame = self
                    .frames
                    .pop()
                    .expect("a parent was entered before its children");
                self.open.truncate(frame.scopes);
            }
        }
        Err(Note::NotParsed)
    }

    /// What to do at a node.
    fn act(&self, node: Node<'t>) -> Act {
        let acts = self.acts.by_kind.get(node.kind_id() as usize);
        acts.copied().unwrap_or_default()
    }

    /// Whether what is in a node is looked at. Most of a program are statements of one line in functions: they define
    /// nothing that is seen from outside, and a comment in them begins with a sign.
    fn descends(&self, frame: &Frame<'t>) -> bool {
        let (node, act) = (frame.node, frame.act);
        if node.child_count() == 0 {
            return false;
        }
        let is_line = node.start_position().row == node.end_position().row;
        if is_line && !self.can_hold(node) {
            return false;
        }
        let is_plain = frame.in_function && act.def == 0 && act.scope == 0 && act.marks == 0;
        if is_plain && !self.acts.defines_by_value {
            let text = bytes(node).of(self.text);
            let first = node.named_child(0).map(|child| self.act(child));
            let leads = first.is_some_and(|act| act.def != 0 || act.scope != 0 || act.marks != 0);
            return !is_line || leads || memmem::find(text, b"/*").is_some();
        }
        true
    }

    /// Whether a node of one line can have a definition or a comment in it. What breaks the grammar can have any.
    fn can_hold(&self, node: Node<'t>) -> bool {
        let letters = bytes(node).of(self.text).iter();
        let mut known = letters.map(|letter| self.acts.letters[usize::from(*letter)]);
        known.any(|is_one| is_one) || node.has_error()
    }

    /// Looks at a node before its children.
    fn enter(&mut self, node: Node<'t>) -> Frame<'t> {
        let act = self.act(node);
        let in_function =
            act.marks & LAMBDA != 0 || self.frames.last().is_some_and(|parent| parent.in_function);
        let scopes = self.open.len();
        let mut frame = Frame {
            node,
            act,
            in_function,
            run: None,
            doc: None,
            scopes,
        };
        if !node.is_named() {
            return frame;
        }
        let rows = (node.start_position().row, end_row(node));
        if !self.frames.is_empty() && rows.1 > rows.0 {
            self.step(rows.0 + 1, 1);
            self.step(rows.1 + 1, -1);
        }
        frame.doc = self.before(&frame, rows);
        if act.marks & DOCSTRING != 0 && is_only_string(node) {
            self.found.comments.push(bytes(node));
        }
        if act.def != 0 || act.scope != 0 {
            define::define(self, &mut frame);
        }
        frame
    }

    fn step(&mut self, row: usize, by: i32) {
        if let Some(step) = self.steps.get_mut(row) {
            *step += by;
        }
    }

    /// Keeps comments, and gives a node the documentation that stands before it.
    fn before(&mut self, frame: &Frame<'t>, rows: (usize, usize)) -> Option<Bytes> {
        let is_comment = frame.act.marks & COMMENT != 0;
        let (node, text, lines) = (frame.node, self.text, self.lines);
        if is_comment {
            let inner = self
                .frames
                .last()
                .is_some_and(|parent| parent.act.marks & COMMENT != 0);
            if !inner {
                self.found.comments.push(trimmed(node, text));
            }
        }
        let parent = self.frames.last_mut()?;
        let run = parent.run.filter(|run| run.row + 1 >= rows.0);
        if let Some(run) = run.filter(|run| run.row + 1 == rows.0) {
            // The lines of one long comment as well: its end alone says little of what it is about.
            self.glued.extend(run.first + 1..=rows.0);
        }
        if is_comment {
            let own = trimmed(node, text);
            let start = lines.start(rows.0);
            let leads = text[start..own.start as usize]
                .iter()
                .all(u8::is_ascii_whitespace)
                && !(own.start == 0 && text.starts_with(b"#!"));
            let first = run
                .filter(|run| !run.bytes.is_empty())
                .map_or(own.start, |run| run.bytes.start);
            parent.run = leads.then_some(Run {
                bytes: Bytes {
                    start: first,
                    end: own.end,
                },
                first: rows.0,
                row: rows.1,
            });
            return None;
        }
        if frame.act.marks & BETWEEN != 0 {
            let none = Bytes {
                start: node.start_byte() as u32,
                end: node.start_byte() as u32,
            };
            parent.run = Some(Run {
                bytes: run.map_or(none, |run| run.bytes),
                first: rows.0,
                row: rows.1,
            });
            return None;
        }
        parent.run = None;
        let inherited = parent.doc.filter(|_| parent.act.marks & WRAP != 0);
        run.map(|run| run.bytes)
            .filter(|bytes| !bytes.is_empty())
            .or(inherited)
    }

    fn finish(mut self) -> Found {
        let mut depth = 0_i32;
        let mut depths = Vec::with_capacity(self.lines.count());
        for row in 0..self.lines.count() {
            depth += self.steps[row];
            depths.push(usize::try_from(depth).unwrap_or(0));
        }
        self.glued.sort_unstable();
        self.glued.dedup();
        for row in self.glued {
            if let Some(depth) = depths.get_mut(row) {
                *depth = GLUED + (*depth).min(GLUED - 1);
            }
        }
        self.found.depths = depths;
        if self.found.symbols.len() >= super::SYMBOLS_MAX {
            self.found.notes.push(Note::Cut);
        }
        self.found
            .symbols
            .sort_by_key(|symbol| (symbol.span.bytes.start, u32::MAX - symbol.span.bytes.end));
        self.found
            .scopes
            .sort_by_key(|scope: &Scope| (scope.bytes.start, u32::MAX - scope.bytes.end));
        self.found.comments = apart(std::mem::take(&mut self.found.comments));
        self.found
    }
}

/// In order, without those that stand in others.
fn apart(mut comments: Vec<Bytes>) -> Vec<Bytes> {
    comments.sort_unstable_by_key(|comment| (comment.start, u32::MAX - comment.end));
    let mut end = 0;
    comments.retain(|comment| {
        let is_apart = comment.start >= end && !comment.is_empty();
        end = end.max(comment.end);
        is_apart
    });
    comments
}

/// The bytes of a node.
pub(super) fn bytes(node: Node<'_>) -> Bytes {
    Bytes::new(node.start_byte(), node.end_byte())
}

/// The bytes of a comment without the newline that some grammars count in.
fn trimmed(node: Node<'_>, text: &[u8]) -> Bytes {
    let all = bytes(node);
    let kept = all.of(text).trim_ascii_end().len() as u32;
    Bytes {
        start: all.start,
        end: all.start + kept,
    }
}

/// The row of a node's last byte; a newline at its end is none of its lines.
fn end_row(node: Node<'_>) -> usize {
    let (start, end) = (node.start_position(), node.end_position());
    if end.column == 0 && end.row > start.row {
        end.row - 1
    } else {
        end.row
    }
}

/// Whether a statement is nothing but a string.
pub(super) fn is_only_string(node: Node<'_>) -> bool {
    node.named_child_count() == 1
        && node
            .named_child(0)
            .is_some_and(|child| matches!(child.kind(), "string" | "concatenated_string"))
}
