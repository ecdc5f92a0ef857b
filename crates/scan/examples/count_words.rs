//! Counts how often the words of our rules against injection stand in ordinary text, and writes `src/common.rs`:
//!
//! ```sh
//! cargo run --release -p scan --example count_words -- ~/.cargo/registry/src > /tmp/common.rs
//! mv /tmp/common.rs crates/scan/src/common.rs
//! ```
//!
//! Which words open a branch is decided by how often they would, so each is counted as it is waited for: anywhere, where
//! a word begins, or as a whole word. The text is documentation, source and JSON, as much of each.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    reason = "an example reads files and prints"
)]
#![allow(
    clippy::expect_used,
    reason = "who counts words wants to know where it ends"
)]

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::{env, fs};

#[path = "../src/branch.rs"]
#[allow(dead_code, reason = "the engine needs the rest")]
mod branch;
#[path = "../src/common.rs"]
mod common;
#[path = "../src/east.rs"]
#[allow(dead_code, reason = "the engine needs the rest")]
mod east;
#[allow(
    unreachable_pub,
    reason = "public in the library, which shares this file"
)]
#[path = "../src/packed.rs"]
#[allow(dead_code, reason = "the engine needs the rest")]
mod packed;
#[path = "../src/spell.rs"]
#[allow(dead_code, reason = "the engine needs the rest")]
mod spell;
#[path = "../src/words.rs"]
#[allow(dead_code, reason = "the engine needs the rest")]
mod words;

/// Bytes of each kind of text, and of one file of it.
const KIND_BYTES: usize = 8 << 20;
const FILE_BYTES_MAX: usize = 64 << 10;
/// A word of so many letters is taken for one that stands less often than this, as a power of two, if nothing is said of it.
const RARE_LETTERS: usize = 7;
const RARE_POWER: u32 = 4;
/// Columns of a line.
const COLUMNS: usize = 100;
/// Common words of languages of which there is little text here, and how often they stand in a megabyte of theirs, about.
const OTHERS_POWER: u32 = 11;
const OTHERS: &str = "\
    alle als an auch auf aus bei bis da dann das dass dein deine dem den der des die diese dieser du durch ein eine einen \
    er es fur haben hat ich ihr ihre im in ist ja kann kein keine man mit nach nicht noch nun nur ob oder sein seine \
    sich sie sind so soll uber um und uns unser vom von vor war was wenn wer werden wie wir wird wurde zu zum zur \
    alles also andere damit diesem dieses doch hier ihm ihn jede jeder jetzt mehr muss ohne unter welche wo \
    al algo como con cual cuando de del desde donde el ella en entre es esta este esto hace hay la las le les lo los \
    mas me mi muy no nos o otro para pero por que quien se ser si sin sobre solo son su sus tambien te tiene todo todos \
    tu tus un una uno usted y ya \
    ante antes aqui asi bien cada cual debe despues dos durante eso estos fue hasta hoy puede pues sea siempre tan tanto vez \
    au aux avec ce ces cette comme dans des dit du elle est et etre faire fait il ils je leur lui ma mais meme mes moi mon \
    ne notre nous ou par pas plus pour qu sa sans ses son sont sur ta tes ton tous tout une vos votre vous \
    alors apres aussi avant bien chez depuis deux doit donc fut ici leurs ni peu peut puis quand que quel quelle qui quoi sous toute vers \
    agli alla alle allo anche che chi ci cui da dal dalla degli dei della delle di dove e fare gli ha hanno ho i loro \
    ma ne nel nella noi non o ogni prima quale quando quello questa questo se si sono sua suo tra tutti tuo un va voi \
    ancora cosi deve due essere gia loro molto nei ora per piu poi puo qui quei quelli sempre senza sotto stato sul sulla tutto verso viene \
    ao aos as ate com da das dele do dos e ela ele em essa esse eu foi ha isso ja mais mas meu muito na nao nas nem no \
    nos o os ou pela pelo por qual quem sao seu seus sua suas tem todas um uma voce \
    ainda antes aqui bem cada depois deve dois este isto ontem pode pois quando sempre ser sob sobre tambem tudo vez";
/// Words that are common in what agents read and write, of which there is none here, and how often they stand there, about.
const OURS_POWER: u32 = 8;
const OURS: &str = "agent agents ai answer assistant assistants instruction instructions llm message messages model \
    models prompt system tool tools user users";
/// The same of words that are common in what people tell one another.
const TOLD_POWER: u32 = 8;
const TOLD: &str = "about after again always another any ask back because before begin call can come could day each end \
    even ever every feel find first for get give go good great hand have her here him his home how just keep kind know \
    last leave let life like little long look lot made make man many may me men might mind more most much must my name \
    need never new next night no not nothing now off old on once one only open order other our out over own part people \
    place point put read right said same say see seem send set she should show side so some still stop such sure take \
    tell than that their them then there these they thing think this those thought time to told too try turn two under \
    until up upon us very wait want was way we well went were what when where which while who whoever why will wish with \
    woman word work world would write year yes yet you your";

/// The ends of the names of files, by kind.
const KINDS: [&[&str]; 3] = [&[".md", "README"], &[".rs"], &[".json"]];

