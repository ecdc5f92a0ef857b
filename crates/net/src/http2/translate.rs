//! Heads of HTTP/2 as heads of HTTP/1.1, and back: what the one can say and the other must not is refused here.
//!
//! `h2` refuses what is malformed by itself: names in upper case, fields of one connection, pseudo-fields that are missing, come twice
//! or late (RFC 9113 §8.2, §8.3). What is left is looked at here, as if it had not, and then by [`crate::h1`] once more, whose
//! rules hold for every request. A value with CR, LF or NUL cannot end its line, because nothing writes it.

use base::{Refusal, refusal};
use bytes::Bytes;
use http::header::{
    CONNECTION, CONTENT_LENGTH, COOKIE, HOST, HeaderMap, HeaderName, HeaderValue, TE,
    TRANSFER_ENCODING, UPGRADE,
};
use http::{Method, StatusCode, request, response};

use crate::h1::{AnswerView, Fields, Framing, RequestView};

/// A request of HTTP/2, as HTTP/1.1 writes it.
pub(super) struct TranslatedHead<'a> {
    head: &'a request::Parts,
    pub(super) target: &'a [u8],
    pub(super) authority: &'a [u8],
    pub(super) framing: Framing,
    /// All cookies in one field (RFC 9113 §8.2.3).
    cookie: Option<Vec<u8>>,
}

impl<'a> TranslatedHead<'a> {
    /// Reads a head; `has_ended` says that no body follows.
    ///
    /// # Errors
    /// What HTTP/1.1 must not say, and CONNECT.
    pub(super) fn new(
        head: &'a request::Parts,
        has_ended: bool,
    ) -> Result<TranslatedHead<'a>, Refusal> {
        if head.method == Method::CONNECT {
            let public = "HTTP/2 carries no CONNECT here; connect by HTTP/1.1.";
            return Err(Refusal::new(refusal::UNSUPPORTED, public));
        }
        if !matches!(head.uri.scheme_str(), None | Some("http" | "https")) {
            return Err(malformed("The :scheme is neither http nor https."));
        }
        for name in [&CONNECTION, &TRANSFER_ENCODING, &UPGRADE] {
            if head.headers.contains_key(name) {
                return Err(malformed("A field is for a connection of HTTP/1.1."));
            }
        }
        if ["keep-alive", "proxy-connection"]
            .iter()
            .any(|name| head.headers.contains_key(*name))
        {
            return Err(malformed("A field is for a connection of HTTP/1.1."));
        }
        let mut te = head.headers.get_all(TE).iter();
        if te.any(|value| !value.as_bytes().eq_ignore_ascii_case(b"trailers")) {
            return Err(malformed("The te field says something but trailers."));
        }
        for value in head.headers.values().map(HeaderValue::as_bytes) {
            if value.trim_ascii().len() != value.len() {
                return Err(malformed("A value begins or ends with a space."));
            }
        }
        let target = head.uri.path_and_query().map(|path| path.as_str());
        let target = target.ok_or_else(|| malformed("There is no :path."))?;
        Ok(TranslatedHead {
            head,
            target: target.as_bytes(),
            authority: authority(head)?,
            framing: framing(&head.headers, has_ended)?,
            cookie: cookie(&head.headers),
        })
    }

    pub(super) fn method(&self) -> &[u8] {
        self.head.method.as_str().as_bytes()
    }

    /// The fields but Host and those that frame the message.
    pub(super) fn fields(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let is_here = |name: &HeaderName| *name != COOKIE || self.cookie.is_none();
        let fields = self
            .head
            .headers
            .iter()
            .filter(move |(name, _)| is_here(name));
        let cookie = self.cookie.as_deref().map(|all| (&b"cookie"[..], all));
        pairs(fields).chain(cookie)
    }
}

/// The fields of a map.
pub(super) fn pairs<'a>(
    fields: impl Iterator<Item = (&'a HeaderName, &'a HeaderValue)>,
) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
    fields.map(|(name, value)| (name.as_str().as_bytes(), value.as_bytes()))
}

