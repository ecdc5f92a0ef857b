//! Host names as resolvers read them, and lists of them.
//!
//! A host is folded into a buffer of its own: lower case, percent-encoding and compatibility forms
//! undone, ideographic dots made dots, invisible characters gone. Source: the WHATWG URL standard
//! (host parsing), UTS #46 (mapping; the part that decides where a request goes), UTS #39 (mixed
//! scripts), RFC 3492 (Punycode).

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::net::IpAddr;

use unicode_normalization::char::{decompose_compatible, is_combining_mark};

use crate::address;
use crate::fold::invisible;

/// Bytes of a host: a name has at most 253, an address fewer; what is longer resolves nowhere.
pub(super) const HOST_BYTES_MAX: usize = 255;
/// Characters of one label (RFC 1035).
const LABEL_CHARS_MAX: usize = 63;

/// A host as resolvers read it.
pub(super) struct Host<'w> {
    name: Name<'w>,
    /// What was undone to read it.
    pub(super) disguise: &'static str,
}

enum Name<'w> {
    /// As it is written.
    Same(&'w str),
    Read(Box<Buffer>),
}

struct Buffer {
    bytes: [u8; HOST_BYTES_MAX],
    length: usize,
}

/// Bytes of a host that make it another than it is written.
const UPPER: u8 = 1;
const FOLDED: u8 = 2;

/// What each byte does to a host.
const BYTES: [u8; 256] = {
    let mut bytes = [FOLDED; 256];
    let mut byte = 0;
    while byte < 128 {
        bytes[byte] = match byte as u8 {
            0..=b' ' | b'%' => FOLDED,
            b'A'..=b'Z' => UPPER,
            _ => 0,
        };
        byte += 1;
    }
    bytes
};

impl Host<'_> {
    /// Reads a host as it is written; `None` if it is longer than a host can be.
    pub(super) fn read(written: &str) -> Option<Host<'_>> {
        let bytes = written.as_bytes();
        let marks = bytes.iter().fold(0, |all, b| all | BYTES[usize::from(*b)]);
        let (name, disguise) = match marks {
            _ if marks & FOLDED != 0 || bytes.len() > HOST_BYTES_MAX => {
                let mut buffer = Buffer::new();
                let disguise = buffer.fold(written)?;
                (Name::Read(buffer), disguise)
            }
            UPPER => {
                let mut buffer = Buffer::new();
                buffer.length = bytes.len();
                buffer.bytes[..bytes.len()].copy_from_slice(bytes);
                buffer.bytes[..bytes.len()].make_ascii_lowercase();
                (Name::Read(buffer), "")
            }
            _ => (Name::Same(written), ""),
        };
        Some(Host { name, disguise })
    }

    /// The name, without dots at its end.
    pub(super) fn as_str(&self) -> &str {
        let name = match &self.name {
            Name::Same(written) => written,
            // Only whole characters were written.
            Name::Read(buffer) => str::from_utf8(&buffer.bytes[..buffer.length]).unwrap_or(""),
        };
        let dots = name.bytes().rev().take_while(|byte| *byte == b'.').count();
        &name[..name.len() - dots]
    }

    /// The name and the names above it, each by its hash and where it starts; the shortest first.
    pub(super) fn above(name: &str) -> Above<'_> {
        let mut above = Above {
            name,
            hashes: [(0, 0); ABOVE_MAX],
            count: 0,
            marks: 0,
        };
        let (mut hash, mut after) = (HASH_START, 0);
        for (at, byte) in name.bytes().enumerate().rev() {
            above.marks |= NAMES[usize::from(byte)];
            if byte == b'.' {
                above.push(hash, at + 1);
                above.marks |= NO_LABEL * u8::from(after == b'.' || at == 0);
            }
            (hash, after) = (hashed(hash, byte), byte);
        }
        above.push(hash, 0);
        above
    }
}

impl Buffer {
    fn new() -> Box<Buffer> {
        Box::new(Buffer {
            bytes: [0; HOST_BYTES_MAX],
            length: 0,
        })
    }

