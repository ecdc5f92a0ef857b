//! The lane: what it is told, and from an HTTP request to a call that the gate judges.

use std::hash::{Hash as _, Hasher as _};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;

use base::limit::TOOL_NAME_CHARS_MAX;
use base::{CallId, Json, JsonKind, Name, Refusal, Resource, refusal};
use bytes::Bytes;
use gate::{ActingFor, Call, ContentPart, Gate, PartContent, Passed, Repeat, Role};
use http::header::{AUTHORIZATION, HeaderName};
use http::request::Parts;
use http::{HeaderMap, Method};
use identity::{Presented, PresentedPeer, Verified};
use net::{Peer, Request, Response, Upstreams, origin};

use crate::actions::CHAT;
use crate::cache::{AnswerCache, AnswerCacheSettings};
use crate::meter::ModelMeter;
use crate::provider::{Provider, is_plain};
use crate::route::{self, Candidate, ModelRoute, ProviderState};
use crate::standing::UsageOf;
use crate::stored::StoredResponses;
use crate::tags::CallTags;
use crate::upstream::{self, Sending};
use crate::wire::{self, AskedModel, Family, ModelPlace, Wire};
use crate::{models, refuse, socket, standing, stored};

/// Fields in which clients of these dialects show their key, beside `Authorization`.
const KEY_FIELDS: &[&str] = &["x-api-key", "x-goog-api-key", "api-key"];
/// Fields by which clients of Google's dialect are known.
const GOOGLE_FIELDS: &[&str] = &["x-goog-api-key", "x-goog-api-client"];
/// The proof of a key that a token is bound to (RFC 9449 §4.1).
const PROOF: &str = "dpop";
/// W3C Trace Context, section 3.2.
const TRACE: HeaderName = HeaderName::from_static("traceparent");
/// Fields of a client that go on to the provider: what its dialect means by them is the provider's to know.
const PASSED_ON: &[&str] = &[
    "user-agent",
    "idempotency-key",
    "session_id",
    "conversation_id",
    "originator",
];
/// The same, by what their names begin with.
const PASSED_ON_FROM: &[&str] = &["anthropic-", "openai-", "x-stainless-", "x-goog-api-client"];
/// Longest name of a field that goes on.
const FIELD_NAME_MAX: usize = 48;
/// Most parts of one request.
const PARTS_MAX: usize = 65_536;
/// Fields by which a client says which conversation a request is of.
const CONVERSATION_FIELDS: &[&str] = &["session_id", "conversation_id", "x-session-id"];
/// Tokens that are reserved for an answer whose request sets no bound.
const OUTPUT_TOKENS_DEFAULT: u64 = 4_096;
/// Bytes of a medium for one token at least.
const MEDIA_BYTES_PER_TOKEN: u64 = 64;

/// Tokens that are reserved for a medium that a request only points to: an image of the largest kind. A long document may cost
/// more.
const MEDIA_ELSEWHERE_TOKENS: u64 = 4_096;

/// What the lane is told.
#[derive(Clone)]
pub struct Settings {
    pub providers: Vec<Provider>,
    pub routes: Vec<ModelRoute>,
    pub origins: Vec<String>,
    pub body_bytes_max: usize,
    pub answer_bytes_max: usize,
    pub answer_ms: u64,
    pub silence_ms: u64,
    /// How long an answer that streams may take in all.
    pub stream_ms: u64,
    /// Whose answers are kept, if anybody's.
    pub cache: Option<AnswerCacheSettings>,
    /// Counts what was asked.
    pub meter: Arc<dyn ModelMeter>,
    /// How agents' budgets stand.
    pub usage: Arc<dyn UsageOf>,
    /// How long a WebSocket may be without a request, in milliseconds.
    pub socket_idle_ms: u64,
    /// Makes the id of a call.
    pub new_id: fn() -> CallId,
    /// The monotonic clock, in milliseconds.
    pub now_ms: fn() -> u64,
    /// The time of day, in Unix milliseconds: what is signed says when.
    pub unix_ms: fn() -> u64,
}

