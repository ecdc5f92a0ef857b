//! Operations of weir that `weir lab micro` measures: what the parts of the path of a call cost.
//!
//! The lab knows none of these crates; it is lent closures. Each does what the gateway does with it, on what it makes itself.

use std::cell::RefCell;
use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::sync::{Arc, OnceLock};

use base::{Json, Name, Now, Resource};
use gate::ports::Recorder as _;
use lab::experiments::micro::MicroOperation;
use policy::{Context, Policies, Principal, Slice, Source};
use scan::{Direction, Engine, Settings};
use seal::{
    Attempt, Identity, Mode, Moment, Outbound, Outbox, Peer, Piece, Random, Session, Suite,
};
use store::disk::MemoryDisk;
use store::{Durability, Log, LogSettings};

/// Records that one log in memory holds before it is begun anew.
const RECORDS_MAX: usize = 10_000;
thread_local! {
    /// Senders belong to their thread.
    static OUTBOX: RefCell<Outbox> = RefCell::default();
}
/// Bytes of a body that are sealed at once.
const CHUNK_BYTES: usize = 16 << 10;

pub(super) const ALL: &[MicroOperation] = &[
    MicroOperation {
        name: "scan.text",
        about: "a clean text is scanned as an answer",
        is_sized: true,
        prepare: |size| {
            let text = words(size);
            Box::new(move || {
                black_box(engine().text(Direction::Incoming, black_box(&text), "text")).ok();
            })
        },
    },
    MicroOperation {
        name: "scan.arguments",
        about: "JSON arguments are scanned as they go out",
        is_sized: true,
        prepare: |size| {
            let text = arguments(size);
            Box::new(move || {
                black_box(engine().json(Direction::Outgoing, black_box(text.as_bytes()), "params"))
                    .ok();
            })
        },
    },
    MicroOperation {
        name: "scan.url",
        about: "an address is scanned before it is asked",
        is_sized: false,
        prepare: |_| {
            Box::new(|| {
                let url = "https://api.example.com/v1/items/42?sort=name&page=3";
                black_box(engine().url(Direction::Outgoing, black_box(url), None)).ok();
            })
        },
    },
    MicroOperation {
        name: "json.index",
        about: "a body is read once, as an index",
        is_sized: true,
        prepare: |size| {
            let text = arguments(size);
            Box::new(move || {
                black_box(Json::read(black_box(text.as_bytes()))).ok();
            })
        },
    },
    MicroOperation {
        name: "policy.decide",
        about: "an agent's call of a tool is decided by three policies",
        is_sized: false,
        prepare: |_| {
            let (slice, tool) = (slice(), tool());
            Box::new(move || {
                let context = Context {
                    method: "tools/call",
                    peer: IpAddr::V4(Ipv4Addr::LOCALHOST),
                    unix_ms: 1_700_000_000_000,
                    arguments: None,
                };
                let _ = black_box(slice.admit(black_box(&tool), &context));
            })
        },
    },
    MicroOperation {
        name: "seal.request",
        about: "a body is sealed for the other side of the relay",
        is_sized: true,
        prepare: |size| {
            let (session, body) = (session(), words(size.max(1)));
            let mut out = Vec::new();
            Box::new(move || {
                out.clear();
                OUTBOX.with_borrow_mut(|outbox| {
                    black_box(sealed(&session, outbox, body.as_bytes(), &mut out));
                });
            })
        },
    },
    MicroOperation {
        name: "log.append",
        about: "a record is chained and kept, on a disk in memory",
        is_sized: true,
        prepare: |size| {
            let record = arguments(size).into_bytes();
            let (mut log, mut kept) = (memory_log(), 0);
            Box::new(move || {
                if kept >= RECORDS_MAX {
                    (log, kept) = (memory_log(), 0);
                }
                kept += 1;
                if let Some(log) = &log {
                    let _ = black_box(log.append(record.clone()).blocking_recv());
                }
            })
        },
    },
];

fn engine() -> &'static Engine {
    static ENGINE: OnceLock<Engine> = OnceLock::new();
    ENGINE.get_or_init(|| Engine::new(Settings::default(), [7; 32]))
}

/// Words of so many bytes, in which nothing is to be found.
fn words(size: usize) -> String {
    let plain = "the river carries what may pass over the low dam and we count it ";
    plain.chars().cycle().take(size).collect()
}

/// JSON of so many bytes.
fn arguments(size: usize) -> String {
    let text = words(size.saturating_sub(22));
    format!("{{\"path\":\"a\",\"text\":\"{text}\"}}")
}

