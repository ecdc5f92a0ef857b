//! What is asked to be watched, and what that turns out to be on this machine.
//!
//! A subject is resolved once, before load is sent: a name that means no process, or a URL that does not answer, ends
//! the command then, and not with an empty column an hour later.

use std::path::PathBuf;

use super::book::Watch;
use super::process::Thread;
use super::scrape::Endpoint;
use super::tree::{Table, Tree};
use super::{cgroup, find};

/// The most subjects of one run.
pub const SUBJECTS_MAX: usize = 32;

/// Something to watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A process with its children.
    Pid(u32),
    /// The process of this name, or every one of it.
    Name { name: String, all: bool },
    /// The process whose command line holds this, or every one.
    Command { part: String, all: bool },
    /// A cgroup of version 2, by its folder or its path below the mount.
    Cgroup(String),
    /// A Prometheus endpoint, and the metrics to keep of it; none means those of its process.
    Prometheus { url: String, metrics: Vec<String> },
}

impl Subject {
    /// Reads one `--watch`: `1234`, `pid:1234`, `nginx`, `name:nginx`, `all:nginx`, `command:weir serve`,
    /// `cgroup:/system.slice/x.service`, `prom:http://127.0.0.1:9090/metrics` with `#metric,metric` behind it. `=`
    /// may stand for the first `:`.
    ///
    /// # Errors
    /// A sentence that says what can be written.
    pub fn parse(text: &str) -> Result<Subject, String> {
        let text = text.trim();
        let (kind, rest) = match text.split_once([':', '=']) {
            Some((kind, rest)) => (kind, rest.trim()),
            None if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) => {
                ("pid", text)
            }
            None => ("name", text),
        };
        if rest.is_empty() {
            return Err(format!("{text:?} does not say what to watch; {SPELLINGS}"));
        }
        let rest = rest.to_owned();
        match kind {
            "pid" => match rest.parse() {
                Ok(pid) if pid > 0 => Ok(Subject::Pid(pid)),
                _ => Err(format!("{rest:?} is not a pid; {SPELLINGS}")),
            },
            "name" => Ok(Subject::Name {
                name: rest,
                all: false,
            }),
            "all" => Ok(Subject::Name {
                name: rest,
                all: true,
            }),
            "command" => Ok(Subject::Command {
                part: rest,
                all: false,
            }),
            "cgroup" => Ok(Subject::Cgroup(rest)),
            "prom" | "prometheus" => {
                let (url, metrics) = rest.split_once('#').unwrap_or((&rest, ""));
                Ok(Subject::Prometheus {
                    url: url.to_owned(),
                    metrics: split_metrics(metrics),
                })
            }
            other => Err(format!("{other:?} cannot be watched; {SPELLINGS}")),
        }
    }
}

const SPELLINGS: &str =
    "write a pid, a process's name, all:NAME, command:PART, cgroup:PATH or prom:URL";

/// Splits at commas that are not inside braces, since selectors have commas too.
fn split_metrics(text: &str) -> Vec<String> {
    let mut depth = 0_i32;
    text.split(|c| {
        depth += i32::from(c == '{') - i32::from(c == '}');
        c == ',' && depth == 0
    })
    .map(str::trim)
    .filter(|metric| !metric.is_empty())
    .map(str::to_owned)
    .collect()
}

/// A subject, found.
pub(super) enum Eye {
    Tree(Tree),
    Cgroup(PathBuf),
    Endpoint(Endpoint),
}

/// One reading of a process tree or a cgroup. CPU time counts from wherever it likes; only differences are used.
#[derive(Clone, Debug, Default)]
pub(super) struct Shot {
    pub cpu_us: Option<u64>,
    /// Time that threads were ready to run and had no CPU; of a cgroup, time that its limit held it back.
    pub waited_us: Option<u64>,
    /// How often threads were put on a CPU.
    pub switches: Option<u64>,
    pub rss_bytes: Option<u64>,
    /// The part of it that no file backs.
    pub anon_bytes: Option<u64>,
    pub threads: Option<u64>,
    pub descriptors: Option<u64>,
    /// The busiest threads so far; only in a mark.
    pub busiest: Vec<Thread>,
    /// What was to be watched has ended; its CPU time is that of its whole life under the watch.
    pub has_ended: bool,
    /// There are more processes than are read.
    pub is_cut: bool,
}

impl Eye {
    /// Finds the subject, and gives it a name to be shown by.
    ///
    /// # Errors
    /// A sentence that says what was not found.
    pub(super) fn open(subject: &Subject, table: &Table) -> Result<(String, Eye), String> {
        match subject {
            Subject::Pid(pid) => match table.get(*pid) {
                Some(stat) if !matches!(stat.state, 'Z' | 'X') => {
                    let name = format!("{} ({pid})", stat.comm);
                    Ok((name, Eye::Tree(Tree::new(&[*pid], table))))
                }
                _ => Err(format!("no process has the pid {pid}")),
            },
            Subject::Name { name, all } => {
                let roots = find::by_name(name, *all, table)?;
                Ok((name.clone(), Eye::Tree(Tree::new(&roots, table))))
            }
            Subject::Command { part, all } => {
                let roots = find::by_command(part, *all, table)?;
                Ok((part.clone(), Eye::Tree(Tree::new(&roots, table))))
            }
            Subject::Cgroup(path) => Ok((path.clone(), Eye::Cgroup(cgroup::find(path)?))),
            Subject::Prometheus { url, metrics } => {
                let endpoint = Endpoint::new(url, metrics)?;
                let kept = endpoint.ask()?;
                if kept.values.is_empty() && !metrics.is_empty() {
                    return Err(format!(
                        "{url} has none of the metrics {}",
                        metrics.join(", ")
                    ));
                }
                Ok((url.clone(), Eye::Endpoint(endpoint)))
            }
        }
    }

