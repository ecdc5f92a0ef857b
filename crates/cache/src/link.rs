//! One thread's connection with the store: what is asked goes out in the order in which it came, and replies come back
//! in the same order.
//!
//! A connection that is late, ends, or says what is no reply is given up, and with it everything that waits for a
//! reply: nobody can know what became of it. The next is tried after a while that doubles; until then nothing is asked.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use base::limit::{
    CACHE_ANSWER_MS_MAX, CACHE_BACKOFF_MS_MAX, CACHE_DIAL_MS_MAX, CACHE_PIPELINE_MAX,
    CACHE_REPLY_BYTES_MAX,
};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::dial::{self, Wire};
use crate::examine::{self, Examined};
use crate::problem::{CacheProblem, NoCacheAnswer};
use crate::resp::{self, CacheCommands, CacheReply};
use crate::shared::{CacheAnswer, SharedCache};

/// The first wait after a connection that failed, in milliseconds.
const BACKOFF_MS: u64 = 50;
/// Between two looks for an answer that is late, in milliseconds.
const LATE_EVERY_MS: u64 = 50;
/// Questions that go out in one write.
const BATCH_MAX: usize = 64;
/// Room for what is read at once, in bytes.
const READ_BYTES: usize = 4096;

/// A question, and who waits for the answer.
pub(crate) struct Job {
    pub(crate) commands: CacheCommands,
    pub(crate) deadline: Instant,
    pub(crate) answer: oneshot::Sender<Result<CacheAnswer, NoCacheAnswer>>,
}

/// A question that was sent.
struct Asked {
    replies: Vec<CacheReply>,
    count: usize,
    deadline: Instant,
    answer: oneshot::Sender<Result<CacheAnswer, NoCacheAnswer>>,
}

/// Why a connection is no more.
enum End {
    /// Nobody asks any more.
    Idle,
    Broken(CacheProblem),
}

/// Keeps a connection for who asks, until nobody can ask any more.
pub(crate) async fn run(cache: Arc<SharedCache>, mut jobs: mpsc::Receiver<Job>) {
    let mut backoff_ms = BACKOFF_MS;
    loop {
        let problem = match establish(&cache).await {
            Ok((
                _,
                Examined {
                    problem: Some(problem),
                    ..
                },
            ))
            | Err(problem) => problem,
            Ok((wire, examined)) => {
                cache.connected();
                let generation = cache.met(&examined);
                backoff_ms = BACKOFF_MS;
                match serve(&cache, wire, generation, &mut jobs).await {
                    End::Idle => return,
                    End::Broken(problem) => problem,
                }
            }
        };
        cache.note(Some(problem));
        // So that all threads of all instances do not come back at one moment.
        let wait_ms = backoff_ms / 2 + fastrand::u64(..=backoff_ms / 2);
        backoff_ms = (backoff_ms * 2).min(CACHE_BACKOFF_MS_MAX);
        if !refuse_for(wait_ms, &mut jobs).await {
            return;
        }
    }
}

/// Asks nothing for a while; says whether anybody can still ask.
async fn refuse_for(wait_ms: u64, jobs: &mut mpsc::Receiver<Job>) -> bool {
    let over = tokio::time::sleep(Duration::from_millis(wait_ms));
    tokio::pin!(over);
    loop {
        tokio::select! {
            () = &mut over => return true,
            job = jobs.recv() => match job {
                Some(job) => drop(job.answer.send(Err(NoCacheAnswer::Unasked))),
                None => return false,
            },
        }
    }
}

/// A connection that was examined. What is wrong with it is told, and it is not used then.
pub(crate) async fn establish(cache: &SharedCache) -> Result<(Wire, Examined), CacheProblem> {
    let within = Duration::from_millis(CACHE_DIAL_MS_MAX);
    let tried = tokio::time::timeout(within, try_to_establish(cache)).await;
    tried.unwrap_or(Err(CacheProblem::Unreachable))
}

async fn try_to_establish(cache: &SharedCache) -> Result<(Wire, Examined), CacheProblem> {
    let url = &cache.url;
    let mut wire = dial::dial(url, &cache.tls).await?;
    let mut greeting = CacheCommands::new();
    if let Some(password) = &url.password {
        let password = password.expose().as_bytes();
        greeting = match &url.user {
            Some(user) => greeting.with(&[b"AUTH", user.as_bytes(), password]),
            None => greeting.with(&[b"AUTH", password]),
        };
    }
    if url.database > 0 {
        greeting = greeting.with(&[b"SELECT", url.database.to_string().as_bytes()]);
    }
    for reply in exchange(&mut wire, &greeting).await? {
        if let CacheReply::Error(text) = reply {
            return Err(CacheProblem::of_error(&text));
        }
    }
    let asked = cache.now();
    let examination = examine::commands(cache.may_not_persist());
    let replies = exchange(&mut wire, &examination).await?;
    let examined = examine::judge(&replies, asked, cache.now())?;
    Ok((wire, examined))
}

