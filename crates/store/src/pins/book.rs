//! One server's tools, prompts and resources, or an agent's card, as they were approved, and what waits for approval; as a value, and as JSON.
//!
//! It does no I/O. What is read is checked whole: a book that was written by something else is an error.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use base::limit::{PIN_TEXT_BYTES_MAX, PINS_MAX, PINS_TEXT_BYTES_MAX, TOOL_NAME_CHARS_MAX};
use base::{Digest, ItemKind, ServerItem};
use gate::ports::{HeldItem, HoldReason, PinsFull, Standing, Trust};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// The form of the file: 1 had tools alone. A file of a later form is not touched.
const VERSION: u64 = 2;
/// Longest URI of a resource that is kept, in bytes.
const URI_BYTES_MAX: usize = 4 << 10;
/// All kinds, in the order in which they are told.
const KINDS: [ItemKind; 4] = [
    ItemKind::Tool,
    ItemKind::Prompt,
    ItemKind::Resource,
    ItemKind::Card,
];
/// Digits of a name's digest that stand for the name where that is not kept: two in one book never have the same.
const HIDDEN_DIGITS: usize = 32;

/// One definition of an item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// SHA-256 of the canonical definition, with all that it holds.
    pub digest: Digest,
    /// When it was approved, or seen first, in Unix milliseconds.
    pub at_ms: u64,
    /// The canonical definition without what the scan found private in it; absent where it is over a bound.
    pub definition: Option<String>,
    /// Something private was taken out of the definition that is kept.
    pub is_masked: bool,
    /// The rule of the scan that refused it. Of an approved definition: a person approved it all the same.
    pub refused: Option<Arc<str>>,
}

/// What is known of one item. It has an approved version, or one that waits, or both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pin {
    /// Unix milliseconds.
    pub first_seen_ms: u64,
    pub approved: Option<Version>,
    pub waiting: Option<Version>,
    /// Why an item was held when it was new; empty where it was not.
    pub note: String,
}

/// Items of one kind by their names, resources by their URIs; those with something private in their names by [`hidden`].
type PinsByName = BTreeMap<String, Pin>;

/// The items of one server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Book {
    tools: PinsByName,
    prompts: PinsByName,
    resources: PinsByName,
    cards: PinsByName,
    /// Bytes of all definitions.
    text_bytes: usize,
}

/// A definition that was seen.
pub(super) struct Seen<'a> {
    pub(super) item: &'a ServerItem,
    /// The name is not to be kept as it is.
    pub(super) is_private: bool,
    pub(super) digest: Digest,
    pub(super) definition: Option<&'a str>,
    pub(super) at_ms: u64,
}

impl<'a> Seen<'a> {
    /// Under which name the item is kept.
    fn key(&self) -> Cow<'a, str> {
        match self.is_private {
            true => Cow::Owned(hidden(&self.item.name)),
            false => Cow::Borrowed(&self.item.name),
        }
    }
}

/// Stands in the place of a name that holds something private. It is made of the name, so that the item is found again
/// by it.
fn hidden(name: &str) -> String {
    let digest = digest_of(name).to_string();
    format!("hidden-{}", &digest[..HIDDEN_DIGITS])
}

impl Version {
    /// SHA-256 of the definition that is kept, where that is not the whole.
    fn masked_digest(&self) -> Option<Digest> {
        let text = self.definition.as_deref();
        text.filter(|_| self.is_masked).map(digest_of)
    }
}

impl Pin {
    /// What waits, if anything, and why.
    pub fn held(&self) -> Option<HeldItem> {
        let waiting = self.waiting.as_ref()?;
        let why = match (&waiting.refused, &self.approved) {
            (Some(_), _) => HoldReason::Refused,
            (None, Some(_)) => HoldReason::Changed,
            (None, None) => HoldReason::Lookalike,
        };
        Some(HeldItem {
            why,
            rule: waiting.refused.clone(),
            digest: waiting.digest,
        })
    }

