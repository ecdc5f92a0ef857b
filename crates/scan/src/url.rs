//! Whether a URL may be asked: where it goes, and what it carries besides.
//!
//! One pass finds the parts, then each part is held against its rules; nothing is resolved, fetched
//! or changed. The length is looked at before anything else, so that no URL costs more than it
//! should. Secrets in the parts are the engine's to find, and what a name resolves to is judged by
//! [`crate::internal`] after resolution.

mod escape;
mod host;
mod noise;
mod own;
mod parts;

#[cfg(test)]
mod tests;

use std::cell::Cell;
use std::net::IpAddr;
use std::ops::Range;

use base::limit::FINDINGS_MAX;

use crate::address;
use crate::budget::Allowance;
use crate::domain::registrable;
pub use host::HostList;
pub(crate) use host::Ready;
use host::{Above, Host};
pub(crate) use noise::scrambled;
use noise::{Noise, Place};
pub(crate) use own::OwnRules;
pub use parts::UrlParts;

/// Bytes of a URL that are read by default. Source: the longest that common browsers and proxies
/// agree on.
const LENGTH_MAX_DEFAULT: usize = 2048;
/// Labels of a host.
const LABELS_MAX: usize = 64;
/// Segments of a path, and parameters of a query.
const PARTS_MAX: usize = 256;
/// Encodings inside each other that nobody needs.
const ENCODING_DEPTH_MAX: usize = 3;
/// Bytes of a part that are worth a look at their noise.
const NOISE_BYTES_MIN: usize = 8;
/// Bytes below the registrable domain that can carry anything.
const BELOW_BYTES_MIN: usize = 12;
/// Bytes of a label that can be an encoded text.
const ENCODED_LABEL_BYTES_MIN: usize = 16;
/// Bytes of each of several labels of one length.
const CHUNK_BYTES_MIN: usize = 6;
/// Labels of one length that are chunks of one thing.
const CHUNKS_MIN: usize = 3;
/// Characters that look random after the prefix of a token in a host.
const TOKEN_CHARACTERS_MIN: usize = 7;
/// Bytes of a value that a well-known name of a random value excuses.
const NAMED_VALUE_BYTES_MAX: usize = 512;

/// What is random about a part before it is a finding.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Floor {
    /// Characters that nobody would have written.
    pub characters: usize,
    /// Bits of entropy a character among them.
    pub bits: f32,
}

/// The settings of all rules about URLs.
#[derive(Clone, Debug)]
pub struct UrlRules {
    /// Schemes that may be asked, in lower case.
    pub schemes: Vec<String>,
    /// Bytes of a URL.
    pub length_max: usize,
    /// The only hosts that may be asked; `None` for any.
    pub allowed: Option<HostList>,
    /// Hosts that may not be asked.
    pub blocked: HostList,
    /// Inside hosts and networks that may be asked all the same.
    pub internal_allowed: HostList,
    /// Hosts of providers whose paths hold random identifiers.
    pub opaque_paths: HostList,
    /// Hosts of providers whose names hold random identifiers.
    pub opaque_names: HostList,
    pub path: Floor,
    pub query: Floor,
    pub host: Floor,
    pub allowance: Allowance,
}

impl Default for UrlRules {
    fn default() -> UrlRules {
        UrlRules {
            schemes: ["https", "http", "wss", "ws"].map(String::from).to_vec(),
            length_max: LENGTH_MAX_DEFAULT,
            allowed: None,
            blocked: listed(include_str!("../patterns/hosts.txt")),
            internal_allowed: HostList::default(),
            opaque_paths: listed(include_str!("../patterns/hosts-paths.txt")),
            opaque_names: listed(include_str!("../patterns/hosts-names.txt")),
            path: Floor {
                characters: 18,
                bits: 3.2,
            },
            query: Floor {
                characters: 16,
                bits: 3.0,
            },
            host: Floor {
                characters: 14,
                bits: 2.8,
            },
            allowance: Allowance::default(),
        }
    }
}

/// One of our own lists: a pattern a line, and comments.
fn listed(text: &str) -> HostList {
    let mut list = HostList::default();
    let lines = text.lines().map(str::trim);
    for line in lines.filter(|line| !line.is_empty() && !line.starts_with('#')) {
        list.add(line).expect("our own lists hold patterns");
    }
    list
}