/// What all threads share.
pub struct Shared {
    pub(crate) settings: Settings,
    pub(crate) gate: Arc<Gate>,
    pub(crate) states: Vec<Arc<ProviderState>>,
    pub(crate) stored: Arc<StoredResponses>,
    pub(crate) cache: Option<AnswerCache>,
}

impl Shared {
    pub fn new(settings: Settings, gate: Arc<Gate>) -> Shared {
        let states = settings.providers.iter();
        let states = states.map(|provider| Arc::new(ProviderState::new(provider.key_count())));
        Shared {
            cache: settings.cache.clone().map(AnswerCache::new),
            states: states.collect(),
            settings,
            gate,
            stored: Arc::default(),
        }
    }

    /// The same with other settings. Providers that are the same go on as they are: left alone where they were.
    pub fn next(&self, settings: Settings, is_same: impl Fn(&Name) -> bool) -> Shared {
        let next = Shared::new(settings, Arc::clone(&self.gate));
        let names = |shared: &Shared| {
            let providers = shared.settings.providers.iter();
            providers
                .map(|provider| provider.name.clone())
                .collect::<Vec<_>>()
        };
        let (old, new) = (names(self), names(&next));
        let states = new.iter().zip(next.states);
        let states = states.map(|(name, state)| {
            let known = old.iter().position(|old| old == name && is_same(name));
            known.map_or(state, |at| Arc::clone(&self.states[at]))
        });
        Shared {
            states: states.collect(),
            settings: next.settings,
            gate: next.gate,
            cache: next.cache,
            stored: Arc::clone(&self.stored),
        }
    }

    /// Whether each provider is asked now, by its name.
    pub fn health(&self) -> impl Iterator<Item = (&Name, bool)> {
        let now_ms = (self.settings.now_ms)();
        let states = self.states.iter().map(move |state| !state.is_open(now_ms));
        let names = self
            .settings
            .providers
            .iter()
            .map(|provider| &provider.name);
        names.zip(states)
    }
}

/// What a request is answered with beside the lane that it came to.
pub trait AroundModels {
    /// The lane by the settings that are in force.
    fn in_force(&self) -> LlmLane;

    /// Whether another lane answers for the model that this body of a request for responses names.
    fn has(&self, body: &[u8]) -> bool;

    /// Has it answer such a request, or one of a response that no provider keeps, of an agent that is known. The request has its
    /// whole body.
    fn answer<'a>(
        &'a self,
        agent: Verified,
        request: Request,
        id: CallId,
    ) -> Pin<Box<dyn Future<Output = Response> + 'a>>;
}

/// The lane on one thread.
#[derive(Clone)]
pub struct LlmLane {
    pub(crate) shared: Arc<Shared>,
    pub(crate) upstreams: Rc<Upstreams<Passed>>,
}

/// Which of the lane's roots a request came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Root {
    /// `/v1`
    V1,
    /// `/v1beta`
    V1Beta,
}

/// What a path asks for.
enum PathAsks<'a> {
    Wire(&'static Wire, Option<&'a str>),
    /// The list of models, or one of them.
    Models(Option<&'a str>),
    /// How the agent's budgets stand.
    Usage,
    /// A WebSocket for responses.
    Socket,
    /// A response that is kept, by what stands behind `responses/`.
    Stored(&'a str),
}

/// A request of an agent that is known.
pub(crate) struct KnownRequest<'a> {
    pub(crate) verified: Verified,
    pub(crate) head: &'a Parts,
    pub(crate) call: Call<'a>,
    pub(crate) family: Family,
    /// What a WebSocket says beside the body.
    pub(crate) socket: Option<SocketWords>,
}

