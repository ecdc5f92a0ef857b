//! The schema that policies are checked against, with the arguments that the operator declared.
//!
//! It exists so that a policy cannot speak of what is not there. A tool's own schema is not read: it comes
//! from the server that is governed, and a policy's meaning must not change when a server changes it.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use base::Lane;

/// What all lanes' parts of the schema may speak of, without declared arguments.
const SCHEMA: &str = include_str!("weir.cedarschema");
/// The line of [`SCHEMA`] that declared arguments replace.
const NO_ARGUMENTS: &str = "type Arguments = {};";

/// What type a declared argument has, in JSON and in policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ArgumentType {
    String,
    /// A whole number of 64 bits, with sign, written without fraction and exponent.
    Long,
    Bool,
    SetOfString,
    SetOfLong,
}

impl ArgumentType {
    pub const ALL: &[ArgumentType] = &[
        ArgumentType::String,
        ArgumentType::Long,
        ArgumentType::Bool,
        ArgumentType::SetOfString,
        ArgumentType::SetOfLong,
    ];

    /// As the configuration writes it, which is Cedar's name.
    pub fn as_str(self) -> &'static str {
        match self {
            ArgumentType::String => "String",
            ArgumentType::Long => "Long",
            ArgumentType::Bool => "Bool",
            ArgumentType::SetOfString => "Set<String>",
            ArgumentType::SetOfLong => "Set<Long>",
        }
    }

    /// As the agent is told.
    pub(crate) fn json(self) -> &'static str {
        match self {
            ArgumentType::String => "a string",
            ArgumentType::Long => "a whole number of 64 bits",
            ArgumentType::Bool => "true or false",
            ArgumentType::SetOfString => "an array of strings",
            ArgumentType::SetOfLong => "an array of whole numbers of 64 bits",
        }
    }
}

impl fmt::Display for ArgumentType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for ArgumentType {
    type Err = String;

    /// # Errors
    /// A sentence that names the types there are.
    fn from_str(text: &str) -> Result<ArgumentType, String> {
        let found = ArgumentType::ALL.iter().find(|kind| kind.as_str() == text);
        found.copied().ok_or_else(|| {
            format!("{text:?} is not a type; use String, Long, Bool, Set<String> or Set<Long>")
        })
    }
}

/// The schema of these lanes in Cedar's own language, with these arguments: for editors, and for Cedar's own tools.
pub fn schema_text(lanes: &[&'static Lane], arguments: &BTreeMap<String, ArgumentType>) -> String {
    let mut record = String::from("type Arguments = {\n");
    for (name, kind) in arguments {
        record.push_str(&format!("  \"{name}\"?: {kind},\n"));
    }
    record.push_str("};");
    let mut schema = match arguments.is_empty() {
        true => SCHEMA.to_owned(),
        false => SCHEMA.replace(NO_ARGUMENTS, &record),
    };
    for lane in lanes {
        schema.push('\n');
        schema.push_str(lane.schema);
    }
    schema
}

/// Whether a name can be declared: 1 to 64 visible ASCII characters, without `"` and `\`, so that it
/// stands in the schema as it is.
pub(crate) fn declarable(name: &str) -> bool {
    let plain = |b: u8| b.is_ascii_graphic() && b != b'"' && b != b'\\';
    (1..=64).contains(&name.len()) && name.bytes().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_read_what_they_write() {
        for kind in ArgumentType::ALL {
            assert_eq!(kind.as_str().parse(), Ok(*kind));
        }
        for bad in ["", "string", "Set", "Set<Bool>", "Record"] {
            assert!(bad.parse::<ArgumentType>().is_err(), "{bad}");
        }
    }

    #[test]
    fn the_schema_is_cedar_with_and_without_arguments() {
        assert!(SCHEMA.contains(NO_ARGUMENTS));
        let mut arguments = BTreeMap::new();
        for declared in [false, true] {
            if declared {
                for (i, kind) in ArgumentType::ALL.iter().enumerate() {
                    arguments.insert(format!("a.{i}-$x"), *kind);
                }
            }
            let text = schema_text(&[], &arguments);
            let (_, warnings) = cedar_policy::Schema::from_cedarschema_str(&text).unwrap();
            assert_eq!(warnings.count(), 0);
        }
    }

    #[test]
    fn a_name_that_would_break_the_schema_is_not_declarable() {
        for bad in ["", "a b", "a\"", "a\\", "a\n", "é", &"x".repeat(65)] {
            assert!(!declarable(bad), "{bad:?}");
        }
        assert!(declarable("file-path.$x"));
    }
}
