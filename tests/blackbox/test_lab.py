"""The lab as a user has it: its commands, their answers, and servers that others wrote."""

import http.server
import json
import os
import re
import resource
import signal
import socket
import subprocess
import threading
import urllib.request

import pytest

from gateway import ROOT, WEIR, until

NODE = """
const http = require('http');
let requests = 0;
const server = http.createServer((request, response) => {
  if (request.url === '/count') { response.end(String(requests)); return; }
  requests += 1;
  let body = [];
  request.on('data', part => body.push(part));
  request.on('end', () => response.end(Buffer.concat(body).length ? Buffer.concat(body) : 'hello'));
});
server.keepAliveTimeout = 0;
server.listen(0, '127.0.0.1', () => console.log(server.address().port));
"""


def lab(*words, codes=(0,), **more):
    """Runs `weir lab`; gives what it printed. Codes 91 to 94 speak of the machine and may come on a busy one."""
    done = subprocess.run([WEIR, "lab", *words], capture_output=True, text=True, timeout=120, **more)
    assert done.returncode in codes, f"{done.returncode}: {done.stdout}{done.stderr}"
    return done


def load(*words, codes=(0, 91, 92, 93, 94), **more):
    return json.loads(lab("load", *words, "--json", "--quiet", codes=codes, **more).stdout)


@pytest.fixture
def target():
    """Starts the built-in servers; gives a function from flags to a URL."""
    started = []

    def start(*words, env=None):
        command = [WEIR, "lab", "target", "--listen", "127.0.0.1:0", "--json", *words]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env)
        started.append(process)
        line = process.stdout.readline()
        address = json.loads(line)["listening"]
        return address if "://" in address else f"http://{address}"

    yield start
    for process in started:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=20)


@pytest.fixture
def node():
    """A server that counts, in another language and by other people."""
    process = subprocess.Popen(["node", "-e", NODE], stdout=subprocess.PIPE, text=True)
    port = int(process.stdout.readline())
    yield f"http://127.0.0.1:{port}"
    process.kill()
    process.communicate(timeout=20)


def fetch(url):
    with urllib.request.urlopen(url, timeout=10) as answer:
        return answer.read()


@pytest.mark.parametrize("words", [["-c", "16"], ["-R", "500"], ["-c", "4", "--reconnect"],
                                   ["-c", "8", "--unique", "1KB"]], ids=lambda w: " ".join(w))
def test_the_server_counts_the_same(node, words):
    run = load(f"{node}/", "-d", "2s", *words)
    assert run["requests"] == int(fetch(f"{node}/count")) > 0
    assert run["total"]["failed"] == 0


def test_what_is_injected_is_known_exactly(target):
    url = target("--error-every", "503:100")
    run = load(f"{url}/", "-R", "1000", "-d", "2s")
    assert run["requests"] == 2000
    assert run["total"]["errors"] == {"http-5xx": 20}
    counts = json.loads(fetch(f"{url}/lab/counts"))
    assert counts["requests"] >= 2000


def test_one_wrong_byte_is_found(target):
    url = target("--error-every", "corrupt:2000")
    run = load(f"{url}/echo", "-R", "1500", "-d", "2s", "--unique", "1KB", "--expect", "echo", codes=(95,))
    assert run["total"]["errors"] == {"integrity": 1}
    [corrupted] = json.loads(fetch(f"{url}/lab/counts"))["corrupted"]
    [note] = run["notes"]
    assert note["fault"] == "integrity" and note["expected_hex"] != note["received_hex"]
    assert note["offset"] == corrupted["offset"]


def test_nothing_is_executed_twice(target):
    url = target()
    run = load(f"{url}/echo", "-c", "8", "-d", "1s", "--unique", "1KB", "--expect", "echo", "--origin", url)
    assert run["origin"]["distinct"] == run["requests"] > 0
    assert run["origin"]["duplicates"] == 0


@pytest.mark.parametrize("words", [["-c", "4"], ["-c", "4", "--http2"], ["-R", "300", "--http2", "--streams", "8"]],
                         ids=lambda w: " ".join(w))
