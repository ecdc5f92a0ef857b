//! Serving: from settings to a running gateway.

use crate::config::Settings;

/// Serves until it is told to stop. The error is for the operator.
pub fn run(settings: Settings) -> Result<(), String> {
    Err(format!(
        "{} cannot be served: this build has no listener",
        settings.listen
    ))
}
