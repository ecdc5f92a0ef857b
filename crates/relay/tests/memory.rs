//! A body of a gigabyte, each way, in the memory of a few chunks. A process of its own, so that nothing else grows.

#![expect(
    clippy::disallowed_methods,
    reason = "a test asks the kernel for its memory"
)]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "pair/rig.rs"]
#[allow(dead_code, reason = "each test file uses its part")]
mod rig;

use rig::*;

#[test]
fn a_gigabyte_needs_no_memory() {
    const BYTES: usize = 1 << 30;
    let origin = Origin::new(|mut head, line| {
        let length: usize = head.field("content-length").unwrap().parse().unwrap();
        let mut left = length - line.rest.len().min(length);
        line.rest.clear();
        while left > 0 {
            line.more()?;
            left -= line.rest.len();
            line.rest.clear();
        }
        head.body.clear();
        line.send(format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n").as_bytes())?;
        let block = vec![b'y'; 1 << 20];
        (0..length / block.len()).try_for_each(|_| line.send(&block))
    });
    let clock = Shifted::new();
    let inbound = inbound(inbound_settings(origin.address), &clock);
    let outbound = outbound(outbound_settings(inbound.address), &clock);
    let mut line = Line::to(outbound.address);
    line.ask(&request("POST", "/", &vec![0; 2 << 20])).unwrap();
    let before = resident_bytes();
    line.send(format!("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: {BYTES}\r\n\r\n").as_bytes())
        .unwrap();
    let block = vec![b'x'; 1 << 20];
    let mut most = 0;
    for _ in 0..BYTES / block.len() {
        line.send(&block).unwrap();
        most = most.max(resident_bytes());
    }
    assert_eq!(line.head().unwrap().status(), 200);
    let mut left = BYTES - line.rest.len();
    line.rest.clear();
    while left > 0 {
        assert!(line.more().unwrap());
        left -= line.rest.len();
        line.rest.clear();
        most = most.max(resident_bytes());
    }
    assert!(most < before + (24 << 20), "{before} {most}");
}

fn resident_bytes() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}
