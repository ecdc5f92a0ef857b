//! What the items of many servers are called at one URL.
//!
//! A name stays as it is where no other server has it. Where several have it, each is called `server__name`; a dot of a
//! server's name becomes `_`, since clients drop names that are not of letters, digits, `_` and `-`. What the configuration
//! says (`names:`) comes first. Example: of `search` of `web`, `search` of `code` and `read` of `files`, the agent sees
//! `web__search`, `code__search` and `read`. Of several, the one that a person approved keeps the name: a server that comes
//! later takes no name away that agents use. Each item can also be called by its long name where it has a short one, so that a
//! name which an agent learned stays good when a second server of that name comes.

use std::collections::HashMap;

use base::Name;

/// Between the name of a server and that of its item.
const BETWEEN: &str = "__";

/// An item of a server by the server's own name of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Owned {
    pub(crate) server: Name,
    pub(crate) name: String,
}

/// The names of one kind of item.
#[derive(Debug, Default)]
pub(crate) struct Names {
    shown: HashMap<Owned, String>,
    owned: HashMap<String, Owned>,
    /// Names that several servers have, with what each is called instead.
    clashes: HashMap<String, Vec<String>>,
}

/// What a name that an agent gave stands for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum FoundName<'a> {
    One(&'a Owned),
    /// Several have it; these are their names.
    Several(&'a [String]),
    None,
}

impl Names {
    /// `named` gives the name that the configuration has for an item; `approved` whether a person approved one of those that
    /// have the same; `is_long` whether a name reads as the long name of some server's item.
    pub(crate) fn new(
        items: impl IntoIterator<Item = Owned>,
        named: impl Fn(&Owned) -> Option<String>,
        approved: impl Fn(&Owned) -> bool,
        is_long: impl Fn(&str) -> bool,
    ) -> Names {
        let mut names = Names::default();
        let mut bare: HashMap<String, Vec<Owned>> = HashMap::new();
        for item in items {
            match named(&item) {
                Some(name) => names.add(name, item),
                None => bare.entry(item.name.clone()).or_default().push(item),
            }
        }
        for (name, mut items) in bare {
            items.dedup();
            if items.len() > 1 {
                names.keep_approved(&name, &mut items, &approved);
            }
            // A name that reads as the long one of another server's item is no bare one.
            let is_free = items.len() == 1 && !names.owned.contains_key(&name) && !is_long(&name);
            match items.pop() {
                Some(item) if is_free => names.add(name, item),
                last => {
                    let all = items.into_iter().chain(last);
                    let long = all.map(|item| {
                        let long = long(&item.server, &item.name);
                        names.add(long.clone(), item);
                        long
                    });
                    let mut long: Vec<String> = long.collect();
                    long.sort();
                    if long.len() > 1 {
                        names.clashes.insert(name, long);
                    }
                }
            }
        }
        names
    }

    /// Leaves the bare name to the one item that is approved, if it is one alone.
    fn keep_approved(
        &mut self,
        name: &str,
        items: &mut Vec<Owned>,
        approved: impl Fn(&Owned) -> bool,
    ) {
        let mut those = items.iter().enumerate().filter(|(_, item)| approved(item));
        if let (Some((at, _)), None) = (those.next(), those.next())
            && !self.owned.contains_key(name)
        {
            let item = items.remove(at);
            self.add(name.to_owned(), item);
        }
    }

    /// A name that is taken already stays with the first that has it.
    fn add(&mut self, name: String, item: Owned) {
        if !self.owned.contains_key(&name) {
            self.shown.insert(item.clone(), name.clone());
            self.owned.insert(name, item);
        }
    }

    /// What an item is called; nothing where another has its name.
    pub(crate) fn shown(&self, item: &Owned) -> Option<&str> {
        self.shown.get(item).map(String::as_str)
    }

    pub(crate) fn find(&self, name: &str) -> FoundName<'_> {
        if let Some(item) = self.owned.get(name) {
            return FoundName::One(item);
        }
        let mut of_long = self
            .shown
            .keys()
            .filter(|item| long(&item.server, &item.name) == name);
        match (of_long.next(), self.clashes.get(name)) {
            (Some(item), _) => FoundName::One(item),
            (None, Some(long)) => FoundName::Several(long),
            (None, None) => FoundName::None,
        }
    }

    /// Names that several servers have.
    pub(crate) fn clashes(&self) -> impl Iterator<Item = (&str, &[String])> {
        let all = self.clashes.iter();
        all.map(|(name, long)| (name.as_str(), long.as_slice()))
    }
}

