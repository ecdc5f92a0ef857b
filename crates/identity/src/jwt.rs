//! Claims of a JWT (RFC 7519) against what is expected of them.
//!
//! It exists so that issuer, audience and times are checked in one place for access tokens, client assertions and the tokens
//! of outside issuers. It refuses a token without an end, and one whose life is longer than its kind may have.

use base::JsonValue;

use crate::jose::{JoseError, date_ms, needed, string};

/// How far the clocks of others may be off, in milliseconds, both ways.
pub const CLOCK_SKEW_MS: u64 = 60_000;
/// Most audiences of one token.
const AUDIENCES_MAX: usize = 64;

/// What a token has to say.
#[derive(Clone, Copy, Debug)]
pub struct ExpectedClaims<'e> {
    pub issuer: &'e str,
    /// One of these has to be among its audiences.
    pub audiences: &'e [&'e str],
    /// How long it may be good from its `iat` on, or from now where it has none, in milliseconds.
    pub life_ms_max: u64,
    /// Now, in Unix milliseconds.
    pub now_unix_ms: u64,
}

/// The claims that were checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckedClaims {
    pub subject: String,
    pub id: Option<String>,
    /// When it was issued, in Unix milliseconds, where it says so.
    pub issued_unix_ms: Option<u64>,
    /// From when on it is void, in Unix milliseconds, without the skew.
    pub expires_unix_ms: u64,
}

impl ExpectedClaims<'_> {
    /// Checks `iss`, `aud`, `exp`, `nbf`, `iat`, `sub` and `jti`.
    ///
    /// # Errors
    /// [`JoseError`].
    pub fn check(&self, claims: JsonValue<'_>) -> Result<CheckedClaims, JoseError> {
        if needed(claims, "iss")? != self.issuer {
            return Err(JoseError::Issuer);
        }
        if !self.is_for_us(claims)? {
            return Err(JoseError::Audience);
        }
        let expires = date_ms(claims, "exp")?.ok_or(JoseError::Claim("exp"))?;
        self.check_times(claims, expires)?;
        let subject = needed(claims, "sub")?.into_owned();
        if subject.is_empty() {
            return Err(JoseError::Claim("sub"));
        }
        Ok(CheckedClaims {
            subject,
            id: string(claims, "jti")?.map(|id| id.into_owned()),
            issued_unix_ms: date_ms(claims, "iat")?,
            expires_unix_ms: expires,
        })
    }

    fn check_times(&self, claims: JsonValue<'_>, expires: u64) -> Result<(), JoseError> {
        let now = self.now_unix_ms;
        if expires.saturating_add(CLOCK_SKEW_MS) <= now {
            return Err(JoseError::Expired);
        }
        let not_before = date_ms(claims, "nbf")?;
        let issued = date_ms(claims, "iat")?;
        let latest = now.saturating_add(CLOCK_SKEW_MS);
        if [not_before, issued]
            .into_iter()
            .flatten()
            .any(|at| at > latest)
        {
            return Err(JoseError::NotYet);
        }
        let from = issued.unwrap_or(now);
        match expires.saturating_sub(from) > self.life_ms_max.saturating_add(CLOCK_SKEW_MS) {
            true => Err(JoseError::TooLong),
            false => Ok(()),
        }
    }

    /// `aud` is one text or a list (RFC 7519 §4.1.3).
    fn is_for_us(&self, claims: JsonValue<'_>) -> Result<bool, JoseError> {
        let wrong = JoseError::Claim("aud");
        let told = claims.get("aud").ok_or(wrong)?;
        let is_ours = |text: &str| self.audiences.contains(&text);
        if let Some(one) = told.as_str() {
            return Ok(is_ours(&one));
        }
        let mut found = false;
        for (number, item) in told.items().enumerate() {
            if number >= AUDIENCES_MAX {
                return Err(JoseError::TooLarge);
            }
            found |= is_ours(&item.as_str().ok_or(wrong)?);
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jose::strict_object;

    const NOW: u64 = 1_700_000_000_000;

    fn check(text: &str) -> Result<CheckedClaims, JoseError> {
        let expected = ExpectedClaims {
            issuer: "https://as.example",
            audiences: &["https://gate.example", "https://gate.example/oauth/token"],
            life_ms_max: 600_000,
            now_unix_ms: NOW,
        };
        expected.check(strict_object(text.as_bytes())?.root())
    }

    fn claims(aud: &str, rest: &str) -> String {
        format!(r#"{{"iss":"https://as.example","sub":"build","aud":{aud}{rest}}}"#)
    }

    #[test]
    fn good_claims_are_taken_with_skew_both_ways() {
        let ours = r#""https://gate.example""#;
        for rest in [
            r#","exp":1700000001"#,
            r#","exp":1699999941"#,
            r#","exp":1700000600,"iat":1700000060,"nbf":1700000060"#,
            r#","exp":1700000599.5,"iat":1700000000"#,
        ] {
            assert!(check(&claims(ours, rest)).is_ok(), "{rest}");
        }
        let several = r#"["https://other.example","https://gate.example/oauth/token"]"#;
        let checked = check(&claims(several, r#","exp":1700000300,"jti":"a""#)).unwrap();
        assert_eq!(
            (checked.subject.as_str(), checked.id.as_deref()),
            ("build", Some("a"))
        );
        assert_eq!(checked.expires_unix_ms, 1_700_000_300_000);
    }

    #[test]
    fn each_claim_that_is_wrong_is_told_apart() {
        let ours = r#""https://gate.example""#;
        let good = r#","exp":1700000300"#;
        for (text, why) in [
            (claims(ours, ""), JoseError::Claim("exp")),
            (claims(ours, r#","exp":"1700000300""#), JoseError::Claim("exp")),
            (claims(ours, r#","exp":1699999940"#), JoseError::Expired),
            (claims(ours, r#","exp":1700000300,"nbf":1700000061"#), JoseError::NotYet),
            (claims(ours, r#","exp":1700000300,"iat":1700000061"#), JoseError::NotYet),
            (claims(ours, r#","exp":1700000661,"iat":1700000000"#), JoseError::TooLong),
            (claims(ours, r#","exp":1700086400"#), JoseError::TooLong),
            (claims(ours, r#","exp":1,"exp":1700000300"#), JoseError::Duplicate),
            (claims(r#""https://gate.example/""#, good), JoseError::Audience),
            (claims("[]", good), JoseError::Audience),
            (claims("[1]", good), JoseError::Claim("aud")),
            (claims("null", good), JoseError::Audience),
            (r#"{"iss":"https://evil.example","exp":1}"#.into(), JoseError::Issuer),
            (r#"{"iss":["https://as.example"]}"#.into(), JoseError::Claim("iss")),
            (
                r#"{"iss":"https://as.example","aud":"https://gate.example","sub":"","exp":1700000300}"#.into(),
                JoseError::Claim("sub"),
            ),
        ] {
            assert_eq!(check(&text), Err(why), "{text}");
        }
    }
}
