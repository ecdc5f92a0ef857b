//! The policies that permit what Pipelock's configuration let pass.

use std::fmt::Write as _;

use base::Name;

use super::convert::{GROUP, SERVICE};

/// What agents may reach.
#[derive(Debug, Default)]
pub(super) struct Reaching {
    /// Only the hosts of the list may be asked.
    pub is_strict: bool,
    /// Hosts: `name`, `*.name` for it and all below it, or `*`.
    pub allowed: Vec<String>,
    /// Agents with a list of their own, or with none: they may ask every host.
    pub of_agents: Vec<(Name, Option<Vec<String>>)>,
    /// Where agents may ask from.
    pub from: Vec<(Name, Vec<String>)>,
    /// WebSockets are not carried.
    pub no_sockets: bool,
    /// There is a service behind the reverse proxy.
    pub has_service: bool,
    /// Agents of others may be named.
    pub has_a2a: bool,
}

impl Reaching {
    /// Whether a host of another list is allowed by name.
    pub(super) fn allows(&self, host: &str) -> bool {
        let bare = host.strip_prefix("*.").unwrap_or(host);
        self.allowed
            .iter()
            .any(|allowed| match allowed.strip_prefix("*.") {
                Some(above) => {
                    bare == above
                        || bare
                            .strip_suffix(above)
                            .is_some_and(|below| below.ends_with('.'))
                }
                None => allowed == host,
            })
    }
}

const SITES: &str = "[Action::\"web:get\", Action::\"web:send\", Action::\"web:tunnel\"]";

/// The file of policies.
pub(super) fn text(reaching: &Reaching) -> String {
    let mut text = format!(
        "// Who may do what. What no policy permits is refused, and a forbid wins over every permit.\n\
         //\n\
         // Check this file:   weir policy check\n\n\
         // Agents may have texts judged.\n\
         @id(\"scan\")\n\
         permit (principal in Group::\"{GROUP}\", action == Action::\"web:scan\", resource);\n"
    );
    let group = format!("principal in Group::\"{GROUP}\"");
    let alone: Vec<&Name> = reaching.of_agents.iter().map(|(name, _)| name).collect();
    let unless = match alone.is_empty() {
        true => String::new(),
        false => {
            let all: Vec<String> = alone
                .iter()
                .map(|name| format!("principal == Agent::\"{name}\""))
                .collect();
            format!("\n  unless {{ {} }}", all.join(" || "))
        }
    };
    let hosts = reaching.is_strict.then_some(reaching.allowed.as_slice());
    permit(&mut text, "all", &group, hosts, &unless);
    for (name, hosts) in &reaching.of_agents {
        let principal = format!("principal == Agent::\"{name}\"");
        permit(&mut text, name.as_str(), &principal, hosts.as_deref(), "");
    }
    if reaching.has_service {
        let _ = write!(
            text,
            "\n// The service behind the reverse proxy.\n@id(\"service\")\npermit ({group}, action in [Action::\"web:get\", Action::\"web:send\"], \
             resource == Server::\"{SERVICE}\");\n"
        );
    }
    if reaching.has_a2a {
        let _ = write!(
            text,
            "\n// Agents of others, as a2a in weir.yaml names them.\n@id(\"a2a\")\npermit ({group}, action in Action::\"a2a\", resource);\n"
        );
    }
    if reaching.no_sockets {
        text.push_str(
            "\n// WebSockets are not carried.\n@id(\"no-sockets\")\nforbid (principal, action == Action::\"web:send\", resource) \
             when { context.method == \"websocket\" };\n",
        );
    }
    for (name, ranges) in &reaching.from {
        let ranges: Vec<String> = ranges
            .iter()
            .map(|range| format!("context.peer.isInRange(ip(\"{range}\"))"))
            .collect();
        let _ = write!(
            text,
            "\n// This agent asks from there alone.\n@id(\"from-{name}\")\nforbid (principal == Agent::\"{name}\", action in Action::\"web\", \
             resource)\n  unless {{ {} }};\n",
            ranges.join(" || ")
        );
    }
    text
}

/// Permits every host, or these, to whoever `principal` is.
fn permit(text: &mut String, name: &str, principal: &str, hosts: Option<&[String]>, unless: &str) {
    let hosts = hosts.filter(|hosts| !hosts.iter().any(|host| host == "*"));
    let Some(hosts) = hosts else {
        let _ = write!(
            text,
            "\n// Every host. Narrow it by name: resource in Domain::\"example.com\"\n@id(\"{name}\")\npermit ({principal}, action in {SITES}, \
             resource){unless};\n"
        );
        return;
    };
    for (number, host) in hosts.iter().enumerate() {
        let (resource, when) = match host.strip_prefix("*.") {
            Some(above) => (format!("resource in Domain::\"{above}\""), String::new()),
            None => (
                "resource is Site".to_owned(),
                format!("\n  when {{ resource.host == \"{host}\" }}"),
            ),
        };
        let _ = write!(
            text,
            "\n@id(\"{name}-{number}\")\npermit ({principal}, action in {SITES}, {resource}){when}{unless};\n"
        );
    }
}
