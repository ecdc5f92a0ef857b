//! What models used: read from the records of the log, and kept in memory while a gateway serves.
//!
//! The log is the one account. A judgement says what was reserved, an outcome what the provider counted; of a call that has no
//! outcome, or that broke off, what was reserved is taken as used. Nothing here knows a price.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use base::Name;
use base::record::Usage;
use gate::ports::{Accounts, UsedTokens};
use serde::Deserialize;

use crate::audit::{self, Damage};
use crate::entry::SEGMENT_ENTRIES;
pub use crate::windows::month_begin;

/// Rows of an account: agents, days and models. What comes after is counted under one name for all models of a provider.
const ROWS_MAX: usize = 65_536;
const OTHER_MODELS: &str = "(other models)";
/// Tags of one agent on one day that have a row each, and the row of all beyond.
const TAGS_OF_DAY_MAX: usize = 256;
const OTHER_TAGS: &str = "(other tags)";
/// Calls that may be open while records are read: more than a gateway can have under way.
const OPEN_MAX: usize = 1 << 20;
const DAY_MS: u64 = 86_400_000;

/// A call of a model, as the log tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsedCall {
    /// When it was judged, in Unix milliseconds.
    pub at_unix_ms: u64,
    pub agent: Name,
    pub groups: Vec<Name>,
    pub provider: Name,
    pub model: String,
    pub usage: Usage,
    /// Nobody counted it, or a part of it alone.
    pub is_estimated: bool,
    /// What the agent called it by.
    pub tags: Vec<String>,
}

#[derive(Deserialize)]
struct JudgedModel<'r> {
    #[serde(borrow)]
    at: Cow<'r, str>,
    #[serde(borrow)]
    agent: Cow<'r, str>,
    #[serde(borrow)]
    call: Cow<'r, str>,
    #[serde(borrow)]
    decision: Cow<'r, str>,
    #[serde(default)]
    groups: Vec<String>,
    #[serde(borrow)]
    kind: Cow<'r, str>,
    #[serde(borrow)]
    model: Cow<'r, str>,
    #[serde(default)]
    reserved: CountedTokens,
    #[serde(borrow)]
    server: Cow<'r, str>,
    #[serde(default)]
    tags: Vec<String>,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(default)]
struct CountedTokens {
    cached_read: u64,
    cached_write: u64,
    input: u64,
    output: u64,
    reasoning: u64,
}

#[derive(Deserialize)]
struct EndedCall<'r> {
    #[serde(borrow)]
    call: Cow<'r, str>,
    #[serde(borrow, default)]
    end: Cow<'r, str>,
    usage: Option<CountedTokens>,
    #[serde(default)]
    counted: bool,
    #[serde(default)]
    output_least: u64,
    #[serde(default)]
    unbilled: bool,
}

impl From<CountedTokens> for Usage {
    fn from(of: CountedTokens) -> Usage {
        Usage {
            input: of.input,
            cached_read: of.cached_read,
            cached_write: of.cached_write,
            output: of.output,
            reasoning: of.reasoning,
        }
    }
}

/// Reads records in their order, and tells of each call of a model once it has ended.
///
/// Example: `{"kind":"judgement","lane":"llm","reserved":{"input":90,…},…}`, and later the outcome of the same call with
/// `"usage":{"input":31,"output":7}`: the call used 31 and 7.
#[derive(Default)]
pub struct UsageReader {
    open: HashMap<String, UsedCall>,
}

