//! Configuration: what the operator wrote, checked once, as values that the rest of the gateway can trust.
//!
//! Two stages. [`file::File`] is exactly what was written, with positions; [`Settings`] is parsed from it and
//! checked once. Every problem is collected with its file, line and help, so that one run shows all that has
//! to be mended. It refuses to guess: an unknown key, a literal secret, or a value out of its range is a
//! problem, never a warning.

pub mod compile;
pub mod file;
pub mod keys;
pub mod keytext;
pub mod problem;
pub mod read;
pub mod schema;
pub mod seen;
pub mod settings;
pub mod show;
pub mod values;
pub mod yaml;

pub use problem::Problem;
pub use read::load;
pub use seen::Seen;
pub use settings::Settings;

/// Most bytes of a configuration file.
pub const FILE_BYTES_MAX: usize = 1 << 20;
/// Deepest nesting of a configuration file.
pub const DEPTH_MAX: usize = 16;
/// Most problems that are collected; the rest would say nothing new.
pub const PROBLEMS_MAX: usize = 200;
/// Most bytes of a policy file.
pub const POLICY_BYTES_MAX: usize = 1 << 20;
/// Most bytes of a file that holds a secret or a certificate.
pub const SECRET_BYTES_MAX: usize = 64 << 10;
/// Most files of scan rules in one folder.
pub const RULE_FILES_MAX: usize = 256;
/// Most bytes of a file of values to look for.
pub const VALUES_BYTES_MAX: usize = 4 << 20;
