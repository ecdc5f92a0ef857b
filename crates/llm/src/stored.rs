//! Responses that a provider keeps: whose each is, which provider has it, and what may be asked of it later.
//!
//! A stored response belongs to the agent that asked for it, and to the provider and the key that made it. It is known by the id that the
//! provider gave, from the moment before the client is told of it. Another agent finds nothing there, nor does anybody find a response
//! that this process did not see being made: a provider gives an id to whoever has its key, so what is not known to be the agent's own is
//! not asked for.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use base::{Name, Refusal, refusal};
use bytes::Bytes;
use gate::{Call, ContentPart, PartContent, Passed, Role};
use http::Method;
use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, HeaderValue};
use net::Response;

use crate::actions::CHAT;
use crate::lane::{KnownRequest, LlmLane, hash_of, resource};
use crate::login::Credential;
use crate::meter::TryWatch;
use crate::provider::Provider;
use crate::refuse;
use crate::route::Candidate;
use crate::upstream::answered::ProviderAnswer;
use crate::upstream::{self, Sending};
use crate::wire;

/// Most responses that are known at once, of all agents and of one: the oldest is forgotten for a new one.
const STORED_MAX: usize = 65_536;
const STORED_OF_AGENT_MAX: usize = 4_096;
/// How long a response is known, in milliseconds: as long as OpenAI keeps it.
const STORED_MS: u64 = 30 * 86_400_000;
/// Longest id.
const ID_BYTES_MAX: usize = 128;
/// Longest query of a stored response, and what its values may be made of.
const QUERY_BYTES_MAX: usize = 1_024;
const QUERY_VALUES: &[u8] = b"._-%[]";
/// Names of a query that go on.
const QUERY: &[&str] = &[
    "stream",
    "starting_after",
    "include",
    "include[]",
    "include%5B%5D",
    "include_obfuscation",
    "limit",
    "order",
    "after",
    "before",
];

/// A response that a provider keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoredResponse {
    pub(crate) agent: Name,
    pub(crate) provider: Name,
    pub(crate) model: String,
    /// A number that stands for the key it was made with: with another it may not be found.
    key: Option<u64>,
    until_ms: u64,
}

impl StoredResponse {
    /// The key of its provider that it was made with, by its place; nothing where that is not there any more.
    pub(crate) fn key(&self, provider: &Provider) -> Option<usize> {
        match self.key {
            None => (provider.key_count() > 0).then_some(0),
            Some(number) => {
                let mut keys = provider.keys.iter();
                keys.position(|key| hash_of(key.expose()) == number)
            }
        }
    }
}

/// What is known of stored responses, by all threads.
#[derive(Default)]
pub(crate) struct StoredResponses(Mutex<StoredTable>);

#[derive(Default)]
struct StoredTable {
    by_id: HashMap<Box<str>, StoredResponse>,
    /// Ids as they came, the oldest first; some may be gone already.
    order: VecDeque<Box<str>>,
    of_agent: HashMap<Name, VecDeque<Box<str>>>,
}

impl StoredTable {
    fn forget(&mut self, id: &str) {
        let Some(gone) = self.by_id.remove(id) else {
            return;
        };
        if let Some(own) = self.of_agent.get_mut(&gone.agent) {
            own.retain(|known| &**known != id);
            if own.is_empty() {
                self.of_agent.remove(&gone.agent);
            }
        }
    }

    fn keep(&mut self, id: &str, response: StoredResponse) {
        let agent = response.agent.clone();
        // An id is its first agent's: a provider that gives it again does not give it away.
        match self.by_id.get_mut(id) {
            Some(known) if known.agent == agent => {
                *known = response;
                return;
            }
            Some(_) => return,
            None => {}
        }
        let own = self.of_agent.entry(agent).or_default();
        let oldest = (own.len() >= STORED_OF_AGENT_MAX).then(|| own.front().cloned());
        if let Some(oldest) = oldest.flatten() {
            self.forget(&oldest);
        }
        while self.by_id.len() >= STORED_MAX {
            let Some(oldest) = self.order.pop_front() else {
                break;
            };
            self.forget(&oldest);
        }
        // What was forgotten leaves its id behind; of these no more are kept than there may be responses.
        if self.order.len() >= 2 * STORED_MAX {
            let StoredTable { by_id, order, .. } = self;
            order.retain(|id| by_id.contains_key(id));
        }
        self.order.push_back(id.into());
        let own = self.of_agent.entry(response.agent.clone()).or_default();
        own.push_back(id.into());
        self.by_id.insert(id.into(), response);
    }
}

