//! Calls that a process left open, and the snapshots that stand in a log: known again without reading all of it.

use super::*;
use crate::entry::{SEGMENT_ENTRIES, leaves_name, segment_name};
use crate::note::Signer;
use crate::tree::{self, Edge};

const NOW: Now = Now {
    unix_ms: 1_800_000_000_000,
    mono_ms: 0,
};

fn id(n: u64) -> CallId {
    CallId((u128::from(n) << 64).to_be_bytes())
}

fn judgement(n: u64) -> Vec<u8> {
    format!(
        r#"{{"call":"{}","decision":"pass","kind":"judgement"}}"#,
        id(n)
    )
    .into_bytes()
}

fn outcome(n: u64) -> Vec<u8> {
    format!(r#"{{"call":"{}","kind":"outcome"}}"#, id(n)).into_bytes()
}

fn pass(log: &Log, n: u64) {
    let kept = log.passes(id(n), judgement(n)).blocking_recv();
    kept.unwrap().unwrap();
}

/// The records of a kind, as texts.
fn records(disk: &MemoryDisk, kind: &str) -> Vec<String> {
    let mut found = Vec::new();
    for segment in 0.. {
        let Some(bytes) = disk.bytes(&segment_name(segment)) else {
            return found;
        };
        let (mut reader, mut buffer) = (&bytes[..], Vec::new());
        while entry::read_next(&mut reader, &mut buffer).unwrap() == entry::Next::Entry {
            let entry = entry::Entry::parse(&buffer).unwrap();
            let text = String::from_utf8(entry.record.to_vec()).unwrap();
            if text.contains(&format!(r#""kind":"{kind}""#)) {
                found.push(text);
            }
        }
    }
    found
}

#[test]
fn what_a_crash_left_open_is_told_once() {
    let disk = MemoryDisk::new();
    let log = open_fsync(&disk);
    (1..=5).for_each(|n| pass(&log, n));
    log.ends(id(2), outcome(2));
    log.append(b"{}".to_vec()).blocking_recv().unwrap().unwrap();
    // Its outcome is on its way when the process dies.
    log.ends(id(3), outcome(3));
    disk.crash(|_| 0);
    drop(log);
    // An end that died before it told is told by the next.
    assert_eq!(open_fsync(&disk).left_open(), 4);
    let log = open_fsync(&disk);
    log.tell_lost(NOW);
    assert_eq!(log.left_open(), 0);
    drop(log);
    let told = records(&disk, "lost");
    let calls = [1, 3, 4, 5].map(id);
    assert_eq!(told.len(), 4);
    for (told, call) in told.iter().zip(calls) {
        assert!(told.contains(&call.to_string()), "{told}");
    }
    assert_eq!(open_fsync(&disk).left_open(), 0);
}

#[test]
fn an_outcome_that_does_not_fit_ends_its_call() {
    let disk = MemoryDisk::new();
    let log = open_fsync(&disk);
    pass(&log, 1);
    log.ends(id(1), vec![b'1'; 100_000]);
    drop(log);
    assert_eq!(open_fsync(&disk).left_open(), 0);
    assert!(records(&disk, "oversized")[0].contains(&id(1).to_string()));
}

#[test]
fn the_last_segment_says_what_is_open_of_those_before() {
    let disk = MemoryDisk::new();
    let log = open_fsync(&disk);
    pass(&log, 1);
    pass(&log, 2);
    let digest = log
        .keep_snapshot(Subject::Policies, "permit;", NOW)
        .unwrap();
    for _ in 0..2 * SEGMENT_ENTRIES {
        log.note(b"{}".to_vec());
    }
    log.ends(id(2), outcome(2));
    drop(log);
    // Only the last segment is read: there is nothing else to read.
    disk.tamper(&segment_name(0), Some(Vec::new()));
    disk.tamper(&segment_name(1), Some(Vec::new()));
    let log = open_fsync(&disk);
    assert_eq!(log.left_open(), 1);
    let size = log.size();
    assert_eq!(
        log.keep_snapshot(Subject::Policies, "permit;", NOW),
        Ok(digest)
    );
    assert_eq!(log.size(), size);
    log.tell_lost(NOW);
    drop(log);
    let of_last = disk.bytes(&segment_name(2)).unwrap();
    let text = String::from_utf8_lossy(&of_last);
    assert!(text.contains(&format!(r#""open":["{}","{}"]"#, id(1), id(2))));
    assert!(text.contains(&format!(r#""call":"{}","kind":"lost""#, id(1))));
}

/// A log as older versions wrote them: no segment says what is open of those before it.
fn old_log(disk: &MemoryDisk, records: impl Iterator<Item = Vec<u8>>) {
    drop(open_fsync(disk));
    let key = String::from_utf8(disk.bytes(open::KEY).unwrap()).unwrap();
    let seed = Digest::from_hex(key.trim()).unwrap().0;
    let (mut prev, mut edge) = (entry::NO_ENTRY, Edge::default());
    let (mut bytes, mut leaves, mut segment) = (Vec::new(), Vec::new(), 0);
    for record in records {
        if leaves.len() as u64 == SEGMENT_ENTRIES {
            let mut hashes = tree::root_of(&leaves).0.to_vec();
            hashes.extend(leaves.drain(..).flat_map(|leaf: Digest| leaf.0));
            disk.tamper(&leaves_name(segment), Some(hashes));
            disk.tamper(&segment_name(segment), Some(std::mem::take(&mut bytes)));
            segment += 1;
        }
        prev = entry::push(&mut bytes, &prev, &record, edge.size());
        edge.push(prev);
        leaves.push(prev);
    }
    disk.tamper(&segment_name(segment), Some(bytes));
    let signer = Signer::new("test.example/log", &seed).unwrap();
    let (size, root) = (edge.size(), edge.root());
    let note = signer.checkpoint(&Checkpoint { size, root });
    let mut notes = disk.bytes(open::CHECKPOINTS).unwrap();
    notes.extend_from_slice(note.as_bytes());
    disk.tamper(open::CHECKPOINTS, Some(notes));
}

#[test]
fn an_older_log_is_read_to_its_beginning_once() {
    let disk = MemoryDisk::new();
    let filler = std::iter::repeat_n(b"{}".to_vec(), 2 * SEGMENT_ENTRIES as usize);
    let first = [judgement(1), judgement(2)].into_iter();
    let last = [outcome(1), judgement(3)].into_iter();
    old_log(&disk, first.chain(filler).chain(last));
    let log = open_fsync(&disk);
    assert_eq!(log.left_open(), 2);
    log.tell_lost(NOW);
    drop(log);
    assert_eq!(records(&disk, "lost").len(), 2);
    crate::audit::verify_disk(&disk, None).unwrap();
    // From now on the last segment says it.
    disk.tamper(&segment_name(0), Some(Vec::new()));
    disk.tamper(&segment_name(1), Some(Vec::new()));
    assert_eq!(open_fsync(&disk).left_open(), 0);
}

#[test]
fn an_older_log_that_cannot_be_read_is_refused() {
    let disk = MemoryDisk::new();
    let filler = std::iter::repeat_n(b"{}".to_vec(), SEGMENT_ENTRIES as usize);
    old_log(&disk, std::iter::once(judgement(1)).chain(filler));
    disk.tamper(&segment_name(0), Some(Vec::new()));
    let opened = open(&disk, settings(Durability::Fsync));
    assert!(matches!(opened, Err(LogError::Damaged { index: 0, .. })));
}

#[test]
fn a_snapshot_is_written_once_and_in_parts() {
    let disk = MemoryDisk::new();
    let text = "permit (principal, action, resource);\n".repeat(4000);
    let digest = text_digest(&text);
    for _ in 0..2 {
        let log = open_fsync(&disk);
        assert_eq!(log.keep_snapshot(Subject::Policies, &text, NOW), Ok(digest));
        assert_eq!(
            log.note_snapshot(Subject::Directory, "[]", NOW),
            text_digest("[]")
        );
    }
    let parts = records(&disk, "snapshot");
    let policies = parts
        .iter()
        .filter(|part| part.contains(r#""of":"policies""#));
    let texts = policies.map(|part| {
        let part: serde_json::Value = serde_json::from_str(part).unwrap();
        part["text"].as_str().unwrap().to_owned()
    });
    assert_eq!(texts.collect::<String>(), text);
    assert!(parts.iter().all(|part| part.len() < 65_000));
    // Another text, and the first again: what is in force is the last that stands there.
    let log = open_fsync(&disk);
    log.keep_snapshot(Subject::Policies, "forbid;", NOW)
        .unwrap();
    log.keep_snapshot(Subject::Policies, &text, NOW).unwrap();
    drop(log);
    assert!(records(&disk, "snapshot").len() > 2 * parts.len() - 2);
}

#[test]
fn a_full_log_takes_a_snapshot_and_a_failed_one_does_not() {
    let disk = MemoryDisk::new();
    let small = LogSettings {
        bytes_max: 4096,
        ..settings(Durability::Fsync)
    };
    let log = open(&disk, small).unwrap();
    while append(&log, 1).is_ok() {}
    assert!(log.keep_snapshot(Subject::Policies, "permit;", NOW).is_ok());
    disk.fail(Some(Fault::Sync));
    assert!(
        log.keep_snapshot(Subject::Policies, "forbid;", NOW)
            .is_err()
    );
    assert!(
        log.keep_snapshot(Subject::Policies, "forbid;", NOW)
            .is_err()
    );
}
