use base::{Digest, Name};

use super::*;

const NOW: u64 = 1_700_000_000_000;

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

fn invite<'n>(agent: &'n Name, digest: u8) -> NewInvite<'n> {
    NewInvite {
        agent,
        groups: &[],
        digest: Digest([digest; 32]),
        approved: false,
        now_unix_ms: NOW,
        life_ms: 60_000,
        agent_expires_unix_ms: None,
    }
}

fn jwk(digest: u8) -> CredentialEntry {
    CredentialEntry::new(CredentialKind::Jwk, Digest([digest; 32]), NOW)
}

fn certificate(digest: u8) -> CredentialEntry {
    CredentialEntry {
        serial: Some(format!("{digest:02x}")),
        expires_unix_ms: Some(NOW + 1000),
        ..CredentialEntry::new(CredentialKind::Certificate, Digest([digest; 32]), NOW)
    }
}

fn code<T>(result: Result<T, base::Refusal>) -> &'static str {
    result.map_or_else(|refusal| refusal.code.name, |_| "done")
}

#[test]
fn an_invite_is_used_once_by_its_agent_in_its_time() {
    let mut book = DirectoryBook::default();
    let build = name("build");
    book.invite(&invite(&build, 1)).unwrap();
    let (good, other) = (Digest([1; 32]), Digest([2; 32]));
    assert_eq!(
        code(book.redeem(&other, jwk(1), NOW)),
        "identity.invite_unknown"
    );
    assert_eq!(
        code(book.invited(&good, NOW + 60_000)),
        "identity.invite_expired"
    );
    assert_eq!(
        book.redeem(&good, jwk(1), NOW).unwrap(),
        EntryState::Pending
    );
    assert_eq!(
        code(book.redeem(&good, jwk(2), NOW)),
        "identity.invite_used"
    );
    assert_eq!(book.agent("build").unwrap().credentials.len(), 1);
    book.set_state("build", &[EntryState::Pending], EntryState::Active)
        .unwrap();
    let again = book.set_state("build", &[EntryState::Pending], EntryState::Active);
    assert_eq!(code(again), "identity.agent_state");

    let approved = NewInvite {
        approved: true,
        ..invite(&build, 3)
    };
    book.invite(&approved).unwrap();
    assert_eq!(
        book.redeem(&Digest([3; 32]), jwk(3), NOW).unwrap(),
        EntryState::Active
    );
}

#[test]
fn an_invite_that_was_used_wrongly_is_locked_and_another_ends_it() {
    let mut book = DirectoryBook::default();
    let build = name("build");
    book.invite(&invite(&build, 1)).unwrap();
    for _ in 0..INVITE_TRIES_MAX {
        assert!(book.invited(&Digest([1; 32]), NOW).is_ok());
        book.count_try(&Digest([1; 32]));
    }
    assert_eq!(
        code(book.invited(&Digest([1; 32]), NOW)),
        "identity.invite_locked"
    );
    book.invite(&invite(&build, 2)).unwrap();
    assert_eq!(
        code(book.invited(&Digest([1; 32]), NOW)),
        "identity.invite_unknown"
    );
    assert!(book.invited(&Digest([2; 32]), NOW).is_ok());
}

#[test]
fn revoked_is_for_good() {
    let mut book = DirectoryBook::default();
    let build = name("build");
    book.invite(&invite(&build, 1)).unwrap();
    book.redeem(&Digest([1; 32]), certificate(7), NOW).unwrap();
    book.invite(&invite(&build, 2)).unwrap();
    book.revoke("build", NOW).unwrap();
    assert_eq!(book.certificates.len(), 1);
    assert_eq!(book.certificates[0].id, "07");
    assert_eq!(
        code(book.invited(&Digest([2; 32]), NOW)),
        "identity.invite_unknown"
    );
    assert_eq!(
        code(book.invite(&invite(&build, 3))),
        "identity.agent_taken"
    );
    assert_eq!(code(book.revoke("build", NOW)), "identity.agent_state");
    assert_eq!(code(book.revoke("nobody", NOW)), "identity.agent_unknown");
    // What ended by itself is forgotten.
    book.revoke_token(&Digest([1; 32]), NOW + 5000, NOW + 2000)
        .unwrap();
    assert_eq!((book.certificates.len(), book.tokens.len()), (0, 1));
}

#[test]
fn a_credential_is_one_agents_and_bounded() {
    let mut book = DirectoryBook::default();
    for agent in ["a", "b"] {
        book.make_agent(&name(agent), &[], EntryState::Active, NOW)
            .unwrap();
    }
    book.add_credential("a", jwk(1), NOW).unwrap();
    assert_eq!(
        code(book.add_credential("b", jwk(1), NOW)),
        "identity.agent_taken"
    );
    for digest in 2..=CREDENTIALS_MAX {
        book.add_credential("a", jwk(u8::try_from(digest).unwrap()), NOW)
            .unwrap();
    }
    assert_eq!(
        code(book.add_credential("a", jwk(99), NOW)),
        "identity.full"
    );
    let id = book.agent("a").unwrap().credentials[0].id.clone();
    assert!(book.remove_credential("a", &id, NOW).is_ok());
    assert_eq!(
        code(book.remove_credential("a", &id, NOW)),
        "identity.agent_unknown"
    );
    assert!(book.add_credential("a", jwk(99), NOW).is_ok());
}

