//! The walk: each node once, with what stands around it.

use std::collections::{HashMap, HashSet};

use tree_sitter::{Node, Tree, TreeCursor};

use super::super::chunks::Scope;
use super::super::lines::Lines;
use super::super::shapes::{
    Act, Acts, BETWEEN, CALL, COMMENT, DOCSTRING, IMPORT, LAMBDA, MEMBER, NAME, Shape, TYPE, WRAP,
};
use super::super::types::{Bytes, Mention, MentionKind, Note};
use super::{DEPTH_MAX, Found, MENTION_PLACES_MAX, MENTIONS_MAX, NODES_BETWEEN, NODES_MAX, define};

/// A node whose children are being walked.
pub struct Frame<'t> {
    pub node: Node<'t>,
    pub act: Act,
    /// The field of its parent that it stands in; 0 for none.
    field: u16,
    /// Its place among the named children of its parent.
    place: u32,
    /// How many named children were seen.
    seen: u32,
    pub inside: Inside,
    /// Comments that end right before the next child.
    run: Option<Run>,
    /// The documentation before it, for a definition in it.
    pub doc: Option<Bytes>,
    /// Scopes that are open outside of it.
    scopes: usize,
}

/// What a node stands in.
#[derive(Clone, Copy, Default)]
pub struct Inside {
    pub function: bool,
    pub types: bool,
    pub import: bool,
}

/// Comments on adjacent lines, and attributes after them.
#[derive(Clone, Copy)]
struct Run {
    bytes: Bytes,
    /// The last row of them.
    row: usize,
}

/// A definition or scope around the node in hand.
pub struct Open {
    pub name: Box<str>,
    pub is_type: bool,
}

pub struct Walk<'t, 'x> {
    pub shape: &'static Shape,
    pub acts: &'static Acts,
    pub joint: &'static str,
    pub text: &'x [u8],
    pub lines: &'x Lines,
    pub frames: Vec<Frame<'t>>,
    /// The scopes around the node in hand, outermost first.
    pub open: Vec<Open>,
    pub found: Found,
    /// Where definitions have their names.
    pub named: HashSet<u32>,
    mentions: HashMap<(&'x [u8], MentionKind), Vec<u32>>,
    places: usize,
    /// For each row, how many more nodes begin than end to stand around it.
    steps: Vec<i32>,
    /// Rows that must not be parted from the one before.
    glued: Vec<usize>,
}

/// How deep a cut between a documentation and what it is about counts.
const GLUE: usize = 6;

/// Walks a tree.
pub fn walk(
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
        named: HashSet::new(),
        mentions: HashMap::new(),
        places: 0,
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
            // Half of all nodes are punctuation, and most have no children: neither is asked for more.
            let field = if node.is_named() {
                cursor.field_id()
            } else {
                None
            };
            let frame = self.enter(node, field.map_or(0, |id| id.get()));
            let descends = self.frames.len() < DEPTH_MAX && node.child_count() > 0;
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

    /// Looks at a node before its children.
    fn enter(&mut self, node: Node<'t>, field: u16) -> Frame<'t> {
        let act = self
            .acts
            .by_kind
            .get(node.kind_id() as usize)
            .copied()
            .unwrap_or_default();
        let (inside, place) = self.inside(node, act, field);
        let scopes = self.open.len();
        let mut frame = Frame {
            node,
            act,
            field,
            place,
            seen: 0,
            inside,
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
        if act.marks & (NAME | TYPE) != 0 && node.child_count() == 0 {
            self.mention(&frame);
        }
        if act.def != 0 || act.scope != 0 {
            define::define(self, &mut frame);
        }
        frame
    }

    /// What a node stands in, and its place among its parent's named children.
    fn inside(&mut self, node: Node<'t>, act: Act, field: u16) -> (Inside, u32) {
        let (mut inside, mut place) = (Inside::default(), 0);
        if let Some(parent) = self.frames.last_mut() {
            inside = parent.inside;
            place = parent.seen;
            parent.seen += u32::from(node.is_named());
        }
        inside.function |= act.marks & LAMBDA != 0;
        inside.import |= act.marks & IMPORT != 0;
        inside.types |=
            act.marks & TYPE != 0 || field != 0 && self.acts.type_fields.contains(&field);
        if field != 0 && field == self.acts.body {
            inside.types = false;
        }
        (inside, place)
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
        if run.is_some_and(|run| run.row + 1 == rows.0) {
            self.glued.push(rows.0);
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

    /// Counts a name that is used.
    fn mention(&mut self, frame: &Frame<'t>) {
        let start = frame.node.start_byte();
        let Some(name) = self.text.get(start..frame.node.end_byte()) else {
            return;
        };
        let is_new = name.len() > 1 && !self.named.contains(&(start as u32));
        if !is_new || self.places >= MENTION_PLACES_MAX {
            return;
        }
        let kind = self.kind(frame);
        let full = self.mentions.len() >= MENTIONS_MAX;
        if !full || self.mentions.contains_key(&(name, kind)) {
            self.mentions
                .entry((name, kind))
                .or_default()
                .push(start as u32);
            self.places += 1;
        }
    }

    /// How a name is used: it is called when it is what a call around it names, perhaps as the last of members.
    fn kind(&self, frame: &Frame<'t>) -> MentionKind {
        if frame.inside.import {
            return MentionKind::Import;
        }
        let (mut field, mut place, end) = (frame.field, frame.place, frame.node.end_byte());
        for around in self.frames.iter().rev() {
            let callee = around.act.callee;
            if around.act.marks & CALL != 0
                && (callee != 0 && callee == field || callee == 0 && place == 0)
            {
                return MentionKind::Call;
            }
            if around.act.marks & MEMBER == 0 || around.node.end_byte() != end {
                break;
            }
            (field, place) = (around.field, around.place);
        }
        if frame.inside.types {
            MentionKind::Type
        } else {
            MentionKind::Use
        }
    }

    fn finish(mut self) -> Found {
        let mut depth = 0_i32;
        let mut depths = Vec::with_capacity(self.lines.count());
        for row in 0..self.lines.count() {
            depth += self.steps[row];
            depths.push(usize::try_from(depth).unwrap_or(0));
        }
        for row in self.glued {
            if let Some(depth) = depths.get_mut(row) {
                *depth += GLUE;
            }
        }
        self.found.depths = depths;
        let is_full = self.places >= MENTION_PLACES_MAX || self.mentions.len() >= MENTIONS_MAX;
        if is_full || self.found.symbols.len() >= super::SYMBOLS_MAX {
            self.found.notes.push(Note::Cut);
        }
        let named = self.named;
        let mut mentions: Vec<_> = self.mentions.into_iter().collect();
        mentions.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        let mentions = mentions.into_iter().filter_map(|((name, kind), mut at)| {
            at.retain(|at| !named.contains(at));
            let name = std::str::from_utf8(name).ok()?;
            (!at.is_empty()).then(|| Mention {
                name: name.into(),
                kind,
                at,
            })
        });
        self.found.mentions = mentions.collect();
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
pub fn bytes(node: Node<'_>) -> Bytes {
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
pub fn is_only_string(node: Node<'_>) -> bool {
    node.named_child_count() == 1
        && node
            .named_child(0)
            .is_some_and(|child| matches!(child.kind(), "string" | "concatenated_string"))
}
