//! The public face of code search: what is asked, what is answered, and the [`Engine`] that does it.
//!
//! Types only: they are what the tools of the server, the command line and the tests share, and their doc
//! comments are the descriptions that a client reads. A path of the host never stands in an answer: trees have
//! names, and files are named from the root of their tree.

mod answer;
mod ask;
mod error;
mod settings;

pub use super::engine::Engine;
pub use crate::serve::Cancel;
pub use answer::{
    Answer, FileFound, FilesAnswer, Gone, Hit, Job, JobState, LeftOut, NearCopies, ReadAnswer,
    Removed, Repositories, RepositoryStatus, ScoreParts, Standing, Status, Updates, VectorStatus,
};
pub use ask::{
    CancelAsk, Detail, FilesAsk, IndexAsk, ListAsk, Mode, ReadAsk, Related, Remove, Search,
    StatusAsk, SymbolAsk, SymbolWant,
};
pub use error::{Error, Result};
pub use settings::{ChunkKey, Dense, Limits, ParseBy, Settings};