    /// What is known of the approved definition, where this is its digest and nothing waits.
    pub(super) fn standing(&self, digest: &Digest) -> Option<Standing> {
        let approved = self
            .approved
            .as_ref()
            .filter(|version| version.digest == *digest)?;
        let standing = match approved.refused {
            Some(_) => Standing::Accepted,
            None => Standing::Approved,
        };
        self.waiting.is_none().then_some(standing)
    }

    /// Holds a definition against what is known of the item. The second answer says whether the pin is another than before.
    fn judge(&mut self, seen: &Seen<'_>, trust: Trust, text_bytes: &mut usize) -> (Standing, bool) {
        let is = |version: &Option<Version>| {
            version
                .as_ref()
                .is_some_and(|version| version.digest == seen.digest)
        };
        let refused = match &trust {
            Trust::Refused(rule) => Some(Arc::clone(rule)),
            Trust::FirstUse | Trust::Hold(_) => None,
        };
        let accepted = self
            .approved
            .as_ref()
            .is_some_and(|version| version.refused.is_some());
        if is(&self.approved) && (accepted || refused.is_none()) {
            let gone = self.waiting.take();
            *text_bytes -= bytes(gone.as_ref());
            let standing = self.standing(&seen.digest).expect("nothing waits");
            return (standing, gone.is_some());
        }
        // A definition that only the scan stood against is trusted on first use once it does no more.
        let was_refused = self
            .waiting
            .as_ref()
            .is_some_and(|version| version.refused.is_some());
        if self.approved.is_none() && was_refused && trust == Trust::FirstUse {
            *text_bytes -= bytes(self.waiting.take().as_ref());
            self.approved = Some(version(seen, None, text_bytes));
            return (Standing::New, true);
        }
        let waits = self.waiting.as_ref().map(|version| &version.refused);
        let changed = !is(&self.waiting) || waits != Some(&refused);
        if changed {
            *text_bytes -= bytes(self.waiting.as_ref());
            self.waiting = Some(version(seen, refused, text_bytes));
        }
        let held = self.held().expect("a version waits");
        (Standing::Held(held), changed)
    }
}

impl Book {
    fn of(&self, kind: ItemKind) -> &PinsByName {
        match kind {
            ItemKind::Tool => &self.tools,
            ItemKind::Prompt => &self.prompts,
            ItemKind::Resource => &self.resources,
            ItemKind::Card => &self.cards,
        }
    }

    fn of_mut(&mut self, kind: ItemKind) -> &mut PinsByName {
        match kind {
            ItemKind::Tool => &mut self.tools,
            ItemKind::Prompt => &mut self.prompts,
            ItemKind::Resource => &mut self.resources,
            ItemKind::Card => &mut self.cards,
        }
    }

    fn all(&self) -> impl Iterator<Item = &Pin> {
        KINDS.into_iter().flat_map(|kind| self.of(kind).values())
    }

    /// All items: tools, then prompts, then resources, then the card, each in the order of their names.
    pub fn items(&self) -> impl Iterator<Item = (ItemKind, &str, &Pin)> {
        KINDS.into_iter().flat_map(|kind| {
            let those = self.of(kind).iter();
            those.map(move |(name, pin)| (kind, name.as_str(), pin))
        })
    }

    /// The tools in the order of their names.
    pub fn tools(&self) -> impl Iterator<Item = (&str, &Pin)> {
        self.tools.iter().map(|(tool, pin)| (tool.as_str(), pin))
    }

    /// An item by its name, also where that is not kept as it is.
    pub fn get(&self, kind: ItemKind, name: &str) -> Option<&Pin> {
        let those = self.of(kind);
        those.get(name).or_else(|| those.get(&hidden(name)))
    }

    pub(super) fn of_item(&self, item: &ServerItem) -> Option<&Pin> {
        self.get(item.kind, &item.name)
    }

    /// How many items there are.
    pub(super) fn count_items(&self) -> usize {
        KINDS.into_iter().map(|kind| self.of(kind).len()).sum()
    }

    /// Items that wait.
    pub fn held(&self) -> usize {
        self.all().filter(|pin| pin.waiting.is_some()).count()
    }

