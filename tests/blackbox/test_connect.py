"""`weir connect` on files as the programs write them: each is read by its own format afterwards, and undone to the same bytes."""

import json
import os
import re
import stat
import subprocess
import tomllib
from pathlib import Path

import pytest

from gateway import WEIR, new_key

CONFIGS = Path(__file__).parent / "clients/configs"
KEY = new_key("connect")[0]
URL = "https://weir.example"
# The file below the home folder, what holds the servers, and what an entry says of the key.
CLIENTS = {
    "claude-code": (".claude.json", "mcpServers", "Bearer ${WEIR_KEY}"),
    "claude-desktop": (".config/Claude/claude_desktop_config.json", "mcpServers", "Authorization:Bearer ${WEIR_KEY}"),
    "cursor": (".cursor/mcp.json", "mcpServers", "Bearer ${env:WEIR_KEY}"),
    "vscode": (".config/Code/User/mcp.json", "servers", "Bearer ${env:WEIR_KEY}"),
    "codex": (".codex/config.toml", "mcp_servers", "WEIR_KEY"),
    "gemini": (".gemini/settings.json", "mcpServers", "Bearer ${WEIR_KEY}"),
    "zed": (".config/zed/settings.json", "context_servers", None),
}
URL_MEMBER = {"gemini": "httpUrl"}


def weir(home, *arguments, **env):
    env = {"HOME": str(home), "PATH": os.environ["PATH"], "WEIR_KEY": KEY, **env}
    return subprocess.run([str(WEIR), *map(str, arguments)], cwd=home, env=env, capture_output=True, text=True, timeout=60)


def connect(home, client, *arguments, servers=("files",), **env):
    to = ["--url", URL, *(word for server in servers for word in ("--server", server))]
    return weir(home, "connect", client, *to, *arguments, **env)


def undo(home, client, *arguments):
    return weir(home, "connect", client, "--undo", *arguments)


def refused(result, *texts):
    assert result.returncode == 2, result.stdout
    assert result.stdout == ""
    for text in texts:
        assert text in result.stderr
    return result.stderr


def parse(path):
    """The file as its program reads it; comments and trailing commas are taken out first."""
    text = path.read_bytes().decode().removeprefix("\ufeff")
    if path.suffix == ".toml":
        return tomllib.loads(text)
    kept = re.sub(r'("(?:\\.|[^"\\])*")|//[^\n]*|/\*.*?\*/', lambda found: found[1] or "", text, flags=re.S)
    kept = re.sub(r'("(?:\\.|[^"\\])*")|,(?=\s*[}\]])', lambda found: found[1] or "", kept)
    return json.loads(kept)


@pytest.fixture(params=CLIENTS)
def client(request):
    return request.param


def put(home, client, content=None):
    """The client's file in its place: as the program writes it, or with that content."""
    path = home / CLIENTS[client][0]
    path.parent.mkdir(parents=True, exist_ok=True)
    sample = next(CONFIGS.glob(f"{client}.*"))
    path.write_bytes(sample.read_bytes() if content is None else content)
    return path


def left_beside(path):
    return sorted(other.name for other in path.parent.iterdir() if other != path)


def test_each_client_is_connected_and_undone_to_the_same_bytes(client, tmp_path):
    path = put(tmp_path, client)
    path.chmod(0o640)
    before, parsed = path.read_bytes(), parse(path)
    _, root, key = CLIENTS[client]
    result = connect(tmp_path, client, servers=("files", "web"))
    assert result.returncode == 0, result.stderr
    after = parse(path)
    added = {name: after[root].pop(name) for name in ("weir-files", "weir-web")}
    if root not in parsed:
        assert after.pop(root) == {}
    assert after == parsed, "something else was changed"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    entry = added["weir-web"]
    if client == "claude-desktop":
        assert entry["command"] == "npx" and entry["args"] == ["-y", "mcp-remote", f"{URL}/mcp/web", "--header", key]
    else:
        assert entry[URL_MEMBER.get(client, "url")] == f"{URL}/mcp/web"
        assert (key or "") in json.dumps(entry) and ("headers" in entry) == (client not in ("zed", "codex"))
    assert KEY not in path.read_text() + result.stdout + result.stderr
    # Nothing that stood there is gone: the old text is what is left of the new one without what was added.
    rest = iter(path.read_bytes())
    assert all(byte in rest for byte in before)
    assert left_beside(path) == [f"{path.name}.weir-backup", f"{path.name}.weir-note"]
    assert undo(tmp_path, client).returncode == 0
    assert path.read_bytes() == before and left_beside(path) == []
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_a_second_run_replaces_the_first_and_undoes_as_far(client, tmp_path):
    path = put(tmp_path, client)
    before = path.read_bytes()
    assert connect(tmp_path, client, servers=("files", "web")).returncode == 0
    assert connect(tmp_path, client, servers=("web",)).returncode == 0
    names = parse(path)[CLIENTS[client][1]]
    assert "weir-web" in names and "weir-files" not in names
    assert undo(tmp_path, client).returncode == 0
    assert path.read_bytes() == before


