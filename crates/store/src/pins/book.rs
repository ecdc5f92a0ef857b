//! One server's tools as they were approved, and what waits for approval; as a value, and as JSON.
//!
//! It does no I/O. What is read is checked whole: a book that was written by something else is an error.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use base::Digest;
use base::limit::{PIN_TEXT_BYTES_MAX, PINS_MAX, PINS_TEXT_BYTES_MAX, TOOL_NAME_CHARS_MAX};
use gate::ports::{HeldTool, HoldReason, PinsFull, Standing, Trust};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// The form of the file. A file of a later form is not touched.
const VERSION: u64 = 1;
/// Digits of a name's digest that stand for the name where that is not kept: two in one book never have the same.
const HIDDEN_DIGITS: usize = 32;

/// One definition of a tool.
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

/// What is known of one tool. It has an approved version, or one that waits, or both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pin {
    /// Unix milliseconds.
    pub first_seen_ms: u64,
    pub approved: Option<Version>,
    pub waiting: Option<Version>,
    /// HoldReason a tool was held when it was new; empty where it was not.
    pub note: String,
}

/// The tools of one server, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Book {
    /// By their names; those with something private in their names by [`hidden`].
    tools: BTreeMap<String, Pin>,
    /// Bytes of all definitions.
    text_bytes: usize,
}

/// A definition that was seen.
pub(super) struct Seen<'a> {
    pub(super) tool: &'a str,
    /// The name is not to be kept as it is.
    pub(super) is_private: bool,
    pub(super) digest: Digest,
    pub(super) definition: Option<&'a str>,
    pub(super) at_ms: u64,
}

impl<'a> Seen<'a> {
    /// Under which name the tool is kept.
    fn key(&self) -> Cow<'a, str> {
        match self.is_private {
            true => Cow::Owned(hidden(self.tool)),
            false => Cow::Borrowed(self.tool),
        }
    }
}