    /// `process`, `cgroup` or `prometheus`.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Eye::Tree(_) => "process",
            Eye::Cgroup(_) => "cgroup",
            Eye::Endpoint(_) => "prometheus",
        }
    }

    /// Looks once; `None` when there is nothing to see here: a cgroup that is gone, and endpoints, which are asked
    /// elsewhere. Threads are listed only when `with_threads`.
    pub(super) fn look(&mut self, table: &Table, with_threads: bool) -> Option<Shot> {
        match self {
            Eye::Tree(tree) => {
                let reading = tree.sample(table);
                let is_there = reading.processes > 0;
                Some(Shot {
                    cpu_us: Some(reading.cpu_us),
                    waited_us: Some(reading.waited_us),
                    switches: Some(reading.switches),
                    rss_bytes: reading.rss_bytes,
                    anon_bytes: reading.anon_bytes,
                    threads: is_there.then_some(reading.threads),
                    descriptors: reading.descriptors,
                    busiest: if with_threads {
                        tree.busiest()
                    } else {
                        Vec::new()
                    },
                    has_ended: reading.is_ended,
                    is_cut: reading.is_cut,
                })
            }
            Eye::Cgroup(folder) => {
                let reading = cgroup::read(folder)?;
                Some(Shot {
                    cpu_us: reading.cpu_us,
                    waited_us: reading.throttled_us,
                    rss_bytes: reading.memory_bytes,
                    anon_bytes: reading.anon_bytes,
                    threads: reading.processes,
                    ..Shot::default()
                })
            }
            Eye::Endpoint(_) => None,
        }
    }
}

/// The name of another subject that holds the one at `index`: its process is in the other's tree or cgroup. Of two
/// that are the same, the later one is held by the earlier.
pub(super) fn holder(index: usize, watches: &[Watch], table: &Table) -> Option<String> {
    let own = &watches[index].eye;
    let holds = |(at, other): &(usize, &Watch)| {
        if *at == index {
            return false;
        }
        let is_earlier = *at < index;
        match (own, &other.eye) {
            (Eye::Tree(own), Eye::Tree(other)) => own.roots().all(|pid| {
                let is_below = |above: &u32| other.roots().any(|root| root == *above);
                table.ancestors(pid).iter().any(is_below) || is_earlier && is_below(&pid)
            }),
            (Eye::Tree(own), Eye::Cgroup(folder)) => {
                own.roots().all(|pid| cgroup::holds(folder, pid))
            }
            (Eye::Cgroup(own), Eye::Cgroup(other)) => {
                own.starts_with(other) && (own != other || is_earlier)
            }
            (Eye::Endpoint(_), _) | (_, Eye::Endpoint(_)) | (Eye::Cgroup(_), Eye::Tree(_)) => false,
        }
    };
    let found = watches.iter().enumerate().find(holds)?;
    Some(found.1.name.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subjects_are_read() {
        let name = |name: &str, all| Subject::Name {
            name: name.to_owned(),
            all,
        };
        let cases = [
            ("12", Subject::Pid(12)),
            ("pid:12", Subject::Pid(12)),
            ("pid=12", Subject::Pid(12)),
            (" nginx ", name("nginx", false)),
            ("name:nginx", name("nginx", false)),
            ("all:nginx", name("nginx", true)),
            ("cgroup:/a/b", Subject::Cgroup("/a/b".to_owned())),
            (
                "prom:http://127.0.0.1:9/m#a{b=\"c\",d=\"e\"},f",
                Subject::Prometheus {
                    url: "http://127.0.0.1:9/m".to_owned(),
                    metrics: vec!["a{b=\"c\",d=\"e\"}".to_owned(), "f".to_owned()],
                },
            ),
        ];
        for (text, want) in cases {
            assert_eq!(Subject::parse(text).unwrap(), want, "{text}");
        }
        for text in [
            "",
            "pid:",
            "pid:0",
            "pid:x",
            "pid:-1",
            "tty:1",
            "pid:99999999999",
            "name:",
        ] {
            let error = Subject::parse(text).unwrap_err();
            assert!(error.contains("write a pid"), "{text:?}: {error}");
        }
    }

    #[test]
    fn what_is_not_there_is_refused() {
        let table = Table::read();
        let cases = [
            (Subject::Pid(u32::MAX), "no process has the pid"),
            (Subject::Cgroup("/no/such/group".to_owned()), "version 2"),
            (
                Subject::Prometheus {
                    url: "http://127.0.0.1:1/".to_owned(),
                    metrics: vec![],
                },
                "127.0.0.1:1",
            ),
        ];
        for (subject, want) in cases {
            let error = Eye::open(&subject, &table).err().unwrap();
            assert!(error.contains(want), "{error}");
        }
    }
}
