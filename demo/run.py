"""`make run`: starts the gateway with the demo's configuration, shows what it does, and keeps serving.

It makes everything it needs in demo/state, fresh each time, and ends cleanly on Ctrl-C. With --once it stops
after the show. It exits 1 if any step went wrong, so that CI can run it.
"""

import argparse
import json
import os
import secrets
import shutil
import signal
import socket
import string
import subprocess
import sys
import threading
from pathlib import Path

from show import check, failed, paint, step

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
STATE = HERE / "state"
FILES = STATE / "files"
PORT = 8700
URL = f"http://127.0.0.1:{PORT}"
START_S = 30
STOP_S = 20


def refuse(text):
    print(paint("31", f"demo: {text}"), file=sys.stderr)
    sys.exit(1)


def port_is_free():
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", PORT))
        except OSError:
            return False
    return True


def prepare(weir):
    """Makes the state folder: files, a configuration, a policy. Gives the agent's key and a token's end."""
    shutil.rmtree(STATE, ignore_errors=True)
    shutil.copytree(HERE / "files", FILES)
    shutil.copy(HERE / "policy.cedar", STATE)
    end = "".join(secrets.choice(string.ascii_letters) for _ in range(6))
    token = "ghp_" + "kX9vB2nM4qW7eR1tY6uI3oP8aS5dF0" + end
    (FILES / "notes.txt").write_text(f"To deploy, export GITHUB_TOKEN={token} and run make deploy.\n")
    made = subprocess.run([weir, "agent", "key", "--json"], check=True, capture_output=True, text=True)
    key = json.loads(made.stdout)
    text = (HERE / "weir.yaml").read_text()
    values = {
        "KEY_HASH": key["hash"], "FILES": str(FILES), "PATH": os.environ["PATH"],
        "ROOT": str(ROOT),
        "NODE_BIN": str(ROOT / ".setup/node/node_modules/.bin"),
    }
    for name, value in values.items():
        text = text.replace(f"@{name}@", value)
    (STATE / "weir.yaml").write_text(text)
    return key["key"], end


def start(weir):
    """Starts the gateway and waits until it says that it listens."""
    logs = open(STATE / "weir.log", "wb")
    command = [weir, "serve", "-c", str(STATE / "weir.yaml")]
    # A session of its own: Ctrl-C reaches this program, which then ends the gateway.
    gateway = subprocess.Popen(command, stderr=subprocess.PIPE, start_new_session=True)
    ready = threading.Event()

    def follow():
        for line in gateway.stderr:
            logs.write(line)
            logs.flush()
            if b"listening" in line:
                ready.set()
        ready.set()

    threading.Thread(target=follow, daemon=True).start()
    if not ready.wait(START_S) or gateway.poll() is not None:
        stop(gateway)
        refuse(f"the gateway did not start:\n{(STATE / 'weir.log').read_text()}")
    return gateway


def stop(gateway):
    if gateway.poll() is None:
        gateway.send_signal(signal.SIGTERM)
        try:
            gateway.wait(STOP_S)
        except subprocess.TimeoutExpired:
            gateway.kill()
            gateway.wait()
            return False
    return gateway.returncode == 0


def run_agent(key, end):
    environment = {**os.environ, "WEIR_URL": f"{URL}/mcp/files", "WEIR_CODE_URL": f"{URL}/mcp/code", "WEIR_FLOW_URL": f"{URL}/mcp/flow",
                   "WEIR_KEY": key, "WEIR_FILES": str(FILES),
                   "WEIR_TOKEN_END": end}
    done = subprocess.run([sys.executable, str(HERE / "agent.py")], env=environment, timeout=120)
    if done.returncode:
        check("the scripted agent", False, "it did not finish as it should; see above")


def audit(weir, *arguments):
    return subprocess.run([weir, "audit", *map(str, arguments)], capture_output=True, text=True, timeout=60)


