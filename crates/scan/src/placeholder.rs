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
const PRINTED: [&[u8]; 10] = [
    // The token that jwt.io shows.
    b".eyJzdWIiOiIxMjM0NTY3ODkwI",
    // The tokens of RFC 7519 and of a library, the latter of `{"some":"payload"}`.
    b".eyJpc3MiOiJqb2UiLA0K",
    b".eyJzb21lIjoicGF5bG9hZCJ9",
    // The secret keys of the documentation of AWS and of its signatures.
    b"wJalrXUtnFEMI/K7MDENG",
    b"AKIDEXAMPLE",
    b"0102030405060708",
    // The test keys of the documentation of Stripe, and the wallet keys of the Bitcoin wiki and of its examples.
    b"4eC39HqLyjWDarjtT1zdp7dc",
    b"BQokikJOvBiI2HlWgH4olfQ2",
    b"5HueCGU8rMjxEXxiPuD5BDku4MkFqeZyd4dZ1jvhTVqvbTLvyTJ",
    b"5Kb8kLf9zgWQnogidDA76MzPL6TsZZY36hWXMssSzNydYXYB9KF",
];
/// Cards that payment services print for tests, and account numbers of the IBAN registry and of Wikipedia.
const SAMPLES: [&str; 26] = [
    "2223003122003222",
    "30569309025904",
    "3530111333300000",
    "3566002020360505",
    "371449635398431",
    "378282246310005",
    "38520000023237",
    "4000056655665556",
    "4012888888881881",
    "4111111111111111",
    "4242424242424242",
    "5105105105105100",
    "5200828282828210",
    "5555555555554444",
    "6011000990139424",
    "6011111111111117",
    "AT611904300234573201",
    "BE68539007547034",
    "CH9300762011623852957",
    "DE89370400440532013000",
    "ES9121000418450200051332",
    "FR1420041010050500013M02606",
    "GB29NWBK60161331926819",
    "GB82WEST12345698765432",
    "IT60X0542811101000000123456",
    "NL91ABNA0417164300",
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

/// Whether a number of a card or an account is one that documentation prints.
pub(crate) fn sample(text: &[u8]) -> bool {
    let digits = text.iter().filter(|byte| byte.is_ascii_alphanumeric());
    let plain: Vec<u8> = digits.map(u8::to_ascii_uppercase).collect();
    let found = SAMPLES.binary_search_by(|sample| sample.as_bytes().cmp(&plain));
    found.is_ok()
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
        assert!(SAMPLES.is_sorted());
        assert!(sample(b"4242 4242-42424242") && sample(b"GB82 WEST 1234 5698 7654 32"));
        assert!(!sample(b"4242424242424241") && !sample(b""));
        assert!(standard(b"SplxlOBeZQQYbYS6WxSbIA"));
        assert!(standard(b"QWxhZGRpbjpvcGVuIHNlc2FtZQ=="));
        assert!(!standard(b"SplxlOBeZQQYbYS6WxSbIB"));
        assert!(!standard(b"SplxlOBeZQQYbYS6WxSbIAaZ3kQ9xWm7Rt"));
        assert!(!placeholder(b"ghp_9fKq2mZx7Lw4Bv8Rt3Yc6Hn1Jd5Sg0Pa2WeU"));
    }
}
