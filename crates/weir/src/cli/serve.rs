//! `weir serve`: serve a configuration until told to stop.

use clap::Args;

use super::{Answer, ConfigFile, Ended, Failure};

/// Serve a configuration until SIGTERM or SIGINT, then let calls in flight end
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  weir serve\n  weir serve -c /etc/weir/weir.yaml")]
pub struct Serve {
    #[command(flatten)]
    file: ConfigFile,
}

impl Serve {
    pub fn run(self) -> Ended {
        let settings = match self.file.load() {
            Ok(settings) => settings,
            Err(answer) => return Ok(answer),
        };
        crate::serve::run(settings).map_err(|what| Failure::new(what, ""))?;
        Ok(Answer::Yes)
    }
}
