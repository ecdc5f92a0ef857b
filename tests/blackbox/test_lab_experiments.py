"""Sweeps, soaks and certificates of the lab, on servers whose numbers are known.

Where a number is judged, the target's time is waiting and not work, so that a busy machine cannot change it.
"""

import csv
import hashlib
import http.client
import http.server
import json
import os
import re
import shutil
import signal
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path

import pytest

from gateway import ROOT, WEIR

# Runs of half a second say what is asked here; that they are too short for anything else is accepted.
SHORT = ["-d", "500ms", "--warmup", "100ms", "--accept", "too-short,noisy-host,generator-bound"]


def lab(*words, codes=(0,)):
    done = subprocess.run([WEIR, "lab", *map(str, words)], capture_output=True, text=True, timeout=170)
    assert done.returncode in codes, f"{done.returncode}: {done.stdout}{done.stderr}"
    return done


@pytest.fixture
def target():
    """Starts built-in servers; gives a function from flags to a URL."""
    started = []

    def start(*words):
        command = [WEIR, "lab", "target", "--listen", "127.0.0.1:0", "--json", *words]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        started.append(process)
        return json.loads(process.stdout.readline())["listening"]

    yield start
    for process in started:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=20)


def sweep(*words, codes=(0,)):
    return json.loads(lab("sweep", *words, "--json", codes=codes).stdout)["sweeps"][0]


def test_the_knee_is_the_pool(target, tmp_path):
    """Four places of 5 ms each: 800 a second at 4 connections, and no more at any number."""
    url, plain = target("--delay", "5ms", "--pool", "4"), target()
    found = sweep(url + "/", "--direct", plain + "/", "--overload", "4", "--open", "480", "--repeat", "2", *SHORT,
                  "--connections-max", "16", "--out", tmp_path, codes=(0, 92))
    knee = found["knee"]
    # Within one step; on a busy machine a rung may be noise.
    assert knee["level"] in (4.0, 8.0) or not knee["is_bent"]
    assert 400 <= knee["rate"] <= 805
    assert found["limiter"]["what"] == "wait"
    ladder = {level["at"]: level for level in found["closed"]}
    assert [run["failed"] for level in ladder.values() for run in level["runs"]] == [0] * 2 * len(ladder)
    # In a closed loop the mean is connections over rate, whatever the server is.
    for at, level in ladder.items():
        for run in level["runs"]:
            assert run["mean_us"] == pytest.approx(at / run["rate"] * 1e6, rel=0.15)
    # What the server adds is its 5 ms.
    light = found["direct"]["levels"][0]
    assert 4800 <= light["added_us"] <= 9000 and "added_interval" not in light
    assert [level["at"] for level in found["overload_closed"]] == [2 * knee["level"], 4 * knee["level"]]
    assert all(level["runs"][0]["rate"] > 0.6 * knee["rate"] for level in found["overload_closed"])
    shed = found["overload_open"][-1]["runs"][0]
    # What is answered when nothing comes any more was not carried.
    assert shed["rate"] < 1.1 * 800
    assert shed["dropped"] > 0 and shed["failed"] == 0
    assert found["recovery"].get("seconds", 0) < 6
    assert found["recovery"]["overload_rate"] > 6 * found["recovery"]["calm_rate"] > 0
    check_files(tmp_path, found)


