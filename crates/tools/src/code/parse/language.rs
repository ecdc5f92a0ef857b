//! Which language a file is written in: by its name, by its extension, by its first line.
//!
//! One row a language. A row says how such files are cut too, so a language is added here and, where it has a
//! grammar, in one file below `shapes`. What no row names is `text`.

use std::borrow::Cow;

use serde::de::Deserializer;
use serde::ser::Serializer;
use serde::{Deserialize, Serialize};

use super::shapes::{self, Shape};

/// A language of the table.
#[derive(Clone, Copy)]
pub struct Language(&'static Row);

/// How files of a language are cut.
#[derive(Clone, Copy)]
pub enum Cut {
    /// By a grammar.
    Grammar(&'static Shape),
    /// By headings.
    Markdown,
    /// By keys at the left edge: YAML, TOML, INI and their kin.
    Keys,
    /// By the keys of the outermost object.
    Json,
    /// At blank lines and by indent.
    Blocks,
}

/// What the table knows of a language.
pub struct Row {
    /// Its name, in lower case: what filters and answers call it.
    pub name: &'static str,
    /// How its files are cut.
    pub cut: Cut,
    /// What stands between the parts of a qualified name.
    pub joint: &'static str,
    /// Extensions, without the dot, in lower case.
    pub extensions: &'static [&'static str],
    /// Whole file names.
    pub files: &'static [&'static str],
    /// Interpreters of a `#!` line, without version numbers.
    pub interpreters: &'static [&'static str],
    /// Other names that people call it by.
    pub aliases: &'static [&'static str],
}

const fn row(name: &'static str, cut: Cut, extensions: &'static [&'static str]) -> Row {
    Row {
        name,
        cut,
        joint: ".",
        extensions,
        files: &[],
        interpreters: &[],
        aliases: &[],
    }
}

impl Row {
    const fn joint(self, joint: &'static str) -> Row {
        Row { joint, ..self }
    }
    const fn files(self, files: &'static [&'static str]) -> Row {
        Row { files, ..self }
    }
    const fn run_by(self, interpreters: &'static [&'static str]) -> Row {
        Row {
            interpreters,
            ..self
        }
    }
    const fn also(self, aliases: &'static [&'static str]) -> Row {
        Row { aliases, ..self }
    }
}

