//! `weir audit show`: the records of a log that are asked for, for people or for programs, and those that follow.

use std::collections::VecDeque;
use std::io::{ErrorKind, Write};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base::limit::AUDIT_LAST_MAX;
use clap::Args;
use serde_json::Value;
use store::audit::{self, Entries};
use terminal::{unwritable_output, visible, visible_json};

use super::line::{header, line};
use super::wanted::{CallOf, Sieve, Wanted, is_refused};
use super::{Place, stored, unreadable};
use crate::cli::{Answer, Ended, Failure, complain, print};

/// Records of the store that are shown where nothing else is said.
const STORED_LAST: u64 = 100;
/// How often a log that is followed is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Print records, oldest first
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  weir audit show --last 20
  weir audit show --since 1h --refused
  weir audit show --agent dev --server files --json
  weir audit show --rule github_token --since 2026-11-25
  weir audit show --action mcp:call --refused
  weir audit show --call 5f0c7e1d
  weir audit show --refused --follow
  weir audit show --store --agent dev --refused --since 1d     What all replicas refused an agent
  weir audit show --state ~/.local/state/weir/hook --last 20    What coding agents did

The whole log is verified first, as weir audit verify does; damage is said, and what there is is shown all the same.

Records have to meet every filter. An outcome is its call's: it is shown with --agent, --server and --tool too. What cannot be
seen or would steer the terminal is written out, such as \\u{202e}; in JSON by JSON's own escapes.

With --json, one object a line: the record as it is kept. `kind` says what it is: judgement, outcome, lost, hook (an event of
a coding agent), approval, accepted, admin, start, stop, snapshot or open. `at` is when, `call` which call, `agent`, `server`
and `tool` who asked what, `decision` what was decided, `refusal` or `why` the code, and `findings` what the scan found.

Exit codes: 0 printed, 1 the log has no record of that call, or is damaged, 2 it cannot be read, or there is no such agent,
server or rule, or several calls begin so.")]
pub(in crate::cli) struct Show {
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    wanted: Wanted,
    /// Records of all replicas, from the store that the configuration names; 100 where --last says nothing else
    #[arg(long, conflicts_with_all = ["place", "state", "follow", "tool", "action", "run", "rule"])]
    store: bool,
    /// Of the store, only what this replica recorded
    #[arg(long, value_name = "NAME", requires = "store")]
    replica: Option<String>,
    /// Of the store, only what was asked by this lane, such as mcp
    #[arg(long, value_name = "NAME", requires = "store")]
    lane: Option<String>,
    /// Of the store, only what was refused for this, such as policy.forbidden
    #[arg(long, value_name = "CODE", requires = "store")]
    refusal: Option<String>,
    /// Only the last of these records
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=AUDIT_LAST_MAX as u64))]
    last: Option<u64>,
    /// Print what is recorded from now on, too, until it is interrupted
    #[arg(long)]
    follow: bool,
    /// Print the records as they are kept, one JSON object a line
    #[arg(long)]
    json: bool,
}

/// Why nothing more is shown.
enum Stopped {
    Failed(Failure),
    /// The log is damaged, which was said.
    Damaged,
    /// Nobody reads what is printed any more.
    ReaderGone,
}

impl From<Failure> for Stopped {
    fn from(failure: Failure) -> Stopped {
        Stopped::Failed(failure)
    }
}

impl Show {
    /// Prints records of the store.
    fn show_stored(&self) -> Result<Answer, Failure> {
        let (_, store) = crate::cli::store::settings(&self.place.file)?;
        let more = stored::More {
            replica: self.replica.clone(),
            lane: self.lane.clone(),
            refusal: self.refusal.clone(),
            most: self.last.unwrap_or(STORED_LAST),
        };
        stored::show(&store, &self.wanted, more, self.json)
    }
}

/// One record that is wanted.
struct Chosen {
    index: u64,
    record: Value,
    of: Option<CallOf>,
}

/// How many records were shown, and of what kind.
#[derive(Default)]
struct Tally {
    looked_at: u64,
    shown: u64,
    passed: u64,
    refused: u64,
    /// Calls that ended, other than by a refusal of the answer.
    ended: u64,
    lost: u64,
    first: Option<String>,
    last: Option<String>,
}

impl Tally {
    fn add(&mut self, record: &Value) {
        self.shown += 1;
        let kind = record["kind"].as_str().unwrap_or_default();
        match kind {
            _ if is_refused(record) => self.refused += 1,
            "judgement" | "hook" => self.passed += 1,
            "outcome" => self.ended += 1,
            "lost" => self.lost += 1,
            _ => {}
        }
        if let Some(at) = record["at"].as_str() {
            let at = visible(at).into_owned();
            self.first.get_or_insert_with(|| at.clone());
            self.last = Some(at);
        }
    }

    fn line(&self) -> String {
        let mut line = format!("records: {} of {}", self.shown, self.looked_at);
        let counts = [
            ("passed", self.passed),
            ("refused", self.refused),
            ("ended", self.ended),
            ("lost", self.lost),
        ];
        for (what, count) in counts.into_iter().filter(|(_, count)| *count > 0) {
            line += &format!(", {what}: {count}");
        }
        if let (Some(first), Some(last)) = (&self.first, &self.last) {
            line += &format!(", from {first} to {last}");
        }
        line
    }
}

