//! A certificate: whether a server answered every request rightly, once, also when it was asked for more than it carries.
//!
//! Its digest is the SHA-256 of its canonical JSON (RFC 8785: names sorted, no space, numbers in their shortest form)
//! without the digest itself. That finds an edit; it proves nothing of who wrote it, since it has no key.

use base::hex;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::Setting;
use super::level::CellFacts;

/// The format's name and version.
pub const CERTIFICATE_SCHEMA: &str = "weir-lab-certificate/1";
/// The file's name in a folder.
pub const CERTIFICATE_FILE: &str = "certificate.json";

/// One certificate.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Certificate {
    pub schema: String,
    pub passed: bool,
    pub setting: Setting,
    pub criteria: Vec<CertificateCriterion>,
    pub stages: Vec<StageFacts>,
    pub totals: CertificateTotals,
    /// Of wrong answers, the first ones.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub wrong: Vec<crate::result::Note>,
    /// SHA-256 in hex, of everything else.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub sha256: String,
}

/// What had to hold.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CertificateCriterion {
    pub id: String,
    pub text: String,
    pub holds: bool,
    pub evidence: String,
}

/// One stage of the load.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StageFacts {
    pub label: String,
    /// `closed` or `open`, with its level.
    pub load: String,
    pub found: CellFacts,
}

/// Over all stages, warm-ups included.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CertificateTotals {
    pub requests: u64,
    pub failed: u64,
    /// Due and never sent, where only what overload sheds in the generator's own queue is allowed.
    pub dropped: u64,
    /// Whose every byte was compared.
    pub compared: u64,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub origin_distinct: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub origin_duplicates: Option<u64>,
    /// With 95 % confidence the share of failures is under this, where there was none among so many (3/n).
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub failed_share_bound: Option<f64>,
}

impl Certificate {
    /// Seals it with its digest. Its numbers are rounded to nine digits first, which every reader of JSON reads alike.
    ///
    /// # Errors
    ///
    /// A number in it is not finite.
    pub fn sealed(self) -> Result<Certificate, String> {
        let mut tree = serde_json::to_value(&self).map_err(|e| e.to_string())?;
        rounded(&mut tree);
        let digest = digest(&tree)?;
        let mut sealed: Certificate = serde_json::from_value(tree).map_err(|e| e.to_string())?;
        sealed.sha256 = digest;
        Ok(sealed)
    }
}

/// The digest of a certificate as a tree; `sha256` in it is left out.
///
/// # Errors
///
/// It is no object.
pub fn digest(tree: &serde_json::Value) -> Result<String, String> {
    let mut tree = tree.clone();
    let object = tree.as_object_mut().ok_or("is no object")?;
    object.remove("sha256");
    let mut text = String::new();
    canonical(&tree, &mut text);
    Ok(hex::encode(&Sha256::digest(text.as_bytes())))
}

/// Rounds every number that is not whole to nine significant digits.
fn rounded(value: &mut serde_json::Value) {
    match value {
        serde_json::Value::Object(map) => map.values_mut().for_each(rounded),
        serde_json::Value::Array(items) => items.iter_mut().for_each(rounded),
        serde_json::Value::Number(number) if number.is_f64() => {
            let short = number
                .as_f64()
                .and_then(|n| format!("{n:.8e}").parse::<f64>().ok());
            if let Some(short) = short.and_then(serde_json::Number::from_f64) {
                *number = short;
            }
        }
        _ => {}
    }
}

/// Writes a tree in its one form.
fn canonical(value: &serde_json::Value, out: &mut String) {
    match value {
        serde_json::Value::Object(map) => {
            let mut names: Vec<&String> = map.keys().collect();
            // RFC 8785 sorts by UTF-16 code units.
            names.sort_by(|a, b| a.encode_utf16().cmp(b.encode_utf16()));
            out.push('{');
            for (i, name) in names.into_iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                out.push_str(&serde_json::Value::from(name.as_str()).to_string());
                out.push(':');
                canonical(&map[name], out);
            }
            out.push('}');
        }
        serde_json::Value::Array(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                canonical(item, out);
            }
            out.push(']');
        }
        serde_json::Value::Number(number) => out.push_str(&shortest(number)),
        other => out.push_str(&other.to_string()),
    }
}

/// A number in the form of ECMAScript, as RFC 8785 asks: whole ones without a point up to 10^21.
fn shortest(number: &serde_json::Number) -> String {
    let Some(value) = number.as_f64().filter(|_| number.is_f64()) else {
        return number.to_string();
    };
    if value == 0.0 {
        return "0".to_owned();
    }
    let size = value.abs();
    if (1e-6..1e21).contains(&size) {
        return format!("{value}");
    }
    let text = format!("{value:e}");
    match text.split_once('e') {
        Some((digits, power)) if !power.starts_with('-') => format!("{digits}e+{power}"),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_canonical_form_is_that_of_rfc_8785() {
        // The example of section 3.2.2, without a number that serde_json rounds.
        let text = r#"{"numbers":[333333333.5,1E30,4.50,2e-3,0.000000000000000000000000001],
            "string":"\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/","literals":[null,true,false]}"#;
        let tree: serde_json::Value = serde_json::from_str(text).unwrap();
        let mut out = String::new();
        canonical(&tree, &mut out);
        let want = "{\"literals\":[null,true,false],\"numbers\":[333333333.5,1e+30,4.5,0.002,1e-27],\
                    \"string\":\"€$\\u000f\\nA'B\\\"\\\\\\\\\\\"/\"}";
        assert_eq!(out, want);
    }

    #[test]
    fn an_edit_changes_the_digest_and_an_order_does_not() {
        let certificate = Certificate {
            schema: CERTIFICATE_SCHEMA.to_owned(),
            passed: false,
            totals: CertificateTotals {
                requests: 3,
                failed_share_bound: Some(0.1),
                ..CertificateTotals::default()
            },
            ..Certificate::default()
        };
        let sealed = certificate.sealed().unwrap();
        let tree: serde_json::Value =
            serde_json::from_str(&serde_json::to_string_pretty(&sealed).unwrap()).unwrap();
        assert_eq!(digest(&tree).unwrap(), sealed.sha256);
        let mut edited = tree.clone();
        edited["passed"] = true.into();
        assert_ne!(digest(&edited).unwrap(), sealed.sha256);
    }
}
