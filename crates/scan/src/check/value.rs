//! Whether the value beside a name such as `password` is a secret, or only stands for one.
//!
//! Templates, types, names of things and words of documentation are not secrets. What a value is used for
//! is not known here, so a plain word is never taken for a secret.

use std::sync::LazyLock;

use aho_corasick::AhoCorasick;

use crate::entropy::entropy;
use crate::url::scrambled;

/// Found anywhere in a value, each says that someone is to put the true value there.
const TEMPLATES: &[&str] = &[
    "your",
    "change",
    "placeholder",
    "xxxx",
    "****",
    "....",
    "replace",
    "redacted",
    "insert",
    "<",
    "${",
    "{{",
    "$(",
    "%s",
    "%(",
    "dummy",
    "todo",
    "process.env",
    "?.",
    "environ",
    "getenv",
    "secrets.",
    "vault:",
    "keychain",
    "none",
    "null",
    "undefined",
];
/// What begins a name of an algorithm rather than a password.
const ALGORITHMS: &[&str] = &[
    "sha", "md5", "utf", "base64", "base32", "oauth", "pbkdf2", "bcrypt", "scrypt", "argon2",
    "aes", "rsa", "x509", "ed25519", "hmac", "http", "pkcs", "es256", "hs256", "rs256", "scram",
];
/// Algorithms and curves inside the names of types and functions.
const CURVES: &[&str] = &["25519", "448", "sha256", "sha512", "sha1", "p256", "p384"];
/// Passwords of documentation.
const WORDS: &[&str] = &[
    "pass",
    "passwd",
    "password",
    "pwd",
    "pw",
    "secret",
    "user",
    "username",
    "admin",
    "root",
    "test",
    "guest",
    "postgres",
    "mysql",
    "mongo",
    "mongodb",
    "redis",
    "rabbitmq",
    "foo",
    "bar",
    "baz",
    "token",
    "pass123",
    "password1",
    "password123",
    "secret123",
    "p4ssw0rd",
    "p@ssw0rd",
    "passw0rd",
    "api_key",
    "apikey",
    "key",
    "x",
    "hunter2",
    "opensesame",
    "qwerty",
    "sekret",
    "s3cr3t",
    "s3cret",
    "secure",
    "login",
    "name",
    "git",
    "basic",
    "mypass",
    "mypassword",
    "mysecret",
    "mysecretpassword",
    "letmein",
    "default",
    "string",
    "docker",
    "example",
    "demo",
    "abc123",
];
/// Hosts of documentation.
const HOSTS: &[&str] = &[
    "localhost",
    "127.",
    "0.0.0.0",
    "[::1]",
    "host",
    "hostname",
    "server",
    "example.",
    "www.example.",
    "db.example",
    "proxy",
    "foo",
    "bar",
    "domain",
    "my",
    "your",
    "some",
    "test",
    "a.",
    "x.",
];

/// Signs that a password may have, and that no name or path has.
const STRONG: [bool; 256] = table(b"!@#$%^&*?+~");
/// Signs that divide names of things, and paths, into parts.
const DIVIDING: [bool; 256] = table(b"./:");
/// Signs of words, times and paths, which make nothing hard to guess.
const WEAK: [bool; 256] = table(b"._-/: ");

/// Of which bytes something holds: a look at a place, for texts that are long.
const fn table(bytes: &[u8]) -> [bool; 256] {
    let mut table = [false; 256];
    let mut at = 0;
    while at < bytes.len() {
        table[bytes[at] as usize] = true;
        at += 1;
    }
    table
}

fn any(text: &[u8], table: &[bool; 256]) -> bool {
    text.iter().any(|byte| table[usize::from(*byte)])
}

/// Letters, digits and signs without an order: a key, a token.
pub(super) fn random(text: &[u8]) -> bool {
    let digits = text.iter().filter(|byte| byte.is_ascii_digit()).count();
    let letters = text
        .iter()
        .filter(|byte| byte.is_ascii_alphabetic())
        .count();
    // A path or a name in parts is none, whatever its letters.
    let parts = any(text, &DIVIDING);
    let scrambled = digits == 0 && !parts && scrambled(text);
    let mixed = digits > 0 || (letters > 0 && text.len() >= 24) || scrambled;
    // Less than 80 bits in hex is the hash of something, cut short.
    let short = text.len() < 20 && text.iter().all(u8::is_ascii_hexdigit);
    letters > 0
        && mixed
        && !short
        && (scrambled || !wordy(text))
        && entropy(text) >= 2.9
        && !template(text)
        && !names_curve(text)
        && !jose_header(text)
        && !shouted(text)
}

/// Letters and digits, or small and capital letters: enough where the form is known.
pub(super) fn mixed(text: &[u8]) -> bool {
    let digit = text.iter().any(u8::is_ascii_digit);
    let lower = text.iter().any(u8::is_ascii_lowercase);
    let upper = text.iter().any(u8::is_ascii_uppercase);
    let mixed = digit && (lower || upper) || lower && upper && text.len() >= 20;
    mixed && entropy(text) >= 2.8 && !template(text)
}

