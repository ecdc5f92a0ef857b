//! Values that stand where a secret would: documentation is full of them.

/// Words that say that a value is none.
const WORDS: [&[u8]; 17] = [
    b"example",
    b"your_",
    b"your-",
    b"yourtoken",
    b"xxxx",
    b"placeholder",
    b"changeme",
    b"dummy",
    b"redacted",
    b"insert",
    b"fake",
    b"sample",
    b"somepass",
    b"foobar",
    b"notreal",
    b"<",
    b"...",
];
/// Values that standards print, for all to see, in either direction.
const STANDARD: [&[u8]; 16] = [
    // RFC 7617, RFC 6749 and RFC 6750.
    b"QWxhZGRpbjpvcGVuIHNlc2FtZQ",
    b"QWxhZGRpbjpvcGVuc2VzYW1l",
    b"czZCaGRSa3F0MzpnWDFmQmF0M2JW",
    b"SplxlOBeZQQYbYS6WxSbIA",
    b"2YotnFZFEjr1zCsicMWpAA",
    b"tGzv3JOkF0XG5Qx2TlKWIA",
    b"7Fjfp0ZBr1KtDRbnfVdmIw",
    b"gX1fBat3bV",
    b"mF_9.B5f-4.1JqM",
    // RFC 7009, RFC 7523, RFC 7636 and RFC 8628.
    b"45ghiukldjahdnhzdauz",
    b"n0esc3NRze7LTCu7iYzS6a5acc3f0ogp4",
    b"dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk",
    b"E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM",
    b"GmRhmhcxhwAzkoEqiMEg_DnyEysNkuNhszIySk9eS",
    // OpenID Connect Core 1.0.
    b"SlAV32hkKG",
    b"8xLOxBtZp8",
];
/// Values that documentation prints.
const PRINTED: [&[u8]; 6] = [
    // The token that jwt.io shows.
    b".eyJzdWIiOiIxMjM0NTY3ODkwI",
    // The tokens of RFC 7519 and of a library, the latter of `{"some":"payload"}`.
    b".eyJpc3MiOiJqb2UiLA0K",
    b".eyJzb21lIjoicGF5bG9hZCJ9",
    // The secret keys of the documentation of AWS and of its signatures.
    b"wJalrXUtnFEMI/K7MDENG",
    b"AKIDEXAMPLE",
    b"0102030405060708",
];
/// Characters in a row that nobody draws at random: one again and again, or in their order.
const ROW_MAX: usize = 6;

/// Whether a value says of itself that it is none.
pub(crate) fn placeholder(text: &[u8]) -> bool {
    let lower = text.to_ascii_lowercase();
    let says = |word: &&[u8]| memchr::memmem::find(&lower, word).is_some();
    let prints = |value: &&[u8]| memchr::memmem::find(text, value).is_some();
    if WORDS.iter().any(says) || PRINTED.iter().any(prints) || standard(text) {
        return true;
    }
    let longest = |step: u8| {
        let (mut longest, mut row) = (0, 0);
        for pair in lower.windows(2) {
            let on = pair[0].wrapping_add(step) == pair[1] && pair[0].is_ascii_alphanumeric();
            row = if on { row + 1 } else { 0 };
            longest = longest.max(row + 1);
        }
        longest
    };
    longest(0) >= ROW_MAX || longest(1) >= ROW_MAX
}

/// Whether a standard prints a value: it is nobody's, wherever it goes. More around it may be somebody's.
pub(crate) fn standard(text: &[u8]) -> bool {
    let padding = text.iter().rev().take_while(|byte| **byte == b'=').count();
    STANDARD.contains(&&text[..text.len() - padding])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_documentation_shows_is_none() {
        for text in [
            "AKIAIOSFODNN7EXAMPLE",
            "sk-your-key-goes-here",
            "ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
            "ghp_ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghij",
            "00000000-0000-0000-0000-000000000000",
            "<token>",
        ] {
            assert!(placeholder(text.as_bytes()), "{text}");
        }
        assert!(standard(b"SplxlOBeZQQYbYS6WxSbIA"));
        assert!(standard(b"QWxhZGRpbjpvcGVuIHNlc2FtZQ=="));
        assert!(!standard(b"SplxlOBeZQQYbYS6WxSbIB"));
        assert!(!standard(b"SplxlOBeZQQYbYS6WxSbIAaZ3kQ9xWm7Rt"));
        assert!(!placeholder(b"ghp_9fKq2mZx7Lw4Bv8Rt3Yc6Hn1Jd5Sg0Pa2WeU"));
    }
}
