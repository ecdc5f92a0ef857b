//! What comes back for one call: each message of the server read, judged, and passed on or replaced.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use base::record::CallEnd;
use base::{CallId, Code, JsonValue, Permit, Refusal, refusal};
use bytes::Bytes;
use gate::{Answer, CallEnding, Passed};

use crate::calls::{CallClient, Calls, UnderWay, own_id, own_token};
use crate::declared::Declared;
use crate::envelope::{Id, Message, MessageText, Object, Sender, span, splice};
use crate::era::{CapabilitySet, Era};
use crate::hub::Bridge;
use crate::lane::server_of;
use crate::listing::{self, ListKind};
use crate::token::Tokens;
use crate::upstream::own::OwnWay;
use crate::{era, refuse, shape};

/// Stands in the place of an id while an answer is judged.
const NO_ID: &str = "0";

/// What the call asked for, as far as its answer is treated differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AskedMethod {
    /// One of the lists of what a server offers.
    List(ListKind),
    /// Notifications, until one side ends it (MCP 2026-07-28, "Subscriptions").
    Listen,
    Other,
}

/// What is known of a request of the modern era.
struct ModernRequest {
    /// Its method, where its server may answer with questions.
    may_ask: Option<&'static str>,
    /// Seals the state by which the server knows the request again.
    key: [u8; 32],
    /// What its client is capable of when it is asked.
    can: CapabilitySet,
}

/// The request that is answered: what the client called it, and what the server was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ids {
    /// The client's id as it was written.
    pub(crate) client: String,
    /// The call that the server knows it by: this one, or where a stream is resumed, the one that began it.
    pub(crate) call: CallId,
}

/// The answers of one call that passed.
pub(crate) struct Answers {
    passed: Passed,
    asked: AskedMethod,
    modern: Option<ModernRequest>,
    /// What is between the server and a client of another era, or of many servers.
    bridge: Option<Bridge>,
    /// Whether the client can cancel the call by its id.
    is_registered: bool,
    /// Absent for a stream that answers no request.
    ids: Option<Ids>,
    bytes: u64,
    done: bool,
    /// The answer came under the id that the request was given.
    answered: bool,
    /// While this is here, the client's id is known to be under way, and the client can cancel the call.
    under_way: Option<UnderWay>,
    /// The server answered what it was not asked on this connection.
    foreign: bool,
    refused: Option<(&'static Code, String)>,
}

impl Answers {
    /// `id` is the request's id as it was written.
    pub(crate) fn new(passed: Passed, asked: AskedMethod, id: Option<String>) -> Answers {
        let call = passed.call();
        let ids = id.map(|client| Ids { client, call });
        Answers::resumed(passed, asked, ids)
    }

    /// The rest of the answers to a request that an earlier call asked.
    pub(crate) fn resumed(passed: Passed, asked: AskedMethod, ids: Option<Ids>) -> Answers {
        Answers {
            passed,
            asked,
            modern: None,
            bridge: None,
            is_registered: true,
            ids,
            bytes: 0,
            done: false,
            answered: false,
            under_way: None,
            foreign: false,
            refused: None,
        }
    }

    /// The same, to a request of the modern era: `may_ask` is its method where its server may answer with questions.
    pub(crate) fn modern(
        mut self,
        may_ask: Option<&'static str>,
        key: [u8; 32],
        can: CapabilitySet,
    ) -> Answers {
        self.modern = Some(ModernRequest { may_ask, key, can });
        // Its client cancels by closing the stream, and its ids are those of one connection. A run has no connection: it gives
        // each of its calls an id that no other has, and cancels by it.
        self.is_registered = self.passed.run().is_some();
        self
    }

    /// The same, for a client at the other side of a bridge.
    pub(crate) fn across(mut self, bridge: Bridge) -> Answers {
        self.is_registered = bridge.client() == Era::Legacy || self.passed.run().is_some();
        self.bridge = Some(bridge);
        self
    }

    /// The same, for weir itself, which cancels nothing.
    pub(crate) fn unregistered(mut self) -> Answers {
        self.is_registered = false;
        self
    }

    /// Whether the server waits for its client, and not its client for it.
    pub(crate) fn waits_for_client(&self) -> bool {
        let waits = self.bridge.as_ref().map(Bridge::waits);
        waits.is_some_and(|waits| waits.load(Ordering::Acquire))
    }

    /// Whether its client is one of many servers.
    pub(crate) fn is_across(&self) -> bool {
        self.bridge.is_some()
    }

