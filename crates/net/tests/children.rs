//! Children, with real processes: what they may cost, how they end, and what they never see.

#![allow(clippy::unwrap_used, reason = "a test may fail by panic")]

use std::fs;
use std::future::Future;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use base::{CallId, Name, Permit, Refusal, Secret, limit};
use bytes::Bytes;
use net::children::{Command, Errors, spawn};
use net::{ChildIn, ChildOut, LineError, SendLineError};
use tokio::task::LocalSet;

struct Pass(Name);

impl Permit for Pass {
    fn call(&self) -> CallId {
        CallId([7; 16])
    }

    fn destination(&self) -> base::Destination<'_> {
        base::Destination::Configured(&self.0)
    }

    fn dial(&self, _: IpAddr) -> Result<(), Refusal> {
        Ok(())
    }

    fn in_force(&self) -> Result<(), Refusal> {
        Ok(())
    }
}

fn pass() -> Pass {
    Pass(Name::new("child").unwrap())
}

fn command(program: &str, args: &[&str]) -> Command {
    Command {
        program: program.to_owned(),
        args: args.iter().map(|arg| (*arg).to_owned()).collect(),
        env: Vec::new(),
        dir: None,
        name: Name::new("child").unwrap(),
        errors: Errors::Log,
        guard: None,
    }
}

fn sh(script: &str, line_bytes_max: usize) -> (ChildIn<Pass>, ChildOut) {
    let mut command = command("sh", &["-c", script]);
    command
        .env
        .push(("PATH".to_owned(), Secret::new("/usr/bin:/bin".to_owned())));
    spawn(&pass(), &command, line_bytes_max).unwrap()
}

fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let bounded = async { tokio::time::timeout(Duration::from_secs(30), test).await };
    LocalSet::new()
        .block_on(&runtime, bounded)
        .expect("the test ends in time");
}

async fn line(output: &mut ChildOut) -> String {
    let line = output.next().await.unwrap().unwrap();
    String::from_utf8(line.to_vec()).unwrap()
}

async fn exited(output: &mut ChildOut) -> i32 {
    match output.next().await {
        Some(Err(LineError::Exited(Some(status)))) => {
            use std::os::unix::process::ExitStatusExt;
            assert!(output.next().await.is_none());
            status
                .code()
                .or(status.signal().map(|signal| -signal))
                .unwrap()
        }
        other => panic!("not exited: {other:?}"),
    }
}

/// Whether this process runs; a zombie does not.
fn alive(pid: &str) -> bool {
    let stat = fs::read_to_string(Path::new("/proc").join(pid).join("stat"));
    stat.is_ok_and(|stat| {
        !stat
            .rsplit(')')
            .next()
            .unwrap()
            .trim_start()
            .starts_with('Z')
    })
}

async fn dead(pid: &str) {
    while alive(pid) {
        tokio::task::yield_now().await;
    }
}

#[test]
fn lines_go_in_and_out() {
    run(async {
        let (input, mut output) = spawn(&pass(), &command("cat", &[]), 100).unwrap();
        for text in ["one", "", "two ü"] {
            input.send(&pass(), Bytes::from(text)).await.unwrap();
            assert_eq!(line(&mut output).await, text);
        }
        drop(input);
        assert_eq!(exited(&mut output).await, 0);
    });
}

#[test]
fn a_line_that_is_two_is_refused() {
    run(async {
        let (input, mut output) = spawn(&pass(), &command("cat", &[]), 100).unwrap();
        for text in ["a\nb", "a\n", "\r"] {
            let sent = input.send(&pass(), Bytes::from(text)).await;
            assert_eq!(sent, Err(SendLineError::NotALine), "{text:?}");
            let sent = input.try_send(&pass(), Bytes::from(text));
            assert_eq!(sent, Err(SendLineError::NotALine), "{text:?}");
        }
        // The writer has not run yet: what the queue has no room for is not waited for.
        let sent = (0..=limit::CHILD_QUEUE_MAX)
            .map(|_| input.try_send(&pass(), Bytes::from_static(b"now")));
        let sent: Vec<_> = sent.collect();
        assert_eq!(sent.last(), Some(&Err(SendLineError::Slow)));
        assert_eq!(sent[0], Ok(()));
        assert_eq!(line(&mut output).await, "now");
        let long = vec![b'x'; limit::CHILD_QUEUE_BYTES_MAX + 1];
        assert_eq!(
            input.send(&pass(), long.into()).await,
            Err(SendLineError::TooLong)
        );
    });
}