def test_what_changed_meanwhile_stays(client, tmp_path):
    path = put(tmp_path, client)
    parsed = parse(path)
    assert connect(tmp_path, client).returncode == 0
    # The program writes its file too: a comment in front, and a member of its own.
    text = path.read_bytes().decode()
    mark = "# mine\nextra = 1\n" if path.suffix == ".toml" else None
    text = mark + text if mark else text.replace("{", '{ "extra": 1,', 1)
    if client == "zed":
        text = path.read_text().replace('"ui_font_size": 16', '"extra": 1, "ui_font_size": 16')
    path.write_bytes(text.encode())
    result = undo(tmp_path, client)
    assert result.returncode == 0 and "but for the entries of weir" in result.stdout, result.stderr
    assert parse(path) == {"extra": 1, **parsed}
    assert left_beside(path) == []


@pytest.mark.parametrize("content", [b"", b"{}", b"\xef\xbb\xbf{\r\n}\r\n", b"{ // none\n}", b"{\"other\": {}}"])
def test_small_files(content, tmp_path):
    path = put(tmp_path, "cursor", content)
    assert connect(tmp_path, "cursor").returncode == 0
    assert list(parse(path)["mcpServers"]) == ["weir-files"]
    assert path.read_bytes().startswith(content[:3] if content[:1] == b"\xef" else b"")
    assert undo(tmp_path, "cursor").returncode == 0
    assert path.read_bytes() == content


def test_a_file_that_is_not_there_is_made_for_its_owner_and_goes_again(client, tmp_path):
    path = tmp_path / CLIENTS[client][0]
    if path.parent != tmp_path:
        refused(connect(tmp_path, client), "there is no folder", "--file")
        path.parent.mkdir(parents=True)
    assert connect(tmp_path, client).returncode == 0
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(parse(path)[CLIENTS[client][1]]) == ["weir-files"]
    assert undo(tmp_path, client).returncode == 0
    assert not path.exists() and left_beside(path) == []


def test_print_changes_nothing(client, tmp_path):
    path = put(tmp_path, client)
    before = path.read_bytes()
    shown = connect(tmp_path, client, "--print")
    assert shown.returncode == 0 and "weir-files" in shown.stdout and str(path) in shown.stdout
    as_json = json.loads(connect(tmp_path, client, "--print", "--json").stdout)
    assert as_json["changed"] is False and as_json["entries"] == [{"name": "weir-files", "url": f"{URL}/mcp/files"}]
    assert path.read_bytes() == before and left_beside(path) == []
    connect(tmp_path, client)
    written = path.read_bytes()
    assert "would be" in undo(tmp_path, client, "--print").stdout
    assert path.read_bytes() == written


def test_the_key_is_written_only_when_asked_for_and_for_the_owner_alone(tmp_path):
    for client in ("zed", "claude-desktop"):
        path = put(tmp_path, client)
        path.chmod(0o644)
        assert "--write-key" in connect(tmp_path, client).stdout
        assert KEY not in path.read_text()
        result = connect(tmp_path, client, "--write-key", "env:WEIR_KEY")
        assert result.returncode == 0 and KEY not in result.stdout + result.stderr
        assert KEY in path.read_text() and stat.S_IMODE(path.stat().st_mode) == 0o600
        assert KEY not in connect(tmp_path, client, "--write-key", "env:WEIR_KEY", "--print").stdout
        assert undo(tmp_path, client).returncode == 0
        assert path.read_bytes() == next(CONFIGS.glob(f"{client}.*")).read_bytes()
        assert stat.S_IMODE(path.stat().st_mode) == 0o644
    put(tmp_path, "codex")
    refused(connect(tmp_path, "codex", "--write-key", "env:WEIR_KEY"), "Codex takes no key as text")
    said = refused(connect(tmp_path, "zed", "--write-key", KEY), "env:NAME")
    assert KEY not in said
    refused(connect(tmp_path, "zed", "--write-key", "env:NOWHERE"), "NOWHERE is not set")