    pub(crate) fn is_modern(&self) -> bool {
        self.modern.is_some()
    }

    pub(crate) fn passed(&self) -> &Passed {
        &self.passed
    }

    pub(crate) fn call(&self) -> CallId {
        self.passed.call()
    }

    pub(crate) fn asked(&self) -> AskedMethod {
        self.asked
    }

    pub(crate) fn ids(&self) -> Option<&Ids> {
        self.ids.as_ref()
    }

    pub(crate) fn is_for_request(&self) -> bool {
        self.ids.is_some()
    }

    /// Whether the answer to the request itself has come.
    pub(crate) fn is_done(&self) -> bool {
        self.done
    }

    /// Whether the connection that the answer came on can be used for another call: the answer was the one
    /// to this request, and nothing came that was not.
    pub(crate) fn is_clean(&self) -> bool {
        self.answered && !self.foreign
    }

    /// Whether something that the server said did not pass.
    pub(crate) fn is_refused(&self) -> bool {
        self.refused.is_some()
    }

    /// Lets the call be found by its client's id until it is answered.
    ///
    /// # Errors
    /// `mcp.id_in_use`, for a call that is no rest of another.
    pub(crate) fn begin(
        &mut self,
        calls: &Arc<Calls>,
        session: Option<&str>,
    ) -> Result<(), Refusal> {
        let is_to_begin = self.is_registered && self.under_way.is_none();
        let ids = self.ids.as_ref().filter(|_| is_to_begin);
        let Some(ids) = ids else { return Ok(()) };
        let (client, call) = (self.client(session), ids.call);
        self.under_way = Some(match call == self.call() {
            true => calls.begin(client, &ids.client, call)?,
            false => calls.resume(client, &ids.client, call),
        });
        Ok(())
    }

    /// The same, for a call that goes on by a way of weir's own.
    pub(crate) fn begin_on(
        &mut self,
        calls: &Arc<Calls>,
        session: Option<&str>,
        way: &OwnWay,
    ) -> Result<(), Refusal> {
        self.begin(calls, session)?;
        if let Some(under_way) = &self.under_way {
            under_way.goes(way.clone());
        }
        Ok(())
    }

    /// Whose ids the message's are.
    pub(crate) fn client<'a>(&'a self, session: Option<&'a str>) -> CallClient<'a> {
        CallClient {
            agent: self.passed.agent(),
            server: server_of(&self.passed),
            session,
        }
    }

    /// Waits until the client cancels the call.
    pub(crate) async fn cancelled(&self) {
        match &self.under_way {
            Some(call) => call.cancelled().await,
            None => std::future::pending().await,
        }
    }

    /// Whether the server answered what it was not asked: what else it says on this connection may be
    /// another's, so the connection has to end.
    pub(crate) fn is_foreign(&self) -> bool {
        self.foreign
    }

    /// Judges one message. What comes out is a message for the agent in every case: where the message
    /// may not pass and it answered the request, an error in its place; otherwise nothing.
    pub(crate) fn take(&mut self, declared: &Declared, message: &Bytes) -> Option<Bytes> {
        self.bytes += message.len() as u64;
        let was_done = self.done;
        let judged = self.judge(declared, message);
        match judged.and_then(|message| self.cross(message)) {
            Ok(message) => message,
            Err(refusal) => {
                self.note(&refusal);
                match self.done && !was_done {
                    true => self.error(&refusal),
                    false => None,
                }
            }
        }
    }

    /// A judged message as its client reads it; nothing where it is not for it.
    fn cross(&self, message: Bytes) -> Result<Option<Bytes>, Refusal> {
        let Some(bridge) = &self.bridge else {
            return Ok(Some(message));
        };
        let crossed = bridge.across(message, &own_token(self.call()));
        crossed.map_err(|code| {
            let public = "the server asks the client for input, which its revision cannot say";
            Refusal::new(code, public)
        })
    }

