//! What is measured: each operation of the engine, on which text, and what the peer does with the same.

use std::sync::{Arc, LazyLock};

use aho_corasick::AhoCorasick;
use base64::Engine as _;
use scan::{Action, Class, Direction, Engine, Sessions, Settings};

use crate::corpus::Corpus;
use crate::naive::{INJECTION, INJECTION_WORDS, Naive, SECRET_WORDS, SECRETS};

/// One thing that is measured.
pub struct Operation {
    pub name: &'static str,
    /// Bytes of the input, of one call.
    pub bytes: usize,
    /// Makes some calls, and says how many.
    pub ours: Body,
    pub naive: Option<Body>,
}

pub type Body = Box<dyn FnMut() -> usize>;

/// An engine that looks for all but some classes.
pub fn engine(off: &[Class]) -> Engine {
    let mut settings = Settings::default();
    for class in off {
        let set = settings.set(class.as_str(), None, Action::Off);
        set.expect("it is a class");
    }
    settings
        .urls
        .blocked
        .add("*.blocked.example")
        .expect("it is a pattern");
    Engine::new(settings, [7; 32])
}

/// Scans a text that came back.
pub fn text(engine: &Engine, text: &str) -> usize {
    let report = engine.text(Direction::Incoming, text, "");
    report.map_or(0, |report| report.findings.len())
}

const CLEAN: &str =
    "The build takes about four minutes; the slowest part is the linker, as the profile shows.";
const ALLOWED: &str = "https://docs.example.com/guide/getting-started?lang=en";
const BLOCKED: &str = "https://paste.blocked.example/raw/notes.txt";
const SECRET: &str =
    "https://api.example.com/v1/items?key=ghp_9fKq2mZx7Lw4Bv8Rt3Yc6Hn1Jd5Sg0Pa2WeU";
const COMPLEX: &str = "https://shop.example.com/catalog/garden/tools%20and%20more/item-4711;v=2?color=dark%2Dgreen&size=L&ref=newsletter&utm_source=mail&utm_campaign=spring&page=3#reviews";
/// What `bench.py` sends in its calls.
const PROSE: &str = "The quarterly survey lists each station by its distance from the weir, the mean depth of the channel and the days on which the gauge was read by hand. ";
const RESULT: &str = r#"{"jsonrpc":"2.0","id":17,"result":{"content":[{"type":"text","text":"src/main.rs\nsrc/lib.rs\nCargo.toml\n3 files changed, 120 insertions(+), 14 deletions(-)"}],"isError":false}}"#;

pub fn all(corpus: &Corpus) -> Vec<Operation> {
    let whole = Arc::new(engine(&[]));
    let secrets = Arc::new(engine(&[Class::Injection]));
    let injection = Arc::new(engine(&[Class::Secret, Class::Personal]));
    let mut all = vec![
        url("URL allowed", &whole, ALLOWED),
        url("URL blocked by a list", &whole, BLOCKED),
        url("URL with a secret", &whole, SECRET),
        url("URL complex", &whole, COMPLEX),
        url("URL of 2 KB, 40 parameters", &whole, &parameters(40)),
    ];
    let short = vec![CLEAN.to_owned()];
    let ten = corpus.stretches(10 << 10, 60);
    let mega = vec![corpus.mixed(1 << 20)];
    let of = |kind: usize| {
        ten.iter()
            .skip(kind)
            .step_by(3)
            .cloned()
            .collect::<Vec<_>>()
    };
    all.extend([
        texts("secrets, 90 B", &secrets, &short, Some(&SECRETS)),
        texts("secrets, 10 KB", &secrets, &ten, Some(&SECRETS)),
        texts("secrets, 1 MB", &secrets, &mega, None),
        texts("injection, 90 B", &injection, &short, Some(&INJECTION)),
        texts("injection, 10 KB", &injection, &ten, Some(&INJECTION)),
        once("injection, each 10 KB once", &injection, corpus),
        texts("injection, 1 MB", &injection, &mega, Some(&INJECTION)),
        texts("all, 10 KB of documents", &whole, &of(0), None),
        texts("all, 10 KB of source", &whole, &of(1), None),
        texts("all, 10 KB of JSON", &whole, &of(2), None),
        result(&whole),
        call(&whole),
        chat(&whole, corpus),
        words(
            "aho-corasick, only the words of secrets (10 KB)",
            &SECRET_WORDS,
            &ten,
        ),
        words(
            "aho-corasick, only the words of injection (10 KB)",
            &INJECTION_WORDS,
            &ten,
        ),
        words(
            "aho-corasick, only the words of injection (1 MB)",
            &INJECTION_WORDS,
            &mega,
        ),
    ]);
    all.extend(languages(&whole));
    all
}

