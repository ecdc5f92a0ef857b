//! From a client's message to what its server is sent: the one order of checks, whatever brought the message.
//!
//! What differs between the transports of clients is their [`Link`]. Who calls is known before; what is sent,
//! and what comes back, is the caller's to carry.

use base::record::CallEnd;
use base::{Refusal, refusal};
use bytes::Bytes;
use gate::{Call, Passed};
use identity::Verified;

use crate::answers::Answers;
use crate::envelope::{Message, MessageText};
use crate::incoming::{self, Incoming};
use crate::lane::{Server, Shared};
use crate::outbound::{Cancelled, Outgoing};

/// The way between a client and a server, as far as its messages are judged by it.
pub(crate) trait Link {
    /// Where a message goes that may begin.
    type Way;

    /// What else is wrong with how the message came. It is said of messages that can be read, so that it reaches
    /// the request.
    fn check(&self) -> Result<(), Refusal> {
        Ok(())
    }

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
pub(crate) async fn drive<L: Link>(
    shared: &Shared,
    link: &L,
    server: &Server,
    verified: Verified,
    bare: Call<'_>,
    body: &Bytes,
) -> Result<Driven<L::Way>, Refused> {
    let gate = &shared.gate;
    let no = async |verified: &Verified, call: &Call<'_>, refusal: Refusal, to: To| Refused {
        // What a session says of the stop that ended it is the gate's word.
        is_judged: refusal.code == refusal::STOPPED,
        refusal: gate.reject(Some(verified), call, refusal).await,
        to,
    };
    let text = MessageText::of(body);
    let parsed = match incoming::parse(&text) {
        Ok(parsed) => parsed,
        Err(refusal) => {
            return Err(no(&verified, &bare, refusal, To::Client(None)).await);
        }
    };
    let to = || To::sender_of(&parsed.message);
    let (server, declared) = (&server.name, &shared.declared);
    let read = link.check();
    let read = read.and_then(|()| Incoming::read(&parsed, server, declared));
    let said = match read {
        Ok(said) => said,
        Err(refusal) => return Err(no(&verified, &bare, refusal, to()).await),
    };
    let resource = said.resource(server);
    let call = said.call(bare, &resource, body);
    let way = match link.begin(&verified, &said) {
        Ok(way) => way,
        Err(refusal) => return Err(no(&verified, &call, refusal, to()).await),
    };
    let passed = gate.pass(verified, call).await;
    let passed = passed.map_err(|refusal| Refused::by_gate(refusal, to()))?;
    let cancels = said.cancels();
    let cancelled = cancels.and_then(|client| {
        let own = link.under_way(&way, &passed, client)?;
        let client = client.to_owned();
        Some(Cancelled { client, own })
    });
    let own = cancelled.as_ref().map(|cancelled| &*cancelled.own);
    let message = said.message(&passed, body, own);
    let answers = said.answers(passed);
    let outgoing = match message {
        _ if cancels.is_some() && cancelled.is_none() => None,
        Ok(message) => Some(Outgoing {
            message,
            id: said.id.map(|id| id.0.to_owned()),
            progress: said.progress(),
            cancelled,
            is_initialize: said.method == "initialize",
            revision: None,
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