/// A password that nobody writes into documentation.
pub(super) fn password(text: &[u8]) -> bool {
    let kinds = kinds(text);
    let strong = text.len() >= 8 && kinds >= 3 && entropy(text) >= 2.4;
    (strong && !wordy(text) && !template(text) && !known(text))
        || (text.len() >= 12 && random(text))
}

/// Any password but a template, a type, a plain word.
pub(super) fn weak_password(text: &[u8]) -> bool {
    // A character of HTML by its name is no part of a password; a pointer or a reference is none.
    let text = text_before_entity(text);
    let code = [&b"*const"[..], b"*mut", b"&mut", b"&str"];
    let digit = text.iter().any(u8::is_ascii_digit);
    let letter = text.iter().any(u8::is_ascii_alphabetic);
    let sign = text.iter().any(|byte| b"!@#$%^&*?+".contains(byte));
    letter
        && (digit || sign)
        && !code.iter().any(|start| text.starts_with(start))
        && !template(text)
        && !ALGORITHMS.iter().any(|name| starts(text, name))
}

/// A password in a URL that is more than a word of documentation.
pub(super) fn url_password(text: &[u8]) -> bool {
    let one = |kind: fn(&u8) -> bool| text.iter().all(kind);
    let word = text.len() < 6 && (one(u8::is_ascii_lowercase) || one(u8::is_ascii_digit));
    !word && !template(text) && !known(text) && !text.iter().all(|byte| *byte == text[0])
}

/// `user:password@host`, of which neither part only stands for one.
pub(super) fn login(text: &[u8]) -> bool {
    let Some(at) = text.iter().rposition(|byte| *byte == b'@') else {
        return false;
    };
    let (user_info, host) = (&text[..at], &text[at + 1..]);
    let colon = user_info.iter().position(|byte| *byte == b':');
    let password = &user_info[colon.map_or(0, |colon| colon + 1)..];
    let documented = HOSTS.iter().any(|known| starts(host, known))
        || memchr::memmem::find(&host.to_ascii_lowercase(), b".example.").is_some();
    let weak = known(password) || password.len() < 4 || !password.iter().any(u8::is_ascii_digit);
    // `username:password` stands for both, at any host.
    let user = &user_info[..colon.unwrap_or(0)];
    let named = [&b"username"[..], b"user", b"login"].contains(&user) && known(password);
    !(template(password) || documented && weak || named)
}

/// Whether a text is a name in code that holds the name of an algorithm.
fn names_curve(text: &[u8]) -> bool {
    let mut name = text.to_ascii_lowercase();
    let mut known = false;
    for curve in CURVES {
        while let Some(at) = memchr::memmem::find(&name, curve.as_bytes()) {
            name.splice(at..at + curve.len(), *b"_");
            known = true;
        }
    }
    let parts = name.split(|byte| !byte.is_ascii_alphanumeric());
    known && parts.into_iter().all(|part| part.len() <= 2 || wordy(part))
}

/// Whether a text is the header of a JSON Web Token alone, which is no secret.
fn jose_header(text: &[u8]) -> bool {
    text.starts_with(b"eyJ") && text.len() < 64 && !text.contains(&b'.')
}

/// Whether a text is a word in capitals with a digit in it.
fn shouted(text: &[u8]) -> bool {
    let digits = text.iter().filter(|byte| byte.is_ascii_digit()).count();
    digits <= 1
        && text.len() < 24
        && text
            .iter()
            .all(|b| b.is_ascii_uppercase() || b.is_ascii_digit())
}

/// What stands before a character of HTML that is spelled by its name.
fn text_before_entity(text: &[u8]) -> &[u8] {
    let entities = [&b"&quot"[..], b"&lt", b"&gt", b"&#", b"&amp"];
    let ends = entities
        .iter()
        .filter_map(|entity| memchr::memmem::find(text, entity));
    &text[..ends.min().unwrap_or(text.len())]
}

fn starts(text: &[u8], prefix: &str) -> bool {
    text.get(..prefix.len())
        .is_some_and(|start| start.eq_ignore_ascii_case(prefix.as_bytes()))
}

fn known(text: &[u8]) -> bool {
    WORDS
        .iter()
        .any(|word| text.eq_ignore_ascii_case(word.as_bytes()))
}

/// Whether a value stands for another that someone has to put there.
pub(super) fn template(text: &[u8]) -> bool {
    static ALL: LazyLock<AhoCorasick> = LazyLock::new(|| {
        let built = AhoCorasick::builder()
            .ascii_case_insensitive(true)
            .build(TEMPLATES);
        built.expect("a few words make a small automaton")
    });
    // A bracket after it makes it a call.
    text.last().is_some_and(|last| b"([{".contains(last))
        || text.first() == Some(&b'$') && text.get(1).is_some_and(u8::is_ascii_uppercase)
        || ALL.is_match(text)
        || flag(text)
}

