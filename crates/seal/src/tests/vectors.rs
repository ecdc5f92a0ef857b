//! Known answers: `vectors/*.txt`, one file for each message.
//!
//! A file is lines of `name value`; a long value goes on in lines that begin with a space. What stands
//! before the line `out` is given, what stands after it must come out, all of it and nothing else.
//! `UPDATE=1` writes the files anew; `independent.txt` holds values that another program made, and is never
//! written. The random bytes are those of `fixture`.

#![expect(clippy::disallowed_methods, reason = "a test reads its vectors")]

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use crate::handshake::testing;
use crate::schedule::{self, Way, hash, way_secret};
use crate::sender::Attempt;
use crate::tests::fixture::{Heard, NOW, Pair, Setup, after, counting, identity};
use crate::{Answer, Code, Mode, SenderId, Sid, Suite, Voice, padding_bytes};

pub(crate) type Lines = Vec<(String, String)>;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("vectors")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

pub(crate) fn unhex(text: &str) -> Vec<u8> {
    let pair = |at| u8::from_str_radix(&text[at..at + 2], 16).unwrap();
    (0..text.len()).step_by(2).map(pair).collect()
}

/// The lines of a file of `vectors/others`: vectors that the drafts give.
pub(crate) fn read_others(name: &str) -> Lines {
    let path = folder().join("others").join(name).with_extension("txt");
    read(&fs::read_to_string(path).unwrap()).0
}

/// What is given and what must come out.
fn read(text: &str) -> (Lines, Lines) {
    let mut parts = (Lines::new(), Lines::new());
    let mut is_out = false;
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let into = if is_out { &mut parts.1 } else { &mut parts.0 };
        match line.split_once(' ') {
            _ if line == "out" => is_out = true,
            Some(("", more)) => into.last_mut().unwrap().1.push_str(more.trim()),
            Some((name, value)) => into.push((name.into(), value.trim().into())),
            None if line.is_empty() => {}
            None => into.push((line.into(), String::new())),
        }
    }
    parts
}

fn write(given: &str, out: &Lines) -> String {
    let mut text = given.to_string() + "out\n";
    for (name, value) in out {
        if value.len() <= 64 {
            writeln!(text, "{name} {value}").unwrap();
            continue;
        }
        writeln!(text, "{name}").unwrap();
        for line in value.as_bytes().chunks(96) {
            writeln!(text, " {}", std::str::from_utf8(line).unwrap()).unwrap();
        }
    }
    text
}

#[test]
fn every_file_comes_out() {
    let mut files = 0;
    for entry in fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() || path.ends_with("independent.txt") {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let (given, expected) = read(&text);
        let out = run(&Given(given));
        if std::env::var_os("UPDATE").is_some() {
            let given = text.split("out\n").next().unwrap();
            fs::write(&path, write(given, &out)).unwrap();
        } else {
            assert_eq!(out, expected, "{}", path.display());
        }
        files += 1;
    }
    assert!(files >= 20, "{files}");
}

/// Each line of `independent.txt` is `file name value`.
#[test]
fn what_another_program_made_is_what_we_make() {
    let text = fs::read_to_string(folder().join("independent.txt")).unwrap();
    let mut lines = 0;
    for line in text
        .lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty())
    {
        let [file, name, value] = line.split(' ').collect::<Vec<_>>()[..] else {
            panic!("{line}");
        };
        let ours = fs::read_to_string(folder().join(file).with_extension("txt")).unwrap();
        let ours: HashMap<String, String> = read(&ours).1.into_iter().collect();
        assert_eq!(ours[name], value, "{file} {name}");
        lines += 1;
    }
    assert!(lines >= 35, "{lines}");
}

/// The lines that are given.
struct Given(Lines);

impl Given {
    fn get(&self, name: &str) -> Option<&str> {
        let line = self.0.iter().find(|(known, _)| known == name);
        line.map(|(_, value)| value.as_str())
    }

