//! Each rule alone: what it costs on real text, and on a megabyte that is made to be slow for it.

use scan::{Action, Class, Direction, Engine, Rule, Settings};
use serde_json::{Value, json};

use crate::corpus::Corpus;
use crate::cpu_ns;

const SLOW_BYTES: usize = 1 << 20;
/// Bytes of the first try, which chooses the slowest text of each rule.
const TRY_BYTES: usize = 32 << 10;
/// Texts that are one run, of marks or of letters, of which nothing can be learned.
const RUNS: [&str; 3] = ["##>>", "@ignore", "your_password"];

/// Bytes of two texts of which one is so many times the other: what is linear costs as many times more.
const GROWN_BYTES: [usize; 2] = [8 << 10, 64 << 10];
/// A text that came again and again has been learned; its cost is the least of so many.
const GROWN_TRIES: usize = 2;

/// An engine of one rule.
fn alone(rule: &Rule) -> Engine {
    let mut settings = Settings::default();
    let mut set = |name: &str, action| settings.set(name, None, action).expect("it is known");
    Class::ALL
        .iter()
        .for_each(|class| set(class.as_str(), Action::Off));
    set(rule.id, Action::Refuse);
    Engine::new(settings, [7; 32])
}

fn texts_of(rule: &Rule) -> bool {
    let reads = matches!(
        rule.class,
        Class::Secret | Class::Personal | Class::Injection
    );
    reads && !rule.regex.is_empty()
}

/// Prints what each rule costs over a text of all kinds, in nanoseconds a byte more than no rule does.
pub fn each_alone(corpus: &Corpus, only: Option<String>) {
    let text = corpus.mixed(1 << 20);
    let cost = |engine: &Engine| {
        let once = || {
            let start = cpu_ns();
            let _ = engine.text(Direction::Incoming, &text, "");
            cpu_ns() - start
        };
        once();
        once().min(once()) as f64 / text.len() as f64
    };
    let chosen =
        |rule: &&Rule| texts_of(rule) && only.as_ref().is_none_or(|only| rule.id.contains(&**only));
    let mut all: Vec<(f64, &str)> = scan::rules()
        .iter()
        .filter(chosen)
        .map(|rule| (cost(&alone(rule)), rule.id))
        .collect();
    all.sort_by(|a, b| b.0.total_cmp(&a.0));
    for (cost, id) in all.iter().take(60) {
        println!("{cost:8.2} ns/B  {id}");
    }
    if let Some((least, id)) = all.last() {
        println!("{least:8.2} ns/B  {id} (the least)");
    }
}

/// Texts that open a rule again and again, and close it as seldom as can be.
fn slow_texts(rule: &Rule) -> Vec<String> {
    let starts = rule.literals.iter().map(str::to_owned);
    let cut = |hit: &str| hit[..hit.floor_char_boundary(hit.len() * 3 / 4)].to_owned();
    let all: Vec<String> = starts.chain(rule.hits.iter().map(cut)).collect();
    let joints = ["", " ", "a"];
    all.iter()
        .flat_map(|text| joints.map(|joint| format!("{text}{joint}")))
        .filter(|text| !text.is_empty())
        .collect()
}

/// What is scanned whole; a text with too many findings ends early, and is no slow text.
fn cost(engine: &Engine, unit: &str, bytes: usize) -> Option<u64> {
    let text = unit.repeat(bytes / unit.len() + 1);
    let start = cpu_ns();
    let result = engine.text(Direction::Outgoing, &text, "");
    let spent = cpu_ns() - start;
    result.ok().map(|_| spent)
}