/// All languages. Where two claim an extension, the first one has it.
pub static ALL: &[Row] = &[
    row(
        "python",
        Cut::Grammar(&shapes::PYTHON),
        &["py", "pyi", "pyw", "pyx", "pxd", "bzl", "star"],
    )
    .files(&[
        "SConstruct",
        "SConscript",
        "BUILD",
        "BUILD.bazel",
        "WORKSPACE",
        "wscript",
    ])
    .run_by(&["python", "pypy"])
    .also(&["py", "python3"]),
    row(
        "javascript",
        Cut::Grammar(&shapes::JAVASCRIPT),
        &["js", "mjs", "cjs", "jsx"],
    )
    .files(&["Jakefile"])
    .run_by(&["node", "bun", "nodejs"])
    .also(&["js", "jsx", "ecmascript"]),
    row(
        "typescript",
        Cut::Grammar(&shapes::TYPESCRIPT),
        &["ts", "mts", "cts"],
    )
    .run_by(&["deno", "ts-node", "tsx"])
    .also(&["ts"]),
    row("typescript", Cut::Grammar(&shapes::TSX), &["tsx"]),
    row("rust", Cut::Grammar(&shapes::RUST), &["rs"])
        .joint("::")
        .run_by(&["rust-script"])
        .also(&["rs"]),
    row("go", Cut::Grammar(&shapes::GO), &["go"]).also(&["golang"]),
    row("java", Cut::Grammar(&shapes::JAVA), &["java"]),
    row("c", Cut::Grammar(&shapes::C), &["c", "h"]).joint("::"),
    row(
        "cpp",
        Cut::Grammar(&shapes::CPP),
        &[
            "cc", "cpp", "cxx", "c++", "hh", "hpp", "hxx", "h++", "ipp", "inl", "tpp", "cu", "cuh",
            "ino",
        ],
    )
    .joint("::")
    .also(&["c++", "cplusplus", "cuda"]),
    row("csharp", Cut::Grammar(&shapes::CSHARP), &["cs", "csx"]).also(&["c#", "cs", "c_sharp"]),
    row(
        "ruby",
        Cut::Grammar(&shapes::RUBY),
        &["rb", "rake", "gemspec", "ru", "rbi", "podspec"],
    )
    .joint("::")
    .files(&[
        "Rakefile",
        "Gemfile",
        "Podfile",
        "Vagrantfile",
        "Guardfile",
        "Brewfile",
        "Fastfile",
    ])
    .run_by(&["ruby", "jruby"])
    .also(&["rb"]),
    row(
        "php",
        Cut::Grammar(&shapes::PHP),
        &[
            "php", "phtml", "php3", "php4", "php5", "php7", "php8", "phpt",
        ],
    )
    .joint("::")
    .run_by(&["php"]),
    row("kotlin", Cut::Grammar(&shapes::KOTLIN), &["kt", "kts"]).also(&["kt"]),
    row("swift", Cut::Grammar(&shapes::SWIFT), &["swift"]).run_by(&["swift"]),
    row(
        "bash",
        Cut::Grammar(&shapes::BASH),
        &["sh", "bash", "bats", "ebuild", "zsh", "ksh"],
    )
    .files(&[
        ".bashrc",
        ".bash_profile",
        ".bash_aliases",
        ".profile",
        ".zshrc",
        ".zshenv",
        ".zprofile",
        "PKGBUILD",
        "APKBUILD",
    ])
    .run_by(&["sh", "bash", "dash", "zsh", "ksh", "ash", "bats"])
    .also(&["sh", "shell", "zsh"]),
    row(
        "sql",
        Cut::Grammar(&shapes::SQL),
        &["sql", "psql", "pgsql", "ddl", "dml"],
    )
    .also(&["postgresql", "mysql", "sqlite"]),
    row(
        "markdown",
        Cut::Markdown,
        &["md", "markdown", "mdx", "mkd", "mdown", "qmd", "rmd"],
    )
    .joint(" › ")
    .also(&["md"]),
    row("restructuredtext", Cut::Blocks, &["rst", "rest"]).also(&["rst"]),
    row("asciidoc", Cut::Blocks, &["adoc", "asciidoc"]),
    row("org", Cut::Blocks, &["org"]),
    row(
        "json",
        Cut::Json,
        &[
            "json",
            "jsonc",
            "json5",
            "geojson",
            "webmanifest",
            "jsonl",
            "ndjson",
            "ipynb",
        ],
    )
    .files(&[
        ".babelrc",
        ".eslintrc",
        ".prettierrc",
        "composer.lock",
        "Pipfile.lock",
        "flake.lock",
    ]),
    row("yaml", Cut::Keys, &["yaml", "yml"])
        .files(&[".clang-format", ".clang-tidy"])
        .also(&["yml"]),
    row("toml", Cut::Keys, &["toml"]).files(&[
        "Cargo.lock",
        "poetry.lock",
        "uv.lock",
        "Pipfile",
        "Gopkg.lock",
    ]),
    row(
        "ini",
        Cut::Keys,
        &[
            "ini",
            "cfg",
            "conf",
            "properties",
            "editorconfig",
            "desktop",
            "service",
            "env",
        ],
    )
    .files(&[
        ".editorconfig",
        ".gitconfig",
        ".gitmodules",
        ".npmrc",
        ".flake8",
        ".env",
        "tox.ini",
    ]),
    row("hcl", Cut::Keys, &["tf", "tfvars", "hcl", "nomad"]).also(&["terraform"]),
    row("protobuf", Cut::Blocks, &["proto"]).also(&["proto"]),
    row("graphql", Cut::Blocks, &["graphql", "gql", "graphqls"]),
    row("thrift", Cut::Blocks, &["thrift"]),
    row(
        "html",
        Cut::Blocks,
        &[
            "html", "htm", "xhtml", "jinja", "j2", "erb", "ejs", "hbs", "mustache",
        ],
    ),
    row("css", Cut::Blocks, &["css"]),
    row("scss", Cut::Blocks, &["scss", "sass", "less"]).also(&["sass", "less"]),
    row("vue", Cut::Blocks, &["vue"]),
    row("svelte", Cut::Blocks, &["svelte", "astro"]),
    row(
        "xml",
        Cut::Blocks,
        &[
            "xml",
            "xsd",
            "xsl",
            "xslt",
            "svg",
            "plist",
            "csproj",
            "fsproj",
            "vbproj",
            "props",
            "targets",
            "pom",
            "xaml",
            "resx",
            "storyboard",
            "xib",
            "wsdl",
        ],
    ),
    row("lua", Cut::Blocks, &["lua", "rockspec"]).run_by(&["lua", "luajit"]),
    row("perl", Cut::Blocks, &["pl", "pm", "t", "pod"])
        .joint("::")
        .run_by(&["perl"]),
    row("r", Cut::Blocks, &["r"]).run_by(&["rscript"]),
    row("scala", Cut::Blocks, &["scala", "sc", "sbt"]),
    row("groovy", Cut::Blocks, &["groovy", "gradle", "gvy"]).files(&["Jenkinsfile"]),
    row("dart", Cut::Blocks, &["dart"]),
    row("elixir", Cut::Blocks, &["ex", "exs", "eex", "heex"]).run_by(&["elixir"]),
    row("erlang", Cut::Blocks, &["erl", "hrl"]).run_by(&["escript"]),
    row("haskell", Cut::Blocks, &["hs", "lhs", "cabal"]),
    row("ocaml", Cut::Blocks, &["ml", "mli"]),
    row("fsharp", Cut::Blocks, &["fs", "fsi", "fsx"]).also(&["f#"]),
    row("clojure", Cut::Blocks, &["clj", "cljs", "cljc", "edn"]),
    row(
        "lisp",
        Cut::Blocks,
        &["lisp", "lsp", "cl", "el", "scm", "ss", "rkt"],
    )
    .also(&["scheme", "elisp"]),
    row("julia", Cut::Blocks, &["jl"]).run_by(&["julia"]),
    row("objectivec", Cut::Blocks, &["m", "mm"]).also(&["objective-c", "objc"]),
    row("zig", Cut::Blocks, &["zig", "zon"]),
    row("nim", Cut::Blocks, &["nim", "nims"]),
    row("crystal", Cut::Blocks, &["cr"]),
    row("d", Cut::Blocks, &["d", "di"]),
    row(
        "fortran",
        Cut::Blocks,
        &["f", "for", "f90", "f95", "f03", "f08"],
    ),
    row("pascal", Cut::Blocks, &["pas", "pp", "dpr"]),
    row("visualbasic", Cut::Blocks, &["vb", "bas"]),
    row("assembly", Cut::Blocks, &["s", "asm", "nasm"]).also(&["asm"]),
    row("verilog", Cut::Blocks, &["v", "vh", "sv", "svh"]),
    row("vhdl", Cut::Blocks, &["vhd", "vhdl"]),
    row("solidity", Cut::Blocks, &["sol"]),
    row("powershell", Cut::Blocks, &["ps1", "psm1", "psd1"]).run_by(&["pwsh"]),
    row("batch", Cut::Blocks, &["bat", "cmd"]),
    row("fish", Cut::Blocks, &["fish"]).run_by(&["fish"]),
    row("awk", Cut::Blocks, &["awk"]).run_by(&["awk", "gawk"]),
    row("tcl", Cut::Blocks, &["tcl", "tk"]).run_by(&["tclsh", "wish", "expect"]),
    row("vim", Cut::Blocks, &["vim"]).files(&[".vimrc"]),
    row("nix", Cut::Blocks, &["nix"]),
    row("starlark", Cut::Blocks, &["tiltfile"]).files(&["Tiltfile"]),
    row("cmake", Cut::Blocks, &["cmake"]).files(&["CMakeLists.txt"]),
    row("make", Cut::Blocks, &["mk", "mak"])
        .files(&[
            "Makefile",
            "makefile",
            "GNUmakefile",
            "Makefile.am",
            "Makefile.in",
            "Justfile",
            "justfile",
        ])
        .run_by(&["make"])
        .also(&["makefile"]),
    row("dockerfile", Cut::Blocks, &["dockerfile"])
        .files(&["Dockerfile", "Containerfile"])
        .also(&["docker"]),
    row("tex", Cut::Blocks, &["tex", "sty", "cls", "bib"]).also(&["latex"]),
    row("diff", Cut::Blocks, &["diff", "patch"]),
    row("csv", Cut::Blocks, &["csv", "tsv"]),
    TEXT,
];

