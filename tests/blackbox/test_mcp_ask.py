"""`weir mcp list`, `call` and `inspect` at a terminal, against a gateway that runs."""

import json
import os
import subprocess

import pytest

from gateway import WEIR, everything


def ask(gateway, *arguments, agent="dev", url=True, **env):
    to = ["--url", f"http://127.0.0.1:{gateway.port}"] if url else []
    env = {"HOME": str(gateway.folder), "PATH": os.environ["PATH"], "WEIR_KEY": gateway.keys[agent], **env}
    return subprocess.run([str(WEIR), "mcp", *arguments, *to], cwd=gateway.folder, env=env, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("server", ["web", "child"])
def test_tools_are_listed_as_the_agent_may_use_them(gateway, server):
    result = ask(gateway, "list", server)
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert any(line.startswith(f"{server}/echo ") and "Gives back its text." in line for line in lines), lines
    assert not any("forbidden" in line for line in lines)
    listed = json.loads(ask(gateway, "list", server, "--json").stdout)
    assert [row["server"] for row in listed] == [server]
    assert "echo" in [tool["name"] for tool in listed[0]["tools"]]
    for_guest = json.loads(ask(gateway, "list", server, "--json", agent="guest").stdout)
    assert [tool["name"] for tool in for_guest[0]["tools"]] == ["echo"]


def test_all_servers_are_those_of_the_configuration(gateway):
    listed = json.loads(ask(gateway, "list", "--json").stdout)
    assert [row["server"] for row in listed] == ["web", "child"]
    # The address is that of the configuration where none is named; here it has port 0.
    refused = ask(gateway, "list", url=False)
    assert refused.returncode == 2 and "does not say at which address" in refused.stderr


@pytest.mark.parametrize("server", ["web", "child"])
def test_a_tool_is_called(gateway, server):
    result = ask(gateway, "call", f"{server}/echo", '{"text": "hello there"}')
    assert (result.returncode, result.stdout) == (0, "hello there\n"), result.stderr
    as_json = json.loads(ask(gateway, "call", f"{server}/echo", '{"text": "hi"}', "--json").stdout)
    assert as_json["content"][0]["text"] == "hi"
    streamed = ask(gateway, "call", f"{server}/burst")
    assert streamed.returncode == 0 or server == "web", streamed.stderr


def test_no_is_1_and_cannot_is_2(gateway, tmp_path):
    no = ask(gateway, "call", "web/forbidden")
    assert no.returncode == 1 and "(policy.forbidden)" in no.stderr and no.stdout == ""
    unknown = ask(gateway, "list", "nowhere")
    assert unknown.returncode == 1 and "(mcp.server_unknown)" in unknown.stderr
    stranger = ask(gateway, "list", "web", WEIR_KEY="weir_" + "A" * 43)
    assert stranger.returncode == 1 and "(agent.key_unknown)" in stranger.stderr
    assert "A" * 43 not in stranger.stderr
    for arguments, text in [
        (["call", "echo"], "is not SERVER/TOOL"),
        (["call", "web/echo", "[]"], "not a JSON object"),
        (["list", "web", "--key", "weir_abc"], "env:NAME"),
        (["list", "web", "--key", "env:NOWHERE"], "NOWHERE is not set"),
        (["list", "web", "--ca", "nowhere.pem"], "nowhere.pem"),
        (["list", "../x"], "cannot be a server's name"),
    ]:
        result = ask(gateway, *arguments)
        assert result.returncode == 2 and text in result.stderr, (arguments, result.stderr)
    nobody = subprocess.run([str(WEIR), "mcp", "list", "web", "--url", "http://127.0.0.1:9"], cwd=tmp_path, capture_output=True, text=True,
                            env={"WEIR_KEY": gateway.keys["dev"]}, timeout=60)
    assert nobody.returncode == 2 and "cannot be reached" in nobody.stderr and "help:" in nobody.stderr


def test_a_server_is_inspected(tmp_path):
    from gateway import Gateway
    with Gateway(tmp_path, {"every": everything()}) as gateway:
        seen = json.loads(ask(gateway, "inspect", "every", "--json").stdout)
        assert {"2025-11-25", "2025-06-18"} <= set(seen["revisions"])
        assert "tools" in seen["capabilities"] and "echo" in seen["offers"]["tools"]
        assert seen["offers"]["prompts"] and seen["about"]["name"]
        shown = ask(gateway, "inspect", "every").stdout
        assert shown.startswith("every  ") and "revisions     " in shown and "tools " in shown
        answer = ask(gateway, "call", "every/echo", '{"message": "hello"}')
        assert answer.returncode == 0 and "hello" in answer.stdout
        # Each command ended the sessions that it began.
        page = gateway.operator("/metrics").body.decode()
        assert "weir_mcp_sessions 0" in page or "weir_sessions 0" in page, page
        wrong = ask(gateway, "call", "every/echo", "{}")
        assert wrong.returncode == 1
