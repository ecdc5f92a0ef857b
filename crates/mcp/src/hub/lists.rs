//! Lists of many servers as one: each asked as the agent, so that what it may not use is not in it; kept for a while.
//!
//! What a server says of how long its list is good (`ttlMs`) counts, up to an hour; one of the legacy era says nothing, so its
//! list is kept for `list_ms` of its settings. A list is kept for the agent that asked for it alone.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base::limit::TOOLS_MAX;
use base::{Name, Refusal, Resource};
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use gate::{Call, Passed, Sight};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::names::{self, Names, Owned};
use super::{Asking, say, search};
use crate::actions::LIST;
use crate::era::Era;
use crate::lane::{McpLane, Server};
use crate::listing::ListKind;
use crate::probe::mono_ms;
use crate::upstream::lock;

/// Longest time that a list is kept, in milliseconds.
const TTL_MS_MAX: u64 = 3_600_000;
/// How long the first list waits for a server of which nothing is known, and for one that was seen to work, in milliseconds.
const WAIT_MS: u64 = 900;
const WAIT_MS_MAX: u64 = 10_000;
/// How long a list that could not be had is not asked for again, in milliseconds.
const RETRY_MS: u64 = 1_000;
/// Pages of one list.
const PAGES_MAX: usize = 100;
/// Lists kept, of all agents and servers.
const LISTS_MAX: usize = 8_192;

/// One item as its server lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ListItem {
    /// Its name, URI or template.
    pub(crate) key: String,
    pub(crate) json: String,
}

/// One item as the agent is shown it.
pub(super) struct ShownItem {
    pub(super) name: String,
    pub(super) json: String,
}

/// A server's list as an agent may see it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ListedItems {
    pub(crate) items: Vec<ListItem>,
}

struct KeptList {
    listed: Arc<ListedItems>,
    /// Until when it is good.
    until_ms: u64,
    /// The last time that it could not be had, if it could not.
    failed: bool,
    /// The number of the policies and agents by which it was judged.
    rules: u64,
}

type Key = (Name, Name, ListKind);

/// What items are called, with what that was made of: as long as no list is another, it is the same.
struct KeptNames {
    lists: Vec<Arc<ListedItems>>,
    /// The settings that were in force, by their place.
    settings: usize,
    names: Arc<Names>,
    /// What was shown under these names last, and by what it was decided.
    shown: Option<(Sight, Arc<[ShownItem]>)>,
}

impl KeptNames {
    /// Whether these are the names of items so listed, under these settings.
    fn is_of(&self, list: &SetList<'_>, settings: usize) -> bool {
        let lists = list.lists.iter().map(|(_, listed)| listed);
        let mut pairs = self.lists.iter().zip(lists);
        self.settings == settings
            && self.lists.len() == list.lists.len()
            && pairs.all(|(one, other)| Arc::ptr_eq(one, other))
    }
}

/// The lists that are kept, by agent, server and kind.
#[derive(Default)]
pub(crate) struct ListCache {
    kept: Mutex<HashMap<Key, KeptList>>,
    /// Those that are asked for now.
    asked: Mutex<HashMap<Key, watch::Receiver<()>>>,
    /// What items are called, by agent, set and kind.
    names: Mutex<HashMap<Key, KeptNames>>,
    /// How often lists were said to be stale: one that was asked for before is not good when it comes.
    stales: AtomicU64,
    /// The number of the policies and agents that are in force.
    rules: AtomicU64,
}

impl ListCache {
    /// What is kept: the list, and whether it is good still.
    fn find(&self, key: &Key, now_ms: u64) -> Option<(Arc<ListedItems>, bool)> {
        let kept = lock(&self.kept);
        let kept = kept.get(key)?;
        Some((Arc::clone(&kept.listed), now_ms < kept.until_ms))
    }

    /// Notes that a list is asked for: what tells those that wait for it, where nobody asks for it yet, and what they wait by.
    fn asking(&self, key: &Key) -> (Option<watch::Sender<()>>, watch::Receiver<()>) {
        let mut asked = lock(&self.asked);
        asked.retain(|_, waiting| waiting.has_changed().is_ok());
        if let Some(waiting) = asked.get(key) {
            return (None, waiting.clone());
        }
        let (done, waiting) = watch::channel(());
        asked.insert(key.clone(), waiting.clone());
        (Some(done), waiting)
    }

