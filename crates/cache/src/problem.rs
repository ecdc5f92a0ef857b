//! What can be wrong with the store, each with a code, words, and what to do about it.

use std::fmt;

/// Why the store is not used. Each has a code in logs, health and `weir relay doctor`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CacheProblem {
    /// Nothing has been asked yet.
    Unasked,
    Unreachable,
    /// It does not prove by a certificate that it is the host of the URL.
    Tls,
    Password,
    /// It forgets keys where memory runs out.
    Evicts,
    /// It is a copy of another.
    Replica,
    /// Its clock is more than two seconds from ours.
    Clock,
    /// What it said is no reply, too long, or of another type.
    Reply,
    /// It is part of a cluster, and the key is elsewhere.
    Cluster,
    Memory,
    /// It keeps what it has on disk, where that must not be kept.
    Persists,
    /// It does not let us look at what we have to know of it.
    Forbidden,
    /// It is another run of the store than the one that others here use.
    Changed,
}

impl CacheProblem {
    pub fn code(self) -> &'static str {
        match self {
            CacheProblem::Unasked => "cache.unasked",
            CacheProblem::Unreachable => "cache.unreachable",
            CacheProblem::Tls => "cache.tls",
            CacheProblem::Password => "cache.password",
            CacheProblem::Evicts => "cache.evicts",
            CacheProblem::Replica => "cache.replica",
            CacheProblem::Clock => "cache.clock",
            CacheProblem::Reply => "cache.reply",
            CacheProblem::Cluster => "cache.cluster",
            CacheProblem::Memory => "cache.memory",
            CacheProblem::Persists => "cache.persists",
            CacheProblem::Forbidden => "cache.forbidden",
            CacheProblem::Changed => "cache.changed",
        }
    }

    /// What to do about it.
    pub fn mend(self) -> &'static str {
        match self {
            CacheProblem::Unasked => "Wait a moment.",
            CacheProblem::Unreachable => {
                "Check that the store runs, its address, and what stands in between."
            }
            CacheProblem::Tls => {
                "Check the host in the URL, the certificate of the store, and cache.ca; somebody may stand in between."
            }
            CacheProblem::Password => "Check the user and the password in the URL.",
            CacheProblem::Evicts => {
                "Set maxmemory-policy to noeviction in the store: what it forgets could run twice."
            }
            CacheProblem::Replica => "Name the primary: a replica takes no claims, or too late.",
            CacheProblem::Clock => "Have both machines keep time by NTP.",
            CacheProblem::Reply => "Check that a Redis 6 or a Valkey or later is at this address.",
            CacheProblem::Cluster => {
                "Name a store that is no cluster: claims have to be in one place."
            }
            CacheProblem::Memory => {
                "Give the store more memory, or leave it to claims alone: they last two minutes."
            }
            CacheProblem::Persists => {
                "Switch save and appendonly off in the store, or name one of its own under relay.inbound.cache: ticket keys must not reach a disk."
            }
            CacheProblem::Forbidden => {
                "Let the user of the URL run INFO, TIME, MULTI, EXEC, SETBIT, EXPIRE, SET and GET, and CONFIG GET where ticket keys are shared."
            }
            CacheProblem::Changed => "Wait: a store that was started anew is asked again.",
        }
    }

    /// The problem that an error of the store shows.
    pub(crate) fn of_error(text: &[u8]) -> CacheProblem {
        let word = text.split(|byte| *byte == b' ').next().unwrap_or_default();
        match word {
            b"NOAUTH" | b"WRONGPASS" => CacheProblem::Password,
            b"READONLY" | b"MASTERDOWN" | b"NOREPLICAS" => CacheProblem::Replica,
            b"MOVED" | b"ASK" | b"CLUSTERDOWN" | b"CROSSSLOT" | b"TRYAGAIN" => {
                CacheProblem::Cluster
            }
            b"OOM" => CacheProblem::Memory,
            b"NOPERM" => CacheProblem::Forbidden,
            b"LOADING" | b"BUSY" | b"MISCONF" => CacheProblem::Unreachable,
            _ if text.starts_with(b"ERR AUTH") || text.starts_with(b"ERR invalid password") => {
                CacheProblem::Password
            }
            _ => CacheProblem::Reply,
        }
    }
}

impl fmt::Display for CacheProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CacheProblem::Unasked => "the store has not answered yet",
            CacheProblem::Unreachable => "the store does not answer",
            CacheProblem::Tls => "the store does not prove by a certificate who it is",
            CacheProblem::Password => "the store does not take the password",
            CacheProblem::Evicts => "the store forgets keys where memory runs out",
            CacheProblem::Replica => "the store is a copy of another, and takes no claims",
            CacheProblem::Clock => "the store's clock is more than two seconds from ours",
            CacheProblem::Reply => "what the store says is no reply that it may give",
            CacheProblem::Cluster => "the store is part of a cluster, and sends us elsewhere",
            CacheProblem::Memory => "the store has no memory left",
            CacheProblem::Persists => "the store writes what it has to a disk",
            CacheProblem::Forbidden => "the store does not let us look at its settings",
            CacheProblem::Changed => "the store was started anew",
        })
    }
}

/// Nothing is known of what was asked: it may have happened, and it may not. Whoever asks refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoCacheAnswer {
    /// It was not asked: the store is known to be away, or too much waits for it.
    Unasked,
    /// It was asked, and no answer came in time, or one that is none.
    Unknown,
}
