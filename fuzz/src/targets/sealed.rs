//! Sealed messages of all kinds. Each target begins with a good message and changes it as its bytes say: by
//! bits, by length, by other bytes in between, or wholly. What is taken then is what was good before.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use aws_lc_rs::aead::{AES_256_GCM_SIV, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::{digest, hmac};
use base::Now;
use seal::{
    Answer, Attempt, Budget, ChunkHead, Error, Guard, Identity, Inbox, Mode, Moment, Opening,
    Outbound, Outbox, Peer, PeerId, Piece, Public, Random, Responder, Response, Session, Suite,
    Tek, TekRing, Today, Voice, initiate,
};

const NOW: Now = Now {
    unix_ms: 1_700_000_000_000,
    mono_ms: 1,
};
const MOMENT: Moment = Moment {
    now: NOW,
    generation: 0,
};
const TEK: [u8; 32] = [3; 32];

/// A pair of weirs with a session, and one message of each kind.
struct Pair {
    responder: Responder,
    ring: TekRing,
    peers: HashMap<PeerId, Peer>,
    inbound: Public,
    init: Vec<u8>,
    reply: Vec<u8>,
    session: Arc<Session>,
    attempt: Attempt,
    request: Vec<u8>,
}

fn outbound() -> Arc<Outbound> {
    Arc::new(Outbound {
        identity: Arc::new(Identity::from_seed(&[2; 32])),
        inbound: Identity::from_seed(&[1; 32]).public().clone(),
        suite: Suite::AesGcm,
        token: None,
        psks: Vec::new(),
    })
}

fn pending() -> seal::Pending {
    initiate(outbound(), NOW, Random::new([4; 96])).expect("two keys")
}

static PAIR: LazyLock<Pair> = LazyLock::new(|| {
    let peer = outbound().identity.public().clone();
    let entry = Peer {
        public: peer,
        psk: None,
        mode: Mode::Local,
        sessions_after_unix_ms: 0,
    };
    let peers = HashMap::from([(entry.public.peer_id(), entry)]);
    let guard = Arc::new(Guard::new(Budget::new(u64::MAX / 1_000_000)));
    let own = Identity::from_seed(&[1; 32]);
    let inbound = own.public().clone();
    let responder = Responder::new(vec![own], &[], 1 << 30, None, guard).expect("one key");
    let ring = TekRing::new(vec![Tek::new(7, TEK, NOW.unix_ms)]).expect("one key");
    let (pending, random) = (pending(), || Random::new([5; 156]));
    let init = pending.init().to_vec();
    let reply = responder
        .answer(&init, NOW, random, &ring, &peers)
        .expect("a reply")
        .to_vec();
    let session = Arc::new(pending.finish(&reply, NOW).expect("a session"));
    let (attempt, request) = seal_request(&session, &[b"first", b"second"]);
    Pair {
        responder,
        ring,
        peers,
        inbound,
        init,
        reply,
        session,
        attempt,
        request,
    }
});

fn push_all(sealing: &mut seal::Sealing, chunks: &[&[u8]], out: &mut Vec<u8>) {
    for (at, text) in chunks.iter().enumerate() {
        let piece = if at + 1 == chunks.len() {
            Piece::Last
        } else {
            Piece::More
        };
        sealing.push(out, text, piece).expect("a chunk");
    }
}

fn seal_request(session: &Arc<Session>, chunks: &[&[u8]]) -> (Attempt, Vec<u8>) {
    let (mut out, mut outbox, id) = (Vec::new(), Outbox::default(), || Random::new([6; 16]));
    let request = outbox.request(session, MOMENT, id, None, &mut out);
    let (attempt, mut sealing) = request.expect("a sender");
    push_all(&mut sealing, chunks, &mut out);
    (attempt, out)
}