    /// Undoes percent-encoding, then Unicode's compatibility forms; says what was undone.
    fn fold(&mut self, written: &str) -> Option<&'static str> {
        let mut decoded = Vec::with_capacity(written.len().min(HOST_BYTES_MAX * 4));
        // A zone is written with a percent sign, and encodes nothing that matters here.
        let zone = written.starts_with('[');
        let depth = super::escape::unescape(written.as_bytes(), &mut decoded);
        let (text, disguise) = match str::from_utf8(&decoded) {
            Ok(text) if depth > 0 && !zone => (text, "percent"),
            _ => (written, ""),
        };
        for character in text.chars() {
            self.character(character)?;
        }
        let foreign = !text.is_ascii();
        Some(if foreign { "unicode" } else { disguise })
    }

    fn character(&mut self, character: char) -> Option<()> {
        if character.is_ascii() {
            let skipped = matches!(character, '\t' | '\r' | '\n');
            return if skipped {
                Some(())
            } else {
                self.push(character.to_ascii_lowercase())
            };
        }
        if invisible(character) {
            return Some(());
        }
        let mut fits = Some(());
        decompose_compatible(character, |part| match part {
            '\u{3002}' => fits = fits.and_then(|()| self.push('.')),
            _ if is_combining_mark(part) && !character.is_alphabetic() => {}
            _ => part
                .to_lowercase()
                .for_each(|part| fits = fits.and_then(|()| self.push(part))),
        });
        fits
    }

    fn push(&mut self, character: char) -> Option<()> {
        let end = self.length + character.len_utf8();
        character.encode_utf8(self.bytes.get_mut(self.length..end)?);
        self.length = end;
        Some(())
    }
}

/// Names above a name that lists are asked for: as many labels as a pattern can have, and the name
/// itself.
const ABOVE_MAX: usize = 9;
/// FNV-1a, 64 bits, from the last byte to the first, so that one pass hashes a name and all above
/// it.
const HASH_START: u64 = 0xcbf2_9ce4_8422_2325;

fn hashed(hash: u64, byte: u8) -> u64 {
    (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
}

fn hash(name: &str) -> u64 {
    name.bytes().rev().fold(HASH_START, hashed)
}

/// A name and those above it. See [`Host::above`].
pub(super) struct Above<'h> {
    name: &'h str,
    hashes: [(u64, usize); ABOVE_MAX],
    count: usize,
    marks: u8,
}

/// What is wrong with a name: a byte that no name has, or a label without any.
const NO_NAME: u8 = 1;
const NO_LABEL: u8 = 2;

/// The bytes that no name has.
const NAMES: [u8; 256] = {
    let mut names = [0; 256];
    let mut byte = 0;
    while byte < 128 {
        names[byte] = match byte as u8 {
            b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' | b'-' | b'.' | b'_' => 0,
            _ => NO_NAME,
        };
        byte += 1;
    }
    names
};

impl Above<'_> {
    /// Whether a host can be asked at all.
    pub(super) fn named(&self) -> bool {
        let inside = self.name.strip_prefix('[');
        let Some(inside) = inside.and_then(|name| name.strip_suffix(']')) else {
            return self.marks == 0 && !self.name.is_empty();
        };
        let address = |byte: u8| {
            byte.is_ascii_alphanumeric() || matches!(byte, b':' | b'.' | b'%' | b'-' | b'_')
        };
        !inside.is_empty() && inside.bytes().all(address)
    }

    /// The last place is kept for the name itself.
    fn push(&mut self, hash: u64, start: usize) {
        if self.count < ABOVE_MAX - 1 || start == 0 {
            self.hashes[self.count] = (hash, start);
            self.count += 1;
        }
    }
}

/// Hosts by name, by network, and by what is above them.
#[derive(Clone, Debug, Default)]
pub struct HostList {
    /// By the hash of the name.
    names: HashMap<u64, Named, BuildHasherDefault<Ready>>,
    networks: Vec<(IpAddr, u8)>,
}

/// One name of a list.
#[derive(Clone, Debug)]
struct Named {
    name: Box<str>,
    /// Whether the name itself is meant, and not only those below it.
    itself: bool,
}

impl HostList {
    /// Adds `example.com` (with all below it), `*.example.com` (all below it), `10.1.2.3`,
    /// `10.0.0.0/8` or `fd00::/8`.
    ///
    /// Errors: what is wrong with the pattern.
    pub fn add(&mut self, pattern: &str) -> Result<(), String> {
        let (address, length) = match pattern.split_once('/') {
            Some((address, length)) => (address, Some(length)),
            None => (pattern, None),
        };
        if let Some(address) = address::host_address(address) {
            let most = if address.is_ipv4() { 32 } else { 128 };
            let length = length.map_or(Ok(most), str::parse);
            let length = length.ok().filter(|length| *length <= most);
            let length = length.ok_or_else(|| format!("`{pattern}` is no network"))?;
            self.networks.push((address, length));
            return Ok(());
        }
        let below = pattern.strip_prefix("*.");
        let name = Host::read(below.unwrap_or(pattern)).filter(|name| usable(name.as_str()));
        let name =
            name.ok_or_else(|| format!("`{pattern}` is no host name, address or network"))?;
        let name = name.as_str();
        if name.split('.').count() >= ABOVE_MAX {
            return Err(format!("`{pattern}` has too many labels"));
        }
        let held = self.names.entry(hash(name)).or_insert_with(|| Named {
            name: name.into(),
            itself: false,
        });
        if *held.name != *name {
            return Err(format!("`{pattern}` cannot be told from `{}`", held.name));
        }
        held.itself |= below.is_none();
        Ok(())
    }

