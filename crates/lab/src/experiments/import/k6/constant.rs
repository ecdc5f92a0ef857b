//! What is known of a value in a k6 script: texts in pieces, numbers, lists and objects, and what JavaScript makes of them.

use serde_json::Value;

/// A piece of a text: as it is written, or a substitution of the lab such as `${seq}`.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Piece {
    Plain(String),
    Drawn(String),
}

/// A value that is known without running the script.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Constant {
    Null,
    Yes(bool),
    Number(f64),
    Text(Vec<Piece>),
    /// A number that differs from request to request.
    Drawn(String),
    List(Vec<Constant>),
    Map(Vec<(String, Constant)>),
}

impl Constant {
    pub(super) fn plain(text: impl Into<String>) -> Constant {
        Constant::Text(vec![Piece::Plain(text.into())])
    }

    /// As a text that does not differ between requests.
    pub(super) fn text(&self) -> Option<String> {
        match self {
            Constant::Text(pieces) => pieces
                .iter()
                .map(|piece| match piece {
                    Piece::Plain(text) => Some(text.as_str()),
                    Piece::Drawn(_) => None,
                })
                .collect(),
            _ => None,
        }
    }

    pub(super) fn number(&self) -> Option<f64> {
        match self {
            Constant::Number(number) => Some(*number),
            _ => self.text()?.trim().parse().ok(),
        }
    }

    pub(super) fn is_truthy(&self) -> bool {
        match self {
            Constant::Null => false,
            Constant::Yes(yes) => *yes,
            Constant::Number(number) => *number != 0.0 && !number.is_nan(),
            Constant::Text(pieces) => {
                !pieces.is_empty() && self.text().is_none_or(|t| !t.is_empty())
            }
            Constant::Drawn(_) | Constant::List(_) | Constant::Map(_) => true,
        }
    }

    /// As JavaScript puts it into a text; none where that is `[object Object]`.
    pub(super) fn pieces(&self) -> Option<Vec<Piece>> {
        Some(match self {
            Constant::Null => vec![Piece::Plain("null".to_owned())],
            Constant::Yes(yes) => vec![Piece::Plain(yes.to_string())],
            Constant::Number(number) => vec![Piece::Plain(number.to_string())],
            Constant::Text(pieces) => pieces.clone(),
            Constant::Drawn(name) => vec![Piece::Drawn(name.clone())],
            Constant::List(_) | Constant::Map(_) => return None,
        })
    }

    /// As `JSON.stringify` writes it.
    pub(super) fn json(&self, out: &mut Vec<Piece>) {
        let plain = |out: &mut Vec<Piece>, text: String| out.push(Piece::Plain(text));
        match self {
            Constant::Text(pieces) => {
                plain(out, "\"".to_owned());
                for piece in pieces {
                    out.push(match piece {
                        Piece::Plain(text) => {
                            let quoted = Value::String(text.clone()).to_string();
                            Piece::Plain(quoted[1..quoted.len() - 1].to_owned())
                        }
                        drawn => drawn.clone(),
                    });
                }
                plain(out, "\"".to_owned());
            }
            Constant::List(items) => {
                plain(out, "[".to_owned());
                for (number, item) in items.iter().enumerate() {
                    if number > 0 {
                        plain(out, ",".to_owned());
                    }
                    item.json(out);
                }
                plain(out, "]".to_owned());
            }
            Constant::Map(members) => {
                plain(out, "{".to_owned());
                for (number, (name, value)) in members.iter().enumerate() {
                    let comma = if number > 0 { "," } else { "" };
                    plain(out, format!("{comma}{}:", Value::String(name.clone())));
                    value.json(out);
                }
                plain(out, "}".to_owned());
            }
            other => out.extend(other.pieces().unwrap_or_default()),
        }
    }

    pub(super) fn bytes(&self) -> usize {
        match self {
            Constant::Text(pieces) => pieces
                .iter()
                .map(|(Piece::Plain(text) | Piece::Drawn(text))| text.len())
                .sum(),
            Constant::List(items) => items.iter().map(Constant::bytes).sum(),
            Constant::Map(members) => members
                .iter()
                .map(|(name, value)| name.len() + value.bytes())
                .sum(),
            _ => 8,
        }
    }
}
