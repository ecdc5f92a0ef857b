//! A pair of relays on loopback, to look at what a request costs: one role for each process.
//!
//! `cargo build --release -p relay --example pair`, then `pair origin ADDRESS`, `pair inbound ADDRESS ORIGIN`,
//! `pair outbound ADDRESS INBOUND`, and `pair load OUTBOUND CONNECTIONS SECONDS PID…`, which sends 10 KB that nobody
//! sent before, compares every byte of the echo, and prints the CPU time of the processes for each request.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "an example has arguments and sockets of its own"
)]
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "an example prints, and may fail"
)]

#[path = "../tests/pair/rig.rs"]
#[allow(dead_code, reason = "it is shared with the tests")]
mod rig;

use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use net::h1::{self, Framing, ServerConnection, Thread};
use net::{AcceptedConnection, ConnectionService, Drain, EdgeShared, Listener};
use rig::{Shifted, inbound_at, inbound_settings, outbound_at, outbound_settings, threads};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::{LocalSet, spawn_local};

const BODY_BYTES: usize = 10_240;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let address = |at: usize| -> SocketAddr { args[at].parse().unwrap() };
    match args[0].as_str() {
        "origin" => {
            let listener = Listener::Tcp(net::bind(address(1)).unwrap());
            let served = threads(vec![listener], echo).remove(0);
            served.join().unwrap();
        }
        "inbound" => {
            let _serving = inbound_at(inbound_settings(address(2)), &Shifted::new(), 1, address(1));
            std::thread::park();
        }
        "outbound" => {
            let _serving = outbound_at(
                outbound_settings(address(2)),
                &Shifted::new(),
                1,
                address(1),
            );
            std::thread::park();
        }
        "load" => load(
            address(1),
            args[2].parse().unwrap(),
            args[3].parse().unwrap(),
            &args[4..],
        ),
        other => println!("no such role: {other}"),
    }
}

struct Echo;

impl ConnectionService for Echo {
    async fn connection(&self, accepted: AcceptedConnection) {
        let mut server = ServerConnection::new(accepted.stream, &accepted.thread, &accepted.bounds);
        while let Ok(Some(head)) = server.head().await {
            let Framing::Length(bytes) = head.framing() else {
                return;
            };
            let Ok(body) = server.fill(bytes as usize).await else {
                return;
            };
            let body = body.to_vec();
            server.respond(200, [], Framing::Length(bytes)).unwrap();
            server
                .body_with(|out| out.extend_from_slice(&body))
                .unwrap();
            server.end().unwrap();
        }
    }
}

async fn echo(listener: Listener) {
    let bounds = h1::ConnectionSettings::default();
    let thread = Thread::new(bounds.tick_ms());
    let shared = EdgeShared::default().into();
    net::serve_connections(
        (listener, Rc::default()),
        Rc::new(Echo),
        thread,
        Rc::new(bounds),
        shared,
        Drain::new(),
    )
    .await
    .unwrap();
}

/// CPU time of a process, in microseconds.
fn cpu_us(pid: &str) -> u64 {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let task = |entry: std::io::Result<std::fs::DirEntry>| -> u64 {
        let stat = std::fs::read_to_string(entry.unwrap().path().join("schedstat")).unwrap();
        stat.split(' ').next().unwrap().parse().unwrap()
    };
    tasks.map(task).sum::<u64>() / 1000
}

fn load(address: SocketAddr, connections: usize, seconds: u64, pids: &[String]) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let local = LocalSet::new();
    let done = Rc::new(Cell::new(0_u64));
    let counting = Rc::clone(&done);
    runtime.block_on(local.run_until(async move {
        for number in 0..connections {
            spawn_local(drive(address, number, Rc::clone(&counting)));
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        let (began, before) = (Instant::now(), counting.get());
        let cpu: Vec<u64> = pids.iter().map(|pid| cpu_us(pid)).collect();
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        let requests = counting.get() - before;
        let rate = requests as f64 / began.elapsed().as_secs_f64();
        print!("{connections} connections: {rate:.0} requests/s");
        let mut sum = 0.0;
        for (pid, before) in pids.iter().zip(cpu) {
            let each = (cpu_us(pid) - before) as f64 / requests as f64;
            sum += each;
            print!(", {each:.1} µs");
        }
        println!(", {sum:.1} µs together");
    }));
}

async fn drive(address: SocketAddr, number: usize, done: Rc<Cell<u64>>) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.set_nodelay(true).unwrap();
    let mut random = fastrand::Rng::with_seed(number as u64);
    let head = format!(
        "POST /echo HTTP/1.1\r\nhost: app\r\ncontent-type: application/json\r\ncontent-length: {BODY_BYTES}\r\n\r\n"
    );
    let mut request = head.into_bytes();
    let body_at = request.len();
    request.resize(body_at + BODY_BYTES, b'x');
    let mut answer = vec![0; 64 << 10];
    loop {
        for at in (body_at..request.len()).step_by(64) {
            request[at] = random.alphanumeric() as u8;
        }
        stream.write_all(&request).await.unwrap();
        let mut filled = 0;
        loop {
            filled += stream.read(&mut answer[filled..]).await.unwrap();
            assert!(filled > 0);
            let Some(end) = answer[..filled].windows(4).position(|w| w == b"\r\n\r\n") else {
                continue;
            };
            if filled >= end + 4 + BODY_BYTES {
                assert!(answer.starts_with(b"HTTP/1.1 200"));
                assert_eq!(answer[end + 4..filled], request[body_at..]);
                break;
            }
        }
        done.set(done.get() + 1);
    }
}
