"""Files of `weir lab size --emit`, held to the programs that they are for: good ones are taken, and bad ones are not."""

import json
import re
import subprocess
import sys

import pytest

from gateway import ROOT, WEIR

SETUP = ROOT / ".setup"
COMPOSE = SETUP / "compose/docker-compose"
PROMTOOL = SETUP / "prometheus/promtool"
# weir's own names, as `docs/reference/metrics.md` has them.
WEIR_METRICS = ["--metric-duration", "weir_call_seconds", "--metric-requests", "weir_requests_total",
                "--selector-failed", 'status=~"5.."']

sys.path.append(str(SETUP / "kubernetes"))
import yaml  # noqa: E402 of the validator's own folder


@pytest.fixture(scope="module")
def emitted(tmp_path_factory):
    """The files for a sweep that was recorded."""
    facts, folder = tmp_path_factory.mktemp("facts"), tmp_path_factory.mktemp("deploy")
    (facts / "facts.json").write_text((ROOT / "crates/lab/tests/facts/sweep.json").read_text())
    done = subprocess.run([WEIR, "lab", "size", facts, folder, "--peak", "1000", "--emit", "compose,hpa,alerts", "--service", "gate-1",
                           *WEIR_METRICS], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder


def run(*words, **more):
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=60, **more)


@pytest.mark.parametrize("version", ["1.29", "1.33", "1.37"])
def test_kubernetes_takes_the_autoscaler(emitted, tmp_path, version):
    def validate(file):
        return run(sys.executable, "-m", "kubernetes_validate", "--strict", "--quiet", "-k", version, file,
                   env={"PYTHONPATH": str(SETUP / "kubernetes")})
    done = validate(emitted / "hpa.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
    text = (emitted / "hpa.yaml").read_text()
    bad = tmp_path / "hpa.yaml"
    for good, wrong in [("  scaleTargetRef:", "  scaleTarget:"),
                        # A name of version 1, as is often printed for version 2.
                        ("  behavior:", "  targetCPUUtilizationPercentage: 60\n  behavior:"),
                        ("minReplicas: ", "minReplicas: x")]:
        assert good in text
        bad.write_text(text.replace(good, wrong))
        assert validate(bad).returncode != 0, wrong


def test_compose_takes_the_limits(emitted, tmp_path):
    def validate(file):
        return run(COMPOSE, "-f", file, "config", "--format", "json")
    done = validate(emitted / "compose.yaml")
    assert done.returncode == 0, done.stderr
    service = json.loads(done.stdout)["services"]["gate-1"]
    limits = service["deploy"]["resources"]["limits"]
    assert float(limits["cpus"]) > 0 and int(limits["memory"]) > 0 and service["healthcheck"]["start_period"]
    text = (emitted / "compose.yaml").read_text()
    bad = tmp_path / "compose.yaml"
    for good, wrong in [("          cpus: \"", "          cpu: \""), ("      interval: 30s", "      interval: soon")]:
        assert good in text
        bad.write_text(text.replace(good, wrong))
        assert validate(bad).returncode != 0, wrong


def test_alerts_are_of_metrics_that_weir_has(emitted):
    rules = (emitted / "alerts.yaml").read_text()
    known = {row[1]: row[2] for row in re.finditer(r"^\| `(\w+)` \| \w+ \| ([^|]*) \|", (ROOT / "docs/reference/metrics.md").read_text(),
                                                   re.MULTILINE)}
    assert set(re.findall(r"weir_\w+", rules)) == {"weir_call_seconds_bucket", "weir_requests_total"}
    assert "weir_call_seconds" in known and "status" in known["weir_requests"]


def test_prometheus_takes_the_alerts(emitted, tmp_path):
    done = run(PROMTOOL, "check", "rules", emitted / "alerts.yaml")
    assert done.returncode == 0 and "4 rules found" in done.stdout, done.stdout + done.stderr
    bad = tmp_path / "alerts.yaml"
    bad.write_text((emitted / "alerts.yaml").read_text().replace("sum by (le) (", "sum by (le) ((", 1))
    assert run(PROMTOOL, "check", "rules", bad).returncode != 0


def series(name, values, **labels):
    said = ",".join(f'{key}="{value}"' for key, value in labels.items())
    return {"series": f"{name}{{{said}}}", "values": values}


def scenario(name, bound):
    """What an alert's series are: when it has to fire, and when it has to be silent."""
    job = {"job": "gate-1", "instance": "a:1"}

    def duration(le):
        return [series("weir_call_seconds_bucket", f"0+{60 if at >= le else 0}x20", le=text, server="files", **job)
                for at, text in [(bound / 2, f"{bound / 2}"), (bound * 4, f"{bound * 4}"), (float("inf"), "+Inf")]]

    def requests(good, failed):
        return [series("weir_requests_total", f"0+{good}x20", status="200", route="/mcp", **job),
                series("weir_requests_total", f"0+{failed}x20", status="503", route="/mcp", **job)]
    per_minute = bound * 60
    return {
        "HighLatency": (duration(bound * 4), duration(bound / 2), {}),
        "ErrorRatio": (requests(900, 20), requests(1000, 5), {}),
        "NearSaturation": (requests(round(per_minute * 1.1), 0), requests(round(per_minute * 0.9), 0), {"instance": "a:1"}),
        "InstanceDown": ([series("up", "0x20", **job)], [series("up", "1x20", **job)], dict(job)),
    }[name]


@pytest.mark.parametrize("name", ["HighLatency", "ErrorRatio", "NearSaturation", "InstanceDown"])
def test_an_alert_fires_on_the_bad_series_and_not_on_the_good_one(emitted, tmp_path, name):
    [rule] = [rule for rule in yaml.safe_load((emitted / "alerts.yaml").read_text())["groups"][0]["rules"] if rule["alert"] == name]
    bad, good, labels = scenario(name, float(rule["expr"].split()[-1]))
    fired = [{"exp_labels": rule["labels"] | labels, "exp_annotations": rule["annotations"]}]

    def taken(series, expected):
        tests = {"rule_files": [str(emitted / "alerts.yaml")], "evaluation_interval": "1m",
                 "tests": [{"interval": "1m", "input_series": series,
                            "alert_rule_test": [{"eval_time": "15m", "alertname": name, "exp_alerts": expected}]}]}
        file = tmp_path / "tests.yaml"
        file.write_text(json.dumps(tests))
        return run(PROMTOOL, "test", "rules", file)
    for series_, expected in [(bad, fired), (good, [])]:
        done = taken(series_, expected)
        assert done.returncode == 0, done.stdout + done.stderr
    # What is expected is asked for: the other answer fails.
    assert taken(bad, []).returncode != 0 and taken(good, fired).returncode != 0
