//! Where calls are answered: in the one process that has the engine, whichever that is.
//!
//! A gateway starts a process for each session, and one engine has one writer. So the first process that locks a data
//! folder opens the engine and answers the others over a Unix socket beside it; the others wait for the lock, and
//! when its owner ends, one of them goes on. A call whose owner ended meanwhile is made again, so every tool may be
//! called twice: what must not be done twice is told apart by the request's id. Only processes of the same user are answered.

pub mod frame;

mod owner;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::UnixStream;
use tokio::sync::{Semaphore, mpsc, watch};

use super::call::{Ask, Call, Problem, Said, Waits};
use super::{Cancel, Service, table};
use frame::{Asked, Frame};

/// Calls that are worked on at once; each has a thread.
pub const CALLS_MAX: usize = 64;
/// Calls that wait for one of those; more are refused.
pub const WAITING_MAX: usize = 1024;
/// How long a call waits for an engine that nobody has opened yet, in milliseconds.
const OPEN_MS_MAX: u64 = 20_000;
/// How often it looks again, in milliseconds.
const LOOK_MS: u64 = 20;
/// States of a job that wait to be told; more are left out, for the next says all of it.
const PROGRESS_MAX: usize = 8;
/// The lock of a data folder.
const LOCK: &str = "owner.lock";
/// The socket of its owner.
const SOCKET: &str = "owner.sock";

/// Answers calls. Made inside a runtime; cheap to clone.
#[derive(Clone)]
pub struct Desk<S: Service> {
    place: watch::Receiver<Place<S::Engine>>,
    socket: PathBuf,
    /// Whose engine it is.
    of: Arc<str>,
    calls: Arc<Semaphore>,
    waits: Arc<Waits>,
}

/// Where the engine is.
#[derive(Clone)]
enum Place<E> {
    /// Another process has it, or nobody yet.
    Elsewhere,
    /// Here.
    Here(E),
    /// It is ours to open, and cannot be opened.
    Failed(Problem),
}

/// Tells the states of the job that a call waits for, and receives them.
pub fn progress<J>() -> (mpsc::Sender<J>, mpsc::Receiver<J>) {
    mpsc::channel(PROGRESS_MAX)
}

impl<S: Service> Desk<S> {
    /// A desk for the engine of a data folder. The folder is made; the engine is opened in the background.
    ///
    /// # Errors
    ///
    /// Where the folder cannot be made, or its lock cannot be opened.
    pub fn open(settings: S::Settings) -> io::Result<Desk<S>> {
        let dir = S::data_dir(&settings).to_path_buf();
        owner::make_dir(&dir)?;
        let calls = Arc::new(Semaphore::new(CALLS_MAX + WAITING_MAX));
        let (says, place) = watch::channel(Place::Elsewhere);
        let desk = Desk {
            place,
            socket: dir.join(SOCKET),
            of: S::whose(&settings).into(),
            calls,
            waits: Arc::default(),
        };
        owner::start(settings, dir, says, desk.clone())?;
        Ok(desk)
    }

    /// Answers a call, here or by asking the owner. Dropping the future gives the call up.
    ///
    /// # Errors
    ///
    /// What is wrong with the call, or that nobody answers.
    pub async fn call(&self, ask: Ask, told: mpsc::Sender<S::Job>) -> Result<Said, Problem> {
        let _permit = self.calls.try_acquire().map_err(|_| busy())?;
        let mut place = self.place.clone();
        let mut waits = OPEN_MS_MAX / LOOK_MS;
        loop {
            let now = place.borrow_and_update().clone();
            match now {
                Place::Here(engine) => return here::<S>(engine, &self.waits, ask, told).await,
                Place::Failed(problem) => return Err(problem),
                Place::Elsewhere => match self.there(&ask, &told).await {
                    Ok(answer) => return answer,
                    Err(error) if waits == 0 => {
                        return Err(Problem::ours(format!(
                            "the process that has the data folder does not answer: {error}"
                        )));
                    }
                    // It is about to open, or it ended: somebody else goes on.
                    Err(_) => waits -= 1,
                },
            }
            let look = tokio::time::sleep(Duration::from_millis(LOOK_MS));
            tokio::select! {
                _ = place.changed() => {}
                () = look => {}
            }
        }
    }

