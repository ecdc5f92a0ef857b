"""`weir init --from mcp`: the servers of clients' configurations, with secrets as references; what is written can be served."""

import json
import os
import subprocess

import pytest

from gateway import WEIR
from test_connect import CLIENTS, CONFIGS, put, refused

# Made up for these tests; the shape is a GitHub token's, with a checksum that fits none.
SECRET = "ghp_" + "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5"[:36]


def weir(home, *arguments, **env):
    env = {"HOME": str(home), "PATH": os.environ["PATH"], **env}
    return subprocess.run([str(WEIR), *map(str, arguments)], cwd=home, env=env, capture_output=True, text=True, timeout=60)


def init(home, *arguments):
    result = weir(home, "init", "--from", "mcp", *arguments, "--json", "new")
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def shown(home, said):
    """The configuration as weir reads it, with every variable set that is to be exported."""
    env = {export["name"]: "value-of-a-secret-000000" for export in said["exports"]}
    checked = weir(home, "config", "check", "-c", said["config"], **env)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    result = weir(home, "config", "show", "-c", said["config"], **env)
    assert result.returncode == 0, result.stderr
    return (home / said["config"]).read_text()


def write(home, servers, root="mcpServers"):
    (home / "client.json").write_text(json.dumps({root: servers}))
    return home / "client.json"


def test_secrets_become_references_and_are_told_by_their_place(tmp_path):
    file = write(tmp_path, {
        "GitHub Tools": {"command": "npx", "args": ["-y", "server-github"], "env": {
            "GITHUB_TOKEN": SECRET, "PLAIN": "some text: \"quoted\" # no comment", "HIDDEN": SECRET, "LOG": "${LOG_LEVEL}"}},
        "tracker": {"type": "http", "url": "https://tracker.example/mcp", "headers": {"Authorization": f"Bearer {SECRET}"}},
        "other": {"command": "other-server", "env": {"GITHUB_TOKEN": "another-secret-value"}},
        "referred": {"url": "https://referred.example/mcp", "headers": {"Authorization": "Bearer ${env:REF_TOKEN}"}},
        "inside": {"url": "http://10.1.2.3:8000/mcp"},
    })
    said = init(tmp_path, file)
    assert said["servers"] == ["GitHub-Tools", "tracker", "other", "referred", "inside"] and said["without"] == []
    exports = {export["name"]: export["at"] for export in said["exports"]}
    assert exports == {
        "GITHUB_TOKEN": f"mcpServers.GitHub Tools.env.GITHUB_TOKEN of {file}",
        "HIDDEN": f"mcpServers.GitHub Tools.env.HIDDEN of {file}",
        "LOG_LEVEL": f"mcpServers.GitHub Tools.env.LOG of {file}",
        "TRACKER_TOKEN": f"mcpServers.tracker.headers.Authorization of {file}",
        "OTHER_GITHUB_TOKEN": f"mcpServers.other.env.GITHUB_TOKEN of {file}",
        "REF_TOKEN": f"mcpServers.referred.headers.Authorization of {file}",
    }
    text = shown(tmp_path, said)
    assert SECRET not in text and "another-secret-value" not in text
    for line in ['command: ["npx", "-y", "server-github"]', "GITHUB_TOKEN: env:GITHUB_TOKEN", "HIDDEN: env:HIDDEN", "LOG: env:LOG_LEVEL",
                 "token: env:TRACKER_TOKEN", "GITHUB_TOKEN: env:OTHER_GITHUB_TOKEN", "token: env:REF_TOKEN", "PATH: env:PATH",
                 'addresses: ["10.1.2.3/32"]', 'PLAIN: "some text: \\"quoted\\" # no comment"']:
        assert line in text, line
    again = weir(tmp_path, "init", "--from", "mcp", file, "there")
    assert again.returncode == 0 and SECRET not in again.stdout + again.stderr
    assert "export GITHUB_TOKEN=" in again.stdout and "export TRACKER_TOKEN=" in again.stdout
    # Nothing that is there is written over.
    refused(weir(tmp_path, "init", "--from", "mcp", file, "there"), "is there already")


