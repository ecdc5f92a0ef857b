//! From the bytes of a head to what it says.
//!
//! The end of a head is found first, line by line, so that bytes which come one at a time are
//! looked at once each; then httparse reads the whole of it. What httparse lets pass and RFC 9112
//! does not is refused here: LF alone, more than one length, a coding beside a length, and targets,
//! hosts and versions that two readers could take in two ways.

use std::mem::MaybeUninit;
use std::sync::LazyLock;

use memchr::memchr;
use memchr::memmem::Finder;

use super::body::Framing;
use super::error::Fault;
use super::field::{FieldKind, FieldSpans, Span, elements};
use super::prepared::Asks;
use super::{CONNECTION_OPTIONS_MAX, ConnectionSettings, FIELDS_MAX, METHOD_BYTES_MAX};

/// The largest Content-Length: more would not fit the offset types of most systems.
const LENGTH_MAX: u64 = i64::MAX as u64;

/// The version of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    Http10,
    Http11,
}

/// The form of a request target (RFC 9112 §3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A path, and a query if there is one.
    Origin,
    /// A whole `http` or `https` URL.
    Absolute,
    /// Host and port; of CONNECT alone.
    Authority,
    /// `*`; of OPTIONS alone.
    Asterisk,
}

/// How far the search for the end of a head or of trailers is, relative to its first byte.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Scan {
    /// Bytes that were looked at; the end is not among them.
    seen: usize,
    has_line: bool,
}

impl Scan {
    /// The length of the section up to and with its empty line, if that is there. Every line has to
    /// end in CRLF.
    pub(super) fn end(&mut self, bytes: &[u8]) -> Result<Option<usize>, Fault> {
        let end = match bytes {
            [b'\r', b'\n', ..] => Some(2),
            // The empty line may have begun among the bytes that were looked at.
            _ => {
                let from = self.seen.saturating_sub(3);
                let found = END.find(&bytes[from..]);
                found.map(|at| from + at + 4)
            }
        };
        let fresh = &bytes[self.seen..end.unwrap_or(bytes.len())];
        if has_bare_lf(fresh, self.seen > 0 && bytes[self.seen - 1] == b'\r') {
            return Err(Fault::BareLf);
        }
        self.has_line = self.has_line || end.is_some() || memchr(b'\n', fresh).is_some();
        if end.is_none() {
            self.seen = bytes.len();
        }
        Ok(end)
    }

    /// Whether the first line is complete.
    pub(super) fn has_line(&self) -> bool {
        self.has_line
    }
}

/// Finds the end of the last line and the empty line after it.
static END: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\r\n\r\n"));

/// Whether there is an LF without a CR before it. `after_cr` says what stands before these bytes.
fn has_bare_lf(bytes: &[u8], after_cr: bool) -> bool {
    let first = bytes.first() == Some(&b'\n') && !after_cr;
    let pairs = bytes.iter().zip(bytes.iter().skip(1));
    // Without an early end, so that the compiler can look at many bytes at once.
    pairs.fold(first, |bad, (before, byte)| {
        bad | ((*byte == b'\n') & (*before != b'\r'))
    })
}

/// What both kinds of heads say, by places in the buffer.
#[derive(Debug)]
pub(super) struct Common {
    pub(super) version: Version,
    pub(super) fields: Vec<FieldSpans>,
    /// The one Content-Length.
    pub(super) length: Option<u64>,
    /// There is a Transfer-Encoding, and it is exactly chunked.
    pub(super) chunked: bool,
    /// The other side ends the connection after this message.
    pub(super) close: bool,
    /// Connection lists `upgrade`.
    pub(super) upgrade: bool,
    expect: bool,
    host: Option<Span>,
}

impl Common {
    fn new() -> Common {
        Common {
            version: Version::Http11,
            fields: Vec::new(),
            length: None,
            chunked: false,
            close: false,
            upgrade: false,
            expect: false,
            host: None,
        }
    }

    fn clear(&mut self) {
        let mut fields = std::mem::take(&mut self.fields);
        fields.clear();
        *self = Common {
            fields,
            ..Common::new()
        };
    }

    fn has_version(&mut self, minor: Option<u8>) -> Result<(), Fault> {
        self.version = match minor {
            Some(1) => Version::Http11,
            Some(0) => Version::Http10,
            _ => return Err(Fault::Version),
        };
        // RFC 9112 §9.3: an intermediary does not keep connections of HTTP/1.0.
        self.close = self.version == Version::Http10;
        Ok(())
    }