/// A rule that a URL breaks.
#[derive(Clone, Debug, PartialEq)]
pub struct UrlHit {
    /// The rule's id, as in `patterns/urls.toml`.
    pub rule: &'static str,
    /// Bytes of the URL.
    pub span: Range<usize>,
    /// What had to be undone to see it; empty for nothing.
    pub disguise: &'static str,
}

impl UrlRules {
    /// Judges one URL, and says where its parts are. A URL that is too long has no parts.
    pub fn judge(&self, url: &str, sink: &mut Vec<UrlHit>) -> UrlParts {
        self.judge_until(url, sink, || false)
    }

    /// Whether a host may be at an address that is not public: the operator named the address or its network, or
    /// the host. A host's name alone opens no address by which machines tell their secrets to whoever is on them.
    pub fn lets_inside(&self, host: &str, address: IpAddr) -> bool {
        let by_name = address::host_address(host).is_none() && !is_local_to_link(address);
        let above = Host::above(host.trim_end_matches('.'));
        self.internal_allowed.holds(&above, Some(address))
            || (by_name && self.internal_allowed.holds(&above, None))
    }

    /// As much of a URL that is too long as is read; nothing where its host is not all in that.
    pub(crate) fn start_of<'u>(&self, url: &'u str) -> Option<&'u str> {
        let authority = UrlParts::find(url.as_bytes()).path.start;
        let start = &url[..url.floor_char_boundary(self.length_max)];
        (authority <= start.len()).then_some(start)
    }

    /// The same; where a list blocks the host and `refused` says that this is the end, nothing else is
    /// looked at.
    pub(crate) fn judge_until(
        &self,
        url: &str,
        sink: &mut Vec<UrlHit>,
        refused: impl FnOnce() -> bool,
    ) -> UrlParts {
        let most = sink.len() + FINDINGS_MAX;
        let mut judge = Judge {
            rules: self,
            url,
            sink,
            most,
        };
        if url.len() > self.length_max {
            judge.hit("url_length", 0..url.len(), "");
            return UrlParts::default();
        }
        let mut parts = UrlParts::find(url.as_bytes());
        let scheme = &url[parts.scheme.clone()];
        let known = |known: &String| known.eq_ignore_ascii_case(scheme);
        let known = self.schemes.iter().any(known);
        // A scheme that is not of the web has other parts.
        let read = known || scheme.is_empty();
        let host = Host::read(&url[parts.host.clone()]);
        let host = host.as_ref().filter(|_| read).and_then(Asked::of);
        parts.address = host.as_ref().and_then(|host| host.address);
        let blocked = |host: &Asked<'_>| self.blocked.holds(&host.above, host.address);
        let blocked = host.as_ref().filter(|host| blocked(host));
        if let Some(host) = blocked
            && refused()
        {
            judge.hit("url_blocked", parts.host.clone(), host.disguise);
            return parts;
        }
        let blocked = blocked.is_some();
        let marks = marks(url.as_bytes());
        if marks & CONTROL != 0 {
            judge.control();
        }
        if !known {
            judge.hit("url_scheme", parts.scheme.clone(), "");
        }
        if read {
            judge.userinfo(&parts);
            judge.port(&parts);
            let opaque = match host {
                Some(host) => judge.host(&mut parts, &host, blocked),
                None => judge.no_host(&parts),
            };
            judge.tail(&mut parts, marks, opaque);
        }
        parts
    }
}

/// Whether an address is good on its own link only, such as that of a cloud's metadata (RFC 3927, RFC 4291 section 2.5.6),
/// or is no host's at all.
fn is_local_to_link(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_link_local() || v4.is_unspecified() || v4.is_multicast(),
        IpAddr::V6(v6) => v6.is_unicast_link_local() || v6.is_unspecified() || v6.is_multicast(),
    }
}

/// A host that can be asked.
struct Asked<'h> {
    /// As resolvers read it.
    name: &'h str,
    disguise: &'static str,
    /// The address that it spells, if it is one.
    address: Option<IpAddr>,
    above: Above<'h>,
}

impl Asked<'_> {
    fn of<'h>(host: &'h Host<'_>) -> Option<Asked<'h>> {
        let name = host.as_str();
        let above = Host::above(name);
        if !above.named() {
            return None;
        }
        let numbers = name.starts_with('[') || address::ends_in_number(name);
        Some(Asked {
            name,
            disguise: host.disguise,
            address: numbers.then(|| address::host_address(name)).flatten(),
            above,
        })
    }
}

