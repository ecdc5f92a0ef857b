//! The sections `store` and `replica`: what this gateway shares, and what it is called among the others.

use std::time::Duration;

use ::config::{Check, Path as Key};
use base::{Name, Secret};
use postgres::Target;

use super::file::File;

/// A store, and this gateway's name in it.
#[derive(Clone)]
pub(crate) struct StoreSettings {
    pub target: Target,
    /// The URL that the target was read from: compared at a reload, and never shown.
    url: Secret,
    pub passphrase: Secret,
    pub outage_max: Duration,
    pub replica: Name,
}

impl PartialEq for StoreSettings {
    fn eq(&self, other: &StoreSettings) -> bool {
        let of = |one: &StoreSettings| {
            (
                one.url.expose().to_owned(),
                one.passphrase.expose().to_owned(),
                one.outage_max,
                one.replica.clone(),
            )
        };
        of(self) == of(other)
    }
}

pub(super) fn store(file: &File, check: &mut Check<'_>) -> Option<StoreSettings> {
    let at = Key::of("store");
    let Some(written) = &file.store else {
        if file.replica.is_some() {
            check.say(&Key::of("replica"), "needs a store that the replicas share; write store: { postgres: env:DATABASE_URL, … }");
        }
        return None;
    };
    let replica = file.replica.as_ref().map(|name| name.0.clone());
    if replica.is_none() {
        check.say(
            &at,
            "needs replica: NAME beside it, another one for each gateway that shares the store",
        );
    }
    let url = check.of(&written.postgres, &at.key("postgres"), |check, of, at| {
        check.secret(of, at)
    });
    let passphrase = check.of(
        &written.passphrase,
        &at.key("passphrase"),
        |check, of, at| check.secret(of, at),
    );
    let url = url?;
    let target = check.good(&at.key("postgres"), Target::read(url.expose()));
    Some(StoreSettings {
        target: target?,
        url,
        passphrase: passphrase?,
        outage_max: Duration::from_secs(written.outage_max.0),
        replica: replica?,
    })
}