impl Pair {
    fn today(&self) -> Today<'_> {
        Today {
            ring: &self.ring,
            kids: self.responder.kids(),
            peers: &self.peers,
        }
    }

    /// What a relay reads of a request; nothing if any of it is refused.
    fn open_request(&self, message: &[u8]) -> Option<Vec<u8>> {
        let mut inbox = Inbox::new(1, 1);
        let incoming = inbox
            .request(message.first_chunk()?, self.today(), NOW)
            .ok()?;
        let mut rest = message[200..].to_vec();
        let mut chunk = next_chunk(&mut rest)?;
        let request = incoming.first(&mut inbox, &mut chunk).ok()?;
        let _ = request.opened.retry_of();
        let mut text = request.text.to_vec();
        read_on(request.opening, rest, &mut text)?;
        Some(text)
    }

    fn open_response(&self, message: &[u8]) -> Option<Vec<u8>> {
        let mut outbox = Outbox::new(1, 1);
        let answering = outbox
            .response(&self.session, self.attempt, message.first_chunk()?)
            .ok()?;
        let mut rest = message[32..].to_vec();
        let mut chunk = next_chunk(&mut rest)?;
        match answering.first(&mut outbox, &mut chunk).ok()? {
            Response::Weir(answer) => rest.is_empty().then(|| answer.to_bytes().to_vec()),
            Response::Origin(opening, text) => {
                let mut text = text.to_vec();
                read_on(opening, rest, &mut text)?;
                Some(text)
            }
        }
    }

    fn seal_response(&self, voice: Voice, chunks: &[&[u8]]) -> Vec<u8> {
        let (mut inbox, mut message) = (Inbox::new(1, 1), self.request.clone());
        let incoming = inbox.request(message.first_chunk().expect("a head"), self.today(), NOW);
        let first = &mut message[200..225];
        let request = incoming
            .expect("a ticket")
            .first(&mut inbox, first)
            .expect("a chunk");
        let (mut out, id) = (Vec::new(), || Random::new([8; 16]));
        let sealing = inbox.respond(&request.opened, MOMENT, id, voice, &mut out);
        push_all(&mut sealing.expect("a sender"), chunks, &mut out);
        out
    }
}

fn next_chunk(rest: &mut Vec<u8>) -> Option<Vec<u8>> {
    let head = ChunkHead::read(*rest.first_chunk()?).ok()?;
    let left = rest.split_off(rest.len().min(head.bytes));
    let chunk = std::mem::replace(rest, left);
    (chunk.len() == head.bytes).then_some(chunk)
}

fn read_on(mut opening: Opening, mut rest: Vec<u8>, text: &mut Vec<u8>) -> Option<()> {
    while !opening.is_ended() {
        let mut chunk = next_chunk(&mut rest)?;
        text.extend_from_slice(opening.open(&mut chunk).ok()?);
    }
    opening.end().ok()?;
    rest.is_empty().then_some(())
}

/// A message that is changed as the bytes say.
fn changed(good: &[u8], data: &[u8]) -> Vec<u8> {
    let [how, high, low, bytes @ ..] = data else {
        return good.to_vec();
    };
    let at = usize::from(u16::from_be_bytes([*high, *low])) % (good.len() + 1);
    let mut message = good.to_vec();
    match how % 5 {
        0 => message[at..]
            .iter_mut()
            .zip(bytes)
            .for_each(|(byte, other)| *byte ^= other),
        1 => message.truncate(at),
        2 => drop(message.splice(at..at, bytes.iter().copied())),
        3 => drop(message.splice(
            at..(at + bytes.len()).min(good.len()),
            bytes.iter().copied(),
        )),
        _ => message = bytes.to_vec(),
    }
    message
}