/// What is known of a request beside its body, where it came on a WebSocket.
#[derive(Clone, Copy)]
pub(crate) struct SocketWords {
    /// Whether a model is to say anything.
    pub(crate) generates: bool,
    /// The conversation, where the client says of none which it is.
    pub(crate) conversation: u64,
}

impl LlmLane {
    pub fn new(shared: Arc<Shared>, upstreams: Rc<Upstreams<Passed>>) -> LlmLane {
        LlmLane { shared, upstreams }
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.shared.settings
    }

    /// Answers one request; `rest` is its path behind the root. A connection that lasts asks `around` for the lane of each
    /// message that comes on it.
    pub async fn serve(
        &self,
        root: Root,
        rest: &str,
        mut request: Request,
        id: CallId,
        around: &dyn AroundModels,
    ) -> Response {
        let family = family(root, rest, &request.head);
        let resource = Resource::Setting(Name::new("models").expect("models is a name"));
        let request_id = request.id().map(str::to_owned);
        let trace = request.field(&TRACE).map(str::to_owned);
        let peer = request.peer.caller;
        // It is looked at while the body is read.
        let head = request.head.clone();
        let call = Call {
            request: request_id.as_deref(),
            trace: trace.as_deref(),
            run: head.extensions.get::<ActingFor>().map(|of| &*of.run),
            ..Call::new(id, peer, &CHAT, &resource, head.method.as_str())
        };
        let verified = match self.who(&call, &head, &request.peer).await {
            Ok(verified) => verified,
            Err(refusal) => return refuse::respond(family, &refusal, id),
        };
        request.is_of_known_agent();
        let known = KnownRequest {
            verified,
            head: &head,
            call,
            family,
            socket: None,
        };
        match asks(root, rest, &head.method) {
            Ok(PathAsks::Socket) => {
                let in_force = || around.in_force();
                socket::serve(self, request, known, &in_force).await
            }
            Ok(PathAsks::Stored(rest)) => {
                let agent = &known.verified.agent().name;
                match stored::is_of_provider(self, rest, agent) {
                    true => stored::serve(self, rest, known).await,
                    // What runs keep has other ids.
                    false => {
                        let asked = Request::within(head.clone(), peer, Bytes::new());
                        around.answer(known.verified, asked, id).await
                    }
                }
            }
            Ok(PathAsks::Models(model)) => models::serve(self, root, model, known).await,
            Ok(PathAsks::Usage) => standing::serve(self, known).await,
            Ok(PathAsks::Wire(wire, model)) => {
                request.bound_body(self.settings().body_bytes_max);
                match request.body().await {
                    Ok(body) if wire.name == wire::RESPONSES.name && around.has(&body) => {
                        let asked = Request::within(head.clone(), peer, body);
                        around.answer(known.verified, asked, id).await
                    }
                    Ok(body) => self.ask(wire, model, known, body).await,
                    Err(refusal) => self.no(&known, refusal).await,
                }
            }
            Err(refusal) => self.no(&known, refusal).await,
        }
    }

    /// Whose request it is, once it comes from no other site's page.
    async fn who(&self, call: &Call<'_>, head: &Parts, peer: &Peer) -> Result<Verified, Refusal> {
        let gate = &self.shared.gate;
        if let Some(acting) = head.extensions.get() {
            return gate.verify_acting(call, acting).await;
        }
        if let Err(refusal) = origin::check(head, peer.is_tls, &self.settings().origins) {
            return Err(gate.turn_away(call, refusal).await);
        }
        let mut fields: Vec<(&str, &str)> = Vec::new();
        for name in KEY_FIELDS {
            for value in head.headers.get_all(*name) {
                fields.push((name, value.to_str().unwrap_or_default()));
            }
        }
        let query = head.uri.query().unwrap_or_default();
        let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        fields.extend(pairs.filter(|(name, _)| *name == "key"));
        let one = |name: &str| head.headers.get(name)?.to_str().ok();
        let target = head.uri.path().to_owned();
        let presented = Presented {
            authorization: one(AUTHORIZATION.as_str()),
            proof: one(PROOF),
            fields: &fields,
            method: head.method.as_str(),
            target: &target,
            peer: PresentedPeer {
                address: call.peer,
                certificate: peer.certificate(),
            },
        };
        gate.verify(call, &presented).await
    }

