//! What a key may hold: one type for each kind of scalar, which reads the text that was written, says what would have
//! been right, and is in the schema as that.
//!
//! No message repeats a value, for it may be a secret that was put in the wrong place.

use std::borrow::Cow;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use base::{AddressRange, Name};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserialize, Deserializer, Error, Visitor};
use serde::{Serialize, Serializer};

/// Reads a scalar by a function of its text. `kind` is what would have been right.
pub fn scalar<'de, D: Deserializer<'de>, T>(
    from: D,
    kind: &str,
    parse: impl FnOnce(&str) -> Result<T, String>,
) -> Result<T, D::Error> {
    struct Read<'k, F>(&'k str, F);
    impl<T, F: FnOnce(&str) -> Result<T, String>> Visitor<'_> for Read<'_, F> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
            (self.1)(text).map_err(E::custom)
        }
    }
    from.deserialize_str(Read(kind, parse))
}

/// Makes a type one that is read from a text by a function, with its kind's words and its schema.
#[macro_export]
macro_rules! scalar {
    ($type:ty, $parse:expr, $kind:literal, $schema:tt) => {
        impl<'de> $crate::export::serde::Deserialize<'de> for $type {
            fn deserialize<D>(from: D) -> Result<$type, D::Error>
            where
                D: $crate::export::serde::Deserializer<'de>,
            {
                $crate::kinds::scalar(from, $kind, $parse)
            }
        }

        impl $crate::export::schemars::JsonSchema for $type {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                $kind.into()
            }

            fn inline_schema() -> bool {
                true
            }

            fn json_schema(
                _: &mut $crate::export::schemars::SchemaGenerator,
            ) -> $crate::export::schemars::Schema {
                use $crate::export::schemars;
                let mut schema = schemars::json_schema!($schema);
                schema.insert("x-kind".to_owned(), $kind.into());
                schema
            }
        }
    };
}

/// Writes a default as the text that it would be read from.
#[macro_export]
macro_rules! written_as {
    ($type:ty, $text:expr) => {
        impl $crate::export::serde::Serialize for $type {
            fn serialize<S>(&self, to: S) -> Result<S::Ok, S::Error>
            where
                S: $crate::export::serde::Serializer,
            {
                let text: fn(&$type) -> String = $text;
                to.serialize_str(&text(self))
            }
        }
    };
}

/// A text that is not empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text(pub String);

scalar!(Text, |text| not_empty(text).map(Text), "text", { "type": "string", "minLength": 1 });
written_as!(Text, |text| text.0.clone());

/// A file or a folder, relative to the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilePath(pub PathBuf);

scalar!(FilePath, |text| not_empty(text).map(|text| FilePath(text.into())), "path", {
    "type": "string", "minLength": 1
});
written_as!(FilePath, |path| path.0.display().to_string());

impl From<FilePath> for PathBuf {
    fn from(path: FilePath) -> PathBuf {
        path.0
    }
}

/// A block of addresses, or one address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Addresses(pub AddressRange);

scalar!(Addresses, |text| addresses(text).map(Addresses), "address range", {
    "type": "string", "minLength": 1
});

/// Reads an address range, such as `10.0.0.0/8`, or one address.
///
/// # Errors
/// What would have been right.
pub fn addresses(text: &str) -> Result<AddressRange, String> {
    let mend = "must be an address range such as 10.0.0.0/8, or one address";
    AddressRange::parse(text).ok_or_else(|| mend.to_owned())
}

fn not_empty(text: &str) -> Result<String, String> {
    match text {
        "" => Err("must not be empty".to_owned()),
        text => no_zero(text),
    }
}

fn no_zero(text: &str) -> Result<String, String> {
    match text.contains('\0') {
        true => Err("must not hold a zero byte".to_owned()),
        false => Ok(text.to_owned()),
    }
}

/// A name that can stand in a path, a label and a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label(pub Name);

scalar!(Label, |text| name(text).map(Label), "name", { "type": "string", "minLength": 1 });

/// Reads a name.
///
/// # Errors
///
/// What would have been right.
pub fn name(text: &str) -> Result<Name, String> {
    Name::new(text).ok_or_else(|| {
        "must be a name: 1 to 64 of a-z A-Z 0-9 . _ -, the first a letter or a digit".to_owned()
    })
}

