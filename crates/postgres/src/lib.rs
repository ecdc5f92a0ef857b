//! A connection to PostgreSQL for code that waits: one thread, one statement at a time, every wait bounded.
//!
//! Work tracking keeps its boards by it, and replicas what they share.
//!
//! A `Target` is a URL that was read and found safe: TLS by `sslmode`, roots by `sslrootcert`. A `Session` is one
//! connection. A session that lost its server, or that had to be given up, is broken and answers nothing more: who holds it
//! opens another. It refuses TLS that checks nothing, and keeps the password out of everything that it says.

#![cfg_attr(
    test,
    allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")
)]

mod target;
mod tls;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::time::Duration;

use bytes::Bytes;
use futures_util::SinkExt;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{AsyncMessage, Client, Connection, Statement};

pub use target::Target;
pub use tokio_postgres::Row;
pub use tokio_postgres::types::Type as ValueType;

/// How long a connection may take to open, in milliseconds.
const CONNECT_MS_MAX: u64 = 3_000;
/// How long one statement may take, in milliseconds. The server gives it up a little earlier (`STATEMENT_MS_MAX`).
const ANSWER_MS_MAX: u64 = 10_000;
/// After how long the server is asked to give a statement up, in milliseconds.
pub const STATEMENT_MS_MAX: u64 = 8_000;
/// Prepared statements that a session keeps.
const STATEMENTS_MAX: usize = 256;

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The server cannot be reached, or does not answer: what was asked may or may not have been done.
    Gone(String),
    /// The server refused the statement, and did nothing of it.
    Refused {
        /// SQLSTATE, PostgreSQL's documentation, appendix A.
        state: String,
        /// What it says.
        message: String,
    },
}

