//! Tokens of known makes that were turned: written backwards, or with their letters moved by thirteen.
//!
//! Only a word that would begin as such tokens do is turned back, so that a text costs one look at its long words.

use super::Sink;

/// Bytes of the shortest token: of AWS.
const WORD_BYTES_MIN: usize = 20;

/// What tokens that many hold begin with.
const STARTS: [&[u8]; 34] = [
    b"ghp_",
    b"gho_",
    b"ghu_",
    b"ghs_",
    b"ghr_",
    b"github_pat_",
    b"glpat-",
    b"sk-ant-",
    b"sk-proj-",
    b"sk-or-v1-",
    b"sk-",
    b"sk_live_",
    b"sk_test_",
    b"rk_live_",
    b"whsec_",
    b"AKIA",
    b"ASIA",
    b"xoxb-",
    b"xoxp-",
    b"xapp-",
    b"AIza",
    b"GOCSPX-",
    b"npm_",
    b"pypi-",
    b"hf_",
    b"gsk_",
    b"xai-",
    b"r8_",
    b"dop_v1_",
    b"shpat_",
    b"dckr_pat_",
    b"sbp_",
    b"lin_api_",
    b"eyJ",
];

/// What each of those begins with once it was turned, and what it then ends with.
const TURNED: [[bool; 256]; 2] = {
    let mut bytes = [[false; 256]; 2];
    let mut i = 0;
    while i < STARTS.len() {
        bytes[0][moved(STARTS[i][0]) as usize] = true;
        bytes[1][STARTS[i][0] as usize] = true;
        i += 1;
    }
    bytes
};

/// Whether any word of a run may be turned back: digits are in all tokens, and in few words.
pub(super) fn may_be_turned(run: &[u8]) -> bool {
    // Without a branch, so that many bytes are looked at in one step.
    run.iter()
        .fold(false, |any, byte| any | byte.is_ascii_digit())
}

/// Turns a word back.
pub(super) fn turn(word: &[u8], sink: Sink<'_>) {
    let (Some(first), Some(last)) = (word.first(), word.last()) else {
        return;
    };
    let may = [(0, first), (1, last)].map(|(way, byte)| TURNED[way][usize::from(*byte)]);
    if word.len() < WORD_BYTES_MIN || may == [false; 2] || !word.iter().any(u8::is_ascii_digit) {
        return;
    }
    let moves = |start: &&[u8]| start.iter().zip(word).all(|(a, b)| *a == moved(*b));
    let ends = |start: &&[u8]| start.iter().eq(word.iter().rev().take(start.len()));
    let is_moved = may[0] && STARTS.iter().any(moves);
    let is_backwards = may[1] && STARTS.iter().any(ends);
    // A token that stands as it is was not turned, nor is what was turned back.
    let plain = |start: &&[u8]| word.starts_with(start);
    if !is_moved && !is_backwards || STARTS.iter().any(plain) {
        return;
    }
    if is_moved {
        let out: Vec<u8> = word.iter().map(|byte| moved(*byte)).collect();
        sink(&out, "rot13");
    }
    if is_backwards {
        let out: Vec<u8> = word.iter().rev().copied().collect();
        sink(&out, "reversed");
    }
}

/// A letter moved by thirteen.
const fn moved(byte: u8) -> u8 {
    match byte {
        b'A'..=b'M' | b'a'..=b'm' => byte + 13,
        b'N'..=b'Z' | b'n'..=b'z' => byte - 13,
        _ => byte,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(text: &str) -> Vec<(String, &'static str)> {
        let mut all = Vec::new();
        for word in text.split([' ', ',']) {
            turn(word.as_bytes(), &mut |out: &[u8], name| {
                all.push((String::from_utf8_lossy(out).into_owned(), name));
            });
        }
        all
    }

    #[test]
    fn turned_tokens_are_turned_back() {
        let token = "glpat-aZ3kQ9xWm7Rt1VbN5yHs";
        let backwards: String = token.chars().rev().collect();
        let rot13: String = token.bytes().map(|byte| char::from(moved(byte))).collect();
        let one = |name| vec![(token.to_owned(), name)];
        assert_eq!(decoded(&format!("it is {backwards}, ok")), one("reversed"));
        assert_eq!(decoded(&format!("it is {rot13}, ok")), one("rot13"));
    }

    #[test]
    fn other_words_stay_as_they_are() {
        for text in [
            "glpat-aZ3kQ9xWm7Rt1VbN5yHs",
            "a-long-name-of-a-file-of-2026-in-a-folder",
            "aZ3kQ9xWm7Rt1VbN5yHs8PdL2cFgJ4uE6",
            "internationalization_of_ghosts",
        ] {
            assert!(decoded(text).is_empty(), "{text}");
        }
    }
}