/// Sends commands and reads their replies; the caller bounds how long.
async fn exchange(
    wire: &mut Wire,
    commands: &CacheCommands,
) -> Result<Vec<CacheReply>, CacheProblem> {
    let gone = |_| CacheProblem::Unreachable;
    wire.write_all(commands.bytes()).await.map_err(gone)?;
    wire.flush().await.map_err(gone)?;
    let (mut buffer, mut replies) = (Vec::new(), Vec::new());
    while replies.len() < commands.count() {
        match resp::read(&buffer).map_err(|_| CacheProblem::Reply)? {
            Some((reply, used)) => {
                buffer.drain(..used);
                replies.push(reply);
            }
            None => {
                buffer.reserve(READ_BYTES);
                if wire.read_buf(&mut buffer).await.map_err(gone)? == 0 {
                    return Err(CacheProblem::Unreachable);
                }
            }
        }
    }
    match buffer.is_empty() {
        true => Ok(replies),
        false => Err(CacheProblem::Reply),
    }
}

/// Asks what comes, until the connection is of no use or nobody asks any more.
async fn serve(
    cache: &SharedCache,
    wire: Wire,
    generation: u64,
    jobs: &mut mpsc::Receiver<Job>,
) -> End {
    let (mut reading, mut writing) = tokio::io::split(wire);
    let mut late = tokio::time::interval(Duration::from_millis(LATE_EVERY_MS));
    let mut waiting: VecDeque<Asked> = VecDeque::new();
    let (mut batch, mut buffer) = (Vec::with_capacity(BATCH_MAX), Vec::new());
    let end = loop {
        let ended = tokio::select! {
            got = receive(&mut reading, &mut buffer) => match got {
                true => deliver(cache, generation, &mut buffer, &mut waiting),
                false => Some(CacheProblem::Unreachable),
            },
            count = jobs.recv_many(&mut batch, BATCH_MAX), if waiting.len() < CACHE_PIPELINE_MAX => {
                if count == 0 {
                    break End::Idle;
                }
                send(&mut writing, &mut batch, &mut waiting).await
            }
            _ = late.tick(), if !waiting.is_empty() => {
                let is_late = waiting.front().is_some_and(|asked| asked.deadline < Instant::now());
                is_late.then_some(CacheProblem::Unreachable)
            }
        };
        if let Some(problem) = ended {
            break End::Broken(problem);
        }
    };
    for asked in waiting {
        let _ = asked.answer.send(Err(NoCacheAnswer::Unknown));
    }
    end
}

/// Reads more; says whether the connection is still there.
async fn receive(reading: &mut (impl AsyncRead + Unpin), buffer: &mut Vec<u8>) -> bool {
    buffer.reserve(READ_BYTES);
    matches!(reading.read_buf(buffer).await, Ok(1..))
}

/// Sends what is still waited for.
async fn send(
    writing: &mut (impl AsyncWrite + Unpin),
    batch: &mut Vec<Job>,
    waiting: &mut VecDeque<Asked>,
) -> Option<CacheProblem> {
    let mut out = Vec::new();
    let now = Instant::now();
    for job in batch.drain(..) {
        if job.answer.is_closed() || job.deadline < now {
            continue;
        }
        out.extend_from_slice(job.commands.bytes());
        waiting.push_back(Asked {
            replies: Vec::with_capacity(job.commands.count()),
            count: job.commands.count(),
            deadline: job.deadline,
            answer: job.answer,
        });
    }
    let written = async {
        writing.write_all(&out).await?;
        writing.flush().await
    };
    let within = Duration::from_millis(CACHE_ANSWER_MS_MAX);
    match tokio::time::timeout(within, written).await {
        Ok(Ok(())) => None,
        _ => Some(CacheProblem::Unreachable),
    }
}

/// Gives out the replies that are whole. What came too late, or from another run of the store than the one that is known
/// by now, is no answer.
fn deliver(
    cache: &SharedCache,
    generation: u64,
    buffer: &mut Vec<u8>,
    waiting: &mut VecDeque<Asked>,
) -> Option<CacheProblem> {
    let (mut used, mut problem) = (0, None);
    let fault = loop {
        match resp::read(&buffer[used..]) {
            Ok(None) => break None,
            Err(_) => break Some(CacheProblem::Reply),
            Ok(Some((reply, bytes))) => {
                used += bytes;
                let Some(asked) = waiting.front_mut() else {
                    break Some(CacheProblem::Reply);
                };
                if let CacheReply::Error(text) = &reply {
                    problem = problem.or(Some(CacheProblem::of_error(text)));
                }
                asked.replies.push(reply);
                if asked.replies.len() == asked.count
                    && let Some(asked) = waiting.pop_front()
                {
                    if cache.generation() != generation {
                        let _ = asked.answer.send(Err(NoCacheAnswer::Unknown));
                        break Some(CacheProblem::Changed);
                    }
                    let answer = match asked.deadline < Instant::now() {
                        true => Err(NoCacheAnswer::Unknown),
                        false => Ok(CacheAnswer {
                            replies: asked.replies,
                            refuses_until_unix_ms: cache.state().refuses_until_unix_ms,
                        }),
                    };
                    let _ = asked.answer.send(answer);
                }
            }
        }
    };
    buffer.drain(..used);
    if buffer.capacity() > 2 * CACHE_REPLY_BYTES_MAX {
        buffer.shrink_to(READ_BYTES);
    }
    fault.or(problem)
}