fn url(name: &'static str, engine: &Arc<Engine>, url: &str) -> Operation {
    let (engine, url) = (engine.clone(), url.to_owned());
    Operation {
        name,
        bytes: url.len(),
        ours: Box::new(move || {
            let report = engine.url(Direction::Outgoing, &url, None);
            1 + usize::from(report.is_err())
        }),
        naive: None,
    }
}

/// A URL of two kilobytes whose parameters each look as if they could be a part of something.
fn parameters(count: usize) -> String {
    let value = |i: usize| {
        let text = format!("part {i} of a longer value {}", i * 7919);
        base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(text)
    };
    let pairs: Vec<String> = (0..count).map(|i| format!("p{i}={}", value(i))).collect();
    let mut url = format!("https://api.example.com/v1/search?{}", pairs.join("&"));
    url.truncate(2048);
    url
}

/// Finds all words of rules, and nothing more: what any scan that knows them has to do before it judges one.
fn words(
    name: &'static str,
    automaton: &'static LazyLock<AhoCorasick>,
    texts: &[String],
) -> Operation {
    let texts = texts.to_vec();
    Operation {
        name,
        bytes: texts.iter().map(String::len).sum::<usize>() / texts.len(),
        ours: Box::new(move || {
            let found = texts
                .iter()
                .map(|text| automaton.find_overlapping_iter(text).count());
            std::hint::black_box(found.sum::<usize>());
            texts.len()
        }),
        naive: None,
    }
}

fn texts(
    name: &'static str,
    engine: &Arc<Engine>,
    texts: &[String],
    peer: Option<&'static LazyLock<Naive>>,
) -> Operation {
    let (engine, ours) = (engine.clone(), texts.to_vec());
    let theirs = texts.to_vec();
    Operation {
        name,
        bytes: texts.iter().map(String::len).sum::<usize>() / texts.len(),
        ours: Box::new(move || {
            let found: usize = ours.iter().map(|one| text(&engine, one)).sum();
            std::hint::black_box(found);
            ours.len()
        }),
        naive: peer.map(|peer| -> Body {
            Box::new(move || {
                let found: usize = theirs.iter().map(|text| peer.scan(text.as_bytes())).sum();
                std::hint::black_box(found);
                theirs.len()
            })
        }),
    }
}

/// Texts that come once each: what an automaton learned of others helps with them as far as it does.
fn once(name: &'static str, engine: &Arc<Engine>, corpus: &Corpus) -> Operation {
    let (engine, texts) = (engine.clone(), corpus.each_once(10 << 10));
    let mut at = 0;
    Operation {
        name,
        bytes: 10 << 10,
        ours: Box::new(move || {
            std::hint::black_box(text(&engine, &texts[at % texts.len()]));
            at += 1;
            1
        }),
        naive: None,
    }
}

fn result(engine: &Arc<Engine>) -> Operation {
    let engine = engine.clone();
    Operation {
        name: "MCP result",
        bytes: RESULT.len(),
        ours: Box::new(move || {
            let report = engine.json(Direction::Incoming, RESULT.as_bytes(), "");
            1 + usize::from(report.is_err())
        }),
        naive: None,
    }
}

