//! The items that servers list and that are kept from some agent, by policy, by the scan or until a person approves them, by name.
//!
//! At a URL of many servers the call of such an item is then judged as the call that it is, so that its record names the item and
//! the policies. It permits nothing: each call is judged anew.

use std::collections::{HashMap, HashSet};
use std::sync::Mutex;

use base::limit::TOOLS_MAX;
use base::{ItemKind, Name, ServerItem};

use crate::upstream::lock;

/// By server; at most [`TOOLS_MAX`] of each.
#[derive(Default)]
pub(crate) struct Withheld(Mutex<HashMap<Name, HashSet<ServerItem>>>);

impl Withheld {
    pub(crate) fn note(&self, server: &Name, item: &ServerItem) {
        let mut all = lock(&self.0);
        let items = all.entry(server.clone()).or_default();
        if items.len() < TOOLS_MAX && !items.contains(item) {
            items.insert(item.clone());
        }
    }

    /// The name of the first item of this server that is meant.
    pub(crate) fn find(
        &self,
        server: &Name,
        kind: ItemKind,
        is_it: impl Fn(&str) -> bool,
    ) -> Option<String> {
        let all = lock(&self.0);
        let mut items = all.get(server)?.iter();
        let found = items.find(|item| item.kind == kind && is_it(&item.name))?;
        Some(found.name.to_string())
    }

    /// Forgets what these servers listed.
    pub(crate) fn forget(&self, is_changed: impl Fn(&Name) -> bool) {
        lock(&self.0).retain(|server, _| !is_changed(server));
    }
}
