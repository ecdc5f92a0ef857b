//! The log on a disk in memory that can be slow, full, failing, or lose power.

use std::sync::Condvar;
use std::time::Duration;

use super::*;
use crate::disk::{Fault, MemoryDisk, Op};
use crate::entry;
use base::limit::{LOG_UNSIGNED_ENTRIES_MAX, RECORDS_WAITING_MAX};

mod lost;

fn settings(durability: Durability) -> LogSettings {
    LogSettings {
        origin: "test.example/log".into(),
        durability,
        bytes_max: 1 << 30,
    }
}

fn open(disk: &MemoryDisk, settings: LogSettings) -> Result<Log, LogError> {
    Log::open_on(Arc::new(disk.clone()), Path::new("memory"), settings)
}

fn open_fsync(disk: &MemoryDisk) -> Log {
    open(disk, settings(Durability::Fsync)).unwrap()
}

fn append(log: &Log, n: u64) -> Result<u64, RecordError> {
    log.append(format!(r#"{{"n":{n}}}"#).into_bytes())
        .blocking_recv()
        .unwrap()
}

/// Runs `attempt` until it answers, for at most ten seconds.
fn until(mut attempt: impl FnMut() -> bool) {
    let start = std::time::Instant::now();
    while !attempt() {
        assert!(
            start.elapsed() < Duration::from_secs(10),
            "it did not come about"
        );
        std::thread::yield_now();
    }
}

#[test]
fn it_goes_on_where_it_ended() {
    let disk = MemoryDisk::new();
    for round in 0..3 {
        let log = open_fsync(&disk);
        assert_eq!(log.size(), round * 4);
        for n in 0..4 {
            assert_eq!(append(&log, n), Ok(round * 4 + n));
        }
        assert_eq!(log.close(), Ok(()));
        assert!(matches!(append(&log, 9), Err(RecordError::Failed(_))));
    }
    let history = String::from_utf8(disk.bytes(open::CHECKPOINTS).unwrap()).unwrap();
    let vkey = String::from_utf8(disk.bytes(open::KEY_PUB).unwrap()).unwrap();
    let verifier = crate::note::Verifier::parse(&vkey).unwrap();
    let newest = *crate::note::split_history(&history).0.last().unwrap();
    assert_eq!(verifier.checkpoint(newest).unwrap().size, 12);
}

#[test]
fn what_was_acknowledged_survives_a_loss_of_power() {
    for keep in [0, 1, 2, 30, 100, 101, usize::MAX] {
        let disk = MemoryDisk::new();
        let log = open_fsync(&disk);
        for n in 0..5 {
            append(&log, n).unwrap();
        }
        log.note(b"{\"outcome\":1}".to_vec());
        log.note(b"{\"outcome\":2}".to_vec());
        until(|| log.size() == 7);
        disk.crash(|unsynced| keep.min(unsynced));
        drop(log);
        let log = open_fsync(&disk);
        assert!(log.size() >= 5, "{keep}");
        let size = log.size();
        assert_eq!(append(&log, 5), Ok(size));
    }
}

#[test]
fn zeros_after_a_crash_are_cut_and_other_bytes_are_not() {
    let disk = MemoryDisk::new();
    let log = open_fsync(&disk);
    append(&log, 0).unwrap();
    drop(log);
    let name = entry::segment_name(0);
    let good = disk.bytes(&name).unwrap();
    disk.tamper(&name, Some([&good[..], &[0; 5000]].concat()));
    assert_eq!(open_fsync(&disk).size(), 1);
    assert_eq!(disk.bytes(&name).unwrap(), good);
    for more in [&[0, 0, 7][..], &[0, 2, b'{', b'}']] {
        disk.tamper(&name, Some([&good[..], more].concat()));
        let opened = open(&disk, settings(Durability::Fsync));
        assert!(
            matches!(opened, Err(LogError::Damaged { index: 1, .. })),
            "{more:?}"
        );
    }
}

#[test]
fn damage_that_no_crash_explains_is_refused() {
    let disk = MemoryDisk::new();
    let log = open_fsync(&disk);
    for n in 0..3 {
        append(&log, n).unwrap();
    }
    drop(log);
    let name = entry::segment_name(0);
    let good = disk.bytes(&name).unwrap();
    let refused = |bytes: Vec<u8>| {
        disk.tamper(&name, Some(bytes));
        match open(&disk, settings(Durability::Fsync)) {
            Err(LogError::Damaged { index, .. }) => index,
            Err(error) => panic!("{error}"),
            Ok(_) => panic!("it opened"),
        }
    };
    assert_eq!(refused(good[..good.len() - 1].to_vec()), 2);
    assert_eq!(refused(Vec::new()), 0);
    let text = String::from_utf8(good.clone()).unwrap();
    // The entry that was changed is named, and not the next one, which shows it.
    assert_eq!(
        refused(text.replacen(r#"{"n":1}"#, r#"{"n":7}"#, 1).into_bytes()),
        1
    );
    let last = refused(text.replacen(r#"{"n":2}"#, r#"{"n":7}"#, 1).into_bytes());
    let audit = crate::audit::verify_disk(&disk, None).unwrap_err().index;
    // Where no checkpoint stands before the last, nobody knows which of those that it covers was changed.
    assert!(last == audit || last == 3, "{last} {audit}");
    disk.tamper(&name, Some(good));
    disk.tamper(open::KEY, None);
    assert!(matches!(
        open(&disk, settings(Durability::Fsync)),
        Err(LogError::Key(_))
    ));
}

#[test]
fn one_directory_has_one_writer_and_one_origin() {
    let disk = MemoryDisk::new();
    let log = open_fsync(&disk);
    assert!(matches!(
        open(&disk, settings(Durability::Os)),
        Err(LogError::Locked)
    ));
    drop(log);
    let other = LogSettings {
        origin: "other".into(),
        ..settings(Durability::Os)
    };
    assert!(matches!(open(&disk, other), Err(LogError::OtherOrigin(_))));
    let bad = LogSettings {
        origin: "a b".into(),
        ..settings(Durability::Os)
    };
    assert!(matches!(open(&disk, bad), Err(LogError::Origin(_))));
    drop(open(&disk, settings(Durability::Os)).unwrap());
}

#[test]
fn a_failed_disk_refuses_until_it_is_opened_again() {
    for fault in [Fault::Write, Fault::Sync] {
        let disk = MemoryDisk::new();
        let log = open_fsync(&disk);
        append(&log, 0).unwrap();
        assert_eq!(log.trouble(), None);
        disk.fail(Some(fault));
        assert!(
            matches!(append(&log, 1), Err(RecordError::Failed(_))),
            "{fault:?}"
        );
        assert!(matches!(log.trouble(), Some(RecordError::Failed(_))));
        disk.fail(None);
        assert!(matches!(append(&log, 2), Err(RecordError::Failed(_))));
        log.note(b"{}".to_vec());
        assert_eq!(log.stats().lost.load(Ordering::Relaxed), 1);
        assert!(log.close().is_err());
        drop(log);
        let log = open_fsync(&disk);
        assert!(append(&log, 3).is_ok());
    }
}

#[test]
fn a_full_disk_is_waited_out_and_outcomes_are_kept() {
    let disk = MemoryDisk::new();
    let log = open_fsync(&disk);
    append(&log, 0).unwrap();
    disk.fail(Some(Fault::Room(10)));
    assert_eq!(append(&log, 1), Err(RecordError::Full));
    assert_eq!(log.trouble(), Some(RecordError::Full));
    log.note(br#"{"outcome":0}"#.to_vec());
    assert_eq!(append(&log, 2), Err(RecordError::Full));
    disk.fail(None);
    // Nobody asks; the log finds the room by itself.
    until(|| log.trouble().is_none());
    until(|| log.size() == 2);
    assert_eq!(append(&log, 3), Ok(2));
    assert_eq!(log.close(), Ok(()));
    drop(log);
    assert_eq!(open_fsync(&disk).size(), 3);
}

#[test]
fn at_its_bound_judgements_are_refused_and_outcomes_are_not() {
    let disk = MemoryDisk::new();
    let log = open(
        &disk,
        LogSettings {
            bytes_max: 64 << 10,
            ..settings(Durability::Os)
        },
    )
    .unwrap();
    let record = || format!(r#"{{"x":"{}"}}"#, "x".repeat(1000)).into_bytes();
    let mut taken = 0;
    while log.append(record()).blocking_recv().unwrap().is_ok() {
        taken += 1;
    }
    assert!((50..60).contains(&taken), "{taken}");
    assert_eq!(
        log.append(record()).blocking_recv().unwrap(),
        Err(RecordError::Full)
    );
    assert_eq!(log.trouble(), Some(RecordError::Full));
    log.note(record());
    until(|| log.size() == taken + 1);
    assert_eq!(log.close(), Err(RecordError::Full));
    drop(log);
    let log = open(
        &disk,
        LogSettings {
            bytes_max: 64 << 10,
            ..settings(Durability::Os)
        },
    )
    .unwrap();
    assert_eq!(
        log.append(record()).blocking_recv().unwrap(),
        Err(RecordError::Full)
    );
}

#[test]
fn a_slow_disk_gathers_judgements_into_one_commit_and_refuses_over_the_bound() {
    let disk = MemoryDisk::new();
    let log = open_fsync(&disk);
    append(&log, 0).unwrap();
    // Its checkpoint is signed, so that the next sync is that of a commit.
    until(|| log.queue.sleeps());
    let commits = log.stats().commits.load(Ordering::Relaxed);
    let gate = Arc::new((Mutex::new((false, false)), Condvar::new()));
    let theirs = Arc::clone(&gate);
    disk.watch(move |op| {
        let mut state = theirs.0.lock().unwrap();
        state.1 |= op == Op::Sync;
        while !state.0 && op == Op::Sync {
            state = theirs.1.wait(state).unwrap();
        }
    });
    let first = log.append(b"{}".to_vec());
    until(|| gate.0.lock().unwrap().1);
    let waiting: Vec<_> = (0..RECORDS_WAITING_MAX)
        .map(|_| log.append(b"{}".to_vec()))
        .collect();
    assert_eq!(append(&log, 1), Err(RecordError::Busy));
    log.note(b"{}".to_vec());
    gate.0.lock().unwrap().0 = true;
    gate.1.notify_all();
    assert_eq!(first.blocking_recv().unwrap(), Ok(1));
    for (index, answer) in (2..).zip(waiting) {
        assert_eq!(answer.blocking_recv().unwrap(), Ok(index));
    }
    // The first commit, and as many as it takes to sign between what is over the bound.
    let more = (RECORDS_WAITING_MAX as u64 + 1).div_ceil(LOG_UNSIGNED_ENTRIES_MAX);
    assert!(log.stats().commits.load(Ordering::Relaxed) <= commits + 2 + more);
    until(|| log.size() == 3 + RECORDS_WAITING_MAX as u64);
}

#[test]
fn a_record_that_no_entry_can_hold_is_refused_or_named() {
    let disk = MemoryDisk::new();
    let log = open_fsync(&disk);
    let record = vec![b'1'; entry::RECORD_BYTES_HARD_MAX + 1];
    let refused = log.append(record.clone()).blocking_recv().unwrap();
    assert!(matches!(refused, Err(RecordError::Failed(_))));
    assert_eq!(log.trouble(), None);
    log.note(record);
    until(|| log.size() == 1);
    let bytes = disk.bytes(&entry::segment_name(0)).unwrap();
    assert!(
        String::from_utf8(bytes[2..].to_vec())
            .unwrap()
            .contains(r#""kind":"oversized""#)
    );
}

#[test]
fn segments_roll_and_only_the_last_is_read_again() {
    let disk = MemoryDisk::new();
    let log = open(&disk, settings(Durability::Os)).unwrap();
    let notes = 2 * entry::SEGMENT_ENTRIES + 10;
    for _ in 0..notes {
        log.note(b"{}".to_vec());
    }
    // The second segment and the third begin with what is open.
    let total = notes + 2;
    until(|| log.size() == total);
    assert_eq!(append(&log, 1), Ok(total));
    drop(log);
    disk.tamper(&entry::segment_name(0), Some(Vec::new()));
    let log = open(&disk, settings(Durability::Os)).unwrap();
    assert_eq!(append(&log, 1), Ok(total + 1));
    drop(log);
    disk.tamper(&entry::segment_name(1), None);
    let opened = open(&disk, settings(Durability::Os));
    assert!(matches!(
        opened,
        Err(LogError::Damaged {
            index: entry::SEGMENT_ENTRIES,
            ..
        })
    ));
}

#[test]
fn an_outcome_does_not_wait_for_the_next_checkpoint() {
    let disk = MemoryDisk::new();
    let log = open(&disk, settings(Durability::Os)).unwrap();
    assert_eq!(append(&log, 1), Ok(0));
    until(|| log.stats().checkpoints.load(Ordering::Relaxed) == 1);
    assert_eq!(append(&log, 1), Ok(1));
    // The writer has napped and now waits for its checkpoint.
    until(|| log.queue.sleeps());
    log.note(b"{}".to_vec());
    until(|| log.size() == 3);
    assert_eq!(log.stats().checkpoints.load(Ordering::Relaxed), 1);
}

/// The number of entries that the newest checkpoint on the disk covers.
fn signed(disk: &MemoryDisk) -> u64 {
    let history = String::from_utf8(disk.bytes(open::CHECKPOINTS).unwrap()).unwrap();
    let notes = crate::note::split_history(&history).0;
    crate::note::read_checkpoint(notes.last().unwrap())
        .unwrap()
        .size
}

#[test]
fn it_begins_signed_and_signs_before_the_bound() {
    let disk = MemoryDisk::new();
    let log = open(&disk, settings(Durability::Os)).unwrap();
    assert_eq!(signed(&disk), 0);
    let at = |ms: u64| format!(r#"{{"at":"{}"}}"#, base::clock::rfc3339(ms)).into_bytes();
    // The writer is held in its first sync, so that all of these are one batch.
    let held = Arc::new((Mutex::new(false), Condvar::new()));
    let theirs = Arc::clone(&held);
    disk.watch(move |_| {
        let mut go = theirs.0.lock().unwrap();
        while !*go {
            go = theirs.1.wait(go).unwrap();
        }
    });
    let total = 2 * LOG_UNSIGNED_ENTRIES_MAX + 10;
    (0..total).for_each(|_| log.note(b"{}".to_vec()));
    (0..3).for_each(|n| log.note(at(n * (base::limit::LOG_UNSIGNED_MS_MAX + 1))));
    // A checkpoint is on the disk before more than the bound follows it.
    let unsigned = Arc::new(AtomicU64::new(0));
    let (seen, most) = (disk.clone(), Arc::clone(&unsigned));
    *held.0.lock().unwrap() = true;
    held.1.notify_all();
    disk.watch(move |op| {
        if op == Op::Sync {
            let bytes = seen.bytes(&entry::segment_name(0)).unwrap();
            let (mut rest, mut entries, mut buffer) = (&bytes[..], 0, Vec::new());
            while entry::read_next(&mut rest, &mut buffer).unwrap() == entry::Next::Entry {
                entries += 1;
            }
            most.fetch_max(entries - signed(&seen), Ordering::Relaxed);
        }
    });
    until(|| log.size() == total + 3);
    log.close().unwrap();
    assert!((1..=LOG_UNSIGNED_ENTRIES_MAX).contains(&unsigned.load(Ordering::Relaxed)));
    assert!(log.stats().checkpoints.load(Ordering::Relaxed) >= 5);
}

#[test]
fn an_end_that_nobody_signed_is_refused_until_it_is_accepted() {
    let disk = MemoryDisk::new();
    let log = open_fsync(&disk);
    (0..5).for_each(|n| assert_eq!(append(&log, n), Ok(n)));
    drop(log);
    disk.tamper(open::CHECKPOINTS, None);
    let refused = open(&disk, settings(Durability::Fsync)).err().unwrap();
    assert!(
        matches!(refused, LogError::Unsigned { entries: 5, .. }),
        "{refused}"
    );
    assert!(refused.to_string().contains("weir audit accept"));
    let accept = || {
        let disk = Arc::new(disk.clone());
        let record = |found: &Found| format!(r#"{{"unsigned":{}}}"#, found.unsigned).into_bytes();
        Log::accept(disk, &settings(Durability::Fsync), None, record).unwrap()
    };
    let found = accept().unwrap();
    assert_eq!((found.entries, found.unsigned), (5, 5));
    assert_eq!(signed(&disk), 6);
    let bytes = disk.bytes(&entry::segment_name(0)).unwrap();
    assert!(
        String::from_utf8(bytes)
            .unwrap()
            .contains(r#""record":{"unsigned":5},"seq":5}"#)
    );
    assert_eq!(accept(), None);
    assert_eq!(append(&open_fsync(&disk), 9), Ok(6));
}

#[test]
fn a_log_whose_files_moved_takes_nothing_more() {
    let segment = entry::segment_name(0);
    let copied = |disk: &MemoryDisk| disk.tamper(&segment, disk.bytes(&segment));
    type Way<'w> = (&'w str, &'w dyn Fn(&MemoryDisk));
    let ways: [Way<'_>; 5] = [
        ("segment", &|disk| disk.tamper(&segment, None)),
        ("replaced", &copied),
        ("checkpoints", &|disk| disk.tamper(open::CHECKPOINTS, None)),
        ("folder", &MemoryDisk::replace_directory),
        ("cut", &|disk| {
            disk.append(&segment).unwrap().truncate(3).unwrap()
        }),
    ];
    for (way, change) in ways {
        let disk = MemoryDisk::new();
        let log = open_fsync(&disk);
        append(&log, 0).unwrap();
        change(&disk);
        // Nobody asks; the log finds it by itself.
        until(|| matches!(log.trouble(), Some(RecordError::Failed(_))));
        assert!(
            matches!(append(&log, 1), Err(RecordError::Failed(_))),
            "{way}"
        );
        assert!(log.close().is_err(), "{way}");
    }
}

#[test]
fn a_witness_holds_the_log_to_what_it_saw() {
    let (disk, elsewhere) = (MemoryDisk::new(), MemoryDisk::new());
    let witness = || Some(Witness::on(Arc::new(elsewhere.clone()), "witness".into()));
    let open = || {
        let disk = Arc::new(disk.clone());
        Log::open_witnessed(disk, Path::new(""), settings(Durability::Fsync), witness())
    };
    let seen = || {
        let text = String::from_utf8(elsewhere.bytes("witness").unwrap()).unwrap();
        crate::note::read_checkpoint(&text).unwrap().size
    };
    let log = open().unwrap();
    assert_eq!(seen(), 0);
    (0..3).for_each(|n| assert_eq!(append(&log, n), Ok(n)));
    drop(log);
    assert_eq!(seen(), 3);
    let files = [entry::segment_name(0), open::CHECKPOINTS.to_owned()];
    let old = files.clone().map(|name| disk.bytes(&name));
    let log = open().unwrap();
    append(&log, 3).unwrap();
    drop(log);
    let new = files.clone().map(|name| disk.bytes(&name));
    let put = |bytes: &[Option<Vec<u8>>]| {
        let of = files.iter().zip(bytes);
        of.for_each(|(name, bytes)| disk.tamper(name, bytes.clone()));
    };
    put(&old);
    assert!(matches!(open(), Err(LogError::Witness(_))), "an older log");
    put(&[new[0].clone(), old[1].clone()]);
    assert!(
        matches!(open(), Err(LogError::Witness(_))),
        "older checkpoints"
    );
    put(&new);
    drop(open().unwrap());
    elsewhere.tamper("witness", None);
    assert!(matches!(open(), Err(LogError::Witness(_))), "no witness");
    put(&old);
    let record = |_: &Found| b"{}".to_vec();
    let accepted = Log::accept(
        Arc::new(disk.clone()),
        &settings(Durability::Fsync),
        witness(),
        record,
    );
    assert!(accepted.unwrap().is_some());
    assert_eq!(seen(), 4);
    let log = open().unwrap();
    append(&log, 4).unwrap();
    // A witness that fails stops the log, and a full one is waited out.
    elsewhere.fail(Some(Fault::Room(3)));
    until(|| {
        let _ = append(&log, 5);
        log.trouble() == Some(RecordError::Full)
    });
    elsewhere.fail(None);
    until(|| log.trouble().is_none());
    elsewhere.tamper("witness", Some(b"other".to_vec()));
    until(|| {
        let _ = append(&log, 6);
        matches!(log.trouble(), Some(RecordError::Failed(_)))
    });
}

#[test]
fn no_loss_of_power_leaves_more_unsigned_than_the_bound() {
    for durability in [Durability::Os, Durability::Fsync] {
        // What stays of the checkpoints and of the segment, of what was not synced.
        for kept in [
            [0, usize::MAX],
            [usize::MAX, 0],
            [50, usize::MAX],
            [0, 1000],
        ] {
            let disk = MemoryDisk::new();
            let log = open(&disk, settings(durability)).unwrap();
            for n in 0..3 * LOG_UNSIGNED_ENTRIES_MAX {
                log.note(b"{}".to_vec());
                if n % 1000 == 0 {
                    append(&log, n).unwrap();
                }
            }
            // The files come in the order of their names.
            let mut file = 0;
            disk.crash(|unsynced| {
                file += 1;
                kept[usize::from(file > 1)].min(unsynced)
            });
            drop(log);
            let log = open(&disk, settings(durability)).unwrap();
            log.close().unwrap();
            assert_eq!(signed(&disk), log.size(), "{durability:?} {kept:?}");
        }
    }
}
