//! The corpus of `net` that two readers could take in two ways.

#![expect(clippy::disallowed_methods, reason = "a test reads its cases")]

/// Files with requests.
pub(crate) const REQUESTS: [&str; 4] = [
    "request-smuggling.txt",
    "request-framing.txt",
    "request-fields.txt",
    "request-line.txt",
];

/// One case: what is sent, and what the engine makes of it.
pub(crate) struct Case {
    pub title: String,
    pub sent: Vec<u8>,
    pub told: String,
}

/// The cases of a file of `net`; those that wait for silence between their parts are left out.
pub(crate) fn cases(file: &str) -> Vec<Case> {
    let path = format!("{}/../net/cases/h1/{file}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).unwrap();
    let (_, rest) = text.split_once("\n# ").unwrap();
    let case = |case: &str| {
        let (title, rest) = case.split_once('\n').unwrap();
        let (sent, told) = rest.split_once("----\n").unwrap();
        let sent = unescape(sent)?;
        Some(Case {
            title: title.to_owned(),
            sent,
            told: told.to_owned(),
        })
    };
    rest.split("\n# ").filter_map(case).collect()
}

fn unescape(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut chars = text.chars().filter(|char| *char != '\n');
    while let Some(char) = chars.next() {
        if char != '\\' {
            bytes.extend(char.to_string().bytes());
            continue;
        }
        bytes.push(match chars.next()? {
            'r' => b'\r',
            'n' => b'\n',
            't' => b'\t',
            '0' => 0,
            '\\' => b'\\',
            'x' => u8::from_str_radix(&chars.by_ref().take(2).collect::<String>(), 16).ok()?,
            _ => return None,
        });
    }
    Some(bytes)
}

impl Case {
    /// Whether the engine refuses something in it: a line of a status and the name of a fault.
    pub(crate) fn is_refused(&self) -> bool {
        self.told.lines().any(|line| {
            let fault = line
                .split_once(' ')
                .filter(|(status, _)| status.parse::<u16>().is_ok());
            fault.is_some_and(|(_, name)| name.chars().all(char::is_alphanumeric))
        })
    }

    /// Requests that the engine reads in it.
    pub(crate) fn requests(&self) -> usize {
        self.told
            .lines()
            .filter(|line| line.contains(" of \""))
            .count()
    }
}