    /// Keeps a list. Whether it is another than the one before.
    fn keep(&self, key: Key, listed: ListedItems, until_ms: u64, rules: u64) -> bool {
        let mut all = lock(&self.kept);
        if all.len() >= LISTS_MAX && !all.contains_key(&key) {
            let oldest = all.iter().min_by_key(|(_, kept)| kept.until_ms);
            let oldest = oldest.map(|(key, _)| key.clone());
            oldest.and_then(|oldest| all.remove(&oldest));
        }
        let before = all.insert(
            key,
            KeptList {
                listed: Arc::new(listed),
                until_ms,
                failed: false,
                rules,
            },
        );
        before.is_some_and(|before| before.failed)
    }

    /// Notes that a list could not be had: what was known before is known still, and is asked for again soon.
    fn failed(&self, key: Key, now_ms: u64) {
        let mut all = lock(&self.kept);
        let kept = all.entry(key).or_insert_with(|| KeptList {
            listed: Arc::default(),
            until_ms: 0,
            failed: true,
            rules: self.rules.load(Ordering::Acquire),
        });
        kept.failed = true;
        kept.until_ms = now_ms + RETRY_MS;
    }

    /// Whether a list was judged by these policies: one that was not is another without its server's doing.
    fn is_judged_by(&self, key: &Key, rules: u64) -> bool {
        lock(&self.kept)
            .get(key)
            .is_some_and(|kept| kept.rules == rules)
    }

    fn is_failed(&self, key: &Key) -> bool {
        lock(&self.kept).get(key).is_none_or(|kept| kept.failed)
    }

    /// Other policies or agents are in force: no list is good.
    pub(crate) fn judge_again(&self) {
        self.rules.fetch_add(1, Ordering::AcqRel);
        self.stale(|_| true);
    }

    /// Forgets that the lists of these servers are good, and that of those which are asked for now.
    pub(crate) fn stale(&self, is_stale: impl Fn(&Name) -> bool) {
        self.stales.fetch_add(1, Ordering::AcqRel);
        lock(&self.asked).retain(|key, _| !is_stale(&key.1));
        lock(&self.names).clear();
        for (key, kept) in lock(&self.kept).iter_mut() {
            if is_stale(&key.1) {
                kept.until_ms = 0;
            }
        }
    }
}

/// The lists of one kind of a whole set.
pub(crate) struct SetList<'a> {
    /// Servers whose lists are known, with them.
    pub(crate) lists: Vec<(&'a Server, Arc<ListedItems>)>,
    /// Servers that could not be asked.
    pub(crate) missing: Vec<&'a Name>,
}

