//! What is looked at before anything listens: is this the store that is meant, may this replica use it, and is nobody else it.
//!
//! Each refusal says what to do. The session that was opened here holds the replica's name as long as it lives, and becomes the one
//! that ships.

use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use base::{Digest, Name, Secret};
use postgres::{Fault, Session, SqlValue, Target};

use super::{CLOCKS_APART_MS_MAX, ReplicaError, SCHEMA_VERSION, SHIP_ANSWER_MS_MAX, keep, schema};
use crate::directory::DirectoryBook;
use crate::entry::NO_ENTRY;

/// How long a name that another holds is waited for: the server takes a moment to see that a process died.
const NAME_WAIT: Duration = Duration::from_secs(4);
/// Makes the locks of names those of weir.
const NAME_LOCK: i64 = 0x7765_6972_0002;

/// How a replica joins.
pub struct Joining<'j> {
    pub target: &'j Target,
    /// Of the configuration, where there are identities.
    pub trust_domain: Option<&'j str>,
    pub replica: &'j Name,
    /// Opens the keys.
    pub passphrase: &'j Secret,
    /// The state folder, into which the keys and the authority are put.
    pub state: &'j Path,
}

/// A replica that may go on to start.
pub struct Begun {
    pub(super) session: Session,
    pub(super) target: Target,
    pub(super) replica: String,
    /// The directory as it is now.
    pub book: DirectoryBook,
    /// How far the store's clock is ahead, in milliseconds.
    pub clock_ahead_ms: i64,
}

impl Begun {
    /// Looks at everything that does not need the log, and puts the keys and the authority into the state folder.
    ///
    /// # Errors
    /// The first thing that keeps this replica from starting.
    pub fn join(joining: &Joining<'_>) -> Result<Begun, ReplicaError> {
        let session = open(joining.target)?;
        let clock_ahead_ms = look(&session, joining.trust_domain)?;
        let name = joining.replica.as_str();
        hold_name(&session, name, NAME_WAIT)?;
        keep::fetch(&session, joining.passphrase, joining.state)?;
        let book = super::directory::read(&session)?;
        Ok(Begun {
            session,
            target: joining.target.clone(),
            replica: name.to_owned(),
            book,
            clock_ahead_ms,
        })
    }

    /// Finds the place of this log in the store, or makes one; and the log before it of this replica, where that is another.
    ///
    /// # Errors
    /// A log that is another replica's or has another key, or of which the store has other entries.
    pub fn attach(&self, log: &crate::Log) -> Result<Option<String>, ReplicaError> {
        let place = Place::find(&self.session, log.origin(), log.vkey(), &self.replica)?;
        place.fits(log.path(), log.size())?;
        Ok(place.before)
    }
}

/// Opens a session of a replica, and looks whether a role that serves is what it has to be.
pub(super) fn open(target: &Target) -> Result<Session, ReplicaError> {
    Session::open_within(target, SHIP_ANSWER_MS_MAX)
        .map_err(|fault| ReplicaError::of("connecting", &fault))
}