impl UsageReader {
    /// Takes a record; gives the call that ended with it.
    pub fn take(&mut self, record: &[u8]) -> Option<UsedCall> {
        // A quote that stands in a text of a record is escaped, so these can only be members.
        if has(record, br#""lane":"llm""#) {
            self.judged(record);
            return None;
        }
        let is_end = has(record, br#""kind":"outcome""#) || has(record, br#""kind":"lost""#);
        if self.open.is_empty() || !is_end {
            return None;
        }
        let ended: EndedCall<'_> = serde_json::from_slice(record).ok()?;
        let call = self.open.remove(&*ended.call)?;
        Some(settled(call, &ended))
    }

    /// The calls that have not ended.
    pub fn into_open(self) -> impl Iterator<Item = UsedCall> {
        self.open.into_values()
    }

    fn judged(&mut self, record: &[u8]) {
        let judged = serde_json::from_slice::<JudgedModel<'_>>(record).ok();
        let judged =
            judged.filter(|judged| judged.kind == "judgement" && judged.decision == "pass");
        let Some(judged) = judged else {
            return;
        };
        let (agent, provider) = (Name::new(&judged.agent), Name::new(&judged.server));
        let (Some(at_unix_ms), Some(agent), Some(provider)) =
            (config::unix_ms(&judged.at), agent, provider)
        else {
            return;
        };
        if self.open.len() < OPEN_MAX {
            let reserved = Usage::from(judged.reserved);
            let groups = judged.groups.iter();
            let call = UsedCall {
                at_unix_ms,
                agent,
                groups: groups.filter_map(|group| Name::new(group)).collect(),
                provider,
                model: judged.model.into_owned(),
                usage: reserved,
                is_estimated: reserved.total() > 0,
                tags: judged.tags,
            };
            self.open.insert(judged.call.into_owned(), call);
        }
    }
}

/// The same rule by which the gate settles a call.
fn settled(call: UsedCall, ended: &EndedCall<'_>) -> UsedCall {
    let counted = ended.usage.map(Usage::from);
    let known = match counted {
        Some(usage) if ended.end == "complete" || ended.counted => usage,
        None if ended.unbilled => Usage::default(),
        counted => {
            let larger = counted.filter(|usage| usage.total() >= call.usage.total());
            let mut usage = larger.unwrap_or(call.usage);
            usage.output = usage.output.max(ended.output_least);
            return UsedCall {
                usage,
                is_estimated: larger.is_none() && usage.total() > 0,
                ..call
            };
        }
    };
    UsedCall {
        usage: known,
        is_estimated: false,
        ..call
    }
}

fn has(record: &[u8], member: &[u8]) -> bool {
    memchr::memmem::find(record, member).is_some()
}

/// Reads what models used since this time, in Unix milliseconds, from the log in a folder; those that have not ended come last.
///
/// # Errors
/// The first damage; what came before it was told.
pub fn read(dir: &Path, since_unix_ms: u64, mut each: impl FnMut(UsedCall)) -> Result<(), Damage> {
    let mut reader = UsageReader::default();
    let mut tell = |call: UsedCall| {
        if call.at_unix_ms >= since_unix_ms {
            each(call);
        }
    };
    for entry in audit::entries(dir, first_since(dir, since_unix_ms)?)? {
        let (_, record) = entry?;
        if let Some(call) = reader.take(&record) {
            tell(call);
        }
    }
    reader.into_open().for_each(tell);
    Ok(())
}

/// The first entry of the last segment that begins before a time: what is since then stands after it.
fn first_since(dir: &Path, since_unix_ms: u64) -> Result<u64, Damage> {
    let begins = |segment: u64| -> Result<Option<u64>, Damage> {
        let first = audit::entries(dir, segment * SEGMENT_ENTRIES)?.next();
        first
            .transpose()
            .map(|first| first.map(|(_, record)| at(&record)))
    };
    let (mut low, mut high) = (0, 1);
    while begins(high)?.is_some_and(|at| at < since_unix_ms) {
        (low, high) = (high, high * 2);
    }
    while high - low > 1 {
        let middle = low.midpoint(high);
        match begins(middle)?.is_some_and(|at| at < since_unix_ms) {
            true => low = middle,
            false => high = middle,
        }
    }
    Ok(low * SEGMENT_ENTRIES)
}

/// When a record was made; the begin of time where it does not say.
fn at(record: &[u8]) -> u64 {
    #[derive(Deserialize)]
    struct Dated<'r> {
        #[serde(borrow)]
        at: Cow<'r, str>,
    }
    let dated = serde_json::from_slice::<Dated<'_>>(record).ok();
    dated
        .and_then(|dated| config::unix_ms(&dated.at))
        .unwrap_or_default()
}

/// Of whom and when a row is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AccountKey {
    /// Days since 1970, UTC.
    pub day: u64,
    pub agent: Name,
    pub groups: Vec<Name>,
    pub provider: Name,
    pub model: Box<str>,
}

/// What was used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AccountRow {
    pub calls: u64,
    pub usage: Usage,
    /// What of it nobody counted, in tokens.
    pub estimated: u64,
    /// What it cost when it was used, in billionths of a dollar, as far as prices were known.
    pub money: u64,
    /// Calls of it whose price was not known.
    pub unpriced: u64,
}

impl AccountRow {
    /// Of one call.
    pub fn of_call(usage: Usage, is_estimated: bool, money: Option<u64>) -> AccountRow {
        AccountRow {
            calls: 1,
            usage,
            estimated: if is_estimated { usage.total() } else { 0 },
            money: money.unwrap_or_default(),
            unpriced: u64::from(money.is_none()),
        }
    }

