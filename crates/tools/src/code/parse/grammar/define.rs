//! Definitions: their names, kinds, spans, signatures and documentation.

use std::num::NonZero;

use tree_sitter::Node;

use super::super::chunks::Scope;
use super::super::shapes::{At, DOCSTRING, Def, LAMBDA, WRAP, When};
use super::super::types::{Bytes, SIGNATURE_BYTES_MAX, Symbol, SymbolKind};
use super::SYMBOLS_MAX;
use super::walk::{Frame, Open, Walk, bytes, is_only_string};

/// Bytes of a name, and of the scopes around one.
const NAME_BYTES_MAX: usize = 256;
const PARENT_BYTES_MAX: usize = 512;
/// Declarators in each other that are looked through.
const DECLARATORS_MAX: usize = 32;

/// A name in a definition.
struct Named<'t> {
    node: Node<'t>,
    /// A scope that the definition itself names: `Pool` in `void Pool::get()`.
    of: Option<String>,
}

/// Keeps what a node defines, and opens its scope.
pub(super) fn define<'t>(walk: &mut Walk<'t, '_>, frame: &mut Frame<'t>) {
    let shape = walk.shape;
    if let Some(def) = frame
        .act
        .def
        .checked_sub(1)
        .and_then(|index| shape.defs.get(index as usize))
    {
        if counts(walk, def, frame) {
            definition(walk, def, frame);
        }
        return;
    }
    let scope = frame
        .act
        .scope
        .checked_sub(1)
        .and_then(|index| shape.scopes.get(index as usize));
    let Some((_, at)) = scope else {
        return;
    };
    let is_type = !frame.node.kind().contains("namespace");
    let name = match at {
        // All of `a::b` or `A.B` is the name of a namespace.
        At::Field(field) if !is_type => frame
            .node
            .child_by_field_name(field)
            .map(|name| text(walk.text, name)),
        at => names(walk, *at, frame.node)
            .pop()
            .map(|named| text(walk.text, named.node)),
    };
    if let Some(name) = name {
        open(walk, frame, name, bytes(frame.node), is_type);
    }
}

/// Whether a node that may define something does.
fn counts(walk: &Walk<'_, '_>, def: &Def, frame: &Frame<'_>) -> bool {
    match def.when {
        When::Any => true,
        When::Outside => !frame.in_function,
        When::Bodied => frame
            .node
            .child_by_field_id(walk.acts.fields.body)
            .is_some(),
        When::Valued => {
            value(walk, frame.node).is_some_and(|value| is_function(walk, value) || is_class(value))
        }
    }
}

fn value<'t>(walk: &Walk<'t, '_>, node: Node<'t>) -> Option<Node<'t>> {
    let fields = &walk.acts.fields;
    node.child_by_field_id(fields.value)
        .or_else(|| node.child_by_field_id(fields.right))
}

fn is_function(walk: &Walk<'_, '_>, node: Node<'_>) -> bool {
    walk.acts
        .by_kind
        .get(node.kind_id() as usize)
        .is_some_and(|act| act.marks & LAMBDA != 0)
}

fn is_class(node: Node<'_>) -> bool {
    node.kind() == "class"
}

fn definition<'t>(walk: &mut Walk<'t, '_>, def: &Def, frame: &mut Frame<'t>) {
    let node = frame.node;
    let mut names = names(walk, def.name, node);
    let Some(kind) = (walk.shape.refine)(node, walk.text, def.kind) else {
        if let Some(named) = names.pop() {
            let name = text(walk.text, named.node);
            open(walk, frame, name, bytes(node), true);
        }
        return;
    };
    let each = matches!(def.name, At::Each(_));
    let span = if each {
        bytes(node)
    } else {
        wrapped(walk, node)
    };
    let mut first = None;
    for named in names {
        if walk.found.symbols.len() >= SYMBOLS_MAX {
            break;
        }
        let at = bytes(named.node);
        let span = if each { at } else { span };
        let name = text(walk.text, named.node);
        if name.is_empty() {
            continue;
        }
        if is_again(walk, &name) {
            first = first.or(Some((name, kind)));
            continue;
        }
        let kind = kind_here(walk, kind, node, &name, named.of.is_some());
        let parent = parent(walk, named.of);
        let symbol = Symbol {
            kind,
            parent,
            span: walk.lines.span(span),
            at,
            signature: signature(walk, node, span),
            doc: docstring(walk, node).or(frame.doc),
            name: name.clone().into(),
        };
        walk.found.symbols.push(symbol);
        first = first.or(Some((name, kind)));
    }
    if let (Some((name, kind)), false) = (first, each || names_struct(node)) {
        frame.in_function = match kind {
            SymbolKind::Function | SymbolKind::Method => true,
            _ if is_type(kind) => false,
            _ => frame.in_function,
        };
        open(walk, frame, name, span, is_type(kind));
    }
}

