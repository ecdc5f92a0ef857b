//! Taking over what another relay was told: from the environment of an MTE Relay to the text of a configuration that
//! does the same.
//!
//! Read from the public usage guides of MTE Relay Server and MTE API Relay (releases 4.x), which share these
//! variables. What has no counterpart is said, with the reason; nothing is dropped in silence, and no secret of the
//! file is printed or written: weir knows its peers by keys of their own.

use std::fmt::Write;

use base::Name;
use serde_json::Value;

/// Most bytes of such a file.
pub const FILE_BYTES_MAX: usize = 64 << 10;
/// Most variables of it.
const VARIABLES_MAX: usize = 256;
/// Most bytes of a variable's name.
const NAME_BYTES_MAX: usize = 128;
/// The port of a relay that names none.
const PORT_DEFAULT: u16 = 8080;

/// Variables without a counterpart, and why.
const WITHOUT: &[(&str, &str)] = &[
    (
        "CLIENT_ID_SECRET",
        "it signs client ids; weir knows peers by their keys, under relay.inbound.allow",
    ),
    (
        "REDIS_URL",
        "pairings are shared there; weir's sessions are sealed tickets, and instances share a file of ticket keys (relay.inbound.ticket_keys)",
    ),
    (
        "CORS_ORIGINS",
        "it is for browsers; a weir is before a service, and Origin and the origin's own CORS fields pass through sealed",
    ),
    (
        "CORS_METHODS",
        "as CORS_ORIGINS; every method passes through but CONNECT",
    ),
    (
        "HEADERS",
        "weir changes no message; set these fields at the origin, or in the proxy before it",
    ),
    (
        "MAX_POOL_SIZE",
        "there are no encoders to keep; limits.connections_max bounds what is open at once",
    ),
    ("LICENSE_COMPANY", "weir needs no licence key"),
    ("LICENSE_KEY", "weir needs no licence key"),
    (
        "SECRET",
        "it signs what instances share; weir's ticket keys do that (relay.inbound.ticket_keys)",
    ),
];

/// What became of a file.
pub struct Taken {
    /// The configuration; `@HASH@` stands for the hash of the key of [`AGENT`].
    pub config: String,
    pub policy: &'static str,
    /// Whether it was a sender too, so that a key for its callers is needed.
    pub outbound: bool,
    /// Variables that were taken over, and as what.
    pub as_what: Vec<(String, String)>,
    /// Variables that were not, and why.
    pub not: Vec<(String, String)>,
}

/// The agent that callers of the outbound are.
pub const AGENT: &str = "app";