fn main() {
    let folder = env::args_os().nth(1).expect("a folder with text");
    let mut texts: [String; 3] = Default::default();
    let mut files = Vec::new();
    walk(Path::new(&folder), &mut files);
    // Neighbours are of different packages.
    files.sort_by_cached_key(|path| {
        path.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        })
    });
    for path in files {
        let kind = KINDS
            .iter()
            .position(|ends| ends.iter().any(|end| path.ends_with(end)));
        let text = kind.map(|kind| &mut texts[kind]);
        let Some(text) = text.filter(|text| text.len() < KIND_BYTES) else {
            continue;
        };
        let Ok(more) = fs::read(&path) else { continue };
        let more = &more[..more.len().min(FILE_BYTES_MAX)];
        text.extend(
            more.iter()
                .filter(|byte| byte.is_ascii())
                .map(|byte| byte.to_ascii_lowercase() as char),
        );
        text.push('\n');
    }
    let text = texts.concat();
    print(&count(&text));
}

fn walk(folder: &Path, files: &mut Vec<String>) {
    for path in fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
    {
        match (path.is_dir(), path.to_str()) {
            (true, _) => walk(&path, files),
            (false, Some(path)) => files.push(path.to_owned()),
            _ => {}
        }
    }
}

/// The words of all steps of all branches that are ASCII.
fn candidates() -> Vec<Vec<u8>> {
    let injection = |rule: &&scan::Rule| rule.class == scan::Class::Injection;
    let mut all = Vec::new();
    for rule in scan::rules().iter().filter(injection) {
        let hir = branch::parse(rule.regex).expect("it was parsed before");
        for one in branch::alternatives(&hir) {
            let (steps, _) = branch::steps_in_order(&one);
            all.extend(
                steps
                    .into_iter()
                    .flat_map(|step| step.words)
                    .map(|(word, _)| word),
            );
        }
    }
    all.retain(|word| word.is_ascii());
    all.sort();
    all.dedup();
    all
}

/// How often words stand in a text: anywhere, where a word begins, as a whole word.
fn count(text: &str) -> [HashMap<Vec<u8>, usize>; 3] {
    let mut counts: [HashMap<Vec<u8>, usize>; 3] = Default::default();
    let bytes = text.as_bytes();
    let letter = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_alphanumeric);
    let words = candidates();
    for word in words {
        let finder = memchr::memmem::Finder::new(&word);
        for start in finder.find_iter(bytes) {
            let begins = !letter(start.wrapping_sub(1));
            let whole = begins && !letter(start + word.len());
            for (count, counts) in [true, begins, whole].into_iter().zip(&mut counts) {
                *counts.entry(word.clone()).or_default() += usize::from(count);
            }
        }
    }
    counts.map(|counts| {
        let megabytes = |count: usize| (count << 20) / text.len();
        counts
            .into_iter()
            .map(|(word, count)| (word, megabytes(count)))
            .collect()
    })
}

fn print(counts: &[HashMap<Vec<u8>, usize>; 3]) {
    println!(
        "//! Words of our rules that ordinary text has often, by how often: which step of a branch opens it."
    );
    println!("//!");
    println!(
        "//! Counted in the documentation, source and JSON of some hundred packages, by `examples/count_words.rs`. A word that"
    );
    println!("//! is missing is taken for a rare one, which costs time and hides nothing.");
    let lists = [
        (
            "PARTS",
            "How often words stand in a megabyte, as parts of others too, as a power of two, and those words.",
        ),
        ("BEGINS", "The same where words begin with them."),
        ("WHOLE", "The same of whole words."),
    ];
    for ((name, says), counts) in lists.into_iter().zip(counts) {
        let mut powers: BTreeMap<u32, Vec<&str>> = BTreeMap::new();
        for (word, count) in counts {
            let mut power = count.max(&1).ilog2();
            let word = std::str::from_utf8(word).expect("it is ASCII");
            for (words, least) in [
                (OTHERS, OTHERS_POWER),
                (OURS, OURS_POWER),
                (TOLD, TOLD_POWER),
            ] {
                if words.split(' ').any(|one| one == word) {
                    power = power.max(least);
                }
            }
            let marks = word.bytes().all(|byte| byte.is_ascii_punctuation());
            let says = power >= RARE_POWER || word.len() < RARE_LETTERS;
            if says && (name == "PARTS" || !marks) {
                powers.entry(power).or_default().push(word);
            }
        }
        println!("\n/// {says}\npub(crate) const {name}: &[(u32, &str)] = &[");
        for (power, mut words) in powers.into_iter().rev() {
            words.sort_unstable();
            println!("    ({power}, \"\\");
            lines(&words);
            println!("\"),");
        }
        println!("];");
    }
}

/// Words with a space between each two, on as many lines as they need.
fn lines(words: &[&str]) {
    let mut line = "     ".to_owned();
    for (at, word) in words.iter().enumerate() {
        if line.len() + word.len() + 3 > COLUMNS {
            println!("{line} \\");
            line = "     ".to_owned();
        }
        if !line.trim().is_empty() {
            line.push(' ');
        }
        line.extend(word.escape_default());
        if at + 1 == words.len() {
            print!("{line}");
        }
    }
}
