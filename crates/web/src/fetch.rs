//! `/fetch`: a page as text. Each redirect is a call of its own, and what nobody sees of the page is judged too.

use std::borrow::Cow;

use base::record::CallEnd;
use base::{CallId, Json, Refusal, Resource, refusal};
use encoding_rs::Encoding;
use gate::{Answer, Call, Channel, Passed, Role};
use http::header::{
    ACCEPT, ACCEPT_ENCODING, ACCEPT_LANGUAGE, CONTENT_TYPE, HeaderMap, HeaderValue, LOCATION,
    USER_AGENT,
};
use http::{Method, StatusCode};
use net::{Body, Request, Response, UpstreamAnswer};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::actions::GET;
use crate::answer::{is_text, kind};
use crate::credentials::Scrub;
use crate::decode::{self, Coding};
use crate::exchange::{Judged, SiteRequest, coding_fault, end, of_send};
use crate::html::{self, Page};
use crate::lane::{Caller, WebLane, setting};
use crate::meter::{SiteDecision, SiteWay};
use crate::refuse::problem;
use crate::site::{AskedUrl, invalid};

/// Bytes of a request to `/fetch`.
const ASK_BYTES_MAX: usize = 64 << 10;
/// Bytes of a page in which its own word for its character encoding stands (HTML, section 4.2.5.4).
const CHARSET_BYTES: usize = 1024;

/// What is asked to be fetched.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct FetchAsk {
    url: String,
    #[serde(default)]
    format: FetchFormat,
}

/// The form of what is given back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum FetchFormat {
    #[default]
    Weir,
    /// As Pipelock's `/fetch` says it.
    Pipelock,
}

/// A page that was fetched, as it may be given back.
struct FetchedPage {
    url: String,
    status: u16,
    kind: String,
    title: String,
    text: String,
    links: Vec<Value>,
}

impl WebLane {
    /// Answers a request to `/fetch`.
    pub async fn fetch(&self, mut request: Request, id: CallId) -> Response {
        let caller = match self.who(&request, id, "fetch").await {
            Ok(caller) => caller,
            Err(refusal) => return problem(&refusal, id),
        };
        let resource = setting("fetch");
        let call = Call::new(id, caller.peer, &GET, &resource, "fetch");
        let ask = match ask(&mut request).await {
            Ok(ask) => ask,
            Err(refusal) => return problem(&self.no(&caller, &call, refusal).await, id),
        };
        let url = match AskedUrl::read(&ask.url) {
            Ok(url) => url,
            Err(refusal) => {
                let refusal = self.no(&caller, &call, refusal).await;
                return blocked(&ask, &caller, &refusal, id);
            }
        };
        match self.follow(&caller, id, url).await {
            Ok(page) => fetched(&ask, &caller, page, id),
            Err(refusal) => blocked(&ask, &caller, &refusal, id),
        }
    }

    /// Asks for a page, and for where it leads.
    async fn follow(
        &self,
        caller: &Caller,
        id: CallId,
        url: AskedUrl,
    ) -> Result<FetchedPage, Refusal> {
        let (mut url, mut call) = (url, id);
        for _ in 0..=self.settings().fetch.redirects_max {
            let first = (call != id).then_some(id);
            if let Err(refusal) = self.ask_robots(caller, id, &url).await {
                return Err(self.left_alone(caller, call, first, &url, refusal).await);
            }
            let asked = self.page_request(url);
            let mut judged = self.judge(caller, call, first, &asked).await?;
            let answer = match self.send(&judged, &Method::GET, &asked.url).await {
                Ok(answer) => answer,
                Err(refusal) => {
                    end(judged.passed, CallEnd::Failed, 0, 0, Some(&refusal));
                    return Err(refusal);
                }
            };
            let status = answer.head.status;
            let Some(location) = redirect(status, &answer.head.headers, &mut judged.scrub) else {
                let read = self.read(&mut judged, answer, &asked.url).await;
                let bytes = read.as_ref().map_or(0, |page| page.text.len() as u64);
                let (how, why) = match &read {
                    Ok(_) => (CallEnd::Complete, None),
                    Err(refusal) => (CallEnd::Failed, Some(refusal)),
                };
                end(judged.passed, how, status.as_u16(), bytes, why);
                return read;
            };
            let next = asked.url.join(&location);
            end(judged.passed, CallEnd::Complete, status.as_u16(), 0, None);
            (url, call) = (next?, (self.settings().new_id)());
        }
        let most = self.settings().fetch.redirects_max;
        let public = format!("the site redirects more than {most} times");
        Err(Refusal::new(refusal::WEB_REDIRECTS, public))
    }

