//! Every way in which a sealed message can be changed on its way, and that none is taken.

use std::rc::Rc;
use std::sync::Arc;

use super::{Aad, BYTES_LIMIT, CHUNKS_LIMIT, ChunkHead, Line, Opening, Piece, Progress, Sealing};
use crate::head::CHUNK_PLAIN_BYTES_MAX;
use crate::schedule::Secret;
use crate::tests::fixture::{Failure, Heard, NOW, Pair, Setup, counting, moment};
use crate::{Answer, Code, Error, Hint, Random, Refused, RequestSender, SenderId, Suite, Voice};

const OPEN_FAILED: Failure = Failure::Refused(Refused {
    hint: Hint::OpenFailed,
    error: Error::Open,
});

fn pair(suite: Suite) -> Pair {
    Pair::new(&Setup::new(suite))
}

/// A sender's line that is shared by a sealer and an opener.
fn ends(suite: Suite, ctr: u64) -> (Sealing, Opening) {
    let line = |id| Rc::new(Line::new(&Secret::new(counting(1)), suite, SenderId(id)));
    let (s, r) = (line([7; 16]), line([7; 16]));
    let aad = || Aad::request(&[9; 200]);
    (
        Sealing::new(s, ctr, aad(), None),
        Opening::new(r, ctr, aad()),
    )
}

/// Where the chunks of a message begin and end.
fn bounds(message: &[u8], from: usize) -> Vec<(usize, usize)> {
    let (mut bounds, mut at) = (Vec::new(), from);
    while at < message.len() {
        let head = ChunkHead::read(*message[at..].first_chunk().unwrap()).unwrap();
        bounds.push((at, at + head.bytes));
        at += head.bytes;
    }
    bounds
}

#[test]
fn messages_of_every_shape_come_through() {
    let long = vec![b'l'; CHUNK_PLAIN_BYTES_MAX];
    for suite in Suite::ALL {
        let mut pair = pair(suite);
        let opened = pair.opened(1_000);
        let shapes: [&[&[u8]]; 6] = [
            &[b"one"],
            &[b""],
            &[b"one", b""],
            &[b"o", b"n", b"e"],
            &[&long, &long, b"end"],
            &[&long],
        ];
        for (ctr, shape) in shapes.into_iter().enumerate() {
            let (_, message) = pair.request(ctr as u64, 1_000, None, shape);
            assert_eq!(pair.receive(&message), Ok(shape.concat()));
            let message = pair.response(&opened, ctr as u64, Voice::Origin, shape);
            let heard = pair.receive_response(opened.attempt(), &message);
            assert_eq!(heard, Ok(Heard::Origin(shape.concat())));
        }
    }
}

#[test]
fn one_chunk_costs_220_bytes_there_and_52_back() {
    let mut pair = pair(Suite::AesGcm);
    let opened = pair.opened(0);
    assert_eq!(pair.request(1, 0, None, &[&[0; 100]]).1.len(), 320);
    assert_eq!(
        pair.response(&opened, 0, Voice::Origin, &[&[0; 100]]).len(),
        152
    );
}

#[test]
fn a_request_with_any_bit_flipped_is_refused() {
    for suite in Suite::ALL {
        let mut pair = pair(suite);
        let (_, good) = pair.request(5, 1_000, None, &[b"first", b"second"]);
        // Once with nothing cached, and once with all of it.
        for round in 0..2 {
            let mut message = good.clone();
            for bit in 0..message.len() * 8 {
                message[bit / 8] ^= 1 << (bit % 8);
                let received = pair.receive(&message);
                assert!(received.is_err(), "round {round}, bit {bit}");
                if round == 0 {
                    assert_eq!(
                        pair.inbox.sizes()[0],
                        usize::from(bit / 8 >= 225),
                        "bit {bit}"
                    );
                }
                message[bit / 8] ^= 1 << (bit % 8);
                if round == 0 && bit / 8 >= 224 {
                    pair.inbox = crate::Inbox::default();
                }
            }
            assert_eq!(pair.receive(&good), Ok(b"firstsecond".to_vec()));
        }
    }
}