/// What `:authority` and Host say together (RFC 9113 §8.3.1).
fn authority(head: &request::Parts) -> Result<&[u8], Refusal> {
    let asked = head.uri.authority().map(|of| of.as_str().as_bytes());
    let mut hosts = head.headers.get_all(HOST).iter();
    let (host, twice) = (hosts.next(), hosts.next());
    if twice.is_some() {
        return Err(malformed("The request has more than one Host field."));
    }
    match (asked, host.map(HeaderValue::as_bytes)) {
        (Some(asked), Some(host)) if !asked.eq_ignore_ascii_case(host) => {
            Err(malformed("The :authority and the Host field differ."))
        }
        (Some(authority), _) | (None, Some(authority)) if !authority.is_empty() => Ok(authority),
        _ => Err(malformed(
            "There is neither an :authority nor a Host field.",
        )),
    }
}

/// How the body is framed: by its length, where that is said once and can be true.
fn framing(fields: &HeaderMap, has_ended: bool) -> Result<Framing, Refusal> {
    let length = length(fields)?;
    match (length, has_ended) {
        (Some(1..), true) => Err(malformed("The content-length is not that of the body.")),
        (_, true) => Ok(Framing::None),
        (Some(length), false) => Ok(Framing::Length(length)),
        (None, false) => Ok(Framing::Chunked),
    }
}

/// The Content-Length, if it is one decimal number.
fn length(fields: &HeaderMap) -> Result<Option<u64>, Refusal> {
    let mut lengths = fields.get_all(CONTENT_LENGTH).iter();
    let (one, twice) = (lengths.next(), lengths.next());
    let Some(one) = one else { return Ok(None) };
    let digits = one.as_bytes();
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    let number = std::str::from_utf8(digits).ok();
    let number = number.and_then(|digits| digits.parse::<u64>().ok());
    match number.filter(|number| is_number && *number <= i64::MAX as u64) {
        Some(length) if twice.is_none() => Ok(Some(length)),
        _ => Err(malformed("The content-length is not one decimal number.")),
    }
}

/// All cookies as one, where they came in several fields.
fn cookie(fields: &HeaderMap) -> Option<Vec<u8>> {
    let all: Vec<&[u8]> = fields
        .get_all(COOKIE)
        .iter()
        .map(HeaderValue::as_bytes)
        .collect();
    (all.len() > 1).then(|| all.join(&b"; "[..]))
}

pub(super) fn malformed(public: &'static str) -> Refusal {
    Refusal::new(refusal::HEAD_INVALID, public)
}

/// An answer of HTTP/1.1, as HTTP/2 says it; nothing where it cannot be said.
pub(super) fn answer(view: AnswerView<'_>) -> Option<http::Response<()>> {
    let mut answer = http::Response::new(());
    *answer.status_mut() = StatusCode::from_u16(view.status()).ok()?;
    *answer.headers_mut() = fields(view.fields())?;
    if let Some(length) = view.length() {
        answer.headers_mut().insert(CONTENT_LENGTH, length.into());
    }
    Some(answer)
}

/// A request of HTTP/1.1, as HTTP/2 says it; nothing where it cannot be said.
pub(super) fn request(view: RequestView<'_>, is_tls: bool) -> Option<http::Request<()>> {
    let mut asked = http::Request::new(());
    *asked.method_mut() = Method::from_bytes(view.method()).ok()?;
    let scheme = if is_tls { "https" } else { "http" };
    let uri = http::Uri::builder()
        .scheme(scheme)
        .authority(view.authority())
        .path_and_query(view.target());
    *asked.uri_mut() = uri.build().ok()?;
    *asked.version_mut() = http::Version::HTTP_2;
    let headers = asked.headers_mut();
    *headers = fields(view.fields())?;
    if let Framing::Length(length) = view.framing() {
        headers.insert(CONTENT_LENGTH, length.into());
    }
    // Trailers are carried, whether or not the application asked for them.
    headers.insert(TE, HeaderValue::from_static("trailers"));
    Some(asked)
}

/// The fields for whoever is at the end.
pub(super) fn fields(fields: Fields<'_>) -> Option<HeaderMap> {
    let mut map = HeaderMap::with_capacity(fields.len());
    for (name, value) in fields.passed_on() {
        let value = HeaderValue::from_bytes(value).ok()?;
        map.append(HeaderName::from_bytes(name).ok()?, value);
    }
    Some(map)
}

