//! What the fuzzer calls: the readers of this crate that take outside bytes.

use base::Json;

/// Reads a request, a card, and an answer to each kind of method, of the same bytes.
pub fn read(bytes: &[u8]) {
    if let Ok(card) = crate::card::Card::read(bytes) {
        let shown = card.at("https://weir.example/a2a/x");
        if let Ok(shown) = shown {
            assert!(Json::read(&shown).is_ok(), "a card that is shown is JSON");
        }
    }
    if let Ok(json) = Json::read(bytes) {
        // What is refused is as good as what is read: neither may panic.
        let _ = crate::request::read(json.root());
        let _ = crate::answer::named(json.root());
    }
}