#[test]
fn a_key_and_its_certificates_go_together() {
    let mut book = DirectoryBook::default();
    book.make_agent(&name("a"), &[], EntryState::Active, NOW)
        .unwrap();
    let of_key = |number, key: u8| CredentialEntry {
        key: Some(Digest([key; 32]).to_string()),
        ..certificate(number)
    };
    for credential in [jwk(1), of_key(7, 1), of_key(8, 1), jwk(2), of_key(9, 2)] {
        book.add_credential("a", credential, NOW).unwrap();
    }
    let id = of_key(7, 1).id;
    assert_eq!(book.remove_credential("a", &id, NOW).unwrap().len(), 3);
    assert_eq!(book.certificates.len(), 2);
    let left = &book.agent("a").unwrap().credentials;
    assert_eq!(*left, [jwk(2), of_key(9, 2)]);
    let id = jwk(2).id;
    assert_eq!(book.remove_credential("a", &id, NOW).unwrap().len(), 2);
    assert!(book.agent("a").unwrap().credentials.is_empty());
    // A key that was taken back does not return, by whatever it is brought, and whoever brings it.
    book.make_agent(&name("b"), &[], EntryState::Active, NOW)
        .unwrap();
    for agent in ["a", "b"] {
        for credential in [jwk(1), of_key(10, 1), jwk(2)] {
            let added = book.add_credential(agent, credential, NOW);
            assert_eq!(code(added), "identity.request_invalid");
        }
    }
    assert!(book.add_credential("a", jwk(3), NOW).is_ok());
}

#[test]
fn the_file_is_changed_whole_and_its_epoch_grows() {
    let folder = tempfile::tempdir().unwrap();
    let file = DirectoryFile::of_state(folder.path());
    assert_eq!(file.read().unwrap(), DirectoryBook::default());
    let build = name("build");
    let (book, ()) = file
        .change(0, |book| book.invite(&invite(&build, 1)))
        .unwrap();
    assert_eq!((book.epoch, file.read().unwrap()), (1, book.clone()));
    let stamp = file.stamp();
    let refused = file.change(0, |book| {
        book.agents.clear();
        book.revoke("build", NOW)
    });
    assert_eq!(code(refused), "identity.agent_unknown");
    let (same, ()) = file.change(0, |_| Ok(())).unwrap();
    assert_eq!((same.epoch, file.stamp()), (1, stamp));
    // Where an older copy was put back, the change is above what is in force.
    let (book, ()) = file
        .change(7, |book| {
            book.count_try(&Digest([1; 32]));
            Ok(())
        })
        .unwrap();
    assert_eq!((book.epoch, book.invites[0].tries), (8, 1));

    // An empty one would forget who was revoked.
    for text in [
        "{}",
        "{\"epoch\":8,\"agents\":[],\"invites\":[]}",
        "{\"agents\":",
    ] {
        std::fs::write(folder.path().join(FILE), text).unwrap();
        assert!(matches!(file.read(), Err(DirectoryError::Damaged(..))));
    }
    assert_eq!(
        code(file.change(0, |_| Ok(()))),
        "identity.directory_failed"
    );
}

#[test]
fn changes_at_once_are_all_kept_and_one_invite_has_one_winner() {
    let folder = tempfile::tempdir().unwrap();
    let file = DirectoryFile::of_state(folder.path());
    let build = name("build");
    file.change(0, |book| book.invite(&invite(&build, 1)))
        .unwrap();
    let threads: Vec<_> = (0..8)
        .map(|number: u8| {
            let file = file.clone();
            std::thread::spawn(move || {
                let made = name(&format!("agent-{number}"));
                file.change(0, |book| {
                    book.make_agent(&made, &[], EntryState::Active, NOW)
                        .map(drop)
                })
                .unwrap();
                file.change(0, |book| book.redeem(&Digest([1; 32]), jwk(number), NOW))
                    .is_ok()
            })
        })
        .collect();
    let won = threads
        .into_iter()
        .filter(|_| true)
        .map(|thread| thread.join().unwrap());
    assert_eq!(won.filter(|won| *won).count(), 1);
    let book = file.read().unwrap();
    assert_eq!((book.agents.len(), book.epoch), (9, 10));
}

#[test]
fn a_directory_that_was_there_is_missed() {
    let dir = tempfile::tempdir().unwrap();
    let file = DirectoryFile::of_state(dir.path());
    assert!(file.read().unwrap().agents.is_empty());
    // A change that is refused keeps nothing, so that nothing is missed.
    let no: Result<_, Refusal> = file.change(0, |_| -> Result<(), Refusal> {
        Err(Refusal::new(DIRECTORY_FAILED, "no"))
    });
    assert!(no.is_err() && file.read().unwrap().agents.is_empty());
    let build = name("build");
    file.change(0, |book| book.invite(&invite(&build, 1)))
        .unwrap();
    let kept = std::fs::read(dir.path().join(FILE)).unwrap();
    std::fs::remove_file(dir.path().join(FILE)).unwrap();
    let said = file.read().unwrap_err().to_string();
    assert!(said.contains("is gone") && said.contains(LOCK), "{said}");
    let change = file.change(0, |book| book.invite(&invite(&build, 2)));
    assert_eq!(code(change), "identity.directory_failed");
    // A good copy is put back, or all of it is forgotten on purpose.
    std::fs::write(dir.path().join(FILE), kept).unwrap();
    assert_eq!(file.read().unwrap().invites.len(), 1);
    std::fs::remove_file(dir.path().join(FILE)).unwrap();
    std::fs::remove_file(dir.path().join(LOCK)).unwrap();
    assert!(file.read().unwrap().invites.is_empty());
}
