//! What models cost: a dated table for known kinds of providers, and rows of the operator's own.
//!
//! A row is `kind,how,name,input,cached_read,cached_write,output`, in dollars for a million tokens, and where long inputs cost more
//! `,above,input,cached_read,cached_write,output` behind it. `how` says what the name is of a model's: all of it (`equals`), its begin
//! (`starts_with`), its end (`ends_with`), a part (`contains`), or all of it but a date (`dated`). The first row that fits counts.
//!
//! Example: `anthropic,dated,claude-opus-5,5,0.5,6.25,25` is of `claude-opus-5-20260401`.

use std::sync::LazyLock;

use gate::{Price, TokenPrices};

/// Made by setup/prices.py; its first line says of what and when.
const TABLE: &str = include_str!("../prices.csv");
/// Most bytes of a file of prices, and most rows.
pub const PRICES_BYTES_MAX: usize = 16 << 20;
const ROWS_MAX: usize = 100_000;

/// Rows of prices.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PriceTable {
    rows: Vec<PriceRow>,
}

/// One row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PriceRow {
    /// The kind of provider.
    pub kind: String,
    how: NameIs,
    pub name: String,
    pub price: Price,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NameIs {
    Equals,
    StartsWith,
    EndsWith,
    Contains,
    Dated,
}

impl NameIs {
    fn of(text: &str) -> Option<NameIs> {
        Some(match text {
            "equals" => NameIs::Equals,
            "starts_with" => NameIs::StartsWith,
            "ends_with" => NameIs::EndsWith,
            "contains" => NameIs::Contains,
            "dated" => NameIs::Dated,
            _ => return None,
        })
    }
}

impl PriceRow {
    fn is_of(&self, kind: &str, model: &str) -> bool {
        let name = self.name.as_str();
        self.kind == kind
            && match self.how {
                NameIs::Equals => model == name,
                NameIs::StartsWith => model.starts_with(name),
                NameIs::EndsWith => model.ends_with(name),
                NameIs::Contains => model.contains(name),
                NameIs::Dated => model.strip_prefix(name).is_some_and(is_date),
            }
    }

    /// Whether the name is all of a model's.
    pub fn is_whole(&self) -> bool {
        self.how == NameIs::Equals
    }
}

/// `-20260401`, `@20260401` or `-2026-04-01`.
fn is_date(text: &str) -> bool {
    let digits = text.strip_prefix(['-', '@']).unwrap_or_default();
    !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit() || b == b'-')
}

impl PriceTable {
    /// The table that weir brings.
    pub fn known() -> &'static PriceTable {
        static KNOWN: LazyLock<PriceTable> =
            LazyLock::new(|| PriceTable::parse(TABLE).expect("a test reads the table"));
        &KNOWN
    }

    /// Of what and when the table is.
    pub fn source() -> &'static str {
        TABLE
            .lines()
            .next()
            .unwrap_or_default()
            .trim_start_matches("# ")
    }

    /// Reads rows.
    ///
    /// # Errors
    /// What is wrong with the first row that cannot be read, with its line.
    pub fn parse(text: &str) -> Result<PriceTable, String> {
        let mut rows = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let line = line.trim_end();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let row = row(line).ok_or_else(|| {
                format!(
                    "line {}: is no row of kind,how,name,input,cached_read,cached_write,output",
                    number + 1
                )
            })?;
            if rows.len() >= ROWS_MAX {
                return Err(format!("there are more than {ROWS_MAX} rows"));
            }
            rows.push(row);
        }
        Ok(PriceTable { rows })
    }

    /// What a model of a kind of provider costs.
    pub fn of(&self, kind: &str, model: &str) -> Option<Price> {
        let row = self.rows.iter().find(|row| row.is_of(kind, model))?;
        Some(row.price)
    }

    pub fn rows(&self) -> &[PriceRow] {
        &self.rows
    }
}