    /// Asks the owner. The error is of the connection: another owner may answer.
    async fn there(
        &self,
        ask: &Ask,
        told: &mpsc::Sender<S::Job>,
    ) -> io::Result<Result<Said, Problem>> {
        let mut stream = owner::connect(&self.socket).await?;
        owner::same_user(&stream)?;
        let asked = Asked {
            of: self.of.to_string(),
            ask: ask.clone(),
        };
        frame::write(&mut stream, &asked).await?;
        loop {
            match frame::read(&mut stream).await? {
                Frame::<S::Job>::Progress(job) => {
                    let _ = told.try_send(*job);
                }
                Frame::Answer(answer) => return Ok(*answer),
            }
        }
    }
}

/// Answers on a thread of its own. Dropping the future gives the call up, and the thread ends soon after.
async fn here<S: Service>(
    engine: S::Engine,
    waits: &Arc<Waits>,
    ask: Ask,
    told: mpsc::Sender<S::Job>,
) -> Result<Said, Problem> {
    struct GiveUp(Cancel);
    impl Drop for GiveUp {
        fn drop(&mut self) {
            self.0.cancel();
        }
    }
    let cancel = Cancel::new();
    let give_up = GiveUp(cancel.clone());
    let waits = Arc::clone(waits);
    let work = tokio::task::spawn_blocking(move || {
        let session = ask.session.clone();
        let request = ask.request.clone();
        let progress = move |job: &S::Job| {
            // Full: nobody listens as fast, and the next state says all of this one.
            let _ = told.try_send(job.clone());
        };
        let call: Call<'_, S> = Call {
            engine: &engine,
            session: &session,
            request: &request,
            compat: ask.compat,
            cancel: &cancel,
            progress: &progress,
            waits: &waits,
        };
        table::run(&call, ask)
    });
    let done = work.await;
    drop(give_up);
    done.unwrap_or_else(|error| {
        tracing::error!(%error, "a call failed");
        Err(Problem::ours("the call failed; the server's log says why"))
    })
}

/// Answers one connection of another process.
async fn answer<S: Service>(desk: Desk<S>, mut stream: UnixStream) -> io::Result<()> {
    owner::same_user(&stream)?;
    let Asked { of, ask } = frame::read(&mut stream).await?;
    let Place::Here(engine) = desk.place.borrow().clone() else {
        return Ok(());
    };
    let (mut from, mut to) = stream.split();
    let permit = desk.calls.try_acquire();
    let refused = match permit.is_ok() {
        false => Some(busy()),
        true => (*of != *desk.of).then(S::not_yours),
    };
    if let Some(problem) = refused {
        return frame::write(&mut to, &Frame::<S::Job>::Answer(Box::new(Err(problem)))).await;
    }
    let (told, mut jobs) = progress();
    let mut work = std::pin::pin!(here::<S>(engine, &desk.waits, ask, told));
    let mut more = [0; 1];
    loop {
        tokio::select! {
            biased;
            Some(job) = jobs.recv() => {
                frame::write(&mut to, &Frame::Progress(Box::new(job))).await?;
            }
            answer = &mut work => {
                return frame::write(&mut to, &Frame::<S::Job>::Answer(Box::new(answer))).await;
            }
            // Nothing more is due of the other side: whatever it is, the call is given up.
            _ = tokio::io::AsyncReadExt::read(&mut from, &mut more) => return Ok(()),
        }
    }
}

fn busy() -> Problem {
    Problem {
        code: "busy".to_owned(),
        message: "too many calls at once; ask again in a moment".to_owned(),
        data: None,
    }
}