/// How the body of an answer of HTTP/2 is framed in HTTP/1.1.
pub(super) fn answer_framing(
    head: &response::Parts,
    has_ended: bool,
    is_head: bool,
) -> Result<Framing, Refusal> {
    match length(&head.headers)? {
        Some(length) if is_head || head.status == StatusCode::NOT_MODIFIED => {
            Ok(Framing::Length(length))
        }
        Some(1..) if has_ended => Err(malformed("The content-length is not that of the body.")),
        Some(length) if !has_ended => Ok(Framing::Length(length)),
        _ if has_ended => Ok(Framing::None),
        _ => Ok(Framing::Chunked),
    }
}

/// The fields of an answer of HTTP/2 whose fields are not for one connection.
pub(super) fn is_answer_good(fields: &HeaderMap) -> bool {
    let for_one = [&CONNECTION, &TRANSFER_ENCODING, &UPGRADE];
    !for_one.iter().any(|name| fields.contains_key(*name))
}

/// A copy of bytes that a stream sends.
pub(super) fn sent(bytes: &[u8]) -> Bytes {
    Bytes::copy_from_slice(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(uri: &str, fields: &[(&str, &str)]) -> request::Parts {
        let mut request = http::Request::builder().uri(uri);
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    #[test]
    fn what_two_readers_could_take_in_two_ways_is_refused() {
        let uri = "http://a.example/x";
        for (uri, fields, has_ended) in [
            (uri, &[("host", "b.example")][..], true),
            (uri, &[("host", "a.example"), ("host", "a.example")], true),
            ("/x", &[], true),
            ("/x", &[("host", "")], true),
            ("ftp://a.example/x", &[], true),
            (uri, &[("transfer-encoding", "chunked")], false),
            (uri, &[("connection", "close")], true),
            (uri, &[("keep-alive", "1")], true),
            (uri, &[("proxy-connection", "close")], true),
            (uri, &[("upgrade", "websocket")], true),
            (uri, &[("te", "gzip")], true),
            (uri, &[("te", "trailers, deflate")], true),
            (uri, &[("content-length", "1")], true),
            (uri, &[("content-length", "+1")], false),
            (uri, &[("content-length", "1, 1")], false),
            (uri, &[("content-length", "")], false),
            (uri, &[("content-length", "18446744073709551616")], false),
            (
                uri,
                &[("content-length", "1"), ("content-length", "1")],
                false,
            ),
            (uri, &[("x-a", " b")], true),
            (uri, &[("x-a", "b\t")], true),
        ] {
            let head = parts(uri, fields);
            let refused = TranslatedHead::new(&head, has_ended).err();
            let code = refused.map(|refusal| refusal.code.name);
            assert_eq!(code, Some("http.head_invalid"), "{uri} {fields:?}");
        }
        let mut head = parts("a.example:443", &[]);
        head.method = Method::CONNECT;
        let refused = TranslatedHead::new(&head, false).err().unwrap();
        assert_eq!(refused.code.status, 501);
    }

    #[test]
    fn a_head_says_the_same_in_other_words() {
        let fields = [
            ("cookie", "a=1"),
            ("x-b", "2"),
            ("cookie", "c=3"),
            ("te", "trailers"),
            ("host", "A.example:81"),
        ];
        let head = parts("http://a.example:81/p?q", &fields);
        let told = TranslatedHead::new(&head, false).unwrap();
        assert_eq!(
            (told.target, told.authority),
            (&b"/p?q"[..], &b"a.example:81"[..])
        );
        assert_eq!(
            (told.framing, told.method()),
            (Framing::Chunked, &b"GET"[..])
        );
        let all: Vec<_> = told.fields().collect();
        assert!(all.contains(&(b"cookie", b"a=1; c=3")));
        assert_eq!(all.iter().filter(|(name, _)| *name == b"cookie").count(), 1);
        for (length, has_ended, framing) in [
            ("0", true, Framing::None),
            ("0", false, Framing::Length(0)),
            ("7", false, Framing::Length(7)),
        ] {
            let head = parts("http://a.example/", &[("content-length", length)]);
            let told = TranslatedHead::new(&head, has_ended).unwrap();
            assert_eq!(told.framing, framing);
        }
    }
}