/// An init: none but the good one opens, with a good mac1 or without.
pub fn seal_init(data: &[u8]) {
    let pair = &*PAIR;
    let _ = Public::from_bytes(data);
    let mut init = changed(&pair.init, data);
    let unchanged = init == pair.init;
    if data.len() % 2 == 1
        && let Some((text, mac)) = init.split_last_chunk_mut::<16>()
    {
        let key = [&b"shr1 mac1"[..], pair.inbound.bytes(), &[0; 32]].concat();
        let key = hmac::Key::new(
            hmac::HMAC_SHA256,
            digest::digest(&digest::SHA256, &key).as_ref(),
        );
        mac.copy_from_slice(&hmac::sign(&key, text).as_ref()[..16]);
    }
    let random = || Random::new([9; 156]);
    let refused = pair
        .responder
        .answer(&init, NOW, random, &pair.ring, &pair.peers)
        .err();
    let error = refused.expect("the good init was opened before").error;
    assert!(!unchanged || error == Error::Repeated);
}

/// A reply: none but the good one makes a session.
pub fn seal_reply(data: &[u8]) {
    let reply = changed(&PAIR.reply, data);
    let session = pending().finish(&reply, NOW);
    assert_eq!(session.is_ok(), reply == PAIR.reply);
}

/// A request: none but the good one is read to its end; and what is sealed in any pieces is read as it was.
pub fn seal_request_opening(data: &[u8]) {
    let request = changed(&PAIR.request, data);
    let read = PAIR.open_request(&request);
    assert_eq!(read.is_some(), request == PAIR.request);
    let pieces = pieces(data);
    let (_, request) = seal_request(&PAIR.session, &pieces);
    assert_eq!(PAIR.open_request(&request), Some(pieces.concat()));
}

/// A response, of the origin or of a weir.
pub fn seal_response_opening(data: &[u8]) {
    let good = PAIR.seal_response(Voice::Origin, &[b"first", b"second"]);
    let response = changed(&good, data);
    assert_eq!(PAIR.open_response(&response).is_some(), response == good);
    let pieces = pieces(data);
    let response = PAIR.seal_response(Voice::Origin, &pieces);
    assert_eq!(PAIR.open_response(&response), Some(pieces.concat()));
    let response = PAIR.seal_response(Voice::Weir, &[data]);
    let answer = Answer::from_bytes(data).ok();
    assert_eq!(
        PAIR.open_response(&response),
        answer.map(|answer| answer.to_bytes().to_vec())
    );
}

/// The bytes as the chunks of a message: the first says how long each is.
fn pieces(data: &[u8]) -> Vec<&[u8]> {
    let length = data.first().map_or(1, |byte| usize::from(*byte) + 1);
    let mut pieces: Vec<&[u8]> = data.chunks(length).collect();
    if length % 2 == 0 || pieces.is_empty() {
        pieces.push(b"");
    }
    pieces
}

/// A ticket: changed under its seal, and sealed anew over any plaintext by someone who has the key.
pub fn seal_ticket(data: &[u8]) {
    let mut request = PAIR.request.clone();
    let ticket = changed(&request[56..200], data);
    if let Ok(ticket) = <[u8; 144]>::try_from(ticket) {
        let unchanged = ticket == request[56..200];
        request[56..200].copy_from_slice(&ticket);
        assert_eq!(PAIR.open_request(&request).is_some(), unchanged);
    }
    let mut plain = [0; 112];
    plain
        .iter_mut()
        .zip(data)
        .for_each(|(byte, other)| *byte = *other);
    let key = LessSafeKey::new(UnboundKey::new(&AES_256_GCM_SIV, &TEK).expect("32 bytes"));
    let nonce = Nonce::assume_unique_for_key([0; 12]);
    let tag =
        key.seal_in_place_separate_tag(nonce, Aad::from(b"shr1 ticket\0\0\0\x07"), &mut plain);
    let ticket = [
        &[0, 0, 0, 7][..],
        &[0; 12],
        &plain,
        tag.expect("a short text").as_ref(),
    ]
    .concat();
    request[56..200].copy_from_slice(&ticket);
    assert!(
        PAIR.open_request(&request).is_none(),
        "a chunk opened under another secret"
    );
}