impl StoredResponses {
    /// The response of this id, where it is this agent's. Of another's nothing is told.
    pub(crate) fn find(&self, id: &str, agent: &Name, now_ms: u64) -> Option<StoredResponse> {
        let mut table = self.lock();
        let known = table.by_id.get(id)?;
        if known.until_ms <= now_ms {
            table.forget(id);
            return None;
        }
        (known.agent == *agent).then(|| known.clone())
    }

    fn forget(&self, id: &str) {
        self.lock().forget(id);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, StoredTable> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// For whom a response is kept that an answer tells of.
#[derive(Clone)]
pub(crate) struct Keeping {
    stored: Arc<StoredResponses>,
    response: StoredResponse,
}

impl Keeping {
    /// Of a try that asks for a response in the provider's own words; nothing of others.
    pub(crate) fn of(
        lane: &LlmLane,
        agent: &Name,
        candidate: &Candidate,
        key: Option<usize>,
    ) -> Option<Keeping> {
        if candidate.wire.name != wire::RESPONSES.name || candidate.conversion.is_some() {
            return None;
        }
        let provider = &lane.settings().providers[candidate.provider];
        let key = key.and_then(|key| provider.keys.get(key));
        Some(Keeping {
            stored: Arc::clone(&lane.shared.stored),
            response: StoredResponse {
                agent: agent.clone(),
                provider: provider.name.clone(),
                model: candidate.model.clone(),
                key: key.map(|key| hash_of(key.expose())),
                until_ms: (lane.settings().now_ms)().saturating_add(STORED_MS),
            },
        })
    }

    /// The provider says that it keeps the response of this id.
    pub(crate) fn keep(&self, id: &str) {
        if is_id(id) {
            self.stored.lock().keep(id, self.response.clone());
        }
    }
}

/// Whether a text can be an id in a path.
fn is_id(id: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    (1..=ID_BYTES_MAX).contains(&id.len()) && id.bytes().all(is_plain)
}

/// What is asked of a stored response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StoredAsk {
    Read,
    Delete,
    Cancel,
    Items,
}

impl StoredAsk {
    fn of(method: &Method, part: &str) -> Option<StoredAsk> {
        Some(match (method, part) {
            (&Method::GET, "") => StoredAsk::Read,
            (&Method::DELETE, "") => StoredAsk::Delete,
            (&Method::POST, "cancel") => StoredAsk::Cancel,
            (&Method::GET, "input_items") => StoredAsk::Items,
            _ => return None,
        })
    }

    /// In records.
    fn method(self) -> &'static str {
        match self {
            StoredAsk::Read => "responses.get",
            StoredAsk::Delete => "responses.delete",
            StoredAsk::Cancel => "responses.cancel",
            StoredAsk::Items => "responses.input_items",
        }
    }
}

/// The id that a path behind `responses/` names, and what stands behind that.
fn parts(rest: &str) -> (&str, &str) {
    rest.split_once('/').unwrap_or((rest, ""))
}

/// Whether a path behind `responses/` is of a response that this agent has at a provider, or of none that runs have: their ids begin
/// otherwise.
pub(crate) fn is_of_provider(lane: &LlmLane, rest: &str, agent: &Name) -> bool {
    let (id, _) = parts(rest);
    let now_ms = (lane.settings().now_ms)();
    id.starts_with("resp") || lane.shared.stored.find(id, agent, now_ms).is_some()
}

/// Where a request goes that names a response before it.
///
/// # Errors
/// `llm.response_unknown` where no response of this agent has the id.
pub(crate) fn only_where_it_is(
    lane: &LlmLane,
    previous: &str,
    agent: &Name,
    candidates: &mut Vec<Candidate>,
) -> Result<Option<StoredResponse>, Refusal> {
    // What is converted is refused with its own words: nothing is stored there.
    if candidates.iter().all(|of| of.conversion.is_some()) {
        return Ok(None);
    }
    let now_ms = (lane.settings().now_ms)();
    let known = lane.shared.stored.find(previous, agent, now_ms);
    let known = known.ok_or_else(unknown)?;
    let providers = &lane.settings().providers;
    candidates.retain(|of| providers[of.provider].name == known.provider);
    match candidates.is_empty() {
        false => Ok(Some(known)),
        true => {
            let public = format!(
                "the response before is kept by {}, which the model is not of",
                known.provider
            );
            Err(Refusal::new(refusal::LLM_RESPONSE_UNKNOWN, public))
        }
    }
}

