//! What this machine can do at most, remembered between runs, so that every report can say it.
//!
//! A rate means little without the rate that the same generator reaches when nothing is in the way. The ceilings
//! are of one machine: where the machine has changed, they are not shown.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::exit::Failure;
use crate::result::{Ceilings, Machine};

/// Largest file that is read, in bytes.
const FILE_BYTES_MAX: u64 = 64 << 10;

#[derive(Serialize, Deserialize)]
struct Remembered {
    machine: Machine,
    ceilings: Ceilings,
}

/// Where they are kept: `weir/lab/ceilings.json` in the user's cache folder (XDG Base Directory Specification).
pub(crate) fn path() -> Option<PathBuf> {
    let named = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let cache = named("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute())
        .or_else(|| Some(PathBuf::from(named("HOME")?).join(".cache")));
    cache.map(|cache| cache.join("weir/lab/ceilings.json"))
}

/// The ceilings of this machine, if they were measured on it.
pub(crate) fn recall(machine: &Machine) -> Option<Ceilings> {
    let path = path()?;
    let is_small = std::fs::metadata(&path).is_ok_and(|meta| meta.len() <= FILE_BYTES_MAX);
    let text = is_small.then(|| std::fs::read(&path).ok())??;
    let remembered: Remembered = serde_json::from_slice(&text).ok()?;
    (remembered.machine == *machine).then_some(remembered.ceilings)
}

/// Keeps the ceilings of this machine, whole or not at all.
///
/// # Errors
///
/// There is no cache folder, or it cannot be written.
pub(crate) fn remember(machine: &Machine, ceilings: &Ceilings) -> Result<PathBuf, Failure> {
    let help = "set XDG_CACHE_HOME to a folder that can be written";
    let path = path().ok_or_else(|| Failure::new("there is no cache folder", help))?;
    let fail = |error: std::io::Error| Failure::new(format!("{}: {error}", path.display()), help);
    let remembered = Remembered {
        machine: machine.clone(),
        ceilings: ceilings.clone(),
    };
    let text = serde_json::to_vec_pretty(&remembered).expect("numbers and texts are JSON");
    let folder = path.parent().expect("the path has a folder");
    std::fs::create_dir_all(folder).map_err(fail)?;
    let draft = path.with_extension(format!("{}.tmp", std::process::id()));
    let written = std::fs::write(&draft, text).and_then(|()| std::fs::rename(&draft, &path));
    written.map_err(fail)?;
    Ok(path)
}
