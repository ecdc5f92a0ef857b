//! What the process takes from itself before it reads a file of others: files outside its folders, the network, and
//! memory without end.
//!
//! It holds for all processes that it starts, too. Landlock does the first two where the kernel has it (Linux 5.13
//! for files, 6.7 for TCP); elsewhere the rest of the code has to keep to its roots by itself, and a line of the log
//! says so. UDP stays open, as names are resolved by it.

use std::io;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, NetPort, Ruleset, RulesetAttr, RulesetCreated,
    RulesetCreatedAttr, RulesetError, RulesetStatus, Scope, path_beneath_rules,
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Address space of the process, in bytes: an index is mapped, not read.
const ADDRESS_BYTES_MAX: u64 = 16 << 30;
/// Files open at once.
const FILES_MAX: u64 = 8192;
/// The newest interface that this was written for.
const NEWEST: ABI = ABI::V6;
/// What programs need of the system to start: libraries, and what names resolve by.
const SYSTEM: &[&str] = &[
    "/lib",
    "/lib64",
    "/usr/lib",
    "/usr/lib64",
    "/usr/local/lib",
    "/etc",
    "/nix/store",
    "/proc",
    "/sys/fs/cgroup",
    "/run/systemd/resolve",
    "/dev/urandom",
];
/// What git's global ignore files are, from the home folder.
const GIT: &[&str] = &[".gitconfig", ".config/git"];

/// What stays.
#[derive(Clone, Debug, Default)]
pub struct Fence {
    /// Folders that may be read.
    pub roots: Vec<PathBuf>,
    /// The folder that may be written.
    pub data: PathBuf,
    /// The program that may be started: weir itself, for its parsers.
    pub program: Option<PathBuf>,
    /// Ports of TCP that may be connected to.
    pub ports: Vec<u16>,
}

/// How much of it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// All that was asked for.
    Wholly,
    /// What an older kernel knows of it.
    Partly,
    /// The kernel has no Landlock.
    Not,
}

/// Puts it up, for this thread and all that it starts: call it before there is another.
///
/// # Errors
///
/// Where the limits cannot be set, or a folder that has to be there is not.
pub fn put_up(fence: &Fence) -> io::Result<Held> {
    limits()?;
    let held = landlock(fence).map_err(io::Error::other)?;
    Ok(match held {
        RulesetStatus::FullyEnforced => Held::Wholly,
        RulesetStatus::PartiallyEnforced => Held::Partly,
        RulesetStatus::NotEnforced => Held::Not,
    })
}

fn limits() -> io::Result<()> {
    // No core: it would hold what was indexed.
    lower(Resource::Core, 0)?;
    lower(Resource::As, ADDRESS_BYTES_MAX)?;
    // Up as far as is allowed, as each tree that is watched and each part of an index is a file.
    let files = getrlimit(Resource::Nofile).maximum.unwrap_or(FILES_MAX);
    lower(Resource::Nofile, files.min(FILES_MAX))
}

/// Sets a limit for good; one that is lower already stays.
fn lower(resource: Resource, to: u64) -> io::Result<()> {
    let to = getrlimit(resource).maximum.map_or(to, |most| most.min(to));
    let limit = Rlimit {
        current: Some(to),
        maximum: Some(to),
    };
    Ok(setrlimit(resource, limit)?)
}

fn landlock(fence: &Fence) -> Result<RulesetStatus, RulesetError> {
    let run = AccessFs::from_read(NEWEST);
    let read = run & !BitFlags::from(AccessFs::Execute);
    let ruleset = Ruleset::default()
        .handle_access(AccessFs::from_all(NEWEST))?
        .handle_access(AccessNet::from_all(NEWEST))?
        .scope(Scope::from_all(NEWEST))?
        .create()?
        .add_rules(path_beneath_rules(SYSTEM, run))?
        .add_rules(path_beneath_rules(&fence.program, run))?
        .add_rules(path_beneath_rules(git(), read))?
        .add_rules(path_beneath_rules(&fence.roots, read))?
        .add_rules(path_beneath_rules(
            ["/dev/null"],
            AccessFs::from_file(NEWEST),
        ))?
        .add_rules(path_beneath_rules(
            [&fence.data],
            AccessFs::from_all(NEWEST) & !BitFlags::from(AccessFs::Execute),
        ))?;
    let ruleset = ports(ruleset, &fence.ports)?;
    Ok(ruleset.restrict_self()?.ruleset)
}

fn ports(ruleset: RulesetCreated, ports: &[u16]) -> Result<RulesetCreated, RulesetError> {
    let rules = ports
        .iter()
        .map(|port| Ok::<_, RulesetError>(NetPort::new(*port, AccessNet::ConnectTcp)));
    ruleset.add_rules(rules)
}

/// Git's global ignore files, where they are.
fn git() -> Vec<PathBuf> {
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let config = std::env::var_os("XDG_CONFIG_HOME").map(PathBuf::from);
    let of_home = home
        .iter()
        .flat_map(|home| GIT.iter().map(|file| home.join(file)));
    let of_config = config.iter().map(|config| config.join("git"));
    of_home
        .chain(of_config)
        .filter(|path| Path::is_absolute(path))
        .collect()
}