/// A value that a statement is given.
#[derive(Clone, Debug)]
pub enum SqlValue<'v> {
    Int(Option<i64>),
    Text(Option<&'v str>),
    Ints(Vec<i64>),
    Texts(Vec<&'v str>),
    Bytes(Option<&'v [u8]>),
}

/// Why a wait for news ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Heard<T> {
    /// The server notified this session of something that it listens for.
    Notice,
    /// What was waited for beside it.
    Other(T),
    /// The time is over.
    Nothing,
}

/// One connection.
pub struct Session {
    /// There until the session ends.
    runtime: Option<Runtime>,
    client: Client,
    statements: RefCell<HashMap<(String, Vec<Type>), Statement>>,
    is_broken: Cell<bool>,
    /// That the server notified: one that waits stands for all that came.
    notices: RefCell<mpsc::Receiver<()>>,
    answer_ms: u64,
}

impl Session {
    /// Connects.
    ///
    /// # Errors
    ///
    /// Where nobody answers in time, or the server lets this role not in.
    pub fn open(target: &Target) -> Result<Session, Fault> {
        Session::open_within(target, ANSWER_MS_MAX)
    }

    /// The same, where each statement has a bound of its own in milliseconds.
    ///
    /// # Errors
    ///
    /// As [`Session::open`].
    pub fn open_within(target: &Target, answer_ms: u64) -> Result<Session, Fault> {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_all().build();
        let runtime = runtime.map_err(|error| Fault::Gone(format!("a runtime: {error}")))?;
        let (notify, notices) = mpsc::channel(1);
        let client = bounded(&runtime, CONNECT_MS_MAX, async {
            match &target.tls {
                None => {
                    let (client, connection) = target.config.connect(tokio_postgres::NoTls).await?;
                    tokio::spawn(carry(connection, notify));
                    Ok(client)
                }
                Some(tls) => {
                    let (client, connection) = target.config.connect(tls.clone()).await?;
                    tokio::spawn(carry(connection, notify));
                    Ok(client)
                }
            }
        })?;
        Ok(Session {
            runtime: Some(runtime),
            client,
            statements: RefCell::default(),
            is_broken: Cell::new(false),
            notices: RefCell::new(notices),
            answer_ms,
        })
    }

    /// Whether nothing more can be asked.
    pub fn is_broken(&self) -> bool {
        self.is_broken.get() || self.client.is_closed()
    }

    /// Statements without values, one after the other.
    ///
    /// # Errors
    ///
    /// What the server refuses, or that it is gone.
    pub fn batch(&self, sql: &str) -> Result<(), Fault> {
        self.wait(self.answer_ms, self.client.batch_execute(sql))
    }

    /// The same, with a bound of its own in milliseconds.
    ///
    /// # Errors
    ///
    /// What the server refuses, or that it is gone.
    pub fn batch_within(&self, sql: &str, ms: u64) -> Result<(), Fault> {
        self.wait(ms, self.client.batch_execute(sql))
    }

    /// The rows of a statement.
    ///
    /// # Errors
    ///
    /// What the server refuses, or that it is gone.
    pub fn rows(&self, sql: &str, values: &[SqlValue<'_>]) -> Result<Vec<Row>, Fault> {
        let statement = self.statement(sql, values)?;
        let given: Vec<&(dyn ToSql + Sync)> = values.iter().map(SqlValue::as_sql).collect();
        self.wait(self.answer_ms, self.client.query(&statement, &given))
    }

    /// Does a statement, and says how many rows it changed.
    ///
    /// # Errors
    ///
    /// What the server refuses, or that it is gone.
    pub fn execute(&self, sql: &str, values: &[SqlValue<'_>]) -> Result<u64, Fault> {
        let statement = self.statement(sql, values)?;
        let given: Vec<&(dyn ToSql + Sync)> = values.iter().map(SqlValue::as_sql).collect();
        self.wait(self.answer_ms, self.client.execute(&statement, &given))
    }

    /// Sends rows by `COPY … FROM STDIN`, in pieces as the statement's format has them, and says how many there were.
    ///
    /// # Errors
    ///
    /// What the server refuses, or that it is gone.
    pub fn copy_in(&self, sql: &str, pieces: Vec<Bytes>) -> Result<u64, Fault> {
        self.wait(self.answer_ms, async {
            let sink = self.client.copy_in::<_, Bytes>(sql).await?;
            let mut sink = std::pin::pin!(sink);
            for piece in pieces {
                sink.send(piece).await?;
            }
            sink.finish().await
        })
    }

    /// Waits for a notification of what this session listens for, or for something else, for so long at most.
    ///
    /// # Errors
    ///
    /// That the server is gone.
    pub fn hear<T>(&self, ms: u64, other: impl Future<Output = T>) -> Result<Heard<T>, Fault> {
        let gone = || Fault::Gone("the connection was lost".to_owned());
        let Some(runtime) = self.runtime.as_ref().filter(|_| !self.is_broken()) else {
            return Err(gone());
        };
        let mut notices = self.notices.borrow_mut();
        let heard = runtime.block_on(async {
            tokio::select! {
                notice = notices.recv() => notice.map(|()| Heard::Notice),
                other = other => Some(Heard::Other(other)),
                () = tokio::time::sleep(Duration::from_millis(ms)) => Some(Heard::Nothing),
            }
        });
        heard.ok_or_else(|| {
            self.is_broken.set(true);
            gone()
        })
    }

    fn statement(&self, sql: &str, values: &[SqlValue<'_>]) -> Result<Statement, Fault> {
        let types: Vec<Type> = values.iter().map(SqlValue::sql_type).collect();
        let key = (sql.to_owned(), types);
        if let Some(statement) = self.statements.borrow().get(&key) {
            return Ok(statement.clone());
        }
        let statement = self.wait(self.answer_ms, self.client.prepare_typed(&key.0, &key.1))?;
        let mut kept = self.statements.borrow_mut();
        // Few texts differ from call to call; where they do, all are forgotten at once.
        if kept.len() >= STATEMENTS_MAX {
            kept.clear();
        }
        kept.insert(key, statement.clone());
        Ok(statement)
    }

    fn wait<T>(
        &self,
        ms: u64,
        what: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Result<T, Fault> {
        if self.is_broken() {
            return Err(Fault::Gone("the connection was lost".to_owned()));
        }
        let Some(runtime) = &self.runtime else {
            return Err(Fault::Gone("the session ended".to_owned()));
        };
        let result = bounded(runtime, ms, what);
        if let Err(Fault::Gone(_)) = result {
            self.is_broken.set(true);
        }
        result
    }
}

impl Drop for Session {
    /// A session may end where nothing may block.
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl SqlValue<'_> {
    fn sql_type(&self) -> Type {
        match self {
            SqlValue::Int(_) => Type::INT8,
            SqlValue::Text(_) => Type::TEXT,
            SqlValue::Ints(_) => Type::INT8_ARRAY,
            SqlValue::Texts(_) => Type::TEXT_ARRAY,
            SqlValue::Bytes(_) => Type::BYTEA,
        }
    }

    fn as_sql(&self) -> &(dyn ToSql + Sync) {
        match self {
            SqlValue::Int(number) => number,
            SqlValue::Text(text) => text,
            SqlValue::Ints(numbers) => numbers,
            SqlValue::Texts(texts) => texts,
            SqlValue::Bytes(bytes) => bytes,
        }
    }
}

/// Carries what goes to the server and comes from it, until the connection ends.
async fn carry<S, T>(mut connection: Connection<S, T>, notify: mpsc::Sender<()>)
where
    S: AsyncRead + AsyncWrite + Unpin,
    T: AsyncRead + AsyncWrite + Unpin,
{
    while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
        if matches!(message, AsyncMessage::Notification(_)) {
            // Where one waits already, whoever takes it looks anew.
            let _ = notify.try_send(());
        }
    }
}

/// Waits, for so long at most.
fn bounded<T>(
    runtime: &Runtime,
    ms: u64,
    what: impl Future<Output = Result<T, tokio_postgres::Error>>,
) -> Result<T, Fault> {
    let limited = async { tokio::time::timeout(Duration::from_millis(ms), what).await };
    match runtime.block_on(limited) {
        Ok(result) => result.map_err(|error| fault(&error)),
        Err(_) => Err(Fault::Gone(format!("no answer in {} s", ms / 1000))),
    }
}

/// What went wrong, without the URL: the driver's own errors do not have it.
fn fault(error: &tokio_postgres::Error) -> Fault {
    match error.as_db_error() {
        // A server that ends the connection says so as an error of class FATAL.
        Some(refused) if matches!(refused.severity(), "FATAL" | "PANIC") => {
            Fault::Gone(refused.message().to_owned())
        }
        Some(refused) => Fault::Refused {
            state: refused.code().code().to_owned(),
            message: refused.message().to_owned(),
        },
        None => {
            let cause = std::error::Error::source(error);
            let cause = cause.map(|cause| format!(": {cause}"));
            Fault::Gone(format!("{error}{}", cause.unwrap_or_default()))
        }
    }
}
