//! What a grammar's nodes mean: which ones define something, which are comments, which belong together.
//!
//! A shape is data; one file below this one holds those of a family of languages. [`super::grammar`] walks a tree
//! once and asks it for each node. What no shape names is only a place where a file may be cut.

mod brace;
mod cfamily;
mod managed;
mod script;
mod sql;

use std::sync::OnceLock;

use tree_sitter::{Language, Node};
use tree_sitter_language::LanguageFn;

use super::types::SymbolKind;

pub(super) use brace::{GO, RUST, SWIFT};
pub(super) use cfamily::{C, CPP};
pub(super) use managed::{CSHARP, JAVA, KOTLIN};
pub(super) use script::{BASH, JAVASCRIPT, PHP, PYTHON, RUBY, TSX, TYPESCRIPT};
pub(super) use sql::SQL;

/// What the nodes of one grammar mean.
pub struct Shape {
    /// The grammar.
    pub grammar: LanguageFn,
    /// Nodes that define something.
    pub defs: &'static [Def],
    /// Nodes that give those in them a parent, and are no definition: where they have their name.
    pub scopes: &'static [(&'static str, At)],
    /// Comments.
    pub comments: &'static [&'static str],
    /// Nodes that may stand between a documentation and what it is about.
    pub between: &'static [&'static str],
    /// Nodes around a definition that are part of it: exports, decorations, templates.
    pub wraps: &'static [&'static str],
    /// Functions without a name: what is in them is not seen from outside.
    pub lambdas: &'static [&'static str],
    /// Statements that are documentation when they are nothing but a string.
    pub docstrings: Option<&'static str>,
    /// Letters of which each definition, comment and documentation that stands inside of another node on one line has
    /// one before or in it; none where that cannot be said.
    pub letters: &'static [u8],
    /// Whether a preprocessor comes before the compiler: macros stand where the grammar expects words of the language.
    pub preprocessed: bool,
    /// The kind of a definition where its node alone does not tell; `None` makes it a mere scope.
    pub refine: fn(Node<'_>, &[u8], SymbolKind) -> Option<SymbolKind>,
    /// What was looked up of all this.
    pub acts: OnceLock<Acts>,
}

/// A node that defines something.
pub struct Def {
    pub node: &'static str,
    pub kind: SymbolKind,
    pub name: At,
    pub when: When,
}