    /// Adds what another row says.
    pub fn merge(&mut self, other: &AccountRow) {
        let (sum, usage) = (&mut self.usage, &other.usage);
        sum.input = sum.input.saturating_add(usage.input);
        sum.cached_read = sum.cached_read.saturating_add(usage.cached_read);
        sum.cached_write = sum.cached_write.saturating_add(usage.cached_write);
        sum.output = sum.output.saturating_add(usage.output);
        sum.reasoning = sum.reasoning.saturating_add(usage.reasoning);
        self.calls = self.calls.saturating_add(other.calls);
        self.estimated = self.estimated.saturating_add(other.estimated);
        self.money = self.money.saturating_add(other.money);
        self.unpriced = self.unpriced.saturating_add(other.unpriced);
    }
}

/// Of whom, when and by which tag a row is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TaggedKey {
    /// Days since 1970, UTC.
    pub day: u64,
    pub agent: Name,
    pub tag: Box<str>,
}

/// What models used in this month, in memory.
#[derive(Default)]
pub struct Account {
    rows: Mutex<BTreeMap<AccountKey, AccountRow>>,
    tagged: Mutex<BTreeMap<TaggedKey, AccountRow>>,
}

impl Account {
    fn rows(&self) -> MutexGuard<'_, BTreeMap<AccountKey, AccountRow>> {
        // A panic cannot leave a row half changed, so a poisoned lock is still right.
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The rows that `of` chooses.
    pub fn of(&self, mut of: impl FnMut(&AccountKey) -> bool) -> Vec<(AccountKey, AccountRow)> {
        let rows = self.rows();
        let chosen = rows.iter().filter(|(key, _)| of(key));
        chosen.map(|(key, row)| (key.clone(), *row)).collect()
    }

    fn tagged(&self) -> MutexGuard<'_, BTreeMap<TaggedKey, AccountRow>> {
        self.tagged.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The rows of this agent's tags. A call of two tags is counted in the row of each.
    pub fn of_tags(&self, agent: &Name) -> Vec<(TaggedKey, AccountRow)> {
        let rows = self.tagged();
        let own = rows.iter().filter(|(key, _)| key.agent == *agent);
        own.map(|(key, row)| (key.clone(), *row)).collect()
    }

    /// Counts a call by each of its tags. An agent that makes up tags without end has its others counted in one row a day, and
    /// takes no place of other agents' rows.
    fn count_tags(&self, used: &UsedTokens<'_>) {
        if used.tags.is_empty() {
            return;
        }
        let (day, first_day) = (
            used.at_unix_ms / DAY_MS,
            month_begin(used.at_unix_ms) / DAY_MS,
        );
        let mut rows = self.tagged();
        while rows
            .first_key_value()
            .is_some_and(|(key, _)| key.day < first_day)
        {
            rows.pop_first();
        }
        let of = |tag: &str| TaggedKey {
            day,
            agent: used.agent.clone(),
            tag: tag.into(),
        };
        let mut counted = Vec::new();
        for tag in used.tags {
            let mut key = of(tag);
            if !rows.contains_key(&key) {
                let own = rows.range(of("")..).take(TAGS_OF_DAY_MAX);
                let own =
                    own.take_while(|(known, _)| known.day == day && known.agent == *used.agent);
                if own.count() >= TAGS_OF_DAY_MAX || rows.len() >= ROWS_MAX {
                    key = of(OTHER_TAGS);
                }
            }
            // Two that are counted in one row are one call there.
            if !counted.contains(&key) {
                let row = rows.entry(key.clone()).or_default();
                row.merge(&AccountRow::of_call(
                    used.usage,
                    used.is_estimated,
                    used.money,
                ));
                counted.push(key);
            }
        }
    }
}

impl Accounts for Account {
    fn used(&self, used: &UsedTokens<'_>) {
        if used.usage == Usage::default() {
            return;
        }
        self.count_tags(used);
        let mut key = AccountKey {
            day: used.at_unix_ms / DAY_MS,
            agent: used.agent.clone(),
            groups: used.groups.to_vec(),
            provider: used.provider.clone(),
            model: used.model.into(),
        };
        let mut rows = self.rows();
        if !rows.contains_key(&key) {
            let first_day = month_begin(used.at_unix_ms) / DAY_MS;
            while rows
                .first_key_value()
                .is_some_and(|(key, _)| key.day < first_day)
            {
                rows.pop_first();
            }
            if rows.len() >= ROWS_MAX {
                key.model = OTHER_MODELS.into();
            }
        }
        let row = rows.entry(key).or_default();
        row.merge(&AccountRow::of_call(
            used.usage,
            used.is_estimated,
            used.money,
        ));
    }
}

