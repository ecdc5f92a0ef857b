//! Looking at an agent's card: for a client that asks for it, and before messages go to an agent whose card was not looked at
//! for a while.
//!
//! Clients keep cards, so an agent that says something else of itself would not be noticed by those who ask for its card alone.

use std::net::IpAddr;
use std::sync::atomic::Ordering;

use base::record::CallEnd;
use base::{CARD, ItemKind, Json, Refusal, Resource, ServerItem, refusal};
use bytes::Bytes;
use gate::{Answer, Call, CallEnding, Passed};
use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use http::{Method, StatusCode};
use identity::Verified;
use net::{Body, Response};

use crate::actions;
use crate::card::{CARD_BYTES_MAX, Card};
use crate::lane::{A2aLane, RemoteAgent};
use crate::refuse;
use crate::send::{authorize, has_token, of_send};

/// How long a card that was found good is taken for good, in milliseconds.
const CARD_MS: u64 = 60_000;
/// How long an agent may take to give its card, in milliseconds, where it may not take less to answer.
const CARD_ANSWER_MS: u64 = 10_000;

/// Shows a card to a client. `url` is where the client reaches the agent.
pub(crate) async fn show(
    lane: &A2aLane,
    agent: &RemoteAgent,
    verified: Verified,
    call: Call<'_>,
    url: &str,
) -> Response {
    let mut passed = match lane.shared.gate.pass(verified, call).await {
        Ok(passed) => passed,
        Err(refusal) => return refuse::refuse(&refusal, call.id),
    };
    let card = match fetch(lane, agent, &mut passed).await {
        Ok((card, _)) => card.at(url),
        Err(refusal) => Err(refusal),
    };
    end(passed, card.as_ref().map(Vec::len));
    match card {
        Ok(card) => {
            let mut response = Response::new(Body::Full(card.into()));
            let fields = response.headers_mut();
            fields.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            // Another caller may not be shown it, and it may be held the next moment.
            fields.insert(CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
            response
        }
        Err(refusal) => refuse::refuse(&refusal, call.id),
    }
}

/// Looks at the card of the agent at this place of the settings, unless that was done a moment ago. A card that is held is no
/// error: the gate refuses what it holds.
///
/// # Errors
/// What is wrong with the card; it is recorded with the call of weir's own.
pub(crate) async fn look(lane: &A2aLane, at: usize, peer: IpAddr) -> Result<(), Refusal> {
    let settings = lane.settings();
    let (agent, seen) = (&settings.agents[at], &lane.shared.cards_seen[at]);
    let now_ms = (settings.now_ms)();
    let seen_ms = seen.load(Ordering::Relaxed);
    if seen_ms > 0 && now_ms.saturating_sub(seen_ms - 1) < CARD_MS {
        return Ok(());
    }
    let resource = Resource::card(agent.name.clone());
    let action = &actions::CARD;
    let call = Call::new((settings.new_id)(), peer, action, &resource, action.method);
    let mut passed = lane.shared.gate.own(call).await?;
    let card = fetch(lane, agent, &mut passed).await;
    end(passed, card.as_ref().map(|(_, bytes)| *bytes));
    match card {
        Ok(_) => seen.store(now_ms + 1, Ordering::Relaxed),
        Err(refusal) if refusal.code == refusal::TOOL_CHANGED => {}
        Err(refusal) => return Err(refusal),
    }
    Ok(())
}

fn end(passed: Passed, card: Result<usize, &Refusal>) {
    passed.end(match card {
        Ok(bytes) => CallEnding {
            status: 200,
            bytes: bytes as u64,
            ..CallEnding::of(CallEnd::Complete)
        },
        Err(refusal) => CallEnding {
            why: Some((refusal.code.name, &refusal.private)),
            ..CallEnding::of(match refusal.code.is_of_scan {
                true => CallEnd::Refused,
                false => CallEnd::Failed,
            })
        },
    });
}

/// Asks for the card, and has it scanned and held against what was approved. Gives how many bytes came.
async fn fetch(
    lane: &A2aLane,
    agent: &RemoteAgent,
    passed: &mut Passed,
) -> Result<(Card, usize), Refusal> {
    let mut request = http::Request::new(Bytes::new());
    *request.method_mut() = Method::GET;
    let fields = request.headers_mut();
    fields.insert(ACCEPT, HeaderValue::from_static("application/json"));
    authorize(agent, fields)?;
    let answer_ms = agent.answer_ms.min(CARD_ANSWER_MS);
    let sent = lane
        .upstreams
        .send_to(passed, &agent.card, request, answer_ms)
        .await;
    let mut answer = sent.map_err(of_send)?;
    let status = answer.head.status;
    let body = answer.whole(CARD_BYTES_MAX, answer_ms).await;
    answer.reuse();
    if status != StatusCode::OK {
        let what = "the agent does not give its card";
        let private = format!("{} answered {status}", agent.card);
        return Err(Refusal::new(refusal::A2A_CARD_INVALID, what).with_private(private));
    }
    let body = body.map_err(of_send)?;
    let definition = Card::read(&body)?.definition();
    if Json::read(&definition).is_ok_and(|card| has_token(agent, card.root())) {
        let what = "the token that the agent is asked with stands in its card";
        return Err(Refusal::new(refusal::A2A_CARD_INVALID, what));
    }
    let item = ServerItem {
        kind: ItemKind::Card,
        name: CARD.into(),
    };
    let is_kept = |redacted: &[u8]| Json::read(redacted).is_ok() && Card::read(redacted).is_ok();
    let judged = passed.definition(&item, &definition, "card", is_kept)?;
    let card = match judged {
        Answer::AsItCame => Card::read(&definition)?,
        Answer::Redacted(redacted) => Card::read(&redacted)?,
    };
    Ok((card, body.len()))
}
