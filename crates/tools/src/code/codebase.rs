//! The four tools of codebase-mcp: its names, its arguments, its keys and what it says is wrong.
//!
//! It exists so that an agent which is used to that server finds its tools. What it does better than that one it
//! does here too: real progress, no path of the host in an answer, a directory outside the roots is refused at once,
//! and a repository is never indexed twice at once. It never writes into a repository.

mod directory;
mod types;

use std::path::Path;
use std::time::Instant;

use base::hex;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::Call;
use super::api::{Detail, Hit, IndexAsk, Job, JobState, ReadAsk, Search, StatusAsk};
use super::say;
use super::table::Tool;
use crate::serve::call::{Problem, Said, arguments, schema};
use crate::serve::table::{Effect, Whose, said};
use types::{CodeResult, DirectoryCall, DirectorySet, JobStatus, StartCall, Started, StatusCall};
pub(super) use types::{Found, SearchCall};

/// Arguments of `search_code` that only codebase-mcp has.
pub(super) const ONLY: &[&str] = &["project_id", "repository_id"];
/// The project of calls that name none.
const DEFAULT: &str = "default";
/// Lines of context before and after a result.
const CONTEXT_LINES: u32 = 10;

/// `start_indexing_background`.
pub(super) const START: Tool = Tool {
    name: "start_indexing_background",
    title: "Start indexing",
    doc: "Indexes a repository in the background; get_indexing_status tells how far it is. (As codebase-mcp has it; index_repository is the same with more.)",
    effect: Effect::Adds,
    whose: Whose::Theirs,
    input: schema::<StartCall>,
    output: schema::<Started>,
    run: start,
};

/// `get_indexing_status`.
pub(super) const STATUS: Tool = Tool {
    name: "get_indexing_status",
    title: "How far indexing is",
    doc: "Tells how far a job of start_indexing_background is. (As codebase-mcp has it; index_status is the same with more.)",
    effect: Effect::Reads,
    whose: Whose::Theirs,
    input: schema::<StatusCall>,
    output: schema::<JobStatus>,
    run: status,
};

/// `set_working_directory`.
pub(super) const DIRECTORY: Tool = Tool {
    name: "set_working_directory",
    title: "Set the working directory",
    doc: "Makes the project that .codebase-mcp/config.json in or above a directory names that of this session's calls. (As codebase-mcp has it.)",
    effect: Effect::Adds,
    whose: Whose::Theirs,
    input: schema::<DirectoryCall>,
    output: schema::<DirectorySet>,
    run: directory::set,
};

/// An id in the form of a UUID (version 8, RFC 9562 section 5.8) that is the same for the same words.
fn id_of(kind: &str, words: &[&str]) -> String {
    let mut digest = Sha256::new();
    for word in [kind].iter().chain(words) {
        digest.update((word.len() as u64).to_be_bytes());
        digest.update(word.as_bytes());
    }
    let digest = digest.finalize();
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest[..16]);
    bytes[6] = bytes[6] & 0x0f | 0x80;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex = hex::encode(&bytes);
    let parts = [
        &hex[..8],
        &hex[8..12],
        &hex[12..16],
        &hex[16..20],
        &hex[20..],
    ];
    parts.join("-")
}

fn is_uuid(text: &str) -> bool {
    let groups: Vec<&str> = text.split('-').collect();
    groups.iter().map(|group| group.len()).eq([8, 4, 4, 4, 12])
        && text.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-')
}

/// The name that its database would have: `cb_proj_`, the name cut to 30, and eight digits.
fn database_of(project: &str) -> String {
    if project == DEFAULT {
        return "cb_proj_default_00000000".to_owned();
    }
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() {
            c.to_ascii_lowercase()
        } else {
            '_'
        }
    };
    let name: String = project.chars().map(plain).take(30).collect();
    format!("cb_proj_{name}_{}", &id_of("project", &[project])[..8])
}