/// A whole number within bounds. Digits may be grouped by `_`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count<const MIN: u64, const MAX: u64>(pub u64);

impl<const MIN: u64, const MAX: u64> Count<MIN, MAX> {
    /// The same as a size in memory; no bound passes what 64 bits hold.
    pub fn size(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }

    /// The same in 32 bits; the most that they hold where it is more.
    pub fn small(self) -> u32 {
        u32::try_from(self.0).unwrap_or(u32::MAX)
    }
}

impl<const MIN: u64, const MAX: u64> From<Count<MIN, MAX>> for u64 {
    fn from(count: Count<MIN, MAX>) -> u64 {
        count.0
    }
}

impl<const MIN: u64, const MAX: u64> From<Count<MIN, MAX>> for usize {
    fn from(count: Count<MIN, MAX>) -> usize {
        count.size()
    }
}

impl<const MIN: u64, const MAX: u64> From<Count<MIN, MAX>> for u32 {
    fn from(count: Count<MIN, MAX>) -> u32 {
        count.small()
    }
}

/// Reads a kind into a field of a plain type: `#[serde(deserialize_with = "plain::<Kind, _, _>")]`.
///
/// # Errors
///
/// Those of the kind.
pub fn plain<'de, K, T, D>(from: D) -> Result<T, D::Error>
where
    K: Deserialize<'de> + Into<T>,
    D: Deserializer<'de>,
{
    K::deserialize(from).map(Into::into)
}

/// The same into an `Option`, for a key without a default.
///
/// # Errors
///
/// Those of the kind.
pub fn some<'de, K, T, D>(from: D) -> Result<Option<T>, D::Error>
where
    K: Deserialize<'de> + Into<T>,
    D: Deserializer<'de>,
{
    plain::<K, T, D>(from).map(Some)
}

fn count(text: &str, min: u64, max: u64) -> Result<u64, String> {
    let digits = text.replace('_', "");
    match digits.parse::<u64>() {
        Ok(n) if (min..=max).contains(&n) && !text.starts_with(['_', '+']) => Ok(n),
        _ => Err(format!("must be a whole number from {min} to {max}")),
    }
}

impl<'de, const MIN: u64, const MAX: u64> Deserialize<'de> for Count<MIN, MAX> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let kind = format!("number, {MIN} to {MAX}");
        scalar(from, &kind, |text| count(text, MIN, MAX).map(Count))
    }
}

impl<const MIN: u64, const MAX: u64> Serialize for Count<MIN, MAX> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u64(self.0)
    }
}

impl<const MIN: u64, const MAX: u64> JsonSchema for Count<MIN, MAX> {
    fn schema_name() -> Cow<'static, str> {
        format!("Count{MIN}To{MAX}").into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "integer", "minimum": MIN, "maximum": MAX })
    }
}

/// Yes or no.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Switch(pub bool);

scalar!(Switch, switch, "true or false", { "type": "boolean" });

fn switch(text: &str) -> Result<Switch, String> {
    match text {
        "true" | "on" => Ok(Switch(true)),
        "false" | "off" => Ok(Switch(false)),
        _ => Err("must be true or false".to_owned()),
    }
}

impl Serialize for Switch {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_bool(self.0)
    }
}

/// Where a socket listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

scalar!(Listen, Listen::parse, "address:port or unix:PATH", { "type": "string", "minLength": 1 });
written_as!(Listen, |listen| listen.to_string());