/// Whether a value is `true` or `false`, once and then the next pair of a query, or again and again.
fn flag(text: &[u8]) -> bool {
    let ends = [&b"&"[..], b";", b",", b"%26", b"%2c", b"%7d", b"%3b"];
    let mut rest = text;
    let mut times = 0;
    while let Some(word) = ["true", "false"].iter().find(|word| starts(rest, word)) {
        rest = &rest[word.len()..];
        times += 1;
        if times == 1
            && ends
                .iter()
                .any(|end| rest.len() >= end.len() && rest[..end.len()].eq_ignore_ascii_case(end))
        {
            return true;
        }
    }
    times > 1 && rest.len() <= 2
}

/// How many of lower case, upper case, digits and signs there are.
fn kinds(text: &[u8]) -> usize {
    let is: [fn(&u8) -> bool; 4] = [
        u8::is_ascii_lowercase,
        u8::is_ascii_uppercase,
        u8::is_ascii_digit,
        |byte| !byte.is_ascii_alphanumeric() && !WEAK[usize::from(*byte)],
    ];
    is.iter().filter(|is| text.iter().any(is)).count()
}

/// Whether a text is words and small numbers: a path, a version, a name in code.
fn wordy(text: &[u8]) -> bool {
    let strong = any(text, &STRONG);
    let constant = text.iter().filter(|byte| **byte == b'_').count() >= 2
        && !text.iter().any(u8::is_ascii_lowercase);
    let mut parts = text.split(|byte| !byte.is_ascii_alphanumeric());
    let words = !strong
        && parts.all(|part| {
            let mut numbers = 0;
            humps(part).all(|hump| {
                numbers += usize::from(hump[0].is_ascii_digit());
                numbers <= 1 && small(hump, part)
            })
        });
    constant || words
}

/// A word of three letters or more, a number of three digits or fewer, or all of a part that short.
fn small(hump: &[u8], part: &[u8]) -> bool {
    match hump.first() {
        Some(first) if first.is_ascii_digit() => hump.len() <= 3,
        _ => hump.len() >= 3 || hump.len() == part.len() || part.len() <= 3,
    }
}

/// Splits `parseHttp2Header` into `parse`, `Http`, `2`, `Header`.
fn humps(part: &[u8]) -> impl Iterator<Item = &[u8]> {
    let kind = |byte: u8| (byte.is_ascii_digit(), byte.is_ascii_uppercase());
    part.chunk_by(move |a, b| {
        let (a, b) = (kind(*a), kind(*b));
        // A capital goes on to the small letters after it.
        a == b || (a == (false, true) && b == (false, false))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_told_from_a_name() {
        for key in [
            "trQnWEko9uesjoaSaGo2wOMd",
            "9f86d081884c7d659a2f",
            "a1B2-c3D4_e5F6",
            "rWkDJxqTbYvmHz",
            "GtvqLRfwXnoKcZhp",
            "w+QxTZ_kB_vHJw-RDmfs",
        ] {
            assert!(random(key.as_bytes()), "{key}");
        }
        for name in [
            "config.secretKey",
            "aes256gcm_key",
            "/run/secrets/token1",
            "my-api-key-v2",
            "YOUR_API_KEY_12ab",
            "parseHttp2Header",
            "aaaaaaaaaaaa1",
            "com.example.app",
            "${TOKEN_1a2b3c}",
            "xxxxxxxxxxxx",
            "passwordCredentials",
            "getJSONWebKeySetURL",
            "toStringByIdOrNil",
            "theQuickBrownFox",
            "config.dbPwdXyKvW",
            "true&token=true&id=1a2b3c",
            "True%2Cpassword=true1",
            "trueTRUEtrueTRUE",
        ] {
            assert!(!random(name.as_bytes()), "{name}");
        }
    }

    #[test]
    fn a_password_is_told_from_a_word() {
        for good in ["Summer2024", "Tr0ub4dor&3", "L3ggSGBBM8!AWvZVn"] {
            assert!(password(good.as_bytes()), "{good}");
        }
        for bad in [
            "changeme",
            "String",
            "getPassword",
            "Sha256Hash",
            "P@ssw0rd",
            "${DB_PASS1}",
            "config.pass1",
        ] {
            assert!(!password(bad.as_bytes()), "{bad}");
        }
        assert!(weak_password(b"hunter22"));
        assert!(weak_password(b"P@ssw0rd"));
        assert!(!weak_password(b"sha256"));
        assert!(!weak_password(b"required"));
    }

    #[test]
    fn a_login_of_documentation_is_left_alone() {
        assert!(login(b"app:password@db.internal"));
        assert!(login(b"user:hx7Qm@localhost"));
        assert!(!login(b"user:password@localhost"));
        assert!(!login(b"user:pass@example.com"));
        assert!(!login(b"abc:123@example.com"));
        assert!(!login(b"username:password@packages.corp.net"));
        assert!(!login(b"user:$PASS@db.internal"));
    }
}