/// Stands in the place of a name that holds something private. It is made of the name, so that the tool is found again
/// by it.
fn hidden(tool: &str) -> String {
    let digest = digest_of(tool).to_string();
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
    pub fn held(&self) -> Option<HeldTool> {
        let waiting = self.waiting.as_ref()?;
        let why = match (&waiting.refused, &self.approved) {
            (Some(_), _) => HoldReason::Refused,
            (None, Some(_)) => HoldReason::Changed,
            (None, None) => HoldReason::Lookalike,
        };
        Some(HeldTool {
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
}

impl Book {
    /// The tools in the order of their names.
    pub fn tools(&self) -> impl Iterator<Item = (&str, &Pin)> {
        self.tools.iter().map(|(tool, pin)| (tool.as_str(), pin))
    }

    /// A tool by its name, also where that is not kept as it is.
    pub fn get(&self, tool: &str) -> Option<&Pin> {
        let by_name = self.tools.get(tool);
        by_name.or_else(|| self.tools.get(&hidden(tool)))
    }

    /// Tools that wait.
    pub fn held(&self) -> usize {
        self.tools
            .values()
            .filter(|pin| pin.waiting.is_some())
            .count()
    }

    /// Approves what waits of a tool: its digest, or nothing where nothing waits.
    pub fn approve(&mut self, tool: &str, now_ms: u64) -> Option<Digest> {
        let pin = self.tools.get_mut(tool)?;
        let mut version = pin.waiting.take()?;
        let digest = version.digest;
        // Later than what it replaces even where the clock went back, because the later approval holds.
        let before = pin
            .approved
            .as_ref()
            .map_or(0, |approved| approved.at_ms + 1);
        version.at_ms = now_ms.max(before);
        self.text_bytes -= bytes(pin.approved.as_ref());
        pin.approved = Some(version);
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
        let key = seen.key();
        let mut masked = false;
        let by_name = seen.is_private.then(|| self.tools.remove(seen.tool));
        if let Some(pin) = by_name.flatten() {
            self.tools.entry(key.clone().into_owned()).or_insert(pin);
            self.count();
            masked = true;
        }
        let Some(pin) = self.tools.get_mut(&*key) else {
            return masked;
        };
        let both = [&mut pin.approved, &mut pin.waiting].into_iter().flatten();
        for kept in both.filter(|kept| kept.digest == seen.digest && kept.definition.is_some()) {
            if kept.definition.as_deref() != seen.definition {
                self.text_bytes -= bytes(Some(kept));
                let Version {
                    definition,
                    is_masked,
                    ..
                } = version(seen, None, &mut self.text_bytes);
                (kept.definition, kept.is_masked) = (definition, is_masked);
                masked = true;
            }
        }
        masked
    }

    /// Holds a definition against what is known of its tool.
    fn judge(&mut self, seen: &Seen<'_>, trust: Trust) -> Result<(Standing, bool), PinsFull> {
        let Some(pin) = self.tools.get_mut(&*seen.key()) else {
            return self.meet(seen, trust);
        };
        let is = |version: &Option<Version>| {
            version
                .as_ref()
                .is_some_and(|version| version.digest == seen.digest)
        };
        let refused = match &trust {
            Trust::Refused(rule) => Some(Arc::clone(rule)),
            Trust::FirstUse | Trust::Hold(_) => None,
        };
        let accepted = pin
            .approved
            .as_ref()
            .is_some_and(|version| version.refused.is_some());
        if is(&pin.approved) && (accepted || refused.is_none()) {
            let gone = pin.waiting.take();
            self.text_bytes -= bytes(gone.as_ref());
            let standing = pin.standing(&seen.digest).expect("nothing waits");
            return Ok((standing, gone.is_some()));
        }
        // A definition that only the scan stood against is trusted on first use once it does no more.
        let was_refused = pin
            .waiting
            .as_ref()
            .is_some_and(|version| version.refused.is_some());
        if pin.approved.is_none() && was_refused && trust == Trust::FirstUse {
            self.text_bytes -= bytes(pin.waiting.take().as_ref());
            pin.approved = Some(version(seen, None, &mut self.text_bytes));
            return Ok((Standing::New, true));
        }
        let waits = pin.waiting.as_ref().map(|version| &version.refused);
        let changed = !is(&pin.waiting) || waits != Some(&refused);
        if changed {
            self.text_bytes -= bytes(pin.waiting.as_ref());
            pin.waiting = Some(version(seen, refused, &mut self.text_bytes));
        }
        let held = pin.held().expect("a version waits");
        Ok((Standing::Held(held), changed))
    }

    /// A tool that is new.
    fn meet(&mut self, seen: &Seen<'_>, trust: Trust) -> Result<(Standing, bool), PinsFull> {
        let long = seen.tool.chars().nth(TOOL_NAME_CHARS_MAX).is_some();
        if long || self.tools.len() >= PINS_MAX {
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
        self.tools.insert(seen.key().into_owned(), pin);
        Ok((standing, true))
    }

    /// Takes over the approvals that another process wrote, and tools that are not known here. What waits
    /// is known better here, where definitions are seen.
    pub(super) fn merge(&mut self, stored: Book) {
        for (tool, theirs) in stored.tools {
            let Some(pin) = self.tools.get_mut(&tool) else {
                self.tools.insert(tool, theirs);
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
        self.count();
    }

    fn count(&mut self) {
        let both = |pin: &Pin| bytes(pin.approved.as_ref()) + bytes(pin.waiting.as_ref());
        self.text_bytes = self.tools.values().map(both).sum();
    }

    pub(super) fn to_json(&self, server: &str) -> Vec<u8> {
        let kept = |version: &Version| Kept {
            digest: version.digest.to_string(),
            at_ms: version.at_ms,
            definition: version.definition.clone(),
            masked: version.masked_digest().map(|digest| digest.to_string()),
            refused: version.refused.as_deref().map(str::to_owned),
        };
        let entry = |(tool, pin): (&String, &Pin)| {
            let entry = Entry {
                first_seen_ms: pin.first_seen_ms,
                approved: pin.approved.as_ref().map(kept),
                waiting: pin.waiting.as_ref().map(kept),
                note: pin.note.clone(),
            };
            (tool.clone(), entry)
        };
        let file = File {
            version: VERSION,
            server: server.to_owned(),
            tools: self.tools.iter().map(entry).collect(),
        };
        let mut json = serde_json::to_vec_pretty(&file).expect("texts and numbers are JSON");
        json.push(b'\n');
        json
    }

    /// Reads what [`Book::to_json`] wrote. The error says what is wrong, without the file's name.
    pub(super) fn from_json(server: &str, json: &[u8]) -> Result<Book, String> {
        let head: Head = serde_json::from_slice(json).map_err(|error| error.to_string())?;
        if head.version != VERSION {
            let version = head.version;
            return Err(format!(
                "it is of version {version}, which another weir wrote"
            ));
        }
        let file: File = serde_json::from_slice(json).map_err(|error| error.to_string())?;
        if file.server != server {
            return Err(format!("it is of the server {:?}", file.server));
        }
        if file.tools.len() > PINS_MAX {
            return Err(format!("it has more than {PINS_MAX} tools"));
        }
        let mut book = Book::default();
        for (tool, entry) in file.tools {
            let pin = entry
                .pin()
                .map_err(|what| format!("tool {tool:?}: {what}"))?;
            book.tools.insert(tool, pin);
        }
        book.count();
        Ok(book)
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

    fn see(book: &mut Book, tool: &str, text: &str, trust: Trust) -> (Standing, bool) {
        let seen = Seen {
            tool,
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
        Standing::Held(HeldTool {
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
        assert_eq!(book.approve("add", 9), Some(digest("two")));
        assert_eq!(book.approve("add", 9), None);
        assert_eq!(book.approve("other", 9), None);
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
        assert_eq!(book.approve("a", 9), Some(digest("two")));
        assert_eq!(
            see(&mut book, "a", "two", hold()),
            (Standing::Approved, false)
        );
        assert_eq!(book.get("a").unwrap().note, "it looks like another");
    }

    #[test]
    fn a_definition_that_the_scan_refuses_is_held_whether_or_not_it_was_trusted() {
        let refused = || Trust::Refused("some_rule".into());
        let held = |text| {
            Standing::Held(HeldTool {
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
            stored.get("a").unwrap().held(),
            book.get("a").unwrap().held()
        );
        book.merge(stored.clone());
        assert_eq!(book.held(), 1);
        // A person approves it all the same.
        let mut there = stored;
        assert_eq!(there.approve("a", 9), Some(digest("good")));
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
                tool: "a",
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
        assert!(book.get("a").is_some() && book.get("b").is_none());
        assert_eq!(see(&mut book, true, None), (Standing::Approved, false));
    }

    #[test]
    fn an_approval_from_elsewhere_is_taken_over() {
        let mut here = Book::default();
        see(&mut here, "a", "one", Trust::FirstUse);
        see(&mut here, "a", "two", Trust::FirstUse);
        let mut there = here.clone();
        // The clock of the other process is behind.
        assert_eq!(there.approve("a", 1), Some(digest("two")));
        // Here the definition changed again meanwhile: that one still waits.
        let mut later = here.clone();
        see(&mut later, "a", "three", Trust::FirstUse);
        later.merge(there.clone());
        assert_eq!(
            later.get("a").unwrap().approved.as_ref().unwrap().digest,
            digest("two")
        );
        assert_eq!(
            later.get("a").unwrap().held().unwrap().digest,
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
                text.replace("\"version\": 1", "\"version\": 2"),
                "version 2",
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
    fn bounds_hold() {
        let mut book = Book::default();
        let long = "x".repeat(PIN_TEXT_BYTES_MAX + 1);
        see(&mut book, "long", &long, Trust::FirstUse);
        assert_eq!(
            book.get("long")
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
                tool: &i.to_string(),
                digest: digest("z"),
                definition: Some(&text),
                is_private: false,
                at_ms: 1,
            };
            book.see(&seen, Trust::FirstUse).unwrap();
        }
        assert!(book.text_bytes <= PINS_TEXT_BYTES_MAX);
        let name = "n".repeat(TOOL_NAME_CHARS_MAX + 1);
        for (book, tool) in [(&mut book, "more"), (&mut Book::default(), name.as_str())] {
            let seen = Seen {
                tool,
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