/// Whether a definition is what the one right around it names already: `typedef struct Pool { … } Pool`.
fn is_again(walk: &Walk<'_, '_>, name: &str) -> bool {
    let around = walk
        .frames
        .last()
        .filter(|parent| parent.node.kind() == "type_definition");
    around.is_some()
        && walk
            .found
            .symbols
            .last()
            .is_some_and(|last| &*last.name == name)
}

/// Whether a C type definition holds a struct with a name of its own: what is in it is the struct's.
fn names_struct(node: Node<'_>) -> bool {
    let is_type = node.kind() == "type_definition";
    let of = is_type.then(|| node.child_by_field_name("type")).flatten();
    of.is_some_and(|of| of.child_by_field_name("name").is_some())
}

fn is_type(kind: SymbolKind) -> bool {
    use SymbolKind::{Class, Enum, Interface, Struct, Trait, Type};
    matches!(kind, Class | Struct | Enum | Interface | Trait | Type)
}

/// The kind of a definition where it stands: a function of a type is a method, a variable a field, and one whose
/// name is all capitals a constant.
fn kind_here(
    walk: &Walk<'_, '_>,
    kind: SymbolKind,
    node: Node<'_>,
    name: &str,
    is_of: bool,
) -> SymbolKind {
    let in_type = is_of || walk.open.last().is_some_and(|open| open.is_type);
    let is_loud = name.len() > 1 && !name.contains(|c: char| c.is_lowercase());
    let has_value = matches!(kind, SymbolKind::Variable | SymbolKind::Field);
    let kind = match has_value.then(|| value(walk, node)).flatten() {
        Some(value) if is_class(value) => SymbolKind::Class,
        Some(value) if is_function(walk, value) => SymbolKind::Function,
        _ => kind,
    };
    match kind {
        SymbolKind::Function if in_type => SymbolKind::Method,
        SymbolKind::Variable if is_loud => SymbolKind::Constant,
        SymbolKind::Variable if in_type => SymbolKind::Field,
        kind => kind,
    }
}

/// Opens a scope. Its parent is what is open now.
fn open(walk: &mut Walk<'_, '_>, frame: &mut Frame<'_>, name: String, bytes: Bytes, is_type: bool) {
    let name: Box<str> = name.into();
    if walk.found.scopes.len() < SYMBOLS_MAX {
        walk.found.scopes.push(Scope {
            bytes,
            name: name.clone(),
        });
    }
    walk.open.push(Open { name, is_type });
    frame.doc = None;
}

/// The scopes around a definition, joined.
fn parent(walk: &Walk<'_, '_>, of: Option<String>) -> Box<str> {
    let mut parent = String::new();
    for name in walk
        .open
        .iter()
        .map(|open| &*open.name)
        .chain(of.as_deref())
    {
        if parent.len() + name.len() > PARENT_BYTES_MAX {
            break;
        }
        if !parent.is_empty() {
            parent.push_str(walk.joint);
        }
        parent.push_str(name);
    }
    parent.into()
}

/// The names of a definition.
fn names<'t>(walk: &Walk<'t, '_>, at: At, node: Node<'t>) -> Vec<Named<'t>> {
    let plain = |node| Named {
        node: base(walk, node),
        of: None,
    };
    match at {
        At::Field(field) | At::Each(field) => {
            let mut cursor = node.walk();
            let names: Vec<_> = match (field, NonZero::new(walk.acts.fields.name)) {
                ("name", Some(id)) => node.children_by_field_id(id, &mut cursor).collect(),
                _ => node.children_by_field_name(field, &mut cursor).collect(),
            };
            let names = names.into_iter().filter(Node::is_named);
            // A field may hold several things (Swift): the first is the name, unless there are many of its kind.
            let mut kind = None;
            names
                .filter(|name| *kind.get_or_insert(name.kind_id()) == name.kind_id())
                .map(plain)
                .collect()
        }
        At::FieldOf(field, kind) => {
            let name = node
                .child_by_field_name(field)
                .filter(|name| name.kind() == kind);
            name.map(plain).into_iter().collect()
        }
        At::Child(kind) => child(node, kind).map(plain).into_iter().collect(),
        At::Word(word) => child(node, word)
            .map(|node| Named { node, of: None })
            .into_iter()
            .collect(),
        At::Declarator => declarators(walk, node),
        At::Member => {
            let left = node
                .child_by_field_name("left")
                .filter(|left| left.kind() == "member_expression");
            let name = left.and_then(|left| left.child_by_field_name("property"));
            name.map(plain).into_iter().collect()
        }
        At::Receiver => receiver(walk, node).into_iter().collect(),
    }
}

