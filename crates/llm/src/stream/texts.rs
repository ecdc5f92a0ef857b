//! The texts that grow in a stream, each scanned as one; and which of its events may go on with what.

use std::collections::HashMap;
use std::ops::Range;

use base::{JsonKind, JsonValue, Refusal, refusal};
use gate::{Answer, Channel, Passed, Role};

use super::is_call;
use crate::answer::{CallArguments, CallBegin, TextKey, TextKind};

/// Most texts of one stream.
const TEXTS_MAX: usize = 4_096;
/// Longest arguments of a call, in bytes.
const CALL_BYTES_MAX: usize = 1 << 20;

/// All texts of one stream.
#[derive(Default)]
pub(super) struct Texts {
    texts: HashMap<TextKey, GrowingText>,
    calls: HashMap<TextKey, OpenCall>,
}

/// A text that goes on as the scan lets it go.
struct GrowingText {
    channel: Channel,
    /// Bytes that came.
    came: usize,
    /// What came from `assigned` on.
    pending: Vec<u8>,
    /// What the scan let go of that, as it let it go.
    out: Vec<u8>,
    /// Up to here events have gone on with it.
    assigned: usize,
}

/// A call of a tool whose arguments come in pieces.
#[derive(Default)]
struct OpenCall {
    name: Option<String>,
    id: Option<String>,
    arguments: String,
    is_judged: bool,
    /// What stands in the place of the arguments, for the first event that has a piece of them.
    redacted: Option<String>,
    is_given: bool,
}

impl GrowingText {
    fn new(key: &TextKey) -> GrowingText {
        let path = format!("{}[{}]", key.kind.as_str(), key.group);
        GrowingText {
            channel: Channel::new(Role::Assistant, path),
            came: 0,
            pending: Vec::new(),
            out: Vec::new(),
            assigned: 0,
        }
    }

    /// What an event has to say in the place of its part of the text; nothing where that may stay.
    fn assign(&mut self, span: &Range<usize>) -> Option<Vec<u8>> {
        if span.end <= self.assigned {
            // An event before it said this part already.
            return (!span.is_empty()).then(Vec::new);
        }
        let bytes = span.end - self.assigned;
        let is_same = self.out.get(..bytes) == self.pending.get(..bytes);
        if is_same {
            let is_whole = span.start >= self.assigned;
            let text: Vec<u8> = self.out.drain(..bytes).collect();
            self.pending.drain(..bytes);
            self.assigned = span.end;
            return (!is_whole).then_some(text);
        }
        let gone = self.channel.gone().clamp(span.end, self.came);
        self.pending.drain(..gone - self.assigned);
        self.assigned = gone;
        Some(std::mem::take(&mut self.out))
    }
}

impl Texts {
    /// A call begins, or goes on. Those before it in its group are whole.
    pub(super) fn begin_call(
        &mut self,
        passed: &mut Passed,
        begin: &CallBegin<'_>,
    ) -> Result<(), Refusal> {
        let call = self.open_call(passed, begin.key)?;
        is_the_same(&mut call.name, begin.name)?;
        is_the_same(&mut call.id, begin.id)
    }

    fn open_call(&mut self, passed: &mut Passed, key: TextKey) -> Result<&mut OpenCall, Refusal> {
        if self.calls.len() >= TEXTS_MAX && !self.calls.contains_key(&key) {
            return Err(too_many());
        }
        self.finish(passed, |other| other.group == key.group && *other != key)?;
        Ok(self.calls.entry(key).or_default())
    }

    /// Takes the next piece of a text; gives where it stands in it.
    pub(super) fn push(
        &mut self,
        passed: &mut Passed,
        key: TextKey,
        piece: &[u8],
    ) -> Result<Range<usize>, Refusal> {
        if is_call(&key) {
            let call = self.open_call(passed, key)?;
            let start = call.arguments.len();
            if call.is_judged || start + piece.len() > CALL_BYTES_MAX {
                let public =
                    "a call of a tool goes on after its end, or its arguments are too long";
                return Err(Refusal::new(refusal::LLM_ANSWER_INVALID, public));
            }
            call.arguments.push_str(&String::from_utf8_lossy(piece));
            return Ok(start..call.arguments.len());
        }
        if self.texts.len() >= TEXTS_MAX && !self.texts.contains_key(&key) {
            return Err(too_many());
        }
        // The texts of one group come one after another: what another holds back is whole.
        self.finish(passed, |other| other.group == key.group && *other != key)?;
        let text = self
            .texts
            .entry(key)
            .or_insert_with(|| GrowingText::new(&key));
        let start = text.came;
        text.came += piece.len();
        text.pending.extend_from_slice(piece);
        text.channel.push(passed, piece, &mut text.out)?;
        Ok(start..text.came)
    }

