//! The table of tools: names, schemas, annotations and what answers, one row a tool.
//!
//! The listing, the calls and the test that calls every name are made from it, so a tool is one row. The
//! first ten are ours; the others are those of codebase-mcp, which answer in any case and are listed only where
//! that is asked for, because each listed tool costs context.

use std::time::{Duration, Instant};

use serde_json::{Map, Value};

use super::api::{
    Answer, CancelAsk, FilesAnswer, FilesAsk, IndexAsk, Job, ListAsk, ReadAnswer, ReadAsk, Related,
    Remove, Removed, Repositories, Search, Status, StatusAsk, SymbolAsk,
};
use super::{Call, codebase, say};
use crate::serve::call::{Problem, Said, WAITS_MAX, arguments, schema};
pub use crate::serve::table::run;
use crate::serve::table::{Effect, Whose, said};

/// Longest time that `index_repository` waits for the end of its job, in seconds.
pub const WAIT_S_MAX: u32 = 50;
/// How often a job that is waited for is told of, in milliseconds.
const TELL_MS: u64 = 200;

/// A tool of code search.
pub type Tool = crate::serve::table::Tool<super::Code>;

/// Every tool, in the order of the listing.
pub const ALL: &[Tool] = &[
    Tool {
        name: "search_code",
        title: "Search code",
        doc: "Finds code by meaning, by name or by text, best first. Say what it does in words, or give a name, a path, an exact text (mode text) or a regular expression (mode regex). Filters narrow the search itself. What is found was compared with the files a moment before; `coverage` under 1 means that indexing goes on, `left_out` says what did not fit, `cursor` goes on.",
        effect: Effect::Reads,
        whose: Whose::Both {
            input: schema::<codebase::SearchCall>,
            output: schema::<codebase::Found>,
        },
        input: schema::<Search>,
        output: schema::<Answer>,
        run: search,
    },
    Tool {
        name: "find_related",
        title: "Find related code",
        doc: "Finds pieces of code that are like the one that a `ref` names: its callers' neighbours, its twins, its tests.",
        effect: Effect::Reads,
        whose: Whose::Ours,
        input: schema::<Related>,
        output: schema::<Answer>,
        run: |call, map| {
            let mut ask: Related = arguments(map)?;
            ask.reference = required("ref", ask.reference)?;
            hits(call.engine.related(&ask, call.cancel)?)
        },
    },
    Tool {
        name: "get_symbol",
        title: "Look up a symbol",
        doc: "Finds where a name is defined (want definition), every line that names it (want references), or everything that a file defines (want outline, with path).",
        effect: Effect::Reads,
        whose: Whose::Ours,
        input: schema::<SymbolAsk>,
        output: schema::<Answer>,
        run: |call, map| {
            let mut ask: SymbolAsk = arguments(map)?;
            ask.project = ask.project.or_else(|| call.session.project.clone());
            hits(call.engine.symbol(&ask, call.cancel)?)
        },
    },
    Tool {
        name: "find_files",
        title: "Find files",
        doc: "Finds files by part of their path, by words of it in any order, or by a glob such as **/*.rs. All files when the query is empty.",
        effect: Effect::Reads,
        whose: Whose::Ours,
        input: schema::<FilesAsk>,
        output: schema::<FilesAnswer>,
        run: |call, map| {
            let mut ask: FilesAsk = arguments(map)?;
            ask.project = ask.project.or_else(|| call.session.project.clone());
            let answer = call.engine.files(&ask, call.cancel)?;
            said(&answer, say::files(&answer))
        },
    },
    Tool {
        name: "read_chunk",
        title: "Read code",
        doc: "Reads the lines that a `ref` names, with `context` lines around, or any lines of a file by repository and path. They come from the file as it is now; `changed` tells when it is another than when the ref was made.",
        effect: Effect::Reads,
        whose: Whose::Ours,
        input: schema::<ReadAsk>,
        output: schema::<ReadAnswer>,
        run: |call, map| {
            let answer = call.engine.read(&arguments(map)?)?;
            said(&answer, say::lines(&answer))
        },
    },
    Tool {
        name: "index_repository",
        title: "Index a repository",
        doc: "Indexes a directory below the allowed roots, or brings its index up to date, in the background; searches answer meanwhile. Asking again gives the same job. With wait_s the call waits, and tells its progress.",
        effect: Effect::Adds,
        whose: Whose::Ours,
        input: schema::<IndexAsk>,
        output: schema::<Job>,
        run: index,
    },
    Tool {
        name: "index_status",
        title: "How far indexing is",
        doc: "Tells jobs, repositories, coverage and vectors: of one job or repository, or of all.",
        effect: Effect::Reads,
        whose: Whose::Ours,
        input: schema::<StatusAsk>,
        output: schema::<Status>,
        run: |call, map| {
            let answer = call.engine.status(&arguments(map)?)?;
            said(&answer, say::status(&answer))
        },
    },
    Tool {
        name: "cancel_index",
        title: "Stop indexing",
        doc: "Gives up a job of index_repository. What was indexed till then is kept and found.",
        effect: Effect::Adds,
        whose: Whose::Ours,
        input: schema::<CancelAsk>,
        output: schema::<Job>,
        run: |call, map| {
            let ask: CancelAsk = arguments(map)?;
            let job = call.engine.cancel(&ask.job)?;
            said(&job, say::job(&job))
        },
    },
    Tool {
        name: "list_repositories",
        title: "List repositories",
        doc: "Lists the repositories that are indexed, with their branch, size, languages and how fresh they are.",
        effect: Effect::Reads,
        whose: Whose::Ours,
        input: schema::<ListAsk>,
        output: schema::<Repositories>,
        run: |call, map| {
            let ask: ListAsk = arguments(map)?;
            let answer = call.engine.repositories(ask.project.as_deref())?;
            said(&answer, say::repositories(&answer.repositories))
        },
    },
    Tool {
        name: "remove_repository",
        title: "Forget a repository",
        doc: "Deletes the index of a repository. Its files are not touched.",
        effect: Effect::Removes,
        whose: Whose::Ours,
        input: schema::<Remove>,
        output: schema::<Removed>,
        run: |call, map| {
            let mut ask: Remove = arguments(map)?;
            ask.repository = required("repository", ask.repository)?;
            let gone = call.engine.remove(&ask)?;
            let text = format!("{} is forgotten: {} files", gone.repository, gone.files);
            said(&gone, text)
        },
    },
    codebase::START,
    codebase::STATUS,
    codebase::DIRECTORY,
];

