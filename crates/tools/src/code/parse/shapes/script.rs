//! Python, JavaScript, TypeScript, Ruby, PHP, Bash.

use std::sync::OnceLock;

use super::super::types::SymbolKind::{
    Class, Constant, Enum, Field, Function, Interface, Method, Module, Trait, Type, Variable,
    Variant,
};
use super::{At, Def, Shape, When, as_is, def};

pub(crate) static PYTHON: Shape = Shape {
    grammar: tree_sitter_python::LANGUAGE,
    defs: &[
        def("function_definition", Function),
        def("class_definition", Class),
        def("assignment", Variable)
            .at(At::FieldOf("left", "identifier"))
            .when(When::Outside),
        def("type_alias_statement", Type)
            .at(At::Field("left"))
            .when(When::Outside),
    ],
    scopes: &[],
    comments: &["comment"],
    between: &["decorator"],
    wraps: &["decorated_definition", "expression_statement"],
    lambdas: &["lambda"],
    docstrings: Some("expression_statement"),
    letters: b"=:#\"'",
    preprocessed: false,
    refine: as_is,
    acts: OnceLock::new(),
};

const JAVASCRIPT_DEFS: [Def; 11] = [
    def("function_declaration", Function),
    def("generator_function_declaration", Function),
    def("class_declaration", Class),
    def("method_definition", Method),
    def("variable_declarator", Variable)
        .at(At::FieldOf("name", "identifier"))
        .when(When::Outside),
    def("assignment_expression", Function)
        .at(At::Member)
        .when(When::Valued),
    def("pair", Method)
        .at(At::FieldOf("key", "property_identifier"))
        .when(When::Valued),
    def("field_definition", Field).at(At::Field("property")),
    def("class", Class),
    def("function_expression", Function),
    def("export_specifier", Variable).at(At::Field("alias")),
];

pub(crate) static JAVASCRIPT: Shape = Shape {
    grammar: tree_sitter_javascript::LANGUAGE,
    defs: &JAVASCRIPT_DEFS,
    scopes: &[],
    comments: &["comment", "html_comment"],
    between: &["decorator"],
    wraps: &[
        "export_statement",
        "lexical_declaration",
        "variable_declaration",
        "expression_statement",
    ],
    lambdas: &[
        "arrow_function",
        "function_expression",
        "generator_function",
    ],
    docstrings: None,
    letters: b"",
    preprocessed: false,
    refine: as_is,
    acts: OnceLock::new(),
};

const TYPESCRIPT_DEFS: [Def; 22] = [
    def("function_declaration", Function),
    def("generator_function_declaration", Function),
    def("class_declaration", Class),
    def("method_definition", Method),
    def("variable_declarator", Variable)
        .at(At::FieldOf("name", "identifier"))
        .when(When::Outside),
    def("assignment_expression", Function)
        .at(At::Member)
        .when(When::Valued),
    def("pair", Method)
        .at(At::FieldOf("key", "property_identifier"))
        .when(When::Valued),
    def("class", Class),
    def("function_expression", Function),
    def("public_field_definition", Field),
    def("abstract_class_declaration", Class),
    def("interface_declaration", Interface),
    def("type_alias_declaration", Type),
    def("enum_declaration", Enum),
    def("enum_assignment", Variant),
    def("enum_body", Variant).at(At::Each("name")),
    def("internal_module", Module),
    def("module", Module),
    def("function_signature", Function),
    def("method_signature", Method),
    def("abstract_method_signature", Method),
    def("property_signature", Field).when(When::Outside),
];

const fn typescript(grammar: tree_sitter_language::LanguageFn) -> Shape {
    Shape {
        grammar,
        defs: &TYPESCRIPT_DEFS,
        scopes: &[],
        comments: &["comment", "html_comment"],
        between: &["decorator"],
        wraps: &[
            "export_statement",
            "ambient_declaration",
            "lexical_declaration",
            "variable_declaration",
            "expression_statement",
        ],
        lambdas: &[
            "arrow_function",
            "function_expression",
            "generator_function",
        ],
        docstrings: None,
        letters: b"",
        preprocessed: false,
        refine: as_is,
        acts: OnceLock::new(),
    }
}

pub(crate) static TYPESCRIPT: Shape = typescript(tree_sitter_typescript::LANGUAGE_TYPESCRIPT);
pub(crate) static TSX: Shape = typescript(tree_sitter_typescript::LANGUAGE_TSX);

pub(crate) static RUBY: Shape = Shape {
    grammar: tree_sitter_ruby::LANGUAGE,
    defs: &[
        def("method", Function),
        def("singleton_method", Method),
        def("class", Class),
        def("module", Module),
        def("assignment", Constant)
            .at(At::FieldOf("left", "constant"))
            .when(When::Outside),
    ],
    scopes: &[],
    comments: &["comment"],
    between: &[],
    wraps: &[],
    lambdas: &["lambda", "block", "do_block"],
    docstrings: None,
    letters: b"",
    preprocessed: false,
    refine: as_is,
    acts: OnceLock::new(),
};

pub(crate) static PHP: Shape = Shape {
    grammar: tree_sitter_php::LANGUAGE_PHP,
    defs: &[
        def("function_definition", Function),
        def("method_declaration", Method),
        def("class_declaration", Class),
        def("interface_declaration", Interface),
        def("trait_declaration", Trait),
        def("enum_declaration", Enum),
        def("enum_case", Variant),
        def("const_element", Constant).at(At::Child("name")),
        def("property_element", Field),
    ],
    scopes: &[("namespace_definition", At::Field("name"))],
    comments: &["comment"],
    between: &["attribute_list"],
    wraps: &["const_declaration", "property_declaration"],
    lambdas: &["anonymous_function", "arrow_function"],
    docstrings: None,
    letters: b"",
    preprocessed: false,
    refine: as_is,
    acts: OnceLock::new(),
};

pub(crate) static BASH: Shape = Shape {
    grammar: tree_sitter_bash::LANGUAGE,
    defs: &[
        def("function_definition", Function),
        def("variable_assignment", Variable)
            .at(At::FieldOf("name", "variable_name"))
            .when(When::Outside),
    ],
    scopes: &[],
    comments: &["comment"],
    between: &[],
    wraps: &["declaration_command"],
    lambdas: &["subshell"],
    docstrings: None,
    letters: b"",
    preprocessed: false,
    refine: as_is,
    acts: OnceLock::new(),
};