    fn judge(&mut self, declared: &Declared, message: &Bytes) -> Result<Bytes, Refusal> {
        let text = MessageText::of(message);
        let read = text.read(Sender::Server);
        let (parsed, whole) = read
            .and_then(|parsed| Ok((parsed, text.whole()?)))
            .map_err(|why| {
                // A server that answers garbage is not waited for: this is the answer.
                self.done = true;
                invalid(&format!("{why:?}"))
            })?;
        let Message::Response { id, result, error } = parsed else {
            self.passed.more_to_come();
            if self.is_modern() && matches!(parsed, Message::Request { .. }) {
                return Err(invalid("a request of a server to a client of 2026-07-28"));
            }
            let judged = self.scan(message, whole)?;
            return Ok(self.of_subscription(judged));
        };
        let Some((at, client)) = self.own(message, id)? else {
            return self.scan(message, whole);
        };
        match (result, error, self.asked) {
            (Some(_), _, AskedMethod::List(kind)) => {
                self.list((kind, declared), message, at, client)
            }
            (Some(said), ..) if is_question(&self.modern, said) => {
                self.question(message, said, &client)
            }
            (Some(said), ..) => {
                let judged = self.own_part(message, (said, "result"), at, &client)?;
                Ok(self.of_subscription(judged))
            }
            (None, Some(said), _) => self.own_part(message, (said, "error"), at, &client),
            (None, None, _) => Err(invalid("an answer without a result or an error")),
        }
    }

    /// Judges a list that answers the request, whose id stands at `at`.
    fn list(
        &mut self,
        (kind, declared): (ListKind, &Declared),
        message: &Bytes,
        at: Range<usize>,
        client: String,
    ) -> Result<Bytes, Refusal> {
        // The id is the client's own to read: neither ours nor its is looked at, or taken for a finding.
        let neutral = splice(message, at.clone(), NO_ID);
        let text = std::str::from_utf8(&neutral).map_err(|_| invalid("not UTF-8"))?;
        let judged = listing::judge(&mut self.passed, declared, kind, text)?;
        match judged == neutral {
            true => Ok(splice(message, at, &client)),
            false => with_id(&judged, client),
        }
    }

    /// Judges an answer that asks something before the request goes on. The state in it is sealed, and not looked at.
    fn question(
        &mut self,
        message: &Bytes,
        result: JsonValue<'_>,
        client: &str,
    ) -> Result<Bytes, Refusal> {
        let may_ask = self.modern.as_ref().and_then(|modern| modern.may_ask);
        let Some(method) = may_ask else {
            return Err(invalid("questions in answer to a request that has none"));
        };
        let can = self.modern.as_ref().map(|modern| modern.can);
        check_questions(can.unwrap_or_default(), result)?;
        let held = era::without_state(message, result);
        let bare = held.as_ref().map_or(message, |(bare, _)| bare);
        let text = MessageText::of(bare);
        let parsed = text.read(Sender::Server);
        let Ok(Message::Response {
            id: Some(id),
            result: Some(said),
            ..
        }) = parsed
        else {
            return Err(invalid("an answer that cannot be read without its state"));
        };
        let judged = self.own_part(bare, (said, "result"), span(bare, id.0), client)?;
        let (Some((_, state)), Some(modern)) = (&held, &self.modern) else {
            return Ok(judged);
        };
        let tokens = Tokens {
            key: &modern.key,
            agent: self.passed.agent(),
            server: server_of(&self.passed),
        };
        let sealed = tokens.state(method, state);
        let sealed = sealed.ok_or_else(|| invalid("a requestState of more than 64 KiB"))?;
        Ok(era::with_state(&judged, &sealed))
    }

    /// A message of a subscription, with the id that its client gave it in the place of ours.
    fn of_subscription(&self, message: Bytes) -> Bytes {
        let ids = self.ids.as_ref();
        match ids.filter(|_| self.asked == AskedMethod::Listen) {
            Some(ids) => era::with_subscription(&message, &own_id(ids.call), &ids.client),
            None => message,
        }
    }