/// Whether a name reads as the long name of an item of this server.
pub(super) fn is_long_of(name: &str, server: &Name) -> bool {
    let server = server.as_str().replace('.', "_");
    let rest = name.strip_prefix(&*server);
    rest.is_some_and(|rest| rest.starts_with(BETWEEN))
}

/// The long name of an item of a server.
pub(super) fn long(server: &Name, name: &str) -> String {
    let server = server.as_str().replace('.', "_");
    format!("{server}{BETWEEN}{name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owned(server: &str, name: &str) -> Owned {
        Owned {
            server: Name::new(server).unwrap(),
            name: name.to_owned(),
        }
    }

    #[test]
    fn a_name_stays_where_no_other_has_it() {
        let items = [
            owned("web", "search"),
            owned("code.main", "search"),
            owned("files", "read"),
            owned("tracker", "create_issue"),
            owned("notes", "new_ticket"),
        ];
        let names = Names::new(
            items.clone(),
            |item| (item.name == "create_issue").then(|| "new_ticket".to_owned()),
            |_| false,
            |_| false,
        );
        let shown: Vec<_> = items
            .iter()
            .map(|item| names.shown(item).unwrap())
            .collect();
        let wanted = [
            "web__search",
            "code_main__search",
            "read",
            "new_ticket",
            "notes__new_ticket",
        ];
        assert_eq!(shown, wanted);
        for (item, name) in items.iter().zip(wanted) {
            assert_eq!(names.find(name), FoundName::One(item), "{name}");
        }
        assert_eq!(names.find("files__read"), FoundName::One(&items[2]));
        let both = ["code_main__search".to_owned(), "web__search".to_owned()];
        assert_eq!(names.find("search"), FoundName::Several(&both));
        assert_eq!(names.find("create_issue"), FoundName::None);
        assert_eq!(names.find("web__read"), FoundName::None);
    }

    #[test]
    fn what_a_person_approved_keeps_its_name() {
        let items = [owned("web", "search"), owned("new", "search")];
        let approved = |of: &'static str| move |item: &Owned| item.server.as_str() == of;
        let names = Names::new(items.clone(), |_| None, approved("web"), |_| false);
        assert_eq!(names.shown(&items[0]), Some("search"));
        assert_eq!(names.shown(&items[1]), Some("new__search"));
        assert_eq!(names.find("search"), FoundName::One(&items[0]));
        // Two that are approved are equals, as two that are not.
        let names = Names::new(items.clone(), |_| None, |_| true, |_| false);
        assert!(matches!(names.find("search"), FoundName::Several(_)));
    }

    #[test]
    fn nobody_takes_the_long_name_of_anothers_item() {
        let items = [owned("a", "echo"), owned("b", "a__echo")];
        let a = Name::new("a").unwrap();
        let is_long = |name: &str| is_long_of(name, &a);
        let names = Names::new(items.clone(), |_| None, |_| false, is_long);
        assert_eq!(names.find("a__echo"), FoundName::One(&items[0]));
        assert_eq!(names.shown(&items[1]), Some("b__a__echo"));
    }

    #[test]
    fn of_two_long_names_that_are_equal_one_is_shown() {
        let items = [
            owned("a", "b__c"),
            owned("a__b", "c"),
            owned("x", "b__c"),
            owned("x", "c"),
        ];
        let names = Names::new(items.clone(), |_| None, |_| false, |_| false);
        let shown: Vec<_> = items.iter().filter_map(|item| names.shown(item)).collect();
        let mut unique = shown.clone();
        unique.sort_unstable();
        unique.dedup();
        assert_eq!(unique.len(), shown.len());
        for item in &items {
            if let Some(name) = names.shown(item) {
                assert_eq!(names.find(name), FoundName::One(item));
            }
        }
    }
}