    /// Whether the list holds this host, or the address that it spells.
    pub(super) fn holds(&self, host: &Above<'_>, address: Option<IpAddr>) -> bool {
        if let Some(address) = address {
            let within = |(network, length): &(IpAddr, u8)| within(address, *network, *length);
            return self.networks.iter().any(within);
        }
        let held = |(hash, start): &(u64, usize)| {
            let named = self.names.get(hash);
            named.is_some_and(|named| {
                (*start > 0 || named.itself) && *named.name == host.name[*start..]
            })
        };
        !self.names.is_empty() && host.hashes[..host.count].iter().any(held)
    }
}

fn usable(name: &str) -> bool {
    let letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    !name.is_empty() && name.bytes().all(|byte| letter(byte) || !byte.is_ascii())
}

fn within(address: IpAddr, network: IpAddr, length: u8) -> bool {
    let (address, network, bits) = match (address, network) {
        (IpAddr::V4(a), IpAddr::V4(b)) => (u128::from(a.to_bits()), u128::from(b.to_bits()), 32),
        (IpAddr::V6(a), IpAddr::V6(b)) => (a.to_bits(), b.to_bits(), 128),
        _ => return false,
    };
    let differ = (address ^ network).checked_shr(bits - u32::from(length));
    differ.unwrap_or(0) == 0
}

/// Takes a key that is a hash for what it is. The keys are the operator's, so nobody else can make
/// them collide.
#[derive(Clone, Default)]
pub(crate) struct Ready(u64);