impl Asking<'_> {
    /// The lists of all servers of the set: those that are good, and for the others what they answer now.
    pub(crate) async fn lists(&self, kind: ListKind) -> SetList<'_> {
        let servers = self.servers();
        let cache = &self.lane.shared.hub.lists;
        let key = |server: &Server| (self.agent().clone(), server.name.clone(), kind);
        let now_ms = mono_ms();
        let to_ask = servers.iter().filter(|server| {
            let kept = cache.find(&key(server), now_ms);
            !kept.is_some_and(|(_, is_good)| is_good)
        });
        let mut known = 0;
        let mut asked = FuturesUnordered::new();
        for server in to_ask.filter(|server| self.works(server)) {
            // What was good until lately does until its server has answered.
            let has_list = cache.find(&key(server), now_ms).is_some();
            let is_known = !has_list && self.lane.shared.spoken(&server.name).is_some();
            known += usize::from(is_known);
            let fetched = self.fetch_apart(server, kind);
            asked.push(async move {
                let mut fetched = fetched;
                // Done, or given up with its thread.
                let _ = fetched.changed().await;
                is_known
            });
        }
        let begun = tokio::time::Instant::now();
        loop {
            // A server that was seen to work is waited for, one that may never have answered is not.
            let wait_ms = if known > 0 { WAIT_MS_MAX } else { WAIT_MS };
            let until = begun + Duration::from_millis(wait_ms);
            match tokio::time::timeout_at(until, asked.next()).await {
                Ok(Some(is_known)) => known -= usize::from(is_known),
                Ok(None) => break,
                // Those that have not answered go on by themselves; that they came is told as a change.
                Err(_elapsed) => break,
            }
        }
        drop(asked);
        let mut list = SetList {
            lists: Vec::with_capacity(servers.len()),
            missing: Vec::new(),
        };
        for server in servers {
            let key = key(server);
            let kept = cache.find(&key, now_ms);
            match kept.filter(|_| self.works(server) && !cache.is_failed(&key)) {
                Some((listed, _)) => list.lists.push((server, listed)),
                None => list.missing.push(&server.name),
            }
        }
        list
    }

    /// Whether the server was not seen to be down.
    fn works(&self, server: &Server) -> bool {
        let health = self.lane.shared.health.get(&server.name);
        health.is_none_or(|health| !health.is_down())
    }

    /// The lists as far as they are known, without asking anybody; of servers that are down none is missed.
    pub(crate) fn known_lists(&self, kind: ListKind) -> SetList<'_> {
        let cache = &self.lane.shared.hub.lists;
        let mut list = SetList {
            lists: Vec::new(),
            missing: Vec::new(),
        };
        for server in self.servers() {
            let key = (self.agent().clone(), server.name.clone(), kind);
            match cache
                .find(&key, mono_ms())
                .filter(|_| !cache.is_failed(&key))
            {
                Some((listed, _)) => list.lists.push((server, listed)),
                None if self.works(server) => list.missing.push(&server.name),
                None => {}
            }
        }
        list
    }

    /// Asks a server for its list on a task of its own, so that it goes on where nobody waits any more; told once it is done. A
    /// list that is asked for already is not asked for twice.
    fn fetch_apart(&self, server: &Server, kind: ListKind) -> watch::Receiver<()> {
        let key = (self.agent().clone(), server.name.clone(), kind);
        let (asks, fetched) = self.lane.shared.hub.lists.asking(&key);
        let Some(done) = asks else { return fetched };
        let asked = OwnList {
            done,
            lane: self.lane.clone(),
            server: server.name.clone(),
            verified: self.verified.clone(),
            peer: self.peer,
            kind,
        };
        tokio::task::spawn_local(asked.fetch());
        fetched
    }

    /// What the items of a kind are called: made again only where a list is another than before.
    pub(crate) fn names(&self, kind: ListKind, list: &SetList<'_>) -> Arc<Names> {
        if self.is_own_set() {
            return Arc::new(self.make_names(list));
        }
        let kept = &self.lane.shared.hub.lists.names;
        let (key, settings) = (self.names_key(kind), self.settings_place());
        if let Some(known) = lock(kept)
            .get(&key)
            .filter(|known| known.is_of(list, settings))
        {
            return Arc::clone(&known.names);
        }
        let names = Arc::new(self.make_names(list));
        let made = KeptNames {
            lists: list
                .lists
                .iter()
                .map(|(_, listed)| Arc::clone(listed))
                .collect(),
            settings,
            names: Arc::clone(&names),
            shown: None,
        };
        let mut kept = lock(kept);
        if kept.len() >= LISTS_MAX && !kept.contains_key(&key) {
            kept.clear();
        }
        kept.insert(key, made);
        names
    }

    fn names_key(&self, kind: ListKind) -> Key {
        (self.agent().clone(), self.name.clone(), kind)
    }

    /// Which settings are in force.
    fn settings_place(&self) -> usize {
        std::ptr::from_ref(self.lane.settings()).addr()
    }

    fn make_names(&self, list: &SetList<'_>) -> Names {
        let items = list.lists.iter().flat_map(|(server, listed)| {
            let shown = listed
                .items
                .iter()
                .filter(|item| self.is_in(server, &item.key));
            shown.map(|item| Owned {
                server: server.name.clone(),
                name: item.key.clone(),
            })
        });
        let servers = &self.lane.settings().servers;
        let named = |item: &Owned| servers.get(&item.server)?.names.get(&item.name).cloned();
        let is_long = |name: &str| {
            let mut servers = servers.keys();
            servers.any(|server| names::is_long_of(name, server))
        };
        Names::new(items, named, |item| self.is_approved(item), is_long)
    }

    /// Whether a person approved the definition of a tool.
    fn is_approved(&self, item: &Owned) -> bool {
        let mut is_approved = false;
        let gate = &self.lane.shared.gate;
        gate.definitions(&mut |server, tool, _| {
            is_approved |= *server == item.server && tool == item.name;
        });
        is_approved
    }

    /// Whether the set holds an item.
    pub(crate) fn is_in(&self, server: &Server, item: &str) -> bool {
        self.set.is_none_or(|set| set.has_item(&server.name, item))
    }

    /// What the agent is shown of a kind, and the servers that could not be asked. It is made again only where a list, the
    /// settings, the rules or the agent's groups are others than before.
    pub(super) async fn shown(
        &self,
        kind: ListKind,
        passed: &Passed,
    ) -> (Arc<[ShownItem]>, Vec<&Name>) {
        let list = self.lists(kind).await;
        let names = kind.is_named().then(|| self.names(kind, &list));
        let sight = passed.sight();
        if names.is_some()
            && !self.is_own_set()
            && let Some(shown) = self.shown_before(kind, &list, &sight)
        {
            return (shown, list.missing);
        }
        let shown: Arc<[ShownItem]> = self.show(kind, passed, &list, names.as_deref()).into();
        if let Some(names) = &names {
            self.lane.shared.hub.tell_clashes(self.name, names);
            let mut kept = lock(&self.lane.shared.hub.lists.names);
            let kept = kept.get_mut(&self.names_key(kind));
            if let Some(kept) = kept.filter(|kept| Arc::ptr_eq(&kept.names, names)) {
                kept.shown = Some((sight, Arc::clone(&shown)));
            }
        }
        (shown, list.missing)
    }

    /// What was shown of the same lists to a call of the same sight.
    fn shown_before(
        &self,
        kind: ListKind,
        list: &SetList<'_>,
        sight: &Sight,
    ) -> Option<Arc<[ShownItem]>> {
        let kept = lock(&self.lane.shared.hub.lists.names);
        let kept = kept.get(&self.names_key(kind))?;
        let (before, shown) = kept.shown.as_ref()?;
        let is_same = before == sight && kept.is_of(list, self.settings_place());
        is_same.then(|| Arc::clone(shown))
    }

    fn show(
        &self,
        kind: ListKind,
        passed: &Passed,
        list: &SetList<'_>,
        names: Option<&Names>,
    ) -> Vec<ShownItem> {
        let mut shown = Vec::new();
        for (server, listed) in &list.lists {
            for item in &listed.items {
                if !self.is_in(server, &item.key) || !may_see(passed, kind, server, item) {
                    continue;
                }
                let owned = Owned {
                    server: server.name.clone(),
                    name: item.key.clone(),
                };
                let name = match names {
                    Some(names) => names.shown(&owned),
                    None => Some(&*item.key),
                };
                shown.extend(name.map(|name| ShownItem {
                    name: name.to_owned(),
                    json: restated(server, item, kind.is_named().then_some(name)),
                }));
            }
        }
        shown
    }

    /// The result of a list.
    pub(super) async fn list(
        &self,
        kind: ListKind,
        era: Era,
        passed: &Passed,
    ) -> Result<String, Refusal> {
        let (shown, missing) = match kind == ListKind::Tools && self.searches() {
            true => {
                let definitions = search::definitions().map(|tool| tool.to_string());
                (definitions.join(","), Vec::new())
            }
            false => {
                let (shown, missing) = self.shown(kind, passed).await;
                let shown: Vec<&str> = shown.iter().map(|item| &*item.json).collect();
                (shown.join(","), missing)
            }
        };
        let mut result = format!("{{\"{}\":[{shown}]", kind.member());
        if era == Era::Modern {
            result += r#","resultType":"complete","ttlMs":0,"cacheScope":"private""#;
        }
        let mut meta = serde_json::Map::new();
        if !missing.is_empty() {
            let missing: Vec<&str> = missing.iter().map(|name| name.as_str()).collect();
            meta.insert("weir/missing".to_owned(), json!(missing));
        }
        if era == Era::Modern {
            meta.insert(say::SERVER_INFO.to_owned(), say::info());
        }
        if !meta.is_empty() {
            result += &format!(",\"_meta\":{}", Value::from(meta));
        }
        Ok(result + "}")
    }
}