const CONTROL: u8 = 1;
const PERCENT: u8 = 2;
const FOREIGN: u8 = 4;
const DOTS: u8 = 8;

/// Which of the marks above a URL has.
fn marks(url: &[u8]) -> u8 {
    let url = url.trim_ascii();
    // Without a branch or a table, so that many bytes are looked at in one step.
    let marked = |holds: bool, mark: u8| u8::from(holds) * mark;
    let marks = url.iter().fold(0, |all, byte| {
        let control = marked((*byte < b' ') | (*byte == 0x7f), CONTROL);
        all | control | marked(*byte == b'%', PERCENT) | marked(*byte >= 0x80, FOREIGN)
    });
    let two = url.iter().zip(url.iter().skip(1));
    two.fold(marks, |all, (a, b)| {
        all | marked((*a == b'.') & (*b == b'.'), DOTS)
    })
}

/// One URL before its rules.
struct Judge<'j> {
    rules: &'j UrlRules,
    url: &'j str,
    sink: &'j mut Vec<UrlHit>,
    /// Hits after which no more are kept.
    most: usize,
}

impl Judge<'_> {
    fn hit(&mut self, rule: &'static str, span: Range<usize>, disguise: &'static str) {
        if self.sink.len() < self.most {
            self.sink.push(UrlHit {
                rule,
                span,
                disguise,
            });
        }
    }

    fn control(&mut self) {
        let at = self.url.trim_ascii_start().len();
        let start = self.url.len() - at;
        let control = |byte: u8| byte < b' ' || byte == 0x7f;
        let found = self.url.bytes().skip(start).position(control);
        let at = found.map_or(start, |at| start + at);
        self.hit("url_control", at..at + 1, "");
    }

    /// RFC 9110 section 4.2.4: user information is not to be sent, and hides the host from readers.
    fn userinfo(&mut self, parts: &UrlParts) {
        if !parts.userinfo.is_empty() {
            self.hit("url_userinfo", parts.userinfo.clone(), "");
        }
        // Programs that follow RFC 3986 take what is before the backslash for the user.
        let path = &self.url[parts.path.clone()];
        if path.starts_with('\\') {
            let authority = path.split('/').next().unwrap_or(path);
            if authority.contains('@') {
                let span = parts.path.start..parts.path.start + authority.len();
                self.hit("url_userinfo", span, "backslash");
            }
        }
    }

    fn port(&mut self, parts: &UrlParts) {
        let port = &self.url[parts.port.clone()];
        if port.is_empty() {
            return;
        }
        let number = port.bytes().all(|byte| byte.is_ascii_digit());
        let number = number.then(|| port.parse::<u16>().ok()).flatten();
        if number.is_none_or(|number| BAD_PORTS.binary_search(&number).is_ok()) {
            self.hit("url_port", parts.port.clone(), "");
        }
    }

    /// A host that nothing can be asked of.
    fn no_host(&mut self, parts: &UrlParts) -> bool {
        self.hit("url_host", parts.host.clone(), "");
        false
    }

    /// Judges the host; says whether its paths are random by design.
    fn host(&mut self, parts: &mut UrlParts, host: &Asked<'_>, blocked: bool) -> bool {
        let span = parts.host.clone();
        let Asked { name, above, .. } = host;
        let rules = self.rules;
        if blocked {
            self.hit("url_blocked", span.clone(), host.disguise);
        }
        let allowed = rules.allowed.as_ref();
        if allowed.is_some_and(|allowed| !allowed.holds(above, host.address)) {
            self.hit("url_not_allowed", span.clone(), host.disguise);
        }
        if address::internal_host(name).is_some()
            && !rules.internal_allowed.holds(above, host.address)
        {
            let dotted = host.address.is_some_and(|address| match address {
                IpAddr::V4(address) => address.to_string() != *name,
                IpAddr::V6(_) => false,
            });
            let disguise = if dotted { "notation" } else { host.disguise };
            self.hit("url_internal", span.clone(), disguise);
        }
        if host.address.is_some() {
            return false;
        }
        if says_what_it_does(name) && !only_name(name) {
            self.hit("url_host_words", span.clone(), host.disguise);
        }
        let foreign = !name.is_ascii() || name.as_bytes().windows(4).any(|four| four == b"xn--");
        if foreign && name.split('.').take(LABELS_MAX).any(host::mixes) {
            self.hit("url_host_mixed", span.clone(), host.disguise);
        }
        if name.len() >= LABELS_MAX && name.split('.').nth(LABELS_MAX).is_some() {
            self.hit("url_parts", span, "");
            return false;
        }
        if !rules.opaque_names.holds(above, None) {
            self.below(parts, name, host.disguise);
        }
        rules.opaque_paths.holds(above, None)
    }

    /// Judges what is below the registrable domain: each of its labels can be a message to the
    /// domain's owner.
    fn below(&mut self, parts: &mut UrlParts, name: &str, disguise: &str) {
        // What is registered has two labels at least.
        let dot = |name: &str| name.bytes().rposition(|byte| byte == b'.').unwrap_or(0);
        if dot(&name[..dot(name)]) + 1 < BELOW_BYTES_MIN {
            return;
        }
        let text = if disguise.is_empty() {
            self.url[parts.host.clone()].trim_end_matches('.')
        } else {
            name
        };
        let length = name.len() - registrable(name).len();
        let Some(below) = text
            .get(..length)
            .filter(|below| below.len() >= BELOW_BYTES_MIN)
        else {
            return;
        };
        let labels = || below.split('.').filter(|label| !label.is_empty());
        let found = noise::noise(below.as_bytes(), Place::Host);
        let encoded = |label: &str| {
            let text = label.as_bytes();
            label.len() >= ENCODED_LABEL_BYTES_MIN
                && (noise::spelled_in_base(text) || noise::spelled_in_pairs(text))
        };
        if found.spelled.is_some() || labels().any(encoded) {
            self.hit("url_host_encoded", parts.host.clone(), "encoded");
        }
        if chunked(below) {
            self.hit("url_host_chunked", parts.host.clone(), "chunks");
        }
        let random = passes(&found, below.as_bytes(), self.rules.host);
        if random || labels().any(hexadecimal) {
            self.hit("url_entropy_host", parts.host.clone(), "");
            parts.random_bits += bits(&found, below.len());
        }
    }

    fn tail(&mut self, parts: &mut UrlParts, marks: u8, opaque: bool) {
        let scratch = SCRATCH.take();
        let mut tail = Tail {
            marks,
            scratch,
            random_bits: 0,
        };
        for (count, span) in parts.segments(self.url).enumerate() {
            if count >= PARTS_MAX {
                self.hit("url_parts", parts.path.clone(), "");
                break;
            }
            self.part(span, Where::Path { opaque }, &mut tail);
        }
        for (count, (name, value)) in parts.parameters(self.url).enumerate() {
            if count >= PARTS_MAX {
                self.hit("url_parts", parts.query.clone(), "");
                break;
            }
            let excused = value.len() > NOISE_BYTES_MIN
                && value.len() <= NAMED_VALUE_BYTES_MAX
                && random_by_name(&self.url[name.clone()]);
            self.part(name, Where::Query { excused: false }, &mut tail);
            self.part(value, Where::Query { excused }, &mut tail);
        }
        self.part(
            parts.fragment.clone(),
            Where::Query { excused: false },
            &mut tail,
        );
        parts.random_bits += tail.random_bits;
        SCRATCH.set(tail.scratch);
    }

    /// Judges one segment, name, value or fragment.
    fn part(&mut self, span: Range<usize>, place: Where, tail: &mut Tail) {
        let text = &self.url.as_bytes()[span.clone()];
        let path = matches!(place, Where::Path { .. });
        let mut depth = 0;
        let text = if tail.marks & PERCENT != 0 && text.contains(&b'%') {
            depth = escape::unescape(text, &mut tail.scratch);
            &tail.scratch[..]
        } else {
            text
        };
        let disguise = if depth > 0 { "percent" } else { "" };
        if depth >= ENCODING_DEPTH_MAX {
            self.hit("url_encoding_depth", span.clone(), disguise);
        }
        if depth > 0 && escape::splits(text, path) {
            self.hit("url_control", span.clone(), disguise);
        }
        let dots = depth > 0 || tail.marks & (DOTS | FOREIGN) != 0;
        if dots && escape::climbs(text, path) {
            self.hit("url_traversal", span.clone(), disguise);
        }
        let (rule, floor, excused) = match place {
            Where::Path { opaque } => ("url_entropy_path", self.rules.path, opaque),
            Where::Query { excused } => ("url_entropy_query", self.rules.query, excused),
        };
        // A few small letters are a word, whatever they spell.
        let word = |byte: &u8| byte.is_ascii_lowercase() || matches!(byte, b'-' | b'_' | b'.');
        if text.len() < NOISE_BYTES_MIN || text.len() < floor.characters && text.iter().all(word) {
            return;
        }
        let found = noise::noise(text, Place::Path);
        tail.random_bits = tail.random_bits.saturating_add(bits(&found, text.len()));
        if excused {
            return;
        }
        if found.spelled.is_some() {
            self.hit(rule, span, "hex");
        } else if passes(&found, text, floor) {
            self.hit(rule, span, disguise);
        }
    }
}