    /// Records that a page is not fetched because its site asks for that.
    async fn left_alone(
        &self,
        caller: &Caller,
        id: CallId,
        first: Option<CallId>,
        url: &AskedUrl,
        refusal: Refusal,
    ) -> Refusal {
        let resource = Resource::Site(url.site.clone());
        let call = Call {
            request: caller.request.as_deref(),
            trace: caller.trace.as_deref(),
            run: caller.run.as_deref(),
            first,
            ..Call::new(id, caller.peer, &GET, &resource, "GET")
        };
        let meter = &self.settings().meter;
        meter.judged(SiteWay::Fetch, SiteDecision::Refused);
        self.no(caller, &call, refusal).await
    }

    fn page_request(&self, url: AskedUrl) -> SiteRequest {
        let mut fields = HeaderMap::new();
        let agent = HeaderValue::from_str(&self.settings().fetch.user_agent);
        if let Ok(agent) = agent {
            fields.insert(USER_AGENT, agent);
        }
        let accept =
            "text/html,application/xhtml+xml,application/json;q=0.9,text/*;q=0.9,*/*;q=0.1";
        fields.insert(ACCEPT, HeaderValue::from_static(accept));
        fields.insert(
            ACCEPT_ENCODING,
            HeaderValue::from_static("gzip, deflate, br"),
        );
        fields.insert(ACCEPT_LANGUAGE, HeaderValue::from_static("en,*;q=0.5"));
        SiteRequest {
            way: SiteWay::Fetch,
            ..SiteRequest::new(Method::GET, url, &fields)
        }
    }

    /// Reads a page, and judges all of it.
    async fn read(
        &self,
        judged: &mut Judged,
        mut answer: UpstreamAnswer,
        url: &AskedUrl,
    ) -> Result<FetchedPage, Refusal> {
        let (bytes_max, silence_ms) = (self.settings().fetch.bytes_max, self.settings().silence_ms);
        let coding = Coding::of(&answer.head.headers);
        let coding = coding.map_err(|fault| coding_fault(fault, "answer"))?;
        let bytes = answer.whole(bytes_max, silence_ms).await.map_err(of_send)?;
        answer.reuse();
        judged.passed.in_force()?;
        judged.place.came(bytes.len() as u64)?;
        let decoded = decode::whole(coding, &bytes, bytes_max as u64);
        let decoded = decoded.map_err(|fault| coding_fault(fault, "answer"))?;
        let decoded = match judged.scrub.is_idle() {
            true => decoded,
            false => [judged.scrub.push(&decoded), judged.scrub.finish()].concat(),
        };
        let (status, kind) = (answer.head.status.as_u16(), kind(&answer.head.headers));
        let is_page = kind.contains("html") || (kind.is_empty() && looks_like_page(&decoded));
        if !is_page && !is_text(&kind) {
            let public = format!("the site answered {kind}, which is not text");
            return Err(Refusal::new(refusal::WEB_PASSIVE, public));
        }
        let text = text(&answer.head.headers, &decoded);
        let page = match is_page {
            true => html::read(&text),
            false => Page::default(),
        };
        let (title, readable) = match is_page {
            true => html::readable(&text, url.url.as_str(), &page),
            false => (String::new(), text.clone().into_owned()),
        };
        judge_unseen(&mut judged.passed, &text, &page)?;
        let links = links(&page, url);
        let told = json!({ "title": title, "text": readable, "links": links });
        let told = scrubbed(&mut judged.scrub, told)?;
        let told = judge_told(&mut judged.passed, told)?;
        let part = |name: &str| told.get(name).and_then(Value::as_str).unwrap_or_default();
        Ok(FetchedPage {
            url: url.url.to_string(),
            status,
            title: part("title").to_owned(),
            text: part("text").to_owned(),
            links: told
                .get("links")
                .and_then(Value::as_array)
                .cloned()
                .unwrap_or_default(),
            kind,
        })
    }
}