    /// Records a refusal that the lane found, and says it.
    pub(crate) async fn no(&self, known: &KnownRequest<'_>, refusal: Refusal) -> Response {
        let gate = &self.shared.gate;
        let refusal = gate
            .reject(Some(&known.verified), &known.call, refusal)
            .await;
        refuse::respond(known.family, &refusal, known.call.id)
    }

    /// Reads what is asked of a model, has it judged, and carries it.
    pub(crate) async fn ask(
        &self,
        wire: &'static Wire,
        in_path: Option<&str>,
        known: KnownRequest<'_>,
        body: Bytes,
    ) -> Response {
        let known = KnownRequest {
            family: wire.family,
            call: Call {
                action: wire.action,
                method: wire.name,
                bytes: body.len() as u64,
                ..known.call
            },
            ..known
        };
        let json = match Json::read(&body) {
            Ok(json) => json,
            Err(error) => return self.no(&known, not_json(error)).await,
        };
        let read = self.read(wire, in_path, &json);
        let (asked, name, is_stream) = match read {
            Ok(read) => read,
            Err(refusal) => return self.no(&known, refusal).await,
        };
        let tags = match CallTags::of(&known.head.headers, json.root()) {
            Ok(tags) => tags,
            Err(refusal) => return self.no(&known, refusal).await,
        };
        let known = KnownRequest {
            call: Call {
                tags: &tags.names,
                ..known.call
            },
            ..known
        };
        let own = known.socket.map(|socket| socket.conversation);
        let conversation = conversation(known.head, &asked, &body, own);
        let settings = self.settings();
        let found = route::find(
            &settings.providers,
            &settings.routes,
            (wire, is_stream),
            &name,
            conversation,
        );
        let mut candidates = match found {
            Ok(candidates) => candidates,
            Err(refusal) => return self.no(&known, refusal).await,
        };
        let agent = known.verified.agent().name.clone();
        let previous = json.root().get("previous_response_id");
        let previous = previous.and_then(base::JsonValue::as_str);
        let goes_on = [wire::RESPONSES.name, wire::COMPACT.name].contains(&wire.name);
        let previous = match previous.filter(|_| goes_on) {
            None => None,
            Some(previous) => {
                match stored::only_where_it_is(self, &previous, &agent, &mut candidates) {
                    Ok(previous) => previous,
                    Err(refusal) => return self.no(&known, refusal).await,
                }
            }
        };
        let fields = passed_on(known.head);
        let mut content = asked.content();
        // Their names are the client's too.
        let said: Vec<String> = fields
            .iter()
            .map(|(name, value)| format!("{name}: {value}"))
            .collect();
        content.extend(
            fields
                .iter()
                .zip(&said)
                .map(|((name, _), said)| ContentPart {
                    role: Role::Header,
                    path: name.as_str(),
                    content: PartContent::Text(said.as_bytes()),
                }),
        );
        // The model's name goes out too, where it stands in no body.
        content.extend((wire.model == ModelPlace::Path).then_some(ContentPart {
            role: Role::Header,
            path: "model",
            content: PartContent::Text(name.as_bytes()),
        }));
        let output = asked.output_max.unwrap_or(OUTPUT_TOKENS_DEFAULT);
        let answers = asked.answers.unwrap_or(1).max(1);
        let sending = Sending {
            wire,
            is_stream,
            conversation,
            model: asked.model.filter(|_| wire.model == ModelPlace::Body),
            spans: asked.spans(),
            tags: tags.metadata.clone(),
            fields: &fields,
            query: known.head.uri.query(),
            asked: &name,
            body: &body,
            content: &content,
            read_bytes: (body.len() - asked.media_bytes) as u64,
            media_tokens: asked.media_bytes as u64 / MEDIA_BYTES_PER_TOKEN
                + asked.media_elsewhere as u64 * MEDIA_ELSEWHERE_TOKENS,
            output_tokens: output.saturating_mul(answers),
            agent: &agent,
            previous,
            repeat: match candidates.len() {
                1 => Repeat::No,
                _ => Repeat::Maybe,
            },
        };
        match known.socket {
            Some(SocketWords {
                generates: false, ..
            }) => socket::make_ready(self, known, &sending, &candidates).await,
            _ => upstream::carry(self, known, &sending, &candidates).await,
        }
    }