impl Show {
    pub(super) fn run(self) -> Ended {
        match self.show() {
            Ok(answer) => Ok(answer),
            Err(Stopped::Failed(failure)) => Err(failure),
            Err(Stopped::Damaged) => Ok(Answer::No),
            Err(Stopped::ReaderGone) => Ok(Answer::Yes),
        }
    }

    fn show(&self) -> Result<Answer, Stopped> {
        if self.store {
            return Ok(self.show_stored()?);
        }
        let dir = self.place.dir()?;
        let mut entries = audit::entries(&dir, 0).map_err(|damage| unreadable(&dir, &damage))?;
        // What is shown is not proven by being there: what was changed is said before it, and is the answer no.
        let damage = audit::verify(&dir, None).err();
        if let Some(damage) = &damage {
            say_damaged(&format!(
                "{}: the log is damaged at {damage}",
                dir.display()
            ));
        }
        let whole = match damage {
            Some(_) => Answer::No,
            None => Answer::Yes,
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.map_or(0, |since| since.as_millis());
        let mut sieve = self.wanted.sieve(u64::try_from(now).unwrap_or(u64::MAX));
        let mut tally = Tally::default();
        let mut shown_header = self.json;
        let mut kept: VecDeque<Chosen> = VecDeque::new();
        // Of calls that begin alike none is shown, which only the end of the log tells.
        let keep = match (&self.wanted.call, self.last) {
            (Some(_), None) => Some(AUDIT_LAST_MAX as u64),
            (_, last) => last,
        };
        while let Some(chosen) = self.next(&mut entries, &mut sieve, &mut tally)? {
            match keep {
                Some(most) => {
                    if kept.len() as u64 == most {
                        kept.pop_front();
                    }
                    kept.push_back(chosen);
                }
                None => self.print(&chosen, &mut tally, &mut shown_header)?,
            }
        }
        self.wanted.check(&sieve, &self.place)?;
        for chosen in kept {
            if sieve.means(&self.wanted, &chosen.record) {
                self.print(&chosen, &mut tally, &mut shown_header)?;
            }
        }
        if self.follow {
            return self.follow(&mut entries, &mut sieve, &mut tally, &mut shown_header);
        }
        if self.wanted.call.is_some() && !sieve.has_call() {
            return Ok(self.no_call());
        }
        if !self.json {
            self.head(&mut shown_header)?;
            print(&format!("{}\n", tally.line()))?;
        }
        Ok(whole)
    }

    /// Shows what is recorded from now on, until the log is damaged or nobody reads any more.
    fn follow(
        &self,
        entries: &mut Entries,
        sieve: &mut Sieve,
        tally: &mut Tally,
        shown_header: &mut bool,
    ) -> Result<Answer, Stopped> {
        self.head(shown_header)?;
        loop {
            while let Some(chosen) = self.next(entries, sieve, tally)? {
                if sieve.means(&self.wanted, &chosen.record) {
                    self.print(&chosen, tally, shown_header)?;
                }
            }
            thread::sleep(LOOK_EVERY);
            let again = entries.again();
            again.map_err(|damage| Failure::new(format!("the log: {damage}"), ""))?;
        }
    }

    /// The next record that is wanted; nothing at the end of the log.
    fn next(
        &self,
        entries: &mut Entries,
        sieve: &mut Sieve,
        tally: &mut Tally,
    ) -> Result<Option<Chosen>, Stopped> {
        let damaged = |what: String| {
            say_damaged(&what);
            Stopped::Damaged
        };
        for entry in entries {
            let (index, bytes) =
                entry.map_err(|damage| damaged(format!("the log is damaged at {damage}")))?;
            let record = serde_json::from_slice::<Value>(&bytes);
            let record = record.map_err(|_| damaged(format!("entry {index} is not JSON")))?;
            tally.looked_at += 1;
            let (is_wanted, of) = sieve.take(&self.wanted, &record);
            if is_wanted {
                return Ok(Some(Chosen { index, record, of }));
            }
        }
        Ok(None)
    }

    fn head(&self, shown_header: &mut bool) -> Result<(), Stopped> {
        match std::mem::replace(shown_header, true) {
            true => Ok(()),
            false => say(&header()),
        }
    }

    fn print(
        &self,
        chosen: &Chosen,
        tally: &mut Tally,
        shown_header: &mut bool,
    ) -> Result<(), Stopped> {
        tally.add(&chosen.record);
        if self.json {
            return say(&visible_json(&chosen.record.to_string()));
        }
        self.head(shown_header)?;
        // Where the judgement stands above, it says whose the call is.
        let of = chosen.of.as_ref().filter(|_| self.wanted.is_of_content());
        say(&line(chosen.index, &chosen.record, of))
    }

    /// No record is of the call that was asked for: a call that is named was made.
    fn no_call(&self) -> Answer {
        let call = self.wanted.call.as_deref().unwrap_or_default();
        let what = format!("the log has no record of the call {call:?}");
        let help = "A call's id has 32 hex digits; another log of the same state may have it, such as log.2.";
        complain(&what, help);
        Answer::No
    }
}

fn say_damaged(what: &str) {
    complain(what, "Run weir audit verify.");
}

/// Prints a line.
fn say(line: &str) -> Result<(), Stopped> {
    let mut stdout = std::io::stdout().lock();
    let written = stdout.write_all(format!("{line}\n").as_bytes());
    match written.and_then(|()| stdout.flush()) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Err(Stopped::ReaderGone),
        Err(error) => Err(Stopped::Failed(unwritable_output(&error))),
    }
}