    fn bytes(&self, name: &str) -> Option<Vec<u8>> {
        self.get(name).map(unhex)
    }

    fn number(&self, name: &str) -> u64 {
        self.get(name).map_or(0, |value| value.parse().unwrap())
    }

    fn suite(&self) -> Suite {
        Suite::from_number(self.number("suite") as u16).unwrap()
    }

    fn setup(&self) -> Setup {
        Setup {
            suite: self.suite(),
            token: self.bytes("token"),
            psk: self.bytes("psk").map(|psk| psk.try_into().unwrap()),
            mode: match self.get("mode") {
                Some("local") => Mode::Local,
                _ => Mode::Strict,
            },
            next_pin: self.get("next_pin").is_some(),
        }
    }

    /// `chunk` lines, in their order. `chunk` alone is an empty one.
    fn chunks(&self) -> Vec<Vec<u8>> {
        let chunks = self.0.iter().filter(|(name, _)| name == "chunk");
        chunks.map(|(_, value)| unhex(value)).collect()
    }
}

fn run(given: &Given) -> Lines {
    let out = match given.get("message").unwrap() {
        "key" => key(given),
        "init" => init(given),
        "reply" => reply(given),
        "schedule" => keys(given),
        "request" => request(given),
        "response" => response(given),
        other => panic!("{other}"),
    };
    let text = |(name, value): (&str, Vec<u8>)| (name.to_string(), hex(&value));
    out.into_iter().map(text).collect()
}