@pytest.mark.parametrize("content, text", [
    (b"{ nothing", "is not JSON: line 1"),
    (b"{\n  \"mcpServers\": {\n    oops\n", "is not JSON: line 3"),
    (b"[]", "no object"),
    (b"{\"mcpServers\": []}", "\"mcpServers\" that is no object"),
    (b"{\"mcpServers\": {\"weir-files\": {}}}", "has an entry \"weir-files\" already"),
    (b"{\"mcpServers\": {}, \"mcpServers\": {}}", "\"mcpServers\" twice"),
    (b"{\"mcpServers\": {\"a\": 1, \"\\u0061\": 2}}", "\"a\" twice"),
    (b"{\"a\": \"\xff\"}", "is not UTF-8"),
    (b"{} " + b" " * (4 << 20), "more than 4194304 bytes"),
    (b"[" * 100, "nested too deep"),
])
def test_a_json_file_that_cannot_be_edited_is_left_alone(content, text, tmp_path):
    path = put(tmp_path, "cursor", content)
    said = refused(connect(tmp_path, "cursor"), text, "nothing was changed", "help:")
    assert str(path) in said
    assert path.read_bytes() == content and left_beside(path) == []


@pytest.mark.parametrize("content, text", [
    (b"a = \n", "is not TOML: line 1"),
    (b"a = 1\na = 2\n", "is not TOML: line 2"),
    (b"mcp_servers = 1\n", "\"mcp_servers\" that is no table"),
    (b"mcp_servers = { docs = { command = \"x\" } }\n", "writes mcp_servers in one line"),
    (b"[mcp_servers.weir-files]\nurl = \"u\"\n", "has an entry \"weir-files\" already"),
])
def test_a_toml_file_that_cannot_be_edited_is_left_alone(content, text, tmp_path):
    path = put(tmp_path, "codex", content)
    refused(connect(tmp_path, "codex"), text, "nothing was changed")
    assert path.read_bytes() == content and left_beside(path) == []


def test_links_and_files_that_are_read_only_are_refused(tmp_path):
    path = put(tmp_path, "cursor", b"{}")
    path.chmod(0o444)
    refused(connect(tmp_path, "cursor"), "is read-only")
    real = path.rename(path.with_name("real.json"))
    real.chmod(0o644)
    path.symlink_to(real)
    refused(connect(tmp_path, "cursor"), "is a symbolic link", "--file")
    assert real.read_bytes() == b"{}" and path.is_symlink()
    assert connect(tmp_path, "cursor", "--file", real).returncode == 0
    assert undo(tmp_path, "cursor", "--file", real).returncode == 0
    assert real.read_bytes() == b"{}"
    path.unlink()
    path.mkdir()
    refused(connect(tmp_path, "cursor"), "is no file")


def test_undo_where_nothing_was_written(tmp_path):
    put(tmp_path, "cursor", b"{}")
    refused(undo(tmp_path, "cursor"), "holds nothing that weir connect wrote")


def test_an_entry_that_codex_wrote_anew_is_found(tmp_path):
    path = put(tmp_path, "codex", b"")
    assert connect(tmp_path, "codex", servers=("files", "web")).returncode == 0
    path.write_text('[mcp_servers."weir-files"]\nurl = "x"\n\n[mcp_servers.weir-files.tools]\na = 1\n\n# mine\n'
                    '[mcp_servers.weir-web]\nurl = "y"\n[tui]\nb = 2\n')
    assert undo(tmp_path, "codex").returncode == 0
    assert parse(path) == {"tui": {"b": 2}} and "# mine" in path.read_text()


def test_a_name_with_dots_is_one_entry(tmp_path):
    for client in ("codex", "cursor"):
        path = put(tmp_path, client)
        before = path.read_bytes()
        assert connect(tmp_path, client, servers=("a.b",)).returncode == 0
        assert parse(path)[CLIENTS[client][1]]["weir-a.b"]["url"] == f"{URL}/mcp/a.b"
        path.write_bytes(path.read_bytes() + b"\n")
        assert undo(tmp_path, client).returncode == 0
        assert path.read_bytes().rstrip() == before.rstrip()


