//! What a connection is asked before anything else is: which run of the store this is, whether it may forget, whether
//! it is a primary, what its clock says, and whether it writes to a disk.

use base::Now;

use crate::problem::CacheProblem;
use crate::resp::{CacheCommands, CacheReply};

/// How far the clocks may be apart, in milliseconds.
const SKEW_MS_MAX: u64 = 2_000;

/// What was found of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Examined {
    /// The name of this run: another after each start.
    pub run_id: String,
    /// When this run began, by our clock, at the latest.
    pub began_unix_ms: u64,
    /// How far its clock is ahead of ours, in milliseconds.
    pub ahead_ms: i64,
    pub policy: String,
    pub role: String,
    pub version: String,
    /// How long the examination took.
    pub took_ms: u64,
    pub problem: Option<CacheProblem>,
}

/// What is asked. With `persists`, also whether the store writes to a disk.
pub(crate) fn commands(persists: bool) -> CacheCommands {
    let commands = CacheCommands::new()
        .with(&[b"TIME"])
        .with(&[b"INFO", b"server"])
        .with(&[b"INFO", b"replication"])
        .with(&[b"INFO", b"memory"]);
    match persists {
        false => commands,
        true => {
            commands
                .with(&[b"CONFIG", b"GET", b"save"])
                .with(&[b"CONFIG", b"GET", b"appendonly"])
        }
    }
}

/// Judges the replies; `asked` and `now` are when they were asked for and came.
pub(crate) fn judge(
    replies: &[CacheReply],
    asked: Now,
    now: Now,
) -> Result<Examined, CacheProblem> {
    let error = replies.iter().find_map(|reply| match reply {
        CacheReply::Error(text) => Some(CacheProblem::of_error(text)),
        _ => None,
    });
    if let Some(problem) = error {
        return Err(problem);
    }
    let [time, server, replication, memory, kept @ ..] = replies else {
        return Err(CacheProblem::Reply);
    };
    let theirs_ms = unix_ms(time).ok_or(CacheProblem::Reply)?;
    let took_ms = now.mono_ms.saturating_sub(asked.mono_ms);
    let ours_ms = now.unix_ms.saturating_sub(took_ms / 2);
    let of = |reply, key| field(reply, key).ok_or(CacheProblem::Reply);
    let run_id = of(server, "run_id")?;
    let up_s: u64 = of(server, "uptime_in_seconds")?
        .parse()
        .map_err(|_| CacheProblem::Reply)?;
    let mut examined = Examined {
        began_unix_ms: now.unix_ms.saturating_sub(up_s.saturating_mul(1000)),
        ahead_ms: theirs_ms as i64 - ours_ms as i64,
        policy: of(memory, "maxmemory_policy")?,
        role: of(replication, "role")?,
        version: field(server, "valkey_version")
            .map(|version| format!("Valkey {version}"))
            .or_else(|| field(server, "redis_version").map(|version| format!("Redis {version}")))
            .unwrap_or_default(),
        run_id,
        took_ms,
        problem: None,
    };
    let is_clustered = field(server, "redis_mode").as_deref() == Some("cluster");
    examined.problem = match () {
        () if examined.role != "master" => Some(CacheProblem::Replica),
        () if is_clustered => Some(CacheProblem::Cluster),
        () if examined.policy != "noeviction" => Some(CacheProblem::Evicts),
        () if theirs_ms.abs_diff(ours_ms) > SKEW_MS_MAX => Some(CacheProblem::Clock),
        () if kept.iter().any(keeps) => Some(CacheProblem::Persists),
        () => None,
    };
    Ok(examined)
}

/// Whether a setting says that something is written to a disk: all but an empty `save` and `appendonly no`. An answer
/// without the setting tells nothing, so it counts as one that says yes.
fn keeps(reply: &CacheReply) -> bool {
    let CacheReply::Array(pair) = reply else {
        return true;
    };
    match pair.as_slice() {
        [CacheReply::Bulk(_), CacheReply::Bulk(value)] => !matches!(&value[..], b"" | b"no"),
        _ => true,
    }
}

fn unix_ms(time: &CacheReply) -> Option<u64> {
    let CacheReply::Array(parts) = time else {
        return None;
    };
    let number = |part: &CacheReply| match part {
        CacheReply::Bulk(text) => std::str::from_utf8(text).ok()?.parse::<u64>().ok(),
        _ => None,
    };
    let [seconds, micros] = parts.as_slice() else {
        return None;
    };
    let (seconds, micros) = (number(seconds)?, number(micros)?);
    let ms = seconds.checked_mul(1000)?.checked_add(micros / 1000)?;
    (ms < 1 << 53).then_some(ms)
}