def check_files(folder, found):
    """The same numbers in every form."""
    facts = json.loads((folder / "facts.json").read_text())
    assert facts["schema"] == "weir-lab-facts/1" and facts["sweeps"][0] == found
    with open(folder / "levels.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["level"] for row in rows] == [level["label"] for level in found["closed"]]
    page, text = (folder / "report.html").read_text(), (folder / "report.md").read_text()
    assert "<script" not in page.lower() and page.count("<svg") >= 2
    assert text.startswith("# ") and "| level |" in text and "Reproduce it" in text
    pictures = re.findall(r"!\[.*?\]\((.*?)\)", text)
    again = folder / "again.md"
    lab("report", folder, "-o", again)
    assert again.read_text() == text
    assert pictures and all((folder / name).read_text().startswith("<svg") for name in pictures)


def test_a_request_and_a_kilobyte_cost_what_they_cost(target):
    """Two places, 2 ms and 400 µs a kilobyte: 1,000 µs and 200 µs of the pool."""
    url = target("--delay", "2ms", "--delay-per-kb", "400us", "--pool", "2")
    found = sweep(url + "/echo", "--payload", "1KB,5KB,10KB,20KB", "--closed", "1,2,4,8", "--open", "none", "--overload", "0",
                  "--repeat", "1", "--unique", "1KB", "--expect", "echo", *SHORT, codes=(0, 92))
    line = found["cost"]["line"]
    assert 170 <= line["slope"] <= 250, line
    assert 800 <= line["intercept"] <= 1900, line
    assert line["slope_interval"]["low"] < line["slope"] < line["slope_interval"]["high"]
    assert [payload["bytes"] for payload in found["payloads"]] == [1000, 5000, 10000, 20000]


def may_write_cgroups():
    return any(os.access(path, os.W_OK) for path in ("/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct")) \
        or "cpu" in Path("/sys/fs/cgroup/cgroup.subtree_control").read_text().split() \
        if os.geteuid() == 0 and Path("/sys/fs/cgroup").exists() else False


def test_shapes_hold_or_are_refused():
    command = f"{WEIR} lab target --listen 127.0.0.1:{{port}} --work 1ms"
    words = ["--command", command, "http://127.0.0.1:{port}/", "--shapes", "0.1c,0.3c", "--closed", "1,2", "--open", "none",
             "--overload", "0", "--repeat", "1", "-d", "1s", "--warmup", "100ms", "--accept",
             "too-short,noisy-host,generator-bound,not-saturated"]
    if not may_write_cgroups():
        done = lab("sweep", *words, codes=(2,))
        assert "no cgroup can be written" in done.stderr
        return
    found = sweep(*words)
    small, large = found["shapes"]
    assert "cgroup of version" in small["how"]
    ratio = large["level"]["runs"][0]["rate"] / small["level"]["runs"][0]["rate"]
    assert 1.8 <= ratio <= 4.5, ratio
    assert small["level"]["runs"][0]["target_cores"] < 0.2
    left = [path for path in Path("/sys/fs/cgroup").glob("*/weir-lab-*")]
    assert not left, left


def soak(url, code):
    done = lab("soak", url + "/", "-R", "50", "-c", "4", "-d", "5s", "--warmup", "1s", "--before", "800ms", "--settle", "1s",
               "--watch-every", "100ms", "--max-residual", "40%", "--json", codes=(code,))
    return json.loads(done.stdout)["soaks"][0]


def test_a_leak_is_found_and_named_and_nothing_else_is(target):
    """4 MB a second are lost; a second server loses nothing; a third gives all back, time and again."""
    servers = [(target("--leak", "240MB"), 99), (target(), 0), (target("--leak", "120MB", "--leak-back-every", "400ms"), 0)]
    with ThreadPoolExecutor() as pool:
        leak, clean, saw = pool.map(lambda server: soak(*server), servers)
    [process] = leak["processes"]
    assert process["verdict"] == "leaks" and leak["blamed"] == [process["name"]]
    interval = process["drift"]["interval"]
    assert 0 < interval["low"] < 4.4e6 and interval["high"] > 3.6e6, interval
    assert process["before_bytes"] < process["under_bytes"] < process["after_bytes"]
    for other in (clean, saw):
        assert other["blamed"] == [] and other["processes"][0]["verdict"] == "steady"


def certify(*words, codes):
    return json.loads(lab("certify", *words, *SHORT, "--overload", "2", "--json", codes=codes).stdout)["certificates"][0]


def criterion(certificate, name):
    return next(one for one in certificate["criteria"] if one["id"] == name)


def test_a_certificate_passes_and_an_edit_is_found(target, tmp_path):
    url = target("--delay", "1ms", "--pool", "4")
    passed = certify(url + "/echo", "--origin", url, "-c", "4", "--out", tmp_path, codes=(0,))
    assert passed["passed"] and all(one["holds"] for one in passed["criteria"])
    totals = passed["totals"]
    assert totals["failed"] == 0 and totals["compared"] == totals["requests"] > 500
    assert totals["origin_distinct"] == totals["requests"] and totals["origin_duplicates"] == 0
    assert totals["failed_share_bound"] == pytest.approx(3 / totals["requests"])
    file = tmp_path / "certificate.json"
    assert "unedited, PASS" in lab("verify", file).stdout
    assert "PASS" in (tmp_path / "report.html").read_text()
    written = json.loads(file.read_text())
    assert written["sha256"] == canonical_digest(written)
    written["totals"]["requests"] += 1
    file.write_text(json.dumps(written))
    assert "edited" in lab("verify", file, codes=(95,)).stdout
    file.write_text('{"schema": "other"}')
    assert "certificate" in lab("verify", file, codes=(2,)).stderr


def canonical_digest(tree):
    """The digest as another program computes it (RFC 8785)."""
    def plain(value):
        if isinstance(value, dict):
            return {name: plain(inner) for name, inner in value.items() if value is not tree or name != "sha256"}
        if isinstance(value, list):
            return [plain(inner) for inner in value]
        return int(value) if isinstance(value, float) and value.is_integer() else value

    text = json.dumps(plain(tree), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    # Python writes small numbers with an exponent sooner than JavaScript does.
    text = re.sub(r"(?<=[:,\[])-?[\d.]+e-0[56](?=[,}\]])", lambda m: format(Decimal(m[0]), "f"), text)
    return hashlib.sha256(text.encode()).hexdigest()


def test_one_fault_fails_a_certificate_with_its_number(target, tmp_path):
    def one(case):
        fault, code, name = case
        url, folder = target("--delay", "1ms", "--pool", "4", "--error-every", fault), tmp_path / name / str(code)
        folder.mkdir(parents=True)
        failed = certify(url + "/echo", "--no-origin", "-c", "4", "--out", folder, codes=(code,))
        assert not failed["passed"] and not criterion(failed, name)["holds"]
        assert re.search(r"request \d+", criterion(failed, name)["evidence"]), failed["criteria"]
        assert failed["wrong"] and failed["wrong"][0]["number"] > 0
        assert "unedited, FAIL" in lab("verify", folder, codes=(99,)).stdout

    with ThreadPoolExecutor() as pool:
        list(pool.map(one, [("corrupt:400", 95, "bytes"), ("close:400", 99, "errors")]))


class Twice(http.server.BaseHTTPRequestHandler):
    """Sends each request on, and one of them twice."""

    protocol_version = "HTTP/1.1"
    seen = 0
    origin = ""

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        Twice.seen += 1
        for _ in range(2 if Twice.seen == 60 else 1):
            connection = http.client.HTTPConnection(Twice.origin, timeout=10)
            connection.request("POST", self.path, body, dict(self.headers))
            answer = connection.getresponse()
            echoed, fields = answer.read(), answer.headers
            connection.close()
        self.send_response(answer.status)
        for field in ("Content-Type", "weir-lab-id"):
            self.send_header(field, fields[field])
        self.send_header("Content-Length", str(len(echoed)))
        self.end_headers()
        self.wfile.write(echoed)

    def log_message(self, *_):
        pass


def test_a_request_that_is_executed_twice_fails_the_certificate(target):
    url = target()
    Twice.origin = url.removeprefix("http://")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Twice) as proxy:
        threading.Thread(target=proxy.serve_forever, daemon=True).start()
        failed = certify(f"http://127.0.0.1:{proxy.server_port}/echo", "--origin", url, "-c", "2", codes=(95,))
        proxy.shutdown()
    once = criterion(failed, "once")
    assert not once["holds"] and "more than once" in once["evidence"]
    assert failed["totals"]["origin_duplicates"] == 1


def test_what_cannot_be_measured_is_refused_with_a_sentence(target, tmp_path):
    url = target() + "/"
    two = tmp_path / "two.yaml"
    two.write_text(f"version: 1\nscenarios:\n  a: {{ url: {url} }}\n  b: {{ url: {url} }}\n")
    cases = [
        (["sweep", two], "one scenario"),
        (["sweep", url, "--shapes", "0.5c"], "--command"),
        (["sweep", url, "-R", "100"], "not for this experiment"),
        (["sweep", url, "--closed", "8,4"], "rise"),
        (["sweep", "http://127.0.0.1:1/"], "127.0.0.1, port 1"),
        (["sweep", "http://192.0.2.1/"], "--i-own-this"),
        (["certify", url], "--origin"),
        (["certify", url, "--no-origin", "--expect", "contains=x"], "every byte"),
        (["soak", url, "--max-slope", "0"], "share above 0"),
        (["verify", tmp_path], "certificate.json"),
    ]
    for words, sentence in cases:
        done = lab(*words, codes=(2,))
        assert sentence in done.stderr, (words, done.stderr)


def test_a_dry_run_sends_nothing():
    for command in ("sweep", "soak"):
        assert "in all" in lab(command, "http://127.0.0.1:9/", "--dry-run").stdout or command == "sweep"
    assert "runs, about" in lab("sweep", "http://127.0.0.1:9/", "--payload", "1KB", "--dry-run").stdout


@pytest.fixture(scope="module")
def facts(tmp_path_factory):
    """The facts of a sweep that was recorded: four places of 5 ms."""
    folder = tmp_path_factory.mktemp("facts")
    (folder / "facts.json").write_text((ROOT / "crates/lab/tests/facts/sweep.json").read_text())
    return folder


def test_a_size_rests_on_facts_and_says_so(facts, tmp_path):
    done = lab("size", facts, "--peak", "1000", "--clients", "0.1", "--p99", "50ms", "--json")
    size = json.loads(done.stdout)["sizes"][0]
    [tier] = size["tiers"]
    knee = json.loads((facts / "facts.json").read_text())["sweeps"][0]["knee"]
    # Rounded down, also where the mean of the runs is higher than the least of them.
    assert tier["recommended"] <= 0.6 * tier["saturation"] <= 0.6 * knee["rate"] * 1.0001
    assert tier["replicas"] * tier["recommended"] >= 1000 > (tier["replicas"] - 1) * tier["recommended"]
    assert tier["margin"] == pytest.approx(tier["replicas"] * tier["recommended"] / 1000 - 1)
    assert any("fewer than 3 times" in line for line in size["cautions"])
    assert any("not measured" in line for line in size["cautions"])
    assert "over the 1.00 ms" in lab("size", facts, "--peak", "1000", "--p99", "1ms", codes=(99,)).stdout
    assert "cost model" in lab("size", facts, "--payload", "5KB", codes=(2,)).stderr
    lab("size", facts, "--out", tmp_path)
    assert (tmp_path / "tiers.csv").read_text().startswith("tier,")


def test_what_is_emitted_is_taken_by_those_it_is_for(facts, tmp_path):
    lab("size", facts, tmp_path, "--peak", "1000", "--emit", "compose,hpa,alerts,nginx,haproxy,pools,limits", "--service", "gate-1")
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"compose.yaml", "hpa.yaml", "alerts.yaml", "nginx-upstream.conf", "haproxy-backend.cfg", "pools.yaml",
                     "limits.yaml"}
    whole = tmp_path / "nginx.conf"
    whole.write_text(f"events {{}}\nhttp {{ include {tmp_path}/nginx-upstream.conf;\n"
                     "server { listen 127.0.0.1:18099; location / { proxy_pass http://gate-1; } } }\n")
    taken = subprocess.run(["/usr/sbin/nginx", "-t", "-c", whole, "-p", tmp_path, "-g", "pid nginx.pid; error_log stderr;"],
                           capture_output=True, text=True)
    assert taken.returncode == 0, taken.stderr
    front = tmp_path / "front.cfg"
    front.write_text("defaults\n    timeout client 5s\nfrontend front\n    mode http\n    bind 127.0.0.1:18098\n"
                     "    default_backend gate-1\n")
    if haproxy := shutil.which("haproxy", path="/usr/sbin:/usr/bin"):
        taken = subprocess.run([haproxy, "-c", "-f", front, "-f", tmp_path / "haproxy-backend.cfg"], capture_output=True, text=True)
        assert taken.returncode == 0, taken.stdout + taken.stderr
    hpa = (tmp_path / "hpa.yaml").read_text()
    # The names of version 1 are none of version 2.
    assert "scaleTargetRef" in hpa and "averageUtilization: 60" in hpa and "targetCPUUtilizationPercentage" not in hpa
    alerts = (tmp_path / "alerts.yaml").read_text()
    assert "sum by (le) (rate(http_request_duration_seconds_bucket" in alerts and "up{" in alerts
    for name in names:
        text = (tmp_path / name).read_text()
        assert text.startswith("# ") and "from a sweep of" in text
    for flag, value in [("--service", "a b"), ("--selector-failed", 'code="5"} or up{x="1"'), ("--metric-requests", "x{}")]:
        assert "cannot stand in a file" in lab("size", facts, tmp_path, "--emit", "hpa", flag, value, codes=(2,)).stderr