def configured(folder, **more):
    config = {
        "listen": "0.0.0.0:8700", "listen_public": True, "policy": "policy.cedar",
        "agents": {name: {"key": new_key(name)[1]} for name in ("dev", "guest")},
        "mcp": {"files": {"command": ["true"]}, "web": {"url": "https://tracker.example/mcp"}},
        "toolsets": {"desk": {"servers": ["files"]}},
        **more,
    }
    folder.mkdir(exist_ok=True)
    (folder / "weir.yaml").write_text(json.dumps(config))
    (folder / "policy.cedar").write_text(
        'permit (principal == Agent::"dev", action, resource);\n'
        'permit (principal == Agent::"guest", action, resource == Server::"web");\n')
    return folder


def urls(home, *arguments):
    result = weir(home, "connect", "cursor", "--print", "--json", *arguments)
    assert result.returncode == 0, result.stderr
    return [entry["url"] for entry in json.loads(result.stdout)["entries"]]


def test_servers_and_address_come_from_the_configuration(tmp_path):
    configured(tmp_path)
    put(tmp_path, "cursor")
    assert urls(tmp_path) == ["http://127.0.0.1:8700/mcp"]
    assert urls(tmp_path, "--set", "desk") == ["http://127.0.0.1:8700/mcp/@desk"]
    refused(weir(tmp_path, "connect", "cursor", "--set", "nope"), 'there is no toolset "nope"')
    assert urls(tmp_path, "--url", URL) == [f"{URL}/mcp"]
    assert urls(tmp_path, "--server", "files", "--server", "web") == [
        "http://127.0.0.1:8700/mcp/files", "http://127.0.0.1:8700/mcp/web"]
    assert urls(tmp_path, "--agent", "guest", "--server", "files", "--server", "web") == ["http://127.0.0.1:8700/mcp/web"]
    assert urls(tmp_path, "--agent", "dev", "--server", "files") == ["http://127.0.0.1:8700/mcp/files"]
    assert urls(tmp_path, "--url", URL, "--server", "elsewhere") == [f"{URL}/mcp/elsewhere"]
    refused(weir(tmp_path, "connect", "cursor", "--server", "nope"), "there is no server \"nope\"", "files, web")
    refused(weir(tmp_path, "connect", "cursor", "--agent", "nope"), "there is no agent \"nope\"", "dev, guest")
    refused(weir(tmp_path, "connect", "cursor", "--agent", "guest", "--server", "files"), "no server to connect")
    refused(weir(tmp_path, "connect", "cursor", "--url", "https://weir.example/mcp"), "--url must hold no path")
    refused(weir(tmp_path, "connect", "cursor", "--url", "weir.example"), "--url must be a URL")
    configured(tmp_path, public_url="https://weir.example")
    assert urls(tmp_path) == [f"{URL}/mcp"]
    configured(tmp_path, listen="unix:weir.sock")
    refused(weir(tmp_path, "connect", "cursor"), "does not say at which address", "--url")


def test_a_project_and_a_folder_of_its_own(tmp_path):
    project = tmp_path / "project"
    project.mkdir()
    assert connect(tmp_path, "vscode", "--project", project).returncode == 0
    assert list(parse(project / ".vscode/mcp.json")["servers"]) == ["weir-files"]
    assert connect(tmp_path, "claude-code", "--project", project).returncode == 0
    assert (project / ".mcp.json").exists()
    refused(connect(tmp_path, "claude-desktop", "--project", project), "has no configuration for a project")
    own = tmp_path / "own"
    own.mkdir()
    assert connect(tmp_path, "codex", CODEX_HOME=str(own)).returncode == 0
    assert (own / "config.toml").exists()


def test_wrong_use_is_2(tmp_path):
    for arguments in (["emacs"], ["cursor", "--undo", "--server", "a"], ["cursor", "--variable", "1A"]):
        assert weir(tmp_path, "connect", *arguments).returncode == 2


# Where models are asked

MODELS = {
    "claude-code": (".claude/settings.json", {"env": {"ANTHROPIC_BASE_URL": URL}}, "ANTHROPIC_AUTH_TOKEN"),
    "codex": (".codex/config.toml", {"model_provider": "weir", "model_providers": {"weir": {
        "name": "weir", "base_url": f"{URL}/v1", "env_key": "WEIR_KEY", "wire_api": "responses", "supports_websockets": True}}}, None),
    "gemini": (".gemini/.env", {"GOOGLE_GEMINI_BASE_URL": URL}, "GEMINI_API_KEY"),
}
MINE = {"claude-code": '{\n  // mine\n  "env": { "A": "b" },\n  "model": "opus",\n}\n', "codex": '# mine\nmodel = "gpt-5.4"\n\n[tui]\na = 1\n',
        "gemini": "# mine\nA=b"}


