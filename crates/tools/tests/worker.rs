//! Parsers in processes of their own, good ones and bad ones. This test is its own parser: it starts itself.
//!
//! It has no harness, because a parser's standard output is a protocol.

use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use tools::code::parse::worker::{self, Error, Pool};
use tools::code::parse::{self, Note, Parsed};

/// The arguments that make this program a parser.
const GOOD: &str = "--parse";
const BAD: &str = "--parse-badly";

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        Some(GOOD) => ended(worker::serve()),
        Some(BAD) => ended(worker::serve_by(&mut |path, bytes, _| badly(path, bytes))),
        _ => {
            run();
            ExitCode::SUCCESS
        }
    }
}

fn ended(result: std::io::Result<()>) -> ExitCode {
    if result.is_ok() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// A parser that does what the name of a file says.
fn badly(path: &str, bytes: &[u8]) -> Parsed {
    let mut parsed = parse::file(path, bytes);
    match path {
        "die" => std::process::abort(),
        "leave" => std::process::exit(0),
        "panic" => panic!("a parser that panics"),
        "hang" => loop {
            std::thread::park();
        },
        "loop" => loop {
            std::hint::spin_loop();
        },
        "eat" => drop(std::hint::black_box(vec![1_u8; 4 << 30])),
        "open" => {
            let can =
                fs::File::open("/").is_ok() || std::net::UdpSocket::bind("127.0.0.1:0").is_ok();
            assert!(!can, "a parser can open something");
        }
        "environment" => assert_eq!(std::env::vars_os().count(), 0),
        "lie about bytes" => parsed.chunks[0].span.bytes.end += 1,
        "lie about definitions" => parsed.chunks[0].defines.push(7),
        "lie about lines" => parsed.chunks[0].span.last = 9,
        "noise" => print!("noise"),
        _ => {}
    }
    parsed
}

fn run() {
    let tests: &[(&str, fn())] = &[
        (
            "children_answer_as_this_process_would",
            children_answer_as_this_process_would,
        ),
        (
            "what_kills_a_child_costs_one_file",
            what_kills_a_child_costs_one_file,
        ),
        (
            "a_child_can_open_nothing_and_knows_nothing",
            a_child_can_open_nothing_and_knows_nothing,
        ),
        ("threads_share_children", threads_share_children),
        (
            "what_is_no_parser_is_an_error",
            what_is_no_parser_is_an_error,
        ),
        (
            "a_runaway_is_ended_by_the_kernel",
            a_runaway_is_ended_by_the_kernel,
        ),
    ];
    for (name, test) in tests {
        test();
        println!("test {name} ... ok");
    }
    println!("{} passed, 0 failed", tests.len());
}

fn pool(mode: &str, count: usize) -> Pool {
    let program = std::env::current_exe().expect("this test");
    Pool::new(program, vec![mode.into()], count)
}

fn sources() -> Vec<(String, Vec<u8>)> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("cases/parse");
    let entries = fs::read_dir(directory).expect("the cases").flatten();
    let mut files: Vec<_> = entries.map(|entry| entry.path()).collect();
    files.sort();
    let read = |path: std::path::PathBuf| {
        (
            path.to_string_lossy().into_owned(),
            fs::read(&path).expect("a case"),
        )
    };
    files.into_iter().map(read).collect()
}

fn borrowed(files: &[(String, Vec<u8>)]) -> Vec<(&str, &[u8])> {
    files
        .iter()
        .map(|(path, bytes)| (path.as_str(), bytes.as_slice()))
        .collect()
}

fn children_answer_as_this_process_would() {
    let mut files = sources();
    // More than a batch, in files and in bytes.
    for index in 0..200 {
        files.push((
            format!("{index}.py"),
            format!("def f{index}(): pass\n").into_bytes(),
        ));
    }
    files.push(("big.txt".to_owned(), b"words of a text\n".repeat(200_000)));
    files.push(("huge.txt".to_owned(), vec![b'a'; parse::FILE_BYTES_MAX + 5]));
    files.push(("empty".to_owned(), Vec::new()));
    let pool = pool(GOOD, 1);
    let ours = Pool::here()
        .parse(&borrowed(&files))
        .expect("no child is needed");
    assert_eq!(pool.parse(&borrowed(&files)).expect("children"), ours);
    pool.rest();
    assert_eq!(
        pool.parse(&borrowed(&files[..3]))
            .expect("children come back"),
        ours[..3]
    );
    assert_eq!(pool.lost(), 0);
}

fn what_kills_a_child_costs_one_file() {
    let text = b"one\n\ntwo\n".as_slice();
    let names = [
        "good",
        "die",
        "leave",
        "panic",
        "eat",
        "noise",
        "lie about bytes",
        "lie about definitions",
        "lie about lines",
        "hang",
        "good too",
    ];
    let files: Vec<_> = names.iter().map(|name| (*name, text)).collect();
    let pool = pool(BAD, 1).silent_for(Duration::from_secs(2));
    let parsed = pool.parse(&files).expect("children");
    assert_eq!(parsed.len(), names.len());
    for (name, parsed) in names.iter().zip(&parsed) {
        let expected: &[Note] = match *name {
            "good" | "good too" => &[],
            "hang" => &[Note::TimedOut],
            _ => &[Note::Crashed],
        };
        assert_eq!(parsed.notes, expected, "{name}");
        assert!(parsed.is_about(text) && !parsed.chunks.is_empty(), "{name}");
    }
    assert_eq!(pool.lost(), names.len() as u64 - 2);
}

fn a_child_can_open_nothing_and_knows_nothing() {
    let pool = pool(BAD, 1);
    let parsed = pool
        .parse(&[("open", b"x"), ("environment", b"x")])
        .expect("children");
    assert!(parsed.iter().all(|parsed| parsed.notes.is_empty()));
}

fn threads_share_children() {
    let (pool, files) = (pool(GOOD, 2), sources());
    let files = borrowed(&files);
    let ours = Pool::here().parse(&files).expect("no child is needed");
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                for _ in 0..5 {
                    assert_eq!(pool.parse(&files).expect("children"), ours);
                }
            });
        }
    });
    assert_eq!(pool.lost(), 0);
}

fn what_is_no_parser_is_an_error() {
    let start = |program: &str| Pool::new(program.into(), Vec::new(), 1).parse(&[("a", b"x")]);
    assert!(matches!(start("/nowhere/weir"), Err(Error::Start(_))));
    assert!(matches!(start("/bin/true"), Err(Error::NotAParser)));
    let echo = Pool::new("/bin/echo".into(), vec!["something else".into()], 1);
    // It is asked again each time: nothing is left behind that would hang.
    for _ in 0..3 {
        assert!(matches!(echo.parse(&[("a", b"x")]), Err(Error::NotAParser)));
    }
}

/// A parser that never looks at the time (a grammar that loops) is ended by its limit of processor time.
fn a_runaway_is_ended_by_the_kernel() {
    let pool = pool(BAD, 1);
    let parsed = pool
        .parse(&[("loop", b"x"), ("good", b"x")])
        .expect("children");
    assert_eq!(parsed[0].notes, [Note::Crashed]);
    assert!(parsed[1].notes.is_empty());
}
