//! Starting a child, and the task that sees to its end.
//!
//! The task ends the whole process group: when the child exits, when it closes its output, when nobody listens
//! to it any more. Politely first (SIGTERM), then not (SIGKILL).

use std::io;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use base::{Permit, limit};
use tokio::sync::{oneshot, watch};
use tokio::task::spawn_local;

use super::group::Group;
use super::{ChildIn, ChildOut, Command, Errors, errors, input, output};

/// Starts a child and returns its two ends. Must be called inside a `LocalSet`.
///
/// A line of its output may have at most `line_bytes_max` bytes. Fails if the permit is for another target,
/// or if the program cannot be started.
pub fn spawn<P: Permit>(
    permit: &P,
    command: &Command,
    line_bytes_max: usize,
) -> io::Result<(ChildIn<P>, ChildOut)> {
    if *permit.target() != command.name {
        base::never!("a permit for {} starts {}", permit.target(), command.name);
        let why = format!("the permit is not for {}", command.name);
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    }
    let mut child = start(command)?;
    let group = Group::of(&child)?;
    let stdin = child.stdin.take().expect("stdin is piped");
    let stdout = child.stdout.take().expect("stdout is piped");
    if let Some(stderr) = child.stderr.take() {
        errors::log(stderr, command);
    }
    let (listening, deaf) = oneshot::channel();
    let (exited, exit) = watch::channel(None);
    spawn_local(async move {
        let status = see_out(child, group, deaf).await;
        exited.send_replace(Some(status));
    });
    let input = input::start(stdin, command.name.clone(), exit.clone());
    Ok((input, output::new(stdout, line_bytes_max, listening, exit)))
}

fn start(command: &Command) -> io::Result<tokio::process::Child> {
    let mut process = tokio::process::Command::new(find(&command.program)?);
    process
        .args(&command.args)
        .env_clear()
        .envs(
            command
                .env
                .iter()
                .map(|(name, secret)| (name, secret.expose())),
        )
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(match command.errors {
            Errors::Log => Stdio::piped(),
            Errors::Ours => Stdio::inherit(),
        })
        .process_group(0)
        .kill_on_drop(true);
    if let Some(dir) = &command.dir {
        process.current_dir(dir);
    }
    process.spawn()
}

/// The program's path. Looked up here, because the child's environment has no `PATH` to look in.
fn find(program: &str) -> io::Result<PathBuf> {
    if program.contains('/') {
        return std::path::absolute(program);
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path)
        .map(|dir| dir.join(program))
        .find(|path| {
            rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok() && path.is_file()
        });
    found.ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::NotFound,
            format!("{program} is not in the gateway's PATH"),
        )
    })
}

/// Waits until the child exits or has to; in the end no process of its group is left.
async fn see_out(
    mut child: tokio::process::Child,
    group: Group,
    deaf: oneshot::Receiver<()>,
) -> io::Result<ExitStatus> {
    tokio::select! {
        status = child.wait() => return status,
        _ = deaf => {}
    }
    group.terminate();
    let grace = Duration::from_millis(limit::CHILD_GRACE_MS);
    if let Ok(status) = tokio::time::timeout(grace, child.wait()).await {
        return status;
    }
    group.kill();
    child.wait().await
}