    /// Takes in the fields of a head that begins at `base` of the buffer.
    fn take(
        &mut self,
        head: &[u8],
        base: usize,
        fields: &[httparse::Header<'_>],
    ) -> Result<(), Fault> {
        let mut options = 0;
        for field in fields {
            let kind = FieldKind::of(field.name.as_bytes());
            let value = Span::of(field.value, head, base);
            match kind {
                FieldKind::Plain | FieldKind::Hop => {}
                FieldKind::Host if self.host.is_some() => return Err(Fault::HostTwice),
                FieldKind::Host => self.host = Some(value),
                FieldKind::Length if self.length.is_some() => return Err(Fault::LengthTwice),
                FieldKind::Length => self.length = Some(length(field.value)?),
                FieldKind::Coding if self.chunked => return Err(Fault::CodingTwice),
                FieldKind::Coding if !field.value.eq_ignore_ascii_case(b"chunked") => {
                    return Err(Fault::CodingUnknown);
                }
                FieldKind::Coding => self.chunked = true,
                FieldKind::Connection => options += self.options(field.value),
                FieldKind::Expect if !field.value.eq_ignore_ascii_case(b"100-continue") => {
                    return Err(Fault::Expectation);
                }
                FieldKind::Expect => self.expect = true,
            }
            self.fields.push(FieldSpans {
                name: Span::of(field.name.as_bytes(), head, base),
                value,
                kind,
            });
        }
        match (self.chunked, self.length) {
            (true, Some(_)) => return Err(Fault::LengthAndCoding),
            (true, None) if self.version == Version::Http10 => return Err(Fault::CodingOld),
            _ => {}
        }
        match options {
            0 => Ok(()),
            1..=CONNECTION_OPTIONS_MAX => {
                self.hide_listed(head, base);
                Ok(())
            }
            _ => Err(Fault::ConnectionOptions),
        }
    }

    /// Reads one Connection field; returns how many names of other fields it lists.
    fn options(&mut self, value: &[u8]) -> usize {
        let mut others = 0;
        for option in elements(value) {
            let is = |known: &[u8]| option.eq_ignore_ascii_case(known);
            match () {
                () if is(b"close") => self.close = true,
                () if is(b"keep-alive") => {}
                () if is(b"upgrade") => self.upgrade = true,
                () => others += 1,
            }
        }
        others
    }

    /// Marks the fields that Connection lists as those of this connection alone (RFC 9110 §7.6.1).
    /// What frames or routes the message stays what it is, whatever is listed.
    fn hide_listed(&mut self, head: &[u8], base: usize) {
        let bytes = |span: Span| span.back(base).in_(head);
        for listing in 0..self.fields.len() {
            let FieldSpans { value, kind, .. } = self.fields[listing];
            if kind != FieldKind::Connection {
                continue;
            }
            for option in elements(bytes(value)) {
                for field in &mut self.fields {
                    if field.kind == FieldKind::Plain
                        && bytes(field.name).eq_ignore_ascii_case(option)
                    {
                        field.kind = FieldKind::Hop;
                    }
                }
            }
        }
    }
}

/// What the head of a request says.
#[derive(Debug)]
pub(super) struct RequestHead {
    pub(super) common: Common,
    /// All of it.
    pub(super) whole: Span,
    pub(super) method: Span,
    pub(super) target: Span,
    pub(super) form: Form,
    /// Host and port: the target's if it has them, else Host's; empty if neither is there.
    pub(super) authority: Span,
    pub(super) framing: Framing,
    /// The client waits for 100 (Continue) before it sends the body.
    pub(super) expects: bool,
    pub(super) is_head: bool,
    pub(super) is_connect: bool,
    /// The client asks to switch to another protocol.
    pub(super) wants_upgrade: bool,
}

impl RequestHead {
    pub(super) fn new() -> RequestHead {
        RequestHead {
            common: Common::new(),
            whole: Span::default(),
            method: Span::default(),
            target: Span::default(),
            form: Form::Origin,
            authority: Span::default(),
            framing: Framing::None,
            expects: false,
            is_head: false,
            is_connect: false,
            wants_upgrade: false,
        }
    }

