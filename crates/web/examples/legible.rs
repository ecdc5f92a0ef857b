//! The readable part of pages as `legible` gives it untouched, to hold the one that `/fetch` gives against
//! (`WEIR_LEGIBLE` in `tests/blackbox/test_web_clients.py`): without the bounds, the check for emptiness and the tidying of
//! `html::readable`.
//!
//! Reads lines of `{"url": …, "html": …}` and answers each with `{"text": …}`, null where nothing is found.

use std::io::{BufRead as _, Write as _};

use serde_json::{Value, json};

fn main() -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let asked: Value = serde_json::from_str(&line?)?;
        let html = asked["html"].as_str().unwrap_or_default();
        let article = legible::parse(html, asked["url"].as_str(), None).ok();
        let text = article.map(|article| article.text_content.to_string());
        writeln!(out, "{}", json!({ "text": text }))?;
    }
    Ok(())
}
