//! C and C++.

use std::sync::OnceLock;

use tree_sitter::Node;

use super::super::types::SymbolKind::{
    self, Class, Enum, Field, Function, Macro, Struct, Type, Variable, Variant,
};
use super::{At, Shape, When, def};

pub(crate) static C: Shape = Shape {
    grammar: tree_sitter_c::LANGUAGE,
    defs: &[
        def("function_definition", Function).at(At::Declarator),
        def("declaration", Variable)
            .at(At::Declarator)
            .when(When::Outside),
        def("field_declaration", Field).at(At::Declarator),
        def("type_definition", Type).at(At::Declarator),
        def("struct_specifier", Struct).when(When::Bodied),
        def("union_specifier", Struct).when(When::Bodied),
        def("enum_specifier", Enum).when(When::Bodied),
        def("enumerator", Variant),
        def("preproc_def", Macro),
        def("preproc_function_def", Macro),
    ],
    scopes: &[],
    comments: &["comment"],
    between: &["attribute_declaration"],
    wraps: &["type_definition", "linkage_specification"],
    lambdas: &[],
    docstrings: None,
    letters: b"",
    preprocessed: true,
    refine: declared,
    acts: OnceLock::new(),
};

pub(crate) static CPP: Shape = Shape {
    grammar: tree_sitter_cpp::LANGUAGE,
    defs: &[
        def("function_definition", Function).at(At::Declarator),
        def("declaration", Variable)
            .at(At::Declarator)
            .when(When::Outside),
        def("field_declaration", Field).at(At::Declarator),
        def("type_definition", Type).at(At::Declarator),
        def("alias_declaration", Type),
        def("class_specifier", Class).when(When::Bodied),
        def("struct_specifier", Struct).when(When::Bodied),
        def("union_specifier", Struct).when(When::Bodied),
        def("enum_specifier", Enum).when(When::Bodied),
        def("enumerator", Variant),
        def("concept_definition", Type),
        def("preproc_def", Macro),
        def("preproc_function_def", Macro),
    ],
    scopes: &[("namespace_definition", At::Field("name"))],
    comments: &["comment"],
    between: &["attribute_declaration"],
    wraps: &[
        "template_declaration",
        "type_definition",
        "linkage_specification",
    ],
    lambdas: &["lambda_expression"],
    docstrings: None,
    letters: b"",
    preprocessed: true,
    refine: declared,
    acts: OnceLock::new(),
};

/// A declaration with parameters declares a function.
fn declared(node: Node<'_>, _: &[u8], kind: SymbolKind) -> Option<SymbolKind> {
    if !matches!(kind, Variable | Field) {
        return Some(kind);
    }
    let mut inner = node.child_by_field_name("declarator");
    while let Some(declarator) = inner {
        if declarator.kind() == "function_declarator" {
            // `int (*callback)(int)` is a variable: its parameters are those of what it points to.
            let of = declarator
                .child_by_field_name("declarator")
                .map(|node| node.kind());
            return Some(if of == Some("parenthesized_declarator") {
                kind
            } else {
                Function
            });
        }
        inner = match declarator.kind() {
            "pointer_declarator" | "reference_declarator" => {
                declarator.named_child(declarator.named_child_count().saturating_sub(1) as u32)
            }
            _ => None,
        };
    }
    Some(kind)
}