    /// Reads a whole head that begins at `base` of the buffer.
    pub(super) fn read(
        &mut self,
        head: &[u8],
        base: usize,
        settings: &ConnectionSettings,
    ) -> Result<(), Fault> {
        self.common.clear();
        let mut fields = [const { MaybeUninit::uninit() }; FIELDS_MAX];
        let mut request = httparse::Request::new(&mut []);
        let most = settings.fields_max.min(FIELDS_MAX);
        let read = request.parse_with_uninit_headers(head, &mut fields[..most]);
        complete(read, head.len())?;
        let (Some(method), Some(target)) = (request.method, request.path) else {
            return Err(Fault::NotHttp);
        };
        if method.len() > METHOD_BYTES_MAX {
            return Err(Fault::MethodTooLong);
        }
        if target.len() > settings.target_bytes_max {
            return Err(Fault::TargetTooLong);
        }
        self.common.has_version(request.version)?;
        self.common.take(head, base, request.headers)?;
        self.whole = Span::of(head, head, base);
        self.method = Span::of(method.as_bytes(), head, base);
        self.target = Span::of(target.as_bytes(), head, base);
        self.is_head = method == "HEAD";
        self.is_connect = method == "CONNECT";
        self.wants_upgrade = self.common.upgrade && self.names_protocol(head, base);
        self.route(method.as_bytes(), target.as_bytes(), head, base)?;
        self.frame()
    }

    fn names_protocol(&self, head: &[u8], base: usize) -> bool {
        let fields = self.common.fields.iter();
        let mut names = fields.map(|field| field.name.back(base).in_(head));
        names.any(|name| name.eq_ignore_ascii_case(b"upgrade"))
    }

    /// Forgets what stands in the buffer; what the answer depends on stays.
    pub(super) fn forget(&mut self) {
        (self.whole, self.method, self.target, self.authority) = Default::default();
        self.common.fields.clear();
    }

    /// Finds form and authority (RFC 9112 §3.2).
    fn route(
        &mut self,
        method: &[u8],
        target: &[u8],
        head: &[u8],
        base: usize,
    ) -> Result<(), Fault> {
        let host = match self.common.host {
            Some(host) => host,
            None if self.common.version == Version::Http10 => Span::default(),
            None => return Err(Fault::HostMissing),
        };
        let host_bytes = self.common.host.map_or(&[][..], |h| h.back(base).in_(head));
        if !host_bytes.is_empty() && !is_authority(host_bytes) {
            return Err(Fault::Host);
        }
        let (form, authority) = form(method, target).ok_or(Fault::Target)?;
        self.form = form;
        self.authority = match authority {
            Some(authority) => Span::of(authority, head, base),
            None => host,
        };
        Ok(())
    }

    /// Finds the framing of the body (RFC 9112 §6.3).
    fn frame(&mut self) -> Result<(), Fault> {
        self.framing = match (self.common.chunked, self.common.length) {
            (true, _) => Framing::Chunked,
            (false, Some(0) | None) => Framing::None,
            (false, Some(length)) => Framing::Length(length),
        };
        // RFC 9110 §10.1.1: ignored in HTTP/1.0 and where there is no body.
        self.expects = self.common.expect
            && self.common.version == Version::Http11
            && self.framing != Framing::None;
        Ok(())
    }
}

/// What the head of an answer says.
#[derive(Debug)]
pub(super) struct AnswerHead {
    pub(super) common: Common,
    pub(super) status: u16,
    pub(super) reason: Span,
    pub(super) framing: Framing,
    /// It ends HTTP on this connection, as the request asked.
    pub(super) is_switch: bool,
}

impl AnswerHead {
    pub(super) fn new() -> AnswerHead {
        AnswerHead {
            common: Common::new(),
            status: 0,
            reason: Span::default(),
            framing: Framing::None,
            is_switch: false,
        }
    }

    /// Forgets what stands in the buffer; what the rest of the exchange depends on stays.
    pub(super) fn forget(&mut self) {
        self.reason = Span::default();
        self.common.fields.clear();
    }

