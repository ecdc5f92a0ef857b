//! `weir usage`: what models used, by whom and when, and what it cost. It reads the log, without the gateway and beside one.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use base::clock::rfc3339;
use clap::{Args, ValueEnum};
use serde_json::{Map, Value, json};
use store::usage::{AccountRow, UsedCall, month_begin, read};
use terminal::visible;

use super::audit::{Since, since};
use super::{Answer, ConfigFile, Ended, Failure, print};
use crate::assemble::dollars;
use crate::config::settings::ModelProvider;

/// Rows that are kept apart; more is an error, since a sum that leaves some out is none.
const ROWS_MAX: usize = 1 << 20;

/// Print what models used: tokens as providers counted them, and what they cost
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  weir usage
  weir usage --by agent --since 7d
  weir usage --by day,agent,model --csv > usage.csv
  weir usage --agent build --json
  weir usage --by tag --since 7d
  weir usage /var/lib/weir

It reads the log: since the begin of this month where --since says nothing else. Tokens are as providers counted them; of a call
that broke off, or that nobody counted, what was reserved for it is taken, and shown as estimated too. Money is by today's prices
(weir prices show); where no price is known the cell is empty, and a sum of which some are not known has a plus behind it. A call
of two tags stands in the row of each, and once in the sum of all; one of none stands in a row without a name.

Exit codes: 0 printed, 2 the log cannot be read.")]
pub(super) struct Usage {
    #[command(flatten)]
    file: ConfigFile,
    /// The state folder that holds the log; by default that of the configuration
    #[arg(value_name = "STATE")]
    place: Option<PathBuf>,
    /// The same, as other commands name a state folder
    #[arg(long, value_name = "DIR", conflicts_with = "place")]
    state: Option<PathBuf>,
    /// What a row is of
    #[arg(long, value_delimiter = ',', default_value = "agent,model")]
    by: Vec<By>,
    /// Only since: 90s, 30m, 1h, 7d, or a date such as 2026-11-25 or 2026-11-25T08:30:00Z
    #[arg(long, value_name = "WHEN", value_parser = since)]
    since: Option<Since>,
    /// Only this agent
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// Only calls of this tag, as agents name them (metadata.tags, x-litellm-tags)
    #[arg(long, value_name = "TAG")]
    tag: Option<String>,
    /// Print comma-separated values
    #[arg(long, conflicts_with = "json")]
    csv: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What rows are kept apart by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum By {
    Agent,
    Group,
    Provider,
    Model,
    Day,
    Month,
    Tag,
}

impl By {
    fn title(self) -> &'static str {
        match self {
            By::Agent => "agent",
            By::Group => "group",
            By::Provider => "provider",
            By::Model => "model",
            By::Day => "day",
            By::Month => "month",
            By::Tag => "tag",
        }
    }

    /// What its cell says of a call, of which this is one of the tags.
    fn of(self, call: &UsedCall, tag: &str) -> String {
        let at = || rfc3339(call.at_unix_ms);
        match self {
            By::Agent => call.agent.to_string(),
            // All of them in one cell: a call is counted once.
            By::Group => {
                let groups: Vec<&str> = call.groups.iter().map(base::Name::as_str).collect();
                groups.join(" ")
            }
            By::Provider => call.provider.to_string(),
            By::Model => format!("{}/{}", call.provider, call.model),
            By::Day => at()[..10].to_owned(),
            By::Month => at()[..7].to_owned(),
            By::Tag => tag.to_owned(),
        }
    }
}

#[derive(Default)]
struct Sums {
    rows: BTreeMap<Vec<String>, AccountRow>,
    /// Each call once, however many rows it stands in.
    all: AccountRow,
}

const NUMBERS: [&str; 7] = [
    "calls",
    "input",
    "cached_read",
    "cached_write",
    "output",
    "reasoning",
    "estimated",
];