/// The project of a call, by what it says, what the session was told, or else the default.
fn project(call: &Call<'_>, asked: Option<&str>, must_be: bool) -> Result<String, Problem> {
    let Some(asked) = asked.map(str::trim).filter(|asked| !asked.is_empty()) else {
        let of_session = call.session.project.clone();
        return Ok(of_session.unwrap_or_else(|| DEFAULT.to_owned()));
    };
    let all = call.engine.repositories(None)?.repositories;
    let mut names: Vec<&str> = all.iter().map(|one| one.project.as_str()).collect();
    names.push(DEFAULT);
    names.sort_unstable();
    names.dedup();
    let is_it = |name: &&&str| **name == asked || id_of("project", &[name]) == asked;
    match names.iter().find(is_it) {
        Some(name) => Ok((*name).to_owned()),
        None if must_be => Err(Problem::argument(format!(
            "Project not found: {asked}. There are: {}. Index a repository with that project_id first, or leave it out.",
            names.join(", ")
        ))),
        None => Ok(asked.to_owned()),
    }
}

/// The name of the repository with an id.
fn repository(call: &Call<'_>, id: &str) -> Result<String, Problem> {
    if !is_uuid(id) {
        return Err(Problem::argument(format!(
            "Invalid repository_id format: {id}. Must be a valid UUID."
        )));
    }
    let all = call.engine.repositories(None)?.repositories;
    let mut names = all.iter().map(|one| (&one.project, &one.repository));
    let found = names.find(|(project, name)| id_of("repository", &[project, name]) == id);
    found
        .map(|(_, name)| name.clone())
        .ok_or_else(|| Problem::argument(format!("Repository not found: {id}")))
}

/// `search_code` with the keys of codebase-mcp.
pub(super) fn search(call: &Call<'_>, map: Map<String, Value>) -> Result<Said, Problem> {
    let began = Instant::now();
    let ask: SearchCall = arguments(map)?;
    check(&ask)?;
    let project = project(call, ask.project_id.as_deref(), true)?;
    let repositories = match &ask.repository_id {
        Some(id) => vec![repository(call, id)?],
        None => Vec::new(),
    };
    let answer = call.engine.search(
        &Search {
            query: ask.query,
            mode: ask.mode,
            project: Some(project.clone()),
            repositories,
            directory: ask.directory,
            paths: ask.paths,
            languages: ask.languages,
            file_type: ask.file_type,
            symbol_kind: ask.symbol_kind,
            limit: ask.limit.and_then(|limit| u32::try_from(limit).ok()),
            cursor: ask.cursor,
            detail: Detail::Full,
            max_tokens: ask.max_tokens,
            ..Search::default()
        },
        call.cancel,
    )?;
    let best = answer.hits.iter().map(|hit| hit.score).fold(0.0, f32::max);
    let results = answer.hits.iter().map(|hit| result(call, hit, best));
    let found = Found {
        results: results.collect(),
        total_count: answer.total,
        database_name: database_of(&project),
        project_id: project,
        latency_ms: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
        coverage: answer.standing.coverage,
        left_out: answer.left_out.clone(),
        cursor: answer.cursor.clone(),
    };
    said(&found, say::hits(&answer))
}

fn check(ask: &SearchCall) -> Result<(), Problem> {
    let wrong = |text: String| Err(Problem::argument(text));
    if ask.query.trim().is_empty() {
        return wrong("Query cannot be empty".to_owned());
    }
    if let Some(limit) = ask.limit.filter(|limit| !(1..=50).contains(limit)) {
        return wrong(format!("Limit must be between 1 and 50, got {limit}"));
    }
    if let Some(file_type) = &ask.file_type {
        if file_type.starts_with('.') {
            return wrong(format!(
                "file_type should not include leading dot: {file_type:?}; write {:?}",
                file_type.trim_start_matches('.')
            ));
        }
        if !(1..=20).contains(&file_type.chars().count()) {
            return wrong("file_type must be 1 to 20 characters".to_owned());
        }
    }
    if ask
        .directory
        .as_ref()
        .is_some_and(|dir| dir.trim().is_empty())
    {
        return wrong("directory cannot be empty; leave it out to search everywhere".to_owned());
    }
    Ok(())
}

