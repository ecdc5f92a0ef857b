//! Finds the processes that a name means, once, before the run.
//!
//! `--watch nginx` should find nginx and its workers as one tree, and not this command itself, whose own command line
//! holds the word too. A name that means none, or several that do not belong together, is refused: a number for the
//! wrong process is worse than none.

use super::process;
use super::read;
use super::tree::Table;

/// How many matches an error lists.
const LISTED_MAX: usize = 8;

/// The roots of every tree whose root's name is `name`: the kernel's name for it, or the last part of its first
/// argument.
///
/// # Errors
/// A sentence when there is none, or more than one and not `all`.
pub fn by_name(name: &str, all: bool, table: &Table) -> Result<Vec<u32>, String> {
    let named = matches(table, |comm, arguments| {
        // The kernel cuts names to 15 bytes.
        comm == name || program(arguments) == name
    });
    one_or_all(named, all, table, &format!("named {name}"))
}

/// The same for processes whose whole command line holds `part`.
///
/// # Errors
/// As [`by_name`].
pub fn by_command(part: &str, all: bool, table: &Table) -> Result<Vec<u32>, String> {
    let found = matches(table, |_, arguments| arguments.contains(part));
    one_or_all(
        found,
        all,
        table,
        &format!("with {part:?} in its command line"),
    )
}

fn program(arguments: &str) -> &str {
    let first = arguments.split('\0').next().unwrap_or("");
    // nginx and postgres write a title of their own: "nginx: master process".
    let first = first.split([' ', ':']).next().unwrap_or("");
    first.rsplit('/').next().unwrap_or(first)
}

/// Matching processes that have no matching ancestor, without this process and its ancestors.
fn matches(table: &Table, does_match: impl Fn(&str, &str) -> bool) -> Vec<u32> {
    let own = std::process::id();
    let mut ours = table.ancestors(own);
    ours.push(own);
    let found: Vec<u32> = table
        .iter()
        .filter(|(pid, stat)| !ours.contains(pid) && !matches!(stat.state, 'Z' | 'X'))
        .filter(|(pid, stat)| {
            let arguments = read::text(&process::folder(*pid).join("cmdline")).unwrap_or_default();
            does_match(&stat.comm, &arguments)
        })
        .map(|(pid, _)| pid)
        .collect();
    let mut roots: Vec<u32> = found
        .iter()
        .copied()
        .filter(|pid| {
            !table
                .ancestors(*pid)
                .iter()
                .any(|above| found.contains(above))
        })
        .collect();
    roots.sort_unstable();
    roots
}

fn one_or_all(found: Vec<u32>, all: bool, table: &Table, what: &str) -> Result<Vec<u32>, String> {
    match found.as_slice() {
        [] => Err(format!("no process {what} is running")),
        [_] => Ok(found),
        _ if all => Ok(found),
        many => {
            let mut list: Vec<String> = many
                .iter()
                .take(LISTED_MAX)
                .map(|pid| {
                    let comm = table.get(*pid).map_or("?", |stat| stat.comm.as_str());
                    format!("{pid} ({comm})")
                })
                .collect();
            if many.len() > LISTED_MAX {
                list.push("…".to_owned());
            }
            Err(format!(
                "{} processes {what} are running, {}: give a pid, or ask for all of them",
                many.len(),
                list.join(", ")
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_the_last_part_of_the_first_argument() {
        assert_eq!(program("/usr/sbin/nginx\0-g\0"), "nginx");
        assert_eq!(program("nginx: master process /usr/sbin/nginx"), "nginx");
        assert_eq!(program(""), "");
        assert_eq!(program("/"), "");
    }

    #[test]
    fn none_is_refused_and_we_never_find_ourselves() {
        let table = Table::read();
        let error = by_name("no-such-process", false, &table).unwrap_err();
        assert!(
            error.contains("no process named no-such-process"),
            "{error}"
        );
        let own = std::env::args().next().unwrap();
        let found = by_command(&own, true, &table).unwrap_or_default();
        assert!(!found.contains(&std::process::id()));
    }

    #[test]
    fn many_are_refused_with_a_list() {
        let table = Table::read();
        let error = one_or_all((1..20).collect(), false, &table, "named x").unwrap_err();
        assert!(
            error.starts_with("19 processes named x are running, 1 ("),
            "{error}"
        );
        assert!(
            error.contains("…") && error.contains("all of them"),
            "{error}"
        );
        assert_eq!(
            one_or_all(vec![1, 2], true, &table, "named x").unwrap(),
            vec![1, 2]
        );
    }
}