fn row(line: &str) -> Option<PriceRow> {
    let cells: Vec<&str> = line.split(',').collect();
    let usual = prices(cells.get(3..7)?)?;
    let long = match cells.len() {
        7 => None,
        12 => Some((cells[7].parse().ok()?, prices(&cells[8..])?)),
        _ => return None,
    };
    let is_named = !cells[0].is_empty() && !cells[2].is_empty();
    is_named.then_some(())?;
    Some(PriceRow {
        kind: cells[0].to_owned(),
        how: NameIs::of(cells[1])?,
        name: cells[2].to_owned(),
        price: Price { usual, long },
    })
}

fn prices(cells: &[&str]) -> Option<TokenPrices> {
    let [input, cached_read, cached_write, output] = cells else {
        return None;
    };
    let of = |cell: &str| config::kinds::dollars(cell).ok();
    Some(TokenPrices {
        input: of(input)?,
        cached_read: of(cached_read)?,
        cached_write: of(cached_write)?,
        output: of(output)?,
    })
}

/// LiteLLM's names of providers, and the kinds that they are here.
const LITELLM: &[(&str, &str)] = &[
    ("anthropic", "anthropic"),
    ("azure", "azure"),
    ("azure_ai", "azure"),
    ("bedrock", "bedrock"),
    ("bedrock_converse", "bedrock"),
    ("cohere", "cohere"),
    ("cohere_chat", "cohere"),
    ("deepseek", "deepseek"),
    ("gemini", "gemini"),
    ("groq", "groq"),
    ("mistral", "mistral"),
    ("openai", "openai"),
    ("openrouter", "openrouter"),
    ("together_ai", "together"),
    ("vertex_ai-anthropic_models", "vertex"),
    ("vertex_ai-language-models", "vertex"),
    ("xai", "xai"),
];

/// Writes the rows of LiteLLM's file of prices (`model_prices_and_context_window.json`) that are of known kinds; gives them, and how
/// many models were left out.
///
/// # Errors
/// The file is no JSON object of models.
pub fn of_litellm(json: &str) -> Result<(String, usize), String> {
    let models: serde_json::Map<String, serde_json::Value> = serde_json::from_str(json)
        .map_err(|error| format!("is no JSON object of models: {error}"))?;
    let (mut rows, mut left_out) = (String::new(), 0);
    for (name, model) in &models {
        match litellm_row(name, model) {
            Some(row) => rows += &row,
            None => left_out += 1,
        }
    }
    Ok((rows, left_out))
}