/// What a request asks for: by its query, or by its body.
async fn ask(request: &mut Request) -> Result<FetchAsk, Refusal> {
    if request.head.method == Method::POST {
        request.bound_body(ASK_BYTES_MAX);
        let body = request.body().await?;
        return serde_json::from_slice(&body)
            .map_err(|error| invalid(format!("the body is not {{\"url\": …}}: {error}")));
    }
    if !matches!(request.head.method, Method::GET | Method::HEAD) {
        return Err(Refusal::new(
            refusal::METHOD,
            "a page is fetched by GET or POST",
        ));
    }
    let mut ask = FetchAsk::default();
    let query = request.head.uri.query().unwrap_or_default();
    for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
        match (&*name, &*value) {
            ("url", url) if ask.url.is_empty() => url.clone_into(&mut ask.url),
            ("format", "weir") => ask.format = FetchFormat::Weir,
            ("format", "pipelock") => ask.format = FetchFormat::Pipelock,
            _ => {
                return Err(invalid(format!(
                    "the query has {name:?} twice, or is not known here"
                )));
            }
        }
    }
    match ask.url.is_empty() {
        true => Err(invalid("the query names no url")),
        false => Ok(ask),
    }
}

/// Where an answer sends who asked (RFC 9110 §15.4), without credentials that stand in it.
pub(crate) fn redirect(
    status: StatusCode,
    fields: &HeaderMap,
    scrub: &mut Scrub,
) -> Option<String> {
    if !matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308) {
        return None;
    }
    let location = scrub.field(fields.get(LOCATION)?);
    Some(String::from_utf8_lossy(location.as_bytes()).into_owned())
}

/// Judges what is in the page as it came, and all text in it, seen or not. Nothing of this is given back, so that what
/// would be replaced in it needs no more.
fn judge_unseen(passed: &mut Passed, text: &str, page: &Page) -> Result<(), Refusal> {
    for (path, text) in [("source", text), ("page", &page.all)] {
        let (mut channel, mut unused) = (Channel::new(Role::ToolResult, path), Vec::new());
        channel.push(passed, text.as_bytes(), &mut unused)?;
        channel.finish(passed, &mut unused)?;
    }
    Ok(())
}

/// What is given back without credentials, which the page may have written in its own encoding or in references.
fn scrubbed(scrub: &mut Scrub, told: Value) -> Result<Value, Refusal> {
    if scrub.is_idle() {
        return Ok(told);
    }
    let mut text = scrub.push(told.to_string().as_bytes());
    text.extend(scrub.finish());
    let unread = |_| Refusal::new(refusal::FAILED, "what was fetched cannot be read again");
    serde_json::from_slice(&text).map_err(unread)
}

/// Judges what is given back, and gives it as it may be.
fn judge_told(passed: &mut Passed, told: Value) -> Result<Value, Refusal> {
    let text = told.to_string();
    let unread = |_| Refusal::new(refusal::FAILED, "what was fetched cannot be read again");
    let json = Json::read(text.as_bytes()).map_err(unread)?;
    match passed.answer(json.root(), "")? {
        Answer::AsItCame => Ok(told),
        Answer::Redacted(redacted) => {
            serde_json::from_slice(&redacted).map_err(|_| unread(base::JsonError::Syntax))
        }
    }
}

fn looks_like_page(bytes: &[u8]) -> bool {
    let start = &bytes[..bytes.len().min(CHARSET_BYTES)];
    let start = String::from_utf8_lossy(start).to_ascii_lowercase();
    let start = start.trim_start();
    start.starts_with("<!doctype html") || start.starts_with("<html")
}

/// The text of a message: by a byte order mark, by what its field says, by what the page says of itself, else as UTF-8.
pub(crate) fn text<'b>(fields: &HeaderMap, bytes: &'b [u8]) -> Cow<'b, str> {
    let said = fields.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let said = said.and_then(|kind| label(kind.as_bytes()));
    let said = said.or_else(|| label(&bytes[..bytes.len().min(CHARSET_BYTES)]));
    let encoding = said.unwrap_or(encoding_rs::UTF_8);
    encoding.decode(bytes).0
}

