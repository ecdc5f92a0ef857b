//! Checks a whole JSON text before anything is read of it: valid, bounded, and of one meaning.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

use base::fold;
use base::limit::{JSON_DEPTH_MAX, JSON_KEYS_MAX};
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

use super::names::Position;
use super::{Invalid, Sender};

/// Members that JSON-RPC 2.0 names (sections 4 and 5).
const ENVELOPE: &[&str] = &["jsonrpc", "id", "method", "params", "result", "error"];

/// Objects that have two members which are equal when their case is folded.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Folds {
    /// There is one in the `arguments` of a call.
    pub(super) in_arguments: bool,
    /// How deep the shallowest one stands elsewhere: 0 is the message, 1 its `params`.
    pub(super) depth: Option<usize>,
}

/// Checks a message: JSON of at most [`JSON_DEPTH_MAX`] levels, no member twice in one object, no member of
/// the envelope that JSON-RPC does not name, and where an agent sent it, no known member in another spelling.
pub(super) fn check(text: &[u8], sender: Sender) -> Result<Folds, Invalid> {
    let mut found = FoundNames::default();
    let mut reader = serde_json::Deserializer::from_slice(text);
    let strict = Strict {
        depth: 0,
        position: Position::Envelope,
        sender,
        found: &mut found,
    };
    let read = strict.deserialize(&mut reader).and_then(|()| reader.end());
    match (read, found.invalid) {
        (Ok(()), _) => Ok(found.folds),
        (Err(_), Some(invalid)) => Err(invalid),
        (Err(_), None) => Err(Invalid::Json),
    }
}

#[derive(Default)]
struct FoundNames {
    invalid: Option<Invalid>,
    folds: Folds,
}

/// Walks a value and keeps nothing but the members of the objects that it is inside of.
struct Strict<'f> {
    depth: usize,
    position: Position,
    sender: Sender,
    found: &'f mut FoundNames,
}

impl Strict<'_> {
    fn fail<E: serde::de::Error>(self, invalid: Invalid) -> E {
        self.found.invalid = Some(invalid);
        E::custom("refused")
    }

    fn inner(&mut self, position: Position) -> Strict<'_> {
        Strict {
            depth: self.depth + 1,
            position,
            sender: self.sender,
            found: self.found,
        }
    }

    fn member(&mut self, key: &str) -> Result<Position, Invalid> {
        if self.position == Position::Envelope && !ENVELOPE.contains(&key) {
            return Err(Invalid::Message(
                "the message has a member that JSON-RPC does not name",
            ));
        }
        if self.sender == Sender::Agent && self.position.misspells(key) {
            return Err(Invalid::Spelling);
        }
        Ok(self.position.below(key))
    }
}

impl<'de> DeserializeSeed<'de> for Strict<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        if self.depth > JSON_DEPTH_MAX {
            return Err(self.fail(Invalid::Deep));
        }
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }
    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }
    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }
    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }
    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }
    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }
    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut seq: A) -> Result<(), A::Error> {
        let position = match self.position {
            Position::Arguments => Position::Arguments,
            _ => Position::Other,
        };
        while seq.next_element_seed(self.inner(position))?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        let mut keys = Keys::default();
        while let Some(Key(key)) = map.next_key()? {
            let below = self.member(&key);
            match below.and_then(|below| keys.insert(key).map(|()| below)) {
                Ok(below) => map.next_value_seed(self.inner(below))?,
                Err(invalid) => return Err(self.fail(invalid)),
            }
        }
        let folds = &mut self.found.folds;
        match self.position {
            _ if !keys.fold() => {}
            Position::Arguments => folds.in_arguments = true,
            _ => folds.depth = Some(folds.depth.unwrap_or(self.depth).min(self.depth)),
        }
        Ok(())
    }
}

/// A key, borrowed where it has no escapes.
#[derive(Deserialize)]
pub(crate) struct Key<'a>(#[serde(borrow)] pub(crate) Cow<'a, str>);

/// The members of one object: compared one by one while few, hashed when many.
#[derive(Default)]
struct Keys<'a> {
    few: Vec<Cow<'a, str>>,
    many: HashSet<Cow<'a, str>>,
    folds: bool,
}

impl<'a> Keys<'a> {
    const FEW: usize = 16;

    fn insert(&mut self, key: Cow<'a, str>) -> Result<(), Invalid> {
        if self.many.is_empty() && self.few.len() < Keys::FEW {
            for known in &self.few {
                if fold::equal_folded(known, &key) {
                    if *known == key {
                        return Err(Invalid::Duplicate);
                    }
                    self.folds = true;
                }
            }
            self.few.push(key);
            return Ok(());
        }
        self.many.extend(self.few.drain(..));
        match (self.many.len() < JSON_KEYS_MAX, self.many.insert(key)) {
            (_, false) => Err(Invalid::Duplicate),
            (false, true) => Err(Invalid::Deep),
            (true, true) => Ok(()),
        }
    }

    /// Whether two of them are equal when their case is folded.
    fn fold(&self) -> bool {
        if self.many.is_empty() {
            return self.folds;
        }
        let folded: HashSet<String> = self.many.iter().map(|key| fold::folded(key)).collect();
        folded.len() < self.many.len()
    }
}
