//! SQL, of whatever database.

use std::sync::OnceLock;

use super::super::types::SymbolKind::{Field, Function, Module, Table, Type, Variable};
use super::{At, Shape, as_is, def};

pub(crate) static SQL: Shape = Shape {
    grammar: tree_sitter_sequel::LANGUAGE,
    defs: &[
        def("create_table", Table).at(At::Child("object_reference")),
        def("create_view", Table).at(At::Child("object_reference")),
        def("create_materialized_view", Table).at(At::Child("object_reference")),
        def("create_function", Function).at(At::Child("object_reference")),
        def("create_trigger", Function).at(At::Child("object_reference")),
        def("create_type", Type).at(At::Child("object_reference")),
        def("create_sequence", Variable).at(At::Child("object_reference")),
        def("create_schema", Module).at(At::Child("identifier")),
        def("create_index", Variable).at(At::Field("column")),
        def("column_definition", Field),
    ],
    scopes: &[("alter_table", At::Child("object_reference"))],
    comments: &["comment", "marginalia"],
    between: &[],
    wraps: &["statement"],
    lambdas: &[],
    docstrings: None,
    letters: b"",
    preprocessed: false,
    refine: as_is,
    acts: OnceLock::new(),
};
