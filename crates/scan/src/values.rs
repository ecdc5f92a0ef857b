//! The operator's own secrets and canaries: known values, looked for as they are and encoded.
//!
//! Nothing here prints them.

use std::ops::Range;
use std::sync::Arc;

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};

use crate::patterns;
use crate::rule::Rule;

/// Values shorter than this are refused: they would be found everywhere. In bytes.
pub const VALUE_BYTES_MIN: usize = 8;
/// The longest value, in bytes.
pub const VALUE_BYTES_MAX: usize = 16 << 10;
/// Values that may be given.
pub(crate) const VALUES_MAX: usize = 10_000;

/// What a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueKind {
    /// A secret of the operator's: rule `operator_secret`.
    Secret,
    /// A token that nobody has a use for, so that whoever sends it took it: rule `canary`.
    Canary,
}

/// Known values, compiled.
#[derive(Clone, Default)]
pub struct Values {
    compiled: Option<Arc<Compiled>>,
}

struct Compiled {
    automaton: AhoCorasick,
    /// What each pattern of the automaton is a form of.
    kinds: Vec<ValueKind>,
}

impl std::fmt::Debug for Values {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Values({} forms)", self.len())
    }
}

impl Values {
    /// Compiles values in all their forms: as they are, in base64 wherever they start in it, in hex, and
    /// in base32.
    ///
    /// Errors: a value that is too short or too long, or too many, without the value itself.
    pub fn new<'a>(
        values: impl IntoIterator<Item = (ValueKind, &'a str)>,
    ) -> Result<Values, String> {
        let (mut forms, mut kinds) = (Vec::new(), Vec::new());
        for (index, (kind, value)) in values.into_iter().enumerate() {
            if index == VALUES_MAX {
                return Err(format!("more than {VALUES_MAX} values"));
            }
            let value = value.trim_end_matches(['\r', '\n']).as_bytes();
            if !(VALUE_BYTES_MIN..=VALUE_BYTES_MAX).contains(&value.len()) {
                return Err(format!(
                    "value {} has {} bytes; from {VALUE_BYTES_MIN} to {VALUE_BYTES_MAX} are allowed",
                    index + 1,
                    value.len()
                ));
            }
            let all = encoded(value);
            kinds.extend(all.iter().map(|_| kind));
            forms.extend(all);
        }
        if forms.is_empty() {
            return Ok(Values::default());
        }
        let automaton = AhoCorasick::builder()
            .match_kind(MatchKind::Standard)
            .kind(Some(AhoCorasickKind::ContiguousNFA))
            .build(&forms)
            .map_err(|_| "the values are too large together".to_owned())?;
        let compiled = Some(Arc::new(Compiled { automaton, kinds }));
        Ok(Values { compiled })
    }

    pub fn is_empty(&self) -> bool {
        self.compiled.is_none()
    }

    fn len(&self) -> usize {
        self.compiled.as_ref().map_or(0, |c| c.kinds.len())
    }

    pub(crate) fn find(&self, bytes: &[u8]) -> Vec<(&'static Rule, Range<usize>)> {
        let Some(compiled) = &self.compiled else {
            return Vec::new();
        };
        let found = compiled.automaton.find_iter(bytes).map(|found| {
            let id = match compiled.kinds[found.pattern().as_usize()] {
                ValueKind::Secret => "operator_secret",
                ValueKind::Canary => "canary",
            };
            let rule = patterns::rule(id).expect("both rules are in our list");
            (rule, found.range())
        });
        found.collect()
    }
}

/// The forms in which a value is looked for.
fn encoded(value: &[u8]) -> Vec<Vec<u8>> {
    let mut forms = vec![value.to_vec()];
    let lower = base::hex::encode(value);
    forms.push(lower.to_ascii_uppercase().into_bytes());
    forms.push(lower.into_bytes());
    for (alphabet, bits) in [(STANDARD, 6), (URL, 6), (THIRTY_TWO, 5)] {
        // Characters that hold bits of a neighbour differ with it, and are left out.
        let group = if bits == 6 { 3 } else { 5 };
        for before in 0..group {
            let form = core(value, alphabet, bits, before);
            if form.len() >= VALUE_BYTES_MIN && !forms.contains(&form) {
                forms.push(form);
            }
        }
    }
    forms
}

const STANDARD: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const URL: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const THIRTY_TWO: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

/// The characters that hold bits of the value alone, where `before` bytes stand before it.
fn core(value: &[u8], alphabet: &[u8], bits: usize, before: usize) -> Vec<u8> {
    let bit = |at: usize| usize::from(value[at / 8] >> (7 - at % 8) & 1);
    let first = (before * 8).div_ceil(bits) * bits - before * 8;
    let count = (value.len() * 8 - first) / bits;
    let character = |i: usize| {
        let start = first + i * bits;
        alphabet[(start..start + bits).fold(0, |sum, at| sum * 2 + bit(at))]
    };
    (0..count).map(character).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_found_in_each_form() {
        let values = Values::new([(ValueKind::Secret, "hunter2-hunter2")]).unwrap();
        for text in [
            "my hunter2-hunter2!",
            "aHVudGVyMi1odW50ZXIy",
            "eGh1bnRlcjItaHVudGVyMg==",
            "eHhodW50ZXIyLWh1bnRlcjI=",
            "68756e746572322d68756e74657232",
            "NB2W45DFOIZC22DVNZ2GK4RS",
        ] {
            let found = values.find(text.as_bytes());
            assert_eq!(found.len(), 1, "{text}");
            assert_eq!(found[0].0.id, "operator_secret");
        }
        assert!(values.find(b"hunter3-hunter3").is_empty());
    }

    #[test]
    fn a_short_value_is_an_error_that_does_not_show_it() {
        let error = Values::new([(ValueKind::Canary, "hunter2")]).unwrap_err();
        assert!(error.contains("7 bytes") && !error.contains("hunter2"));
        assert!(
            !format!(
                "{:?}",
                Values::new([(ValueKind::Canary, "hunter2-hunter2")])
            )
            .contains("hunter")
        );
    }
}
