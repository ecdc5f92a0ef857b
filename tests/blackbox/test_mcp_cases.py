"""The cases of `crates/mcp/cases`: what an agent sends, what the server gets and sends, what the agent gets, and the record.

Each file is one case, and is run twice: the server behind the gateway speaks HTTP, or is a child. The files are exact,
byte by byte, but for `$ID`, weir's own id of the request, and `$CALL`, the id of the call in the log. `UPDATE=1` writes what
was seen in the place of what was expected; read the difference before you keep it.
"""

import json
import os
import subprocess
import sys

import pytest

from gateway import ROOT, SERVERS, Gateway, until

CASES = sorted((ROOT / "crates/mcp/cases").glob("*.txt"))
HEADS = ["agent sends", "server gets", "server sends", "agent gets", "record"]
POLICY = """
@id("use") permit (principal, action in [Action::"mcp:use", Action::"mcp:list", Action::"mcp:read"], resource);
@id("call") permit (principal, action == Action::"mcp:call", resource) unless { resource.name == "forbidden" };
"""
# What a record says of a call in these files; the rest is time, ids and hashes.
SAID = ["action", "server", "tool", "prompt", "resource", "method", "decision", "refusal", "end", "why", "status", "findings"]
# No scanner takes the files of cases for a leak: the secret is put in here.
SECRET = "AKIA" + "Z7QK3M5T2W8XN4RB"


def read(path):
    """The title of a case, and its sections as lists of lines."""
    title, sections, lines = "", {}, None
    for line in path.read_text().splitlines():
        head = line.removesuffix(":")
        if line.endswith(":") and head in HEADS:
            lines = sections.setdefault(head, [])
        elif lines is None:
            title += line + "\n"
        elif line:
            lines.append(line)
    return title, sections


def write(path, title, sections):
    text = title
    for head in HEADS:
        if head in sections:
            text += "".join(line + "\n" for line in [head + ":", *sections[head], ""])
    path.write_text(text.rstrip("\n") + "\n")


@pytest.fixture(scope="module", params=["http", "child"])
def behind(request, tmp_path_factory):
    """A gateway before the scripted server, and the folder of its script."""
    folder = tmp_path_factory.mktemp("cases")
    (folder / "script.json").write_text("{}")
    program = [sys.executable, str(SERVERS / "scripted.py"), str(folder)]
    origin = None
    if request.param == "child":
        server = {"command": program}
    else:
        origin = subprocess.Popen([*program, "0"], stdout=subprocess.PIPE)
        port = int(origin.stdout.readline().split()[-1])
        server = {"url": f"http://127.0.0.1:{port}/mcp"}
    with Gateway(folder / "gateway", {"files": server}, policy=POLICY, scan={"pins": False}) as gateway:
        yield gateway, gateway.session("files"), folder, request.param
        gateway.verify()
    if origin:
        origin.kill()
        origin.wait()
        origin.stdout.close()


def method_of(lines):
    """The method that the script answers: that of what is sent, where it is a message."""
    try:
        return json.loads("\n".join(lines))["method"]
    except (ValueError, KeyError, TypeError):
        return None


def record_of(gateway, call):
    """What the log says of one call: its judgement and its outcome."""
    def found():
        records = [record for record in gateway.records() if record.get("call") == call]
        passed = [record for record in records if record.get("decision") == "pass"]
        ended = [record for record in records if record["kind"] == "outcome"]
        return records if records and len(passed) == len(ended) else None
    lines = []
    for record in until(found, f"call {call} is recorded"):
        said = {key: record[key] for key in SAID if key in record}
        if "findings" in said:
            said["findings"] = [finding["rule"] for finding in said["findings"]]
        lines.append(json.dumps({"kind": record["kind"], **said}))
    return lines


def run(case, gateway, session, folder):
    """The sections that one case really gives."""
    sends = "\n".join(case["agent sends"]).replace("$SECRET", SECRET)
    answers = [line.replace("$SECRET", SECRET) for line in case.get("server sends", [])]
    script = {"method": method_of([sends]), "answers": answers} if answers or "server gets" in case else {}
    (folder / "script.json").write_text(json.dumps(script))
    (folder / "got").write_bytes(b"")
    answer = gateway.post("files", sends.encode(), **session.extra)
    call = answer.headers["weir-call"]
    kind = answer.headers.get("content-type", "")
    body = answer.body.decode()
    if kind == "text/event-stream":
        data = [line[5:].strip() for line in body.splitlines() if line.startswith("data:")]
        body = "\n".join(line for line in data if line)
    seen = {"agent sends": case["agent sends"]}
    got = (folder / "got").read_text().splitlines()
    if got:
        seen["server gets"] = got
    if "server sends" in case:
        seen["server sends"] = case["server sends"]
    seen["agent gets"] = [line for line in [f"{answer.status} {kind}".rstrip(), *body.splitlines()] if line]
    seen["record"] = record_of(gateway, call)
    hide = lambda line: line.replace(call, "$CALL").replace(SECRET, "$SECRET")
    return {head: [hide(line) for line in lines] for head, lines in seen.items()}


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_case(path, behind):
    gateway, session, folder, way = behind
    title, case = read(path)
    seen = run(case, gateway, session, folder)
    if os.environ.get("UPDATE") == "1" and way == "http":
        write(path, title, seen)
        return
    assert seen == case, f"{path.name}, {way}"


def test_there_are_cases():
    assert len(CASES) >= 15
    for path in CASES:
        title, case = read(path)
        assert title.strip() and {"agent sends", "agent gets", "record"} <= case.keys(), path.name