/// Whether policy lets the agent use an item, as it is now.
fn may_see(passed: &Passed, kind: ListKind, server: &Server, item: &ListItem) -> bool {
    let (action, item_kind) = kind.used_by();
    let resource = Resource::item(server.name.clone(), item_kind, &item.key);
    passed.may_list(action, &resource)
}

/// An item as it is shown: under its name at the URL, and with what the configuration says of it.
fn restated(server: &Server, item: &ListItem, name: Option<&str>) -> String {
    let words = server.items.get(&item.key);
    let is_same = name.is_none_or(|name| name == item.key) && words.is_none();
    if is_same {
        return item.json.clone();
    }
    let Ok(Value::Object(mut members)) = serde_json::from_str(&item.json) else {
        return item.json.clone();
    };
    if let Some(name) = name {
        members.insert("name".to_owned(), name.into());
    }
    if let Some(words) = words {
        if let Some(description) = &words.description {
            members.insert("description".to_owned(), description.as_str().into());
        }
        if !words.annotations.is_empty() {
            let annotations = members.entry("annotations").or_insert_with(|| json!({}));
            for (key, value) in &words.annotations {
                annotations[key] = (*value).into();
            }
        }
    }
    Value::from(members).to_string()
}

/// A list asked of one server for one agent.
struct OwnList {
    /// Dropped when it is done: those that wait are told.
    done: watch::Sender<()>,
    lane: McpLane,
    server: Name,
    verified: identity::Verified,
    peer: std::net::IpAddr,
    kind: ListKind,
}