#[test]
fn a_response_with_any_bit_flipped_is_refused() {
    for suite in Suite::ALL {
        let mut pair = pair(suite);
        let opened = pair.opened(5);
        let answer = Answer {
            code: Code::Claimed,
            retry_after_ms: 0,
            server_unix_ms: NOW.unix_ms,
        };
        for good in [
            pair.response(&opened, 9, Voice::Origin, &[b"first", b"second"]),
            pair.response(&opened, 10, Voice::Weir, &[&answer.to_bytes()]),
        ] {
            let mut message = good.clone();
            for bit in 0..message.len() * 8 {
                message[bit / 8] ^= 1 << (bit % 8);
                let heard = pair.receive_response(opened.attempt(), &message);
                assert!(heard.is_err(), "bit {bit}");
                message[bit / 8] ^= 1 << (bit % 8);
            }
            assert!(pair.receive_response(opened.attempt(), &good).is_ok());
        }
    }
}

#[test]
fn a_message_that_ends_anywhere_but_at_its_end_is_cut() {
    let mut pair = pair(Suite::AesGcm);
    let (_, message) = pair.request(5, 1_000, None, &[b"first", b"second", b""]);
    for length in 0..message.len() {
        assert_eq!(
            pair.receive(&message[..length]),
            Err(Failure::Cut),
            "{length}"
        );
    }
    assert!(pair.receive(&message).is_ok());
    let opened = pair.opened(6);
    let message = pair.response(&opened, 9, Voice::Origin, &[b"first", b"second", b""]);
    for length in 0..message.len() {
        let heard = pair.receive_response(opened.attempt(), &message[..length]);
        assert_eq!(heard, Err(Failure::Cut), "{length}");
    }
}

#[test]
fn an_opening_says_itself_that_it_was_cut() {
    let (mut sealing, mut opening) = ends(Suite::AesGcm, 0);
    assert_eq!(opening.end(), Err(Error::Cut));
    let mut out = Vec::new();
    sealing.push(&mut out, b"first", Piece::More).unwrap();
    opening.open(&mut out).unwrap();
    assert_eq!(
        (opening.end(), opening.is_ended()),
        (Err(Error::Cut), false)
    );
    out.clear();
    sealing.push(&mut out, b"last", Piece::Last).unwrap();
    opening.open(&mut out.clone()).unwrap();
    assert_eq!((opening.end(), opening.is_ended()), (Ok(()), true));
    assert_eq!(opening.open(&mut out).err(), Some(Error::AfterFinal));
    assert_eq!(opening.end(), Err(Error::Failed));
    assert_eq!(
        sealing.push(&mut out, b"", Piece::Last),
        Err(Error::AfterFinal)
    );
}

#[test]
fn more_after_the_final_chunk_is_refused() {
    let mut pair = pair(Suite::AesGcm);
    let (_, mut message) = pair.request(5, 1_000, None, &[b"first", b"second"]);
    let last = bounds(&message, 200)[1];
    let again = message[last.0..].to_vec();
    message.extend_from_slice(&again);
    assert_eq!(
        pair.receive(&message),
        Err(Failure::Broken(Error::AfterFinal))
    );
    message.truncate(last.1 + 1);
    assert_eq!(
        pair.receive(&message),
        Err(Failure::Broken(Error::AfterFinal))
    );
}

/// Every order of three chunks with at most one of them twice, but the right one.
#[test]
fn chunks_that_are_swapped_dropped_or_doubled_do_not_open() {
    let mut pair = pair(Suite::AesGcm);
    let texts: &[&[u8]] = &[b"first", b"next ", b"last "];
    let (_, message) = pair.request(5, 1_000, None, texts);
    let opened = pair.opened(6);
    let response = pair.response(&opened, 9, Voice::Origin, texts);
    for places in 0..256_usize {
        // Up to four places, each of which has one of the chunks or none.
        let order = (0..4).map(|place| places >> (2 * place) & 3);
        let order: Vec<usize> = order.filter(|chunk| *chunk < 3).collect();
        let pick = |message: &[u8], from: usize| {
            let bounds = bounds(message, from);
            let chunks = order
                .iter()
                .flat_map(|at| &message[bounds[*at].0..bounds[*at].1]);
            [&message[..from], &chunks.copied().collect::<Vec<u8>>()].concat()
        };
        let is_whole = order == [0, 1, 2];
        let received = pair.receive(&pick(&message, 200));
        assert_eq!(received.is_ok(), is_whole, "{order:?}");
        let heard = pair.receive_response(opened.attempt(), &pick(&response, 32));
        assert_eq!(heard.is_ok(), is_whole, "{order:?}");
    }
}

