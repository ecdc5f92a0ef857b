//! `weir completions`: tab completion for a shell.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use super::{Answer, Cli, Ended, print};

/// Print tab completions for a shell
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  weir completions bash > ~/.local/share/bash-completion/completions/weir\n  weir completions zsh > ~/.zfunc/_weir\n\nExit codes: 0 printed, 2 standard output cannot be written."
)]
pub(super) struct Completions {
    shell: Shell,
}

impl Completions {
    pub(super) fn run(self) -> Ended {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut shown(), "weir", &mut script);
        print(&String::from_utf8_lossy(&script))?;
        Ok(Answer::Yes)
    }
}

/// The command line without the commands that its help hides.
fn shown() -> clap::Command {
    let all = Cli::command();
    let commands = all
        .get_subcommands()
        .filter(|command| !command.is_hide_set());
    clap::Command::new("weir")
        .args(all.get_arguments())
        .subcommands(commands)
        .version(env!("CARGO_PKG_VERSION"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_help_hides_is_not_offered() {
        let mut script = Vec::new();
        clap_complete::generate(Shell::Bash, &mut shown(), "weir", &mut script);
        let script = String::from_utf8(script).unwrap();
        assert!(!script.contains("reference") && script.contains("completions"));
    }
}