def test_tls(target, tmp_path, words):
    ca = tmp_path / "ca.pem"
    url = target("--tls", "--tls-ca-out", str(ca))
    run = load(f"{url}/", "-d", "1s", "--ca", str(ca), *words)
    assert run["requests"] > 0 and run["total"]["failed"] == 0
    assert run["total"]["latency"]["tls"]["count"] >= 1
    refused = lab("load", f"{url}/", "-d", "1s", codes=(2,))
    assert "certificate" in refused.stderr and "--ca" in refused.stderr


@pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25", "2026-07-28"])
@pytest.mark.parametrize("answers", ["json", "sse"])
def test_mcp(target, revision, answers):
    url = target("--mcp-answers", answers)
    run = load(f"{url}/mcp", "--protocol", "mcp", "--mcp-revision", revision, "--mcp-tool", "echo",
               "--mcp-args", '{"text":"${seq}"}', "-c", "3", "-d", "1s")
    assert run["measured"]["requests"] > 0 and run["total"]["failed"] == 0


class Sessions(http.server.ThreadingHTTPServer):
    """An MCP server that knows which of its sessions are open. It ends the connection with each call of a tool, or holds
    the call for good."""

    daemon_threads = True
    request_queue_size = 256

    def __init__(self, held):
        self.open, self.opened, self.calls, self.lock = set(), 0, 0, threading.Lock()
        self.gate = threading.Event() if held else None
        super().__init__(("127.0.0.1", 0), SessionsHandler)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.gate:
            self.gate.set()
        self.shutdown()
        self.server_close()

    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}/mcp"


class SessionsHandler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, body=b"", **fields):
        self.send_response(status)
        for name, value in {"content-type": "application/json", "content-length": len(body), **fields}.items():
            self.send_header(name.replace("_", "-"), str(value))
        self.end_headers()
        self.wfile.write(body)

    def do_DELETE(self):
        with self.server.lock:
            self.server.open.discard(self.headers["mcp-session-id"])
        self.answer(204 if self.headers["mcp-protocol-version"] else 400)

    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if "id" not in message:
            return self.answer(202)
        fields, result = {}, {"content": [{"type": "text", "text": "done"}]}
        if message["method"] == "initialize":
            with self.server.lock:
                self.server.opened += 1
                fields["mcp_session_id"] = f"session-{self.server.opened}"
                self.server.open.add(fields["mcp_session_id"])
            result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                      "serverInfo": {"name": "sessions", "version": "1"}}
        else:
            with self.server.lock:
                self.server.calls += 1
            if self.server.gate:
                self.server.gate.wait(60)
            fields["connection"] = "close"
        body = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode()
        self.answer(200, body, **fields)


def test_a_run_closes_its_mcp_sessions():
    with Sessions(held=False) as server:
        run = load(server.url(), "--protocol", "mcp", "--mcp-tool", "echo", "-c", "40", "-d", "1s")
        assert run["total"]["failed"] == 0 and server.opened >= 40, (run["total"], server.opened)
        assert not server.open
        # Taking leave is no part of what was measured.
        assert run["total"]["requests"] <= server.calls + server.opened, (run["total"], server.calls)