const TEXT: Row = row("text", Cut::Blocks, &["txt", "text", "log"]).also(&["plain"]);
static PLAIN: Row = TEXT;

/// Bytes of a first line that are looked at.
const SHEBANG_BYTES_MAX: usize = 256;

impl Language {
    /// What is not known to be anything else.
    pub fn text() -> Language {
        Language(&PLAIN)
    }

    /// All languages of the table, in its order.
    pub fn all() -> impl Iterator<Item = Language> {
        ALL.iter().map(Language)
    }

    /// The language that is called so, whatever its case: by its name, an alias or an extension.
    pub fn named(name: &str) -> Option<Language> {
        let name = name.trim().to_ascii_lowercase();
        let has = |list: &[&str]| list.contains(&name.as_str());
        let rows = || ALL.iter();
        rows()
            .find(|row| row.name == name)
            .or_else(|| rows().find(|row| has(row.aliases)))
            .or_else(|| rows().find(|row| has(row.extensions)))
            .map(Language)
    }

    /// The language of a file: by its whole name, its extension, or the `#!` line of `head`, in this order.
    /// A header is C++ where `head` shows classes, namespaces or templates.
    pub fn detect(path: &str, head: &[u8]) -> Language {
        let name = path.rsplit('/').next().unwrap_or(path);
        let found = by_file(name)
            .or_else(|| by_extension(name))
            .or_else(|| by_shebang(head));
        match found {
            Some(row) if row.name == "c" && name.ends_with(".h") && is_cpp(head) => {
                Language::named("cpp").unwrap_or(Language(row))
            }
            Some(row) => Language(row),
            None => Language::text(),
        }
    }