/// Where a part stands, and whether what is random is expected there.
enum Where {
    Path { opaque: bool },
    Query { excused: bool },
}

struct Tail {
    marks: u8,
    /// The part that was decoded last.
    scratch: Vec<u8>,
    random_bits: u32,
}

thread_local! {
    /// Kept from URL to URL, so that decoding allocates nothing. At most as long as the longest
    /// URL.
    static SCRATCH: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

fn passes(found: &Noise, text: &[u8], floor: Floor) -> bool {
    found.characters >= floor.characters && found.bits(text) >= floor.bits
}

/// Bits of entropy in what looks random: four a hexadecimal digit of a name, five a character of
/// noise.
fn bits(found: &Noise, length: usize) -> u32 {
    let loose = if found.characters >= NOISE_BYTES_MIN {
        found.characters
    } else {
        0
    };
    (found.named * 4 + loose * 5).min(length * 8) as u32
}

/// Whether a name has a word that a host has only if it does what it says, or wants to be taken for it.
fn says_what_it_does(name: &str) -> bool {
    let mut words = name
        .as_bytes()
        .split(|byte| matches!(byte, b'.' | b'-' | b'_'));
    words.any(is_deed)
}

/// Words that a host has only if it does what they say, or wants to be taken for it.
fn is_deed(word: &[u8]) -> bool {
    matches!(
        word,
        b"backdoor"
            | b"backdoors"
            | b"botnet"
            | b"c2"
            | b"c2server"
            | b"cnc"
            | b"coinminer"
            | b"credstealer"
            | b"cryptojack"
            | b"cryptojacking"
            | b"datastealer"
            | b"dnsexfil"
            | b"exfil"
            | b"exfiltrate"
            | b"exfiltrated"
            | b"exfiltration"
            | b"exfiltrator"
            | b"exfilserver"
            | b"infostealer"
            | b"keylog"
            | b"keylogger"
            | b"keylogs"
            | b"malicious"
            | b"malware"
            | b"phish"
            | b"phished"
            | b"phisher"
            | b"phishing"
            | b"phishkit"
            | b"ransomware"
            | b"reverseshell"
            | b"revshell"
            | b"rootkit"
            | b"spyware"
            | b"stealer"
            | b"tokengrabber"
            | b"tokenstealer"
            | b"webshell"
    )
}

/// Whether the word is a short registered name by itself, such as `c2.com`, and nothing else.
fn only_name(name: &str) -> bool {
    let short = |label: &str| matches!(label, "c2" | "cnc");
    let owner = registrable(name);
    let label = owner.split('.').next().unwrap_or(owner);
    let below = &name[..name.len() - owner.len()];
    short(label) && !says_what_it_does(below)
}

/// Whether a label is a long hexadecimal number.
fn hexadecimal(label: &str) -> bool {
    let bytes = label.as_bytes();
    bytes.len() >= ENCODED_LABEL_BYTES_MIN
        && bytes.iter().all(u8::is_ascii_hexdigit)
        && bytes.iter().any(u8::is_ascii_digit)
        && bytes.iter().any(u8::is_ascii_alphabetic)
}

/// Prefixes of tokens as hosts can write them. Sources: the rules in `patterns/`.
const TOKEN_PREFIXES: &[&str] = &[
    "akia",
    "asia",
    "aiza",
    "dop-v1-",
    "eyj",
    "ghp-",
    "gho-",
    "ghs-",
    "ghu-",
    "ghr-",
    "github-pat-",
    "glpat-",
    "gocspx-",
    "hf-",
    "npm-",
    "nrak-",
    "pk-live-",
    "pypi-",
    "rk-live-",
    "r8-",
    "sg-",
    "shpat-",
    "sk-",
    "sk-ant-",
    "sk-live-",
    "sk-proj-",
    "sk-test-",
    "sntrys-",
    "whsec-",
    "xai-",
    "xapp-",
    "xoxa-",
    "xoxb-",
    "xoxp-",
    "xoxs-",
    "ya29-",
];

/// Whether labels are pieces of one thing: several of one length that are no words, or a token that
/// goes on.
fn chunked(below: &str) -> bool {
    let labels = || {
        below
            .split('.')
            .filter(|label| !label.is_empty())
            .take(LABELS_MAX)
    };
    let noisy = |label: &str| noise::noise(label.as_bytes(), Place::Host).characters;
    let (mut length, mut count, mut strange) = (0, 0, 0);
    for label in labels() {
        if label.len() != length {
            (length, count, strange) = (label.len(), 0, 0);
        }
        count += 1;
        if length >= CHUNK_BYTES_MIN && noisy(label) * 2 >= length {
            strange += 1;
        }
        if count >= CHUNKS_MIN && strange * 2 >= count {
            return true;
        }
    }
    let token = |label: &str| {
        let starts = |prefix: &&&str| {
            let start = label.as_bytes().get(..prefix.len());
            let same = |(a, b): (&u8, &u8)| a.eq_ignore_ascii_case(b) || (*a == b'_' && *b == b'-');
            start.is_some_and(|start| start.iter().zip(prefix.as_bytes()).all(same))
        };
        TOKEN_PREFIXES
            .iter()
            .filter(starts)
            .map(|prefix| prefix.len())
            .max()
    };
    let mut start = 0;
    for label in below.split('.').take(LABELS_MAX) {
        if let Some(prefix) = token(label) {
            // No name of its own ends in a hyphen.
            let cut = label.len() == prefix && label.ends_with('-');
            let rest = below[start + prefix..].split('.').map(noisy).sum::<usize>();
            return cut || rest >= TOKEN_CHARACTERS_MIN;
        }
        start += label.len() + 1;
    }
    false
}

/// Names of parameters whose values are random by design: cursors of pages, signatures, click
/// identifiers.
///
/// Such a value is no finding; its bits count for the budget.
fn random_by_name(name: &str) -> bool {
    let mut lower = [0; 24];
    let Some(lower) = lower.get_mut(..name.len()) else {
        return false;
    };
    lower.copy_from_slice(name.as_bytes());
    lower.make_ascii_lowercase();
    matches!(
        &*lower,
        b"_ga"
            | b"_gl"
            | b"_hsenc"
            | b"after"
            | b"before"
            | b"code_challenge"
            | b"continuation"
            | b"continuationtoken"
            | b"continuation_token"
            | b"ctoken"
            | b"cursor"
            | b"dclid"
            | b"ei"
            | b"end_cursor"
            | b"endcursor"
            | b"etag"
            | b"fbclid"
            | b"gbraid"
            | b"gclid"
            | b"hm"
            | b"igsh"
            | b"igshid"
            | b"integrity"
            | b"key-pair-id"
            | b"li_fat_id"
            | b"list"
            | b"marker"
            | b"mc_eid"
            | b"msclkid"
            | b"next"
            | b"next_cursor"
            | b"next_page_token"
            | b"next_token"
            | b"nextpagetoken"
            | b"nexttoken"
            | b"nonce"
            | b"oauth_signature"
            | b"page_token"
            | b"pagetoken"
            | b"pagination_token"
            | b"paginationtoken"
            | b"policy"
            | b"scroll_id"
            | b"sca_esv"
            | b"searchafter"
            | b"search_after"
            | b"si"
            | b"sig"
            | b"signature"
            | b"start_cursor"
            | b"starting_after"
            | b"ending_before"
            | b"state"
            | b"sxsrf"
            | b"ttclid"
            | b"twclid"
            | b"usg"
            | b"ved"
            | b"wbraid"
            | b"x-amz-signature"
            | b"x-goog-signature"
            | b"yclid"
    )
}

/// Ports that browsers refuse (WHATWG Fetch, "bad port"), in order.
const BAD_PORTS: [u16; 83] = [
    0, 1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101,
    102, 103, 104, 109, 110, 111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427,
    465, 512, 513, 514, 515, 526, 530, 531, 532, 540, 548, 554, 556, 563, 587, 601, 636, 989, 990,
    993, 995, 1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061, 6000, 6566, 6665, 6666, 6667,
    6668, 6669, 6679, 6697, 10080,
];
