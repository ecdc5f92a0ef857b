use futures_util::FutureExt;

use std::sync::Arc;

use base::limit::{EVENTS_WAITING_MAX, SESSION_EVICT_MS};
use base::{Digest, Name, Refusal, refusal};

use super::link::SharedCaller;
use super::state::MESSAGES_WAITING_MAX;
use super::*;
use crate::lane::Server;
use crate::waiting::{BadLine, gone};

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

fn stopped() -> Refusal {
    Refusal::new(refusal::STOPPED, "the operator stopped this agent")
}

fn server(sessions_max: usize, agent_sessions_max: usize) -> Server {
    Server {
        name: name("files"),
        kind: crate::lane::ServerKind::Url { token: None },
        sessions_max,
        agent_sessions_max,
        tells_agent: false,
        list_ms: 0,
        names: Default::default(),
        items: Default::default(),
        session_idle_ms: 10,
    }
}

fn begin(sessions: &Links, agent: &str, server: &Server, now_ms: u64) -> Arc<Link> {
    sessions.begin(&name(agent), None, server, now_ms).unwrap()
}

#[test]
fn sessions_belong_to_one_agent_and_end_when_idle_or_without_a_key() {
    let sessions = Links::default();
    let server = server(9, 9);
    let one = begin(&sessions, "dev", &server, 0);
    let find = |agent| sessions.find(&one.id, &name(agent), &name("files"));
    assert!(find("dev").is_some() && find("eve").is_none());
    sessions.sweep(10, |_| 10, |_, _| Ok(()));
    assert_eq!(sessions.len(), 1);
    sessions.sweep(11, |_| 10, |_, _| Ok(()));
    assert_eq!(sessions.len(), 0);
    assert!(one.is_ended() && one.wait("w1", "1", None, true).is_err());
    let key = Digest([1; 32]);
    let two = sessions.begin(&name("dev"), Some(key), &server, 0).unwrap();
    let is_dev = |agent: &Name, thumbprint: Option<&Digest>| {
        let is_dev = (agent.as_str(), thumbprint) == ("dev", Some(&key));
        is_dev.then_some(()).ok_or_else(stopped)
    };
    sessions.sweep(0, |_| 10, is_dev);
    assert!(!two.is_ended());
    let mut call = two.wait("w1", "1", None, true).unwrap();
    sessions.sweep(0, |_| 10, |_, _| Err(stopped()));
    assert!(two.is_ended());
    assert_eq!(said(&mut call), Some(Err("gate.stopped")),);
}

#[test]
fn the_longest_unused_session_makes_room() {
    let sessions = Links::default();
    let server = server(3, 2);
    let refused = |agent, now_ms| {
        let refused = sessions
            .begin(&name(agent), None, &server, now_ms)
            .err()
            .unwrap();
        (refused.code.name, refused.retry_ms.is_some())
    };
    let first = begin(&sessions, "dev", &server, 1);
    let second = begin(&sessions, "dev", &server, 2);
    first.used(3);
    let third = begin(&sessions, "dev", &server, 4);
    assert!(second.is_ended() && !first.is_ended());
    // In use: a call under way, or an open stream.
    let _call = first.wait("w1", "1", None, true).unwrap();
    let _stream = third.listen().unwrap();
    assert_eq!(refused("dev", 5), ("mcp.server_busy", true));
    let others = begin(&sessions, "eve", &server, 5);
    // The server is full: another agent's session goes once it was unused for long, not before.
    assert_eq!(refused("kim", 6), ("mcp.server_busy", true));
    let kim = begin(&sessions, "kim", &server, 5 + SESSION_EVICT_MS);
    assert!(others.is_ended() && !kim.is_ended());
}

/// What a reader is told next, if anything waits for it.
fn said(messages: &mut Messages) -> Option<Result<Bytes, &'static str>> {
    let next = tokio::task::unconstrained(messages.next());
    let said = next.now_or_never().flatten();
    said.map(|said| said.map_err(|refusal| refusal.code.name))
}

#[tokio::test]
async fn messages_find_the_call_or_the_stream_that_they_belong_to() {
    let sessions = Links::default();
    let session = begin(&sessions, "dev", &server(1, 1), 0);
    session.tell(Bytes::from_static(b"early"), None).await;
    let (mut stream, missed) = session.listen().unwrap();
    assert_eq!(missed, [Bytes::from_static(b"early")]);
    assert!(session.listen().is_err());
    let mut call = session.wait("1", "a", Some("7".into()), true).unwrap();
    assert!(session.wait("2", "a", None, true).is_err());
    assert_eq!(session.under_way("a").as_deref(), Some("1"));
    session.tell("progress".into(), Some("7")).await;
    session.tell("other".into(), Some("8")).await;
    assert_eq!(session.hear(answer(1)).await, Ok(()));
    assert_eq!(session.hear(answer(1)).await, Err(BadLine::Foreign));
    assert_eq!(said(&mut call), Some(Ok("progress".into())));
    assert_eq!(said(&mut call), Some(Ok(answer(1))));
    assert_eq!(said(&mut call), None);
    assert_eq!(said(&mut stream), Some(Ok("other".into())));
    // A call that was ended may be answered still.
    let mut ended = session.wait("1", "a", None, true).unwrap();
    session.end_calls(&gone("it was ended"));
    assert_eq!(said(&mut ended), Some(Err("mcp.server_down")));
    assert_eq!(session.hear(answer(1)).await, Ok(()));
    // What is decided about the session is told to its stream.
    sessions.end(&session, &stopped());
    assert_eq!(said(&mut stream), Some(Err("gate.stopped")));
}