    /// What the body asks, the model's name, and whether the answer is to stream.
    fn read<'j>(
        &self,
        wire: &Wire,
        in_path: Option<&str>,
        json: &'j Json<'_>,
    ) -> Result<(AskedModel<'j>, String, bool), Refusal> {
        let root = json.root();
        if root.kind() != JsonKind::Object {
            return Err(invalid("the body is no JSON object"));
        }
        check_names(root)?;
        check_letters(root)?;
        if let Some(member) = OTHER_MODELS.iter().find(|name| root.get(name).is_some()) {
            return Err(invalid(&format!(
                "{member} names models that nobody judged; have the operator make a route of them, and ask for that"
            )));
        }
        let mut asked = AskedModel::default();
        (wire.read)(root, &mut asked);
        if asked.parts.len() > PARTS_MAX {
            return Err(invalid("the body has more parts than are read"));
        }
        let is_stream = match asked.stream.map(|stream| stream.text()) {
            None | Some("null" | "false") => wire.always_streams,
            Some("true") => true,
            Some(_) => return Err(invalid("stream is neither true nor false")),
        };
        let name = match wire.model {
            ModelPlace::Path => in_path.map(str::to_owned),
            ModelPlace::Body => {
                let name = asked.model.and_then(|name| name.as_str());
                name.map(std::borrow::Cow::into_owned)
            }
        };
        let fits = |name: &String| !name.is_empty() && name.chars().count() <= TOOL_NAME_CHARS_MAX;
        let name = name.filter(fits);
        let name =
            name.ok_or_else(|| invalid("no model is named, or by more than 256 characters"))?;
        if !is_plain(&name) {
            return Err(invalid(
                "the model's name has an empty part, `.` or `..` between slashes",
            ));
        }
        Ok((asked, name, is_stream))
    }
}

/// What a path behind a root asks for.
fn asks<'a>(root: Root, rest: &'a str, method: &Method) -> Result<PathAsks<'a>, Refusal> {
    let unknown = || Refusal::new(refusal::NOT_FOUND, "no dialect has this path");
    let (asks, needs) = match root {
        Root::V1 if rest == wire::RESPONSES.name && method == Method::GET => {
            return Ok(PathAsks::Socket);
        }
        Root::V1 if rest.starts_with("responses/") && wire::of_v1(rest).is_none() => {
            return Ok(PathAsks::Stored(&rest["responses/".len()..]));
        }
        Root::V1 if wire::of_v1(rest).is_some() => {
            let wire = wire::of_v1(rest).ok_or_else(unknown)?;
            (PathAsks::Wire(wire, None), Method::POST)
        }
        // As Cullis has it.
        Root::V1 if rest == "egress/models" => (PathAsks::Models(None), Method::GET),
        Root::V1 if rest == "usage" => (PathAsks::Usage, Method::GET),
        // Google's clients ask below both.
        Root::V1 | Root::V1Beta => {
            let model = rest.strip_prefix("models").ok_or_else(unknown)?;
            match model
                .rsplit_once(':')
                .filter(|(_, verb)| wire::of_verb(verb).is_some() || root == Root::V1Beta)
            {
                Some((model, verb)) => {
                    let wire = wire::of_verb(verb).ok_or_else(unknown)?;
                    let model = of_path(model).flatten().ok_or_else(unknown)?;
                    (PathAsks::Wire(wire, Some(model)), Method::POST)
                }
                None => (
                    PathAsks::Models(of_path(model).ok_or_else(unknown)?),
                    Method::GET,
                ),
            }
        }
    };
    match *method == needs {
        true => Ok(asks),
        false => Err(Refusal::new(
            refusal::METHOD,
            format!("this path is asked by {needs}"),
        )),
    }
}

