//! Configuration: what the operator wrote, checked once, as values that the rest of the gateway can trust.
//!
//! Two stages. [`file::File`] is exactly what was written, with positions; [`Settings`] is parsed from it and
//! checked once. Every problem is collected with its file, line and help, so that one run shows all that has
//! to be mended. It refuses to guess: an unknown key, a literal secret, or a value out of its range is a
//! problem, never a warning.

pub(crate) mod compile;
pub(crate) mod file;
pub(crate) mod keys;
pub(crate) mod problem;
pub(crate) mod read;
pub(crate) mod schema;
pub(crate) mod seen;
pub(crate) mod settings;
pub(crate) mod show;
pub(crate) mod values;
pub(crate) mod yaml;

pub(crate) use problem::Problem;
pub(crate) use read::load;
pub(crate) use seal::keytext;
pub(crate) use seen::Seen;
pub(crate) use settings::Settings;

/// Most bytes of a configuration file.
pub(crate) const FILE_BYTES_MAX: usize = 1 << 20;
/// Deepest nesting of a configuration file.
pub(crate) const DEPTH_MAX: usize = 16;
/// Most problems that are collected; the rest would say nothing new.
pub(crate) const PROBLEMS_MAX: usize = 200;
/// Most bytes of a policy file.
pub(crate) const POLICY_BYTES_MAX: usize = 1 << 20;
/// Most bytes of a file that holds a secret or a certificate.
pub(crate) const SECRET_BYTES_MAX: usize = 64 << 10;
/// Most files of scan rules in one folder.
pub(crate) const RULE_FILES_MAX: usize = 256;
/// Most bytes of a file of values to look for.
pub(crate) const VALUES_BYTES_MAX: usize = 4 << 20;