def test_what_cannot_be_taken_over_is_named(tmp_path):
    file = write(tmp_path, {
        "good": {"command": "server"},
        "off": {"command": "server", "disabled": True},
        "old": {"type": "sse", "url": "https://old.example/sse"},
        "keyed": {"url": "https://keyed.example/mcp", "headers": {"X-Api-Key": SECRET}},
        "query": {"url": f"https://query.example/mcp?key={SECRET}"},
        "word": {"command": "server", "args": ["--token", SECRET]},
        "folder": {"command": "server", "args": ["${workspaceFolder}"]},
        "nothing": {},
        "text": "text",
        "ftp": {"url": "ftp://files.example/"},
        "weir-files": {"url": "http://127.0.0.1:8700/mcp/files"},
        "clear": {"url": "http://clear.example/mcp", "headers": {"Authorization": "Bearer ${TOKEN}"}},
        "workspace": {"command": "server", "cwd": "${workspaceFolder}"},
        "123": {"command": "server", "args": ["null", "a: b", "- c", "#", "\u00e9\n"]},
    })
    said = init(tmp_path, file)
    assert said["servers"] == ["good", "123"]
    without = {row["name"].split(" ")[0]: row["what"] for row in said["without"]}
    for name, text in {"off": "switched off", "old": "HTTP+SSE", "keyed": "header X-Api-Key", "query": "a query", "word": "a secret in word 2",
                       "folder": "refers to a variable", "nothing": "neither a command nor a url", "text": "no object", "ftp": "URL",
                       "weir-files": "of weir already", "clear": "in the clear", "workspace": "in its folder"}.items():
        assert text in without.pop(name), name
    assert without == {} and SECRET not in json.dumps(said)
    shown(tmp_path, said)


@pytest.mark.parametrize("client", CLIENTS)
def test_each_clients_format_is_read(client, tmp_path):
    file = next(CONFIGS.glob(f"{client}.*"))
    if client in ("gemini", "zed"):
        refused(weir(tmp_path, "init", "--from", "mcp", file, "new"), "names no MCP servers")
        assert not (tmp_path / "new").exists()
        return
    said = init(tmp_path, file)
    names = {"claude-code": ["github", "memory"], "claude-desktop": ["filesystem"], "cursor": ["playwright"], "vscode": ["github"],
             "codex": ["docs"]}
    assert said["servers"] == names[client]
    shown(tmp_path, said)


def test_the_known_places_are_looked_in_and_one_server_is_taken_once(tmp_path):
    refused(weir(tmp_path, "init", "--from", "mcp", "--find", "new"), "no client keeps a configuration")
    for client in CLIENTS:
        put(tmp_path, client)
    same = {"memory": {"type": "stdio", "command": "npx", "args": ["-y", "@modelcontextprotocol/server-memory"], "env": {}},
            "github": {"command": "another"}}
    put(tmp_path, "gemini", json.dumps({"mcpServers": same}).encode())
    put(tmp_path, "zed", b"{ oops")
    said = init(tmp_path, "--find")
    assert said["servers"] == ["github", "memory", "filesystem", "playwright", "github-vscode", "docs", "github-gemini"]
    assert len(said["from"]) == 6
    assert [row["name"] for row in said["without"]] == [str(tmp_path / ".config/zed/settings.json")]
    shown(tmp_path, said)


def test_wrong_use_says_what_is_right(tmp_path):
    for arguments in (["--from", "mcp"], ["--from", "mcp", "nowhere.json"], ["--from", "emacs", "x"], ["--find"],
                      ["--from", "mte-env", "x", "--find"]):
        assert weir(tmp_path, "init", *arguments).returncode == 2
    (tmp_path / "bad.json").write_text("{\n oops")
    refused(weir(tmp_path, "init", "--from", "mcp", "bad.json"), "bad.json is not JSON: line 2")
    (tmp_path / "list.json").write_text('{"mcpServers": []}')
    refused(weir(tmp_path, "init", "--from", "mcp", "list.json"), "\"mcpServers\" that is no object")
