"""`/mcp`: a call by a name that no server lists, that policy forbids, or that was permitted a moment ago."""

import json
import subprocess

import pytest

from gateway import LEGACY_PYTHON, SERVERS, Gateway, child_server, until

LOOK = '@id("look") permit (principal, action in [Action::"mcp:use", Action::"mcp:list"], resource);\n'
ECHO = '@id("echo") permit (principal, action == Action::"mcp:call", resource == Tool::"one/echo");\n'
TWO = '@id("two") permit (principal, action == Action::"mcp:call", resource in Server::"two");\n'
NEVER = '@id("never") forbid (principal, action == Action::"mcp:call", resource == Tool::"one/forbidden");\n'


@pytest.fixture
def gateway(tmp_path):
    servers = {"one": child_server(), "two": {**child_server(), "names": {"echo": "say", "forbidden": "much"}}}
    with Gateway(tmp_path / "weir", servers, {"dev": {}}, LOOK + ECHO + NEVER) as gateway:
        until(lambda: set(health(gateway).values()) == {"works"}, "both work")
        yield gateway
        gateway.verify()


def health(gateway):
    return gateway.request("GET", "/health").json()["servers"]


def ask(gateway, method, params, path="/mcp"):
    message = {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}
    return gateway.request("POST", path, json.dumps(message), gateway.headers("dev"))


def call(gateway, name, **arguments):
    return ask(gateway, "tools/call", {"name": name, "arguments": arguments})


def last(gateway):
    return [record for record in gateway.records() if record["kind"] == "judgement"][-1]


def listed(gateway):
    return {tool["name"] for tool in ask(gateway, "tools/list", {}).messages()[-1]["result"]["tools"]}


def test_a_name_that_nobody_has_is_refused_and_recorded(gateway):
    for method, params, action, part in [
        ("tools/call", {"name": "made_up", "arguments": {}}, "mcp:call", ("tool", "made_up")),
        ("prompts/get", {"name": "no_prompt"}, "mcp:prompt", ("prompt", "no_prompt")),
        ("resources/read", {"uri": "none://x"}, "mcp:read", ("resource", "none://x")),
    ]:
        refused = ask(gateway, method, params)
        assert refused.status == 200 and refused.json()["id"] == 7, (method, refused.status, refused.body)
        assert refused.refusal()[0] == "mcp.item_unknown", refused.body
        record = last(gateway)
        assert (record["action"], record["server"], record[part[0]]) == (action, "mcp", part[1]), record
        assert (record["refusal"], record["method"]) == ("mcp.item_unknown", method)
    assert "made_up" in gateway.weir("audit", "show", "--tool", "made_up").stdout
    assert "records: 1 of" in gateway.weir("audit", "show", "--action", "mcp:prompt").stdout
    # A name may hold a secret, which no record keeps.
    secret = "AKIA" + "Q7M4R2ZP9XVB3NTK"
    assert call(gateway, secret).refusal()[0] == "mcp.item_unknown"
    assert secret not in gateway.weir("audit", "show", "--json").stdout and "aws" in last(gateway)["tool"]


def test_a_forbidden_name_is_judged_as_the_call_that_it_is(gateway):
    assert listed(gateway) == {"echo"}
    for name in ["forbidden", "one__forbidden"]:
        refused = call(gateway, name)
        assert (refused.status, refused.refusal()[0]) == (200, "policy.forbidden"), refused.body
        record = last(gateway)
        assert (record["server"], record["tool"], record["action"]) == ("one", "forbidden", "mcp:call"), record
        assert "never" in json.dumps(record), record
    # By the name that the configuration gives it too.
    assert call(gateway, "much").refusal()[0] == "policy.forbidden"
    assert (last(gateway)["server"], last(gateway)["tool"]) == ("two", "forbidden")
    # At the URL of its server it is the same.
    session = gateway.session("one")
    assert session.call("forbidden", "").refusal()[0] == "policy.forbidden"


def test_one_wrong_name_does_not_end_a_clients_session(gateway):
    command = [str(LEGACY_PYTHON), str(SERVERS.parent / "clients/legacy.py"),
               f"http://127.0.0.1:{gateway.port}/mcp", gateway.keys["dev"], "wrong_name"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr[-2000:]
    seen = json.loads(done.stdout)
    assert (seen["refused"], seen["echo"]) == ("mcp.item_unknown", "hello")


def test_a_policy_that_is_reloaded_is_seen_at_once(gateway):
    assert listed(gateway) == {"echo"}
    before = gateway.logs.text().count('"reloaded"')
    (gateway.folder / "policy.cedar").write_text(LOOK + ECHO + NEVER + TWO)
    until(lambda: gateway.logs.text().count('"reloaded"') > before, "it is reloaded")
    # Its log says what changed.
    assert '"changed":"policy"' in gateway.logs.text()
    said = call(gateway, "say", text="hello")
    assert said.status == 200 and b"hello" in said.body, said.body
    assert {"say", "much"} <= listed(gateway)
    before = gateway.logs.text().count('"reloaded"')
    (gateway.folder / "policy.cedar").write_text(LOOK + ECHO + NEVER)
    until(lambda: gateway.logs.text().count('"reloaded"') > before, "it is reloaded")
    assert listed(gateway) == {"echo"}
    assert call(gateway, "say", text="hello").refusal()[0] == "policy.forbidden"
    # It is the policy that changed, and no server.
    assert "lists something else" not in gateway.logs.text()
