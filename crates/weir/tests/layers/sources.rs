//! The source files of a crate, parsed: what is asked of them is asked of syntax and not of text.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use syn::visit::{self, Visit};

/// One source file.
pub(crate) struct Source {
    /// Its path from the workspace.
    pub(crate) path: String,
    pub(crate) text: String,
    /// Its items, without those that only tests have.
    pub(crate) file: syn::File,
    /// Whether only tests have the whole file.
    pub(crate) for_tests: bool,
}

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .expect("the workspace")
}

/// The source files of a crate in the order of their paths, without those that only tests have.
pub(crate) fn sources(name: &str) -> Vec<Source> {
    let all = all_sources(name).into_iter();
    all.filter(|source| !source.for_tests).collect()
}

/// The source files of a crate in the order of their paths.
pub(crate) fn all_sources(name: &str) -> Vec<Source> {
    let root = root();
    let mut texts = BTreeMap::new();
    walk(&root.join("crates").join(name).join("src"), &mut texts);
    let mut for_tests = Vec::new();
    let mut all = Vec::new();
    for (path, text) in texts {
        let mut file =
            syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let mut modules = TestModules {
            folder: folder_of(&path),
            found: &mut for_tests,
        };
        modules.visit_file(&file);
        file.items.retain(|item| !is_for_tests(attributes(item)));
        all.push((path, text, file));
    }
    let source = |(path, text, file): (PathBuf, String, syn::File)| Source {
        for_tests: for_tests.iter().any(|tests| path.starts_with(tests)),
        path: path
            .strip_prefix(&root)
            .expect("inside")
            .display()
            .to_string(),
        text,
        file,
    };
    all.into_iter().map(source).collect()
}

fn walk(folder: &Path, into: &mut BTreeMap<PathBuf, String>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            walk(&path, into);
        } else if path.extension().is_some_and(|e| e == "rs") {
            let text = fs::read_to_string(&path).expect("a source file");
            into.insert(path, text);
        }
    }
}

/// Where the modules stand that a file declares.
fn folder_of(path: &Path) -> PathBuf {
    let folder = path.parent().expect("a folder");
    match path.file_stem().and_then(|stem| stem.to_str()) {
        Some("lib" | "main" | "mod") => folder.to_owned(),
        _ => path.with_extension(""),
    }
}

/// Finds `#[cfg(test)] mod name;`: the file and the folder of such a module are for tests only.
struct TestModules<'a> {
    folder: PathBuf,
    found: &'a mut Vec<PathBuf>,
}

impl<'ast> Visit<'ast> for TestModules<'_> {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        let path = self.folder.join(item.ident.to_string());
        if item.content.is_none() && is_for_tests(&item.attrs) {
            self.found.push(path.with_extension("rs"));
            self.found.push(path);
        } else {
            let folder = std::mem::replace(&mut self.folder, path);
            visit::visit_item_mod(self, item);
            self.folder = folder;
        }
    }
}

/// Whether `#[cfg(test)]` or `#[test]` is among the attributes.
pub(crate) fn is_for_tests(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let cfg_test = || {
            attribute
                .parse_args::<syn::Path>()
                .is_ok_and(|path| path.is_ident("test"))
        };
        attribute.path().is_ident("test") || attribute.path().is_ident("cfg") && cfg_test()
    })
}

pub(crate) fn attributes(item: &syn::Item) -> &[syn::Attribute] {
    use syn::Item;
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::ExternCrate(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::ForeignMod(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::TraitAlias(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// The name of the type, without its path and arguments.
pub(crate) fn type_name(of: &syn::Type) -> Option<String> {
    let syn::Type::Path(path) = of else {
        return None;
    };
    Some(path.path.segments.last()?.ident.to_string())
}
