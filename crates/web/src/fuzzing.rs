//! What the fuzzer runs: the judge of what is said on a WebSocket, under a judgement that a gate made, and the reader of
//! robots.txt. No other crate calls it.

use base::{Name, Resource, Secret};
use bytes::Bytes;
use gate::Passed;
use http::HeaderMap;
use net::WebSocketMessage;

use crate::credentials::{HostNames, SiteCredential, put_in};
use crate::robots::Robots;
use crate::site::AskedUrl;
use crate::socket::{MessageJudge, Side};

/// What no message of an agent may say: a canary that the gate's rules know.
pub const CANARY: &str = "canary-of-the-fuzzer-0001";
/// A credential that no message of a site may tell.
const VALUE: &str = "value-of-the-operator-4711";
/// What stands for it.
const PLACEHOLDER: &str = "weir-credential-fuzz";
const URL: &str = "https://site.example/talk";

fn name(text: &str) -> Name {
    Name::new(text).expect("it is a name")
}

/// What the connection is asked of.
pub fn resource() -> Resource {
    Resource::Site(crate::read_url(URL).expect("it is a URL"))
}

/// What two sides say: lines of which the first byte says whose it is, and whether it is a text. What went on of the agent's texts
/// holds no canary over any cut and no placeholder; what went on of the site's holds no credential.
pub fn socket(passed: &mut Passed, data: &[u8]) {
    let url = AskedUrl::read(URL).expect("it is a URL");
    let credentials = [SiteCredential {
        name: name("fuzz"),
        hosts: HostNames::read(["site.example"]).expect("it is a host"),
        agents: Vec::new(),
        field: http::header::AUTHORIZATION,
        value: Secret::new(VALUE.to_owned()),
        placeholder: PLACEHOLDER.to_owned(),
        before: String::new(),
    }];
    let mut scrub = put_in(&credentials, passed.agent(), &url, &mut HeaderMap::new());
    let mut judge = MessageJudge::new(&credentials, true, &url);
    let mut sent = String::new();
    for line in data.split(|byte| *byte == b'\n') {
        let Some((kind, said)) = line.split_first() else {
            continue;
        };
        let side = if kind & 1 == 0 {
            Side::Agent
        } else {
            Side::Site
        };
        let message = match kind & 2 {
            0 => WebSocketMessage::Text(String::from_utf8_lossy(said).into_owned()),
            _ => WebSocketMessage::Binary(Bytes::copy_from_slice(said)),
        };
        let Ok(message) = judge.judge(passed, &mut scrub, side, message) else {
            break;
        };
        match (side, message) {
            (Side::Agent, WebSocketMessage::Text(text)) => {
                assert!(!text.contains(PLACEHOLDER), "a placeholder went on");
                sent.push_str(&text);
                assert!(!sent.contains(CANARY), "a canary went on");
            }
            (Side::Site, WebSocketMessage::Text(text)) => {
                assert!(!text.contains(VALUE), "a credential came back");
            }
            (_, WebSocketMessage::Binary(_)) => {}
        }
    }
}

/// A robots.txt in all lines but the last, which is a path.
pub fn robots(data: &[u8]) {
    let cut = data.iter().rposition(|byte| *byte == b'\n');
    let (file, path) = data.split_at(cut.unwrap_or(data.len()));
    let path = format!("/{}", String::from_utf8_lossy(path).trim());
    let robots = Robots::read(file, "weir");
    let is_allowed = robots.allows(&path);
    assert!(
        robots.allows("/robots.txt"),
        "the file itself may be asked for"
    );
    assert_eq!(robots.allows(&path), is_allowed, "two answers");
}

#[cfg(test)]
mod tests {
    #[test]
    fn each_seed_cut_and_changed() {
        for seed in [
            include_bytes!("../../../fuzz/seeds/web_robots/groups").as_slice(),
            include_bytes!("../../../fuzz/seeds/web_robots/stars"),
        ] {
            for at in 0..seed.len() {
                super::robots(&seed[..at]);
                let mut changed = seed.to_vec();
                changed[at] ^= 0x15;
                super::robots(&changed);
            }
        }
    }
}
