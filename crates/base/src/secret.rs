//! A value that cannot be printed, and what weir's own secrets look like.

/// A secret: no `Debug`, no `Display`, no serialization. [`Secret::expose`] is the one way in, so that a
/// search for it finds each place where a secret is used. Two can be compared, so that a reload knows whether one changed.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    pub fn new(value: String) -> Secret {
        Secret(value)
    }

    pub fn expose(&self) -> &str {
        &self.0
    }
}

/// How weir's own keys and invites begin.
const OWN: [&str; 2] = ["weir_", "winv_"];
/// Characters of base64url behind that: 256 bits.
const OWN_CHARS: usize = 43;
/// How the break-glass secret begins, and how many hexadecimal digits follow.
const BREAK_GLASS: (&str, usize) = ("weir_break_glass_", 64);

/// Whether a text holds one of weir's own secrets: a key, an invite, or the break-glass secret, or what has its form. It is
/// asked of names, which stand in records and pages; longer texts are for the scan.
pub fn holds_own(text: &str) -> bool {
    let is_of = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let follows = |start: &str, least: usize, is_of: &dyn Fn(u8) -> bool| {
        text.match_indices(start).any(|(at, _)| {
            let rest = text[at + start.len()..].bytes();
            rest.take_while(|byte| is_of(*byte)).take(least).count() == least
        })
    };
    OWN.iter().any(|start| follows(start, OWN_CHARS, &is_of))
        || follows(BREAK_GLASS.0, BREAK_GLASS.1, &|byte| {
            byte.is_ascii_hexdigit()
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_secrets_are_known_by_their_form() {
        let key = format!("weir_{}", "aB3_-".repeat(8) + "xyz");
        let invite = key.replace("weir_", "winv_");
        let glass = format!("weir_break_glass_{}", "0f".repeat(32));
        for text in [
            &key,
            &invite,
            &glass,
            &format!("x.{key}"),
            &format!("{key}0123"),
        ] {
            assert!(holds_own(text), "{text}");
        }
        for text in [
            "weir_",
            "weir_config",
            "winv_x",
            &key[..47],
            "weir-credential-api",
        ] {
            assert!(!holds_own(text), "{text}");
        }
    }
}