def test_an_interrupted_run_closes_its_mcp_sessions():
    with Sessions(held=True) as server:
        process = subprocess.Popen([WEIR, "lab", "load", server.url(), "--protocol", "mcp", "--mcp-tool", "echo", "-c", "8",
                                    "-d", "60s", "--quiet"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until(lambda: server.calls == 8, "all places ask")
        process.send_signal(signal.SIGINT)
        process.wait(30)
        assert server.opened == 8 and not server.open


def test_a_tool_that_fails_is_an_error(target):
    run = load(f"{target()}/mcp", "--protocol", "mcp", "--mcp-tool", "fail", "-R", "50", "-d", "1s")
    assert run["total"]["errors"] == {"tool-error": 50}


@pytest.mark.parametrize("protocol, path", [("openai", "/v1/chat/completions"), ("anthropic", "/v1/messages")])
def test_streams_of_tokens(target, protocol, path):
    url = target("--ttft", "50ms", "--tokens-per-second", "200", "--tokens", "20")
    run = load(f"{url}{path}", "--protocol", protocol, "--model", "m", "--prompt", "hi", "-c", "2", "-d", "2s")
    assert run["total"]["failed"] == 0 and run["total"]["tokens"] >= 40
    first = run["measured"]["latency"]["first_token"]
    assert first["min"] >= 50_000, first
    assert run["measured"]["tokens_per_second"]["p50"] <= 220


def test_credentials(target, monkeypatch):
    monkeypatch.setenv("LAB_TOKEN", "a-token-of-the-test")
    url = target("--bearer", "env:LAB_TOKEN")
    assert load(f"{url}/", "-c", "1", "-d", "1s")["total"]["errors"].keys() == {"http-4xx"}
    done = lab("load", f"{url}/", "-c", "1", "-d", "1s", "--bearer", "env:LAB_TOKEN", "--json", codes=(0, 91, 93, 94))
    assert json.loads(done.stdout)["total"]["failed"] == 0
    assert "a-token-of-the-test" not in done.stdout + done.stderr


def test_thresholds(target):
    url = target("--delay", "20ms")
    words = [f"{url}/", "-c", "4", "-d", "5s", "--accept", "noisy-host", "--accept", "generator-bound", "--threshold"]
    good = load(*words, "http_req_duration:p(95)<10s", codes=(0,))
    assert [t["ok"] for t in good["thresholds"]] == [True]
    bad = load(*words, "http_req_duration:p(95)<15", codes=(99,))
    assert [t["ok"] for t in bad["thresholds"]] == [False]
    refused = lab("load", *words, "http_req_durations:p(95)<15", codes=(2,))
    assert "http_req_duration" in refused.stderr and not refused.stdout


def test_a_short_run_says_so(target):
    run = load(f"{target()}/", "-c", "1", "-d", "1s", codes=(91, 93, 94))
    assert any(c["verdict"] == "too-short" and not c["holds"] for c in run["validity"]["criteria"])


def test_an_interrupted_run_says_so(target, tmp_path):
    command = [WEIR, "lab", "load", f"{target()}/", "-c", "2", "-d", "60s", "--json", "--out", str(tmp_path / "run")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    line = process.stderr.readline()  # The first line of progress: the load goes on.
    assert line
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=30)
    run = json.loads(out)
    assert process.returncode == 105
    assert run["meta"]["partial"] and run["validity"]["verdict"] == "interrupted"
    assert json.loads((tmp_path / "run/run.json").read_text())["requests"] == run["requests"]


REFUSED = {
    "nobody listens": (["http://127.0.0.1:1/"], "Connection refused"),
    "no such name": (["http://nobody.invalid/"], "nobody.invalid"),
    "another machine": (["http://192.0.2.1/"], "--i-own-this"),
    "no scheme": (["localhost:80"], "http://"),
    "no hold": (["http://127.0.0.1:9/", "--stage", "hold:0,5s"], "hold"),
    "no time": (["http://127.0.0.1:9/", "-d", "0s"], "duration"),
    "a rate below nothing": (["http://127.0.0.1:9/", "-R", "-5"], "rate"),
    "no certificate": (["https://127.0.0.1:9/", "--ca", "/nowhere/ca.pem"], "/nowhere/ca.pem"),
    "a folder that cannot be": (["http://127.0.0.1:9/", "--out", "/proc/nowhere"], "/proc/nowhere"),
    "a literal secret": (["http://127.0.0.1:9/", "--bearer", "hunter2hunter2"], "env:"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals_come_before_load(case):
    words, expected = REFUSED[case]
    done = lab("load", *words, codes=(2,))
    assert expected in done.stderr and not done.stdout, done.stderr
    assert "hunter2" not in done.stderr


def test_problems_of_a_file_come_with_their_lines(tmp_path):
    file = tmp_path / "scenario.yaml"
    file.write_text("version: 1\nscenarios:\n  a:\n    url: http://127.0.0.1:9/\n    connectoins: 4\n    duration: soon\n")
    done = lab("load", str(file), codes=(2,))
    assert "scenario.yaml:5" in done.stderr and "connections" in done.stderr and "scenario.yaml:6" in done.stderr


def test_descriptors_that_are_too_few(target):
    def few():
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    done = lab("load", f"{target()}/", "-c", "500", "-d", "1s", codes=(2,), preexec_fn=few)
    assert "ulimit" in done.stderr or "descriptor" in done.stderr


def test_what_is_not_http(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as server:
        def greet():
            while True:
                try:
                    peer, _ = server.accept()
                except OSError:
                    return
                peer.sendall(b"SSH-2.0-nothing\r\n")
        threading.Thread(target=greet, daemon=True).start()
        done = lab("load", f"http://127.0.0.1:{server.getsockname()[1]}/", "-d", "2s", codes=(2,))
    assert "HTTP" in done.stderr


def test_a_full_disk_costs_the_file_and_not_the_result(target):
    done = lab("load", f"{target()}/", "-c", "1", "-d", "1s", "--json", "--summary-export", "/dev/full", codes=(2,))
    assert "/dev/full" in done.stderr


def test_several_scenarios_and_a_report(target, tmp_path):
    url = target("--delay", "uniform(1ms,5ms)")
    file = tmp_path / "s.yaml"
    file.write_text(f"""version: 1
name: two at once
scenarios:
  small: {{ url: "{url}/", connections: 4, duration: 2s }}
  echo: {{ url: "{url}/echo", rate: 200, duration: 2s, unique: 1KB, expect: {{ body: echo }} }}
""")
    words = [str(file), "--out", str(tmp_path / "run"), "--html", str(tmp_path / "r.html"),
             "--summary-export", str(tmp_path / "k6.json"), "--csv", str(tmp_path / "r.csv")]
    run = load(*words)
    assert [flow["name"] for flow in run["flows"]] == ["small", "echo"]
    assert run["flows"][1]["measured"]["requests"] == 400
    assert json.loads((tmp_path / "k6.json").read_text())["metrics"]["http_reqs"]["count"] == run["requests"]
    assert "<svg" in (tmp_path / "r.html").read_text() and "http-equiv" in (tmp_path / "r.html").read_text()
    again = lab("report", str(tmp_path / "run"), "-o", str(tmp_path / "again.html"))
    assert (tmp_path / "again.html").read_text().count("<svg") >= 4, again.stderr


def test_the_guide_s_scenario_runs(target, tmp_path):
    text = re.search(r"```yaml\n(.*?)```", (ROOT / "docs/lab.md").read_text(), re.S)[1]
    file = tmp_path / "guide.yaml"
    file.write_text(text.replace("http://127.0.0.1:8900", target()))
    run = load(str(file), "-d", "1s", "--accept", "too-short,noisy-host,generator-bound", codes=(0, 99))
    assert [flow["name"] for flow in run["flows"]] == ["health", "echo", "tools"]
    assert run["total"]["failed"] == 0 and run["origin"]["duplicates"] == 0


def test_compare_says_worse(target):
    slow, fast = target("--delay", "20ms"), target("--delay", "5ms")
    words = ["compare", "--a", f"{fast}/", "--b", f"{slow}/", "-R", "50", "-c", "20", "-d", "1s", "--warmup", "0s",
             "--blocks", "6", "--metric", "service_us_p50", "--accept", "too-short", "--accept", "noisy-host",
             "--accept", "generator-bound", "--json", "--quiet"]
    done = lab(*words, codes=(98,))
    assert "worse" in done.stdout


def test_calibrate(tmp_path):
    env = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    done = lab("calibrate", "--duration", "2", "--json", "--dir", str(tmp_path), codes=(0, 93), env=env)
    found = json.loads(done.stdout)
    assert found["generator_rps"] > 0 and found["fdatasync_ms_p95"] >= found["fdatasync_ms_p50"] > 0
    assert (tmp_path / "weir/lab/ceilings.json").exists()


def test_the_schema_is_json():
    schema = json.loads(lab("schema").stdout)
    assert "scenarios" in schema["properties"]
