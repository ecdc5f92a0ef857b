//! Java, C#, Kotlin.

use std::sync::OnceLock;

use tree_sitter::Node;

use super::super::types::SymbolKind::{
    self, Class, Enum, Field, Function, Interface, Method, Struct, Type, Variable, Variant,
};
use super::{At, Shape, When, as_is, def};

pub(crate) static JAVA: Shape = Shape {
    grammar: tree_sitter_java::LANGUAGE,
    defs: &[
        def("class_declaration", Class),
        def("interface_declaration", Interface),
        def("enum_declaration", Enum),
        def("record_declaration", Struct),
        def("annotation_type_declaration", Interface),
        def("method_declaration", Method),
        def("constructor_declaration", Method),
        def("compact_constructor_declaration", Method),
        def("annotation_type_element_declaration", Method),
        def("enum_constant", Variant),
        def("variable_declarator", Variable).when(When::Outside),
    ],
    scopes: &[],
    comments: &["line_comment", "block_comment"],
    between: &[],
    wraps: &["field_declaration", "constant_declaration"],
    lambdas: &["lambda_expression"],
    docstrings: None,
    letters: b"",
    preprocessed: false,
    refine: as_is,
    acts: OnceLock::new(),
};

pub(crate) static CSHARP: Shape = Shape {
    grammar: tree_sitter_c_sharp::LANGUAGE,
    defs: &[
        def("class_declaration", Class),
        def("interface_declaration", Interface),
        def("struct_declaration", Struct),
        def("record_declaration", Struct),
        def("enum_declaration", Enum),
        def("enum_member_declaration", Variant),
        def("method_declaration", Method),
        def("constructor_declaration", Method),
        def("destructor_declaration", Method),
        def("local_function_statement", Function),
        def("delegate_declaration", Type),
        def("property_declaration", Field),
        def("event_declaration", Field),
        def("variable_declarator", Variable).when(When::Outside),
    ],
    scopes: &[
        ("namespace_declaration", At::Field("name")),
        ("file_scoped_namespace_declaration", At::Field("name")),
    ],
    comments: &["comment"],
    between: &[],
    wraps: &[
        "variable_declaration",
        "field_declaration",
        "event_field_declaration",
    ],
    lambdas: &["lambda_expression", "anonymous_method_expression"],
    docstrings: None,
    letters: b"",
    preprocessed: false,
    refine: as_is,
    acts: OnceLock::new(),
};

pub(crate) static KOTLIN: Shape = Shape {
    grammar: tree_sitter_kotlin_ng::LANGUAGE,
    defs: &[
        def("class_declaration", Class),
        def("object_declaration", Class),
        def("function_declaration", Function),
        def("secondary_constructor", Method).at(At::Word("constructor")),
        def("property_declaration", Variable)
            .at(At::Child("variable_declaration"))
            .when(When::Outside),
        def("type_alias", Type).at(At::Field("type")),
        def("enum_entry", Variant).at(At::Child("identifier")),
    ],
    scopes: &[],
    comments: &["line_comment", "block_comment"],
    between: &[],
    wraps: &[],
    lambdas: &["lambda_literal", "anonymous_function"],
    docstrings: None,
    letters: b"",
    preprocessed: false,
    refine: kotlin,
    acts: OnceLock::new(),
};

/// Kotlin has one node for classes, interfaces and enums.
fn kotlin(node: Node<'_>, text: &[u8], kind: SymbolKind) -> Option<SymbolKind> {
    if node.kind() != "class_declaration" {
        return Some(kind);
    }
    let mut cursor = node.walk();
    let kinds: Vec<_> = node
        .children(&mut cursor)
        .map(|child| (child.kind(), child.byte_range()))
        .collect();
    let is_enum = |(kind, bytes): &(&str, std::ops::Range<usize>)| {
        *kind == "enum_class_body"
            || *kind == "modifiers"
                && text[bytes.clone()]
                    .split(u8::is_ascii_whitespace)
                    .any(|word| word == b"enum")
    };
    Some(match () {
        () if kinds.iter().any(|(kind, _)| *kind == "interface") => Interface,
        () if kinds.iter().any(is_enum) => Enum,
        () => kind,
    })
}
