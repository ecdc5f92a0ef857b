//! Entrances for the fuzzer to parsers that nothing outside this crate calls.

use base::{Json, Name};

use crate::declared::Declared;
use crate::origin;
use crate::token::Tokens;

fn name() -> Name {
    Name::new("fuzz").expect("fuzz is a name")
}

/// Whether arguments may go to a tool that has this `inputSchema`; `folds` as the envelope's check says it.
pub fn arguments(schema: &str, arguments: &str, folds: bool) -> bool {
    let declared = Declared::default();
    declared.see(&name(), "tool", schema);
    let Ok(arguments) = Json::read(arguments.as_bytes()) else {
        return false;
    };
    let arguments = Some(arguments.root());
    declared.check(&name(), "tool", arguments, folds).is_ok()
}

/// Whether a text is a serialised origin.
pub fn is_origin(text: &str) -> bool {
    origin::is_origin(text)
}

/// Whether a text opens as a session's or an event's token.
pub fn is_token(text: &str) -> bool {
    let tokens = Tokens {
        key: &[7; 32],
        agent: &name(),
        server: &name(),
    };
    tokens.open_session(text).is_some() || tokens.open_event(text).is_some()
}
