//! How it is: jobs, repositories, freshness, vectors.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use super::{Inner, Scope, lock};
use crate::code::api::{
    ChunkKey, Error, RepositoryStatus, Result, Standing, Status, StatusAsk, VectorStatus,
};
use crate::code::index::{Blob, Depth, View};
use crate::code::place::Place;
use crate::code::time;
use crate::code::tree::Tree;

/// Texts that are embedded at once.
const BATCH: usize = 64;
/// How long it is waited after a failure, in milliseconds.
const EMBED_AGAIN_MS: u64 = 30_000;
/// Vectors of no piece that are kept, besides as many as there are pieces: branches come back. And the most of both.
const SPARE_VECTORS: usize = 20_000;
const SPARE_VECTORS_MAX: usize = 100_000;
/// Languages that a status names.
const LANGUAGES_MAX: usize = 12;

/// How it is with vectors.
#[derive(Default)]
pub(super) struct Embedding {
    waiting: u64,
    error: Option<String>,
    not_before: Option<Instant>,
    /// The states of the trees for which all vectors were made.
    done: HashMap<String, u64>,
}

/// How fresh the states of a scope are.
pub(super) fn standing(scope: &Scope) -> Standing {
    let views = || scope.views.iter();
    let files: u64 = views().map(|view| view.entries.len() as u64).sum();
    let pending: u64 = views().map(|view| view.pending()).sum();
    let walked = views().all(|view| view.walked);
    Standing {
        generation: views().map(|view| view.generation).sum(),
        as_of: time::text(
            views()
                .map(|view| view.as_of)
                .min()
                .unwrap_or_else(SystemTime::now),
        ),
        coverage: match files {
            0 => f32::from(u8::from(walked)),
            files => (files - pending) as f32 / files as f32,
        },
        pending: pending + scope.behind,
    }
}

/// How a repository is.
pub(super) fn repository(inner: &Inner, tree: &std::sync::Arc<Tree>) -> RepositoryStatus {
    let behind = u64::from(tree.is_behind());
    let view = tree.view();
    let mut languages: HashMap<&'static str, u64> = HashMap::new();
    let (mut symbols, mut skipped) = (0, 0);
    for entry in view.entries.iter() {
        *languages.entry(entry.about.language.name()).or_default() += 1;
        symbols += u64::from(entry.about.symbols);
        let by_name = matches!(
            entry.about.depth,
            Depth::Binary | Depth::Large | Depth::Unreadable
        );
        skipped += u64::from(by_name);
    }
    let mut languages: Vec<(String, u64)> = languages
        .into_iter()
        .map(|(name, count)| (name.to_owned(), count))
        .collect();
    languages.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    languages.truncate(LANGUAGES_MAX);
    let scope = Scope {
        trees: vec![std::sync::Arc::clone(tree)],
        views: vec![std::sync::Arc::clone(&view)],
        roots: Vec::new(),
        text_bytes: 0,
        behind,
    };
    RepositoryStatus {
        repository: tree.row.name.clone(),
        project: tree.row.project.clone(),
        branch: branch(&inner.means.roots, &tree.row.dir),
        files: view.entries.len() as u64,
        chunks: view.chunks(),
        symbols,
        skipped,
        languages,
        watched: lock(&tree.watch).is_some(),
        standing: standing(&scope),
        notes: lock(&tree.notes).clone(),
    }
}

/// The branch that is checked out, where git's files are below a root.
fn branch(roots: &[std::path::PathBuf], dir: &Path) -> Option<String> {
    let git = dir.join(".git");
    let own = match std::fs::read_to_string(&git) {
        Ok(text) => dir.join(text.trim().strip_prefix("gitdir:")?.trim()),
        Err(_) => git,
    };
    let own = own.canonicalize().ok()?;
    if !roots.iter().any(|root| own.starts_with(root)) {
        return None;
    }
    let head = Place::open(roots, &own).ok()?.read("HEAD", 4096).ok()?.0?;
    let head = String::from_utf8(head).ok()?;
    let head = head.trim();
    Some(
        head.strip_prefix("ref: refs/heads/")
            .unwrap_or(head)
            .to_owned(),
    )
}

/// Jobs and repositories.
///
/// # Errors
///
/// As [`super::Engine::status`].
pub(super) fn status(inner: &Inner, ask: &StatusAsk) -> Result<Status> {
    let names: Vec<String> = ask.repository.iter().cloned().collect();
    let mut trees = inner.all_trees();
    if !names.is_empty() {
        trees = inner.choose(ask.project.as_deref(), &names)?;
    }
    trees.retain(|tree| {
        ask.project
            .as_ref()
            .is_none_or(|project| tree.row.project == *project)
    });
    let mut jobs: Vec<_> = lock(&inner.jobs)
        .iter()
        .rev()
        .map(|running| running.updates.now())
        .collect();
    jobs.retain(|job| {
        ask.job.as_ref().is_none_or(|id| job.id == *id)
            && ask
                .repository
                .as_ref()
                .is_none_or(|name| job.repository == *name)
            && ask
                .project
                .as_ref()
                .is_none_or(|project| job.project == *project)
    });
    if let Some(id) = &ask.job
        && jobs.is_empty()
    {
        return Err(Error::NoJob(id.clone()));
    }
    let embedding = lock(&inner.embedding);
    let dense = inner.settings.embed.as_ref();
    Ok(Status {
        jobs,
        repositories: trees.iter().map(|tree| repository(inner, tree)).collect(),
        vectors: VectorStatus {
            configured: dense.is_some(),
            embedder: dense.map(|dense| dense.id()),
            vectors: dense.map_or(0, |dense| dense.count() as u64),
            waiting: embedding.waiting,
            error: embedding.error.clone(),
        },
    })
}

