//! `weir serve`: serve a configuration until told to stop.

use clap::Args;

use super::{Answer, Ended, Failure, OneConfigFile};
use crate::config::Seen;
use crate::serve::Signals;

/// Serve a configuration until SIGTERM or SIGINT, then let calls in flight end
///
/// SIGHUP, or a change of a file that the configuration names, has it read again; a bad file leaves the
/// running settings.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  weir serve
  weir serve /etc/weir/weir.yaml

Exit codes: 0 it was told to stop, and its log is closed, 2 it could not begin, or its log failed.")]
pub(super) struct Serve {
    #[command(flatten)]
    file: OneConfigFile,
}

impl Serve {
    pub(super) fn run(self) -> Ended {
        let failed = |what| Failure::new(what, "");
        let signals = Signals::new().map_err(failed)?;
        let mut seen = Seen::default();
        let settings = self.file.named().load_seen(&mut seen)?;
        crate::serve::run(signals, settings, seen).map_err(failed)?;
        Ok(Answer::Yes)
    }
}