fn unknown() -> Refusal {
    Refusal::new(
        refusal::LLM_RESPONSE_UNKNOWN,
        "no stored response of yours has this id",
    )
}

/// What is asked of a stored response, once it is known to be the agent's.
struct AskedStored<'a> {
    id: &'a str,
    part: &'a str,
    ask: StoredAsk,
    response: StoredResponse,
    candidate: Candidate,
    query: Option<String>,
}

impl<'a> AskedStored<'a> {
    /// # Errors
    /// `llm.response_unknown`, and what of the request cannot be asked.
    fn read(
        lane: &LlmLane,
        rest: &'a str,
        known: &KnownRequest<'_>,
    ) -> Result<AskedStored<'a>, Refusal> {
        let (id, part) = parts(rest);
        let agent = &known.verified.agent().name;
        let now_ms = (lane.settings().now_ms)();
        let found = lane.shared.stored.find(id, agent, now_ms);
        let response = found.filter(|_| is_id(id)).ok_or_else(unknown)?;
        let ask = StoredAsk::of(&known.head.method, part).ok_or_else(|| {
            let public =
                "a stored response is read, deleted, cancelled, and asked for its input_items";
            Refusal::new(refusal::METHOD, public)
        })?;
        let mut providers = lane.settings().providers.iter();
        let provider = providers.position(|of| {
            of.name == response.provider && of.kind.paths.contains_key(wire::RESPONSES.name)
        });
        let provider = provider.ok_or_else(|| {
            let name = &response.provider;
            let public = format!("{name}, which keeps the response, is not configured any more");
            Refusal::new(refusal::LLM_RESPONSE_UNKNOWN, public)
        })?;
        let candidate = Candidate {
            provider,
            model: response.model.clone(),
            wire: &wire::STORED_RESPONSE,
            conversion: None,
        };
        Ok(AskedStored {
            id,
            part,
            ask,
            candidate,
            response,
            query: query(known.head.uri.query())?,
        })
    }

    /// Asks the provider.
    async fn send(
        &self,
        lane: &LlmLane,
        passed: &Passed,
        method: &Method,
    ) -> Result<ProviderAnswer, Refusal> {
        if passed.redacted(0).is_some() {
            let public = "a secret stands where it cannot be taken out: in the query";
            return Err(Refusal::new(refusal::SECRET, public));
        }
        let provider = &lane.settings().providers[self.candidate.provider];
        let state = &lane.shared.states[self.candidate.provider];
        let credential = Credential::of(lane, provider, state, self.response.key(provider)).await;
        let credential =
            credential.map_err(|why| Refusal::new(refusal::LLM_PROVIDER_FAILED, why))?;
        let what = (method, self.query.as_deref());
        let request = request(provider, (self.id, self.part), what, &credential)?;
        let sent = lane
            .upstreams
            .send(passed, request, lane.settings().answer_ms);
        let sent = upstream::while_in_force(passed, sent).await?;
        sent.map(ProviderAnswer::coming).map_err(upstream::of_send)
    }
}

/// Answers what is asked of a stored response; `rest` is the path behind `responses/`.
pub(crate) async fn serve(lane: &LlmLane, rest: &str, known: KnownRequest<'_>) -> Response {
    let asked = match AskedStored::read(lane, rest, &known) {
        Ok(asked) => asked,
        Err(refusal) => return lane.no(&known, refusal).await,
    };
    let text = asked.query.clone().unwrap_or_default();
    let content = [ContentPart {
        role: Role::Header,
        path: "query",
        content: PartContent::Text(text.as_bytes()),
    }];
    let resource = resource(lane.settings(), &asked.candidate);
    let call = Call {
        action: &CHAT,
        method: asked.ask.method(),
        resource: &resource,
        content: &content,
        ..known.call
    };
    let (family, call_id) = (known.family, call.id);
    let passed = match lane.shared.gate.pass(known.verified, call).await {
        Ok(passed) => passed,
        Err(refusal) => return refuse::respond(family, &refusal, call_id),
    };
    let body = Bytes::new();
    let sending = Sending::of_nothing(&wire::STORED_RESPONSE, &asked.response, &body, &content);
    let watch = TryWatch::new(lane, &sending, &asked.candidate);
    match asked.send(lane, &passed, &known.head.method).await {
        Ok(answer) => {
            if asked.ask == StoredAsk::Delete && answer.status().is_success() {
                lane.shared.stored.forget(asked.id);
            }
            let what = (&sending, &asked.candidate);
            upstream::back(lane, passed, what, answer, watch, None).await
        }
        Err(refusal) => {
            watch.ended(None, Some(refusal.code.name));
            upstream::end_failed(passed, 0, &refusal, upstream::Billed::Nothing);
            refuse::respond(family, &refusal, call_id)
        }
    }
}