fn tool() -> Resource {
    Resource::tool(name("files"), "read")
}

fn name(text: &str) -> Name {
    Name::new(text).expect("a name")
}

fn slice() -> Arc<Slice> {
    let text = r#"permit (principal == Agent::"coder", action in Action::"mcp", resource in Server::"files");
        permit (principal in Group::"all", action == Action::"mcp:list", resource);
        forbid (principal, action, resource == Server::"other");"#;
    let sources = [Source {
        file: "micro.cedar",
        text,
    }];
    let policies =
        Policies::load(&[&mcp::LANE], &sources, &Default::default()).expect("valid policies");
    let principal = Arc::new(Principal {
        name: name("coder"),
        groups: vec![name("all")],
    });
    policies
        .slice(&principal, &mcp::actions::CALL, &tool())
        .expect("a tool is what the action goes with")
}

const NOW: Now = Now {
    unix_ms: 1_700_000_000_000,
    mono_ms: 1,
};

/// A session between two sides that were just made.
fn session() -> Arc<Session> {
    use seal::{Budget, Guard, Responder, Tek, TekRing, initiate};
    let outbound = Arc::new(Outbound {
        identity: Arc::new(Identity::from_seed(&[2; 32])),
        inbound: Identity::from_seed(&[1; 32]).public().clone(),
        suite: Suite::AesGcm,
        token: None,
        psks: Vec::new(),
    });
    let public = outbound.identity.public().clone();
    let peer = Peer {
        public,
        psk: None,
        mode: Mode::Local,
        sessions_after_unix_ms: 0,
    };
    let peers = std::collections::HashMap::from([(peer.public.peer_id(), peer)]);
    let guard = Arc::new(Guard::new(Budget::new(u64::MAX / 1_000_000)));
    let own = vec![Identity::from_seed(&[1; 32])];
    let responder = Responder::new(own, &[], 1 << 30, None, guard).expect("one key");
    let ring = TekRing::new(vec![Tek::new(7, [3; 32], NOW.unix_ms)]).expect("one key");
    let pending = initiate(outbound, NOW, Random::new([4; 96])).expect("two keys");
    let random = || Random::new([5; 156]);
    let reply = responder
        .answer(pending.init(), NOW, random, &ring, &peers)
        .expect("a reply");
    Arc::new(pending.finish(&reply[..], NOW).expect("a session"))
}

/// Seals one request.
fn sealed(session: &Arc<Session>, outbox: &mut Outbox, body: &[u8], out: &mut Vec<u8>) -> Attempt {
    let moment = Moment {
        now: NOW,
        generation: 0,
    };
    let id = || Random::new([6; 16]);
    let (attempt, mut sealing) = outbox
        .request(session, moment, id, None, out)
        .expect("a sender");
    let mut chunks = body.chunks(CHUNK_BYTES).peekable();
    while let Some(chunk) = chunks.next() {
        let piece = if chunks.peek().is_some() {
            Piece::More
        } else {
            Piece::Last
        };
        sealing.push(out, chunk, piece).expect("a chunk");
    }
    attempt
}

fn memory_log() -> Option<Log> {
    let settings = LogSettings {
        origin: "weir.example/micro".to_owned(),
        durability: Durability::Os,
        bytes_max: 1 << 30,
    };
    Log::open_on(Arc::new(MemoryDisk::new()), Path::new("log"), settings).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each does what it says: what is measured is not a refusal.
    #[test]
    fn operations_do_what_they_are_called() {
        assert!(
            engine()
                .text(Direction::Incoming, &words(1000), "text")
                .unwrap()
                .findings
                .is_empty()
        );
        assert_eq!(words(1000).len(), 1000);
        assert_eq!(arguments(1000).len(), 1000);
        let context = Context {
            method: "tools/call",
            peer: IpAddr::V4(Ipv4Addr::LOCALHOST),
            unix_ms: 0,
            arguments: None,
        };
        assert!(slice().admit(&tool(), &context).is_ok());
        let (session, mut outbox) = (session(), Outbox::default());
        for _ in 0..3 {
            let mut out = Vec::new();
            sealed(&session, &mut outbox, b"text", &mut out);
            assert!(out.len() > 4);
        }
        let log = memory_log().unwrap();
        log.append(b"{}".to_vec()).blocking_recv().unwrap().unwrap();
        for operation in ALL {
            (operation.prepare)(100)();
        }
    }
}