/// The slowest rules on a megabyte, each on its slowest text.
pub fn slow(only: Option<String>) -> Value {
    let whole = crate::operations::engine(&[]);
    let chosen =
        |rule: &&Rule| texts_of(rule) && only.as_ref().is_none_or(|only| rule.id.contains(&**only));
    let mut all: Vec<(f64, &str, String)> = Vec::new();
    for rule in scan::rules().iter().filter(chosen) {
        let units = slow_texts(rule);
        // All rules look at it, as they will.
        let tried = units.iter().filter_map(|unit| {
            let cost = cost(&whole, unit, TRY_BYTES)?;
            Some((cost, unit))
        });
        let Some((_, unit)) = tried.max_by_key(|(cost, _)| *cost) else {
            continue;
        };
        let twice = [(); 2].map(|()| cost(&whole, unit, SLOW_BYTES));
        if let Some(least) = twice.into_iter().flatten().min() {
            all.push((least as f64 / 1e6, rule.id, unit.clone()));
        }
    }
    all.sort_by(|a, b| b.0.total_cmp(&a.0));
    let runs = RUNS.map(|unit| {
        let spent = cost(&whole, unit, SLOW_BYTES);
        json!({"unit": unit, "ms": spent.map(|spent| spent as f64 / 1e6)})
    });
    let top = all.iter().take(20);
    let over = all.iter().filter(|(ms, ..)| *ms > 40.0).count();
    let list: Vec<Value> = top
        .map(|(ms, id, unit)| json!({"rule": id, "ms": ms, "unit": unit}))
        .collect();
    for (ms, id, unit) in all.iter().take(20) {
        eprintln!("{ms:8.2} ms  {id}  {unit:?}");
    }
    json!({"rules": all.len(), "over_40_ms": over, "slowest": list, "runs": runs})
}

/// How much more a byte costs in a long text than in a short one, of what rules find again and again: as one text, as the
/// strings of a list, which are also read put together, and as the stages of a command, with what rules leave alone.
pub fn grown(only: Option<String>) -> Value {
    let whole = crate::operations::engine(&[]);
    let chosen = |rule: &&Rule| only.as_ref().is_none_or(|only| rule.id.contains(&**only));
    let mut all: Vec<(f64, &str, &str)> = Vec::new();
    for rule in scan::rules().iter().filter(chosen) {
        for (unit, name, form) in again_and_again(rule) {
            let by_byte = |bytes: usize| {
                let tries = (0..GROWN_TRIES).filter_map(|_| form(&whole, &unit, bytes));
                Some(tries.min()? as f64 / bytes as f64)
            };
            // What ends early, because it has too many findings, is no slow text.
            let [short, long] = GROWN_BYTES.map(by_byte);
            if let (Some(short), Some(long)) = (short, long) {
                all.push((long / short, rule.id, name));
            }
        }
    }
    all.sort_by(|a, b| b.0.total_cmp(&a.0));
    for (times, id, form) in all.iter().take(20) {
        eprintln!("{times:8.2} times a byte  {id}, as {form}");
    }
    let most = all.first();
    json!({"texts": all.len(), "bytes": GROWN_BYTES, "times": most.map(|one| one.0), "rule": most.map(|one| one.1)})
}

/// What of a rule comes again and again, and as what.
fn again_and_again(rule: &Rule) -> Vec<(String, &'static str, Form)> {
    let joints = [" ", "\n"].into_iter().cycle();
    let texts = rule.hits.iter().zip(joints);
    let texts = texts.map(|(hit, joint)| format!("{hit}{joint}"));
    let forms: [(&str, Form); 2] = [("text", cost), ("list", list_cost)];
    let texts = texts.flat_map(|unit| forms.map(|(name, form)| (unit.clone(), name, form)));
    if texts_of(rule) {
        return texts.collect();
    }
    let stages = rule.hits.iter().chain(rule.misses);
    let stages = stages.map(|stage| (format!("{stage} | "), "command", call_cost as Form));
    stages.chain(texts).collect()
}

/// What a scan costs of a text of so many bytes that is made of one again and again.
type Form = fn(&Engine, &str, usize) -> Option<u64>;

/// The same text as the strings of a list.
fn list_cost(engine: &Engine, unit: &str, bytes: usize) -> Option<u64> {
    let list = json!(vec![unit; bytes / unit.len() + 1]).to_string();
    let start = cpu_ns();
    let result = engine.json(Direction::Outgoing, list.as_bytes(), "");
    let spent = cpu_ns() - start;
    result.ok().map(|_| spent)
}

/// The same text as a command that a tool is to run.
fn call_cost(engine: &Engine, unit: &str, bytes: usize) -> Option<u64> {
    let command = unit.repeat(bytes / unit.len() + 1);
    let params = json!({"name": "run", "arguments": {"command": command}}).to_string();
    let start = cpu_ns();
    let result = engine.call(Direction::Outgoing, params.as_bytes(), "", None);
    let spent = cpu_ns() - start;
    result.ok().map(|_| spent)
}
