//! Holds the names of types: one meaning each, and a noun that says of what.
//!
//! A reader who meets `Place` has to ask "of what?"; `ConnectionSlot` says it. Two visible types of one
//! name make a reader ask "which?".

use std::collections::BTreeMap;

use syn::visit::{self, Visit};

use crate::sources::{attributes, is_for_tests, sources};

/// The crates that the others build upon: their words are everyone's.
const CRATES: &[&str] = &["base", "identity", "policy", "gate", "mcp", "net"];

/// Words that name no thing: as the whole name of a type they need a word that says of what.
const BARE: &[&str] = &[
    "Asked", "Data", "Desk", "End", "Ending", "Entry", "Found", "Full", "Given", "Held", "Info",
    "Inner", "Item", "Kept", "Kind", "Known", "Line", "Made", "Next", "Open", "Opened", "Out",
    "Owed", "Own", "Part", "Piece", "Place", "Room", "Said", "Seat", "Seen", "Sent", "Side",
    "Spent", "Stage", "State", "Step", "Taken", "Thing", "Told", "Under", "Value", "Voice",
    "Waiting", "Way", "What", "Who", "Whole",
];

/// The types that a file declares outside tests, in modules and in functions.
#[derive(Default)]
struct Types {
    /// Each with whether anything outside its module can see it.
    declared: Vec<(String, bool)>,
}

impl<'ast> Visit<'ast> for Types {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        if is_for_tests(attributes(item)) {
            return;
        }
        let (name, visible) = match item {
            syn::Item::Enum(item) => (&item.ident, &item.vis),
            syn::Item::Struct(item) => (&item.ident, &item.vis),
            syn::Item::Trait(item) => (&item.ident, &item.vis),
            syn::Item::Type(item) => (&item.ident, &item.vis),
            syn::Item::Union(item) => (&item.ident, &item.vis),
            _ => return visit::visit_item(self, item),
        };
        let visible = !matches!(visible, syn::Visibility::Inherited);
        self.declared.push((name.to_string(), visible));
        visit::visit_item(self, item);
    }
}

/// The types of all these crates, as crate, name, and whether anything outside the module can see it.
fn types() -> Vec<(&'static str, String, bool)> {
    let mut all = Vec::new();
    for name in CRATES {
        let mut types = Types::default();
        for source in sources(name) {
            types.visit_file(&source.file);
        }
        let declared = types.declared.into_iter();
        all.extend(declared.map(|(of, visible)| (*name, of, visible)));
    }
    all
}

#[test]
fn no_two_visible_types_share_a_name() {
    let mut crates = BTreeMap::<String, Vec<&str>>::new();
    for (name, of, visible) in types() {
        if visible {
            crates.entry(of).or_default().push(name);
        }
    }
    crates.retain(|_, crates| crates.len() > 1);
    assert_eq!(crates, BTreeMap::new());
}

#[test]
fn names_say_of_what() {
    let bare = types()
        .into_iter()
        .filter(|(_, of, _)| BARE.contains(&of.as_str()));
    let mut found: Vec<(&str, String)> = bare.map(|(name, of, _)| (name, of)).collect();
    found.sort();
    assert_eq!(found, Vec::new());
}