    /// Approves what waits of an item: its digest, or nothing where nothing waits.
    pub fn approve(&mut self, kind: ItemKind, name: &str, now_ms: u64) -> Option<Digest> {
        let pin = self.of_mut(kind).get_mut(name)?;
        let mut version = pin.waiting.take()?;
        let digest = version.digest;
        // Later than what it replaces even where the clock went back, because the later approval holds.
        let before = pin
            .approved
            .as_ref()
            .map_or(0, |approved| approved.at_ms + 1);
        version.at_ms = now_ms.max(before);
        let gone = pin.approved.replace(version);
        self.text_bytes -= bytes(gone.as_ref());
        Some(digest)
    }

    /// Takes notice of a definition. The second answer says whether the book is another than before.
    pub(super) fn see(
        &mut self,
        seen: &Seen<'_>,
        trust: Trust,
    ) -> Result<(Standing, bool), PinsFull> {
        let masked = self.mask(seen);
        let (standing, changed) = self.judge(seen, trust)?;
        Ok((standing, changed || masked))
    }

    /// Takes out of what is kept of the definition what was not known to be private when it was seen before. Says
    /// whether there was anything.
    fn mask(&mut self, seen: &Seen<'_>) -> bool {
        let (key, kind) = (seen.key(), seen.item.kind);
        let mut masked = false;
        let those = self.of_mut(kind);
        let by_name = seen.is_private.then(|| those.remove(&*seen.item.name));
        if let Some(pin) = by_name.flatten() {
            those.entry(key.clone().into_owned()).or_insert(pin);
            self.count();
            masked = true;
        }
        let mut text_bytes = self.text_bytes;
        let Some(pin) = self.of_mut(kind).get_mut(&*key) else {
            return masked;
        };
        let both = [&mut pin.approved, &mut pin.waiting].into_iter().flatten();
        for kept in both.filter(|kept| kept.digest == seen.digest && kept.definition.is_some()) {
            if kept.definition.as_deref() != seen.definition {
                text_bytes -= bytes(Some(kept));
                let Version {
                    definition,
                    is_masked,
                    ..
                } = version(seen, None, &mut text_bytes);
                (kept.definition, kept.is_masked) = (definition, is_masked);
                masked = true;
            }
        }
        self.text_bytes = text_bytes;
        masked
    }

    /// Holds a definition against what is known of its item.
    fn judge(&mut self, seen: &Seen<'_>, trust: Trust) -> Result<(Standing, bool), PinsFull> {
        let mut text_bytes = self.text_bytes;
        let Some(pin) = self.of_mut(seen.item.kind).get_mut(&*seen.key()) else {
            return self.meet(seen, trust);
        };
        let judged = pin.judge(seen, trust, &mut text_bytes);
        self.text_bytes = text_bytes;
        Ok(judged)
    }

    /// An item that is new.
    fn meet(&mut self, seen: &Seen<'_>, trust: Trust) -> Result<(Standing, bool), PinsFull> {
        let ServerItem { kind, name } = seen.item;
        let is_long = match kind {
            ItemKind::Tool | ItemKind::Prompt | ItemKind::Card => {
                name.chars().nth(TOOL_NAME_CHARS_MAX).is_some()
            }
            ItemKind::Resource => name.len() > URI_BYTES_MAX,
        };
        if is_long || !self.make_room(*kind) {
            return Err(PinsFull);
        }
        let mut version = version(seen, None, &mut self.text_bytes);
        let (approved, waiting, note) = match trust {
            Trust::Hold(note) => (None, Some(version), note),
            Trust::Refused(rule) => {
                let note = format!("its definition met {rule}");
                version.refused = Some(rule);
                (None, Some(version), note)
            }
            Trust::FirstUse => (Some(version), None, String::new()),
        };
        let pin = Pin {
            first_seen_ms: seen.at_ms,
            approved,
            waiting,
            note,
        };
        let standing = pin.held().map_or(Standing::New, Standing::Held);
        self.of_mut(*kind).insert(seen.key().into_owned(), pin);
        Ok((standing, true))
    }