/// The model that stands behind `models` in a path; nothing where none does.
#[allow(
    clippy::option_option,
    reason = "the outer is whether it is such a path at all"
)]
fn of_path(rest: &str) -> Option<Option<&str>> {
    match rest.strip_prefix('/') {
        None if rest.is_empty() => Some(None),
        None => None,
        Some("") => Some(None),
        Some(model) => Some(Some(model)),
    }
}

/// The dialect in which a refusal is said, as far as path and fields show it.
fn family(root: Root, rest: &str, head: &Parts) -> Family {
    match root {
        Root::V1Beta => Family::Gemini,
        Root::V1 if rest.starts_with("messages") => Family::Anthropic,
        Root::V1
            if GOOGLE_FIELDS
                .iter()
                .any(|name| head.headers.contains_key(*name)) =>
        {
            Family::Gemini
        }
        Root::V1 if head.headers.contains_key("anthropic-version") => Family::Anthropic,
        Root::V1 => Family::OpenAi,
    }
}

/// The client's fields that go on to the provider.
fn passed_on(head: &Parts) -> Vec<(HeaderName, String)> {
    let goes = |name: &str| {
        PASSED_ON.contains(&name) || PASSED_ON_FROM.iter().any(|start| name.starts_with(start))
    };
    // A client's own credentials for the provider are none of it, and a long name is no name.
    let is_plain = |name: &str| {
        let has = |word: &&str| name.contains(*word);
        name.len() <= FIELD_NAME_MAX
            && !["key", "token", "secret", "auth", "cookie"].iter().any(has)
    };
    let fields = head.headers.iter();
    let fields = fields.filter(|(name, _)| goes(name.as_str()) && is_plain(name.as_str()));
    let text = |value: &http::HeaderValue| value.to_str().ok().map(str::to_owned);
    let fields = fields.filter_map(|(name, value)| Some((name.clone(), text(value)?)));
    fields.collect()
}

/// What tells this conversation from others: what its client says, else its first two parts, which each turn repeats.
fn conversation(head: &Parts, asked: &AskedModel<'_>, body: &[u8], own: Option<u64>) -> u64 {
    let mut hash = std::hash::DefaultHasher::new();
    let field =
        |headers: &HeaderMap, name: &&str| headers.get(*name).map(|v| v.as_bytes().to_vec());
    let said = CONVERSATION_FIELDS
        .iter()
        .find_map(|name| field(&head.headers, name));
    match (said, &asked.conversation, own) {
        (Some(said), ..) => said.hash(&mut hash),
        (None, Some(said), _) => said.hash(&mut hash),
        (None, None, Some(own)) => own.hash(&mut hash),
        (None, None, None) => {
            let texts = asked.parts.iter().filter(|part| part.role != Role::Header);
            let texts = texts.filter(|part| part.path.contains('['));
            for part in texts.take(2) {
                body[part.json.span()].hash(&mut hash);
            }
        }
    }
    hash.finish()
}

/// A number that is the same for the same text.
pub(crate) fn hash_of(text: &str) -> u64 {
    let mut hash = std::hash::DefaultHasher::new();
    text.hash(&mut hash);
    hash.finish()
}

/// Members that name models beside `model`.
const OTHER_MODELS: &[&str] = &["models", "fallbacks", "fallback_models"];