type Out = Vec<(&'static str, Vec<u8>)>;

fn key(given: &Given) -> Out {
    let own = identity(given.bytes("seed").unwrap()[0]);
    let public = own.public();
    vec![
        ("public", public.bytes().to_vec()),
        ("pin", public.pin().0.to_vec()),
        ("kid", public.kid().0.to_vec()),
        ("peer_id", public.peer_id().0.to_vec()),
    ]
}

fn init(given: &Given) -> Out {
    let pending = given.setup().initiate();
    let init = pending.init();
    let exp1 = testing::exp1(&identity(0), given.suite(), init);
    vec![
        ("exp1", exp1.to_vec()),
        ("mac1", init[2416..].to_vec()),
        ("init", init.to_vec()),
        ("sha256", hash(&[init]).to_vec()),
    ]
}

fn reply(given: &Given) -> Out {
    let setup = given.setup();
    let pair = Pair::new(&setup);
    let suite = given.suite();
    let agreed = testing::agree(
        suite,
        [&identity(0), &identity(0x20), &identity(0x40)],
        setup.psk.unwrap_or_default(),
        (&pair.init, &pair.reply),
    );
    vec![
        ("ss2", agreed.ss2.to_vec()),
        ("ss3", agreed.ss3.to_vec()),
        ("th", agreed.th.to_vec()),
        ("prk", agreed.prk.to_vec()),
        ("k_r", schedule::reply_key(&agreed.prk).to_vec()),
        (
            "session_secret",
            schedule::session_secret(&agreed.prk).to_vec(),
        ),
        ("ticket", pair.session.ticket().to_vec()),
        ("reply", pair.reply.to_vec()),
        ("sha256", hash(&[&pair.reply[..]]).to_vec()),
    ]
}

/// The secret of the session in which the messages of these files are: that of the first suite.
fn session_secret() -> schedule::Secret {
    let pair = Pair::new(&Setup::new(Suite::AesGcm));
    let agreed = testing::agree(
        Suite::AesGcm,
        [&identity(0), &identity(0x20), &identity(0x40)],
        [0; 32],
        (&pair.init, &pair.reply),
    );
    schedule::session_secret(&agreed.prk)
}

/// Keys, IVs and nonces of all suites, and the first chunk under them, of the same request.
fn keys(given: &Given) -> Out {
    let (suite, secret, sid) = (given.suite(), session_secret(), Sid(counting(0x60)));
    let (s, r) = (SenderId(counting(0x10)), SenderId(counting(0x30)));
    let req = way_secret(&secret, suite, sid, Way::Request);
    let rsp = way_secret(&secret, suite, sid, Way::Response);
    let (k_s, iv_s) = schedule::sender_bytes(&req, s);
    let (k_r, iv_r) = schedule::sender_bytes(&rsp, r);
    let nonce = |ctr, index, last| schedule::nonce(&iv_s, ctr, index, last).to_vec();
    // The head of a request in another suite, over the first suite's ticket.
    let pair = Pair::new(&Setup::new(Suite::AesGcm));
    let (_, message) = pair.request(5, 1000, None, &[b""]);
    let mut aad: [u8; 200] = *message.first_chunk().unwrap();
    aad[2..4].copy_from_slice(&suite.number().to_be_bytes());
    let mut chunk = given.bytes("text").unwrap();
    let (sealer, iv) = schedule::sender_key(&req, suite, s);
    let tag = sealer.seal(schedule::nonce(&iv, 5, 0, true), &aad, &mut chunk);
    chunk.extend(tag.unwrap());
    vec![
        ("req", req.to_vec()),
        ("rsp", rsp.to_vec()),
        ("key_s", k_s.to_vec()),
        ("iv_s", iv_s.to_vec()),
        ("key_r", k_r.to_vec()),
        ("iv_r", iv_r.to_vec()),
        ("nonce_5_0_final", nonce(5, 0, true)),
        ("nonce_6_0", nonce(6, 0, false)),
        ("nonce_6_1_final", nonce(6, 1, true)),
        ("chunk_0", chunk),
    ]
}

/// A request in the session of its suite.
fn request(given: &Given) -> Out {
    let mut pair = Pair::new(&given.setup());
    let retry_of = given.get("retry_of_ctr").map(|ctr| Attempt {
        sender: SenderId(counting(0x10)),
        ctr: ctr.parse().unwrap(),
        ts_unix_ms: NOW.unix_ms + given.number("retry_of_after_ms"),
    });
    let mut chunks = given.chunks();
    if given.get("padded").is_some() {
        let text: usize = chunks.iter().map(Vec::len).sum();
        let padding = padding_bytes(text as u64) as usize;
        chunks.last_mut().unwrap().extend(vec![0; padding]);
    }
    let texts: Vec<&[u8]> = chunks.iter().map(Vec::as_slice).collect();
    let (ctr, ms) = (given.number("ctr"), given.number("after_ms"));
    let (_, message) = pair.request(ctr, ms, retry_of, &texts);
    assert_eq!(pair.receive(&message), Ok(chunks.concat()));
    vec![
        ("chunks", message[200..].to_vec()),
        ("request", message.clone()),
        ("sha256", hash(&[&message]).to_vec()),
    ]
}

/// A response to the request with counter 5.
fn response(given: &Given) -> Out {
    let mut pair = Pair::new(&given.setup());
    let opened = pair.opened(5);
    let ctr = given.number("ctr");
    let (message, heard) = match given.get("code") {
        None => {
            let chunks = given.chunks();
            let texts: Vec<&[u8]> = chunks.iter().map(Vec::as_slice).collect();
            let message = pair.response(&opened, ctr, Voice::Origin, &texts);
            (message, Heard::Origin(chunks.concat()))
        }
        Some(code) => {
            let answer = Answer {
                code: Code::from_number(code.parse().unwrap()).unwrap(),
                retry_after_ms: given.number("retry_after_ms") as u32,
                server_unix_ms: after(given.number("after_ms")).unix_ms,
            };
            let message = pair.response(&opened, ctr, Voice::Weir, &[&answer.to_bytes()]);
            (message, Heard::Weir(answer))
        }
    };
    let received = pair.receive_response(opened.attempt(), &message);
    assert_eq!(received, Ok(heard));
    vec![("response", message)]
}