    /// Whether there is room for one more item of a kind. Resources come and go: that which was approved and seen first the
    /// longest ago makes room for a new one.
    fn make_room(&mut self, kind: ItemKind) -> bool {
        let those = self.of_mut(kind);
        if those.len() < PINS_MAX {
            return true;
        }
        let settled = those.iter().filter(|(_, pin)| pin.waiting.is_none());
        let oldest = settled.min_by_key(|(_, pin)| pin.first_seen_ms);
        let oldest = oldest.map(|(name, _)| name.clone());
        let Some(oldest) = oldest.filter(|_| kind == ItemKind::Resource) else {
            return false;
        };
        let gone = those.remove(&oldest);
        self.text_bytes -= gone.map_or(0, |pin| bytes(pin.approved.as_ref()));
        true
    }

    /// Takes over the approvals that another process wrote, and items that are not known here. What waits
    /// is known better here, where definitions are seen.
    pub(super) fn merge(&mut self, mut stored: Book) {
        for kind in KINDS {
            let theirs = std::mem::take(stored.of_mut(kind));
            merge(self.of_mut(kind), theirs);
        }
        self.count();
    }

    fn count(&mut self) {
        let both = |pin: &Pin| bytes(pin.approved.as_ref()) + bytes(pin.waiting.as_ref());
        self.text_bytes = self.all().map(both).sum();
    }

    pub(super) fn to_json(&self, server: &str) -> Vec<u8> {
        let kept = |version: &Version| Kept {
            digest: version.digest.to_string(),
            at_ms: version.at_ms,
            definition: version.definition.clone(),
            masked: version.masked_digest().map(|digest| digest.to_string()),
            refused: version.refused.as_deref().map(str::to_owned),
        };
        let entry = |(name, pin): (&String, &Pin)| {
            let entry = Entry {
                first_seen_ms: pin.first_seen_ms,
                approved: pin.approved.as_ref().map(kept),
                waiting: pin.waiting.as_ref().map(kept),
                note: pin.note.clone(),
            };
            (name.clone(), entry)
        };
        let entries = |pins: &PinsByName| pins.iter().map(entry).collect();
        let file = File {
            version: VERSION,
            server: server.to_owned(),
            tools: entries(&self.tools),
            prompts: entries(&self.prompts),
            resources: entries(&self.resources),
            cards: entries(&self.cards),
        };
        let mut json = serde_json::to_vec_pretty(&file).expect("texts and numbers are JSON");
        json.push(b'\n');
        json
    }

    /// Reads what [`Book::to_json`] wrote. The error says what is wrong, without the file's name.
    pub(super) fn from_json(server: &str, json: &[u8]) -> Result<Book, String> {
        let head: Head = serde_json::from_slice(json).map_err(|error| error.to_string())?;
        if !(1..=VERSION).contains(&head.version) {
            let version = head.version;
            return Err(format!(
                "it is of version {version}, which another weir wrote"
            ));
        }
        let file: File = serde_json::from_slice(json).map_err(|error| error.to_string())?;
        if file.server != server {
            return Err(format!("it is of the server {:?}", file.server));
        }
        let mut book = Book::default();
        let entries = [file.tools, file.prompts, file.resources, file.cards];
        for (kind, entries) in KINDS.into_iter().zip(entries) {
            let word = kind.as_str();
            if entries.len() > PINS_MAX {
                return Err(format!("it has more than {PINS_MAX} {word}s"));
            }
            for (name, entry) in entries {
                let pin = entry
                    .pin()
                    .map_err(|what| format!("{word} {name:?}: {what}"))?;
                book.of_mut(kind).insert(name, pin);
            }
        }
        book.count();
        Ok(book)
    }
}