/// Members that decide what is judged and reserved. Under the same name in other letters a reader that does not mind capitals
/// finds them too.
const KNOWN_MEMBERS: &[&str] = &[
    "model",
    "models",
    "messages",
    "input",
    "instructions",
    "system",
    "contents",
    "parts",
    "role",
    "content",
    "type",
    "text",
    "tools",
    "tool_calls",
    "function_call",
    "function",
    "custom",
    "arguments",
    "stream",
    "n",
    "best_of",
    "max_tokens",
    "max_completion_tokens",
    "max_output_tokens",
    "functionCall",
    "functionResponse",
    "functionCallingConfig",
    "systemInstruction",
    "generationConfig",
    "generateContentRequest",
    "maxOutputTokens",
    "candidateCount",
    "inlineData",
    "choices",
    "message",
    "delta",
    "output",
    "item",
    "candidates",
    "name",
    "args",
    "usage",
    "usageMetadata",
    "toolConfig",
    "source",
    "data",
    "url",
    "image_url",
    "file_data",
];

/// Members below which names are anybody's: of the arguments of tools, their schemas, and labels.
const ANYBODYS_NAMES: &[&str] = &[
    "arguments",
    "args",
    "parameters",
    "input_schema",
    "schema",
    "json_schema",
    "responseSchema",
    "response_schema",
    "responseJsonSchema",
    "parametersJsonSchema",
    "metadata",
    "labels",
    "logit_bias",
    "response",
    "variables",
    "properties",
    "headers",
    "structuredContent",
];

/// No member may have the name of a known one in other letters: `Model` is `model` to some readers and nothing to others.
pub(crate) fn check_letters(value: base::JsonValue<'_>) -> Result<(), Refusal> {
    match value.kind() {
        JsonKind::Object => value.members().try_for_each(|(key, inner)| {
            let name = key.name();
            let is_other = |known: &str| known != &*name && known.eq_ignore_ascii_case(&name);
            if name.bytes().any(|byte| byte.is_ascii_uppercase())
                && !KNOWN_MEMBERS.contains(&&*name)
                && KNOWN_MEMBERS.iter().any(|known| is_other(known))
            {
                return Err(invalid(
                    "a member has the name of a known one in other letters",
                ));
            }
            // What a tool is given is an object, and what a model is asked a list.
            let is_given = &*name == "input" && inner.kind() == JsonKind::Object;
            match is_given || ANYBODYS_NAMES.contains(&&*name) {
                true => Ok(()),
                false => check_letters(inner),
            }
        }),
        JsonKind::Array => value.items().try_for_each(|item| check_letters(item)),
        _ => Ok(()),
    }
}

/// No object may have a name twice: two readers could take two values.
pub(crate) fn check_names(value: base::JsonValue<'_>) -> Result<(), Refusal> {
    match value.kind() {
        JsonKind::Object => {
            let mut names = std::collections::HashSet::new();
            for (key, inner) in value.members() {
                if !names.insert(key.name()) {
                    return Err(invalid("an object of the body has a name twice"));
                }
                check_names(inner)?;
            }
            Ok(())
        }
        JsonKind::Array => value.items().try_for_each(|item| check_names(item)),
        _ => Ok(()),
    }
}

pub(crate) fn not_json(error: base::JsonError) -> Refusal {
    match error {
        base::JsonError::Syntax => invalid("the body is not JSON"),
        base::JsonError::Deep => invalid("the JSON is deeper than 64 levels"),
    }
}

pub(crate) fn invalid(why: &str) -> Refusal {
    Refusal::new(refusal::LLM_BODY_INVALID, why)
}

/// The resource that a candidate is.
pub(crate) fn resource(settings: &Settings, candidate: &Candidate) -> Resource {
    Resource::Model {
        provider: settings.providers[candidate.provider].name.clone(),
        model: candidate.model.as_str().into(),
    }
}
