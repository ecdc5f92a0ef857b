"""`weir init --from pipelock`: configurations of Pipelock as its documentation has them, written for these tests; what is made of
them can be served and does the same."""

import json
import socket
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import requests

from gateway import WEIR, until

CANARY = "canary-" + "0f3b6a1d9c"
# The shapes are those of Pipelock's presets and reference; the values are ours.
BALANCED = """\
# The configuration of a team.
version: 1
mode: balanced

api_allowlist:
  - "*.acme.example"
  - "api.other.example"

fetch_proxy:
  listen: "127.0.0.1:8888"
  timeout_seconds: 30
  max_response_mb: 10
  user_agent: "acme/1.0"
  monitoring:
    max_url_length: 2048
    entropy_threshold: 4.5
    max_requests_per_minute: 60
    blocklist:
      - "*.paste.example"
      - "*.acme.example"
    subdomain_entropy_exclusions: ["api.other.example"]

forward_proxy:
  enabled: true
  max_tunnel_seconds: 300
  idle_timeout_seconds: 120
  sni_verification: true

tls_interception:
  enabled: true
  ca_cert: /etc/pipelock/ca.pem
  ca_key: /etc/pipelock/ca-key.pem
  passthrough_domains: ["*.pinned.example"]
  cert_ttl: 24h

request_body_scanning:
  enabled: true
  action: warn
  max_body_bytes: 5242880
  scan_headers: true
  header_mode: sensitive
  sensitive_headers: [Authorization, Cookie]

websocket_proxy:
  enabled: true
  max_message_bytes: 1048576
  max_concurrent_connections: 128
  scan_text_frames: true
  allow_binary_frames: false
  origin_policy: rewrite

dlp:
  scan_env: true
  include_defaults: false
  patterns:
    - name: "Anthropic API Key"
      regex: 'sk-ant-[a-zA-Z0-9\\-_]{10,}'
      severity: critical
    - name: "Badge"
      regex: 'ACME-[0-9]{6,}'
      severity: high
      exempt_domains: ["hr.acme.example"]
    - name: "Word"
      regex: '[a-z]+'
      severity: low

canary_tokens:
  enabled: true
  tokens:
    - { name: aws, value: "CANARY" }

response_scanning:
  enabled: true
  action: warn
  patterns:
    - name: "New Instructions"
      regex: '(?i)(new|updated|revised)\\s+(instructions|directives|rules|prompt)'
    - name: "House Word"
      regex: '(?i)open\\s+sesame\\s+now'

mcp_tool_scanning: { enabled: true, action: warn, detect_drift: true }
tool_chain_detection: { enabled: true, action: warn, window_size: 20 }
session_profiling: { enabled: false }
adaptive_enforcement: { enabled: true, escalation_threshold: 5.0 }
flight_recorder: { enabled: true, dir: /var/lib/pipelock }
kill_switch: { enabled: false, sentinel_file: /tmp/stop, api_token: hunter2-token }
logging: { format: json, output: stdout, include_allowed: true }
metrics_listen: "127.0.0.1:9090"
internal: ["10.0.0.0/8"]
trusted_domains: ["wiki.internal"]
agents:
  ci:
    mode: strict
    api_allowlist: ["registry.example"]
    budget: { max_requests_per_session: 100 }
""".replace("CANARY", CANARY)


def init(folder, text, *more):
    (folder / "pipelock.yaml").write_text(text)
    command = [str(WEIR), "init", "--from", "pipelock", "pipelock.yaml", "new", *more]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60)


def weir(folder, *arguments):
    return subprocess.run([str(WEIR), *arguments], cwd=folder, capture_output=True, text=True, timeout=60)


def taken(folder, text):
    done = init(folder, text, "--json")
    assert done.returncode == 0, done.stderr
    checked = weir(folder, "config", "check", "-c", "new/weir.yaml")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    return json.loads(done.stdout)


def lines(text):
    return text.splitlines()


