//! Starting a child, and the task that sees to its end.
//!
//! The task has all processes of the child ended: when the child exits, when it closes its output, when nobody
//! listens to it any more. Politely first (SIGTERM), then not (SIGKILL).

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use base::{Permit, limit};
use tokio::process::{Child, ChildStdin};
use tokio::sync::{oneshot, watch};
use tokio::task::spawn_local;

use super::group::{Control, Group};
use super::{ChildIn, ChildOut, Command, Errors, errors, guard, input, output};

/// The program of this process, also where its file was replaced meanwhile.
pub(super) const SELF: &str = "/proc/self/exe";

/// Starts a child and returns its two ends. Must be called inside a `LocalSet`.
///
/// A line of its output may have at most `line_bytes_max` bytes. Fails if the permit is for another target,
/// or if the program cannot be started.
pub fn spawn<P: Permit>(
    permit: &P,
    command: &Command,
    line_bytes_max: usize,
) -> io::Result<(ChildIn<P>, ChildOut)> {
    if permit.target() != Some(&command.name) {
        let permitted = permit.destination();
        base::never!("a permit for {permitted} starts {}", command.name);
        let why = format!("the permit is not for {}", command.name);
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    }
    let (mut child, stdin, ward) = start(command)?;
    let stdout = child.stdout.take().expect("stdout is piped");
    if let Some(stderr) = child.stderr.take() {
        errors::log(stderr, command, permit.line_mask());
    }
    let (listening, deaf) = oneshot::channel();
    let (exited, exit) = watch::channel(None);
    spawn_local(async move {
        let status = match ward {
            Ward::Guard(control) => guarded(child, control, deaf).await,
            Ward::Group(group) => see_out(child, group, deaf).await,
        };
        exited.send_replace(Some(status));
    });
    let input = input::start(stdin, command.name.clone(), exit.clone());
    Ok((input, output::new(stdout, line_bytes_max, listening, exit)))
}

/// What ends the processes of a child.
enum Ward {
    Guard(Control),
    Group(Group),
}

fn start(command: &Command) -> io::Result<(Child, ChildStdin, Ward)> {
    let program = whole(&command.program)?;
    match &command.guard {
        None => {
            let mut process = process(&program, command);
            process
                .args(&command.args)
                .stdin(Stdio::piped())
                .kill_on_drop(true);
            let mut child = process.spawn()?;
            let group = Group::of(&child)?;
            let stdin = child.stdin.take().expect("stdin is piped");
            Ok((child, stdin, Ward::Group(group)))
        }
        Some(guard) => {
            let (control, theirs) = Control::new()?;
            let (input, stdin) = io::pipe()?;
            control.send(&input.into())?;
            let mut process = process(guard, command);
            let process = process
                .arg0("weir")
                .arg(guard::GUARD)
                .arg(program)
                .stdin(theirs);
            let child = process.args(&command.args).spawn()?;
            let stdin = std::process::ChildStdin::from(OwnedFd::from(stdin));
            let stdin = ChildStdin::from_std(stdin)?;
            Ok((child, stdin, Ward::Guard(control)))
        }
    }
}

/// A program in the child's place: in its directory, with its environment and the ends of its pipes.
fn process(program: &Path, command: &Command) -> tokio::process::Command {
    let mut process = tokio::process::Command::new(program);
    process
        .env_clear()
        .envs(
            command
                .env
                .iter()
                .map(|(name, secret)| (name, secret.expose())),
        )
        .stdout(Stdio::piped())
        .stderr(match command.errors {
            Errors::Log => Stdio::piped(),
            Errors::Ours => Stdio::inherit(),
        })
        .process_group(0);
    if let Some(dir) = &command.dir {
        process.current_dir(dir);
    }
    process
}

/// The path of a program that can be executed: for who asks before anything else is done.
///
/// # Errors
/// `NotFound` where there is none; another kind where what is there cannot be executed.
pub fn find(program: &str) -> io::Result<PathBuf> {
    let path = whole(program)?;
    if path.metadata()?.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    rustix::fs::access(&path, rustix::fs::Access::EXEC_OK)?;
    Ok(path)
}

/// The program's path. Looked up here, because the child's environment has no `PATH` to look in.
fn whole(program: &str) -> io::Result<PathBuf> {
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
    mut child: Child,
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

/// The same of a child with a guard, which ends the child's processes itself. One that does not is killed, and the
/// server with it.
async fn guarded(
    mut guard: Child,
    control: Control,
    deaf: oneshot::Receiver<()>,
) -> io::Result<ExitStatus> {
    tokio::select! {
        status = guard.wait() => return control.ended(status),
        _ = deaf => {}
    }
    control.ask();
    let wait = limit::CHILD_GRACE_MS + limit::CHILD_KILL_MS_MAX + limit::CHILD_LAST_MS_MAX;
    let ended = tokio::time::timeout(Duration::from_millis(wait), guard.wait()).await;
    let status = match ended {
        Ok(status) => status,
        Err(_elapsed) => match guard.start_kill() {
            Ok(()) => guard.wait().await,
            Err(error) => Err(error),
        },
    };
    control.ended(status)
}
