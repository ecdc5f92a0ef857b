//! What stands around a match and says that it is no secret.

use std::ops::{Range, RangeInclusive};

use crate::check;

/// Bytes before a value that may name it.
const NAME_BYTES_MAX: usize = 48;
/// Ends of names for what tells keys apart and opens nothing, without marks between their words.
const NAMES: [&[u8]; 5] = [
    b"gpgkey",
    b"pgpkey",
    b"keyid",
    b"fingerprint",
    b"thumbprint",
];
/// Lengths of fingerprints and of ids of keys, in hex: of OpenPGP (RFC 9580), SHA-1 and SHA-256.
const HEX_BYTES: [usize; 4] = [16, 32, 40, 64];

/// Whether a value is the fingerprint of a key, by its form and by the name before it.
pub(crate) fn fingerprint(before: &[u8], value: &[u8]) -> bool {
    if !HEX_BYTES.contains(&value.len()) || !value.iter().all(u8::is_ascii_hexdigit) {
        return false;
    }
    let before = &before[before.len().saturating_sub(NAME_BYTES_MAX)..];
    let given = |byte: &u8| !b"\"'\\`:=> ".contains(byte);
    let end = before.iter().rposition(given).map_or(0, |at| at + 1);
    let inside = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-. ".contains(byte);
    let start = before[..end].iter().rposition(|byte| !inside(byte));
    let name = before[start.map_or(0, |at| at + 1)..end].iter();
    let name = name.filter(|byte| byte.is_ascii_alphanumeric());
    let name: Vec<u8> = name.map(u8::to_ascii_lowercase).collect();
    // That of a key of Google's tells which key was lost, and has a rule of its own.
    NAMES.iter().any(|end| name.ends_with(end)) && !name.ends_with(b"privatekeyid")
}

/// Ends of names, without marks between their words, for what has a key and is none: the place of an entry in a store, a
/// cache, an index, a registry.
const INDEXES: [&[u8]; 22] = [
    b"storagekey",
    b"cachekey",
    b"partitionkey",
    b"primarykey",
    b"foreignkey",
    b"sortkey",
    b"rangekey",
    b"flagkey",
    b"settingskey",
    b"settingkey",
    b"preferencekey",
    b"translationkey",
    b"messagekey",
    b"i18nkey",
    b"queuekey",
    b"routingkey",
    b"idempotencykey",
    b"configkey",
    b"lookupkey",
    b"hotkey",
    b"shortcutkey",
    b"sitekey",
];
/// Letters of a word of an identifier, on average.
const WORD_LETTERS_MIN: usize = 4;
/// Digits of an identifier.
const IDENTIFIER_DIGITS_MAX: usize = 4;

/// Whether a value is an identifier, under the name of a key that opens nothing: `STORAGE_KEY = 'userPreferencesV2'`.
pub(crate) fn index(before: &[u8], value: &[u8]) -> bool {
    let before = &before[before.len().saturating_sub(NAME_BYTES_MAX)..];
    let given = |byte: &u8| !b"\"'\\`:=> |".contains(byte);
    let end = before.iter().rposition(given).map_or(0, |at| at + 1);
    let inside = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-.".contains(byte);
    let start = before[..end].iter().rposition(|byte| !inside(byte));
    let name = before[start.map_or(0, |at| at + 1)..end].iter();
    let name = name.filter(|byte| byte.is_ascii_alphanumeric());
    let name: Vec<u8> = name.map(u8::to_ascii_lowercase).collect();
    INDEXES.iter().any(|end| name.ends_with(end)) && is_identifier(value)
}

/// Whether a text is words in the manner of code: `orderLineItem2`, `theme_mode`, `Ctrl+Shift+F12`.
fn is_identifier(text: &[u8]) -> bool {
    let digits = text.iter().filter(|byte| byte.is_ascii_digit()).count();
    let letters = text
        .iter()
        .filter(|byte| byte.is_ascii_alphabetic())
        .count();
    let marks = text
        .iter()
        .all(|byte| byte.is_ascii_alphanumeric() || b"_-.:/+".contains(byte));
    // A word begins where a small letter or a mark comes before a capital, and behind a mark or a digit.
    let begins = |pair: &[u8]| {
        pair[1].is_ascii_alphabetic()
            && (!pair[0].is_ascii_alphabetic()
                || pair[0].is_ascii_lowercase() && pair[1].is_ascii_uppercase())
    };
    let words = 1 + text.windows(2).filter(|pair| begins(pair)).count();
    marks && digits <= IDENTIFIER_DIGITS_MAX && letters >= words * WORD_LETTERS_MIN
}

/// Digits of a long number of a table, and how many others stand beside it at least.
const LONG_DIGITS_MIN: usize = 12;
const BESIDE_MIN: usize = 3;
/// Bytes around it that are looked at.
const TABLE_BYTES_MAX: usize = 160;