    /// Reads a whole head that begins at `base` of the buffer, and answers a request that asked so.
    pub(super) fn read(
        &mut self,
        head: &[u8],
        base: usize,
        asks: Asks,
        settings: &ConnectionSettings,
    ) -> Result<(), Fault> {
        self.common.clear();
        let mut fields = [const { MaybeUninit::uninit() }; FIELDS_MAX];
        let mut answer = httparse::Response::new(&mut []);
        let most = settings.fields_max.min(FIELDS_MAX);
        let config = httparse::ParserConfig::default();
        let read =
            config.parse_response_with_uninit_headers(&mut answer, head, &mut fields[..most]);
        complete(read, head.len())?;
        let Some(status @ 100..=999) = answer.code else {
            return Err(Fault::Status);
        };
        self.status = status;
        self.common.has_version(answer.version)?;
        self.common.take(head, base, answer.headers)?;
        // A reason that is not ASCII is read as an empty one, which stands nowhere.
        self.reason = match answer.reason.unwrap_or_default() {
            "" => Span::default(),
            reason => Span::of(reason.as_bytes(), head, base),
        };
        self.frame(asks)
    }

    /// Finds the framing of the body (RFC 9112 §6.3).
    fn frame(&mut self, asks: Asks) -> Result<(), Fault> {
        let (chunked, length) = (self.common.chunked, self.common.length);
        let is_new = self.common.version == Version::Http11;
        self.is_switch = match (self.status, asks) {
            (101, Asks::Upgrade) => self.common.upgrade && is_new,
            (200..=299, Asks::Tunnel) => true,
            _ => false,
        };
        self.framing = match self.status {
            101 if !self.is_switch => return Err(Fault::Switching),
            // RFC 9110 §9.3.6: what says otherwise is ignored.
            200..=299 if self.is_switch => Framing::None,
            // RFC 9110 §8.6: no length and no coding. A length of 0 does no harm, and servers send
            // it.
            100..=199 | 204 if chunked || length.is_some_and(|length| length > 0) => {
                return Err(Fault::BodyUnasked);
            }
            100..=199 | 204 | 304 => Framing::None,
            _ if asks == Asks::Head => Framing::None,
            _ if chunked => Framing::Chunked,
            _ => match length {
                Some(0) => Framing::None,
                Some(length) => Framing::Length(length),
                None => Framing::UntilClose,
            },
        };
        if self.framing == Framing::UntilClose {
            self.common.close = true;
        }
        Ok(())
    }
}

/// What httparse's answer about a whole head means.
fn complete(read: httparse::Result<usize>, length: usize) -> Result<(), Fault> {
    use httparse::Error;
    match read {
        Ok(httparse::Status::Complete(used)) if used == length => Ok(()),
        // The head ends at its first empty line for both of us; whoever sees another end sees
        // another message.
        Ok(_) => Err(Fault::NotHttp),
        Err(Error::HeaderName) => Err(Fault::FieldName),
        Err(Error::HeaderValue) => Err(Fault::FieldValue),
        Err(Error::TooManyHeaders) => Err(Fault::TooManyFields),
        Err(Error::Version) => Err(Fault::Version),
        Err(Error::NewLine | Error::Status | Error::Token) => Err(Fault::NotHttp),
    }
}

/// One decimal number, and nothing else: no sign, no list (RFC 9110 §8.6 allows to refuse one).
fn length(value: &[u8]) -> Result<u64, Fault> {
    if value.is_empty() || value.len() > 19 || !value.iter().all(u8::is_ascii_digit) {
        return Err(Fault::LengthInvalid);
    }
    let number = value.iter().try_fold(0u64, |number, digit| {
        number.checked_mul(10)?.checked_add(u64::from(digit - b'0'))
    });
    number
        .filter(|number| *number <= LENGTH_MAX)
        .ok_or(Fault::LengthInvalid)
}

/// The form of a target, and the authority in it; nothing if it is of no form that fits the method.
pub(super) fn form<'t>(method: &[u8], target: &'t [u8]) -> Option<(Form, Option<&'t [u8]>)> {
    // Visible ASCII without `#`: a fragment is not sent. All else is the origin's to understand.
    let bad = |byte: &u8| !(0x21..=0x7e).contains(byte) || *byte == b'#';
    if target.iter().any(bad) {
        return None;
    }
    if method == b"CONNECT" {
        let with_port = target.contains(&b':');
        return (with_port && is_authority(target)).then_some((Form::Authority, Some(target)));
    }
    match target {
        b"*" => (method == b"OPTIONS").then_some((Form::Asterisk, None)),
        [b'/', ..] => Some((Form::Origin, None)),
        _ => {
            let rest = after_scheme(target)?;
            let end = rest.iter().position(|byte| matches!(byte, b'/' | b'?'));
            let authority = &rest[..end.unwrap_or(rest.len())];
            is_authority(authority).then_some((Form::Absolute, Some(authority)))
        }
    }
}

