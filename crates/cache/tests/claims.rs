//! Two instances that claim one message at the same moment, 10,000 times, in a real Redis: one of them gets it.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use base::Now;
use cache::{CacheCommands, CacheProblem, CacheReply, CacheTls, CacheUrl, SharedCache};

const CLAIMS: usize = 10_000;
/// Claims that one instance has under way at once.
const AT_ONCE: usize = 64;

struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A Redis of the test's own, and where it is.
fn server(more: &[&str]) -> (Server, CacheUrl) {
    // The listener is gone before the store takes its port.
    let port = {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap().port()
    };
    let port_text = port.to_string();
    let base = [
        "--port",
        &port_text,
        "--bind",
        "127.0.0.1",
        "--save",
        "",
        "--appendonly",
        "no",
    ];
    let child = Command::new("redis-server")
        .args(base)
        .args(more)
        .stdout(Stdio::null())
        .spawn()
        .expect("redis-server is installed: make setup");
    let began = Instant::now();
    while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(
            began.elapsed() < Duration::from_secs(20),
            "it does not listen"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
    let url = CacheUrl::parse(&format!("redis://127.0.0.1:{port}")).unwrap();
    (Server(child), url)
}

fn now() -> Now {
    let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    Now {
        unix_ms: unix.as_millis() as u64,
        mono_ms: unix.as_millis() as u64,
    }
}

fn instance(url: &CacheUrl) -> Arc<SharedCache> {
    SharedCache::new(url.clone(), CacheTls::new(None).unwrap(), now)
}

fn claim(bit: usize) -> CacheCommands {
    CacheCommands::new()
        .with(&[b"MULTI"])
        .with(&[b"SETBIT", b"claims", bit.to_string().as_bytes(), b"1"])
        .with(&[b"EXPIRE", b"claims", b"120"])
        .with(&[b"EXEC"])
}

/// The claims of one instance, many at once: which bits were free.
async fn claim_all(cache: &Arc<SharedCache>) -> Vec<bool> {
    let mut fresh = Vec::with_capacity(CLAIMS);
    for from in (0..CLAIMS).step_by(AT_ONCE) {
        let to = CLAIMS.min(from + AT_ONCE);
        let asked: Vec<_> = (from..to).map(|bit| cache.ask(claim(bit))).collect();
        for one in asked {
            let answer = one.await.expect("the store answers");
            let Some(CacheReply::Array(done)) = answer.replies.last() else {
                panic!("{answer:?}");
            };
            fresh.push(done[0] == CacheReply::Integer(0));
        }
    }
    fresh
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
}

#[test]
fn one_of_two_instances_gets_each_of_ten_thousand_claims() {
    let (_server, url) = server(&[]);
    let barrier = Barrier::new(2);
    let mut taken = Vec::new();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let (url, barrier) = (&url, &barrier);
                scope.spawn(move || {
                    runtime().block_on(async {
                        let cache = instance(url);
                        cache
                            .ask(CacheCommands::new().with(&[b"PING"]))
                            .await
                            .unwrap();
                        assert_eq!(cache.state().problem, None);
                        barrier.wait();
                        claim_all(&cache).await
                    })
                })
            })
            .collect();
        taken.extend(threads.into_iter().map(|thread| thread.join().unwrap()));
    });
    let both = (0..CLAIMS).filter(|bit| taken[0][*bit] && taken[1][*bit]);
    let none = (0..CLAIMS).filter(|bit| !taken[0][*bit] && !taken[1][*bit]);
    assert_eq!((both.count(), none.count()), (0, 0));
    let share = taken[0].iter().filter(|fresh| **fresh).count();
    assert!(share > 0 && share < CLAIMS, "they did not meet: {share}");
}

#[test]
fn another_run_is_seen_before_anything_is_answered_by_it() {
    let (first, url) = server(&[]);
    runtime().block_on(async {
        let cache = instance(&url);
        let ping = || CacheCommands::new().with(&[b"PING"]);
        cache.ask(ping()).await.unwrap();
        let before = cache.state().refuses_until_unix_ms;
        drop(first);
        let port = url.to_string().rsplit(':').next().unwrap().to_owned();
        let _again = server_at(&port);
        let began = Instant::now();
        let answer = loop {
            match cache.ask(ping()).await {
                Ok(answer) => break answer,
                Err(_) => assert!(began.elapsed() < Duration::from_secs(20)),
            }
        };
        assert!(answer.refuses_until_unix_ms > before.max(now().unix_ms));
    });
}

fn server_at(port: &str) -> Server {
    let child = Command::new("redis-server")
        .args(["--port", port, "--bind", "127.0.0.1", "--save", ""])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    Server(child)
}

#[test]
fn a_store_that_may_forget_is_not_asked() {
    let (_server, url) = server(&["--maxmemory-policy", "allkeys-lru"]);
    runtime().block_on(async {
        let cache = instance(&url);
        assert!(cache.ask(claim(1)).await.is_err());
        assert_eq!(cache.state().problem, Some(CacheProblem::Evicts));
        let examined = cache.examine().await.unwrap();
        assert_eq!(examined.problem, Some(CacheProblem::Evicts));
        assert_eq!(examined.policy, "allkeys-lru");
    });
}