fn result(call: &Call<'_>, hit: &Hit, best: f32) -> CodeResult {
    let lines = |start: u32, end: u32| {
        let ask = ReadAsk {
            repository: Some(hit.repository.clone()),
            path: Some(hit.path.clone()),
            start_line: Some(start),
            end_line: Some(end),
            ..ReadAsk::default()
        };
        // No such lines, or a file that changed under the search: then there is no context.
        let read = call.engine.read(&ask).ok();
        read.map(|answer| answer.text).unwrap_or_default()
    };
    let before = match hit.start_line {
        0 | 1 => String::new(),
        start => lines(start.saturating_sub(CONTEXT_LINES).max(1), start - 1),
    };
    CodeResult {
        chunk_id: id_of("chunk", &[&hit.reference]),
        reference: hit.reference.clone(),
        file_path: hit.path.clone(),
        content: hit.text.clone().unwrap_or_default(),
        start_line: hit.start_line,
        end_line: hit.end_line,
        similarity_score: if best > 0.0 {
            (hit.score / best).clamp(0.0, 1.0)
        } else {
            0.0
        },
        context_before: before,
        context_after: lines(hit.end_line + 1, hit.end_line + CONTEXT_LINES),
    }
}

fn start(call: &Call<'_>, map: Map<String, Value>) -> Result<Said, Problem> {
    let ask: StartCall = arguments(map)?;
    let path = Path::new(&ask.repo_path);
    if !path.is_absolute() {
        return Err(Problem::argument(format!(
            "repo_path must be an absolute path, got: {}",
            ask.repo_path
        )));
    }
    if path.components().any(|part| part.as_os_str() == "..") {
        return Err(Problem::argument("repo_path must not contain \"..\""));
    }
    let project = project(call, ask.project_id.as_deref(), false)?;
    let job = call.engine.index(&IndexAsk {
        path: ask.repo_path,
        project: Some(project.clone()),
        force: ask.force_reindex,
        ..IndexAsk::default()
    })?;
    let started = Started {
        job_id: job_id(&job),
        status: "pending".to_owned(),
        message: "Indexing job started".to_owned(),
        force_reindex: ask.force_reindex,
        database_name: database_of(&project),
        project_id: project,
    };
    let text = format!("{}: job {}\n", started.message, started.job_id);
    said(&started, text)
}

/// A job's id in the form that codebase-mcp has.
fn job_id(job: &Job) -> String {
    if is_uuid(&job.id) {
        job.id.clone()
    } else {
        id_of("job", &[&job.id])
    }
}

fn status(call: &Call<'_>, map: Map<String, Value>) -> Result<Said, Problem> {
    let ask: StatusCall = arguments(map)?;
    if !is_uuid(&ask.job_id) {
        return Err(Problem::argument(format!(
            "Invalid job_id format: {}",
            ask.job_id
        )));
    }
    let all = call.engine.status(&StatusAsk::default())?.jobs;
    let of_project = |job: &&Job| ask.project_id.as_ref().is_none_or(|p| *p == job.project);
    let mut jobs = all.iter().filter(of_project);
    let job = jobs
        .find(|job| job_id(job) == ask.job_id)
        .ok_or_else(|| Problem::argument(format!("Job not found: {}", ask.job_id)))?;
    let status = JobStatus {
        job_id: ask.job_id,
        status: match job.state {
            JobState::Queued => "pending",
            JobState::Running => "running",
            JobState::Done => "completed",
            JobState::Cancelled | JobState::Failed => "failed",
        }
        .to_owned(),
        status_message: message(job),
        repo_path: job.repository.clone(),
        project_id: job.project.clone(),
        files_indexed: job.files_indexed,
        chunks_created: job.chunks,
        force_reindex: job.force,
        error_message: job.error.clone(),
        created_at: job.created_at.clone(),
        started_at: job.started_at.clone(),
        completed_at: job.ended_at.clone(),
    };
    let text = format!("{}: {}\n", status.status, status.status_message);
    said(&status, text)
}

