//! Streams: every secret that the rules know, cut at every byte, comes out as if it had come whole.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

use scan::{Action, Direction, Engine, Rule, Settings, in_pieces};

fn engine() -> &'static Engine {
    static ENGINE: std::sync::LazyLock<Engine> =
        std::sync::LazyLock::new(|| Engine::new(Settings::default(), [1; 32]));
    &ENGINE
}

/// The rules that replace in what comes back, with a hit of each.
fn replaced() -> impl Iterator<Item = (&'static Rule, &'static str)> {
    let rules = scan::rules().iter();
    let incoming = rules.filter(|rule| rule.default_action(Direction::Incoming) == Action::Redact);
    incoming.flat_map(|rule| rule.hits.iter().map(move |hit| (rule, hit)))
}

fn whole(text: &str, direction: Direction) -> (Vec<u8>, bool) {
    let report = engine().text(direction, text, "").unwrap();
    let refused = report.action == Action::Refuse;
    (report.redacted(text.as_bytes()), refused)
}

#[test]
fn a_secret_cut_anywhere_is_replaced_as_if_it_were_whole() {
    let mut wrong = Vec::new();
    for (rule, hit) in replaced() {
        let text = format!("This is what I found: {hit} and so on.");
        let (expected, refused) = whole(&text, Direction::Incoming);
        if refused {
            continue;
        }
        for cut in 0..=text.len() {
            let (a, b) = text.as_bytes().split_at(cut);
            let (out, findings) = in_pieces(engine(), Direction::Incoming, [a, b]).unwrap();
            if out != expected || findings.is_empty() && expected != text.as_bytes() {
                let out = String::from_utf8_lossy(&out).into_owned();
                wrong.push(format!("{} cut at {cut}: {out}", rule.id));
                break;
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn bytes_one_by_one_come_out_as_if_they_were_whole() {
    let mut wrong = Vec::new();
    for (rule, hit) in replaced() {
        let text = format!("see {hit} there");
        let (expected, refused) = whole(&text, Direction::Incoming);
        let (out, _) = in_pieces(engine(), Direction::Incoming, text.as_bytes().chunks(1)).unwrap();
        if !refused && out != expected {
            wrong.push(format!("{}: {}", rule.id, String::from_utf8_lossy(&out)));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn what_refuses_is_found_before_its_last_byte_leaves() {
    let mut wrong = Vec::new();
    for rule in scan::rules() {
        let direction = rule
            .directions
            .first()
            .copied()
            .unwrap_or(Direction::Outgoing);
        if rule.default_action(direction) != Action::Refuse {
            continue;
        }
        for hit in rule.hits {
            let text = format!("see {hit}\n there");
            if !whole(&text, direction).1 {
                continue;
            }
            for size in [1, 3, 7] {
                let (out, findings) =
                    in_pieces(engine(), direction, text.as_bytes().chunks(size)).unwrap();
                let refused = findings.iter().any(|f| f.action == Action::Refuse);
                if !refused || out.len() >= text.len() - "\n there".len() {
                    wrong.push(format!("{} in pieces of {size}: {hit}", rule.id));
                }
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn prose_waits_for_its_last_word_only() {
    let text =
        "A sentence that comes word by word, as models write them; nothing in it is secret. ";
    let (mut stream, mut out) = (scan::Stream::default(), Vec::new());
    for (i, byte) in text.bytes().enumerate() {
        let place = Direction::Incoming.into();
        stream.push(engine(), place, &[byte], &mut out).unwrap();
        assert!(i + 1 - out.len() <= 64, "{i}: {}", out.len());
    }
    stream
        .finish(engine(), Direction::Incoming.into(), &mut out)
        .unwrap();
    assert_eq!(out, text.as_bytes());
}

#[test]
fn a_long_word_flows_and_hides_nothing() {
    // A token in base64, far inside a run of base64 that is longer than what is held.
    let token = "ghp_9fKq2mZx7Lw4Bv8Rt3Yc6Hn1Jd5Sg0Pa2WeU";
    let mut noise = Vec::new();
    let mut seed = 7u32;
    for _ in 0..60_000 {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        noise.push((seed >> 24) as u8 | 0x80);
    }
    use base64::Engine as _;
    for at in [100, 9_000, 17_000, 30_001, 59_000] {
        let data = [&noise[..at], b"  ", token.as_bytes(), b"  ", &noise[at..]].concat();
        let text = base64::engine::general_purpose::STANDARD.encode(data);
        for size in [1000, 4096, 100_000] {
            let pieces = text.as_bytes().chunks(size);
            let (out, findings) = in_pieces(engine(), Direction::Incoming, pieces).unwrap();
            assert!(
                findings.iter().any(|f| f.rule.id == "github_token"),
                "{at} {size}"
            );
            assert!(out.len() < text.len() + 100);
        }
    }
}