/// Where a definition's name stands.
#[derive(Clone, Copy)]
pub enum At {
    /// In each child with this field; the definition is the whole node.
    Field(&'static str),
    /// In the child with this field, if it is of this kind.
    FieldOf(&'static str, &'static str),
    /// In each child with this field; each is a definition of its own.
    Each(&'static str),
    /// In the first child of this kind.
    Child(&'static str),
    /// At the end of a chain of C declarators.
    Declarator,
    /// In the field `name`; the parent is the type of the field `receiver`.
    Receiver,
    /// At the last name of a `left` side that is a member.
    Member,
    /// A keyword of the node is the name.
    Word(&'static str),
}

/// When a node counts as a definition.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// Always.
    Any,
    /// When it is in no function.
    Outside,
    /// When its value is a function or a class.
    Valued,
    /// When it has a body.
    Bodied,
}

/// A definition that always counts and has its name in the field `name`.
pub(super) const fn def(node: &'static str, kind: SymbolKind) -> Def {
    Def {
        node,
        kind,
        name: At::Field("name"),
        when: When::Any,
    }
}

impl Def {
    pub const fn at(self, name: At) -> Def {
        Def { name, ..self }
    }

    pub const fn when(self, when: When) -> Def {
        Def { when, ..self }
    }
}

/// For grammars whose nodes tell all.
pub(super) fn as_is(_: Node<'_>, _: &[u8], kind: SymbolKind) -> Option<SymbolKind> {
    Some(kind)
}

/// A shape's words, looked up once: what to do at each kind of node.
pub struct Acts {
    pub language: Language,
    /// By the number of a node's kind.
    pub by_kind: Vec<Act>,
    /// The fields that are looked for in many nodes.
    pub fields: Fields,
    /// Whether there are bodies that have no field.
    pub has_bodies: bool,
    /// Whether something is defined by giving a function as a value, which can stand anywhere in a line.
    pub defines_by_value: bool,
    /// Whether a letter is one of those of the shape.
    pub letters: [bool; 256],
}

/// Fields by their numbers; 0 where a grammar has none of the name.
pub struct Fields {
    pub body: u16,
    pub value: u16,
    pub right: u16,
    pub name: u16,
    pub of_type: u16,
    pub bound: u16,
}

/// What to do at a node.
#[derive(Clone, Copy, Default)]
pub struct Act {
    /// One more than the index of its row in `defs`.
    pub def: u8,
    /// One more than the index of its row in `scopes`.
    pub scope: u8,
    /// The other marks.
    pub marks: u8,
    /// Whether it is a body that has no field.
    pub is_body: bool,
}

pub(super) const COMMENT: u8 = 1;
pub(super) const BETWEEN: u8 = 1 << 1;
pub(super) const WRAP: u8 = 1 << 2;
pub(super) const LAMBDA: u8 = 1 << 3;
pub(super) const DOCSTRING: u8 = 1 << 4;

/// Bodies that have no field: what stands before them is the signature.
const BODIES: &[&str] = &[
    "class_body",
    "enum_class_body",
    "function_body",
    "column_definitions",
    "compound_statement",
];

impl Shape {
    /// What to do at each kind of node; looked up at the first call.
    pub fn acts(&self) -> &Acts {
        self.acts.get_or_init(|| self.look_up())
    }

    fn look_up(&self) -> Acts {
        let language = Language::new(self.grammar);
        let mut by_kind = vec![Act::default(); language.node_kind_count()];
        // A grammar may have several numbers for one name (aliases): all of them are meant.
        let mut each = |name: &str, set: &mut dyn FnMut(&mut Act)| {
            for (id, act) in by_kind.iter_mut().enumerate() {
                let id = id as u16;
                if language.node_kind_is_named(id) && language.node_kind_for_id(id) == Some(name) {
                    set(act);
                }
            }
        };
        for (index, def) in self.defs.iter().enumerate() {
            each(def.node, &mut |act| act.def = index as u8 + 1);
        }
        for (index, (node, _)) in self.scopes.iter().enumerate() {
            each(node, &mut |act| act.scope = index as u8 + 1);
        }
        let docstrings = self.docstrings.as_slice();
        for (nodes, mark) in [
            (self.comments, COMMENT),
            (self.between, BETWEEN),
            (self.wraps, WRAP),
            (self.lambdas, LAMBDA),
            (docstrings, DOCSTRING),
        ] {
            for node in nodes {
                each(node, &mut |act| act.marks |= mark);
            }
        }
        for body in BODIES {
            each(body, &mut |act| act.is_body = true);
        }
        let field = |name: &str| language.field_id_for_name(name).map_or(0, |id| id.get());
        let fields = Fields {
            body: field("body"),
            value: field("value"),
            right: field("right"),
            name: field("name"),
            of_type: field("type"),
            bound: field("bound_identifier"),
        };
        let mut letters = [self.letters.is_empty(); 256];
        for letter in self.letters {
            letters[usize::from(*letter)] = true;
        }
        Acts {
            has_bodies: by_kind.iter().any(|act| act.is_body),
            language,
            by_kind,
            fields,
            defines_by_value: self.defs.iter().any(|def| def.when == When::Valued),
            letters,
        }
    }

    /// The words of this shape that its grammar does not know: there should be none.
    #[cfg(test)]
    fn unknown(&self) -> Vec<&'static str> {
        let language = Language::new(self.grammar);
        let nodes = self.defs.iter().map(|def| def.node);
        let nodes = nodes.chain(self.scopes.iter().map(|scope| scope.0));
        let lists = [self.comments, self.between, self.wraps, self.lambdas];
        let nodes = nodes
            .chain(lists.into_iter().flatten().copied())
            .chain(self.docstrings);
        let names = self
            .defs
            .iter()
            .map(|def| def.name)
            .chain(self.scopes.iter().map(|scope| scope.1));
        let fields = names.filter_map(|at| match at {
            At::Field(field) | At::FieldOf(field, _) | At::Each(field) => Some(field),
            _ => None,
        });
        let is_node = |name: &&str| language.id_for_node_kind(name, true) != 0;
        let is_field = |name: &&str| language.field_id_for_name(name).is_some();
        nodes
            .filter(|name| !is_node(name))
            .chain(fields.filter(|name| !is_field(name)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_grammar_knows_each_word_of_its_shape() {
        let shapes: [(&str, &Shape); 16] = [
            ("python", &PYTHON),
            ("javascript", &JAVASCRIPT),
            ("typescript", &TYPESCRIPT),
            ("tsx", &TSX),
            ("rust", &RUST),
            ("go", &GO),
            ("java", &JAVA),
            ("c", &C),
            ("cpp", &CPP),
            ("csharp", &CSHARP),
            ("ruby", &RUBY),
            ("php", &PHP),
            ("kotlin", &KOTLIN),
            ("swift", &SWIFT),
            ("bash", &BASH),
            ("sql", &SQL),
        ];
        for (name, shape) in shapes {
            assert_eq!(shape.unknown(), Vec::<&str>::new(), "{name}");
            assert!(shape.defs.len() < 250 && shape.scopes.len() < 250);
        }
    }
}