#[test]
fn the_environment_is_the_configured_one() {
    run(async {
        let mut command = command("env", &[]);
        command
            .env
            .push(("TOKEN".to_owned(), Secret::new("hunter2".to_owned())));
        let (_input, mut output) = spawn(&pass(), &command, 1000).unwrap();
        assert_eq!(line(&mut output).await, "TOKEN=hunter2");
        assert_eq!(exited(&mut output).await, 0);
    });
}

#[test]
fn arguments_pass_no_shell_and_the_directory_is_set() {
    run(async {
        let args = ["-n", "$HOME; `id` *"];
        let (_input, mut output) = spawn(&pass(), &command("echo", &args[1..]), 1000).unwrap();
        assert_eq!(line(&mut output).await, args[1]);
        let dir = tempfile::tempdir().unwrap();
        let mut command = command("pwd", &[]);
        command.dir = Some(PathBuf::from(dir.path()));
        let (_input, mut output) = spawn(&pass(), &command, 1000).unwrap();
        assert_eq!(
            line(&mut output).await,
            dir.path().canonicalize().unwrap().to_str().unwrap()
        );
    });
}

#[test]
fn what_cannot_be_started_says_why() {
    run(async {
        let start = |program| {
            spawn(&pass(), &command(program, &[]), 100)
                .map(|_| ())
                .unwrap_err()
        };
        let error = start("no-such-program-here");
        assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
        assert!(
            error.to_string().contains("no-such-program-here"),
            "{error}"
        );
        assert_eq!(
            start("/etc/passwd").kind(),
            std::io::ErrorKind::PermissionDenied
        );
        assert_eq!(
            start("/nowhere/at/all").kind(),
            std::io::ErrorKind::NotFound
        );
    });
}

#[test]
fn long_lines_are_skipped_and_told_once() {
    run(async {
        let script = "echo short; head -c 100000 /dev/zero | tr '\\0' x; echo; echo 12345678; \
                      echo 123456789; printf '12345678\\r\\n'; printf cut";
        let (_input, mut output) = sh(script, 8);
        assert_eq!(line(&mut output).await, "short");
        assert_eq!(output.next().await, Some(Err(LineError::TooLong)));
        assert_eq!(line(&mut output).await, "12345678");
        assert_eq!(output.next().await, Some(Err(LineError::TooLong)));
        assert_eq!(line(&mut output).await, "12345678");
        assert_eq!(exited(&mut output).await, 0);
    });
}

#[test]
fn a_flood_is_held_back() {
    run(async {
        let (_input, mut output) = sh("echo $$; exec cat /dev/zero", 1 << 20);
        let pid = line(&mut output).await;
        assert_eq!(output.next().await, Some(Err(LineError::TooLong)));
        // The rest of the endless line is read and thrown away; nothing is kept of it.
        let more = tokio::time::timeout(Duration::from_millis(300), output.next()).await;
        assert!(more.is_err(), "{more:?}");
        let kept = format!("{output:?}");
        let kept: usize = kept
            .chars()
            .filter(char::is_ascii_digit)
            .collect::<String>()
            .parse()
            .unwrap();
        assert!(kept <= 2 << 20, "{kept} bytes are kept");
        drop(output);
        dead(&pid).await;
    });
}

#[test]
fn a_flood_on_the_error_stream_does_not_block() {
    run(async {
        let (_input, mut output) = sh(
            "head -c 10000000 /dev/zero | tr '\\0' '\\n' >&2; echo done",
            100,
        );
        assert_eq!(line(&mut output).await, "done");
        assert_eq!(exited(&mut output).await, 0);
    });
}

#[test]
fn a_child_that_does_not_read_is_slow_not_fatal() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    LocalSet::new().block_on(&runtime, async {
        let (input, output) = sh("echo ready; exec sleep 1000", 100);
        let mut output = output;
        assert_eq!(line(&mut output).await, "ready");
        // Time is ours from here on: the deadline comes as soon as nothing else can happen.
        tokio::time::pause();
        let (mut sent, line) = (0, Bytes::from(vec![b'x'; 1 << 20]));
        let error = loop {
            match input.send(&pass(), line.clone()).await {
                Ok(()) => sent += line.len(),
                Err(error) => break error,
            }
        };
        assert_eq!(error, SendLineError::Slow);
        assert!(sent <= limit::CHILD_QUEUE_BYTES_MAX, "{sent} bytes wait");
        tokio::time::resume();
        drop(output);
        while !input.is_gone() {
            tokio::task::yield_now().await;
        }
        assert_eq!(input.send(&pass(), line).await, Err(SendLineError::Gone));
    });
}