impl Usage {
    pub(super) fn run(self) -> Ended {
        let (state, providers) = self.place()?;
        let logs = store::state::log_names(std::path::Path::new(""));
        let logs: Vec<PathBuf> = logs
            .map(|(name, _)| state.join(name))
            .filter(|log| log.is_dir())
            .collect();
        if logs.is_empty() {
            let what = format!("there is no log in {}", state.display());
            return Err(Failure::new(what, "Name a state folder: weir usage STATE."));
        }
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let now = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
        let from = self
            .since
            .map_or_else(|| month_begin(now), |since| since.at_unix_ms(now));
        let mut sums = Sums::default();
        let mut is_full = false;
        for log in &logs {
            let each = |call: UsedCall| is_full |= !self.add(&mut sums, &providers, &call);
            read(log, from, each).map_err(|damage| {
                let what = format!("{} cannot be read: {}", log.display(), damage.what);
                Failure::new(what, "See weir audit verify.")
            })?;
        }
        if is_full {
            let what = format!("there are more than {ROWS_MAX} rows");
            return Err(Failure::new(
                what,
                "Ask by less, such as --by agent, or since later.",
            ));
        }
        let text = match (self.csv, self.json) {
            (true, _) => self.csv(&sums),
            (_, true) => self.json(&sums, from),
            _ => self.text(&sums, from),
        };
        print(&text)?;
        Ok(Answer::Yes)
    }

    /// The state folder, and the providers whose prices are known by the configuration.
    fn place(&self) -> Result<(PathBuf, Vec<ModelProvider>), Failure> {
        match self.state.as_ref().or(self.place.as_ref()) {
            Some(state) => {
                let beside = self.file.read_without_secrets().ok();
                let beside = beside.and_then(Result::ok);
                let providers = beside.map(|settings| settings.llm.providers);
                Ok((state.clone(), providers.unwrap_or_default()))
            }
            None => {
                let settings = self.file.load_without_secrets()?;
                Ok((settings.state, settings.llm.providers))
            }
        }
    }

    /// Adds a call to its row; false where there is no room for one.
    fn add(&self, sums: &mut Sums, providers: &[ModelProvider], call: &UsedCall) -> bool {
        let is_nothing = call.usage == base::record::Usage::default();
        let agent = self.agent.as_ref();
        let is_others = agent.is_some_and(|agent| *agent != call.agent.as_str());
        let tag = self.tag.as_ref();
        if is_nothing || is_others || tag.is_some_and(|tag| !call.tags.contains(tag)) {
            return true;
        }
        let provider = providers.iter().find(|of| of.told.name == call.provider);
        let price = match provider {
            Some(provider) => provider.told.price(&call.model),
            None => llm::PriceTable::known().of(call.provider.as_str(), &call.model),
        };
        let money = price.map(|price| price.of(&call.usage));
        let row = AccountRow::of_call(call.usage, call.is_estimated, money);
        sums.all.merge(&row);
        let keys: BTreeSet<Vec<String>> = match self.by.contains(&By::Tag) && !call.tags.is_empty()
        {
            true => call.tags.iter().map(|tag| self.key(call, tag)).collect(),
            false => BTreeSet::from([self.key(call, "")]),
        };
        for key in keys {
            if sums.rows.len() >= ROWS_MAX && !sums.rows.contains_key(&key) {
                return false;
            }
            sums.rows.entry(key).or_default().merge(&row);
        }
        true
    }

    /// The cells that say what a row is of.
    fn key(&self, call: &UsedCall, tag: &str) -> Vec<String> {
        self.by.iter().map(|by| by.of(call, tag)).collect()
    }