#[derive(Deserialize)]
struct Page<'a> {
    #[serde(borrow, default)]
    tools: Vec<&'a RawValue>,
    #[serde(borrow, default)]
    prompts: Vec<&'a RawValue>,
    #[serde(borrow, default)]
    resources: Vec<&'a RawValue>,
    #[serde(borrow, default, rename = "resourceTemplates")]
    templates: Vec<&'a RawValue>,
    #[serde(default, rename = "nextCursor")]
    next: Option<String>,
    #[serde(default, rename = "ttlMs")]
    ttl_ms: Option<f64>,
}

impl OwnList {
    async fn fetch(self) {
        let agent = self.verified.agent().name.clone();
        let key = (agent, self.server.clone(), self.kind);
        let shared = Arc::clone(&self.lane.shared);
        let stales = shared.hub.lists.stales.load(Ordering::Acquire);
        let rules = shared.hub.lists.rules.load(Ordering::Acquire);
        match self.pages().await {
            Some((listed, ttl_ms)) => {
                let is_good = shared.hub.lists.stales.load(Ordering::Acquire) == stales;
                let ttl_ms = if is_good { ttl_ms } else { 0 };
                let before = shared.hub.lists.find(&key, 0);
                let is_other = before.is_some_and(|(before, _)| *before != listed)
                    && shared.hub.lists.is_judged_by(&key, rules)
                    && !shared.hub.lists.is_failed(&key);
                if let (true, Some(health)) = (is_other, shared.health.get(&self.server)) {
                    health.tell_other_list(&self.server, self.kind.method());
                }
                let until_ms = mono_ms() + ttl_ms.min(TTL_MS_MAX);
                if shared.hub.lists.keep(key, listed, until_ms, rules) {
                    shared.hub.changed();
                }
            }
            None => {
                shared.hub.lists.failed(key, mono_ms());
                if let Some(health) = shared.health.get(&self.server) {
                    // It may speak another era now.
                    health.doubt();
                }
            }
        }
        drop(self.done);
    }

    /// All pages, and for how long they are good.
    async fn pages(&self) -> Option<(ListedItems, u64)> {
        let mut listed = ListedItems::default();
        let mut cursor: Option<String> = None;
        let server = self.lane.settings().servers.get(&self.server)?;
        let mut ttl_ms = server.list_ms;
        for _ in 0..PAGES_MAX {
            let params = cursor.map_or_else(|| json!({}), |cursor| json!({ "cursor": cursor }));
            let resource = Resource::server(self.server.clone());
            let id = (self.lane.shared.settings.new_id)();
            let method = self.kind.method();
            let call = Call::new(id, self.peer, &LIST, &resource, method);
            let asked = self.lane.ask(server, self.verified.clone(), call, params);
            let Ok(result) = asked.await? else {
                // A server that does not know the method has none of the kind.
                return Some((listed, ttl_ms));
            };
            let text = std::str::from_utf8(&result).ok()?;
            let page: Page<'_> = serde_json::from_str(text).ok()?;
            let items = match self.kind {
                ListKind::Tools => page.tools,
                ListKind::Prompts => page.prompts,
                ListKind::Resources => page.resources,
                ListKind::Templates => page.templates,
            };
            for item in items {
                let value: Value = serde_json::from_str(item.get()).ok()?;
                let key = value.get(self.kind.key()).and_then(Value::as_str);
                let key = key.filter(|key| !key.is_empty() && !key.contains(char::is_control));
                if let Some(key) = key.filter(|_| listed.items.len() < TOOLS_MAX) {
                    listed.items.push(ListItem {
                        key: key.to_owned(),
                        json: item.get().to_owned(),
                    });
                }
            }
            if let Some(said) = page.ttl_ms.filter(|said| *said >= 0.0) {
                ttl_ms = said as u64;
            }
            match page.next.filter(|next| !next.is_empty()) {
                Some(next) if listed.items.len() < TOOLS_MAX => cursor = Some(next),
                _ => break,
            }
        }
        Some((listed, ttl_ms))
    }
}

/// The result of an answer, or that it is an error; nothing where it is no answer.
pub(super) fn result_of(message: &Bytes) -> Option<Result<Bytes, ()>> {
    let json = base::Json::read(message).ok()?;
    let root = json.root();
    match root.get("result") {
        Some(result) => Some(Ok(message.slice(result.span()))),
        None => root.get("error").map(|_| Err(())),
    }
}