/// Takes over the pins of one kind, as [`Book::merge`] does.
fn merge(ours: &mut PinsByName, stored: PinsByName) {
    for (name, theirs) in stored {
        let Some(pin) = ours.get_mut(&name) else {
            if ours.len() < PINS_MAX {
                ours.insert(name, theirs);
            }
            continue;
        };
        let at = |version: &Option<Version>| version.as_ref().map(|version| version.at_ms);
        if at(&theirs.approved) > at(&pin.approved) {
            pin.approved = theirs.approved;
        }
        let digest = |version: &Option<Version>| version.as_ref().map(|version| version.digest);
        // What waits because the scan refuses it waits until a person approved it.
        let refused =
            |version: &Option<Version>| version.as_ref().is_some_and(|v| v.refused.is_some());
        let open = refused(&pin.waiting) && !refused(&pin.approved);
        if digest(&pin.waiting) == digest(&pin.approved) && !open {
            pin.waiting = None;
        }
    }
}

/// A version to keep; its text, where there is room for it.
fn version(seen: &Seen<'_>, refused: Option<Arc<str>>, text_bytes: &mut usize) -> Version {
    let room = PIN_TEXT_BYTES_MAX.min(PINS_TEXT_BYTES_MAX.saturating_sub(*text_bytes));
    let definition = seen.definition.filter(|text| text.len() <= room);
    *text_bytes += definition.map_or(0, str::len);
    Version {
        digest: seen.digest,
        at_ms: seen.at_ms,
        definition: definition.map(str::to_owned),
        is_masked: definition.is_some_and(|text| digest_of(text) != seen.digest),
        refused,
    }
}

fn digest_of(text: &str) -> Digest {
    Digest(Sha256::digest(text.as_bytes()).into())
}

fn bytes(version: Option<&Version>) -> usize {
    version
        .and_then(|version| version.definition.as_ref())
        .map_or(0, String::len)
}

/// What every form of the file has.
#[derive(Deserialize)]
struct Head {
    version: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    version: u64,
    server: String,
    tools: BTreeMap<String, Entry>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    prompts: BTreeMap<String, Entry>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    resources: BTreeMap<String, Entry>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    cards: BTreeMap<String, Entry>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    first_seen_ms: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    approved: Option<Kept>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    waiting: Option<Kept>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    note: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kept {
    digest: String,
    at_ms: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    definition: Option<String>,
    /// The digest of the definition as it stands here, where something private was taken out of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    masked: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    refused: Option<String>,
}

impl Entry {
    fn pin(self) -> Result<Pin, &'static str> {
        let approved = self.approved.map(Kept::version).transpose()?;
        let waiting = self.waiting.map(Kept::version).transpose()?;
        if approved.is_none() && waiting.is_none() {
            return Err("it has no definition");
        }
        Ok(Pin {
            first_seen_ms: self.first_seen_ms,
            approved,
            waiting,
            note: self.note,
        })
    }
}

