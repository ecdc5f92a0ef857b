//! Checks a whole JSON text before anything is read of it: bounded, and of one meaning.

use std::borrow::Cow;
use std::collections::HashSet;

use base::limit::JSON_KEYS_MAX;
use base::{JsonKind, JsonValue, fold};

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

/// Checks a message: no member twice in one object, no member of the envelope that JSON-RPC does not name, and where an
/// agent sent it, no known member in another spelling.
pub(super) fn check(message: JsonValue<'_>, sender: Sender) -> Result<Folds, Invalid> {
    let mut check = Check {
        sender,
        folds: Folds::default(),
    };
    check.value(message, 0, Position::Envelope)?;
    Ok(check.folds)
}

struct Check {
    sender: Sender,
    folds: Folds,
}

impl Check {
    fn value(
        &mut self,
        value: JsonValue<'_>,
        depth: usize,
        position: Position,
    ) -> Result<(), Invalid> {
        match value.kind() {
            JsonKind::Object => self.object(value, depth, position),
            JsonKind::Array => {
                let position = match position {
                    Position::Arguments => Position::Arguments,
                    _ => Position::Other,
                };
                let mut items = value.items();
                items.try_for_each(|item| self.value(item, depth + 1, position))
            }
            _ => Ok(()),
        }
    }

    fn object(
        &mut self,
        object: JsonValue<'_>,
        depth: usize,
        position: Position,
    ) -> Result<(), Invalid> {
        let mut keys = Keys::default();
        for (key, value) in object.members() {
            let name = key.name();
            let below = self.member(&name, position)?;
            keys.insert(name)?;
            self.value(value, depth + 1, below)?;
        }
        match position {
            _ if !keys.fold() => {}
            Position::Arguments => self.folds.in_arguments = true,
            _ => self.folds.depth = Some(self.folds.depth.unwrap_or(depth).min(depth)),
        }
        Ok(())
    }

    fn member(&self, name: &str, position: Position) -> Result<Position, Invalid> {
        if position == Position::Envelope && !ENVELOPE.contains(&name) {
            return Err(Invalid::Message(
                "the message has a member that JSON-RPC does not name",
            ));
        }
        if self.sender == Sender::Agent && position.misspells(name) {
            return Err(Invalid::Spelling);
        }
        Ok(position.below(name))
    }
}

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