#[test]
fn chunks_of_another_message_sender_session_or_direction_do_not_open() {
    let mut pair = pair(Suite::AesGcm);
    let texts: &[&[u8]] = &[b"first", b"last "];
    let (_, message) = pair.request(5, 1_000, None, texts);
    let opened = pair.opened(6);
    // A session with the same S and ctr, another S with the same ctr, another ctr of the same S.
    let (_, other_ctr) = pair.request(7, 1_000, None, texts);
    let other_s = {
        let id = Random::new([1; 16]);
        let mut sender = RequestSender::new(Arc::clone(&pair.session), &id, moment(0));
        sender.set_ctr(5);
        let mut out = Vec::new();
        let (_, mut sealing) = sender.begin(moment(1_000), None, &mut out).unwrap();
        crate::tests::fixture::push_all(&mut sealing, texts, &mut out);
        out
    };
    let other_session = {
        let setup = Setup {
            psk: Some([1; 32]),
            ..Setup::new(Suite::AesGcm)
        };
        Pair::new(&setup).request(5, 1_000, None, texts).1
    };
    let response = pair.response(&opened, 5, Voice::Origin, texts);
    let of_response = [&message[..200], &response[32..]].concat();
    for (other, at) in [
        (&other_ctr, 200),
        (&other_s, 200),
        (&other_session, 200),
        (&of_response, 200),
    ] {
        let (ours, theirs) = (bounds(&message, at), bounds(other, at));
        for chunk in 0..2 {
            let mut mixed = message.clone();
            mixed[ours[chunk].0..ours[chunk].1]
                .copy_from_slice(&other[theirs[chunk].0..theirs[chunk].1]);
            let failure = match chunk {
                0 => OPEN_FAILED,
                _ => Failure::Broken(Error::Open),
            };
            assert_eq!(pair.receive(&mixed), Err(failure), "chunk {chunk}");
        }
    }
}

#[test]
fn the_final_bit_is_not_for_others_to_set() {
    let mut pair = pair(Suite::AesGcm);
    let texts: &[&[u8]] = &[b"first", b"next ", b"last "];
    let (_, message) = pair.request(5, 1_000, None, texts);
    for (chunk, (at, end)) in bounds(&message, 200).into_iter().enumerate() {
        let mut changed = message.clone();
        changed[at] ^= 0x80;
        // Set, and with nothing after it: an early end.
        let early = &changed[..end];
        for changed in [&changed[..], early] {
            assert!(
                matches!(
                    pair.receive(changed),
                    Err(OPEN_FAILED | Failure::Broken(Error::Open))
                ),
                "chunk {chunk}"
            );
        }
    }
}

#[test]
fn chunks_have_a_shortest_and_a_longest() {
    let read = |n: u32, last: u32| ChunkHead::read((n | last << 31).to_be_bytes());
    for last in [0, 1] {
        for n in [0, 1, 15, 65_553, 65_554, 0x7fff_ffff] {
            assert_eq!(read(n, last), Err(Error::Chunk), "{n} {last}");
        }
        for n in [17, 65_552] {
            assert_eq!(read(n, last).map(|head| head.bytes), Ok(n as usize + 4));
        }
    }
    assert_eq!(read(16, 0), Err(Error::Chunk));
    assert_eq!(read(16, 1).map(|head| head.piece), Ok(Piece::Last));

    let mut pair = pair(Suite::AesGcm);
    let (_, message) = pair.request(5, 1_000, None, &[b"first"]);
    let form = Err(Failure::Refused(Refused::form(Error::Chunk)));
    for n in [15_u32, 16, 65_553] {
        let bad = [&message[..200], &n.to_be_bytes(), &vec![0; 65_553]].concat();
        assert_eq!(pair.receive(&bad), form, "{n}");
    }
    // No chunk at all.
    assert_eq!(pair.receive(&message[..200]), Err(Failure::Cut));
}

#[test]
fn nobody_seals_what_nobody_opens() {
    for (text, piece) in [
        (vec![], Piece::More),
        (vec![0; CHUNK_PLAIN_BYTES_MAX + 1], Piece::More),
        (vec![0; CHUNK_PLAIN_BYTES_MAX + 1], Piece::Last),
    ] {
        let (mut sealing, _) = ends(Suite::AesGcm, 0);
        assert_eq!(
            sealing.push(&mut Vec::new(), &text, piece),
            Err(Error::Chunk)
        );
        // The place of the chunk that failed is not given again.
        let next = sealing.push(&mut Vec::new(), b"x", Piece::Last);
        assert_eq!(next, Err(Error::Failed));
    }
    let (mut sealing, _) = ends(Suite::AesGcm, 0);
    assert_eq!(sealing.seal(&mut [0; 19], Piece::Last), Err(Error::Chunk));
    assert_eq!(
        sealing.end_chunk(&mut Vec::new(), 17, Piece::Last),
        Err(Error::Chunk)
    );
}