/// Whether this is a store of this trust domain that takes what is written. Gives how far its clock is ahead, in milliseconds.
pub(super) fn look(session: &Session, trust_domain: Option<&str>) -> Result<i64, ReplicaError> {
    let failed = |fault: Fault| ReplicaError::of("looking", &fault);
    let asked = unix_ms();
    let sql = "SELECT pg_is_in_recovery() OR current_setting('transaction_read_only')::bool, \
               (extract(epoch FROM clock_timestamp()) * 1000)::bigint";
    let rows = session.rows(sql, &[]).map_err(failed)?;
    let is_read_only = rows.first().is_some_and(|row| row.get(0));
    let clock: i64 = rows.first().map_or(0, |row| row.get(1));
    if is_read_only {
        return Err(ReplicaError::new(
            "the store can only be read: it is a standby",
            "Name the primary in the URL, or all servers and target_session_attrs=read-write.",
        ));
    }
    let version = schema::version(session).map_err(failed)?;
    match version {
        None => {
            return Err(ReplicaError::new(
                "the database has no tables of weir",
                "Run weir store migrate --owner URL, then weir store import.",
            ));
        }
        Some((version, oldest)) if oldest > SCHEMA_VERSION => return Err(schema::newer(version)),
        Some((version, _)) if version < SCHEMA_VERSION => {
            return Err(ReplicaError::new(
                format!(
                    "the store's tables are of version {version}; this program needs {SCHEMA_VERSION}"
                ),
                "Run weir store migrate --owner URL.",
            ));
        }
        Some(_) => {}
    }
    role(session)?;
    let domain = meta(session, "trust_domain").map_err(failed)?;
    let Some(domain) = domain else {
        return Err(ReplicaError::new(
            "nothing was put into the store yet",
            "Run weir store import --owner URL on the gateway whose agents, keys and authority all replicas go on with.",
        ));
    };
    let wanted = trust_domain.unwrap_or_default();
    if domain != wanted {
        return Err(ReplicaError::new(
            format!(
                "the store is of the trust domain {domain:?}, and the configuration of {wanted:?}"
            ),
            "Name that gateway's database in store.postgres, or its identity.trust_domain.",
        ));
    }
    let now = unix_ms();
    let ahead = clock - super::signed(asked + now.saturating_sub(asked) / 2);
    if ahead.unsigned_abs() > CLOCKS_APART_MS_MAX {
        return Err(ReplicaError::new(
            format!(
                "the clock of the store is {} s {} that of this machine",
                ahead.abs() / 1000,
                if ahead < 0 { "behind" } else { "ahead of" }
            ),
            "Set both clocks, by NTP.",
        ));
    }
    Ok(ahead)
}

/// Whether the role may do what it has to, and no more.
fn role(session: &Session) -> Result<(), ReplicaError> {
    let sql = "SELECT has_table_privilege('weir.records', 'INSERT'),
      bool_or(has_table_privilege(c.oid, 'UPDATE') OR has_table_privilege(c.oid, 'DELETE') OR has_table_privilege(c.oid, 'TRUNCATE')
        OR pg_has_role(c.relowner, 'MEMBER')), current_user::text
      FROM pg_class c WHERE c.oid IN ('weir.records'::regclass, 'weir.checkpoints'::regclass)
        OR c.oid IN (SELECT inhrelid FROM pg_inherits WHERE inhparent = 'weir.records'::regclass)";
    let rows = session.rows(sql, &[]);
    let rows = rows.map_err(|fault| ReplicaError::of("looking at the role", &fault))?;
    let (may_add, may_change) = rows
        .first()
        .map_or((false, true), |row| (row.get(0), row.get(1)));
    let role: String = rows.first().map(|row| row.get(2)).unwrap_or_default();
    if may_change {
        return Err(ReplicaError::new(
            format!("the role {role:?} may change or remove records, which no gateway may"),
            "Name another role in store.postgres, which owns nothing and is no superuser, and run weir store migrate for it.",
        ));
    }
    match may_add {
        true => Ok(()),
        false => Err(ReplicaError::new(
            format!("the role {role:?} may not add records"),
            "Run weir store migrate --owner URL with this role in store.postgres.",
        )),
    }
}

/// A word that the store keeps of itself.
pub(super) fn meta(session: &Session, name: &str) -> Result<Option<String>, Fault> {
    let sql = "SELECT value FROM weir.meta WHERE name = $1";
    let rows = session.rows(sql, &[SqlValue::Text(Some(name))])?;
    Ok(rows.first().map(|row| row.get(0)))
}

