//! The files that git has staged: what the next commit will hold, whatever stands in the folder.
//!
//! git lists them and reads them. Nothing of the repository is run or changed. Links and submodules hold no text of their
//! own and are left out; a file in conflict is an error, since it has no version to commit yet.

use std::ffi::OsStr;
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use terminal::Failure;

use super::super::history::{Blobs, git, not_started, not_understood};

/// Bytes of the list of what is staged.
const LIST_BYTES_MAX: u64 = 64 << 20;
/// The variable in which git tells its hooks which index the commit is made of.
const INDEX: &str = "GIT_INDEX_FILE";

/// What git is asked: the staged files and their versions, with nothing of the repository run.
const LIST: [&str; 14] = [
    "-c",
    "core.fsmonitor=false",
    "diff",
    "--cached",
    "--raw",
    "-z",
    "--no-abbrev",
    "--no-renames",
    "--no-ext-diff",
    "--ignore-submodules=all",
    "--diff-filter=d",
    "--relative",
    "--",
    ".",
];

/// A file that is staged.
pub(super) struct StagedFile {
    /// Its path from the folder.
    pub path: PathBuf,
    /// The name of its staged version in git; none where it is in conflict.
    pub blob: Option<String>,
}

/// The staged files under a folder, in git's order, and what reads them.
///
/// # Errors
/// git cannot be started, or the folder is of no repository.
pub(super) fn staged(dir: &Path) -> Result<(Vec<StagedFile>, Blobs), Failure> {
    let places = git(dir, &["rev-parse", "--show-toplevel", "--absolute-git-dir"]).output();
    let places = places.map_err(|error| not_started(&error))?;
    if !places.status.success() {
        let what = String::from_utf8_lossy(&places.stderr);
        let what = what.trim().trim_start_matches("fatal: ");
        let what = format!("{}: git cannot read it: {what}", dir.display());
        return Err(Failure::new(what, "Name a folder of a git repository."));
    }
    let mut list = git(dir, &LIST);
    if let Some(index) = index(&places.stdout) {
        list.env(INDEX, index);
    }
    let mut child = list.stdout(Stdio::piped()).spawn();
    let child = child.as_mut().map_err(|error| not_started(error))?;
    let mut bytes = Vec::new();
    let from = child.stdout.take().expect("it was piped");
    let read = from.take(LIST_BYTES_MAX + 1).read_to_end(&mut bytes);
    let ended = child.wait();
    let whole = read.is_ok() && ended.is_ok_and(|status| status.success());
    if !whole || bytes.len() as u64 > LIST_BYTES_MAX {
        let what = "git did not list all that is staged; see its message above";
        return Err(Failure::new(what, ""));
    }
    Ok((files(&bytes)?, Blobs::open(dir)?))
}

/// The index that a hook of this repository is told of; that of another repository is not read.
fn index(places: &[u8]) -> Option<PathBuf> {
    let given = PathBuf::from(std::env::var_os(INDEX)?);
    let mut places = places.split(|byte| *byte == b'\n');
    let mut place = || Some(Path::new(OsStr::from_bytes(places.next()?)));
    let (top, folder) = (place()?, place()?);
    let index = top.join(given);
    let inside = index.parent()?.canonicalize().ok()?;
    (inside == folder.canonicalize().ok()?).then_some(index)
}

/// Reads the list: `:OLDMODE NEWMODE OLD NEW STATUS`, a zero byte, the path, a zero byte.
fn files(list: &[u8]) -> Result<Vec<StagedFile>, Failure> {
    let mut files = Vec::new();
    let mut fields = list.split(|byte| *byte == 0);
    while let Some(head) = fields.next().filter(|head| !head.is_empty()) {
        let path = fields.next().ok_or_else(not_understood)?;
        let head = std::str::from_utf8(head).map_err(|_| not_understood())?;
        let words: Vec<&str> = head.split(' ').collect();
        let [_, mode, _, blob, status] = words[..] else {
            return Err(not_understood());
        };
        let conflict = status.starts_with('U');
        if conflict || mode.starts_with("100") {
            files.push(StagedFile {
                path: PathBuf::from(OsStr::from_bytes(path)),
                blob: (!conflict).then(|| blob.to_owned()),
            });
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_git_is_read() {
        let zeros = "0".repeat(40);
        let blob = "a".repeat(40);
        let list = format!(
            ":000000 100644 {zeros} {blob} A\0d/a b.txt\0:000000 120000 {zeros} {blob} A\0link\0\
             :100644 000000 {zeros} {zeros} U\0both.txt\0"
        );
        let files = files(list.as_bytes()).unwrap_or_default();
        let read: Vec<_> = files
            .iter()
            .map(|file| (file.path.display().to_string(), file.blob.as_deref()))
            .collect();
        assert_eq!(
            read,
            [
                ("d/a b.txt".to_owned(), Some(&*blob)),
                ("both.txt".to_owned(), None)
            ]
        );
        assert!(super::files(b"nonsense\0").is_err());
    }
}
