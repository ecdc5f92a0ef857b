"""Other gateways of MCP in `mcp_lane.py`: how each is started before the benchmark's servers, and called.

They are LiteLLM's proxy and ContextForge, from PyPI by `setup/setup.sh bench`. Each checks one key and carries the call,
with one worker, as it does by default. What is switched off, because it needs a database server, a network, or would
refuse the load, is said in `OFF` and on the page. Nothing that they do answers to weir's policies of arguments, scan and
record before the call: they do less for a call. What does not start within its time is left out, and said so.
"""

import hashlib
import http.client
import json
import os
import subprocess
import time
from pathlib import Path
from typing import NamedTuple

import bench
import calls

SETUP = bench.ROOT / ".setup"
START_S = 120
CONNECTIONS = 8
KEY = "sk-bench"
# A secret of this run alone: ContextForge refuses those with little in them.
SECRET = hashlib.sha256(os.urandom(32)).hexdigest()
ADMIN = "admin@example.com"
OFF = {
    "LiteLLM": "keys of agents, budgets and spending, which need PostgreSQL (one master key is checked); its page of "
               "administration; prices from the network",
    "ContextForge": "limits of rate, plugins, its page of administration, the export of traces; SQLite in place of PostgreSQL, no Redis",
}


class Rival(NamedTuple):
    """A gateway that runs, and how it is called."""
    process: subprocess.Popen
    port: int
    path: str
    fields: dict
    # What it calls a tool of a server.
    name: str

    def rows(self):
        """The load tool's rows: each tool of each server once."""
        rows = []
        for number in range(calls.SERVERS * calls.TOOLS):
            said = json.loads(calls.call_body(number))
            said["params"]["name"] = self.name.format(server=number % calls.SERVERS, tool=calls.tool_name(number))
            body = json.dumps(said, separators=(",", ":"))
            fields = {**calls.headers(body), **self.fields}
            lua = ",".join(f"[{json.dumps(name)}]={json.dumps(value)}" for name, value in fields.items())
            rows.append(f"{{{json.dumps(self.path)},{{{lua}}},{json.dumps(body)}}}")
        return "return {\n" + ",\n".join(rows) + "\n}\n"


def ask(port, method, path, body=None, fields=None):
    """One request; gives the status and the body, or nothing where nobody answers."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request(method, path, body, {"content-type": "application/json", **(fields or {})})
        answer = connection.getresponse()
        return answer.status, answer.read()
    except OSError:
        return None, b""
    finally:
        connection.close()


def run(name, command, environment):
    """Starts a gateway in a folder of its own, without the environment of this one."""
    folder = bench.WORK / name
    folder.mkdir()
    log = open(folder / "log", "wb")
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), **environment}
    return subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log, start_new_session=True)


def wait(name, process, port, path):
    """Waits until a gateway is well."""
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline and process.poll() is None:
        if ask(port, "GET", path)[0] == 200:
            return
        time.sleep(0.2)
    process.kill()
    process.wait()
    raise OSError(f"{name} did not start within {START_S} s: see {bench.WORK / name}/log")


def litellm(origin_port):
    """LiteLLM's proxy with the servers in its configuration."""
    port = bench.free_port()
    servers = {f"s{i}": {"url": f"http://127.0.0.1:{origin_port}/mcp/{calls.first_tool(i)}", "transport": "http",
                         "allow_all_keys": True} for i in range(calls.SERVERS)}
    path = bench.WORK / "litellm.yaml"
    path.write_text(json.dumps({"model_list": [], "general_settings": {"master_key": KEY}, "mcp_servers": servers}))
    command = [SETUP / "venv-litellm/bin/litellm", "--config", path, "--host", "127.0.0.1", "--port", port,
               "--telemetry", "False"]
    off = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "DISABLE_ADMIN_UI": "True", "NO_DOCS": "True", "LITELLM_LOG": "ERROR"}
    process = run("LiteLLM", list(map(str, command)), off)
    wait("LiteLLM", process, port, "/health/liveliness")
    return Rival(process, port, "/mcp/", {"authorization": f"Bearer {KEY}"}, "s{server}-{tool}")


def token():
    """A token of an administrator of ContextForge, made by its own tool."""
    command = [SETUP / "venv-contextforge/bin/python", "-m", "mcpgateway.utils.create_jwt_token", "--username", ADMIN,
               "--admin", "--exp", "120", "--secret", SECRET]
    environment = {"PATH": os.environ["PATH"], "JWT_SECRET_KEY": SECRET}
    done = subprocess.run(list(map(str, command)), env=environment, cwd=bench.WORK, capture_output=True, text=True, check=True)
    return done.stdout.split()[-1]


def contextforge(origin_port):
    """ContextForge with the servers registered by its API."""
    port = bench.free_port()
    environment = {
        "DATABASE_URL": f"sqlite:///{bench.WORK}/ContextForge/mcp.db", "CACHE_TYPE": "memory", "JWT_SECRET_KEY": SECRET,
        "AUTH_ENCRYPTION_SECRET": hashlib.sha256(SECRET.encode()).hexdigest(), "PLATFORM_ADMIN_EMAIL": ADMIN,
        "PLATFORM_ADMIN_PASSWORD": f"Bench-{SECRET[:12]}!", "BASIC_AUTH_PASSWORD": f"Bench-{SECRET[12:24]}!",
        "MCPGATEWAY_UI_ENABLED": "false", "PLUGINS_ENABLED": "false", "RATE_LIMITING_ENABLED": "false",
        "TOOL_RATE_LIMIT": "1000000", "SSRF_ALLOW_LOCALHOST": "true", "SSRF_ALLOW_PRIVATE_NETWORKS": "true",
        "LOG_LEVEL": "ERROR", "ENVIRONMENT": "development", "OTEL_ENABLE_OBSERVABILITY": "false",
    }
    command = [SETUP / "venv-contextforge/bin/mcpgateway", "--host", "127.0.0.1", "--port", port]
    process = run("ContextForge", list(map(str, command)), environment)
    wait("ContextForge", process, port, "/health")
    fields = {"authorization": f"Bearer {token()}"}
    for i in range(calls.SERVERS):
        server = {"name": f"s{i}", "url": f"http://127.0.0.1:{origin_port}/mcp/{calls.first_tool(i)}",
                  "transport": "STREAMABLEHTTP"}
        status, said = ask(port, "POST", "/gateways", json.dumps(server), fields)
        if status not in (200, 201):
            process.kill()
            process.wait()
            raise OSError(f"ContextForge took no server: {status} {said[:300]}")
    return Rival(process, port, "/mcp/", fields, "s{server}-{tool}")


ALL = {"LiteLLM": litellm, "ContextForge": contextforge}


def start(name, origin_port):
    """Starts one and sees that it carries a call.

    Raises OSError with why it does not."""
    program = {"LiteLLM": "litellm", "ContextForge": "contextforge"}[name]
    if not Path(SETUP / f"venv-{program}").is_dir():
        raise OSError(f"{name} is not installed: make bench installs it")
    rival = ALL[name](origin_port)
    said = json.loads(calls.call_body(0))
    said["params"]["name"] = rival.name.format(server=0, tool=calls.tool_name(0))
    body = json.dumps(said)
    status, data = ask(rival.port, "POST", rival.path, body, {**calls.headers(body), **rival.fields})
    if status != 200 or b'"result"' not in data or b'"isError":true' in data:
        bench.end([rival.process])
        raise OSError(f"{name} answered a call {status}: {data[:300]}")
    return rival