const POLICY: &str = "\
// Whoever is enrolled may call what the relay has a route for. Narrow it by name:
// permit (principal == Agent::\"app\", action == Action::\"relay:pass\", resource == Server::\"api\");
@id(\"relay\")
permit (principal, action == Action::\"relay:pass\", resource);
";

/// Where opened requests go: a name, a URL, and the hosts that it is for.
struct Origin {
    name: Name,
    url: Url,
    host: Option<String>,
}

/// A URL, as whoever reads configurations reads one.
pub struct Url {
    /// Scheme, host and port, as one writes them.
    pub origin: String,
    pub host: String,
    pub path: String,
    /// Whether it names this machine.
    pub is_loopback: bool,
}

/// Reads a URL. The error says what is wrong with it, without the text.
type ReadUrl<'r> = &'r dyn Fn(&str) -> Result<Url, String>;

/// Reads the lines of an environment file: `NAME=VALUE`, with quotes or without. No error repeats a value.
pub fn mte(text: &str, read_url: ReadUrl<'_>) -> Result<Taken, String> {
    let variables = variables(text)?;
    let mut taken = Taken {
        config: String::new(),
        policy: POLICY,
        outbound: false,
        as_what: Vec::new(),
        not: Vec::new(),
    };
    let get = |name: &str| {
        let found = variables.iter().rev().find(|(known, _)| known == name);
        found
            .map(|(_, value)| value.as_str())
            .filter(|value| !value.is_empty())
    };
    let origins = taken.origins(get("UPSTREAM"), get("DOMAIN_MAP"), read_url)?;
    let port = match get("PORT") {
        Some(port) => port
            .parse()
            .ok()
            .filter(|port: &u16| *port > 0)
            .ok_or("PORT is no port")?,
        None => PORT_DEFAULT,
    };
    taken.took("PORT", "relay.inbound.listen", get("PORT").is_some());
    let routes = taken.routes(&origins, get("MTE_ROUTES"));
    let debug = get("DEBUG").is_some_and(|value| value.eq_ignore_ascii_case("true"));
    taken.took("DEBUG", "logs.level", get("DEBUG").is_some());
    taken.outbound = get("OUTBOUND_TOKEN").is_some();
    let as_agent =
        format!("relay.outbound, where callers show the key of the agent {AGENT} in its place");
    taken.took("OUTBOUND_TOKEN", &as_agent, taken.outbound);
    if let Some(paths) = get("PASS_THROUGH_ROUTES") {
        let why = format!(
            "an inbound takes sealed requests only: have the proxy before it send {} straight to the origin, or an \
             outbound leave them unsealed with relay.outbound.routes",
            shown(paths)
        );
        taken.not.push(("PASS_THROUGH_ROUTES".to_owned(), why));
    }
    taken.rest(&variables);
    taken.config = config(&origins, &routes, port, debug, taken.outbound);
    Ok(taken)
}

impl Taken {
    fn took(&mut self, name: &str, what: &str, is_there: bool) {
        if is_there {
            self.as_what.push((name.to_owned(), what.to_owned()));
        }
    }

    fn origins(
        &mut self,
        upstream: Option<&str>,
        domains: Option<&str>,
        read_url: ReadUrl<'_>,
    ) -> Result<Vec<Origin>, String> {
        let mut origins = Vec::new();
        if let Some(domains) = domains {
            let map: Value = serde_json::from_str(domains).map_err(|_| "DOMAIN_MAP is not JSON")?;
            let map = map.as_object().ok_or("DOMAIN_MAP is no JSON object")?;
            for (host, domain) in map {
                let name = Name::new(host).ok_or("DOMAIN_MAP has a host that is none")?;
                let url = domain.get("upstream").and_then(Value::as_str);
                let url = url.ok_or_else(|| format!("DOMAIN_MAP: {host} has no upstream"))?;
                let url = self.url("DOMAIN_MAP", url, read_url)?;
                let host = Some(host.clone());
                origins.push(Origin { name, url, host });
            }
            self.took("DOMAIN_MAP", "relay.inbound.origins and routes", true);
        }
        if let Some(upstream) = upstream {
            let url = self.url("UPSTREAM", upstream, read_url)?;
            let name = Name::new("api").expect("a word is a name");
            origins.push(Origin {
                name,
                url,
                host: None,
            });
            self.took("UPSTREAM", "relay.inbound.origins", true);
        }
        match origins.is_empty() {
            true => Err("has neither UPSTREAM nor DOMAIN_MAP, so there is no origin".to_owned()),
            false => Ok(origins),
        }
    }

    fn url(&mut self, variable: &str, text: &str, read_url: ReadUrl<'_>) -> Result<Url, String> {
        // An address or a name alone is allowed there.
        let whole = match text.contains("://") {
            true => text.to_owned(),
            false => format!("http://{text}"),
        };
        let url = read_url(&whole).map_err(|wrong| format!("{variable} {wrong}"))?;
        if url.path != "/" {
            let why = format!(
                "its path {} is left out: weir keeps the path of the request, so have callers or the origin add it",
                shown(&url.path)
            );
            self.not.push((variable.to_owned(), why));
        }
        Ok(url)
    }

    /// Routes of the inbound; empty where everything goes to the one origin.
    fn routes(&mut self, origins: &[Origin], mte_routes: Option<&str>) -> Vec<String> {
        let mut paths = Vec::new();
        for path in mte_routes
            .unwrap_or("")
            .split(',')
            .map(str::trim)
            .filter(|path| !path.is_empty())
        {
            let stem = path
                .strip_suffix("/*")
                .or(path.strip_suffix('*'))
                .unwrap_or(path);
            let stem = if stem.is_empty() { "/" } else { stem };
            let plain = |b: u8| b.is_ascii_alphanumeric() || b"/-._~%".contains(&b);
            match stem.starts_with('/') && stem.bytes().all(plain) {
                true => paths.push(stem.to_owned()),
                false => self.not.push((
                    "MTE_ROUTES".to_owned(),
                    format!(
                        "{} is no path with a * at its end; write the route by hand",
                        shown(path)
                    ),
                )),
            }
        }
        self.took("MTE_ROUTES", "relay.inbound.routes", !paths.is_empty());
        if paths.is_empty() && origins.len() == 1 && origins[0].host.is_none() {
            return Vec::new();
        }
        if paths.is_empty() {
            paths.push("/".to_owned());
        }
        let mut routes = Vec::new();
        for origin in origins {
            let host = origin
                .host
                .as_ref()
                .map(|host| format!("host: {host}, "))
                .unwrap_or_default();
            for path in &paths {
                routes.push(format!("{{ {host}path: {path}, origin: {} }}", origin.name));
            }
        }
        routes
    }

    /// The variables that have no counterpart, and those that nobody knows.
    fn rest(&mut self, variables: &[(String, String)]) {
        for (name, value) in variables {
            let told = |list: &[(String, String)]| list.iter().any(|(known, _)| known == name);
            if told(&self.as_what) || told(&self.not) || value.is_empty() {
                continue;
            }
            let known = WITHOUT.iter().find(|(known, _)| known == name);
            let why = known.map_or("no variable of MTE Relay that is known here", |(_, why)| {
                why
            });
            self.not.push((name.clone(), why.to_owned()));
        }
    }
}

fn variables(text: &str) -> Result<Vec<(String, String)>, String> {
    let mut variables = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let line = line.trim();
        let line = line.strip_prefix("export ").unwrap_or(line).trim_start();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let pair = line
            .split_once('=')
            .filter(|(name, _)| is_variable(name.trim()));
        let (name, value) =
            pair.ok_or_else(|| format!("line {}: this is not NAME=VALUE", at + 1))?;
        if variables.len() == VARIABLES_MAX {
            return Err(format!("has more than {VARIABLES_MAX} variables"));
        }
        variables.push((name.trim().to_owned(), unquoted(value.trim()).to_owned()));
    }
    Ok(variables)
}

/// Whether a text can name a variable of the environment.
fn is_variable(name: &str) -> bool {
    let word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    let begins = name.bytes().next().is_some_and(|b| !b.is_ascii_digit());
    begins && name.len() <= NAME_BYTES_MAX && name.bytes().all(word)
}

/// A value without its quotes, or without the comment behind it.
fn unquoted(value: &str) -> &str {
    for quote in ['\'', '"'] {
        if let Some(rest) = value.strip_prefix(quote) {
            // A quote that is not closed is a slip of the file, and what follows it the value.
            return rest.split_once(quote).map_or(rest, |(value, _)| value);
        }
    }
    value
        .split_once(" #")
        .map_or(value, |(value, _)| value.trim_end())
}

/// A value of the file for a message: short and without control characters.
fn shown(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(200).collect()
}

fn config(origins: &[Origin], routes: &[String], port: u16, debug: bool, outbound: bool) -> String {
    let mut text = format!(
        "# weir: the sealed relay that an MTE Relay's environment described.\n\
         #\n# Check this file:  weir config check\n# The guide:        docs/relay.md\n\n\
         # Health and metrics. The relay listens by itself, below.\n\
         listen: 127.0.0.1:8700\nstate: ./state\npolicy: policy.cedar\n\n\
         relay:\n  # What was the receiving MTE Relay.\n  inbound:\n    listen: 0.0.0.0:{port}\n    \
         keys: file:inbound.key\n    origins:\n"
    );
    for origin in origins {
        let (name, url) = (&origin.name, &origin.url.origin);
        let private = origin.url.host.parse::<std::net::IpAddr>();
        let private = private.ok().filter(|_| !origin.url.is_loopback);
        let addresses = private
            .map(|address| format!(", addresses: [\"{address}\"]"))
            .unwrap_or_default();
        let _ = writeln!(text, "      {name}: {{ url: \"{url}\"{addresses} }}");
    }
    if private_name(origins) {
        text.push_str(
            "      # A name that resolves to a private address needs: addresses: [10.0.0.0/8]\n",
        );
    }
    if !routes.is_empty() {
        text.push_str("    routes:\n");
        for route in routes {
            let _ = writeln!(text, "      - {route}");
        }
    }
    text.push_str(
        "    # Who may call: the public key of each outbound, as weir relay keygen made it there.\n    \
         allow: {}\n    #  app: { key: file:outbound.key.pub }\n    \
         # Several instances need the same ticket keys: weir relay keygen --tickets tickets, once an hour.\n    \
         # ticket_keys: file:tickets\n",
    );
    if outbound {
        text.push_str(
            "\n  # What was the sending MTE Relay: name the inbound, and take the # away.\n  # outbound:\n  \
             #   listen: 127.0.0.1:8701\n  #   key: file:outbound.key\n  \
             #   peers: { east: { url: \"https://east.example\", keys: file:east.pub } }\n\n\
             # Who may call the outbound. It was known by OUTBOUND_TOKEN.\nagents:\n  \
             app: { key: sha256:@HASH@ }\n",
        );
    }
    if debug {
        text.push_str("\nlogs: { level: debug }\n");
    }
    text
}

fn private_name(origins: &[Origin]) -> bool {
    let named = |origin: &Origin| origin.url.host.parse::<std::net::IpAddr>().is_err();
    origins
        .iter()
        .any(|origin| named(origin) && !origin.url.is_loopback)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FULL: &str = "\
# The example of the guide.
UPSTREAM='https://api.my-company.com'
CLIENT_ID_SECRET='2DkV4DDabehO8cifDktdF9elKJL0CKrk'
CORS_ORIGINS='https://www.my-company.com,https://dashboard.my-company.com'
REDIS_URL='redis://:hunter2@10.0.1.230:6379'
PORT=3000
DEBUG=true
PASS_THROUGH_ROUTES='/health,/version'
MTE_ROUTES='/api/v1/*,/api/v2/*'
CORS_METHODS='GET,POST,DELETE'
HEADERS='{\"x-service-name\":\"mte-relay\"}'
MAX_POOL_SIZE=10
OUTBOUND_TOKEN='abcdefg1234567`
export SOMETHING=else # ours
";

    /// The URL of the file, which is a good one.
    fn url(text: &str) -> Result<Url, String> {
        Ok(Url {
            origin: text.to_owned(),
            host: "api.my-company.com".to_owned(),
            path: "/".to_owned(),
            is_loopback: false,
        })
    }

    #[test]
    fn each_variable_is_taken_over_or_told_of() {
        let taken = mte(FULL, &url).unwrap();
        let took: Vec<&str> = taken
            .as_what
            .iter()
            .map(|(name, _)| name.as_str())
            .collect();
        assert_eq!(
            took,
            ["UPSTREAM", "PORT", "MTE_ROUTES", "DEBUG", "OUTBOUND_TOKEN"]
        );
        let not: Vec<&str> = taken.not.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(
            not,
            [
                "PASS_THROUGH_ROUTES",
                "CLIENT_ID_SECRET",
                "CORS_ORIGINS",
                "REDIS_URL",
                "CORS_METHODS",
                "HEADERS",
                "MAX_POOL_SIZE",
                "SOMETHING"
            ]
        );
        for line in [
            "listen: 0.0.0.0:3000",
            "path: /api/v1, origin: api",
            "level: debug",
            "@HASH@",
        ] {
            assert!(taken.config.contains(line), "{line}: {}", taken.config);
        }
        let all = format!("{} {:?} {:?}", taken.config, taken.as_what, taken.not);
        for secret in ["2DkV4", "hunter2", "abcdefg"] {
            assert!(!all.contains(secret), "{secret}");
        }
    }
}