    /// Judges what the answer to the request says, and gives the answer the client's id in place of the one at `at`.
    fn own_part(
        &mut self,
        message: &Bytes,
        (said, path): (JsonValue<'_>, &str),
        at: Range<usize>,
        client: &str,
    ) -> Result<Bytes, Refusal> {
        let Some(redacted) = self.redacted(said, path)? else {
            return Ok(splice(message, at, client));
        };
        let text = std::str::from_utf8(&redacted).map_err(|_| invalid("not UTF-8"))?;
        // The later part first, so that the place of the other stays.
        let (first, last) = match at.start < said.span().start {
            true => ((at, client), (said.span(), text)),
            false => ((said.span(), text), (at, client)),
        };
        Ok(splice(&splice(message, last.0, last.1), first.0, first.1))
    }

    /// Whether an answer is the one to the request: where its id stands, and the id that the client gave.
    /// Nothing where a server says that it could not read the request's id.
    fn own(
        &mut self,
        message: &[u8],
        id: Option<Id<'_>>,
    ) -> Result<Option<(Range<usize>, String)>, Refusal> {
        let asked = self.ids.as_ref().filter(|_| !self.done);
        let is_own = |ids: &Ids| id.is_none_or(|id| id.0 == own_id(ids.call));
        let ids = asked.filter(|ids| is_own(ids));
        self.done = true;
        // Its client may use the id again.
        self.under_way = None;
        match (ids, id) {
            (Some(ids), Some(id)) => {
                self.answered = true;
                Ok(Some((span(message, id.0), ids.client.clone())))
            }
            (Some(_), None) => Ok(None),
            (None, _) => {
                self.foreign = true;
                Err(invalid(
                    "an answer to a request that was not made, or is answered",
                ))
            }
        }
    }

    fn scan(&mut self, message: &Bytes, whole: JsonValue<'_>) -> Result<Bytes, Refusal> {
        let redacted = self.redacted(whole, "")?;
        Ok(redacted.map_or_else(|| message.clone(), Bytes::from))
    }

    /// Scans a part of what the server said: what is to stand in its place, where that is another.
    fn redacted(&mut self, part: JsonValue<'_>, path: &str) -> Result<Option<Vec<u8>>, Refusal> {
        match self.passed.answer(part, path)? {
            Answer::AsItCame => Ok(None),
            Answer::Redacted(json) if shape::is_kept(part.bytes(), &json) => Ok(Some(json)),
            Answer::Redacted(_) => {
                let public = "a secret stands where it cannot be taken out of the answer";
                Err(Refusal::new(refusal::SECRET, public).of_answer())
            }
        }
    }

    /// The JSON-RPC error that answers the request with this refusal, if there is a request.
    pub(crate) fn error(&mut self, refusal: &Refusal) -> Option<Bytes> {
        self.note(refusal);
        self.done = true;
        let id = self.ids.as_ref().map(|ids| Id(&ids.client))?;
        Some(Bytes::from(refuse::error(
            refusal,
            self.passed.call(),
            Some(id),
        )))
    }

    fn note(&mut self, refusal: &Refusal) {
        let why = if refusal.private.is_empty() {
            &refusal.public
        } else {
            &refusal.private
        };
        self.refused.get_or_insert((refusal.code, why.clone()));
    }

    /// Records how the call ended. `fallback` is what it is where nothing was refused.
    pub(crate) fn end(self, fallback: CallEnd, status: u16) {
        let end = match &self.refused {
            Some((code, _)) if code.is_of_scan => CallEnd::Refused,
            Some(_) if fallback == CallEnd::Complete => CallEnd::Failed,
            _ => fallback,
        };
        let why = self
            .refused
            .as_ref()
            .map(|(code, why)| (code.name, why.as_str()));
        self.passed.end(CallEnding {
            status,
            bytes: self.bytes,
            why,
            ..CallEnding::of(end)
        });
    }
}

/// Whether a result asks something before the request goes on (MCP 2026-07-28, "Multi Round-Trip Requests").
fn is_question(modern: &Option<ModernRequest>, result: JsonValue<'_>) -> bool {
    let kind = modern.as_ref().and_then(|_| result.get("resultType"));
    kind.and_then(JsonValue::as_str).as_deref() == Some("input_required")
}

/// Holds what a server asks against what its client is capable of.
fn check_questions(can: CapabilitySet, result: JsonValue<'_>) -> Result<(), Refusal> {
    let asked = result.get("inputRequests").into_iter();
    for (_, asked) in asked.flat_map(JsonValue::members) {
        let method = asked.get("method").and_then(JsonValue::as_str);
        let method = method.ok_or_else(|| invalid("a question without a method"))?;
        if let Err(missing) = can.check(&method, asked.get("params")) {
            let public = format!("the server asks for {missing}, which the client has not");
            return Err(Refusal::new(refusal::CAPABILITY_MISSING, public));
        }
    }
    Ok(())
}

/// A judged message with the client's id.
fn with_id(judged: &[u8], client: String) -> Result<Bytes, Refusal> {
    let text = std::str::from_utf8(judged).ok();
    let put = text.and_then(Object::read).and_then(|mut object| {
        object.set("id", client)?;
        Some(Bytes::from(object.to_json()))
    });
    put.ok_or_else(|| invalid("what is redacted is no message any more"))
}

fn invalid(why: &str) -> Refusal {
    Refusal::new(
        refusal::ANSWER_INVALID,
        "the server sent what is not an MCP message",
    )
    .with_private(why.to_owned())
}
