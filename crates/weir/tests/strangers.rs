//! Tries every route as a stranger: the real binary, no key, wrong keys, an expired one.
//!
//! The routes are read from `docs/reference/routes.md`, which another test holds to the code's table, so a
//! new route is tried the day that it is added; one that this test does not know what to expect of fails.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A running gateway, ended with the test.
struct Gateway {
    child: Child,
    address: String,
    /// Where the operator's pages are.
    admin: String,
    _dir: tempfile::TempDir,
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const EXPIRED: &str = "weir_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

fn start() -> Gateway {
    let dir = tempfile::tempdir().expect("a folder");
    let (hash, operator) = (sha256_hex(EXPIRED), sha256_hex("operator"));
    let config = format!(
        "listen: 127.0.0.1:0\nadmin: {{ listen: 127.0.0.1:0, key: \"sha256:{operator}\" }}\nstate: ./state\nlogs: {{ format: json }}\nidentity: {{ trust_domain: example.org }}\npolicy: policy.cedar\nlimits: {{ strangers_per_minute: 100000 }}\n\
         agents:\n  old: {{ key: \"sha256:{hash}\", expires: 2020-01-01T00:00:00Z }}\n\
         mcp:\n  files: {{ url: \"http://127.0.0.1:9/mcp\" }}\n"
    );
    std::fs::write(dir.path().join("weir.yaml"), config).expect("weir.yaml");
    let policy = "permit(principal, action, resource);\n";
    std::fs::write(dir.path().join("policy.cedar"), policy).expect("policy.cedar");
    let mut child = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["serve", "-c"])
        .arg(dir.path().join("weir.yaml"))
        .stderr(Stdio::piped())
        .spawn()
        .expect("weir starts");
    let mut lines = BufReader::new(child.stderr.take().expect("stderr")).lines();
    let (mut seen, mut admin) = (String::new(), String::new());
    let address = loop {
        let line = lines
            .next()
            .unwrap_or_else(|| panic!("weir ended: {seen}"))
            .expect("a line");
        let json: serde_json::Value = serde_json::from_str(&line).unwrap_or_default();
        let address = json["address"].as_str().unwrap_or_default().to_owned();
        match json["message"].as_str() {
            Some("listening") => break address,
            Some("pages for the operator") => admin = address,
            _ => {}
        }
        seen.push_str(&line);
    };
    std::thread::spawn(move || lines.for_each(drop));
    Gateway {
        child,
        address,
        admin,
        _dir: dir,
    }
}

fn sha256_hex(text: &str) -> String {
    use sha2::Digest;
    base::hex::encode(&sha2::Sha256::digest(text))
}

/// The status and the body of one request.
fn ask(gateway: &Gateway, method: &str, path: &str, authorization: Option<&str>) -> (u16, String) {
    ask_as(gateway, "localhost", method, path, authorization)
}

/// The same, of a host with this name.
fn ask_as(
    gateway: &Gateway,
    host: &str,
    method: &str,
    path: &str,
    authorization: Option<&str>,
) -> (u16, String) {
    ask_at(&gateway.address, host, method, path, authorization)
}

/// The same, of a listener at this address.
fn ask_at(
    address: &str,
    host: &str,
    method: &str,
    path: &str,
    authorization: Option<&str>,
) -> (u16, String) {
    let mut stream = TcpStream::connect(address).expect("weir listens");
    stream
        .set_read_timeout(Some(Duration::from_secs(10)))
        .expect("a timeout");
    let field = authorization
        .map(|a| format!("Authorization: {a}\r\n"))
        .unwrap_or_default();
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: {host}\r\n{field}Content-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{body}",
        body.len()
    )
    .expect("the request is sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    let status = answer
        .split(' ')
        .nth(1)
        .and_then(|s| s.parse().ok())
        .expect("a status");
    (status, answer)
}

/// Template and who may ask, for each row of the routes' page.
fn routes() -> Vec<(String, String)> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/routes.md");
    let page = std::fs::read_to_string(page).expect("docs/reference/routes.md");
    let rows = page.lines().filter(|line| line.starts_with("| `/"));
    rows.map(|row| {
        let mut cells = row.trim_matches('|').split('|').map(str::trim);
        let template = cells
            .next()
            .unwrap_or_default()
            .trim_matches('`')
            .to_owned();
        (template, cells.nth(1).unwrap_or_default().to_owned())
    })
    .collect()
}

#[test]
fn every_route_refuses_strangers_unless_its_row_says_why_not() {
    let gateway = start();
    let unknown = format!("Bearer weir_{}", "B".repeat(42) + "A");
    let expired = format!("Bearer {EXPIRED}");
    let strangers: &[(Option<&str>, &str)] = &[
        (None, "agent.key_missing"),
        (Some("Basic dXNlcjpwYXNz"), "agent.key_m"),
        (Some("Bearer nonsense"), "agent.key_malformed"),
        (Some(&unknown), "agent.key_unknown"),
        (Some(&expired), "agent.key_expired"),
    ];
    let routes = routes();
    assert!(routes.len() >= 5, "the page of routes has rows: {routes:?}");
    for (template, open) in &routes {
        let path = template.replace('*', "files");
        for listener in [&gateway.address, &gateway.admin] {
            let (status, answer) = ask_at(listener, "evil.example", "GET", &path, None);
            assert_eq!(status, 403, "{answer}");
            assert!(answer.contains("http.host"), "{answer}");
        }
        // A server that is configured and one that is not look the same from outside.
        for name in ["files", "nosuch"] {
            let path = template.replace('*', name);
            for method in ["GET", "POST", "DELETE", "PUT"] {
                for (authorization, code) in strangers {
                    let (status, answer) = ask(&gateway, method, &path, *authorization);
                    let what = format!("{method} {path} {authorization:?}: {answer}");
                    match open.as_str() {
                        "agents" => {
                            assert_eq!(status, 401, "{what}");
                            assert!(answer.contains(code), "{what}");
                            assert!(answer.contains("www-authenticate: Bearer"), "{what}");
                        }
                        "everyone" if method == "GET" => {
                            assert!(matches!(status, 200 | 503), "{what}");
                        }
                        "everyone" => assert_eq!(status, 405, "{what}"),
                        "applicants" => {
                            assert!((400..500).contains(&status), "{what}");
                        }
                        "the operator, at the admin listener" => {
                            assert_eq!(status, 404, "{what}");
                            let at = &gateway.admin;
                            let (status, answer) =
                                ask_at(at, "localhost", method, &path, *authorization);
                            assert_eq!(status, 401, "{answer}");
                            assert!(answer.contains("admin.key"), "{answer}");
                        }
                        other => panic!("{template} is open to {other}: what is to be expected?"),
                    }
                }
            }
        }
    }
    for listener in [&gateway.address, &gateway.admin] {
        let (status, answer) = ask_at(listener, "localhost", "GET", "/nothing/here", None);
        assert_eq!(status, 404, "{answer}");
    }
    let (status, answer) = ask_at(&gateway.admin, "localhost", "POST", "/mcp/files", None);
    assert_eq!(status, 404, "{answer}");
    let key = Some("Bearer operator");
    let (status, answer) = ask_at(&gateway.admin, "localhost", "GET", "/metrics", key);
    assert_eq!(status, 200, "{answer}");
}