def variables(text):
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)


def models_of(path):
    return variables(path.read_text()) if path.name == ".env" else parse(path)


def is_in(part, whole):
    """Whether all that a part says stands in the whole."""
    return all(is_in(value, whole.get(key, {})) if isinstance(value, dict) else whole.get(key) == value for key, value in part.items())


@pytest.fixture(params=MODELS)
def asker(request, tmp_path):
    for file in (MODELS[request.param][0], CLIENTS[request.param][0]):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
    return request.param


def test_models_alone_are_written_and_undone(asker, tmp_path):
    file, wanted, variable = MODELS[asker]
    path = tmp_path / file
    for before in (None, MINE[asker]):
        if before is not None:
            path.write_text(before)
        for _ in range(2):
            result = weir(tmp_path, "connect", asker, "--only", "llm", "--url", URL)
            assert result.returncode == 0, result.stderr
        assert is_in(wanted, models_of(path)) and (variable or "WEIR_KEY") in result.stdout
        assert not (tmp_path / CLIENTS[asker][0]).exists() or asker == "codex"
        assert undo(tmp_path, asker).returncode == 0
        assert left_beside(path) == [] and (path.read_text() if path.exists() else None) == before


def test_servers_and_models_are_written_and_undone_as_one(asker, tmp_path):
    configured(tmp_path, public_url=URL, llm={"providers": {"openai": {}}})
    servers, models = tmp_path / CLIENTS[asker][0], tmp_path / MODELS[asker][0]
    result = weir(tmp_path, "connect", asker, "--json")
    told = json.loads(result.stdout)
    assert told["file"] == str(servers) and ("more" in told) == (servers != models), result.stderr
    assert "weir" in parse(servers)[CLIENTS[asker][1]] and is_in(MODELS[asker][1], models_of(models))
    assert weir(tmp_path, "connect", asker, "--only", "mcp", "--print").stdout.count("would have") == 1
    undone = undo(tmp_path, asker)
    assert undone.returncode == 0 and not servers.exists() and not models.exists(), undone.stdout
    configured(tmp_path, public_url=URL, mcp={}, toolsets={}, llm={"providers": {"openai": {}}})
    assert weir(tmp_path, "connect", asker).returncode == 0
    assert models.exists() and (servers == models or not servers.exists())


def test_what_changed_meanwhile_stays_where_models_were_written(asker, tmp_path):
    path = tmp_path / MODELS[asker][0]
    path.write_text(MINE[asker])
    assert weir(tmp_path, "connect", asker, "--only", "llm", "--url", URL).returncode == 0
    text = path.read_text()
    path.write_text(text.replace('"model"', '"more": 1, "model"') if asker == "claude-code" else text + "\n# more\n")
    assert undo(tmp_path, asker).returncode == 0
    left = path.read_text()
    assert "more" in left and "mine" in left and "weir" not in left and URL not in left


def test_the_key_of_models_is_written_only_when_asked_for(tmp_path):
    for client in ("claude-code", "gemini"):
        file, _, variable = MODELS[client]
        path = tmp_path / file
        path.parent.mkdir(exist_ok=True)
        arguments = ("connect", client, "--only", "llm", "--url", URL, "--write-key", "env:WEIR_KEY")
        assert KEY not in weir(tmp_path, *arguments, "--print").stdout and not path.exists()
        assert KEY not in weir(tmp_path, *arguments).stdout
        assert KEY in path.read_text() and variable in path.read_text() and stat.S_IMODE(path.stat().st_mode) == 0o600


def test_models_of_others_are_left_alone_and_nothing_is_half_done(tmp_path):
    configured(tmp_path, public_url=URL, llm={"providers": {"openai": {}}})
    for client, text in (("codex", 'model_provider = "mine"\n'), ("claude-code", '{"env": {"ANTHROPIC_BASE_URL": "x"}}'),
                         ("gemini", "export GOOGLE_GEMINI_BASE_URL=x\n")):
        path = tmp_path / MODELS[client][0]
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        refused(weir(tmp_path, "connect", client), "already", "nothing was changed")
        assert path.read_text() == text and left_beside(path) == []
        assert client == "codex" or not (tmp_path / CLIENTS[client][0]).exists()
        assert weir(tmp_path, "connect", client, "--only", "mcp").returncode == 0
    refused(weir(tmp_path, "connect", "cursor", "--only", "llm", "--url", URL), "no file tells Cursor")