#[test]
fn the_number_of_waiting_lines_is_bounded() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    LocalSet::new().block_on(&runtime, async {
        let (input, mut output) = sh("echo ready; exec sleep 1000", 100);
        assert_eq!(line(&mut output).await, "ready");
        tokio::time::pause();
        // One line fills the pipe, so that the small ones after it have to wait.
        input
            .send(&pass(), vec![b'x'; 1 << 20].into())
            .await
            .unwrap();
        let mut sent = 0;
        while input.send(&pass(), Bytes::from_static(b"x")).await.is_ok() {
            sent += 1;
        }
        assert!(
            (limit::CHILD_QUEUE_MAX - 1..=limit::CHILD_QUEUE_MAX).contains(&sent),
            "{sent}"
        );
    });
}

#[test]
fn sigterm_comes_first_and_sigkill_after_it() {
    run(async {
        let dir = tempfile::tempdir().unwrap();
        let told = dir.path().join("told");
        let (_input, mut output) = sh(
            &format!(
                "trap 'echo bye > {}; exit 3' TERM; echo $$; while :; do sleep 0.01; done",
                told.display()
            ),
            100,
        );
        let pid = line(&mut output).await;
        drop(output);
        dead(&pid).await;
        assert_eq!(fs::read_to_string(&told).unwrap(), "bye\n");

        let started = Instant::now();
        let (_input, mut output) = sh("trap '' TERM; echo $$; while :; do sleep 0.01; done", 100);
        let pid = line(&mut output).await;
        drop(output);
        dead(&pid).await;
        assert!(started.elapsed() >= Duration::from_millis(limit::CHILD_GRACE_MS));
    });
}

#[test]
fn grandchildren_end_with_the_group() {
    run(async {
        // The child exits by itself and leaves a process that holds its output open.
        let (_input, mut output) = sh("sleep 1000 & echo $!; exit 5", 100);
        let grandchild = line(&mut output).await;
        assert_eq!(exited(&mut output).await, 5);
        dead(&grandchild).await;
        // The child is ended, and what it started with it.
        let (_input, mut output) = sh("sleep 1000 & echo $!; wait", 100);
        let grandchild = line(&mut output).await;
        assert!(alive(&grandchild));
        drop(output);
        dead(&grandchild).await;
    });
}

#[test]
fn a_pipe_held_open_from_outside_the_group_does_not_hold_us() {
    run(async {
        let (_input, mut output) = sh("setsid sleep 5 & echo $!; exit 6", 100);
        line(&mut output).await;
        let started = Instant::now();
        assert_eq!(exited(&mut output).await, 6);
        assert!(
            started.elapsed() < Duration::from_secs(4),
            "it was waited for"
        );
    });
}

#[test]
fn a_child_that_closes_its_output_is_ended() {
    run(async {
        let (_input, mut output) = sh("echo last; exec >&-; exec sleep 1000", 100);
        assert_eq!(line(&mut output).await, "last");
        assert_eq!(exited(&mut output).await, -15);
    });
}

#[test]
fn a_child_that_dies_says_how() {
    run(async {
        let (input, mut output) = sh("echo partly; printf 'half a mess'; kill -9 $$", 100);
        assert_eq!(line(&mut output).await, "partly");
        assert_eq!(exited(&mut output).await, -9);
        while !input.is_gone() {
            tokio::task::yield_now().await;
        }
        assert_eq!(
            input.send(&pass(), "x".into()).await,
            Err(SendLineError::Gone)
        );
    });
}

#[test]
fn no_child_outlives_its_thread() {
    let mut pid = String::new();
    run(async {
        let (input, mut output) = sh("trap '' TERM; sleep 1000 & echo $!; wait", 100);
        pid = line(&mut output).await;
        std::mem::forget((input, output));
    });
    let until = Instant::now() + Duration::from_secs(10);
    while alive(&pid) {
        assert!(Instant::now() < until, "{pid} lives");
        std::thread::yield_now();
    }
}

#[test]
#[should_panic(expected = "never: a permit for other")]
fn a_permit_for_another_target_starts_nothing() {
    run(async {
        let other = Pass(Name::new("other").unwrap());
        let _ = spawn(&other, &command("cat", &[]), 100);
    });
}

#[test]
#[should_panic(expected = "never: a permit for other")]
fn a_permit_for_another_target_sends_nothing() {
    run(async {
        let (input, _output) = spawn(&pass(), &command("cat", &[]), 100).unwrap();
        let other = Pass(Name::new("other").unwrap());
        let _ = input.send(&other, "x".into()).await;
    });
}