impl Kept {
    fn version(self) -> Result<Version, &'static str> {
        let read = |hex: &String| Digest::from_hex(hex).ok_or("its digest is not 64 hex digits");
        let digest = read(&self.digest)?;
        let masked = self.masked.as_ref().map(read).transpose()?;
        let fits = |text: &String| digest_of(text) == masked.unwrap_or(digest);
        match self.definition.as_ref().is_none_or(fits) {
            true => Ok(Version {
                digest,
                at_ms: self.at_ms,
                definition: self.definition,
                is_masked: masked.is_some(),
                refused: self.refused.map(Arc::from),
            }),
            false => Err("its definition does not have its digest"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(text: &str) -> Digest {
        Digest(Sha256::digest(text.as_bytes()).into())
    }

    fn item(kind: ItemKind, name: &str) -> ServerItem {
        let name = name.into();
        ServerItem { kind, name }
    }

    fn tool(name: &str) -> ServerItem {
        item(ItemKind::Tool, name)
    }

    fn see(book: &mut Book, name: &str, text: &str, trust: Trust) -> (Standing, bool) {
        see_item(book, &tool(name), text, trust)
    }

    fn see_item(book: &mut Book, item: &ServerItem, text: &str, trust: Trust) -> (Standing, bool) {
        let seen = Seen {
            item,
            is_private: false,
            digest: digest(text),
            definition: Some(text),
            at_ms: 5,
        };
        let answer = book.see(&seen, trust).unwrap();
        let counted = book.text_bytes;
        book.count();
        assert_eq!(book.text_bytes, counted);
        answer
    }

    fn held(why: HoldReason, text: &str) -> Standing {
        Standing::Held(HeldItem {
            why,
            rule: None,
            digest: digest(text),
        })
    }

    #[test]
    fn what_is_seen_first_is_trusted_and_what_changes_waits() {
        let mut book = Book::default();
        let mut see = |text| see(&mut book, "add", text, Trust::FirstUse);
        assert_eq!(see("one"), (Standing::New, true));
        assert_eq!(see("one"), (Standing::Approved, false));
        assert_eq!(see("two"), (held(HoldReason::Changed, "two"), true));
        assert_eq!(see("two"), (held(HoldReason::Changed, "two"), false));
        assert_eq!(see("three"), (held(HoldReason::Changed, "three"), true));
        // What was approved is good again.
        assert_eq!(see("one"), (Standing::Approved, true));
        assert_eq!(see("two"), (held(HoldReason::Changed, "two"), true));
        assert_eq!(book.held(), 1);
        assert_eq!(book.approve(ItemKind::Tool, "add", 9), Some(digest("two")));
        assert_eq!(book.approve(ItemKind::Tool, "add", 9), None);
        assert_eq!(book.approve(ItemKind::Tool, "other", 9), None);
        assert_eq!((book.held(), book.text_bytes), (0, 3));
    }

    #[test]
    fn a_new_tool_can_be_held() {
        let mut book = Book::default();
        let hold = || Trust::Hold("it looks like another".into());
        let waits = held(HoldReason::Lookalike, "one");
        assert_eq!(see(&mut book, "a", "one", hold()), (waits.clone(), true));
        // Not to be trusted is not known better the second time.
        assert_eq!(see(&mut book, "a", "one", Trust::FirstUse), (waits, false));
        let waits = held(HoldReason::Lookalike, "two");
        assert_eq!(see(&mut book, "a", "two", hold()), (waits, true));
        assert_eq!(book.approve(ItemKind::Tool, "a", 9), Some(digest("two")));
        assert_eq!(
            see(&mut book, "a", "two", hold()),
            (Standing::Approved, false)
        );
        assert_eq!(
            book.get(ItemKind::Tool, "a").unwrap().note,
            "it looks like another"
        );
    }

    #[test]
    fn a_definition_that_the_scan_refuses_is_held_whether_or_not_it_was_trusted() {
        let refused = || Trust::Refused("some_rule".into());
        let held = |text| {
            Standing::Held(HeldItem {
                why: HoldReason::Refused,
                rule: Some("some_rule".into()),
                digest: digest(text),
            })
        };
        let mut book = Book::default();
        // New, then harmless: it is trusted from then on, and waits again where it is refused again.
        assert_eq!(see(&mut book, "a", "bad", refused()), (held("bad"), true));
        assert_eq!(see(&mut book, "a", "bad", refused()), (held("bad"), false));
        assert_eq!(
            see(&mut book, "a", "good", Trust::FirstUse),
            (Standing::New, true)
        );
        assert_eq!(see(&mut book, "a", "bad", refused()), (held("bad"), true));
        assert_eq!(
            see(&mut book, "a", "good", Trust::FirstUse),
            (Standing::Approved, true)
        );
        // A rule that was not there when it was trusted.
        assert_eq!(see(&mut book, "a", "good", refused()), (held("good"), true));
        let stored = Book::from_json("s", &book.to_json("s")).unwrap();
        assert_eq!(
            stored.get(ItemKind::Tool, "a").unwrap().held(),
            book.get(ItemKind::Tool, "a").unwrap().held()
        );
        book.merge(stored.clone());
        assert_eq!(book.held(), 1);
        // A person approves it all the same.
        let mut there = stored;
        assert_eq!(there.approve(ItemKind::Tool, "a", 9), Some(digest("good")));
        book.merge(there);
        assert_eq!(book.held(), 0);
        assert_eq!(
            see(&mut book, "a", "good", refused()),
            (Standing::Accepted, false)
        );
    }

    #[test]
    fn what_is_private_is_taken_out_of_what_is_kept() {
        let mut book = Book::default();
        let see = |book: &mut Book, is_private: bool, kept: Option<&str>| {
            let seen = Seen {
                item: &tool("a"),
                is_private,
                digest: digest("a secret"),
                definition: kept,
                at_ms: 5,
            };
            let answer = book.see(&seen, Trust::FirstUse).unwrap();
            let counted = book.text_bytes;
            book.count();
            assert_eq!(book.text_bytes, counted);
            answer
        };
        let text = |book: &Book| String::from_utf8(book.to_json("s")).unwrap();
        assert_eq!(
            see(&mut book, false, Some("a secret")),
            (Standing::New, true)
        );
        // A rule that was not there when it was seen first.
        for changed in [true, false] {
            let masked = see(&mut book, false, Some("a ***"));
            assert_eq!(masked, (Standing::Approved, changed));
        }
        assert!(!text(&book).contains("secret"));
        let stored = Book::from_json("s", &book.to_json("s")).unwrap();
        assert_eq!(stored, book);
        let damaged = text(&book).replace("***", "**");
        assert!(Book::from_json("s", damaged.as_bytes()).is_err());
        // And one about its name, which nobody could look through.
        assert_eq!(see(&mut book, true, None), (Standing::Approved, true));
        let names: Vec<_> = book.tools().map(|(name, _)| name.to_owned()).collect();
        assert!(matches!(&names[..], [name] if name.starts_with("hidden-")));
        assert!(book.get(ItemKind::Tool, "a").is_some() && book.get(ItemKind::Tool, "b").is_none());
        assert_eq!(see(&mut book, true, None), (Standing::Approved, false));
    }

    #[test]
    fn an_approval_from_elsewhere_is_taken_over() {
        let mut here = Book::default();
        see(&mut here, "a", "one", Trust::FirstUse);
        see(&mut here, "a", "two", Trust::FirstUse);
        let mut there = here.clone();
        // The clock of the other process is behind.
        assert_eq!(there.approve(ItemKind::Tool, "a", 1), Some(digest("two")));
        // Here the definition changed again meanwhile: that one still waits.
        let mut later = here.clone();
        see(&mut later, "a", "three", Trust::FirstUse);
        later.merge(there.clone());
        assert_eq!(
            later
                .get(ItemKind::Tool, "a")
                .unwrap()
                .approved
                .as_ref()
                .unwrap()
                .digest,
            digest("two")
        );
        assert_eq!(
            later
                .get(ItemKind::Tool, "a")
                .unwrap()
                .held()
                .unwrap()
                .digest,
            digest("three")
        );
        see(&mut there, "new", "x", Trust::FirstUse);
        here.merge(there.clone());
        assert_eq!(here, there);
        let before = here.clone();
        here.merge(there);
        assert_eq!(here, before);
    }

    #[test]
    fn a_book_reads_what_it_wrote_and_nothing_else() {
        let mut book = Book::default();
        see(&mut book, "a \"b\"\n", "{\"name\":\"a\"}", Trust::FirstUse);
        see(&mut book, "a \"b\"\n", "two", Trust::FirstUse);
        see(&mut book, "c", "x", Trust::Hold("why".into()));
        let json = book.to_json("files");
        assert_eq!(Book::from_json("files", &json), Ok(book));
        let text = String::from_utf8(json).unwrap();
        for (bad, why) in [
            (text.replace("two", "twp"), "does not have its digest"),
            (
                text.replace("\"version\": 2", "\"version\": 3"),
                "version 3",
            ),
            (text.replace("files", "other"), "of the server \"other\""),
            (text.replace("first_seen_ms", "first"), "unknown field"),
            (text[..text.len() / 2].to_owned(), "EOF"),
            (String::new(), "EOF"),
        ] {
            let error = Book::from_json("files", bad.as_bytes()).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
        let empty = r#"{"version":1,"server":"files","tools":{"a":{"first_seen_ms":1}}}"#;
        assert!(Book::from_json("files", empty.as_bytes()).is_err());
    }

    #[test]
    fn kinds_are_kept_apart_and_a_book_of_tools_alone_is_read() {
        let mut book = Book::default();
        see(&mut book, "a", "tool", Trust::FirstUse);
        let old = String::from_utf8(book.to_json("s")).unwrap();
        let old = old.replace("\"version\": 2", "\"version\": 1");
        assert_eq!(Book::from_json("s", old.as_bytes()).as_ref(), Ok(&book));
        for (kind, text) in [
            (ItemKind::Prompt, "prompt"),
            (ItemKind::Resource, "uri"),
            (ItemKind::Card, "card"),
        ] {
            let item = item(kind, "a");
            let first = see_item(&mut book, &item, text, Trust::FirstUse);
            assert_eq!(first, (Standing::New, true));
            see_item(&mut book, &item, "changed", Trust::FirstUse);
        }
        assert_eq!(book.held(), 3);
        let kinds: Vec<_> = book.items().map(|(kind, name, _)| (kind, name)).collect();
        assert_eq!(kinds, KINDS.map(|kind| (kind, "a")));
        let mut there = Book::from_json("s", &book.to_json("s")).unwrap();
        assert_eq!(there, book);
        assert!(there.approve(ItemKind::Prompt, "a", 9).is_some());
        book.merge(there);
        let held = |kind| book.get(kind, "a").unwrap().held().is_some();
        assert_eq!(KINDS.map(held), [false, false, true, true]);
    }

    #[test]
    fn a_resource_that_was_seen_long_ago_makes_room() {
        let mut book = Book::default();
        let see = |book: &mut Book, uri: usize, text: &str, at_ms| {
            let seen = Seen {
                item: &item(ItemKind::Resource, &uri.to_string()),
                is_private: false,
                digest: digest(text),
                definition: Some(text),
                at_ms,
            };
            let (standing, _) = book.see(&seen, Trust::FirstUse).unwrap();
            let counted = book.text_bytes;
            book.count();
            assert_eq!(book.text_bytes, counted);
            standing
        };
        for i in 0..PINS_MAX {
            see(&mut book, i, "a", 10 + i as u64);
        }
        // What waits stays.
        assert!(matches!(see(&mut book, 0, "b", 9), Standing::Held(_)));
        assert_eq!(see(&mut book, PINS_MAX, "a", 9_999), Standing::New);
        let is_there = |uri: &str| book.get(ItemKind::Resource, uri).is_some();
        assert!(is_there("0") && !is_there("1") && is_there("2"));
    }

    #[test]
    fn bounds_hold() {
        let mut book = Book::default();
        let long = "x".repeat(PIN_TEXT_BYTES_MAX + 1);
        see(&mut book, "long", &long, Trust::FirstUse);
        assert_eq!(
            book.get(ItemKind::Tool, "long")
                .unwrap()
                .approved
                .as_ref()
                .unwrap()
                .definition,
            None
        );
        assert!(matches!(
            see(&mut book, "long", "y", Trust::FirstUse).0,
            Standing::Held(_)
        ));
        let text = "z".repeat(PIN_TEXT_BYTES_MAX);
        for i in 0..PINS_MAX - 1 {
            let seen = Seen {
                item: &tool(&i.to_string()),
                digest: digest("z"),
                definition: Some(&text),
                is_private: false,
                at_ms: 1,
            };
            book.see(&seen, Trust::FirstUse).unwrap();
        }
        assert!(book.text_bytes <= PINS_TEXT_BYTES_MAX);
        let name = "n".repeat(TOOL_NAME_CHARS_MAX + 1);
        for (book, more) in [(&mut book, "more"), (&mut Book::default(), name.as_str())] {
            let seen = Seen {
                item: &tool(more),
                digest: digest("z"),
                definition: Some("z"),
                is_private: false,
                at_ms: 1,
            };
            assert_eq!(book.see(&seen, Trust::FirstUse), Err(PinsFull));
        }
        assert!(book.to_json("files").len() <= base::limit::PINS_FILE_BYTES_MAX);
    }
}