fn child<'t>(node: Node<'t>, kind: &str) -> Option<Node<'t>> {
    let mut cursor = node.walk();
    node.children(&mut cursor)
        .find(|child| child.kind() == kind)
}

/// The leaf that names what a node is about: `Pool` in `&'a Pool<T>`, `b` in `a.b`.
fn base<'t>(walk: &Walk<'t, '_>, mut node: Node<'t>) -> Node<'t> {
    let fields = &walk.acts.fields;
    for _ in 0..DECLARATORS_MAX {
        let inner = [fields.name, fields.of_type, fields.bound]
            .iter()
            .find_map(|field| node.child_by_field_id(*field));
        let Some(inner) = inner.or_else(|| node.named_child(0)) else {
            break;
        };
        node = inner;
    }
    node
}

/// The names of a C declaration, each at the end of its chain of declarators.
fn declarators<'t>(walk: &Walk<'t, '_>, node: Node<'t>) -> Vec<Named<'t>> {
    let mut cursor = node.walk();
    let all: Vec<_> = node
        .children_by_field_name("declarator", &mut cursor)
        .collect();
    all.into_iter()
        .filter_map(|declarator| declared(walk, declarator))
        .collect()
}

fn declared<'t>(walk: &Walk<'t, '_>, mut node: Node<'t>) -> Option<Named<'t>> {
    for _ in 0..DECLARATORS_MAX {
        let inner = match node.kind() {
            "qualified_identifier" => return Some(qualified(walk, node)),
            "parenthesized_declarator" | "reference_declarator" | "attributed_declarator" => {
                node.named_child(0)
            }
            "template_function" => node.child_by_field_name("name"),
            _ => node.child_by_field_name("declarator"),
        };
        let Some(inner) = inner else {
            break;
        };
        node = inner;
    }
    let is_name = matches!(
        node.kind(),
        "identifier"
            | "field_identifier"
            | "type_identifier"
            | "destructor_name"
            | "operator_name"
            | "operator_cast"
    );
    is_name.then_some(Named { node, of: None })
}

/// `A::B::name`: the name, and `A::B`.
fn qualified<'t>(walk: &Walk<'t, '_>, whole: Node<'t>) -> Named<'t> {
    let mut node = whole;
    for _ in 0..DECLARATORS_MAX {
        match node.child_by_field_name("name") {
            Some(inner) if node.kind() == "qualified_identifier" => node = inner,
            _ => break,
        }
    }
    let scope = Bytes::new(whole.start_byte(), node.start_byte());
    let scope = String::from_utf8_lossy(scope.of(walk.text));
    let scope = scope.trim_end_matches(':').trim_start_matches(':').trim();
    Named {
        node,
        of: (!scope.is_empty()).then(|| scope.to_owned()),
    }
}

/// A Go method: its name, and the type of its receiver.
fn receiver<'t>(walk: &Walk<'t, '_>, node: Node<'t>) -> Option<Named<'t>> {
    let name = node.child_by_field_name("name")?;
    let receiver = node
        .child_by_field_name("receiver")
        .and_then(|list| list.named_child(0));
    let of = receiver.and_then(|receiver| receiver.child_by_field_name("type"));
    Some(Named {
        node: name,
        of: of.map(|of| text(walk.text, base(walk, of))),
    })
}

/// The text of a name, on one line and not too long.
fn text(file: &[u8], node: Node<'_>) -> String {
    let name = bytes(node).of(file);
    let name = String::from_utf8_lossy(&name[..name.len().min(NAME_BYTES_MAX)]);
    name.split_ascii_whitespace().collect::<Vec<_>>().join(" ")
}