/// Makes vectors that are missing, a batch at a time, until all are made, one fails, or something else is to be done.
pub(super) fn embed(inner: &Inner, ended: &AtomicBool) {
    let Some(dense) = inner.settings.embed.clone() else {
        return;
    };
    if lock(&inner.embedding)
        .not_before
        .is_some_and(|at| Instant::now() < at)
    {
        return;
    }
    for tree in inner.all_trees() {
        let view = tree.view();
        if lock(&inner.embedding).done.get(&tree.row.id) == Some(&view.generation) {
            continue;
        }
        match embed_tree(inner, &*dense, &tree, &view, ended) {
            Ok(()) => {
                let mut embedding = lock(&inner.embedding);
                embedding.done.insert(tree.row.id.clone(), view.generation);
                embedding.error = None;
            }
            Err(error) => {
                let mut embedding = lock(&inner.embedding);
                embedding.error = Some(error.to_string());
                let again = Duration::from_millis(EMBED_AGAIN_MS);
                embedding.not_before = Some(Instant::now() + again);
                return;
            }
        }
    }
    compact(inner, &*dense);
}

/// Has vectors forgotten that no tree needs, where they are many and every tree is indexed.
fn compact(inner: &Inner, dense: &dyn crate::code::api::Dense) {
    let views: Vec<_> = inner.all_trees().iter().map(|tree| tree.view()).collect();
    let chunks: u64 = views.iter().map(|view| view.chunks()).sum();
    let chunks = usize::try_from(chunks).unwrap_or(usize::MAX);
    let spare = chunks.saturating_add(SPARE_VECTORS).min(SPARE_VECTORS_MAX);
    let is_whole = |view: &View| view.walked && view.pending() == 0;
    if dense.count() <= chunks.saturating_add(spare) || !views.iter().all(|view| is_whole(view)) {
        return;
    }
    let mut needed: HashSet<ChunkKey> = HashSet::with_capacity(chunks);
    let all: Result<()> = views.iter().try_for_each(|view| {
        view.keys(&mut |key, _| {
            needed.insert(key);
        })
    });
    let compacted = all.and_then(|()| dense.compact(&|key| needed.contains(key)));
    if let Err(error) = compacted {
        tracing::warn!(%error, "vectors that nobody needs are kept");
    }
}

fn embed_tree(
    inner: &Inner,
    dense: &dyn crate::code::api::Dense,
    tree: &Tree,
    view: &View,
    ended: &AtomicBool,
) -> Result<()> {
    let mut places = Vec::new();
    view.keys(&mut |key, found| places.push((key, found.entry, found.chunk)))?;
    let keys: Vec<ChunkKey> = places.iter().map(|place| place.0).collect();
    let missing = dense.missing(&keys);
    lock(&inner.embedding).waiting = missing.len() as u64;
    let place = Place::open(&inner.means.roots, &tree.row.dir)?;
    for batch in missing.chunks(BATCH) {
        if ended.load(Ordering::Acquire) {
            return Ok(());
        }
        let mut texts: Vec<(ChunkKey, String)> = Vec::new();
        for at in batch {
            let Some((key, entry, chunk)) = places.get(*at) else {
                continue;
            };
            let entry = &view.entries[*entry as usize];
            if let Some(text) = chunk_text(inner, tree, &place, entry, *chunk)? {
                texts.push((*key, text));
            }
        }
        if !texts.is_empty() {
            dense.put(&texts)?;
        }
        let mut embedding = lock(&inner.embedding);
        embedding.waiting = embedding.waiting.saturating_sub(batch.len() as u64);
    }
    Ok(())
}

/// The text of a chunk with where it stands; none when its file has changed.
fn chunk_text(
    inner: &Inner,
    tree: &Tree,
    place: &Place,
    entry: &crate::code::index::Entry,
    chunk: u32,
) -> Result<Option<String>> {
    let most = inner.settings.limits.text_bytes;
    let bytes = place
        .read(&entry.path, most)
        .ok()
        .and_then(|(bytes, _)| bytes);
    let Some(bytes) = bytes.filter(|bytes| Blob::of(bytes) == entry.blob) else {
        return Ok(None);
    };
    let unit = tree.family.unit(entry.unit)?;
    let chunk = unit
        .as_ref()
        .and_then(|unit| unit.parsed.chunks.get(chunk as usize));
    Ok(chunk.map(|chunk| {
        let text = String::from_utf8_lossy(chunk.span.bytes.of(&bytes));
        let crumbs = chunk.crumbs.join(" › ");
        format!("{} › {crumbs}\n{text}", entry.path)
    }))
}