impl Hasher for Ready {
    fn write(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().fold(self.0, |hash, byte| hashed(hash, *byte));
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// Whether a label mixes scripts that look alike, or is of one that only looks like Latin.
pub(super) fn mixes(label: &str) -> bool {
    let mut scripts = 0u32;
    let mut lookalikes = true;
    let mut one = |character: char| {
        scripts |= script(character);
        lookalikes &= script(character) == 0 || looks_latin(character);
    };
    match label.strip_prefix("xn--") {
        Some(encoded) if !punycode(encoded.as_bytes(), &mut one) => return true,
        Some(_) => {}
        None => label.chars().for_each(&mut one),
    }
    scripts.count_ones() > 1 || (scripts & !LATIN != 0 && lookalikes)
}

const LATIN: u32 = 1;

/// The script of a letter, as a bit; 0 for those that nobody takes for Latin letters.
fn script(character: char) -> u32 {
    match character {
        'a'..='z' | '\u{c0}'..='\u{24f}' | '\u{1e00}'..='\u{1eff}' => LATIN,
        '\u{370}'..='\u{3ff}' | '\u{1f00}'..='\u{1fff}' => 2,
        '\u{400}'..='\u{52f}' | '\u{2de0}'..='\u{2dff}' | '\u{a640}'..='\u{a69f}' => 4,
        '\u{530}'..='\u{58f}' => 8,
        '\u{13a0}'..='\u{13ff}' | '\u{ab70}'..='\u{abbf}' => 16,
        '\u{250}'..='\u{2af}' | '\u{1d00}'..='\u{1d7f}' => 32,
        _ => 0,
    }
}

/// Small letters of other scripts that look like Latin ones (UTS #39, the common ones).
fn looks_latin(character: char) -> bool {
    matches!(
        character,
        'а' | 'с'
            | 'ԁ'
            | 'е'
            | 'һ'
            | 'і'
            | 'ӏ'
            | 'ј'
            | 'к'
            | 'м'
            | 'о'
            | 'р'
            | 'ԛ'
            | 'ѕ'
            | 'т'
            | 'в'
            | 'н'
            | 'ԝ'
            | 'х'
            | 'у'
            | 'ѵ'
            | 'г'
            | 'α'
            | 'ο'
            | 'ρ'
            | 'ν'
            | 'υ'
            | 'ι'
            | 'κ'
            | 'τ'
            | 'χ'
            | 'γ'
            | 'ω'
            | 'σ'
            | 'ո'
            | 'ս'
            | 'օ'
            | 'ց'
            | 'զ'
            | 'հ'
            | 'ɡ'
            | 'ɑ'
            | 'ɩ'
    )
}

/// Decodes what follows `xn--` (RFC 3492 section 6.2). False if it is no Punycode.
fn punycode(encoded: &[u8], character: &mut impl FnMut(char)) -> bool {
    if encoded.len() > LABEL_CHARS_MAX {
        return false;
    }
    let basic = encoded.iter().rposition(|byte| *byte == b'-').unwrap_or(0);
    encoded[..basic]
        .iter()
        .for_each(|byte| character(char::from(*byte)));
    let mut digits = encoded[basic..]
        .iter()
        .skip_while(|byte| **byte == b'-')
        .peekable();
    let (mut code, mut index, mut bias, mut count) = (128u32, 0u32, 72, basic as u32);
    while digits.peek().is_some() {
        let (before, mut weight, mut k) = (index, 1u32, 36);
        loop {
            let digit = match digits.next() {
                Some(byte @ b'a'..=b'z') => u32::from(byte - b'a'),
                Some(byte @ b'0'..=b'9') => u32::from(byte - b'0' + 26),
                _ => return false,
            };
            let threshold = k.clamp(bias + 1, bias + 26) - bias;
            let step = digit
                .checked_mul(weight)
                .and_then(|step| index.checked_add(step));
            let Some(step) = step else { return false };
            index = step;
            if digit < threshold {
                break;
            }
            let Some(next) = weight.checked_mul(36 - threshold) else {
                return false;
            };
            (weight, k) = (next, k + 36);
        }
        count += 1;
        bias = adapt(index - before, count, before == 0);
        let Some(decoded) = code.checked_add(index / count).and_then(char::from_u32) else {
            return false;
        };
        code = u32::from(decoded);
        index = index % count + 1;
        character(decoded);
    }
    true
}

fn adapt(delta: u32, count: u32, first: bool) -> u32 {
    let mut delta = if first { delta / 700 } else { delta / 2 };
    delta += delta / count;
    let mut k = 0;
    while delta > 455 {
        delta /= 35;
        k += 36;
    }
    k + 36 * delta / (delta + 38)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_has_one_spelling() {
        for (written, read) in [
            ("Example.COM", "example.com"),
            ("example.com.", "example.com"),
            ("ex%61mple.com", "example.com"),
            ("%65%78ample%2ecom", "example.com"),
            ("ｅｘａｍｐｌｅ。ｃｏｍ", "example.com"),
            ("①②⑦.⓪.0.1", "127.0.0.1"),
            ("１２７．０．０．１", "127.0.0.1"),
            ("loc\u{ad}al\u{200b}host", "localhost"),
            ("127.0\t.0.1", "127.0.0.1"),
            ("bücher.de", "bu\u{308}cher.de"),
            ("[fe80::1%25ETH0]", "[fe80::1%25eth0]"),
        ] {
            assert_eq!(Host::read(written).unwrap().as_str(), read, "{written}");
        }
        assert!(Host::read(&"a".repeat(256)).is_none());
        assert!(Host::read(&"ä".repeat(256)).is_none());
    }

    #[test]
    fn lists_hold_what_they_say() {
        let mut list = HostList::default();
        for pattern in [
            "example.com",
            "*.wild.org",
            "10.0.0.0/8",
            "1.2.3.4",
            "fd00::/8",
            "Bücher.de",
        ] {
            list.add(pattern).unwrap();
        }
        let holds = |host: &str| {
            let host = Host::read(host).unwrap();
            list.holds(
                &Host::above(host.as_str()),
                address::host_address(host.as_str()),
            )
        };
        for host in [
            "example.com",
            "a.b.example.com",
            "x.wild.org",
            "10.9.8.7",
            "1.2.3.4",
            "[fd12::1]",
            "0x0a000001",
        ] {
            assert!(holds(host), "{host}");
        }
        for host in [
            "ample.com",
            "xexample.com",
            "wild.org",
            "11.0.0.1",
            "1.2.3.5",
            "[fe80::1]",
            "com",
            "",
        ] {
            assert!(!holds(host), "{host}");
        }
        for pattern in [
            "",
            "*.",
            "a b",
            "10.0.0.0/33",
            "https://a.com",
            "10.0.0.0/x",
        ] {
            assert!(HostList::default().add(pattern).is_err(), "{pattern}");
        }
    }

    #[test]
    fn scripts_that_look_alike_do_not_mix() {
        // `аpple` with a Cyrillic first letter, and `аррӏе` with nothing else.
        for label in [
            "аpple",
            "аррӏе",
            "xn--pple-43d",
            "xn--80ak6aa92e",
            "goοgle",
            "xn--a-\u{7f}",
        ] {
            assert!(mixes(label), "{label}");
        }
        for label in [
            "apple",
            "bücher",
            "xn--bcher-kva",
            "россия",
            "xn--h1alffa9f",
            "例え",
            "東京tower",
            "ελλάδα",
            "x",
        ] {
            assert!(!mixes(label), "{label}");
        }
    }
}