fn hits(answer: Answer) -> Result<Said, Problem> {
    said(&answer, say::hits(&answer))
}

/// An argument that may not be empty.
fn required(name: &str, value: String) -> Result<String, Problem> {
    if value.trim().is_empty() {
        return Err(Problem::argument(format!("`{name}` is missing")));
    }
    Ok(value)
}

/// Both generations of clients call this name: whoever sends arguments that only codebase-mcp has is answered
/// with its keys.
fn search(call: &Call<'_>, map: Map<String, Value>) -> Result<Said, Problem> {
    if call.compat || codebase::ONLY.iter().any(|name| map.contains_key(*name)) {
        return codebase::search(call, map);
    }
    let mut ask: Search = arguments(map)?;
    ask.project = ask.project.or_else(|| call.session.project.clone());
    hits(call.engine.search(&ask, call.cancel)?)
}

fn index(call: &Call<'_>, map: Map<String, Value>) -> Result<Said, Problem> {
    let mut ask: IndexAsk = arguments(map)?;
    if ask.wait_s > WAIT_S_MAX {
        return Err(Problem::argument(format!(
            "`wait_s`: must be 0 to {WAIT_S_MAX}; index_status tells how far a job is later"
        )));
    }
    // Before anything is begun: what is refused was not done.
    let _place = match ask.wait_s {
        0 => None,
        _ => Some(call.waits.take().ok_or_else(too_many_wait)?),
    };
    ask.project = ask.project.or_else(|| call.session.project.clone());
    let job = call.engine.index(&ask)?;
    let job = watch(call, job, Duration::from_secs(ask.wait_s.into()))?;
    said(&job, say::job(&job))
}

fn too_many_wait() -> Problem {
    Problem {
        code: "busy".to_owned(),
        message: format!(
            "{WAITS_MAX} calls wait for jobs already; call again without `wait_s`, and ask index_status how far the job is"
        ),
        data: None,
    }
}

/// The state of a job when it ended, or when the time was over; told of meanwhile.
fn watch(call: &Call<'_>, job: Job, wait: Duration) -> Result<Job, Problem> {
    (call.progress)(&job);
    if wait.is_zero() || job.state.is_over() {
        return Ok(job);
    }
    let until = Instant::now() + wait;
    let mut last = job;
    let mut updates = call.engine.progress(&last.id)?;
    let tick = Duration::from_millis(TELL_MS);
    let mut told = Instant::now();
    while !last.state.is_over() && !call.cancel.is_cancelled() {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        match updates.next_within(left.min(tick)) {
            Ok(Some(job)) => {
                // A job changes with each file: more often than anybody wants to be told.
                if job.state.is_over() || told.elapsed() >= tick {
                    (call.progress)(&job);
                    told = Instant::now();
                }
                last = job;
            }
            Ok(None) => {}
            Err(super::api::Gone) => break,
        }
    }
    Ok(last)
}