/// The span of a definition with the nodes around it that are part of it, where they hold nothing else.
fn wrapped(walk: &Walk<'_, '_>, node: Node<'_>) -> Bytes {
    let mut span = bytes(node);
    for frame in walk.frames.iter().rev() {
        if frame.act.marks & WRAP == 0 || !is_alone(walk, frame.node) {
            break;
        }
        span = bytes(frame.node);
    }
    span
}

/// Whether a node wraps one definition only.
fn is_alone(walk: &Walk<'_, '_>, node: Node<'_>) -> bool {
    let mut cursor = node.walk();
    let holds = |child: &Node<'_>| {
        let act = walk
            .acts
            .by_kind
            .get(child.kind_id() as usize)
            .copied()
            .unwrap_or_default();
        act.def != 0 || act.marks & WRAP != 0
    };
    let mut defined = node.named_children(&mut cursor).filter(holds);
    defined.next().is_none() || defined.next().is_none()
}

/// A definition up to its body, on one line.
fn signature(walk: &Walk<'_, '_>, node: Node<'_>, span: Bytes) -> Box<str> {
    let start = signature_start(walk, node, span);
    let end = body(walk, node).map_or(span.end as usize, |body| body.start_byte());
    let text = walk.text.get(start..end.max(start)).unwrap_or_default();
    let is_bodiless = end >= span.end as usize;
    // Without a body it may be long data: the first line says enough, unless a parenthesis is open in it.
    let text = match memchr::memchr(b'\n', text) {
        Some(line)
            if is_bodiless && !text[..line].contains(&b'(') || comes_comment(&text[line..]) =>
        {
            &text[..line]
        }
        _ => text,
    };
    one_line(&text[..text.len().min(SIGNATURE_BYTES_MAX * 2)]).into()
}

fn comes_comment(text: &[u8]) -> bool {
    let text = text.trim_ascii_start();
    [&b"#"[..], b"//", b"/*", b"--"]
        .iter()
        .any(|sign| text.starts_with(sign))
}

/// Decorators are no part of a signature, exports and templates are.
fn signature_start(walk: &Walk<'_, '_>, node: Node<'_>, span: Bytes) -> usize {
    let is_decorated = walk
        .frames
        .last()
        .is_some_and(|parent| parent.node.kind() == "decorated_definition");
    if is_decorated {
        node.start_byte()
    } else {
        span.start as usize
    }
}

fn body<'t>(walk: &Walk<'t, '_>, node: Node<'t>) -> Option<Node<'t>> {
    let own = |node: Node<'t>| node.child_by_field_id(walk.acts.fields.body);
    let value = || {
        value(walk, node)
            .filter(|value| is_function(walk, *value))
            .and_then(own)
    };
    let inner = || {
        node.child_by_field_name("type")
            .filter(|of| of.kind().ends_with("_type"))
            .and_then(|of| of.named_child(0))
    };
    let typed = || inner().filter(|inner| inner.kind().ends_with("_list"));
    own(node)
        .or_else(value)
        .or_else(typed)
        .or_else(|| marked(walk, node))
}

/// The first child that is a body by its kind.
fn marked<'t>(walk: &Walk<'t, '_>, node: Node<'t>) -> Option<Node<'t>> {
    let is_body = |child: &Node<'_>| {
        let act = walk.acts.by_kind.get(child.kind_id() as usize);
        act.is_some_and(|act| act.is_body)
    };
    let mut cursor = walk.acts.has_bodies.then(|| node.walk())?;
    node.children(&mut cursor).find(is_body)
}

/// Joins the words of a text by single spaces, cuts it, and takes off what opens a body.
pub(super) fn one_line(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let mut line = String::with_capacity(text.len());
    for word in text.split_whitespace() {
        if line.len() + word.len() > SIGNATURE_BYTES_MAX {
            line.push('…');
            break;
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    let bare = line.trim_end_matches(['{', ':', '=', ';', ',', ' ']);
    let bare = bare.strip_suffix("=>").unwrap_or(bare).trim_end();
    bare.to_owned()
}

/// The string that a body begins with, in languages where it is documentation.
fn docstring(walk: &Walk<'_, '_>, node: Node<'_>) -> Option<Bytes> {
    walk.shape.docstrings?;
    let body = node.child_by_field_id(walk.acts.fields.body)?;
    let first = body.named_child(0)?;
    let act = walk.acts.by_kind.get(first.kind_id() as usize)?;
    (act.marks & DOCSTRING != 0 && is_only_string(first)).then(|| bytes(first))
}