    fn titles(&self) -> Vec<&'static str> {
        let by = self.by.iter().map(|by| by.title());
        by.chain(NUMBERS).chain(["dollars"]).collect()
    }

    fn csv(&self, sums: &Sums) -> String {
        let mut text = self.titles().join(",") + "\n";
        for (key, sum) in &sums.rows {
            let mut cells: Vec<String> = key.iter().map(|cell| csv_cell(cell)).collect();
            cells.extend(numbers(sum).map(|number| number.to_string()));
            cells.push(money(sum));
            text += &(cells.join(",") + "\n");
        }
        text
    }

    fn json(&self, sums: &Sums, from: u64) -> String {
        let rows = sums.rows.iter().map(|(key, sum)| {
            let mut row = Map::new();
            for (by, cell) in self.by.iter().zip(key) {
                row.insert(by.title().to_owned(), cell.as_str().into());
            }
            for (name, number) in NUMBERS.iter().zip(numbers(sum)) {
                row.insert((*name).to_owned(), number.into());
            }
            let money = (sum.unpriced == 0).then(|| dollars(sum.money));
            row.insert("dollars".to_owned(), json!(money));
            Value::Object(row)
        });
        let rows: Vec<Value> = rows.collect();
        format!("{}\n", json!({ "since": rfc3339(from), "rows": rows }))
    }

    fn text(&self, sums: &Sums, from: u64) -> String {
        let mut lines = vec![
            self.titles()
                .iter()
                .map(|&title| title.to_owned())
                .collect::<Vec<_>>(),
        ];
        let line = |key: Vec<String>, sum: &AccountRow| -> Vec<String> {
            let numbers = numbers(sum).map(|number| number.to_string());
            key.into_iter().chain(numbers).chain([money(sum)]).collect()
        };
        for (key, sum) in &sums.rows {
            let key = key.iter().map(|cell| visible(cell).into_owned()).collect();
            lines.push(line(key, sum));
        }
        if sums.rows.len() > 1 {
            let mut key = vec![String::new(); self.by.len()];
            key[0] = "all".to_owned();
            lines.push(line(key, &sums.all));
        }
        let mut text = format!("since {}\n", &rfc3339(from)[..16]);
        if sums.rows.is_empty() {
            return text + "no model was used\n";
        }
        text += &table(&lines, self.by.len());
        text
    }
}

fn numbers(row: &AccountRow) -> [u64; 7] {
    let usage = &row.usage;
    [
        row.calls,
        usage.input,
        usage.cached_read,
        usage.cached_write,
        usage.output,
        usage.reasoning,
        row.estimated,
    ]
}

/// Dollars to a millionth; nothing where no price is known, and with a plus where some are not.
fn money(sum: &AccountRow) -> String {
    let dollars = dollars(sum.money);
    match sum.unpriced {
        0 => format!("{dollars:.6}"),
        all if all == sum.calls => String::new(),
        _ => format!("{dollars:.6}+"),
    }
}

/// A cell of RFC 4180, section 2; what a spreadsheet would take for a formula is made a text.
fn csv_cell(cell: &str) -> String {
    let is_formula = cell.starts_with(['=', '+', '-', '@', '\t', '\r']);
    let cell = if is_formula {
        format!("'{cell}")
    } else {
        cell.to_owned()
    };
    match cell.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", cell.replace('"', "\"\"")),
        false => cell,
    }
}

/// Lines in columns: the first so many to the left, numbers to the right.
fn table(lines: &[Vec<String>], left: usize) -> String {
    let columns = lines.first().map_or(0, Vec::len);
    let width = |i: usize| {
        lines
            .iter()
            .map(|line| line[i].chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for line in lines {
        let cells = line.iter().enumerate().map(|(i, cell)| match i < left {
            true => format!("{cell:<width$}", width = widths[i]),
            false => format!("{cell:>width$}", width = widths[i]),
        });
        let cells: Vec<String> = cells.collect();
        text += cells.join("  ").trim_end();
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_no_formula_and_keeps_its_commas() {
        assert_eq!(csv_cell("openai/gpt"), "openai/gpt");
        assert_eq!(csv_cell("=cmd()"), "'=cmd()");
        assert_eq!(csv_cell("a,\"b\""), "\"a,\"\"b\"\"\"");
    }

    #[test]
    fn columns_stand_below_each_other() {
        let line = |cells: [&str; 2]| cells.map(str::to_owned).to_vec();
        let text = table(&[line(["agent", "calls"]), line(["a", "12"])], 1);
        assert_eq!(text, "agent  calls\na         12\n");
    }
}