    /// Its name, in lower case.
    pub fn name(self) -> &'static str {
        self.0.name
    }

    /// What stands between the parts of a qualified name.
    pub fn joint(self) -> &'static str {
        self.0.joint
    }

    /// Its row of the table.
    pub fn row(self) -> &'static Row {
        self.0
    }
}

fn by_file(name: &str) -> Option<&'static Row> {
    let stem = name
        .split('.')
        .next()
        .filter(|stem| *stem == "Dockerfile" || *stem == "Makefile");
    let is = |row: &&Row| {
        row.files.contains(&name) || stem.is_some_and(|stem| row.files.contains(&stem))
    };
    ALL.iter().find(is)
}

fn by_extension(name: &str) -> Option<&'static Row> {
    let (stem, extension) = name.rsplit_once('.')?;
    if stem.is_empty() {
        return None;
    }
    let extension = extension.to_ascii_lowercase();
    ALL.iter()
        .find(|row| row.extensions.contains(&extension.as_str()))
}

/// `#!/usr/bin/env -S python3.11 -u` and its kin.
fn by_shebang(head: &[u8]) -> Option<&'static Row> {
    let line = head.strip_prefix(b"#!")?;
    let line = &line[..line.len().min(SHEBANG_BYTES_MAX)];
    let line = line.split(|b| *b == b'\n').next()?;
    let line = String::from_utf8_lossy(line);
    let mut words = line.split_ascii_whitespace();
    let mut program = words.next()?.rsplit('/').next()?;
    if program == "env" {
        program = words.find(|word| !word.starts_with('-') && !word.contains('='))?;
        program = program.rsplit('/').next()?;
    }
    let program = program
        .trim_end_matches(|c: char| c.is_ascii_digit() || c == '.')
        .to_ascii_lowercase();
    ALL.iter()
        .find(|row| row.interpreters.contains(&program.as_str()))
}

