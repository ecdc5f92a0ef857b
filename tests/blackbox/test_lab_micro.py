"""Operations inside of programs, cold starts, and the commit that made a server slower."""

import json
import subprocess

import pytest

from gateway import WEIR

OPERATIONS = '''
import hashlib, json, sys, time

for line in sys.stdin:
    asked = json.loads(line)
    if asked.get("list"):
        print(json.dumps({"operations": [{"name": "hash", "sized": True}, {"name": "nothing", "about": "does nothing"}]}), flush=True)
        continue
    if asked["run"] == "hash":
        text = b"x" * asked["size"]
        def once(): hashlib.sha256(text).digest()
    else:
        def once(): pass
    cpu, wall = time.process_time_ns(), time.perf_counter_ns()
    for _ in range(asked["times"]):
        once()
    told = {"cpu_ns": time.process_time_ns() - cpu, "wall_ns": time.perf_counter_ns() - wall}
    print(json.dumps(told if TELL else {}), flush=True)
'''


def lab(*words, codes=(0,), **more):
    done = subprocess.run([WEIR, "lab", *map(str, words)], capture_output=True, text=True, timeout=110, **more)
    assert done.returncode in codes, f"{done.returncode}: {done.stdout}{done.stderr}"
    return done


def costs(*words, **more):
    found = json.loads(lab("micro", *words, "-d", "5ms", "--rounds", "5", "--json", **more).stdout)
    assert found["schema"] == "weir-lab-micro/1" and found["cores_logical"] >= 1
    for cost in found["costs"]:
        assert cost["cpu_ns_low"] <= cost["cpu_ns"] <= cost["cpu_ns_high"] and len(cost["rounds"]) == 5
    return found["costs"]


def test_operations_of_weir_cost_what_they_carry(tmp_path):
    found = costs("scan.text", "policy", "seal", "log", "json", "--size", "1KB,100KB", "--out", tmp_path / "micro.json")
    by = {(cost["operation"], cost.get("size")): cost["cpu_ns"] for cost in found}
    assert set(by) == {("policy.decide", None)} | {(name, size) for name in ["scan.text", "seal.request", "log.append", "json.index"]
                                                   for size in [1000, 100_000]}
    # A hundred times the bytes: far more than ten times the scan, whatever the machine does beside.
    assert by["scan.text", 100_000] > 10 * by["scan.text", 1000]
    assert json.loads((tmp_path / "micro.json").read_text())["costs"]
    assert "policy.decide" in lab("micro", "--list").stdout
    two = costs("json.index", "--threads", "1,2")
    assert [cost["threads"] for cost in two] == [1, 2]


@pytest.mark.parametrize("tell", [True, False])
def test_operations_of_any_program_are_asked_by_json_lines(tmp_path, tell):
    program = tmp_path / "operations.py"
    program.write_text(f"TELL = {tell}\n{OPERATIONS}")
    # The CPU time that is read is the first process's, which is the shell's where it starts the program as a child.
    found = costs("--exec", f"exec python3 {program}", "--size", "100,1MB")
    by = {(cost["operation"], cost.get("size")): cost["cpu_ns"] for cost in found}
    assert by["hash", 1_000_000] > 20 * by["hash", 100] and by["nothing", None] > 0


@pytest.mark.parametrize("program, said", [
    ("true", "ended without an answer"), ("cat", "lists no operations"), ("echo no", "answered no JSON"),
    ("echo '{\"error\":\"not today\"}'", "says: not today")])
def test_a_program_that_does_not_answer_is_said(program, said):
    assert said in lab("micro", "--exec", program, codes=(2,)).stderr


def test_a_cold_start_is_told_to_the_first_good_answer(tmp_path):
    command = f"sleep 0.1; exec {WEIR} lab target --listen 127.0.0.1:{{port}}"
    url = "http://127.0.0.1:{port}/"
    found = json.loads(lab("load", "--spawn", command, url, "--coldstart", "--starts", "3", "--json").stdout)
    assert len(found["starts"]) == 3 and found["answered_ms"]["min"] >= 100 and found["start_period_s"] >= 1
    for start in found["starts"]:
        assert start["answered_ms"] >= start["listening_ms"] >= 100
    assert "start period" in lab("load", "--spawn", command, url, "--coldstart", "--starts", "1").stdout
    # One that answers, and never well.
    never = lab("load", "--spawn", "echo no; exit 3", url, "--coldstart", "--starts", "1", codes=(2,))
    assert "ended before" in never.stderr
    # The same server with a load.
    run = json.loads(lab("load", "--spawn", command, url, "-c", "2", "-d", "200ms", "--json", "--accept",
                         "too-short,noisy-host,generator-bound").stdout)
    assert run["requests"] > 0 and run["total"]["failed"] == 0


def test_the_slow_commit_is_found(tmp_path):
    def git(*words):
        return subprocess.run(["git", "-c", "user.name=t", "-c", "user.email=t@example.com", *words], cwd=tmp_path, check=True,
                              capture_output=True, text=True).stdout.strip()
    git("init", "--quiet")
    for number, delay in enumerate(["1ms", "1ms", "20ms", "20ms"]):
        (tmp_path / "serve.sh").write_text(f"exec {WEIR} lab target --listen 127.0.0.1:$1 --delay {delay} # {number}\n")
        git("add", "."), git("commit", "--quiet", "-m", f"commit {number}")
    # A run holds 15 requests of 20 ms: one more or less is 7 %. The margin lies far from that, and far from twenty times.
    load = ["-c", "1", "-d", "300ms", "--warmup", "100ms", "--blocks", "3", "--margin", "50%", "--accept", "too-short,noisy-host,generator-bound"]
    done = lab("bisect", "HEAD~3", "HEAD", *load, "--json", "--", "sh serve.sh {port}", cwd=tmp_path)
    found = json.loads(done.stdout)
    assert found["commit"] == git("rev-parse", "HEAD~1") and found["subject"] == "commit 2"
    assert git("worktree", "list").count("\n") == 0 and git("status", "--porcelain") == ""
    assert "there is nothing to find" in lab("bisect", "HEAD~1", "HEAD", *load, "--", "sh serve.sh {port}", cwd=tmp_path, codes=(2,)).stderr
    assert "is no commit here" in lab("bisect", "nothing", "HEAD", "--", "true", cwd=tmp_path, codes=(2,)).stderr
