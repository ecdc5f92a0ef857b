//! The `toolsets:` section, and what servers say of their items at the URL of many servers.

use std::collections::{BTreeMap, HashMap};

use ::config::{ByItem, ByName, Check, Path as Key, Text};
use base::Name;
use mcp::{ItemWords, Toolset, section};

use super::settings::Server;

/// Longest name of an item at the URL of many servers: what the APIs of models take.
const NAME_CHARS_MAX: usize = 64;

/// The sets that can be used.
pub(super) fn toolsets(
    written: &ByName<section::ToolsetSection>,
    servers: &[Server],
    check: &mut Check<'_>,
) -> Vec<(Name, Toolset)> {
    let sets = written.iter().filter_map(|(name, set)| {
        let at = Key::of("toolsets").key(name);
        if name == mcp::ALL_SERVERS {
            check.say_of_name(
                &at,
                "is the set of all servers, at /mcp; choose another name",
            );
            return None;
        }
        let mut chosen = Vec::new();
        for (i, server) in set.servers.iter().flat_map(|servers| servers.iter()) {
            let at = at.key("servers").index(i);
            chosen.extend(known(&server.0, servers, &at, check));
        }
        let tools = set.tools.as_ref().map(|tools| {
            for (i, tool) in tools.iter() {
                check_item(&tool.0, &chosen, &at.key("tools").index(i), check);
            }
            tools.values().map(|tool| tool.0.clone()).collect()
        });
        let set = Toolset {
            servers: chosen,
            tools,
            search: set.search.0,
        };
        Some((Name::new(name)?, set))
    });
    sets.collect()
}

/// The server of that name.
fn known(name: &str, servers: &[Server], at: &Key, check: &mut Check<'_>) -> Option<Name> {
    let mut names = servers.iter().map(|server| &server.name);
    let found = names.clone().find(|known| known.as_str() == name);
    if found.is_none() {
        let near = base::near::meant(name, names.by_ref().map(Name::as_str));
        let near = near.map_or(String::new(), |near| format!("; did you mean {near}?"));
        check.say(at, format!("no server is named {name:?}{near}"));
    }
    found.cloned()
}

/// An item is written `server/item`, of a server of its set.
fn check_item(written: &str, servers: &[Name], at: &Key, check: &mut Check<'_>) {
    let Some((server, _)) = written.split_once('/') else {
        let message = format!("{written:?} is not written as server/item; * stands for any text");
        return check.say(at, message);
    };
    let is_of = |name: &Name| name.as_str() == server || server.contains('*');
    if !servers.iter().any(is_of) {
        check.say(
            at,
            format!("{server:?} is not among the servers of this set"),
        );
    }
}

/// The names of a server's items, by its own names.
pub(super) fn names(
    written: &ByItem<section::ItemName>,
    at: &Key,
    check: &mut Check<'_>,
) -> HashMap<String, String> {
    let mut names: HashMap<String, String> = HashMap::new();
    for (own, section::ItemName(Text(name))) in written.iter() {
        let at = at.key(own);
        let is_good = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
        if name.is_empty() || name.len() > NAME_CHARS_MAX || !name.chars().all(is_good) {
            check.say(&at, "is not a name of 1 to 64 letters, digits, _ and -");
        } else if let Some((other, _)) = names.iter().find(|(_, taken)| *taken == name) {
            check.say(&at, format!("is the name of {other} too"));
        } else {
            names.insert(own.to_owned(), name.clone());
        }
    }
    names
}

/// What is said of a server's items.
pub(super) fn items(written: &ByItem<section::ItemSection>) -> HashMap<String, ItemWords> {
    let items = written.iter().map(|(own, item)| {
        let annotations = item.annotations.iter();
        let annotations: BTreeMap<String, bool> = annotations
            .map(|(hint, is)| (hint.to_owned(), is.0.0))
            .collect();
        let words = ItemWords {
            description: item.description.as_ref().map(|text| text.0.clone()),
            annotations,
        };
        (own.to_owned(), words)
    });
    items.collect()
}
