//! Each kind of damage, made on purpose, is named with its first entry.

use std::sync::Arc;

use gate::ports::Recorder;

use super::*;
use crate::disk::MemoryDisk;
use crate::entry::{self, segment_name};
use crate::{Durability, Log, LogSettings, tree};

fn settings() -> LogSettings {
    LogSettings {
        origin: "test.example/log".into(),
        durability: Durability::Os,
        bytes_max: 1 << 30,
    }
}

fn fill(log: &Log, records: u64) {
    for n in 0..records {
        log.append(format!(r#"{{"n":{n}}}"#).into_bytes())
            .blocking_recv()
            .unwrap()
            .unwrap();
    }
}

/// Ten entries; checkpoints over 1, 6, 7 and 10.
fn ten() -> MemoryDisk {
    let disk = MemoryDisk::new();
    for records in [6, 4] {
        let log = Log::open_on(Arc::new(disk.clone()), Path::new(""), settings()).unwrap();
        fill(&log, records);
        log.close().unwrap();
    }
    disk
}

fn split(mut bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut entries = Vec::new();
    while let Some((len, rest)) = bytes.split_first_chunk::<2>() {
        let (entry, rest) = rest.split_at(usize::from(u16::from_be_bytes(*len)));
        entries.push(entry.to_vec());
        bytes = rest;
    }
    entries
}

fn join(entries: &[Vec<u8>]) -> Vec<u8> {
    let frame = |entry: &Vec<u8>| [&(entry.len() as u16).to_be_bytes()[..], entry].concat();
    entries.iter().flat_map(frame).collect()
}

/// The entry with another record; its length stays.
fn other(entry: &[u8]) -> Vec<u8> {
    String::from_utf8(entry.to_vec())
        .unwrap()
        .replace(r#"{"n":"#, r#"{"m":"#)
        .into_bytes()
}

/// A well-formed entry that follows another.
fn following(before: &[u8], seq: u64) -> Vec<u8> {
    let mut buffer = Vec::new();
    entry::push(
        &mut buffer,
        &tree::leaf_hash(before),
        br#"{"forged":true}"#,
        seq,
    );
    buffer.split_off(2)
}

fn damage(change: impl FnOnce(&mut Vec<Vec<u8>>)) -> (u64, Kind) {
    let disk = ten();
    let name = segment_name(0);
    let mut entries = split(&disk.bytes(&name).unwrap());
    assert_eq!(entries.len(), 10);
    change(&mut entries);
    disk.tamper(&name, Some(join(&entries)));
    let damage = verify_disk(&disk, None).unwrap_err();
    (damage.index, damage.kind)
}

#[test]
fn a_sound_log_verifies() {
    let disk = ten();
    let verified = verify_disk(&disk, None).unwrap();
    let hashes: Vec<Digest> = split(&disk.bytes(&segment_name(0)).unwrap())
        .iter()
        .map(|e| tree::leaf_hash(e))
        .collect();
    assert_eq!(
        (verified.entries, verified.root),
        (10, tree::root_of(&hashes))
    );
    assert_eq!(
        verified.newest,
        Some(Checkpoint {
            size: 10,
            root: verified.root
        })
    );
    assert!(verified.checkpoints >= 2);
}

#[test]
fn a_changed_entry_is_named() {
    for index in 0..9 {
        let found = damage(|entries| entries[index] = other(&entries[index]));
        assert_eq!(found, (index as u64, Kind::Changed));
    }
    let swap = |from: &'static str, to: &'static str, index: usize| {
        damage(|entries| {
            let text = String::from_utf8(entries[index].clone()).unwrap();
            entries[index] = text.replacen(from, to, 1).into_bytes();
        })
    };
    assert_eq!(swap(r#""seq":4"#, r#""seq":8"#, 4), (4, Kind::Changed));
    assert_eq!(swap(r#""seq":4"#, r#""seq":2"#, 4), (4, Kind::Changed));
    assert_eq!(swap(r#"{"prev":"#, r#"["prev":"#, 4), (4, Kind::Changed));
    let prev = damage(|entries| entries[4][12] ^= 1);
    assert_eq!(prev, (4, Kind::Changed));
}

#[test]
fn the_last_entry_is_denied_by_its_checkpoint() {
    let (index, kind) = damage(|entries| entries[9] = other(&entries[9]));
    assert!((6..=9).contains(&index), "{index}");
    assert!(matches!(kind, Kind::Forked | Kind::Changed));
}

#[test]
fn a_removed_entry_is_named() {
    for index in [0, 1, 4, 8] {
        let found = damage(|entries| drop(entries.remove(index)));
        assert_eq!(found, (index as u64, Kind::Removed));
    }
    assert_eq!(
        damage(|entries| drop(entries.drain(2..5))),
        (2, Kind::Removed)
    );
}

#[test]
fn an_inserted_entry_is_named() {
    let copy = damage(|entries| entries.insert(5, entries[2].clone()));
    assert_eq!(copy, (5, Kind::Inserted));
    let twice = damage(|entries| entries.insert(4, entries[3].clone()));
    assert_eq!(twice, (4, Kind::Inserted));
    let forged = damage(|entries| entries.insert(4, following(&entries[3], 4)));
    assert_eq!(forged, (4, Kind::Inserted));
    let junk = damage(|entries| entries.insert(4, b"{}".to_vec()));
    assert_eq!(junk, (4, Kind::Inserted));
}

#[test]
fn a_cut_log_is_named() {
    assert_eq!(damage(|entries| entries.truncate(7)), (7, Kind::CutOff));
    assert_eq!(damage(Vec::clear), (0, Kind::CutOff));
    let disk = ten();
    let mut bytes = disk.bytes(&segment_name(0)).unwrap();
    bytes.pop();
    disk.tamper(&segment_name(0), Some(bytes));
    let found = verify_disk(&disk, None).unwrap_err();
    assert_eq!((found.index, found.kind), (9, Kind::CutOff));
    disk.tamper(&segment_name(0), None);
    let found = verify_disk(&disk, None).unwrap_err();
    assert_eq!((found.index, found.kind), (0, Kind::CutOff));
}

#[test]
fn a_rewritten_past_is_a_fork() {
    let (index, kind) = damage(|entries| {
        for index in 3..10 {
            entries[index] = following(&entries[index - 1], index as u64);
        }
    });
    // A checkpoint may stand anywhere below the change; the next one, over 6, denies it.
    assert!(index <= 3, "{index}");
    assert_eq!(kind, Kind::Forked);
}

#[test]
fn a_checkpoint_that_was_not_signed_is_named() {
    let disk = ten();
    let history = String::from_utf8(disk.bytes(CHECKPOINTS).unwrap()).unwrap();
    disk.tamper(
        CHECKPOINTS,
        Some(history.replace("\n10\n", "\n11\n").into_bytes()),
    );
    let found = verify_disk(&disk, None).unwrap_err();
    assert_eq!((found.index, found.kind), (11, Kind::BadCheckpoint));
    disk.tamper(CHECKPOINTS, Some(history.clone().into_bytes()));
    let stranger = note::Signer::new("test.example/log", &[3; 32])
        .unwrap()
        .vkey();
    let found = verify_disk(&disk, Some(&stranger)).unwrap_err();
    assert_eq!(found.kind, Kind::BadCheckpoint);
    let found = verify_disk(&disk, Some("nonsense")).unwrap_err();
    assert_eq!(found.kind, Kind::Unreadable);
    // A note that is being written is not damage.
    let torn = &history[..history.len() - 7];
    disk.tamper(CHECKPOINTS, Some(torn.as_bytes().to_vec()));
    assert_eq!(verify_disk(&disk, None).unwrap().entries, 10);
}

#[test]
fn what_has_no_frames_is_garbled_and_what_is_no_log_unreadable() {
    let disk = ten();
    let mut bytes = disk.bytes(&segment_name(0)).unwrap();
    let third = join(&split(&bytes)[..3]).len();
    bytes[third + 1] ^= 0x10;
    disk.tamper(&segment_name(0), Some(bytes));
    let found = verify_disk(&disk, None).unwrap_err();
    assert_eq!((found.index, found.kind), (3, Kind::Garbled));
    assert_eq!(
        verify_disk(&MemoryDisk::new(), None).unwrap_err().kind,
        Kind::Unreadable
    );
}

/// A log of 600 entries and its export.
fn exported() -> (tempfile::TempDir, std::path::PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let log = Log::open(&dir.path().join("log"), settings()).unwrap();
    for n in 0..599 {
        log.note(format!(r#"{{"n":{n}}}"#).into_bytes());
    }
    fill(&log, 1);
    log.close().unwrap();
    let out = dir.path().join("out");
    let exported = export(&dir.path().join("log"), &out).unwrap();
    assert_eq!(exported.entries, 600);
    (dir, out)
}

#[test]
fn an_export_is_a_tiles_directory_and_verifies() {
    let (dir, out) = exported();
    let log = dir.path().join("log");
    assert_eq!(
        verify(&out, None).unwrap().root,
        verify(&log, None).unwrap().root
    );
    let size = |name: &str| std::fs::metadata(out.join(name)).unwrap().len();
    assert_eq!(size("tile/0/000"), 8192);
    assert_eq!(size("tile/0/002.p/88"), 88 * 32);
    assert_eq!(size("tile/1/000.p/2"), 64);
    let top = std::fs::read(out.join("tile/1/000.p/2")).unwrap();
    let first = std::fs::read(out.join("tile/0/000")).unwrap();
    let hashes: Vec<Digest> = first
        .chunks_exact(32)
        .map(|hash| Digest(hash.try_into().unwrap()))
        .collect();
    assert_eq!(tree::root_of(&hashes).0, top[..32]);
    assert!(matches!(export(&log, &out), Err(ExportError::NotEmpty)));
    for place in [&log, &out] {
        let found: Vec<(u64, Vec<u8>)> = entries(place, 300).unwrap().map(Result::unwrap).collect();
        assert_eq!(found.len(), 300);
        assert_eq!(found[0], (300, br#"{"n":300}"#.to_vec()));
    }
}

#[test]
fn damage_of_an_export_is_named_exactly() {
    let find = |name: &str, change: &dyn Fn(&mut Vec<u8>)| {
        let (_dir, out) = exported();
        let mut bytes = std::fs::read(out.join(name)).unwrap();
        change(&mut bytes);
        std::fs::write(out.join(name), bytes).unwrap();
        let found = verify(&out, None).unwrap_err();
        (found.index, found.kind)
    };
    let last = |bytes: &mut Vec<u8>| {
        let mut entries = split(bytes);
        *entries.last_mut().unwrap() = following(&entries[86], 599);
        *bytes = join(&entries);
    };
    assert_eq!(find("tile/entries/002.p/88", &last), (599, Kind::Changed));
    let fork = |bytes: &mut Vec<u8>| {
        let mut entries = split(bytes);
        for i in 50..88 {
            entries[i] = following(&entries[i - 1], 512 + i as u64);
        }
        *bytes = join(&entries);
    };
    assert_eq!(find("tile/entries/002.p/88", &fork), (562, Kind::Forked));
    assert_eq!(
        find("tile/0/001", &|bytes| bytes[32 * 9] ^= 1),
        (265, Kind::Changed)
    );
    assert_eq!(
        find("tile/1/000.p/2", &|bytes| bytes[40] ^= 1),
        (256, Kind::Changed)
    );
    let (_dir, out) = exported();
    std::fs::remove_file(out.join("tile/entries/001")).unwrap();
    let found = verify(&out, None).unwrap_err();
    assert_eq!((found.index, found.kind), (256, Kind::Removed));
}

#[test]
fn a_log_that_is_written_verifies() {
    let dir = tempfile::tempdir().unwrap();
    let log = Log::open(dir.path(), settings()).unwrap();
    fill(&log, 5);
    let verified = verify(dir.path(), Some(log.vkey())).unwrap();
    assert_eq!(verified.entries, 5);
    assert!(matches!(
        Log::open(dir.path(), settings()),
        Err(crate::LogError::Locked)
    ));
    let mode = std::os::unix::fs::PermissionsExt::mode;
    let key = std::fs::metadata(dir.path().join("key"))
        .unwrap()
        .permissions();
    assert_eq!(mode(&key) & 0o777, 0o600);
}

#[test]
fn an_end_that_nobody_signed_is_named() {
    let disk = ten();
    let history = disk.bytes(CHECKPOINTS).unwrap();
    let text = String::from_utf8(history).unwrap();
    let notes = note::split_history(&text).0;
    disk.tamper(CHECKPOINTS, Some(notes[0].as_bytes().to_vec()));
    assert_eq!(verify_disk(&disk, None).unwrap().unsigned, 10);
    let kept = Against {
        checkpoint: notes.last().copied(),
        ..Against::default()
    };
    assert_eq!(verify_disk_against(&disk, kept).unwrap().unsigned, 0);
    disk.tamper(CHECKPOINTS, None);
    let found = verify_disk(&disk, None).unwrap_err();
    assert_eq!((found.index, found.kind), (0, Kind::Unsigned));
    assert!(found.what.contains("unsigned tail of 10"), "{found}");
    disk.tamper(&segment_name(0), Some(Vec::new()));
    let found = verify_disk_against(&disk, kept).unwrap_err();
    assert_eq!((found.index, found.kind), (0, Kind::CutOff));
}

#[test]
fn names_that_are_no_part_of_a_log_are_named() {
    let copy = || {
        let disk = ten();
        let bytes = disk.bytes(&segment_name(0));
        (disk, bytes)
    };
    let found = |disk: &MemoryDisk| {
        let found = verify_disk(disk, None).unwrap_err();
        (found.index, found.kind)
    };
    let (disk, bytes) = copy();
    disk.tamper(&segment_name(0), None);
    disk.tamper(&segment_name(1), bytes);
    assert_eq!(found(&disk), (0, Kind::Removed));
    for name in [
        "segment-0.log",
        "segment-000000.log~",
        "segment-000003.leaves",
        "segment-",
    ] {
        let (disk, _) = copy();
        disk.tamper(name, Some(Vec::new()));
        assert_eq!(found(&disk), (0, Kind::Strange), "{name}");
    }
    // What a crash leaves of a segment that was being finished is none of these.
    let (disk, _) = copy();
    disk.tamper("segment-000000.leaves.new", Some(Vec::new()));
    assert_eq!(verify_disk(&disk, None).unwrap().entries, 10);
}

#[test]
fn an_unfinished_end_is_damage_unless_somebody_writes() {
    let disk = ten();
    let whole = disk.bytes(&segment_name(0)).unwrap();
    let tail = [&whole[..], &[0, 90][..], br#"{"prev":""#].concat();
    disk.tamper(&segment_name(0), Some(tail));
    let found = verify_disk(&disk, None).unwrap_err();
    assert_eq!((found.index, found.kind), (10, Kind::Torn));
    let lock = disk.lock().unwrap();
    let verified = verify_disk(&disk, None).unwrap();
    assert_eq!((verified.torn, verified.entries), (true, 10));
    let junk = [&whole[..], &[0, 90][..], b"junk"].concat();
    disk.tamper(&segment_name(0), Some(junk));
    assert!(verify_disk(&disk, None).unwrap().torn);
    drop(lock);
    let found = verify_disk(&disk, None).unwrap_err();
    assert_eq!((found.index, found.kind), (10, Kind::Inserted));
}

/// A disk to which more is written while its segment is read.
#[test]
fn checkpoints_that_were_signed_meanwhile_count() {
    let disk = MemoryDisk::new();
    let log = Log::open_on(Arc::new(disk.clone()), Path::new(""), settings()).unwrap();
    let history = History::read(&disk, verifier(&disk, None).unwrap()).unwrap();
    let total = 2 * base::limit::LOG_UNSIGNED_ENTRIES_MAX + 10;
    (0..total - 1).for_each(|_| log.note(b"{}".to_vec()));
    fill(&log, 1);
    let source = Source::open(&disk).unwrap();
    let verified = walk::walk(&source, &history, None).unwrap();
    assert_eq!(verified.entries, total);
    assert!(verified.unsigned <= base::limit::LOG_UNSIGNED_ENTRIES_MAX);
    log.close().unwrap();
    // Another log that gives no such root is not taken for it.
    let mut entries = split(&disk.bytes(&segment_name(0)).unwrap());
    for index in 1..entries.len() {
        entries[index] = following(&entries[index - 1], index as u64);
    }
    disk.tamper(&segment_name(0), Some(join(&entries)));
    let source = Source::open(&disk).unwrap();
    let found = walk::walk(&source, &history, None).unwrap_err();
    assert_eq!(found.kind, Kind::Forked);
}

#[test]
fn since_a_checkpoint_whole_segments_are_not_read() {
    let disk = MemoryDisk::new();
    let log = Log::open_on(Arc::new(disk.clone()), Path::new(""), settings()).unwrap();
    let total = entry::SEGMENT_ENTRIES + 10;
    (0..total - 1).for_each(|_| log.note(b"{}".to_vec()));
    fill(&log, 1);
    log.close().unwrap();
    let since = || {
        let against = Against {
            since: true,
            ..Against::default()
        };
        verify_disk_against(&disk, against)
    };
    let whole = verify_disk(&disk, None).unwrap();
    let verified = since().unwrap();
    assert_eq!(
        (verified.skipped, verified.root),
        (entry::SEGMENT_ENTRIES, whole.root)
    );
    // A record that is not read may be anything; its hash may not, and neither may what follows.
    let first = disk.bytes(&segment_name(0)).unwrap();
    disk.tamper(&segment_name(0), Some(vec![0; first.len()]));
    assert!(verify_disk(&disk, None).is_err());
    assert_eq!(since().unwrap().skipped, entry::SEGMENT_ENTRIES);
    let leaves = disk.bytes(&entry::leaves_name(0)).unwrap();
    let mut other = leaves.clone();
    other[32 * 9] ^= 1;
    disk.tamper(&entry::leaves_name(0), Some(other));
    assert_eq!(since().unwrap_err().kind, Kind::Changed);
    disk.tamper(&entry::leaves_name(0), None);
    assert_eq!(since().unwrap_err().kind, Kind::Removed);
    disk.tamper(&entry::leaves_name(0), Some(leaves));
    let mut entries = split(&disk.bytes(&segment_name(1)).unwrap());
    entries[3] = other_of(&entries[3]);
    disk.tamper(&segment_name(1), Some(join(&entries)));
    assert!(since().is_err());
}

/// The entry with another record.
fn other_of(entry: &[u8]) -> Vec<u8> {
    let text = String::from_utf8(entry.to_vec()).unwrap();
    text.replace(r#""record":{}"#, r#""record":[]"#)
        .into_bytes()
}

#[test]
fn records_that_are_written_later_are_read_too() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    let append = |count: u64| {
        let log = Log::open(dir, settings()).unwrap();
        fill(&log, count);
        log.close().unwrap();
    };
    append(2);
    let mut read = entries(dir, 1).unwrap();
    let indices = |read: &mut Entries| -> Vec<u64> { read.map(|entry| entry.unwrap().0).collect() };
    assert_eq!(indices(&mut read), [1]);
    assert_eq!(indices(&mut read), [0; 0]);
    append(3);
    assert_eq!(indices(&mut read), [0; 0]);
    read.again().unwrap();
    assert_eq!(indices(&mut read), [2, 3, 4]);
    // An entry that is being written is read once it is whole, also over the end of a segment.
    let segment = dir.join(segment_name(0));
    let whole = std::fs::read(&segment).unwrap();
    append(entry::SEGMENT_ENTRIES - 4);
    let full = std::fs::read(&segment).unwrap();
    let next = dir.join(segment_name(1));
    let behind = std::fs::read(&next).unwrap();
    std::fs::remove_file(&next).unwrap();
    std::fs::write(&segment, &full[..whole.len() + 9]).unwrap();
    read.again().unwrap();
    assert_eq!(indices(&mut read), [0; 0]);
    std::fs::write(&segment, &full).unwrap();
    std::fs::write(&next, &behind).unwrap();
    read.again().unwrap();
    assert_eq!(
        indices(&mut read).last(),
        Some(&(entry::SEGMENT_ENTRIES + 1))
    );
}