fn after_scheme(target: &[u8]) -> Option<&[u8]> {
    for scheme in [&b"http://"[..], b"https://"] {
        if let Some((start, rest)) = target.split_at_checked(scheme.len())
            && start.eq_ignore_ascii_case(scheme)
        {
            return Some(rest);
        }
    }
    None
}

/// Whether this is `host [":" port]` (RFC 9110 §4.2) without a user name and without a comma, which
/// would make a list of it.
pub(crate) fn is_authority(bytes: &[u8]) -> bool {
    let (host_ok, rest) = match bytes {
        [b'[', inside @ ..] => {
            let Some(end) = memchr(b']', inside) else {
                return false;
            };
            let (address, rest) = (&inside[..end], &inside[end + 1..]);
            let ok = |byte: &u8| byte.is_ascii_hexdigit() || matches!(byte, b':' | b'.');
            (end > 1 && address.iter().all(ok), rest)
        }
        _ => {
            let end = memchr(b':', bytes).unwrap_or(bytes.len());
            let ok = |byte: &u8| HOST[usize::from(*byte)];
            (end > 0 && bytes[..end].iter().all(ok), &bytes[end..])
        }
    };
    let port_ok = match rest {
        [] => true,
        [b':', port @ ..] => port.len() <= 5 && port.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    host_ok && port_ok
}

/// The bytes of a host that is no literal address, but for the comma (RFC 3986 §3.2.2).
static HOST: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = matches!(byte as u8,
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'%' | b'!'
            | b'$' | b'&' | b'\'' | b'(' | b')' | b'*' | b'+' | b';' | b'=');
        byte += 1;
    }
    table
};

/// Reads a whole trailer section that begins at `base` of the buffer.
pub(super) fn trailers(
    section: &[u8],
    base: usize,
    fields_max: usize,
    places: &mut Vec<FieldSpans>,
) -> Result<(), Fault> {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let most = fields_max.min(FIELDS_MAX);
    match httparse::parse_headers(section, &mut fields[..most]) {
        Ok(httparse::Status::Complete((used, fields))) if used == section.len() => {
            for field in fields {
                let kind = FieldKind::of(field.name.as_bytes());
                if kind != FieldKind::Plain {
                    return Err(Fault::TrailerField);
                }
                places.push(FieldSpans {
                    name: Span::of(field.name.as_bytes(), section, base),
                    value: Span::of(field.value, section, base),
                    kind,
                });
            }
            Ok(())
        }
        Err(httparse::Error::TooManyHeaders) => Err(Fault::TrailerTooLarge),
        Err(httparse::Error::HeaderValue) => Err(Fault::FieldValue),
        _ => Err(Fault::FieldName),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the search means, in plain words: line by line, each ends in CRLF, the first empty one ends it.
    fn plainly(bytes: &[u8]) -> Result<Option<usize>, Fault> {
        let mut line = 0;
        for (at, byte) in bytes.iter().enumerate() {
            if *byte != b'\n' {
                continue;
            }
            if at == 0 || bytes[at - 1] != b'\r' {
                return Err(Fault::BareLf);
            }
            if at - 1 == line {
                return Ok(Some(at + 1));
            }
            line = at + 1;
        }
        Ok(None)
    }

    /// Every text of up to eight of these bytes, whole and cut in two at each place.
    #[test]
    fn the_end_of_a_head_is_where_its_lines_say_however_it_came() {
        for length in 0..=8 {
            for number in 0..3_usize.pow(length) {
                let mut left = number;
                let text: Vec<u8> = (0..length)
                    .map(|_| {
                        let byte = b"\r\na"[left % 3];
                        left /= 3;
                        byte
                    })
                    .collect();
                let meant = plainly(&text);
                assert_eq!(Scan::default().end(&text), meant, "{text:?}");
                for cut in 0..text.len() {
                    let mut scan = Scan::default();
                    let first = scan.end(&text[..cut]);
                    assert_eq!(first, plainly(&text[..cut]), "{text:?} to {cut}");
                    if first.is_ok() {
                        assert_eq!(scan.has_line(), text[..cut].contains(&b'\n'));
                    }
                    if first == Ok(None) {
                        assert_eq!(scan.end(&text), meant, "{text:?} cut at {cut}");
                    }
                }
            }
        }
    }
}