/// Takes the name of a replica for as long as the session lives.
pub(super) fn hold_name(session: &Session, name: &str, wait: Duration) -> Result<(), ReplicaError> {
    let failed = |fault: Fault| ReplicaError::of("taking the replica's name", &fault);
    // The server ends sessions of machines that are gone within half a minute.
    session
        .batch("SET tcp_keepalives_idle = 10; SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 3; SET statement_timeout = 7000")
        .map_err(failed)?;
    let deadline = Instant::now() + wait;
    let values = [SqlValue::Text(Some(name)), SqlValue::Int(Some(NAME_LOCK))];
    loop {
        let sql = "SELECT pg_try_advisory_lock(hashtextextended($1, $2))";
        let rows = session.rows(sql, &values).map_err(failed)?;
        if rows.first().is_some_and(|row| row.get(0)) {
            return Ok(());
        }
        if Instant::now() >= deadline {
            return Err(ReplicaError::new(
                format!("a replica named {name:?} is running already"),
                "Give each replica a name of its own: replica: NAME. weir replicas lists them.",
            ));
        }
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// Where a log stands in the store.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) id: i64,
    pub(super) next: u64,
    /// The leaf hash of the entry before `next`.
    pub(super) last: Digest,
    pub(super) day: i64,
    pub(super) before: Option<String>,
}

impl Place {
    /// The place of an origin, made where there is none.
    pub(super) fn find(
        session: &Session,
        origin: &str,
        vkey: &str,
        replica: &str,
    ) -> Result<Place, ReplicaError> {
        let failed = |fault: Fault| ReplicaError::of("finding the log", &fault);
        let insert = "INSERT INTO weir.origins (origin, vkey, replica, before, last, day) VALUES ($1, $2, $3,
            (SELECT origin FROM weir.origins WHERE replica = $3 ORDER BY id DESC LIMIT 1), $4, '1970-01-01') ON CONFLICT (origin) DO NOTHING";
        let values = [
            SqlValue::Text(Some(origin)),
            SqlValue::Text(Some(vkey)),
            SqlValue::Text(Some(replica)),
            SqlValue::Bytes(Some(&NO_ENTRY.0)),
        ];
        session.execute(insert, &values).map_err(failed)?;
        let sql = "SELECT id, vkey, replica, before, next, last, (day - '1970-01-01'::date)::bigint FROM weir.origins WHERE origin = $1";
        let rows = session.rows(sql, &values[..1]).map_err(failed)?;
        let Some(row) = rows.first() else {
            return Err(ReplicaError::new(
                "the store did not keep the log's origin",
                "See PostgreSQL's log.",
            ));
        };
        let (key, owner): (String, String) = (row.get(1), row.get(2));
        if key != vkey {
            return Err(ReplicaError::new(
                format!("the store knows a log {origin:?} that another key signs"),
                "Give log.origin another name on this replica, in a state folder that has no log yet.",
            ));
        }
        if owner != replica {
            return Err(ReplicaError::new(
                format!("the log {origin:?} is that of the replica {owner:?}"),
                format!(
                    "Write replica: {owner}, or move the folder of the log away where this disk is a copy of that replica's."
                ),
            ));
        }
        let last: &[u8] = row.get(5);
        Ok(Place {
            id: row.get(0),
            before: row.get(3),
            next: super::unsigned(row.get(4)),
            last: <[u8; 32]>::try_from(last).map_or(NO_ENTRY, Digest),
            day: row.get(6),
        })
    }

    /// Whether the log on the disk has what the store has of it.
    pub(super) fn fits(&self, log: &Path, size: u64) -> Result<(), ReplicaError> {
        let help = "Stop whoever else writes this log. If this disk is an older copy, move the folder of the log away to begin another log.";
        if self.next > size {
            let what = format!(
                "a fork: the store has {} entries of this log, and the disk has {size}",
                self.next
            );
            return Err(ReplicaError::new(what, help));
        }
        let Some(index) = self.next.checked_sub(1) else {
            return Ok(());
        };
        match crate::audit::leaf_at(log, index) {
            Ok(Some(leaf)) if leaf == self.last => Ok(()),
            Ok(_) => Err(ReplicaError::new(
                format!(
                    "a fork: entry {index} of this log is another in the store than on the disk"
                ),
                help,
            )),
            Err(damage) => Err(ReplicaError::new(
                format!("the log on the disk cannot be read at {damage}"),
                "See weir audit verify.",
            )),
        }
    }
}

/// The machine's clock, in Unix milliseconds.
pub(super) fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(0))
}