/// The request for the provider.
fn request(
    provider: &Provider,
    (id, part): (&str, &str),
    (method, query): (&Method, Option<&str>),
    credential: &Credential<'_>,
) -> Result<http::Request<Bytes>, Refusal> {
    let path = provider.path(&wire::RESPONSES, "", false);
    let path = path.ok_or_else(|| upstream::never("a provider without responses"))?;
    let mut path = format!("{path}/{id}");
    if !part.is_empty() {
        path = format!("{path}/{part}");
    }
    if let Some(query) = query {
        path = format!("{path}?{query}");
    }
    let mut request = http::Request::builder()
        .method(method)
        .uri(path)
        .body(Bytes::new())
        .map_err(|_| upstream::never("a path that is none"))?;
    let fields = request.headers_mut();
    let accept = "text/event-stream, application/json";
    fields.insert(ACCEPT, HeaderValue::from_static(accept));
    fields.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    fields.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let put = credential.put(provider, &mut request);
    put.ok_or_else(|| upstream::never("a key that is no field's value"))?;
    Ok(request)
}

/// What goes on of a query.
fn query(query: Option<&str>) -> Result<Option<String>, Refusal> {
    let query = query.unwrap_or_default();
    let kept = query.split('&').filter(|pair| {
        let name = pair.split_once('=').map_or(*pair, |(name, _)| name);
        QUERY.contains(&name)
    });
    let kept = kept.collect::<Vec<_>>().join("&");
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || QUERY_VALUES.contains(&byte);
    if kept.len() > QUERY_BYTES_MAX
        || !kept
            .bytes()
            .all(|byte| is_plain(byte) || b"=&".contains(&byte))
    {
        let public = "the query of a stored response has names of events, items and numbers alone";
        return Err(Refusal::new(refusal::LLM_BODY_INVALID, public));
    }
    Ok((!kept.is_empty()).then_some(kept))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(agent: &str) -> StoredResponse {
        StoredResponse {
            agent: Name::new(agent).unwrap(),
            provider: Name::new("openai").unwrap(),
            model: "m".to_owned(),
            key: None,
            until_ms: 1_000,
        }
    }

    #[test]
    fn a_response_is_its_agents_for_a_time() {
        let stored = StoredResponses::default();
        let agents = ["a", "b"].map(|name| Name::new(name).unwrap());
        stored.lock().keep("resp_1", response("a"));
        assert_eq!(stored.find("resp_1", &agents[0], 999), Some(response("a")));
        assert_eq!(stored.find("resp_1", &agents[1], 999), None);
        // Another agent's provider that gives the same id does not take it away.
        stored.lock().keep("resp_1", response("b"));
        assert_eq!(stored.find("resp_1", &agents[1], 999), None);
        assert_eq!(stored.find("resp_1", &agents[0], 1_000), None);
        assert!(stored.lock().by_id.is_empty() && stored.lock().of_agent.is_empty());
    }

    #[test]
    fn the_oldest_goes_and_an_agent_takes_no_place_of_others() {
        let stored = StoredResponses::default();
        let (a, b) = (Name::new("a").unwrap(), Name::new("b").unwrap());
        stored.lock().keep("resp_b", response("b"));
        for number in 0..=STORED_OF_AGENT_MAX {
            stored.lock().keep(&format!("resp_{number}"), response("a"));
        }
        assert!(stored.find("resp_b", &b, 0).is_some());
        assert!(stored.find("resp_0", &a, 0).is_none() && stored.find("resp_1", &a, 0).is_some());
        assert_eq!(stored.lock().by_id.len(), STORED_OF_AGENT_MAX + 1);
        for id in ["", "a/b", "..", "a?b", "ä"] {
            assert!(!is_id(id), "{id}");
        }
    }

    #[test]
    fn a_query_goes_on_as_far_as_it_is_known() {
        let of = |text: &str| query(Some(text)).map_err(|refusal| refusal.code.name);
        assert_eq!(
            of("stream=true&key=weir_x&starting_after=7"),
            Ok(Some("stream=true&starting_after=7".to_owned()))
        );
        assert_eq!(of("x=1"), Ok(None));
        assert!(
            of("after=a/../b").is_err() && of(&format!("after={}", "a".repeat(2_000))).is_err()
        );
    }
}
