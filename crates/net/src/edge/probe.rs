//! An entrance for the fuzzer to the check of framing.

use super::strict::Strict;

/// How many heads were whole and good in bytes that come in these pieces, and what was wrong then, if
/// anything was.
pub fn framing<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> (u64, Option<String>) {
    let mut strict = Strict::new();
    for piece in pieces {
        if let Err(fault) = strict.look(piece) {
            return (strict.heads(), Some(format!("{:?}", fault.what)));
        }
    }
    (strict.heads(), None)
}