impl Listen {
    /// A port of this machine.
    pub fn local(port: u16) -> Listen {
        Listen::Tcp(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port))
    }

    /// Reads an address and port, or `unix:PATH`.
    ///
    /// # Errors
    ///
    /// What would have been right.
    pub fn parse(text: &str) -> Result<Listen, String> {
        match text.strip_prefix("unix:") {
            Some("") => Err("must name a path after unix:".to_owned()),
            Some(path) => Ok(Listen::Unix(path.into())),
            None => text.parse().map(Listen::Tcp).map_err(|_| {
                "must be an IP address and a port, such as 127.0.0.1:8701, or unix:PATH".to_owned()
            }),
        }
    }

    /// Whether other machines can reach it.
    pub fn is_public(&self) -> bool {
        match self {
            Listen::Tcp(address) => !address.ip().to_canonical().is_loopback(),
            Listen::Unix(_) => false,
        }
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Listen::Tcp(address) => address.fmt(f),
            Listen::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// Who may open a file: three or four octal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileMode(pub u32);

scalar!(FileMode, file_mode, "octal mode", { "type": "string", "pattern": "^0?[0-7]{3}$" });
written_as!(FileMode, |mode| format!("{:04o}", mode.0));

fn file_mode(text: &str) -> Result<FileMode, String> {
    let digits = text.strip_prefix('0').unwrap_or(text);
    let mode = u32::from_str_radix(digits, 8).ok();
    mode.filter(|_| digits.len() == 3)
        .map(FileMode)
        .ok_or_else(|| "must be an octal mode such as \"0660\"".to_owned())
}

/// Dollars, in millionths of one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dollars(pub u64);

scalar!(Dollars, |text| dollars(text).map(Dollars), "dollars", { "type": "number", "minimum": 0 });

/// Reads dollars, such as `200` or `0.075`, in millionths of one.
///
/// # Errors
///
/// What would have been right.
pub fn dollars(text: &str) -> Result<u64, String> {
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let part = part.trim_end_matches('0');
    let read = || -> Option<u64> {
        let fits = is_number(whole) && whole.len() <= 9 && part.len() <= 6;
        let fits = fits && (part.is_empty() || is_number(part));
        let whole: u64 = fits.then(|| whole.parse().ok())??;
        let part: u64 = format!("{part:0<6}").parse().ok()?;
        Some(whole * 1_000_000 + part)
    };
    read().ok_or_else(|| "must be dollars such as 200 or 0.075, with at most 6 decimals".to_owned())
}

/// RFC 3339, as Unix milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Time(pub u64);

scalar!(Time, time, "time", { "type": "string", "format": "date-time" });

fn time(text: &str) -> Result<Time, String> {
    let found = unix_ms(text).map(Time);
    found.ok_or_else(|| "must be a time such as 2027-01-01T00:00:00Z".to_owned())
}

/// Where a secret is kept. Never the secret itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reference {
    /// A variable of the environment.
    Env(String),
    /// A file, relative to the configuration.
    File(PathBuf),
}

scalar!(Reference, Reference::parse, "env:NAME or file:PATH", {
    "type": "string", "pattern": "^(env|file):."
});

impl Reference {
    /// Reads `env:NAME` or `file:PATH`.
    ///
    /// # Errors
    ///
    /// What would have been right; the text is not repeated, since it may be the secret.
    pub fn parse(text: &str) -> Result<Reference, String> {
        match text.split_once(':') {
            Some(("env", name)) if is_variable(name) => Ok(Reference::Env(name.to_owned())),
            Some(("env", _)) => Err("must name a variable after env:".to_owned()),
            Some(("file", path)) if !path.is_empty() => Ok(Reference::File(path.into())),
            Some(("file", _)) => Err("must name a file after file:".to_owned()),
            _ => Err(
                "must not be written here; put it in a variable or a file and write env:NAME or \
                 file:PATH"
                    .to_owned(),
            ),
        }
    }
}

/// Whether a text can name an environment variable.
pub fn is_variable(text: &str) -> bool {
    let first = text.bytes().next();
    first.is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
        && text.len() <= 128
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// `file:PATH`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileReference(pub PathBuf);

scalar!(FileReference, file, "file:PATH", { "type": "string", "pattern": "^file:." });

fn file(text: &str) -> Result<FileReference, String> {
    match text.strip_prefix("file:") {
        Some(path) if !path.is_empty() => Ok(FileReference(path.into())),
        _ => Err("must be file: and a path".to_owned()),
    }
}

/// A text, or a secret's reference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EnvValue {
    Plain(String),
    Secret(Reference),
}

scalar!(EnvValue, env_value, "text, env:NAME or file:PATH", {
    "type": ["string", "number", "boolean"]
});

fn env_value(text: &str) -> Result<EnvValue, String> {
    match text.starts_with("env:") || text.starts_with("file:") {
        true => Reference::parse(text).map(EnvValue::Secret),
        false => no_zero(text).map(EnvValue::Plain),
    }
}