#[tokio::test]
async fn on_a_link_of_weirs_own_the_log_is_for_calls() {
    let sessions = Links::default();
    let session = begin(&sessions, "dev", &server(1, 1), 0);
    session.own();
    let (mut stream, _) = session.listen().unwrap();
    // Weir's stream is no use of it by a client.
    assert!(session.is_unused());
    let told = |method: &str| Bytes::from(format!(r#"{{"jsonrpc":"2.0","method":"{method}"}}"#));
    let log = told("notifications/message");
    let changed = told("notifications/tools/list_changed");
    assert_eq!(session.hear(log.clone()).await, Ok(()));
    let mut call = session.wait("1", "a", None, true).unwrap();
    assert_eq!(session.hear(log.clone()).await, Ok(()));
    assert_eq!(session.hear(changed.clone()).await, Ok(()));
    assert_eq!(said(&mut call), Some(Ok(log)));
    assert_eq!(said(&mut call), None);
    assert_eq!(said(&mut stream), Some(Ok(changed)));
    assert_eq!(said(&mut stream), None);
}

fn answer(own: u32) -> Bytes {
    Bytes::from(format!(r#"{{"jsonrpc":"2.0","id":{own},"result":{{}}}}"#))
}

#[tokio::test]
async fn of_what_nobody_hears_the_newest_is_kept_and_the_loss_told_once() {
    let sessions = Links::default();
    let session = begin(&sessions, "dev", &server(1, 1), 0);
    for at in 0..EVENTS_WAITING_MAX {
        session.tell(at.to_string().into(), None).await;
        assert!(!session.state().lost);
    }
    assert!(session.state().keep("one more".into()));
    assert!(!session.state().keep("and another".into()));
    let (_, missed) = session.listen().unwrap();
    assert_eq!(
        (missed.len(), &*missed[0]),
        (EVENTS_WAITING_MAX, b"2".as_slice())
    );
}

#[tokio::test]
async fn a_burst_of_messages_is_heard_whole() {
    let sessions = Links::default();
    let session = begin(&sessions, "dev", &server(1, 1), 0);
    let mut call = session.wait("1", "a", Some("7".into()), true).unwrap();
    let burst = 4 * MESSAGES_WAITING_MAX;
    let tell = async {
        for at in 0..burst {
            session.tell(at.to_string().into(), Some("7")).await;
        }
        session.hear(answer(1)).await.unwrap();
    };
    let hear = async {
        for at in 0..burst {
            let heard = call.next().await.unwrap().unwrap();
            assert_eq!(heard, Bytes::from(at.to_string()));
        }
        assert_eq!(call.next().await.unwrap().unwrap(), answer(1));
    };
    tokio::join!(tell, hear);
}

#[tokio::test]
async fn a_client_that_takes_nothing_loses_its_own_call_alone() {
    let sessions = Links::default();
    let session = begin(&sessions, "dev", &server(1, 1), 0);
    let mut call = session.wait("1", "a", Some("7".into()), true).unwrap();
    let mut other = session.wait("2", "b", None, true).unwrap();
    for at in 0..MESSAGES_WAITING_MAX {
        session.tell(at.to_string().into(), Some("7")).await;
    }
    assert_eq!(session.under_way("a"), None);
    for own in [1, 2] {
        assert_eq!(session.hear(answer(own)).await, Ok(()));
    }
    assert_eq!(said(&mut other), Some(Ok(answer(2))));
    for at in 0..MESSAGES_WAITING_MAX - 1 {
        assert_eq!(said(&mut call), Some(Ok(at.to_string().into())));
    }
    assert_eq!(said(&mut call), Some(Err("mcp.client_slow")));
    // A stream that nobody reads ends, and what it did not take waits for the next.
    let (mut stream, _) = session.listen().unwrap();
    for at in 0..EVENTS_WAITING_MAX {
        session.tell(at.to_string().into(), None).await;
    }
    for at in 0..EVENTS_WAITING_MAX - 1 {
        assert_eq!(said(&mut stream), Some(Ok(at.to_string().into())));
    }
    assert_eq!(said(&mut stream), Some(Err("mcp.client_slow")));
    let (_, missed) = session.listen().unwrap();
    assert_eq!(missed, [Bytes::from((EVENTS_WAITING_MAX - 1).to_string())]);
}

#[test]
fn links_that_are_retired_are_not_found_and_end_their_calls() {
    let sessions = Links::default();
    let server = server(3, 3);
    let session = begin(&sessions, "dev", &server, 1);
    let _call = session.wait("w1", "1", None, true).unwrap();
    assert!(sessions.retire(|name| name.as_str() == "other").is_empty());
    let retired = sessions.retire(|name| name.as_str() == "files");
    assert_eq!(retired.len(), 1);
    assert!(session.is_busy() && !session.is_ended());
    let found = sessions.find(&session.id, &name("dev"), &name("files"));
    assert!(found.is_none() && sessions.len() == 0);
    session.forget("w1");
    assert!(!session.is_busy());
    sessions.end(&session, &stopped());
    assert!(session.is_ended());
}

#[tokio::test]
async fn a_shared_link_is_one_agents_with_one_key_and_no_session() {
    let (links, server) = (Links::default(), server(9, 9));
    let (dev, key) = (name("dev"), Some(Digest([1; 32])));
    let link = links.share(&dev, key, &server, 0).unwrap();
    let is_same = |other: &Arc<Link>| Arc::ptr_eq(&link, other);
    assert!(is_same(&links.share(&dev, key, &server, 1).unwrap()));
    assert!(!is_same(&links.share(&dev, None, &server, 1).unwrap()));
    let eve = links.share(&name("eve"), key, &server, 1).unwrap();
    assert!(!is_same(&eve));
    assert!(links.find(&link.id, &dev, &server.name).is_none());
    // A subscription keeps it, and once it ended it is swept like a session.
    let takes = SharedCaller {
        takes_events: true,
        is_listen: true,
        wants_log: false,
    };
    let mut open = link.wait_shared("\"w1\"", takes, 1).unwrap();
    let full = link.wait_shared("\"w2\"", takes, 1).err().unwrap();
    assert_eq!(full.code.name, "mcp.server_busy");
    links.sweep(99, |_| 10, |_, _| Ok(()));
    assert!(!link.is_ended() && eve.is_ended());
    let ends =
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"w1"}}"#;
    assert_eq!(link.hear(ends.into()).await, Ok(()));
    assert!(open.next().await.is_none());
    links.sweep(99, |_| 10, |_, _| Ok(()));
    assert!(link.is_ended());
    assert!(!is_same(&links.share(&dev, key, &server, 99).unwrap()));
}

#[tokio::test]
async fn what_a_shared_child_says_is_for_one_call_or_for_nobody() {
    let links = Links::default();
    let link = links.share(&name("dev"), None, &server(1, 1), 0).unwrap();
    let caller = |own: &str, wants_log, is_listen| {
        let takes = SharedCaller {
            takes_events: true,
            is_listen,
            wants_log,
        };
        link.wait_shared(own, takes, 9).unwrap()
    };
    let mut calls = [
        caller("\"w1\"", false, false),
        caller("\"w2\"", true, false),
        caller("\"w3\"", true, false),
        caller("\"w4\"", false, true),
    ];
    let says = |method: &str, params: &str| {
        let line = format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{{{params}}}}}"#);
        Bytes::from(line)
    };
    let of = r#""_meta":{"io.modelcontextprotocol/subscriptionId":"w4"}"#;
    let of_a_call = of.replace("w4", "w1");
    for (line, to) in [
        (
            says("notifications/progress", r#""progressToken":"w1""#),
            Some(0),
        ),
        (
            says("notifications/progress", r#""progressToken":"w9""#),
            None,
        ),
        // The token of a subscription is none, and a call is no subscription.
        (
            says("notifications/progress", r#""progressToken":"w4""#),
            None,
        ),
        (says("notifications/tools/list_changed", &of_a_call), None),
        (says("notifications/tools/list_changed", of), Some(3)),
        (says("notifications/tools/list_changed", ""), None),
        (says("notifications/message", r#""data":1"#), Some(1)),
        // Only the end of a subscription is the server's to tell.
        (says("notifications/cancelled", r#""requestId":"w1""#), None),
    ] {
        assert_eq!(link.hear(line.clone()).await, Ok(()));
        for (place, call) in calls.iter_mut().enumerate() {
            let wanted = (to == Some(place)).then(|| Ok(line.clone()));
            assert_eq!(said(call), wanted, "{line:?} {place}");
        }
    }
    let asks = r#"{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{}}"#;
    let heard = link.hear(asks.into()).await;
    assert!(matches!(heard, Err(BadLine::NotMcp(_))), "{heard:?}");
}
