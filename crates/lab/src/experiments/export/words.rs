//! Texts of a scenario as expressions of JavaScript.

use config::Reference;
use serde_json::Value;

/// The helpers that a script begins with; each is used by one substitution.
pub(super) const HELPERS: &str = r#"
/** @param {number} low @param {number} high */
function rand(low, high) {
  return low + Math.floor(Math.random() * (high - low + 1));
}

/** @param {number} count */
function letters(count) {
  let text = '';
  for (let i = 0; i < count; i++) text += String.fromCharCode(97 + Math.floor(Math.random() * 16));
  return text;
}

function uuid() {
  return 'xxxxxxxx-xxxx-4xxx-8xxx-xxxxxxxxxxxx'.replace(/x/g, () => rand(0, 15).toString(16));
}

/** A JSON body of this size that no other request has. @param {number} bytes @param {number} seq */
function unique(bytes, seq) {
  const begin = `{"id":"k6-${seq}","text":"`;
  return begin + letters(Math.max(0, bytes - begin.length - 2)) + '"}';
}

/** Which kind of request this one is, by weight. @param {number} seq @param {number[]} weights */
function kindOf(seq, weights) {
  let at = (seq * 0.6180339887498949 % 1) * weights.reduce((sum, weight) => sum + weight, 0);
  for (let kind = 0; kind < weights.length; kind++) {
    at -= weights[kind];
    if (at < 0) return kind;
  }
  return 0;
}
"#;

/// A text in quotes, as JavaScript reads it.
pub(super) fn quoted(text: &str) -> String {
    // JSON is JavaScript; what could end a line of it, or a script in a page, is escaped beside.
    let text = Value::String(text.to_owned()).to_string();
    text.replace('\u{2028}', "\\u2028")
        .replace('\u{2029}', "\\u2029")
}

/// A text with substitutions as a template literal. `env` gives the value that a scenario has for a variable.
///
/// # Errors
///
/// A substitution that k6 has not.
pub(super) fn template(
    text: &str,
    env: &dyn Fn(&str) -> Option<String>,
    in_json: bool,
) -> Result<String, String> {
    let (mut out, mut rest) = ("`".to_owned(), text);
    while let Some(at) = rest.find("${") {
        if rest[..at].ends_with('$') {
            out += &plain(&rest[..at - 1]);
            out += "\\${";
            rest = &rest[at + 2..];
            continue;
        }
        out += &plain(&rest[..at]);
        let end = rest[at..]
            .find('}')
            .ok_or_else(|| format!("`{}` has no closing brace", &rest[at..]))?;
        let name = rest[at + 2..at + end].trim();
        out += &format!("${{{}}}", substitution(name, env, in_json)?);
        rest = &rest[at + end + 1..];
    }
    out += &plain(rest);
    out.push('`');
    Ok(out)
}

fn substitution(
    name: &str,
    env: &dyn Fn(&str) -> Option<String>,
    in_json: bool,
) -> Result<String, String> {
    let call = name.strip_suffix(')').and_then(|call| call.split_once('('));
    Ok(match (name, call) {
        ("seq", _) => "seq".to_owned(),
        ("id", _) => "`k6-${seq}`".to_owned(),
        ("uuid", _) => "uuid()".to_owned(),
        ("now_ms", _) => "Date.now()".to_owned(),
        ("now_ns", _) => "Date.now() + '000000'".to_owned(),
        (_, Some(("rand", bounds))) => {
            let (low, high) = bounds.split_once(',').ok_or("rand needs two bounds")?;
            let number = |text: &str| {
                text.trim()
                    .parse::<u64>()
                    .map_err(|_| "rand needs two whole numbers")
            };
            format!("rand({}, {})", number(low)?, number(high)?)
        }
        (_, Some(("letters", count))) => {
            let count: u64 = count.trim().parse().map_err(|_| "letters needs a count")?;
            format!("letters({count})")
        }
        _ => match name.strip_prefix("env.") {
            Some(variable) => {
                let known = env(variable).map(|value| format!(" || {}", quoted(&value)));
                let text = format!("__ENV[{}]{}", quoted(variable), known.unwrap_or_default());
                match in_json {
                    true => format!("JSON.stringify(String({text})).slice(1, -1)"),
                    false => text,
                }
            }
            None => {
                return Err(format!(
                    "${{{name}}} is of a feed, which a k6 script reads in its own way"
                ));
            }
        },
    })
}

/// Text between substitutions, as a template literal has it.
fn plain(text: &str) -> String {
    let text = text
        .replace('\\', "\\\\")
        .replace('`', "\\`")
        .replace('\r', "\\r");
    text.replace("${", "\\${")
}

/// A secret as an expression; files are opened by `open`, which k6 allows where a script begins.
pub(super) fn secret(reference: &Reference, files: &mut Vec<String>) -> String {
    match reference {
        Reference::Env(name) => format!("__ENV[{}]", quoted(name)),
        Reference::File(path) => {
            let path = path.display().to_string();
            let at = files
                .iter()
                .position(|known| *known == path)
                .unwrap_or_else(|| {
                    files.push(path);
                    files.len() - 1
                });
            format!("FILE_{}", at + 1)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_cannot_leave_its_literal() {
        let none = |_: &str| None;
        let made = |text: &str| template(text, &none, false);
        assert_eq!(made("a`b\\${seq}").as_deref(), Ok("`a\\`b\\\\${seq}`"));
        assert_eq!(made("$${x}`;evil()").as_deref(), Ok("`\\${x}\\`;evil()`"));
        assert_eq!(
            made("${rand(1, 9)}-${letters(3)}").as_deref(),
            Ok("`${rand(1, 9)}-${letters(3)}`")
        );
        assert!(made("${users.name}").unwrap_err().contains("a feed"));
        assert!(made("${rand(1,evil())}").is_err());
        assert_eq!(quoted("</script>\u{2028}\""), "\"</script>\\u2028\\\"\"");
    }
}