    /// Texts that have come to an end, for now: what they hold back goes on, and calls are judged.
    pub(super) fn finish(
        &mut self,
        passed: &mut Passed,
        which: impl Fn(&TextKey) -> bool,
    ) -> Result<(), Refusal> {
        for (key, text) in &mut self.texts {
            if which(key) && text.channel.gone() < text.came {
                text.channel.finish(passed, &mut text.out)?;
            }
        }
        for (key, call) in &mut self.calls {
            if which(key) && !call.is_judged {
                call.judge(passed, key)?;
            }
        }
        Ok(())
    }

    /// Whether an event with this part of a text may go on.
    pub(super) fn is_free(&self, key: &TextKey, span: &Range<usize>) -> bool {
        match is_call(key) {
            true => self.calls.get(key).is_some_and(|call| call.is_judged),
            false => {
                let text = self.texts.get(key);
                text.is_some_and(|text| text.channel.gone() >= span.end)
            }
        }
    }

    /// What an event that goes on has to say in the place of its part of a text; nothing where that may stay.
    pub(super) fn assign(&mut self, key: &TextKey, span: &Range<usize>) -> Option<Vec<u8>> {
        if !is_call(key) {
            return self.texts.get_mut(key)?.assign(span);
        }
        let call = self.calls.get_mut(key)?;
        let redacted = call.redacted.as_ref()?;
        match std::mem::replace(&mut call.is_given, true) {
            false => Some(redacted.clone().into_bytes()),
            true => Some(Vec::new()),
        }
    }
}

impl OpenCall {
    /// Judges a call that is whole.
    fn judge(&mut self, passed: &mut Passed, key: &TextKey) -> Result<(), Refusal> {
        let arguments = CallArguments::of(&self.arguments, key.kind == TextKind::Input);
        let name = serde_json::Value::from(self.name.as_deref().unwrap_or_default());
        let path = format!("call[{}.{}]", key.group, key.index);
        let judged = arguments.judge(passed, &name.to_string(), &path)?;
        if let Answer::Redacted(redacted) = judged {
            let redacted: serde_json::Value = serde_json::from_slice(&redacted).map_err(|_| {
                Refusal::new(
                    refusal::SECRET,
                    "a secret stands where it cannot be taken out of a call",
                )
            })?;
            let arguments = redacted.get("arguments").cloned().unwrap_or_default();
            self.redacted = Some(match arguments {
                serde_json::Value::String(text) => text,
                other => other.to_string(),
            });
        }
        self.is_judged = true;
        Ok(())
    }
}

/// Keeps what an event says a call is named; a client may read the first or the last of two.
fn is_the_same(known: &mut Option<String>, said: Option<JsonValue<'_>>) -> Result<(), Refusal> {
    let said = said.filter(|said| said.kind() == JsonKind::String);
    let said = said.and_then(JsonValue::as_str).unwrap_or_default();
    if said.is_empty() {
        return Ok(());
    }
    match known.get_or_insert_with(|| said.to_string()) == &*said {
        true => Ok(()),
        false => {
            let public = "a call of a tool has two names or two ids";
            Err(Refusal::new(refusal::LLM_ANSWER_INVALID, public))
        }
    }
}

fn too_many() -> Refusal {
    let public = "the answer has more texts than are judged";
    Refusal::new(refusal::LLM_ANSWER_INVALID, public)
}

#[cfg(test)]
mod tests {
    use base::Json;

    use super::*;

    #[test]
    fn a_call_keeps_its_first_name_and_takes_no_other() {
        let mut known = None;
        let mut says = |json: &str| {
            let said = Json::read(json.as_bytes()).unwrap();
            is_the_same(&mut known, Some(said.root())).is_ok()
        };
        // Many providers say it with each piece, or say nothing in its place.
        assert!(says("\"\"") && says("null") && says("\"run\"") && says("\"r\\u0075n\""));
        assert!(says("\"\"") && !says("\"read\"") && !says("\"ru\""));
        assert!(is_the_same(&mut known, None).is_ok());
        assert_eq!(known.as_deref(), Some("run"));
    }
}
