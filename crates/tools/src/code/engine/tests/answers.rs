//! What an answer puts first, and what it tells once.

use super::*;
use crate::code::api::Detail;

fn top(bed: &Bed, query: &str) -> String {
    let answer = bed.search(query, Mode::Auto);
    answer
        .hits
        .first()
        .map(|hit| hit.path.clone())
        .unwrap_or_default()
}

/// Functions of one file, each a piece of its own.
fn functions(name: &str, count: usize) -> String {
    let body = |at: usize| {
        (0..30)
            .map(|line| format!("    total_{at}_{line} = total_{at}_{line} + {line}\n"))
            .collect::<String>()
    };
    (0..count)
        .map(|at| {
            format!(
                "def {name}_{at}(socket):\n    socket.drain()\n{}\n\n",
                body(at)
            )
        })
        .collect()
}

#[test]
fn a_file_leaves_room_for_others() {
    let mut files = vec![("src/drain.py".to_owned(), functions("drain_socket", 12))];
    files.extend((0..8).map(|at| {
        let text = format!("def close_{at}(socket):\n    # drain it first\n    socket.end()\n");
        (format!("src/close{at}.py"), text)
    }));
    let files: Vec<(&str, &str)> = files
        .iter()
        .map(|(path, text)| (&**path, &**text))
        .collect();
    let bed = Bed::new(&files);
    let mut ask = Search {
        query: "drain the socket".to_owned(),
        detail: Detail::Paths,
        limit: Some(10),
        ..Search::default()
    };
    let answer = bed.engine.search(&ask, &Cancel::new()).unwrap();
    let of_drain = |answer: &Answer| {
        paths(answer)
            .iter()
            .filter(|path| **path == "src/drain.py")
            .count()
    };
    assert_eq!(
        (answer.hits.len(), of_drain(&answer)),
        (10, 5),
        "{:?}",
        paths(&answer)
    );
    // The file's last hit tells how many more of it fit as well.
    let told: Vec<_> = answer
        .hits
        .iter()
        .filter_map(|hit| hit.more_in_file)
        .collect();
    let last = answer
        .hits
        .iter()
        .rfind(|hit| hit.path == "src/drain.py")
        .unwrap();
    assert_eq!((told.len(), last.more_in_file), (1, Some(told[0])));
    assert!(told[0] >= 3, "{told:?}");
    // Page by page each is there once.
    let mut all = answer.hits.clone();
    ask.cursor = answer.cursor;
    all.extend(all_hits(&bed.engine, &ask));
    let distinct: std::collections::HashSet<_> = all.iter().map(|hit| &hit.reference).collect();
    assert_eq!(
        (all.len() as u64, distinct.len() as u64),
        (answer.total, answer.total)
    );
}

#[test]
fn copies_of_a_document_are_one_hit() {
    let words = (0..120)
        .map(|at| format!("word{} ", at * 7 % 90))
        .collect::<String>();
    let page = |version: &str| {
        format!(
            "# Backpressure\n\nHow the queue keeps backpressure in version {version}. {words}\n"
        )
    };
    let (one, two, three) = (page("1.2"), page("1.3"), page("1.3"));
    let bed = Bed::new(&[
        ("docs/queue.md", &one),
        ("site/v1.3/queue.md", &two),
        ("site/latest/queue.md", &three),
        (
            "docs/other.md",
            "# Queues\n\nWhat else is said of a queue and its backpressure.\n",
        ),
        ("src/queue.py", "def queue_backpressure():\n    return 1\n"),
        ("copy/queue.py", "def queue_backpressure():\n    return 2\n"),
    ]);
    let answer = bed.search("documentation of queue backpressure", Mode::Auto);
    let pages: Vec<_> = answer
        .hits
        .iter()
        .filter(|hit| hit.path.ends_with("queue.md"))
        .collect();
    assert_eq!(pages.len(), 1, "{:?}", paths(&answer));
    let copies = pages[0].copies.as_ref().unwrap();
    assert_eq!((copies.count, copies.places.len()), (2, 2));
    assert!(
        copies
            .places
            .iter()
            .all(|place| place.contains("queue.md@") && place.contains("#L1-L"))
    );
    // Code that differs in one letter says something else.
    let code = answer.hits.iter().filter(|hit| hit.path.ends_with(".py"));
    assert_eq!(code.count(), 2);
    assert_eq!(answer.total as usize, answer.hits.len());
}

#[test]
fn the_spelling_that_is_asked_for_comes_first() {
    let bed = Bed::new(&[
        ("a.py", "class httpclient:\n    pass\n"),
        ("b.py", "class HTTPClient:\n    pass\n"),
        ("c.py", "class HttpClient:\n    pass\n"),
        ("d.py", "class HTTPCLIENT:\n    pass\n"),
    ]);
    for (query, path) in [
        ("HttpClient", "c.py"),
        ("HTTPClient", "b.py"),
        ("httpclient", "a.py"),
        ("HTTPCLIENT", "d.py"),
        ("where is HttpClient made", "c.py"),
    ] {
        assert_eq!(top(&bed, query), path, "{query}");
        assert_eq!(bed.search(query, Mode::Auto).hits.len(), 4, "{query}");
    }
}

#[test]
fn a_question_about_code_is_answered_by_code() {
    let readme = "# Retry budget\n\nThe retry budget bounds retries. A retry budget is a tenth of all calls: the function of the \
                  retry budget says so.\n";
    let code = "def retry_budget(calls):\n    left = calls // 10\n    for call in range(left):\n        yield call\n";
    let bed = Bed::new(&[("README.md", readme), ("lib/limits.py", code)]);
    for query in [
        "retry_budget",
        "which function is the retry budget",
        "where is the function of the retry budget",
    ] {
        assert_eq!(top(&bed, query), "lib/limits.py", "{query}");
    }
    assert_eq!(top(&bed, "readme on the retry budget"), "README.md");
}

#[test]
fn a_language_is_preferred_and_not_looked_for() {
    let bed = Bed::new(&[
        (
            "a/serve.py",
            "def http_server(port):\n    \"\"\"Serves HTTP on a port.\"\"\"\n    listen(port)\n",
        ),
        (
            "a/serve.rs",
            "/// Serves HTTP on a port.\nfn http_server(port: u16) {\n    listen(port);\n}\n",
        ),
        (
            "a/python.rs",
            "/// Finds the python of this machine.\nfn python() -> Path {\n    find(\"python\")\n}\n",
        ),
        (
            "a/rust.py",
            "def rust():\n    \"\"\"Finds rust: the rust server.\"\"\"\n    return find(\"rust\")\n",
        ),
    ]);
    assert_eq!(top(&bed, "python http server"), "a/serve.py");
    assert_eq!(top(&bed, "http server in Rust"), "a/serve.rs");
    // Where all files are in it, its name tells something else.
    let bed = Bed::new(&[
        ("serve.py", "def server(port):\n    listen(port)\n"),
        (
            "find.py",
            "def find_python(port):\n    return which(\"python\")\n",
        ),
    ]);
    assert_eq!(top(&bed, "find python"), "find.py");
}