/// Whether a number stands in a list of long ones of which few have a card's sum: the constants of a program.
pub(crate) fn table(text: &[u8], span: &Range<usize>) -> bool {
    let number = |text: &[u8]| text.len() >= LONG_DIGITS_MIN && text.iter().all(u8::is_ascii_digit);
    if !number(&text[span.clone()]) {
        return false;
    }
    let after = &text[span.end..text.len().min(span.end + TABLE_BYTES_MAX)];
    let before = &text[span.start.saturating_sub(TABLE_BYTES_MAX)..span.start];
    let comma = |byte: &u8| *byte == b',';
    let mut after = after.split(comma).map(<[u8]>::trim_ascii);
    let mut before = before.rsplit(comma).map(<[u8]>::trim_ascii);
    // The list may begin or end here.
    let (next, last) = (after.next().unwrap_or(b""), before.next().unwrap_or(b""));
    let ends = |edge: Option<&u8>| edge.is_none_or(|byte| b"()[]{}".contains(byte));
    if !ends(next.first()) || !ends(last.last()) {
        return false;
    }
    let beside = |part: &&[u8]| number(part);
    let after = after.take_while(beside).filter(|_| next.is_empty());
    let before = before.take_while(beside).filter(|_| last.is_empty());
    let beside: Vec<&[u8]> = after.chain(before).collect();
    let cards = beside.iter().filter(|number| check::luhn(number)).count();
    beside.len() >= BESIDE_MIN && cards * 3 <= beside.len()
}

/// Digits of an id that Discord gives: the milliseconds since 2015, and 22 bits.
const SNOWFLAKE: RangeInclusive<usize> = 17..=20;

/// Where a token of a bot of Discord ends: the id of the bot, which was decoded, and two more parts behind dots.
pub(crate) fn bot_token(id: &[u8], after: &[u8]) -> Option<usize> {
    if !SNOWFLAKE.contains(&id.len()) || !id.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let part = |text: &[u8], length: RangeInclusive<usize>| {
        let text = text.strip_prefix(b".")?;
        let inside = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-".contains(byte);
        let end = text.iter().position(|byte| !inside(byte));
        let end = end.unwrap_or(text.len());
        length.contains(&end).then_some(end + 1)
    };
    let time = part(after, 5..=7)?;
    Some(time + part(&after[time..], 27..=40)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fingerprint_is_told_by_its_name() {
        let hex = b"A0B1C2D3E4F5061728394A5B6C7D8E9F00112233";
        for name in [
            "GPG_KEY=",
            "RELEASE_GPG_KEY: '",
            "\"fingerprint\": \"",
            "key id = ",
            "--pgp-key ",
            "signingKeyId: ",
        ] {
            assert!(fingerprint(name.as_bytes(), hex), "{name}");
        }
        for name in ["API_KEY=", "gpg_key_secret=", "token: ", ""] {
            assert!(!fingerprint(name.as_bytes(), hex), "{name}");
        }
        assert!(!fingerprint(b"GPG_KEY=", b"A0B1C2D3E4F5"));
        assert!(!fingerprint(b"GPG_KEY=", &[b'x'; 40]));
    }

    #[test]
    fn a_key_of_a_store_is_an_identifier() {
        for (name, value) in [
            ("STORAGE_KEY = '", "userPreferencesV2"),
            ("CACHE_KEY: ", "userProfileV2Settings"),
            ("FEATURE_FLAG_KEY=", "newCheckoutFlow2025"),
            ("\"partitionKey\": \"", "tenantAccount1"),
        ] {
            assert!(index(name.as_bytes(), value.as_bytes()), "{name}{value}");
        }
        for (name, value) in [
            ("API_KEY=", "customerApiKeyId1"),
            ("STORAGE_KEY=", "xT4blHh76OAVWuEk5WAbrBJQ"),
            ("CACHE_KEY=", "aB3xK9mQ2pL7"),
            ("azureStorageAccessKey=", "userPreferencesV2"),
        ] {
            assert!(!index(name.as_bytes(), value.as_bytes()), "{name}{value}");
        }
    }

    #[test]
    fn constants_of_a_program_are_no_cards() {
        let told = |text: &str, number: &str| {
            let at = text.find(number).unwrap();
            table(text.as_bytes(), &(at..at + number.len()))
        };
        let card = "4111111111111111";
        let rows =
            format!("[1, 1726008037083792, 885832711204322,\n  {card}, 1180591620717412, 7]");
        assert!(told(&rows, card));
        let cards = format!("[{card}, 5555555555554444, 4012888888881881, 5105105105105100]");
        assert!(!told(&cards, card));
        assert!(!told(&format!("id 1726008037083792, {card}, 12/28"), card));
        assert!(!told(card, card));
        let first =
            format!("new(\n  {card},\n 1726008037083792, 885832711204322, 1180591620717412,\n)");
        assert!(told(&first, card));
    }

    #[test]
    fn a_bot_is_told_by_its_id() {
        let rest = b".Xa1b2C.Zp3kQ9xWm7Rt1VbN5yHs8PdL2cFg, and so on";
        assert_eq!(bot_token(b"731029384756102938", rest), Some(7 + 29));
        assert_eq!(bot_token(b"7310293847", rest), None);
        assert_eq!(bot_token(b"a text of no number", rest), None);
        assert_eq!(bot_token(b"731029384756102938", b".abc.def"), None);
    }
}