/// The encoding that stands behind `charset=`.
pub(crate) fn label(bytes: &[u8]) -> Option<&'static Encoding> {
    let lower = bytes.to_ascii_lowercase();
    let at = memchr::memmem::find(&lower, b"charset=")?;
    let rest = &lower[at + b"charset=".len()..];
    let rest = rest
        .strip_prefix(b"\"")
        .or(rest.strip_prefix(b"'"))
        .unwrap_or(rest);
    let end = rest
        .iter()
        .position(|byte| !byte.is_ascii_alphanumeric() && !b"-_:.".contains(byte));
    Encoding::for_label(&rest[..end.unwrap_or(rest.len())])
}

/// Where a page leads, each by its whole URL.
fn links(page: &Page, url: &AskedUrl) -> Vec<Value> {
    let base = page
        .base
        .as_deref()
        .and_then(|base| url.url.join(base).ok());
    let base = base.as_ref().unwrap_or(&url.url);
    let whole = page.links.iter().filter_map(|(href, text)| {
        let href = base.join(href).ok()?;
        let is_web = matches!(href.scheme(), "http" | "https" | "mailto");
        is_web.then(|| json!({ "url": href.as_str(), "text": text }))
    });
    whole.collect()
}

fn fetched(ask: &FetchAsk, caller: &Caller, page: FetchedPage, id: CallId) -> Response {
    answer(match ask.format {
        FetchFormat::Weir => json!({
            "url": ask.url,
            "final_url": page.url,
            "status": page.status,
            "content_type": page.kind,
            "title": page.title,
            "text": page.text,
            "links": page.links,
            "call": id.to_string(),
        }),
        FetchFormat::Pipelock => json!({
            "url": page.url,
            "agent": caller.agent().as_str(),
            "status_code": page.status,
            "content_type": page.kind,
            "title": page.title,
            "content": page.text,
            "blocked": false,
        }),
    })
}

/// A refusal, in the form that was asked for.
fn blocked(ask: &FetchAsk, caller: &Caller, refusal: &Refusal, id: CallId) -> Response {
    let mut response = problem(refusal, id);
    if ask.format == FetchFormat::Pipelock {
        let reason = format!(
            "{}: {}. {}",
            refusal.code.name,
            refusal.public,
            refusal.mend()
        );
        let told = json!({
            "url": ask.url,
            "agent": caller.agent().as_str(),
            "blocked": true,
            "block_reason": reason,
        });
        *response.body_mut() = Body::Full(told.to_string().into());
        let kind = HeaderValue::from_static("application/json");
        response.headers_mut().insert(CONTENT_TYPE, kind);
    }
    response
}

fn answer(told: Value) -> Response {
    let mut response = Response::new(Body::Full(told.to_string().into()));
    let fields = response.headers_mut();
    fields.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    fields.insert("cache-control", HeaderValue::from_static("no-store"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_read_in_its_own_encoding() {
        let of = |kind: &str, bytes: &[u8]| {
            let mut fields = HeaderMap::new();
            fields.insert(CONTENT_TYPE, kind.parse().unwrap());
            text(&fields, bytes).into_owned()
        };
        assert_eq!(of("text/html; charset=ISO-8859-1", b"caf\xe9"), "café");
        assert_eq!(
            of("text/html", b"<meta charset='shift_jis'>\x83\x65"),
            "<meta charset='shift_jis'>テ"
        );
        assert_eq!(of("text/html", "<p>é".as_bytes()), "<p>é");
        assert_eq!(of("text/html; charset=x-none", b"\xef\xbb\xbfa"), "a");
    }

    #[test]
    fn links_are_whole_and_of_the_web() {
        let url = AskedUrl::read("https://a.example/x/y").unwrap();
        let page = html::read(
            "<a href='z'>Z</a><a href='javascript:x()'>J</a><a href='//b.example'>B</a>",
        );
        let urls: Vec<String> = links(&page, &url)
            .iter()
            .map(|link| link["url"].to_string())
            .collect();
        assert_eq!(
            urls,
            ["\"https://a.example/x/z\"", "\"https://b.example/\""]
        );
    }
}