#[test]
fn a_chunk_is_opened_whole_and_alone() {
    for change in [-1_i32, 1] {
        let (mut sealing, mut opening) = ends(Suite::AesGcm, 0);
        let mut out = Vec::new();
        sealing.push(&mut out, b"text", Piece::Last).unwrap();
        let mut bad = out.clone();
        bad.resize((out.len() as i32 + change) as usize, 0);
        assert_eq!(opening.open(&mut bad).err(), Some(Error::Chunk));
        assert_eq!(opening.open(&mut out).err(), Some(Error::Failed));
    }
    let (_, mut opening) = ends(Suite::AesGcm, 0);
    assert_eq!(opening.open(&mut [0; 3]).err(), Some(Error::Chunk));
}

#[test]
fn what_does_not_verify_is_not_left_as_plaintext() {
    for suite in Suite::ALL {
        let (mut sealing, mut opening) = ends(suite, 0);
        let text = b"a text that nobody may read before its tag is right".repeat(20);
        let mut out = Vec::new();
        sealing.push(&mut out, &text, Piece::Last).unwrap();
        let end = out.len() - 1;
        out[end] ^= 1;
        assert_eq!(opening.open(&mut out).err(), Some(Error::Open));
        let same = out[4..].iter().zip(&text).filter(|(a, b)| a == b).count();
        assert!(
            same < text.len() / 10,
            "{suite:?}: {same} bytes of plaintext"
        );
    }
}

#[test]
fn a_message_has_fewer_than_2_24_chunks_and_2_38_bytes() {
    let at = |chunks, bytes| Progress {
        chunks,
        bytes,
        ..Progress::default()
    };
    let mut progress = at(CHUNKS_LIMIT - 2, 0);
    assert_eq!(progress.take(1, Piece::More), Ok(CHUNKS_LIMIT - 2));
    assert_eq!(progress.take(1, Piece::Last), Err(Error::TooLong));
    let mut progress = at(0, BYTES_LIMIT - 17 - 18);
    assert_eq!(progress.take(1, Piece::More), Ok(0));
    assert_eq!(progress.take(2, Piece::Last), Err(Error::TooLong));
    assert_eq!(
        at(0, BYTES_LIMIT - 17).take(1, Piece::Last),
        Err(Error::TooLong)
    );
    assert_eq!(at(0, BYTES_LIMIT - 18).take(1, Piece::Last), Ok(0));
}

#[test]
fn sealing_and_opening_are_in_place() {
    let (mut sealing, mut opening) = ends(Suite::AesGcm, 3);
    let mut out = Vec::with_capacity(100);
    out.extend_from_slice(b"HTTP");
    let at = sealing.begin_chunk(&mut out);
    out.extend_from_slice(b"plaintext");
    let place = out.as_ptr();
    sealing.end_chunk(&mut out, at, Piece::Last).unwrap();
    assert_eq!((out.as_ptr(), at, out.len()), (place, 4, 4 + 4 + 9 + 16));
    let place = out[8..].as_ptr();
    let text = opening.open(&mut out[4..]).unwrap();
    assert_eq!((&text[..], text.as_ptr()), (&b"plaintext"[..], place));
}

#[test]
fn what_could_not_be_sealed_is_not_left_to_be_sent() {
    for (bytes, good) in [
        (CHUNK_PLAIN_BYTES_MAX, true),
        (CHUNK_PLAIN_BYTES_MAX + 1, false),
    ] {
        let (mut sealing, _) = ends(Suite::AesGcm, 0);
        let mut out = b"HTTP".to_vec();
        let at = sealing.begin_chunk(&mut out);
        assert_eq!(Sealing::room(&out, at), CHUNK_PLAIN_BYTES_MAX);
        out.extend(vec![b'p'; bytes]);
        assert_eq!(Sealing::room(&out, at), 0);
        let sealed = sealing.end_chunk(&mut out, at, Piece::Last);
        assert_eq!(sealed.is_ok(), good);
        assert_eq!(out.len(), if good { 4 + 4 + bytes + 16 } else { 4 });
    }
}