def test_what_a_browser_recorded_is_a_scenario_that_runs(target, tmp_path):
    url = target()
    entry = {"request": {"method": "POST", "url": f"{url}/echo?token=secret-1", "headers": [{"name": "Cookie", "value": "secret-2"}],
                         "postData": {"mimeType": "text/plain", "text": "say ${seq}"}}, "response": {"status": 200}}
    recorded, scenario = tmp_path / "recorded.har", tmp_path / "scenario.yaml"
    recorded.write_text(json.dumps({"log": {"entries": [entry] * 3 + [{"request": {"url": "data:x"}}]}}))
    done = lab("import", "har", recorded, "-o", scenario)
    assert "6 credentials were dropped" in done.stderr and "entry 4" in done.stderr
    assert "secret" not in scenario.read_text()
    run = json.loads(lab("load", scenario, "-d", "300ms", "-c", "2", "--json", "--accept",
                         "too-short,noisy-host,generator-bound").stdout)
    assert run["total"]["failed"] == 0 and run["requests"] > 0
    description = tmp_path / "api.yaml"
    description.write_text("openapi: 3.0.0\npaths:\n  /echo:\n    post:\n      requestBody:\n        content:\n"
                           "          application/json:\n            schema: { $ref: '#/components/schemas/A' }\n"
                           "components:\n  schemas:\n    A: { type: object, required: [n], properties: { n: { type: integer } } }\n")
    lab("import", "openapi", description, "--url", url, "-o", scenario)
    run = json.loads(lab("load", scenario, "-d", "300ms", "-c", "2", "--json", "--accept",
                         "too-short,noisy-host,generator-bound").stdout)
    assert run["total"]["failed"] == 0 and run["requests"] > 0
    assert "--url" in lab("import", "openapi", description, codes=(2,)).stderr