def test_a_configuration_is_taken_over_and_each_key_is_told(tmp_path):
    said = taken(tmp_path, BALANCED)
    told = {kind: {one["key"]: one for one in said[kind]} for kind in ("taken", "otherwise", "without")}
    for kind, keys in {
        "taken": ["mode", "fetch_proxy.listen", "fetch_proxy.timeout_seconds", "fetch_proxy.monitoring.blocklist", "dlp.patterns[0]",
                  "dlp.patterns[1]", "response_scanning.action", "websocket_proxy.origin_policy", "tls_interception.enabled",
                  "agents.ci.mode", "trusted_domains", "canary_tokens.tokens[0]", "mcp_tool_scanning.detect_drift"],
        "otherwise": ["forward_proxy.enabled", "tls_interception.ca_cert", "request_body_scanning.action", "dlp.include_defaults",
                      "metrics_listen", "kill_switch.sentinel_file"],
        "without": ["dlp.patterns[2]", "dlp.scan_env", "fetch_proxy.monitoring.entropy_threshold", "session_profiling", "adaptive_enforcement",
                    "flight_recorder", "kill_switch.api_token", "internal", "agents.ci.budget", "tls_interception.cert_ttl",
                    "request_body_scanning.sensitive_headers", "tool_chain_detection.window_size"],
    }.items():
        missing = [key for key in keys if key not in told[kind]]
        assert not missing, (kind, missing, sorted(told[kind]))
    # The line of each is that of the file.
    for kind in told.values():
        for key, one in kind.items():
            last = key.split(".")[-1].split("[")[0]
            assert last in lines(BALANCED)[one["line"] - 1] or "[" in key, one
    everything = json.dumps(said) + (tmp_path / "new/weir.yaml").read_text()
    assert "hunter2" not in everything and CANARY not in everything
    assert (tmp_path / "new/canaries.txt").read_text() == f"{CANARY}\n"
    assert (tmp_path / "new/canaries.txt").stat().st_mode & 0o777 == 0o600
    assert sorted(said["keys"]) == ["ci"]


def judged(folder, url, agent="ci", method="GET"):
    done = weir(folder, "web", "check", "-c", "new/weir.yaml", "--agent", agent, "--method", method, url)
    return done.returncode, done.stdout


def test_what_is_made_of_it_judges_as_it_did(tmp_path):
    taken(tmp_path, BALANCED + "  free: {}\n")
    for url, agent, word in [
        ("https://registry.example/x", "ci", "yes  policy"), ("https://other.example/x", "ci", "no   policy"),
        ("https://other.example/x", "free", "yes  policy"), ("https://x.paste.example/", "free", "url_blocked"),
        ("https://acme.example/", "free", "nothing is found"),
        ("https://other.example/?badge=ACME-1234567", "free", "pipelock_badge"),
        (f"https://other.example/?x={CANARY}", "free", "canary")]:
        _, said = judged(tmp_path, url, agent)
        assert word in said, (url, said)
    show = weir(tmp_path, "config", "show", "-c", "new/weir.yaml").stdout
    assert "idle_ms: 120000" in show and "origin: replace" in show and "'*.pinned.example'" in show.replace('"', "'")


STRICT = "mode: strict\napi_allowlist: ['*.acme.example', api.other.example]\nfetch_proxy: { listen: ':8888' }\n"


def test_strict_is_an_allow_list(tmp_path):
    said = taken(tmp_path, STRICT)
    assert "127.0.0.1:8888" in (tmp_path / "new/weir.yaml").read_text()
    assert [one["key"] for one in said["otherwise"]] == ["fetch_proxy.listen"]
    for url, passes in [("https://a.acme.example/", True), ("https://acme.example/", True), ("https://api.other.example/", True),
                        ("https://x.api.other.example/", False), ("https://notacme.example/", False)]:
        _, text = judged(tmp_path, url, "agent")
        assert ("yes  policy" in text) == passes, text
    # WebSockets are off there unless they are switched on.
    assert "no-sockets" in (tmp_path / "new/policy.cedar").read_text()


@pytest.mark.parametrize("text", ["mode: audit\n", "enforce: false\n"])
def test_audit_observes(tmp_path, text):
    taken(tmp_path, text)
    assert "mode: \"observe\"" in (tmp_path / "new/weir.yaml").read_text()


def test_a_file_of_secrets_is_referred_to(tmp_path):
    (tmp_path / "secrets.txt").write_text("# ours\nvalue-of-a-secret-000001\n")
    (tmp_path / "secrets.txt").chmod(0o600)
    said = taken(tmp_path, "dlp: { secrets_file: secrets.txt }\n")
    assert [one["key"] for one in said["taken"]] == ["dlp.secrets_file"]
    assert "no   scan" in judged(tmp_path, "https://a.example/?x=value-of-a-secret-000001", "agent")[1]
    (tmp_path / "secrets.txt").write_text("short\n")
    other = tmp_path / "other"
    other.mkdir()
    (other / "secrets.txt").write_text("short\n")
    assert "line 1" in taken(other, "dlp: { secrets_file: secrets.txt }\n")["without"][0]["what"]


