"""Scripts of k6, read and written, and k6's and JUnit's files, read by programs of others."""

import json
import shutil
import subprocess
import xml.etree.ElementTree as xml
from pathlib import Path

import pytest

from gateway import ROOT, WEIR

SCRIPTS = Path(__file__).parent / "k6"
NODE = ROOT / ".setup/node-k6"
ACCEPT = ["--accept", "too-short,noisy-host,generator-bound,not-saturated"]


def lab(*words, codes=(0,), **more):
    done = subprocess.run([WEIR, "lab", *map(str, words)], capture_output=True, text=True, timeout=60, **more)
    assert done.returncode in codes, f"{done.returncode}: {done.stdout}{done.stderr}"
    return done


@pytest.fixture(scope="module")
def target():
    process = subprocess.Popen([WEIR, "lab", "target", "--listen", "127.0.0.1:0", "--json"], stdout=subprocess.PIPE, text=True)
    yield json.loads(process.stdout.readline())["listening"]
    process.terminate()
    process.communicate(timeout=20)


def test_a_script_is_a_scenario_that_runs(target, tmp_path):
    scenario = tmp_path / "scenario.yaml"
    said = lab("import", "k6", SCRIPTS / "shop.js", "-e", f"BASE_URL={target}", "-o", scenario).stderr
    assert "no plateau: this stage ramps from 1 to 4 in 200ms, and is called `ramp 1`" in said
    assert "no plateau: this stage ramps from 4 to 0 in 200ms, and is called `ramp 3`" in said
    for left_out in ['there is no metric "my_own_trend"', "the check `is fast`", "setup is not run", "1 credentials were dropped"]:
        assert left_out in said
    run = json.loads(lab("load", scenario, "--json", *ACCEPT).stdout)
    assert run["total"]["failed"] == 0 and run["requests"] > 50
    [flow] = run["flows"]
    assert [(step["kind"], step["name"]) for step in flow["steps"]] == [("ramp", "ramp 1"), ("hold", "hold 1"), ("ramp", "ramp 3")]
    assert {kind["name"] for kind in flow["kinds"]} == {"GET /", "buy"} and len(run["thresholds"]) == 4


@pytest.mark.parametrize("script, kinds", [("from-har-to-k6.js", 2), ("from-postman-to-k6.js", 2)])
def test_what_others_make_is_imported(target, tmp_path, script, kinds):
    """The scripts are as har-to-k6 0.14.16 and postman-to-k6 1.5.1 wrote them."""
    scenario = tmp_path / "scenario.yaml"
    lab("import", "k6", SCRIPTS / script, "--url", target, "-o", scenario)
    run = json.loads(lab("load", scenario, "-c", "2", "-d", "300ms", "--pause", "0s", "--json", *ACCEPT).stdout)
    assert run["total"]["failed"] == 0 and len(run["flows"][0]["kinds"]) == kinds


@pytest.mark.parametrize("script, said", [
    ("export const options = { vus: Number(__ENV.VUS) };\nexport default () => http.get('http://127.0.0.1/');",
     "line 2: __ENV.VUS is not known: add -e VUS=…"),
    ("export const options = { stages: [{ duration: '10m', target: 50 }] };\nexport default () => http.get('http://127.0.0.1/');",
     "none holds a level"),
    ("export default () => {\n  for (const id of [1, 2]) {\n    http.get('http://127.0.0.1/' + id);\n  }\n};",
     "line 4: a request or a sleep inside of a loop"),
    ("export default () => { http.get('http://127.0.0.1/') ", "line 2: this is not JavaScript that can be read"),
])
def test_what_is_computed_is_refused_by_line(tmp_path, script, said):
    file = tmp_path / "script.js"
    file.write_text("import http from 'k6/http';\n" + script)
    out = tmp_path / "scenario.yaml"
    assert said in lab("import", "k6", file, "-o", out, codes=(2,)).stderr
    assert not out.exists()


