//! JOSE texts as they come from outside: base64url, strict JSON objects, and why one is refused.
//!
//! It exists so that a header, a key and a set of claims are read by one reader. It refuses what two readers could
//! understand in two ways: members that are written twice, at any depth, base64url with padding or spare bits, and
//! texts over their bound.

use std::fmt;

use base::{Json, JsonKind, JsonValue};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// Largest compact JWS, in bytes: tokens of large identity providers have some thousand.
pub const JWS_BYTES_MAX: usize = 16 << 10;
/// Most members of one object.
const MEMBERS_MAX: usize = 256;

/// Why a JOSE text is refused. No variant repeats what was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JoseError {
    /// It is longer than its bound.
    TooLarge,
    /// It is not three parts with points between them (RFC 7515 §7.1).
    NotCompact,
    /// A part is not canonical base64url without padding (RFC 7515 §2).
    Base64,
    /// A part is not a JSON object.
    Json,
    /// A member is written twice (RFC 7515 §4 lets a reader refuse that).
    Duplicate,
    /// The algorithm is none that is taken here: `none`, a symmetric one, or an unknown one.
    Algorithm,
    /// The header has `crit`, and no extension is understood here (RFC 7515 §4.1.11).
    Critical,
    /// The header brings or names a key (`jwk`, `jku`, `x5u`, `x5c`) where keys are configured.
    EmbeddedKey,
    /// The header's `typ` is another.
    Type,
    /// The key cannot be used, and why.
    Key(&'static str),
    /// The key has private or symmetric parts.
    PrivateKey,
    /// The algorithm is not one of the key's.
    KeyMismatch,
    /// No key has the id that the header names.
    KeyUnknown,
    /// The signature is not the key's.
    Signature,
    /// This claim is missing or is not of its type.
    Claim(&'static str),
    /// Another issuer, or another subject than the issuer.
    Issuer,
    /// It is for another audience.
    Audience,
    /// It is not good yet.
    NotYet,
    /// It is not good any more, or too old.
    Expired,
    /// It is good for longer than is taken here.
    TooLong,
}

impl fmt::Display for JoseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JoseError::TooLarge => f.write_str("it is too long"),
            JoseError::NotCompact => f.write_str("it is not a compact JWS of three parts"),
            JoseError::Base64 => f.write_str("a part is not canonical base64url"),
            JoseError::Json => f.write_str("a part is not a JSON object"),
            JoseError::Duplicate => f.write_str("a member is written twice"),
            JoseError::Algorithm => f.write_str("its algorithm is not taken here"),
            JoseError::Critical => f.write_str("it asks for an extension by crit"),
            JoseError::EmbeddedKey => f.write_str("its header brings or names a key"),
            JoseError::Type => f.write_str("its typ is another"),
            JoseError::Key(why) => write!(f, "its key {why}"),
            JoseError::PrivateKey => f.write_str("its key has private parts"),
            JoseError::KeyMismatch => f.write_str("its algorithm is not one of the key's"),
            JoseError::KeyUnknown => f.write_str("no key has its kid"),
            JoseError::Signature => f.write_str("its signature is not the key's"),
            JoseError::Claim(name) => write!(f, "its claim {name} is missing or of another type"),
            JoseError::Issuer => f.write_str("it is of another issuer"),
            JoseError::Audience => f.write_str("it is for another audience"),
            JoseError::NotYet => f.write_str("it is not good yet; look at the clocks"),
            JoseError::Expired => f.write_str("it is not good any more; look at the clocks"),
            JoseError::TooLong => f.write_str("it is good for longer than is taken here"),
        }
    }
}

impl std::error::Error for JoseError {}

/// Reads base64url without padding, in its one canonical form.
///
/// # Errors
/// [`JoseError::Base64`].
pub fn base64url(text: &str) -> Result<Vec<u8>, JoseError> {
    URL_SAFE_NO_PAD.decode(text).map_err(|_| JoseError::Base64)
}

/// Writes base64url without padding.
pub fn to_base64url(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Reads a text that is one JSON object, in which no member of any object is written twice.
///
/// # Errors
/// [`JoseError::Json`], [`JoseError::Duplicate`] and, with more than 256 members in one object, [`JoseError::TooLarge`].
pub fn strict_object(text: &[u8]) -> Result<Json<'_>, JoseError> {
    let json = Json::read(text).map_err(|_| JoseError::Json)?;
    if json.root().kind() != JsonKind::Object {
        return Err(JoseError::Json);
    }
    distinct(json.root())?;
    Ok(json)
}