#[cfg(test)]
mod tests {
    use base::record::{CallEnd, Judgement, Outcome};
    use base::{CallId, Digest, Now};

    use super::*;

    fn now(unix_ms: u64) -> Now {
        Now {
            unix_ms,
            mono_ms: 0,
        }
    }

    fn judgement(call: u8, unix_ms: u64, reserved: (u64, u64)) -> Vec<u8> {
        Judgement {
            call: CallId([call; 16]),
            at: now(unix_ms),
            peer: std::net::Ipv4Addr::LOCALHOST.into(),
            agent: Some("dev"),
            groups: &[Name::new("engineers").unwrap()],
            behalf: None,
            credential: None,
            by: None,
            first: None,
            trace: None,
            lane: "llm",
            action: "llm:chat",
            method: "chat",
            request: None,
            run: None,
            tags: &[],
            server: "openai",
            part: Some(("model", "gpt-5.4")),
            policies: &[],
            policy_set: Digest([0; 32]),
            attributes: &[],
            findings: &[],
            bytes: 1,
            reserved,
            refused: None,
            observed: None,
        }
        .to_json()
    }

    fn outcome(call: u8, end: CallEnd, usage: Option<(u64, u64)>, is_unbilled: bool) -> Vec<u8> {
        let usage = usage.map(|(input, output)| Usage {
            input,
            output,
            ..Usage::default()
        });
        Outcome {
            call: CallId([call; 16]),
            at: now(9),
            end,
            status: 200,
            bytes: 1,
            duration_ms: 1,
            calls: None,
            usage,
            is_counted: false,
            output_least: 70 * u64::from(call == 6),
            is_unbilled,
            findings: &[],
            why: None,
            observed: None,
        }
        .to_json()
    }

    #[test]
    fn a_call_used_what_was_counted_and_a_broken_one_the_larger() {
        let mut reader = UsageReader::default();
        for call in 1..=7 {
            assert_eq!(reader.take(&judgement(call, 5_000, (90, 10))), None);
        }
        let mut ends = |call, end, usage, is_unbilled| {
            let used = reader
                .take(&outcome(call, end, usage, is_unbilled))
                .unwrap();
            (used.usage.total(), used.is_estimated)
        };
        assert_eq!(
            ends(1, CallEnd::Complete, Some((31, 7)), false),
            (38, false)
        );
        assert_eq!(ends(2, CallEnd::Cut, Some((31, 7)), false), (100, true));
        assert_eq!(ends(3, CallEnd::Cut, Some((300, 7)), false), (307, false));
        assert_eq!(ends(4, CallEnd::Failed, None, true), (0, false));
        assert_eq!(ends(5, CallEnd::Failed, None, false), (100, true));
        // Its text was longer than what was reserved for it.
        assert_eq!(ends(6, CallEnd::Complete, None, false), (160, true));
        assert_eq!(
            reader.take(&outcome(9, CallEnd::Complete, None, false)),
            None
        );
        let open: Vec<UsedCall> = reader.into_open().collect();
        assert_eq!((open.len(), open[0].usage.total()), (1, 100));
        assert_eq!(open[0].at_unix_ms, 5_000);
        assert_eq!(
            (open[0].provider.as_str(), &*open[0].model),
            ("openai", "gpt-5.4")
        );
    }

    #[test]
    fn an_account_keeps_its_month_and_bounds_its_rows() {
        let account = Account::default();
        let (dev, openai) = (Name::new("dev").unwrap(), Name::new("openai").unwrap());
        let use_at = |at_unix_ms, model: &str| {
            account.used(&UsedTokens {
                at_unix_ms,
                agent: &dev,
                groups: &[],
                provider: &openai,
                model,
                usage: Usage {
                    input: 5,
                    ..Usage::default()
                },
                is_estimated: false,
                money: Some(2),
                run: None,
                tags: &[],
            });
        };
        // The end of November 2026, and the day after.
        use_at(1_796_083_199_000, "a");
        use_at(1_796_083_199_000, "a");
        let rows = account.of(|_| true);
        assert_eq!((rows.len(), rows[0].1.calls, rows[0].1.money), (1, 2, 4));
        use_at(1_796_083_200_000, "a");
        assert_eq!(account.of(|_| true).len(), 1);
        for number in 0..ROWS_MAX + 5 {
            use_at(1_796_083_200_000, &number.to_string());
        }
        let rows = account.of(|_| true);
        assert_eq!(rows.len(), ROWS_MAX + 1);
        let calls: u64 = rows.iter().map(|(_, row)| row.calls).sum();
        assert_eq!(calls, ROWS_MAX as u64 + 6);
    }
}