/// What a gateway scans of a call with 1 KB in and 1 KB out, in one session after the other such calls.
fn call(engine: &Arc<Engine>) -> Operation {
    let text = PROSE.repeat(1024 / PROSE.len());
    let params = serde_json::json!({"name": "t07", "arguments": {"text": text, "count": 7}});
    let content = serde_json::json!([{"type": "text", "text": text}]);
    let result = serde_json::json!({"jsonrpc": "2.0", "id": 1, "result": {"content": content}});
    let (params, result) = (params.to_string(), result.to_string());
    let (engine, sessions, mut now_ms) = (engine.clone(), Sessions::default(), 0);
    Operation {
        name: "a call, 1 KB in, 1 KB out",
        bytes: params.len() + result.len(),
        ours: Box::new(move || {
            now_ms += 1;
            let sent = sessions.with("agent", now_ms, |session| {
                let session = Some((session, now_ms));
                engine.call(Direction::Outgoing, params.as_bytes(), "params", session)
            });
            let came = engine.json(Direction::Incoming, result.as_bytes(), "result");
            1 + usize::from(sent.is_err()) + usize::from(came.is_err())
        }),
        naive: None,
    }
}

/// A body as an agent sends it to a model: turns of text, source and results.
fn chat(engine: &Arc<Engine>, corpus: &Corpus) -> Operation {
    let mut messages = Vec::new();
    let mut bytes = 0;
    for (i, text) in corpus.stretches(2 << 10, 60).into_iter().enumerate() {
        bytes += text.len();
        let role = ["user", "assistant", "tool"][i % 3];
        messages.push(serde_json::json!({"role": role, "content": text}));
        if bytes > 96 << 10 {
            break;
        }
    }
    let body = serde_json::json!({"model": "large", "stream": true, "messages": messages});
    let body = body.to_string();
    let engine = engine.clone();
    Operation {
        name: "JSON chat body, 100 KB",
        bytes: body.len(),
        ours: Box::new(move || {
            let report = engine.json(Direction::Outgoing, body.as_bytes(), "");
            1 + usize::from(report.is_err())
        }),
        naive: None,
    }
}

/// A paragraph of our own in each script, and one of the same bytes in ASCII.
const LANGUAGES: [(&str, &str); 5] = [
    (
        "ASCII, 10 KB of prose",
        "The ferry leaves at half past six, and whoever wants a seat at the window should come early. On the way the captain tells how the harbour was built, which storms it has seen and why the lighthouse was moved. In the evening there is soup. ",
    ),
    (
        "French, 10 KB of prose",
        "Le bac part à six heures et demie, et qui veut une place près de la fenêtre doit arriver tôt. En route, le capitaine raconte comment le port a été bâti, quelles tempêtes il a traversées et pourquoi le phare a été déplacé. Le soir, il y a de la soupe. ",
    ),
    (
        "Russian, 10 KB of prose",
        "Паром отходит в половине седьмого, и кто хочет сидеть у окна, должен прийти пораньше. По дороге капитан рассказывает, как строили гавань, какие бури она видела и почему перенесли маяк. Вечером подают суп. ",
    ),
    (
        "Chinese, 10 KB of prose",
        "渡轮六点半出发，想坐在窗边的人应该早点来。路上船长会讲港口是怎样建成的，经历过哪些风暴，灯塔又为什么要搬走。晚上有汤喝。",
    ),
    (
        "Japanese, 10 KB of prose",
        "フェリーは六時半に出ます。窓ぎわに座りたい人は早めに来てください。途中で船長が、港がどのように造られ、どんな嵐を見てきたか、なぜ灯台が移されたかを話してくれます。夜にはスープが出ます。",
    ),
];

fn languages(engine: &Arc<Engine>) -> Vec<Operation> {
    let one = |(name, text): &(&'static str, &str)| {
        let mut long = text.repeat((10 << 10) / text.len() + 1);
        long.truncate(long.floor_char_boundary(10 << 10));
        texts(name, engine, &[long], None)
    };
    LANGUAGES.iter().map(one).collect()
}
