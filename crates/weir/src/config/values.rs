//! Values that the command line takes as the configuration does.

use ::config::{Listen, Reference};

pub(crate) use ::config::url::parse as url;
pub(crate) use config::addresses as range;

/// Where something listens: an address and port, or `unix:PATH`.
pub(crate) fn listen(text: &str) -> Result<Listen, String> {
    Listen::parse(text)
}

/// Where a secret is: `env:NAME` or `file:PATH`.
pub(crate) fn reference(text: &str) -> Result<Reference, String> {
    Reference::parse(text)
}
