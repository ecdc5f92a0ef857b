//! `weir completions`: tab completion for a shell.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use super::{Answer, Cli, Ended, print};

/// Print tab completions for a shell
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  weir completions bash > ~/.local/share/bash-completion/completions/weir\n  weir completions zsh > ~/.zfunc/_weir"
)]
pub(super) struct Completions {
    shell: Shell,
}

impl Completions {
    pub(super) fn run(self) -> Ended {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "weir", &mut script);
        print(&String::from_utf8_lossy(&script))?;
        Ok(Answer::Yes)
    }
}
