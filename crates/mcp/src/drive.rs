//! From a client's message to what its server is sent: the one order of checks, whatever brought the message.
//!
//! What differs between the transports of clients is their [`ClientWay`]. Who calls is known before; what is sent,
//! and what comes back, is the caller's to carry.

use base::record::CallEnd;
use base::{Refusal, refusal};
use bytes::Bytes;
use gate::{Call, CallEnding, Passed};
use identity::Verified;

use crate::actions::USE;
use crate::answers::Answers;
use crate::envelope::{Message, MessageText};
use crate::era::{HeldState, MessageEra};
use crate::incoming::{self, Incoming, Parsed};
use crate::lane::{Server, Shared};
use crate::upstream::{Cancelled, Outgoing};

/// How a client of the modern era asks which revisions are spoken.
const DISCOVER: &str = "server/discover";

/// The way between a client and a server, as far as its messages are judged by it.
pub(crate) trait ClientWay {
    /// Where a message goes that may begin.
    type Way;

    /// The era that a message is of, by what it says and by how it came. It is asked of messages that can be read, so
    /// that what is wrong reaches the request.
    fn era(&self, message: &Message<'_>) -> Result<MessageEra, Refusal>;

    /// Whether the message may begin.
    fn begin(&self, verified: &Verified, said: &Incoming<'_>) -> Result<Self::Way, Refusal>;

    /// The id that the server was given for a request of the client that is under way.
    fn under_way(&self, way: &Self::Way, passed: &Passed, client: &str) -> Option<String>;
}

/// A message that passed.
pub(crate) struct Driven<W> {
    pub(crate) way: W,
    pub(crate) answers: Answers,
    /// Nothing where it cancels a request that was answered, or never made.
    pub(crate) outgoing: Option<Outgoing>,
    /// Who is told where it does not reach the server.
    pub(crate) to: To,
}

/// A message that does not go on, and who is told.
pub(crate) struct Refused {
    pub(crate) refusal: Refusal,
    pub(crate) to: To,
    /// The gate said it, or what came after it: not one of the exchange.
    pub(crate) is_judged: bool,
}

pub(crate) enum To {
    /// The request's id, where the message could be read.
    Client(Option<String>),
    /// The message answered this request of the server, which waits for it.
    Server(String),
    /// A notification: nobody waits.
    Nobody,
}

impl To {
    fn sender_of(message: &Message<'_>) -> To {
        match message {
            Message::Request { id, .. } => To::Client(Some(id.0.to_owned())),
            Message::Response { id: Some(id), .. } => To::Server(id.0.to_owned()),
            Message::Response { id: None, .. } | Message::Notification { .. } => To::Nobody,
        }
    }
}

impl Refused {
    /// A refusal that the gate has recorded.
    pub(crate) fn by_gate(refusal: Refusal, to: To) -> Refused {
        Refused {
            refusal,
            to,
            is_judged: true,
        }
    }

    /// A call that passed, and whose message does not go on.
    pub(crate) fn passed(answers: Answers, refusal: Refusal, to: To) -> Refused {
        failed(answers, &refusal);
        Refused::by_gate(refusal, to)
    }
}

/// Ends a call that passed and did not go well; gives the error that answers its request, if it is one.
pub(crate) fn failed(mut answers: Answers, refusal: &Refusal) -> Option<Bytes> {
    let error = answers.error(refusal);
    let end = match refusal.code == refusal::CANCELLED {
        true => CallEnd::Cut,
        false => CallEnd::Failed,
    };
    answers.end(end, 0);
    error
}

/// Judges one message of a client that is known; `bare` says what is known of the call without the message.
pub(crate) async fn drive<C: ClientWay>(
    shared: &Shared,
    client: &C,
    server: &Server,
    verified: Verified,
    bare: Call<'_>,
    body: &Bytes,
) -> Result<Driven<C::Way>, Refused> {
    let text = MessageText::of(body);
    let parsed = match incoming::parse(&text) {
        Ok(parsed) => parsed,
        Err(refusal) => {
            let to = To::Client(None);
            return Err(no(shared, &verified, &bare, refusal, to).await);
        }
    };
    let tokens = shared.tokens(&verified.agent().name, &server.name);
    let began = client.era(&parsed.message).and_then(|era| {
        let state = HeldState::take(&era, &parsed.message, body, tokens)?;
        Ok((era, state))
    });
    let (era, state) = match began {
        Ok(began) => began,
        Err(refusal) => {
            let to = To::sender_of(&parsed.message);
            if is_finding_a_revision(&refusal, method_of(&parsed.message)) {
                let call = Call {
                    action: &USE,
                    method: DISCOVER,
                    bytes: body.len() as u64,
                    ..bare
                };
                return Err(not_spoken(shared, verified, call, refusal, to).await);
            }
            return Err(no(shared, &verified, &bare, refusal, to).await);
        }
    };
    let Some(state) = state else {
        let message = (body, &parsed, &era);
        return judge(shared, client, server, verified, bare, message).await;
    };
    // What the server wrote is not the agent's to be judged by: the message is judged without it.
    let text = MessageText::of(&state.without);
    let parsed = match incoming::parse(&text) {
        Ok(parsed) => parsed,
        Err(refusal) => {
            let to = To::sender_of(&parsed.message);
            return Err(no(shared, &verified, &bare, refusal, to).await);
        }
    };
    let message = (&state.without, &parsed, &era);
    // In a box, since it is rare: the others do not pay for its place.
    let judged = Box::pin(judge(shared, client, server, verified, bare, message)).await;
    judged.map(|mut driven| {
        if let Some(outgoing) = &mut driven.outgoing {
            outgoing.message = state.put_back(&outgoing.message);
        }
        driven
    })
}

/// Records a refusal that was found before the gate was asked.
async fn no(
    shared: &Shared,
    verified: &Verified,
    call: &Call<'_>,
    refusal: Refusal,
    to: To,
) -> Refused {
    Refused {
        // What a session says of the stop that ended it is the gate's word.
        is_judged: refusal.code == refusal::STOPPED,
        refusal: shared.gate.reject(Some(verified), call, refusal).await,
        to,
    }
}

/// Whether a client is told which revisions are spoken, in answer to the question by which it finds that out.
fn is_finding_a_revision(refusal: &Refusal, method: &str) -> bool {
    refusal.code == refusal::REVISION && method == DISCOVER
}

fn method_of<'m>(message: &'m Message<'_>) -> &'m str {
    match message {
        Message::Request { method, .. } => method,
        Message::Response { .. } | Message::Notification { .. } => "",
    }
}

/// Answers a client that asks in a revision which is not spoken here. Clients begin so that know a newer one, and go on in the
/// newest that both speak: the call is judged as any, and nothing is refused where it passes.
async fn not_spoken(
    shared: &Shared,
    verified: Verified,
    call: Call<'_>,
    refusal: Refusal,
    to: To,
) -> Refused {
    let passed = match shared.gate.pass(verified, call).await {
        Ok(passed) => passed,
        Err(refusal) => return Refused::by_gate(refusal, to),
    };
    passed.end(CallEnding {
        status: refusal.code.status,
        why: Some((refusal.code.name, &refusal.private)),
        ..CallEnding::of(CallEnd::Complete)
    });
    Refused {
        refusal,
        to,
        is_judged: false,
    }
}

/// The same, of a message whose era is known.
async fn judge<C: ClientWay>(
    shared: &Shared,
    client: &C,
    server: &Server,
    verified: Verified,
    bare: Call<'_>,
    (body, parsed, era): (&Bytes, &Parsed<'_>, &MessageEra),
) -> Result<Driven<C::Way>, Refused> {
    let to = || To::sender_of(&parsed.message);
    let (server, declared) = (&server.name, &shared.declared);
    let said = match Incoming::read(parsed, era, server, declared) {
        Ok(said) => said,
        Err(refusal) => return Err(no(shared, &verified, &bare, refusal, to()).await),
    };
    let resource = said.resource(server);
    let call = said.call(bare, &resource, body);
    let way = match client.begin(&verified, &said) {
        Ok(way) => way,
        Err(refusal) if is_finding_a_revision(&refusal, said.method) => {
            return Err(not_spoken(shared, verified, call, refusal, to()).await);
        }
        Err(refusal) => return Err(no(shared, &verified, &call, refusal, to()).await),
    };
    let passed = shared.gate.pass(verified, call).await;
    let passed = passed.map_err(|refusal| Refused::by_gate(refusal, to()))?;
    let cancels = said.cancels();
    let cancelled = cancels.and_then(|id| {
        let own = client.under_way(&way, &passed, id)?;
        let client = id.to_owned();
        Some(Cancelled { client, own })
    });
    let own = cancelled.as_ref().map(|cancelled| &*cancelled.own);
    let message = said.message(&passed, body, own);
    let message = message
        .and_then(|message| Ok((said.fields(&passed, server, declared, &message)?, message)));
    let answers = said.answers(passed, &shared.settings.session_key);
    let outgoing = match message {
        _ if cancels.is_some() && cancelled.is_none() => None,
        Ok((fields, message)) => Some(Outgoing {
            message,
            id: said.id.map(|id| id.0.to_owned()),
            progress: said.progress(),
            cancelled,
            is_initialize: said.method == "initialize",
            revision: era.revision(),
            wants_log: era.wants_log(),
            fields,
            takes_events: false,
        }),
        Err(refusal) => return Err(Refused::passed(answers, refusal, to())),
    };
    Ok(Driven {
        way,
        answers,
        outgoing,
        to: to(),
    })
}