@pytest.mark.parametrize(("text", "word"), [
    ("a: [1\nb: 2", "line 2"), ("- a\n", "no map"), ("a: &x 1\nb: *x\n", "anchors"), ("a: 1\n---\nb: 2\n", "one YAML document"),
    ("x" * (2 << 20), "larger")])
def test_what_is_no_configuration_is_told_and_nothing_is_written(tmp_path, text, word):
    done = init(tmp_path, text)
    assert done.returncode == 2 and word in done.stderr and not (tmp_path / "new").exists(), done.stderr


def test_a_second_time_changes_nothing(tmp_path):
    assert init(tmp_path, STRICT).returncode == 0
    before = (tmp_path / "new/weir.yaml").read_text()
    done = init(tmp_path, STRICT)
    assert done.returncode == 2 and "there already" in done.stderr and (tmp_path / "new/weir.yaml").read_text() == before


def test_a_text_for_people(tmp_path):
    done = init(tmp_path, BALANCED)
    assert done.returncode == 0 and done.stdout.count("shown once") == 1
    for word in ("taken over:", "otherwise here:", "no counterpart:", "next:  weir config check -c new/weir.yaml"):
        assert word in done.stdout, done.stdout


BEHIND = """\
version: 1
mode: strict
fetch_proxy: { listen: "127.0.0.1:PORT1" }
reverse_proxy: { enabled: true, listen: ":PORT2", upstream: "http://127.0.0.1:UPSTREAM" }
a2a_scanning: { enabled: true, action: block, scan_agent_cards: true, detect_card_drift: true, session_smuggling_detection: true,
                max_context_messages: 100, scan_raw_parts: true, max_raw_size: 1048576 }
"""


def free_ports(number):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(number)]
    ports = [made.getsockname()[1] for made in sockets]
    for made in sockets:
        made.close()
    return ports


def test_the_reverse_proxy_serves_and_agents_of_others_can_be_named(tmp_path):
    class Wiki(BaseHTTPRequestHandler):
        def do_GET(self):
            body = json.dumps({"path": self.path, "fields": dict(self.headers)}).encode()
            self.send_response(200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    wiki = ThreadingHTTPServer(("127.0.0.1", 0), Wiki)
    threading.Thread(target=wiki.serve_forever, daemon=True).start()
    ports = free_ports(2)
    text = BEHIND.replace("PORT1", str(ports[0])).replace("PORT2", str(ports[1])).replace("UPSTREAM", str(wiki.server_port))
    said = taken(tmp_path, text)
    told = {kind: {one["key"]: one["what"] for one in said[kind]} for kind in ("taken", "otherwise", "without")}
    assert {"reverse_proxy.upstream", "a2a_scanning.action", "a2a_scanning.detect_card_drift", "a2a_scanning.scan_raw_parts"} <= set(told["taken"])
    assert {"reverse_proxy.enabled", "reverse_proxy.listen", "a2a_scanning.enabled"} <= set(told["otherwise"])
    assert set(told["without"]) == {"a2a_scanning.max_context_messages", "a2a_scanning.max_raw_size"}
    key, = said["keys"].values()
    serving = subprocess.Popen([str(WEIR), "serve", "-c", "new/weir.yaml"], cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        def asks(**headers):
            try:
                return requests.get(f"http://127.0.0.1:{ports[1]}/a/page", headers=headers, timeout=10)
            except requests.ConnectionError:
                return None
        answer = until(lambda: asks(authorization=f"Bearer {key}"), "the reverse proxy")
        assert answer.status_code == 200 and answer.json()["path"] == "/a/page" and key not in answer.text
        assert asks().status_code in (401, 407)
    finally:
        serving.terminate()
        serving.wait(20)
        wiki.shutdown()
    # The lines at the end of what was written name an agent of others.
    config = tmp_path / "new/weir.yaml"
    config.write_text(config.read_text().replace("# a2a:", "a2a:").replace("#   helper", "  helper"))
    checked = weir(tmp_path, "config", "check", "-c", "new/weir.yaml")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "helper.example" in weir(tmp_path, "config", "show", "-c", "new/weir.yaml").stdout
    # In strict mode the service may be asked, and no site.
    assert "no   policy" in judged(tmp_path, "https://a.example/", "agent")[1]