/// A line `key:value` of an answer to INFO.
fn field(info: &CacheReply, key: &str) -> Option<String> {
    let CacheReply::Bulk(text) = info else {
        return None;
    };
    let text = std::str::from_utf8(text).ok()?;
    text.lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| *name == key)
        .map(|(_, value)| value.trim().chars().take(100).collect())
}

/// For the fuzzer: no reply makes it panic.
pub(crate) fn fuzz(reply: &CacheReply) {
    let now = Now {
        unix_ms: 1 << 41,
        mono_ms: 5,
    };
    let replies = match reply {
        CacheReply::Array(replies) => replies.clone(),
        reply => vec![reply.clone(); 6],
    };
    let _ = judge(&replies, now, now);
    let _ = (unix_ms(reply), field(reply, "run_id"), keeps(reply));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bulk(text: impl Into<String>) -> CacheReply {
        CacheReply::Bulk(text.into().into_bytes())
    }

    fn now() -> Now {
        Now {
            unix_ms: 1_800_000_000_000,
            mono_ms: 50,
        }
    }

    fn replies(seconds: u64, policy: &str, role: &str) -> Vec<CacheReply> {
        vec![
            CacheReply::Array(vec![bulk(seconds.to_string()), bulk("0")]),
            bulk("# Server\r\nredis_version:7.0.15\r\nrun_id:abc\r\nuptime_in_seconds:9\r\n"),
            bulk(format!("# Replication\r\nrole:{role}\r\n")),
            bulk(format!("# Memory\r\nmaxmemory_policy:{policy}\r\n")),
        ]
    }

    #[test]
    fn each_thing_that_is_wrong_has_its_name() {
        let problem = |seconds, policy, role| {
            let judged = judge(&replies(seconds, policy, role), now(), now());
            judged.unwrap().problem
        };
        const NOW_S: u64 = 1_800_000_000;
        assert_eq!(problem(NOW_S, "noeviction", "master"), None);
        assert_eq!(problem(NOW_S + 2, "noeviction", "master"), None);
        let clock = Some(CacheProblem::Clock);
        assert_eq!(problem(NOW_S + 3, "noeviction", "master"), clock);
        assert_eq!(problem(NOW_S - 3, "noeviction", "master"), clock);
        let evicts = Some(CacheProblem::Evicts);
        assert_eq!(problem(NOW_S, "allkeys-lru", "master"), evicts);
        let replica = Some(CacheProblem::Replica);
        assert_eq!(problem(NOW_S, "noeviction", "slave"), replica);
        let examined = judge(&replies(NOW_S, "noeviction", "master"), now(), now()).unwrap();
        assert_eq!(examined.began_unix_ms, now().unix_ms - 9_000);
        assert_eq!(examined.version, "Redis 7.0.15");
    }

    #[test]
    fn a_disk_is_seen_and_what_is_not_told_counts_as_one() {
        let pair = |name: &str, value: &str| CacheReply::Array(vec![bulk(name), bulk(value)]);
        let judged = |save: CacheReply, append: CacheReply| {
            let mut all = replies(1_800_000_000, "noeviction", "master");
            all.extend([save, append]);
            judge(&all, now(), now()).unwrap().problem
        };
        assert_eq!(judged(pair("save", ""), pair("appendonly", "no")), None);
        let persists = Some(CacheProblem::Persists);
        let cases = [
            (pair("save", "3600 1"), pair("appendonly", "no")),
            (pair("save", ""), pair("appendonly", "yes")),
            (pair("save", ""), CacheReply::Array(Vec::new())),
            (CacheReply::Nil, pair("appendonly", "no")),
        ];
        for (save, append) in cases {
            assert_eq!(judged(save, append), persists);
        }
    }

    #[test]
    fn errors_and_other_types_are_no_store() {
        let errors = [
            ("NOAUTH Authentication required.", CacheProblem::Password),
            (
                "WRONGPASS invalid username-password pair",
                CacheProblem::Password,
            ),
            ("MOVED 3999 127.0.0.1:6381", CacheProblem::Cluster),
            ("READONLY You can't write", CacheProblem::Replica),
            ("OOM command not allowed", CacheProblem::Memory),
            (
                "NOPERM this user has no permissions",
                CacheProblem::Forbidden,
            ),
            ("whatever", CacheProblem::Reply),
        ];
        for (text, problem) in errors {
            let mut all = replies(1, "noeviction", "master");
            all[2] = CacheReply::Error(text.as_bytes().to_vec());
            assert_eq!(judge(&all, now(), now()), Err(problem), "{text}");
        }
        let mut all = replies(1, "noeviction", "master");
        all[0] = CacheReply::Integer(3);
        assert_eq!(judge(&all, now(), now()), Err(CacheProblem::Reply));
        assert_eq!(judge(&all[..3], now(), now()), Err(CacheProblem::Reply));
    }
}