fn litellm_row(name: &str, model: &serde_json::Value) -> Option<String> {
    let provider = model.get("litellm_provider")?.as_str()?;
    let (_, kind) = LITELLM.iter().find(|(known, _)| *known == provider)?;
    // `vertex_ai/claude-opus-5` is of `vertex_ai-anthropic_models`.
    let own = name
        .split_once('/')
        .filter(|(before, _)| *before == provider || provider.starts_with(&format!("{before}-")))
        .map(|(_, own)| own);
    let name = own.unwrap_or(name);
    if name.is_empty() || name.contains([',', '\n', '\r']) {
        return None;
    }
    // Dollars for one token, as a number such as 3e-06.
    let cost = |of: &str| model.get(of).and_then(serde_json::Value::as_f64);
    let input = cost("input_cost_per_token")?;
    let cells = |above: &str| -> Option<String> {
        let at = |of: &str| cost(&format!("{of}{above}"));
        let input = at("input_cost_per_token").unwrap_or(input);
        let read = at("cache_read_input_token_cost").unwrap_or(input);
        let write = at("cache_creation_input_token_cost").unwrap_or(input);
        let output = at("output_cost_per_token").or(cost("output_cost_per_token"));
        let all = [input, read, write, output.unwrap_or_default()];
        let all = all.map(|cost| format!("{:.6}", cost * 1e6));
        all.iter()
            .all(|cell| config::kinds::dollars(cell).is_ok())
            .then(|| all.join(","))
    };
    let usual = cells("")?;
    let long = ["128k", "200k", "256k", "272k"]
        .into_iter()
        .find_map(|above| {
            let suffix = format!("_above_{above}_tokens");
            cost(&format!("input_cost_per_token{suffix}"))?;
            let tokens: u64 = above.trim_end_matches('k').parse().ok()?;
            Some(format!(",{},{}", tokens * 1_000, cells(&suffix)?))
        });
    let long = long.unwrap_or_default();
    Some(format!("{kind},equals,{name},{usual}{long}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::ProviderKind;

    #[test]
    fn the_table_is_read_and_its_kinds_are_known() {
        let table = PriceTable::known();
        assert!(table.rows().len() > 1_000);
        for row in table.rows() {
            assert!(
                ProviderKind::names().any(|kind| kind == row.kind),
                "{}",
                row.kind
            );
        }
        assert!(PriceTable::source().starts_with("genai-prices "));
        let opus = table.of("anthropic", "claude-opus-5").unwrap();
        assert_eq!(table.of("anthropic", "claude-opus-5-20260401"), Some(opus));
        assert_eq!(table.of("openai", "claude-opus-5"), None);
        assert!(opus.usual.output > opus.usual.input && opus.usual.input > opus.usual.cached_read);
    }

    #[test]
    fn a_name_is_compared_as_its_row_says() {
        let rows = "# a comment\nopenai,dated,gpt-6,1,1,1,2\nopenai,ends_with,-mini,0.5,0.05,0.5,1\n\
                    openai,starts_with,gpt,3,3,3,3,200000,6,6,6,6\n";
        let table = PriceTable::parse(rows).unwrap();
        let input = |model| Some(table.of("openai", model)?.usual.input);
        assert_eq!(input("gpt-6-2026-04-01"), Some(1_000_000));
        assert_eq!(input("gpt-6-20260401"), Some(1_000_000));
        assert_eq!(input("gpt-6-mini"), Some(500_000));
        assert_eq!(input("gpt-6-max"), Some(3_000_000));
        assert_eq!(input("o9"), None);
        let long = table.of("openai", "gpt-7").unwrap().long.unwrap();
        assert_eq!((long.0, long.1.input), (200_000, 6_000_000));
        for wrong in [
            "openai,equals,x,1,1,1",
            "openai,is,x,1,1,1,1",
            "openai,equals,,1,1,1,1",
            "openai,equals,x,-1,1,1,1",
            "openai,equals,x,1,1,1,1,9",
        ] {
            assert!(
                PriceTable::parse(wrong).unwrap_err().starts_with("line 1:"),
                "{wrong}"
            );
        }
    }

    #[test]
    fn litellms_file_becomes_rows() {
        let json = r#"{
            "sample_spec": { "litellm_provider": "one of", "input_cost_per_token": 0 },
            "gpt-5.4": { "litellm_provider": "openai", "input_cost_per_token": 1.25e-06,
                "cache_read_input_token_cost": 1.25e-07, "output_cost_per_token": 1e-05 },
            "gemini/gemini-3-pro": { "litellm_provider": "gemini", "input_cost_per_token": 2e-06, "output_cost_per_token": 1.2e-05,
                "input_cost_per_token_above_200k_tokens": 4e-06, "output_cost_per_token_above_200k_tokens": 1.8e-05 },
            "vertex_ai/claude-x": { "litellm_provider": "vertex_ai-anthropic_models", "input_cost_per_token": 3e-06, "output_cost_per_token": 1.5e-05 },
            "whisper": { "litellm_provider": "openai", "input_cost_per_second": 0.0001 }
        }"#;
        let (rows, left_out) = of_litellm(json).unwrap();
        assert_eq!(left_out, 2);
        let table = PriceTable::parse(&rows).unwrap();
        let gpt = table.of("openai", "gpt-5.4").unwrap().usual;
        assert_eq!(
            (gpt.input, gpt.cached_read, gpt.cached_write, gpt.output),
            (1_250_000, 125_000, 1_250_000, 10_000_000)
        );
        let (above, long) = table.of("gemini", "gemini-3-pro").unwrap().long.unwrap();
        assert_eq!(
            (above, long.input, long.output),
            (200_000, 4_000_000, 18_000_000)
        );
        assert!(table.of("vertex", "claude-x").is_some());
        assert!(of_litellm("[]").is_err());
    }
}
