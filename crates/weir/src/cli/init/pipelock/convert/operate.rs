//! What is said of tools, and what operators look at: logs, metrics, the stop.

use config::Path;

use super::{Convert, below};

impl Convert {
    /// What is said of tools of MCP.
    pub(super) fn tools(&mut self) {
        for (group, to) in [
            (
                "mcp_input_scanning",
                "calls of tools are judged as everything that goes out",
            ),
            ("mcp_tool_scanning", "scan.tools"),
            ("mcp_tool_policy", "scan.commands"),
            ("tool_chain_detection", "scan.chains"),
        ] {
            let (enabled, action) = (
                Path::of(group).key("enabled"),
                Path::of(group).key("action"),
            );
            let is_on = self.source.switch(&enabled);
            let word = match (is_on, self.source.text(&action).as_deref()) {
                (Some(false), _) => "off",
                (_, Some("warn")) => "warn",
                _ => "refuse",
            };
            if self.source.get(&enabled).is_none() && self.source.get(&action).is_none() {
                continue;
            }
            let key = to.strip_prefix("scan.");
            for path in [&enabled, &action] {
                if self.source.get(path).is_some() {
                    match key {
                        Some(_) => self.source.took(path, format!("{to}: {word}")),
                        None if word == "refuse" => self.source.took(path, to),
                        None => self.source.differs(path, format!("{to}, and refused; scan.overrides with lane: mcp lets one rule pass")),
                    }
                }
            }
            if let Some(key) = key {
                self.scan.insert(key.to_owned(), word.into());
            }
        }
        let drift = Path::of("mcp_tool_scanning.detect_drift");
        if let Some(is_pinned) = self.source.switch(&drift) {
            self.scan.insert("pins".to_owned(), is_pinned.into());
            self.source.took(&drift, "scan.pins");
        }
        let rules = Path::of("mcp_tool_policy.rules");
        for number in 0..self.source.length(&rules) {
            let why = "the gateway's own rules about commands hold; a rule of your own of class command stands in scan.folder";
            self.source.lacks(&rules.index(number), why);
        }
    }

    /// Logs, metrics, the stop.
    pub(super) fn operation(&mut self) {
        let format = Path::of("logging.format");
        match self.source.text(&format).as_deref() {
            Some(word @ ("json" | "text")) => {
                below(&mut self.other, "logs").insert("format".to_owned(), word.into());
                self.source.took(&format, "logs.format");
            }
            Some(_) => self
                .source
                .lacks(&format, "is no format that is known here"),
            None => {}
        }
        for key in ["output", "file"] {
            let path = Path::of("logging").key(key);
            if self.source.get(&path).is_some() {
                self.source.differs(
                    &path,
                    "messages go to standard error, and what happened to the log in ./state",
                );
            }
        }
        let metrics = Path::of("metrics_listen");
        if self.source.get(&metrics).is_some() {
            self.source.differs(&metrics, "/metrics stands at the operator's listener, a socket in ./state; write admin.listen for an address");
        }
        let stop = Path::of("kill_switch.enabled");
        match self.source.switch(&stop) {
            Some(true) => {
                self.other.insert("stop".to_owned(), "all".into());
                self.source.took(&stop, "stop: all");
            }
            Some(false) => self.source.took(&stop, "no stop"),
            None => {}
        }
        let sentinel = Path::of("kill_switch.sentinel_file");
        if self.source.get(&sentinel).is_some() {
            self.source.differs(
                &sentinel,
                "the file stop in ./state; weir stop and weir go write it",
            );
        }
        let scan_api = Path::of("scan_api").key("listen");
        if self.source.get(&scan_api).is_some() {
            self.source
                .differs(&scan_api, "POST /api/v1/scan stands at listen");
        }
    }
}
