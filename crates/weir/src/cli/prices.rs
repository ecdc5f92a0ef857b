//! `weir prices`: what weir takes models to cost, and prices of others made a file that goes before them.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use gate::TokenPrices;
use llm::{PRICES_BYTES_MAX, PriceTable, of_litellm};
use serde_json::{Value, json};

use super::{Answer, ConfigFile, Ended, Failure, print, write_new};

/// Show what models cost, and import prices
#[derive(Debug, Subcommand)]
#[command(after_help = "\
Examples:
  weir prices show anthropic/claude-opus-5
  weir prices show gpt-5
  weir prices import model_prices_and_context_window.json --out prices.csv")]
pub(super) enum Prices {
    Show(Show),
    Import(Import),
}

/// Print what models cost, in dollars for a million tokens
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  weir prices show
  weir prices show gpt-5
  weir prices show anthropic/claude-opus-5 --json

A name of the form provider/model is looked up as the gateway does: the provider's prices of the configuration, its file
llm.prices, the table that weir brings. Any other name lists the rows of that table in which it stands.

Exit codes: 0 printed, 1 no price is known, 2 the configuration cannot be read.")]
pub(super) struct Show {
    #[command(flatten)]
    file: ConfigFile,
    /// provider/model, or a part of a model's name
    name: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Make a file of prices for llm.prices of LiteLLM's model_prices_and_context_window.json
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  weir prices import model_prices_and_context_window.json --out prices.csv

The configuration then says llm: { prices: ./prices.csv }. Models of providers that weir does not know, and those that are not
priced by tokens, are left out.

Exit codes: 0 written, 2 it could not be done.")]
pub(super) struct Import {
    /// The file to read
    file: PathBuf,
    /// The file to write; must not be there
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Prices {
    pub(super) fn run(self) -> Ended {
        match self {
            Prices::Show(command) => command.run(),
            Prices::Import(command) => command.run(),
        }
    }
}

/// One line of what is shown.
struct Line {
    name: String,
    how: &'static str,
    prices: TokenPrices,
}

impl Show {
    fn run(self) -> Ended {
        let lines = self.lines()?;
        if lines.is_empty() {
            let name = self.name.as_deref().unwrap_or_default();
            super::complain(
                &format!("no price of {name:?} is known"),
                "Say what it costs under llm.providers.NAME.prices.",
            );
            return Ok(Answer::No);
        }
        let text = match self.json {
            true => {
                let rows: Vec<Value> = lines.iter().map(json_of).collect();
                format!(
                    "{}\n",
                    json!({ "source": PriceTable::source(), "prices": rows })
                )
            }
            false => {
                let mut text = format!("{}\n", PriceTable::source());
                let width = lines.iter().map(|line| line.name.len()).max().unwrap_or(0);
                text += &format!(
                    "{:width$}  {:>10} {:>10} {:>10} {:>10}\n",
                    "model", "input", "cached", "cache-write", "output"
                );
                for line in &lines {
                    let prices = &line.prices;
                    let cell = |micros: u64| format!("{}", micros as f64 / 1e6);
                    text += &format!(
                        "{:width$}  {:>10} {:>10} {:>11} {:>10}{}\n",
                        line.name,
                        cell(prices.input),
                        cell(prices.cached_read),
                        cell(prices.cached_write),
                        cell(prices.output),
                        line.how,
                    );
                }
                text
            }
        };
        print(&text)?;
        Ok(Answer::Yes)
    }

    fn lines(&self) -> Result<Vec<Line>, Failure> {
        let name = self.name.as_deref().unwrap_or_default();
        if let Some((provider, model)) = name.split_once('/') {
            let settings = match self.file.path().exists() {
                true => Some(self.file.load_without_secrets()?),
                false => None,
            };
            let providers = settings
                .map(|settings| settings.llm.providers)
                .unwrap_or_default();
            let of = providers
                .iter()
                .find(|of| of.told.name.as_str() == provider);
            let price = match of {
                Some(of) => of.told.price(model),
                None => PriceTable::known().of(provider, model),
            };
            let mut lines = Vec::new();
            if let Some(price) = price {
                let line = |how, prices| Line {
                    name: name.to_owned(),
                    how,
                    prices,
                };
                lines.push(line("", price.usual));
                lines.extend(price.long.map(|(_, prices)| line("  long inputs", prices)));
            }
            return Ok(lines);
        }
        let rows = PriceTable::known().rows().iter();
        let rows = rows.filter(|row| row.name.contains(name));
        let lines = rows.map(|row| Line {
            name: format!("{}/{}", row.kind, row.name),
            how: if row.is_whole() {
                ""
            } else {
                "  and names like it"
            },
            prices: row.price.usual,
        });
        Ok(lines.collect())
    }
}

fn json_of(line: &Line) -> Value {
    let dollars = |micros: u64| micros as f64 / 1e6;
    json!({
        "model": line.name,
        "note": line.how.trim(),
        "input": dollars(line.prices.input),
        "cached_read": dollars(line.prices.cached_read),
        "cached_write": dollars(line.prices.cached_write),
        "output": dollars(line.prices.output),
    })
}

impl Import {
    fn run(self) -> Ended {
        let failed = |what: String| Failure::new(what, "");
        let text = crate::config::read::read_text(&self.file, PRICES_BYTES_MAX);
        let text = text.map_err(|why| failed(format!("{}: {why}", self.file.display())))?;
        let (rows, left_out) =
            of_litellm(&text).map_err(|why| failed(format!("{} {why}", self.file.display())))?;
        let count = rows.lines().count();
        if count == 0 {
            let what = format!(
                "{} names no model of a provider that weir knows",
                self.file.display()
            );
            return Err(failed(what));
        }
        let head =
            "# kind,how,name,input,cached_read,cached_write,output; dollars for a million tokens\n";
        write_new(&self.out, &format!("{head}{rows}"))?;
        let out = self.out.display().to_string();
        print(&match self.json {
            true => format!(
                "{}\n",
                json!({ "out": out, "prices": count, "left_out": left_out })
            ),
            false => format!("{out}: {count} prices, {left_out} models left out\n"),
        })?;
        Ok(Answer::Yes)
    }
}