/// Members are looked for in all objects below; the depth is bounded by [`Json::read`].
fn distinct(value: JsonValue<'_>) -> Result<(), JoseError> {
    let mut names = Vec::new();
    for (key, member) in value.members() {
        names.push(key.name());
        distinct(member)?;
    }
    if names.len() > MEMBERS_MAX {
        return Err(JoseError::TooLarge);
    }
    names.sort_unstable();
    if names.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err(JoseError::Duplicate);
    }
    value.items().try_for_each(distinct)
}

/// A member that has to be a string, where it is there.
pub(crate) fn string<'j>(
    object: JsonValue<'j>,
    name: &'static str,
) -> Result<Option<std::borrow::Cow<'j, str>>, JoseError> {
    match object.get(name) {
        None => Ok(None),
        Some(value) => value.as_str().map(Some).ok_or(JoseError::Claim(name)),
    }
}

/// A member that has to be there and be a string.
///
/// # Errors
/// [`JoseError::Claim`].
pub fn needed<'j>(
    object: JsonValue<'j>,
    name: &'static str,
) -> Result<std::borrow::Cow<'j, str>, JoseError> {
    string(object, name)?.ok_or(JoseError::Claim(name))
}

/// A NumericDate (RFC 7519 §2) in milliseconds, where it is there. Seconds may have a fraction.
pub(crate) fn date_ms(object: JsonValue<'_>, name: &'static str) -> Result<Option<u64>, JoseError> {
    // 9999-12-31, so that sums of milliseconds stay far from their end.
    const SECONDS_MAX: f64 = 253_402_300_799.0;
    let Some(value) = object.get(name) else {
        return Ok(None);
    };
    let wrong = JoseError::Claim(name);
    if value.kind() != JsonKind::Number {
        return Err(wrong);
    }
    let seconds: f64 = value.text().parse().map_err(|_| wrong)?;
    if !(0.0..=SECONDS_MAX).contains(&seconds) {
        return Err(wrong);
    }
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it is between 0 and 2^48"
    )]
    Ok(Some((seconds * 1000.0) as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_written_once_at_any_depth() {
        let refused = |text: &str| strict_object(text.as_bytes()).map(drop).err();
        for good in [r#"{}"#, r#"{"a":1,"b":[{"a":1},{"a":2}]}"#] {
            assert_eq!(refused(good), None, "{good}");
        }
        for twice in [
            r#"{"a":1,"a":1}"#,
            r#"{"a":1,"\u0061":2}"#,
            r#"{"c":[[{"a":1,"b":2,"a":3}]]}"#,
            r#"{"cnf":{"jkt":"x","jkt":"y"}}"#,
        ] {
            assert_eq!(refused(twice), Some(JoseError::Duplicate), "{twice}");
        }
        for none in ["", "[]", "1", "{} x", "{'a':1}", "{\"a\":1,}"] {
            assert_eq!(refused(none), Some(JoseError::Json), "{none}");
        }
    }

    #[test]
    fn base64url_has_one_form() {
        assert_eq!(base64url("AQ").unwrap(), [1]);
        for bad in ["AQ==", "AR", "A", "A+", "A/", "AQ\n", " AQ", "\u{e9}"] {
            assert_eq!(base64url(bad), Err(JoseError::Base64), "{bad:?}");
        }
    }

    #[test]
    fn a_date_is_a_number_of_seconds() {
        let date = |text: &str| {
            let text = format!("{{\"exp\":{text}}}");
            let json = strict_object(text.as_bytes()).unwrap();
            date_ms(json.root(), "exp")
        };
        assert_eq!(date("1300819380"), Ok(Some(1_300_819_380_000)));
        assert_eq!(date("1.5"), Ok(Some(1_500)));
        assert_eq!(date("0"), Ok(Some(0)));
        for bad in ["-1", "1e300", "\"1\"", "null", "true", "[]", "253402300800"] {
            assert_eq!(date(bad), Err(JoseError::Claim("exp")), "{bad}");
        }
    }
}
