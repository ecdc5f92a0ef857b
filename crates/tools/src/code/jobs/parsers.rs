//! The parsers of an engine: started when there is something to parse, ended when there was nothing for a while.

use std::ffi::OsString;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::code::api::ParseBy;
use crate::code::parse::worker::Pool;

/// How long parsers are kept that nobody uses, in milliseconds.
const IDLE_MS: u64 = 5_000;

/// Gives out the parsers.
pub(crate) struct Parsers {
    by: ParseBy,
    pool: Mutex<Option<(Arc<Pool>, Instant)>>,
}

impl Parsers {
    /// Parsers of a kind; none is started yet.
    pub(crate) fn new(by: ParseBy) -> Parsers {
        Parsers {
            by,
            pool: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<(Arc<Pool>, Instant)>> {
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The parsers, to be given back by dropping them.
    pub(crate) fn pool(&self) -> Arc<Pool> {
        let mut pool = self.lock();
        let (pool, used) = pool.get_or_insert_with(|| (Arc::new(make(&self.by)), Instant::now()));
        *used = Instant::now();
        Arc::clone(pool)
    }

    /// Whether parsers may be running.
    pub(crate) fn is_open(&self) -> bool {
        self.lock().is_some()
    }

    /// Ends parsers that nobody used lately.
    pub(crate) fn rest(&self) {
        let idle = Duration::from_millis(IDLE_MS);
        self.lock()
            .take_if(|(pool, used)| Arc::strong_count(pool) == 1 && used.elapsed() >= idle);
    }
}

fn make(by: &ParseBy) -> Pool {
    match by {
        ParseBy::Here => Pool::here(),
        ParseBy::Worker {
            program,
            args,
            workers,
        } => {
            let args = args.iter().map(OsString::from).collect();
            Pool::new(program.clone(), args, *workers)
        }
    }
}