/// A time of RFC 3339, as Unix milliseconds; nothing where it is none, or before 1970.
pub fn unix_ms(text: &str) -> Option<u64> {
    let number = |from: usize, to: usize| -> Option<i64> {
        let digits = text.get(from..to)?;
        digits
            .bytes()
            .all(|b| b.is_ascii_digit())
            .then(|| digits.parse().ok())?
    };
    let fixed = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':')];
    if fixed
        .iter()
        .any(|&(i, byte)| text.as_bytes().get(i) != Some(&byte))
    {
        return None;
    }
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        2 => 28 + i64::from(leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    if !(1..=days).contains(&day) || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let (ms, rest) = fraction(text.get(19..)?)?;
    let seconds = days_since_1970(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second;
    u64::try_from((seconds - offset_seconds(rest)?) * 1000 + ms).ok()
}

/// The milliseconds of `.123456`, and what follows.
fn fraction(text: &str) -> Option<(i64, &str)> {
    let Some(rest) = text.strip_prefix('.') else {
        return Some((0, text));
    };
    let end = rest.find(|c: char| !c.is_ascii_digit())?;
    let digits = &rest[..end];
    let ms = format!("{digits:0<3}").get(..3)?.parse().ok()?;
    (1..=9).contains(&end).then_some((ms, &rest[end..]))
}

fn offset_seconds(text: &str) -> Option<i64> {
    if text == "Z" {
        return Some(0);
    }
    let (sign, rest) = match text.split_at_checked(1)? {
        ("+", rest) => (1, rest),
        ("-", rest) => (-1, rest),
        _ => return None,
    };
    let (hours, minutes) = rest.split_once(':')?;
    let two = |t: &str| t.len() == 2 && t.bytes().all(|b| b.is_ascii_digit());
    if !two(hours) || !two(minutes) {
        return None;
    }
    let (hours, minutes): (i64, i64) = (hours.parse().ok()?, minutes.parse().ok()?);
    (hours < 24 && minutes < 60).then_some(sign * (hours * 3600 + minutes * 60))
}

/// Days since 1970 in the proleptic Gregorian calendar; the inverse of the one in `base::clock`.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let yoe = year.rem_euclid(400);
    let doy = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + yoe * 365 + yoe / 4 - yoe / 100 + doy - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        let time = |text| time(text).map(|time| time.0);
        assert_eq!(time("1970-01-01T00:00:00Z"), Ok(0));
        assert_eq!(time("2000-02-29T00:00:00Z"), Ok(951_782_400_000));
        assert_eq!(time("2026-11-21T14:25:30.123Z"), Ok(1_795_271_130_123));
        assert_eq!(time("2026-11-21T16:25:30.1+02:00"), Ok(1_795_271_130_100));
        for bad in [
            "2027-01-01",
            "2027-02-29T00:00:00Z",
            "2027-01-01T24:00:00Z",
            "2027-01-01 00:00:00Z",
            "2027-01-01T00:00:00",
            "2027-01-01T00:00:00.Z",
            "2027-01-01T00:00:00+2:00",
            "+027-01-01T00:00:00Z",
            "1969-12-31T23:59:59Z",
            "2027-13-01T00:00:00Z",
            "é",
            "2027-01-01T00:00:00Zé",
        ] {
            assert!(time(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_secret_is_a_reference() {
        let reference = Reference::parse;
        assert_eq!(reference("env:A_B"), Ok(Reference::Env("A_B".into())));
        assert_eq!(reference("file:a/b"), Ok(Reference::File("a/b".into())));
        for bad in ["hunter2", "env:", "env:A B", "env:1", "file:", "https://x"] {
            let error = reference(bad).expect_err(bad);
            assert!(!error.contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn counts() {
        assert_eq!(count("10_000", 1, 20_000), Ok(10_000));
        for bad in [
            "",
            "-1",
            "1.5",
            "0",
            "20001",
            "1e3",
            "+5",
            "_5",
            "99999999999999999999",
        ] {
            assert!(count(bad, 1, 20_000).is_err(), "{bad}");
        }
    }
}