/// What codebase-mcp says of a job, and what it leaves out: files that were skipped.
fn message(job: &Job) -> String {
    let known = job.files_unchanged + job.files_indexed;
    let text = match job.state {
        JobState::Queued => "Indexing job is waiting".to_owned(),
        JobState::Running => format!(
            "Indexing: {} of {} files, {} chunks",
            job.files_done, job.files_seen, job.chunks
        ),
        JobState::Cancelled => "Indexing was cancelled".to_owned(),
        JobState::Failed => "Indexing failed".to_owned(),
        JobState::Done if job.force => format!(
            "Force reindex completed: {} files, {} chunks",
            job.files_indexed, job.chunks
        ),
        JobState::Done if job.files_indexed + job.files_removed == 0 && known > 0 => format!(
            "Repository up to date - no file changes detected since last index ({known} files already indexed)"
        ),
        JobState::Done if job.files_unchanged > 0 => format!(
            "Incremental update completed: {} files updated",
            job.files_indexed + job.files_removed
        ),
        JobState::Done => format!(
            "Full repository index completed: {} files, {} chunks",
            job.files_indexed, job.chunks
        ),
    };
    match job.files_skipped {
        0 => text,
        skipped => format!("{text}; {skipped} files are found by name only"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_uuids_and_stable() {
        let id = id_of("chunk", &["weir:a.rs@00"]);
        assert!(is_uuid(&id), "{id}");
        assert_eq!(id, id_of("chunk", &["weir:a.rs@00"]));
        assert_ne!(id, id_of("job", &["weir:a.rs@00"]));
        assert_eq!(&id[14..15], "8");
        for no in ["", "x", "0123", "00000000-0000-0000-0000-00000000000g"] {
            assert!(!is_uuid(no), "{no}");
        }
    }

    #[test]
    fn databases_are_named_as_there() {
        assert_eq!(database_of("default"), "cb_proj_default_00000000");
        let name = database_of("My Project! that has a very long name");
        assert!(
            name.starts_with("cb_proj_my_project__that_has_a_very_lo_"),
            "{name}"
        );
        assert_eq!(name.len(), "cb_proj_".len() + 30 + 1 + 8);
    }

    #[test]
    fn wrong_arguments_are_said_as_there() {
        let ask = |query: &str| SearchCall {
            query: query.to_owned(),
            ..SearchCall::default()
        };
        let text = |ask: SearchCall| check(&ask).unwrap_err().message;
        assert_eq!(text(ask("  ")), "Query cannot be empty");
        let limited = SearchCall {
            limit: Some(51),
            ..ask("x")
        };
        assert_eq!(text(limited), "Limit must be between 1 and 50, got 51");
        let dotted = SearchCall {
            file_type: Some(".py".into()),
            ..ask("x")
        };
        assert!(text(dotted).contains("leading dot"));
        let empty = SearchCall {
            directory: Some(" ".into()),
            ..ask("x")
        };
        assert!(text(empty).contains("directory cannot be empty"));
        assert!(check(&ask("x")).is_ok());
    }

    #[test]
    fn each_end_of_a_job_has_its_words() {
        let job = |state| Job {
            state,
            files_indexed: 3,
            chunks: 9,
            ..Job::default()
        };
        assert_eq!(
            message(&job(JobState::Done)),
            "Full repository index completed: 3 files, 9 chunks"
        );
        let again = Job {
            files_indexed: 0,
            files_unchanged: 5,
            ..job(JobState::Done)
        };
        assert!(message(&again).starts_with("Repository up to date"));
        let some = Job {
            files_unchanged: 5,
            ..job(JobState::Done)
        };
        assert_eq!(
            message(&some),
            "Incremental update completed: 3 files updated"
        );
        let skipped = Job {
            files_skipped: 2,
            ..job(JobState::Done)
        };
        assert!(message(&skipped).ends_with("; 2 files are found by name only"));
    }
}
