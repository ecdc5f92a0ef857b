//! The operator: whoever runs a command that changes what is kept, as the system knows them.

use std::os::unix::fs::MetadataExt;

/// The login id of a process that nobody logged in for (`proc_pid_loginuid`(5)).
const NO_LOGIN: u32 = u32::MAX;

/// A user, and who they logged in as.
pub(crate) struct Operator {
    pub(crate) by: String,
    /// Where the system keeps it.
    pub(crate) login: Option<String>,
}

impl Operator {
    /// Who runs this process.
    pub(crate) fn who() -> std::io::Result<Operator> {
        let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
        let by = std::fs::metadata("/proc/self")?.uid();
        let login = std::fs::read_to_string("/proc/self/loginuid").ok();
        let login = login.and_then(|text| text.trim().parse().ok());
        let login = login.filter(|id| *id != NO_LOGIN);
        Ok(Operator {
            by: named(by, &users),
            login: login.map(|id| named(id, &users)),
        })
    }
}

/// A user's name and number; the number alone where the system has no name for it.
fn named(id: u32, users: &str) -> String {
    let of = |line: &str| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(id)).then(|| name.to_owned())
    };
    match users.lines().find_map(of) {
        Some(name) => format!("{name} ({id})"),
        None => id.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_has_a_name_or_a_number() {
        let users = "root:x:0:0:root:/root:/bin/sh\nbroken\ndev:x:1000:1000::/home/dev:/bin/sh\n";
        assert_eq!(named(0, users), "root (0)");
        assert_eq!(named(1000, users), "dev (1000)");
        assert_eq!(named(7, users), "7");
        assert_eq!(named(0, ""), "0");
    }
}
