//! The revisions of MCP, and which of them a message says that it is of.
//!
//! There are two eras. Until 2025-11-25 a client begins with `initialize` and both sides remember what was agreed; from
//! 2026-07-28 on each request says all of it itself, in `params._meta`. A later revision is a row of [`REVISIONS`], and a
//! reader of its own where its era is new.
//!
//! Source: <https://modelcontextprotocol.io/specification/2026-07-28/basic/versioning>.

mod capabilities;
pub(crate) mod fields;
mod message;
pub(crate) mod params;
mod state;

use base::{Refusal, refusal};

pub(crate) use capabilities::CapabilitySet;
pub(crate) use message::MessageEra;
pub(crate) use state::{
    HeldState, may_ask, subscription, with_state, with_subscription, without_state,
};

/// Characters of a revision that is not known which an answer repeats.
const REVISION_CHARS_MAX: usize = 64;

/// How a request says what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Era {
    /// By a session, which `initialize` begins.
    Legacy,
    /// By itself.
    Modern,
}

/// One revision of MCP.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Revision {
    /// How it is named on the wire.
    pub(crate) date: &'static str,
    pub(crate) era: Era,
    /// A body may be a batch of messages.
    pub(crate) has_batches: bool,
    /// It has streamable HTTP; one that has not is spoken over HTTP+SSE, and towards servers alone.
    pub(crate) is_streamable: bool,
}

/// Every revision, the oldest first.
pub(crate) static REVISIONS: [Revision; 5] = [
    Revision {
        date: "2024-11-05",
        era: Era::Legacy,
        has_batches: false,
        is_streamable: false,
    },
    Revision {
        date: "2025-03-26",
        era: Era::Legacy,
        has_batches: true,
        is_streamable: true,
    },
    Revision {
        date: "2025-06-18",
        era: Era::Legacy,
        has_batches: false,
        is_streamable: true,
    },
    Revision {
        date: "2025-11-25",
        era: Era::Legacy,
        has_batches: false,
        is_streamable: true,
    },
    Revision {
        date: "2026-07-28",
        era: Era::Modern,
        has_batches: false,
        is_streamable: true,
    },
];

impl Revision {
    /// The revision of that date.
    pub(crate) fn of(date: &str) -> Option<&'static Revision> {
        REVISIONS.iter().find(|revision| revision.date == date)
    }

    /// The dates of an era, the oldest first.
    pub(crate) fn dates(era: Era) -> impl Iterator<Item = &'static str> {
        let those = REVISIONS.iter().filter(move |revision| revision.era == era);
        those.map(|revision| revision.date)
    }
}

/// What is said of a revision that is not known, or not spoken where it was asked for; `era` is that of the request.
pub(crate) fn unknown(named: &str, era: Era) -> Refusal {
    let named: String = named.chars().take(REVISION_CHARS_MAX).collect();
    let public = "that revision of MCP is not spoken here";
    Refusal::new(refusal::REVISION, public)
        .with_private(named)
        .with_supported(Revision::dates(era).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_date_stands_once_and_in_order() {
        assert!(REVISIONS.is_sorted_by(|one, next| one.date < next.date));
        let eras = REVISIONS.iter().map(|revision| revision.era == Era::Modern);
        assert!(
            eras.collect::<Vec<_>>().is_sorted(),
            "an era follows the other"
        );
        assert_eq!(Revision::of("2026-07-28").unwrap().era, Era::Modern);
        assert!(Revision::of("2025-3-26").is_none());
    }
}