def show_log(weir):
    step("the log says what happened")
    shown = audit(weir, "show", STATE / "state", "--json")
    records = [json.loads(line) for line in shown.stdout.splitlines() if line.strip()]
    records = [record.get("record", record) for record in records]
    refusals = {record.get("refusal") for record in records}
    check("each refusal is recorded", {"policy.forbidden", "scan.secret"} <= refusals,
          f"{len(records)} records; refused: {', '.join(sorted(filter(None, refusals)))}")
    findings = [finding for record in records for finding in record.get("findings", [])]
    rules = sorted({f"{finding['rule']} ({finding['action']})" for finding in findings})
    stopped = any(finding["path"].startswith("result") and finding["action"] == "refuse" for finding in findings)
    redacted = any(finding["action"] == "redact" for finding in findings)
    check("the injection is stopped, the secret redacted", stopped and redacted, ", ".join(rules))


def show_proof(weir):
    step("the log verifies; a tampered copy of it does not")
    whole = audit(weir, "verify", STATE / "state")
    check("weir audit verify", whole.returncode == 0, (whole.stdout or whole.stderr).strip())
    copy = STATE / "tampered"
    # What the shipped tools keep is no part of the log.
    shutil.copytree(STATE / "state", copy, ignore=shutil.ignore_patterns("tools", "admin.sock"))
    changed = tamper(copy)
    told = audit(weir, "verify", copy)
    text = (told.stdout + told.stderr).strip().replace(f"{copy}/", "")
    check(f"the same, with one name changed in {changed}", told.returncode == 1, text)


def tamper(folder):
    """Changes the agent's name in the first record that has one. Gives the changed file's name."""
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            data = path.read_bytes()
            if b'"agent":"demo"' in data:
                path.write_bytes(data.replace(b'"agent":"demo"', b'"agent":"nemo"', 1))
                return path.name
    return "no file: there is no record to change"


def connect(key):
    """How other clients connect, with the demo's key."""
    url = f"{URL}/mcp/files"
    bearer = f"Authorization: Bearer {key}"
    cursor = {"mcpServers": {"weir": {"url": url, "headers": {"Authorization": f"Bearer {key}"}}}}
    code = {"servers": {"weir": {"type": "http", "url": url, "headers": {"Authorization": f"Bearer {key}"}}}}
    hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "curl", "version": "1"}}}
    step(f"weir keeps serving on {URL}; Ctrl-C ends it")
    print(f"""
  {paint('1', 'Claude Code')}
    claude mcp add --transport http weir {url} --header "{bearer}"
  {paint('1', 'Cursor')}, in .cursor/mcp.json
    {json.dumps(cursor)}
  {paint('1', 'VS Code')}, in .vscode/mcp.json
    {json.dumps(code)}
  {paint('1', 'curl')}
    curl -i {url} -H "{bearer}" -H "content-type: application/json" \\
      -H "accept: application/json, text/event-stream" -d '{json.dumps(hello)}'

  Code search over this repository is at {URL}/mcp/code, work tracking at {URL}/mcp/flow, with the same key.
  The gateway's own log is {STATE / 'weir.log'}.
""", flush=True)


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--weir", required=True, help="the binary")
    options.add_argument("--once", action="store_true", help="stop after the show")
    options = options.parse_args()
    weir = str(Path(options.weir).resolve())
    # The show and its end are the same for Ctrl-C and for a supervisor's SIGTERM.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if not port_is_free():
        refuse(f"port {PORT} is taken; end what listens there (ss -ltnp 'sport = :{PORT}'), then try again")
    key, end = prepare(weir)
    gateway = start(weir)
    interrupted = False
    try:
        run_agent(key, end)
        show_log(weir)
        show_proof(weir)
        if not options.once:
            connect(key)
            gateway.wait()
            check("the gateway keeps serving", False, f"it ended with {gateway.returncode}; see weir.log")
    except KeyboardInterrupt:
        interrupted = True
        print()
    except BaseException:
        # Whatever went wrong in the show, the gateway does not outlive it.
        stop(gateway)
        raise
    clean = stop(gateway)
    if not interrupted or not clean:
        check("the gateway ends cleanly", clean)
    total = len(failed())
    print(paint("31", f"\n{total} went wrong: {', '.join(failed())}") if total else paint("32", "\nall as it should be"))
    sys.exit(1 if total else 0)


main()