/// Whether a header is more than C: a line that begins as only C++ does.
fn is_cpp(head: &[u8]) -> bool {
    const MARKS: &[&[u8]] = &[
        b"class ",
        b"namespace ",
        b"template<",
        b"template <",
        b"using ",
        b"public:",
        b"private:",
        b"protected:",
        b"constexpr ",
        b"#include <string>",
        b"#include <vector>",
        b"#include <memory>",
    ];
    let head = &head[..head.len().min(64 << 10)];
    head.split(|b| *b == b'\n').any(|line| {
        let line = line.trim_ascii_start();
        MARKS.iter().any(|mark| line.starts_with(mark))
    })
}

impl PartialEq for Language {
    fn eq(&self, other: &Language) -> bool {
        self.name() == other.name()
    }
}

impl Eq for Language {}

impl std::hash::Hash for Language {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.name().hash(state);
    }
}

impl std::fmt::Debug for Language {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl std::fmt::Display for Language {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl Serialize for Language {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for Language {
    /// A name that the table no longer has is text.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Language, D::Error> {
        let name = Cow::<str>::deserialize(deserializer)?;
        let row = ALL.iter().find(|row| row.name == name);
        Ok(row.map_or_else(Language::text, Language))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(path: &str, head: &str, name: &str) {
        assert_eq!(
            Language::detect(path, head.as_bytes()).name(),
            name,
            "{path}"
        );
    }

    #[test]
    fn a_file_is_known_by_its_name_then_by_its_extension_then_by_its_first_line() {
        check("src/main.rs", "", "rust");
        check("a/CMakeLists.txt", "", "cmake");
        check("Makefile.am", "", "make");
        check("docker/Dockerfile.dev", "", "dockerfile");
        check("X.PY", "", "python");
        check("bin/tool", "#!/usr/bin/env -S python3.11 -u\n", "python");
        check("bin/tool", "#!/bin/bash\n", "bash");
        check("bin/tool", "#!/usr/bin/env FOO=1 node\n", "javascript");
        check("bin/tool", "no line of that kind", "text");
        check("bin/tool", "#!", "text");
        check(".bashrc", "", "bash");
        check("a.h", "int x;\n", "c");
        check("a.h", "#pragma once\nnamespace a {}\n", "cpp");
        check("a.unknown", "", "text");
        check("", "", "text");
    }

    #[test]
    fn a_language_is_found_by_whatever_people_call_it() {
        for (said, name) in [
            ("C++", "cpp"),
            ("TS", "typescript"),
            ("py", "python"),
            ("c#", "csharp"),
        ] {
            assert_eq!(
                Language::named(said).map(Language::name),
                Some(name),
                "{said}"
            );
        }
        assert_eq!(Language::named("klingon"), None);
    }

    #[test]
    fn no_extension_stands_twice_in_the_table() {
        let mut extensions: Vec<_> = ALL.iter().flat_map(|row| row.extensions).collect();
        extensions.sort_unstable();
        let count = extensions.len();
        extensions.dedup();
        assert_eq!(extensions.len(), count);
    }
}
