//! What can go wrong, each with what to do about it.

use std::fmt;

use crate::serve::call::Problem;

/// What code search answers, or why it does not.
pub type Result<T> = std::result::Result<T, Error>;

/// Why there is no answer. The first five are the caller's to mend, the others ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// A field cannot be as it is.
    Ask {
        /// The field.
        field: &'static str,
        /// What is wrong, and what to write instead.
        problem: String,
    },
    /// A path outside what may be read. It does not tell whether there is anything.
    NotAllowed(String),
    /// No repository of that name, or none at all: with the names there are.
    NoRepository {
        /// The name that was asked for.
        asked: String,
        /// The names there are, at most 20.
        known: Vec<String>,
    },
    /// No job of that id.
    NoJob(String),
    /// No such file in the repository, or no such lines.
    NoFile(String),
    /// Too much is going on: ask again.
    Busy(String),
    /// The call was given up.
    Cancelled,
    /// Not indexed far enough to answer at all.
    NotReady(String),
    /// The index cannot be read or written.
    Store(String),
    /// A file or directory cannot be read.
    Io(String),
}

impl Error {
    /// A word for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Error::Ask { .. } => "bad_argument",
            Error::NotAllowed(_) => "not_allowed",
            Error::NoRepository { .. } => "no_repository",
            Error::NoJob(_) => "no_job",
            Error::NoFile(_) => "no_file",
            Error::Busy(_) => "busy",
            Error::Cancelled => "cancelled",
            Error::NotReady(_) => "not_ready",
            Error::Store(_) => "store",
            Error::Io(_) => "io",
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Ask { field, problem } => write!(f, "`{field}`: {problem}"),
            Error::NotAllowed(path) => write!(
                f,
                "`{path}` is not below a root that may be indexed; ask whoever runs this server to add it to `roots`"
            ),
            Error::NoRepository { asked, known } if known.is_empty() => write!(
                f,
                "no repository `{asked}`: none is indexed yet; call index_repository first"
            ),
            Error::NoRepository { asked, known } => write!(
                f,
                "no repository `{asked}`; there are: {}",
                known.join(", ")
            ),
            Error::NoJob(id) => write!(
                f,
                "no job `{id}`; index_status without `job` lists those there are"
            ),
            Error::NoFile(what) => write!(f, "{what}; find_files finds what there is"),
            Error::Busy(what) => write!(f, "{what}; ask again in a moment"),
            Error::Cancelled => write!(f, "the call was given up"),
            Error::NotReady(what) => write!(f, "{what}; index_status tells how far it is"),
            Error::Store(what) => write!(f, "the index: {what}"),
            Error::Io(what) => write!(f, "{what}"),
        }
    }
}

impl std::error::Error for Error {}

impl From<Error> for Problem {
    fn from(error: Error) -> Problem {
        Problem {
            code: error.code().to_owned(),
            message: error.to_string(),
            data: None,
        }
    }
}