SCENARIO = """
version: 1
name: exported
env: { WHO: world }
scenarios:
  steady:
    url: http://127.0.0.1:8900/echo
    connections: 4
    duration: 5s
    pause: 10ms
    requests:
      - { name: one, body_json: { n: "${seq}", who: "${env.WHO}" }, expect: { status: 200, body: { contains: who } } }
      - { name: two, weight: 3, path: "/bytes/10?x=${rand(1,9)}", headers: { accept: "*/*" } }
  arriving:
    url: https://127.0.0.1:8901/echo
    arrivals: uniform
    stages: [{ ramp: { to: 2.5, over: 2s } }, { hold: { at: 2.5, for: 3s } }]
    unique: 1KB
    auth: { bearer: "env:TOKEN" }
    tls: { insecure: true }
    expect: { body: echo }
thresholds:
  response: ["p(99)<50ms"]
  "http_req_duration{scenario:steady}": ["p(95)<250"]
"""


def test_an_exported_script_is_what_k6s_types_say(tmp_path):
    (tmp_path / "scenario.yaml").write_text(SCENARIO)
    script = tmp_path / "script.js"
    lab("export", "k6", tmp_path / "scenario.yaml", "-o", script)
    text = script.read_text()
    assert "${__ENV[\"TOKEN\"]}" in text and '"target": 25' in text and '"timeUnit": "10s"' in text
    (tmp_path / "node_modules").symlink_to(NODE / "node_modules")

    def check(file):
        return subprocess.run([NODE / "node_modules/.bin/tsc", "--noEmit", "--allowJs", "--checkJs", "--strict", "--target", "es2022",
                               "--module", "esnext", "--moduleResolution", "bundler", "--types", "k6", file],
                              cwd=tmp_path, capture_output=True, text=True)
    done = check(script)
    assert done.returncode == 0, done.stdout
    # The types do say something.
    bad = tmp_path / "bad.js"
    bad.write_text(text.replace('"executor": "constant-vus"', '"executor": "constant"'))
    assert check(bad).returncode != 0


@pytest.fixture(scope="module")
def run_folder(target, tmp_path_factory):
    out = tmp_path_factory.mktemp("run")
    lab("load", f"{target}/echo", "--unique", "100", "-c", "2", "-d", "500ms", "--threshold", "http_req_duration:p(95)<5000",
        "--threshold", "http_req_duration:max<0.000001", "--name", "a <name>", "--out", out, *ACCEPT, codes=(99,))
    return out


def test_others_read_k6s_summary(run_folder, tmp_path):
    summary = run_folder / "k6-summary.json"
    rate = subprocess.run([shutil.which("jq"), "-e", ".metrics.http_reqs.rate > 0 and .metrics.checks.fails == 0", summary],
                          capture_output=True, text=True)
    assert rate.returncode == 0, rate.stdout + rate.stderr
    script = "require('k6-html-reporter').generateSummaryReport({jsonFile: process.argv[1], output: process.argv[2]})"
    done = subprocess.run(["node", "-e", script, run_folder / "k6-data.json", tmp_path], cwd=NODE, capture_output=True, text=True)
    [page] = tmp_path.glob("*.html")
    assert done.returncode == 0 and "http_req_duration" in page.read_text(), done.stdout + done.stderr


def test_junit_and_markdown_say_the_same(run_folder):
    [suite] = xml.parse(run_folder / "junit.xml").getroot()
    failed = {case.get("name") for case in suite.iter("testcase") if case.find("failure") is not None}
    assert suite.get("name") == "a <name>" and "http_req_duration max<0.000001" in failed
    assert "http_req_duration p(95)<5000" not in failed and int(suite.get("failures")) == len(failed)
    markdown = (run_folder / "report.md").read_text()
    assert markdown.startswith("## a &lt;name>") and "max&lt;0.000001 |" in markdown and "**breached**" in markdown
