//! Rust, Go, Swift.

use std::sync::OnceLock;

use tree_sitter::Node;

use super::super::types::SymbolKind::{
    self, Class, Constant, Enum, Field, Function, Interface, Macro, Method, Module, Struct, Trait,
    Type, Variable, Variant,
};
use super::{At, Shape, When, as_is, def};

pub(crate) static RUST: Shape = Shape {
    grammar: tree_sitter_rust::LANGUAGE,
    defs: &[
        def("function_item", Function),
        def("function_signature_item", Function),
        def("struct_item", Struct),
        def("union_item", Struct),
        def("enum_item", Enum),
        def("enum_variant", Variant),
        def("trait_item", Trait),
        def("type_item", Type),
        def("associated_type", Type),
        def("const_item", Constant),
        def("static_item", Constant),
        def("mod_item", Module).when(When::Bodied),
        def("macro_definition", Macro),
        def("field_declaration", Field),
    ],
    scopes: &[("impl_item", At::Field("type"))],
    comments: &["line_comment", "block_comment"],
    between: &["attribute_item"],
    wraps: &[],
    lambdas: &["closure_expression"],
    docstrings: None,
    letters: b"{/",
    preprocessed: false,
    refine: as_is,
    acts: OnceLock::new(),
};

pub(crate) static GO: Shape = Shape {
    grammar: tree_sitter_go::LANGUAGE,
    defs: &[
        def("function_declaration", Function),
        def("method_declaration", Method).at(At::Receiver),
        def("type_spec", Type),
        def("type_alias", Type),
        def("method_elem", Method),
        def("field_declaration", Field),
        def("const_spec", Constant).when(When::Outside),
        def("var_spec", Variable).when(When::Outside),
    ],
    scopes: &[],
    comments: &["comment"],
    between: &[],
    wraps: &["type_declaration", "const_declaration", "var_declaration"],
    lambdas: &["func_literal"],
    docstrings: None,
    letters: b"",
    preprocessed: false,
    refine: go,
    acts: OnceLock::new(),
};

/// A Go type is what stands behind its name.
fn go(node: Node<'_>, _: &[u8], kind: SymbolKind) -> Option<SymbolKind> {
    let of = node.child_by_field_name("type").map(|node| node.kind());
    Some(match (node.kind(), of) {
        ("type_spec", Some("struct_type")) => Struct,
        ("type_spec", Some("interface_type")) => Interface,
        _ => kind,
    })
}

pub(crate) static SWIFT: Shape = Shape {
    grammar: tree_sitter_swift::LANGUAGE,
    defs: &[
        def("function_declaration", Function),
        def("protocol_function_declaration", Method),
        def("class_declaration", Class),
        def("protocol_declaration", Interface),
        def("init_declaration", Method).at(At::Word("init")),
        def("deinit_declaration", Method).at(At::Word("deinit")),
        def("property_declaration", Variable).when(When::Outside),
        def("protocol_property_declaration", Field),
        def("typealias_declaration", Type),
        def("enum_entry", Variant).at(At::Each("name")),
    ],
    scopes: &[],
    comments: &["comment", "multiline_comment"],
    between: &[],
    wraps: &[],
    lambdas: &["lambda_literal"],
    docstrings: None,
    letters: b"",
    preprocessed: false,
    refine: swift,
    acts: OnceLock::new(),
};

/// Swift has one node for classes, structs, enums, actors and extensions.
fn swift(node: Node<'_>, text: &[u8], kind: SymbolKind) -> Option<SymbolKind> {
    let Some(word) = node.child_by_field_name("declaration_kind") else {
        return Some(kind);
    };
    match &text[word.byte_range()] {
        b"struct" => Some(Struct),
        b"enum" => Some(Enum),
        b"extension" => None,
        _ => Some(kind),
    }
}
