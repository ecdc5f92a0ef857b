"""The status page tells the truth as far as a test can see: each test that it names exists."""

import json
import re
import shutil
import subprocess

import pytest

from gateway import ROOT, WEIR

SYSTEMS = {"Cullis Mastio", "AgentZero gateway", "MTE Relay", "codebase-mcp and workflow-mcp", "Pipelock"}
NAMED = re.compile(r"`([\w/]+\.(?:py|rs))::(\w+)`")


def rows():
    for line in (ROOT / "docs/status.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and len(cells) == 3 and cells[0] in SYSTEMS:
            yield cells


def test_each_system_is_said_to_be_something():
    text = (ROOT / "docs/status.md").read_text()
    for system in SYSTEMS:
        assert f"- **{system}**: " in text, system


def test_each_row_says_works_with_a_test_or_not_yet():
    seen = set()
    for system, group, status in rows():
        seen.add(system)
        assert status.startswith(("works", "not yet")), (system, group)
        assert not status.startswith("works") or NAMED.search(status), (system, group)
    assert seen == SYSTEMS


def test_each_named_test_exists():
    named = [pair for _, _, status in rows() for pair in NAMED.findall(status)]
    assert named
    for path, name in named:
        keyword = "def" if path.endswith(".py") else "fn"
        text = (ROOT / path).read_text()
        assert re.search(rf"^\s*{keyword} {name}\(", text, re.M), f"{path}::{name}"


def test_links_between_pages_lead_somewhere():
    for page in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text()):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.relative_to(ROOT)}: {target}"


def test_the_example_of_policies_that_read_arguments_holds(tmp_path):
    page = (ROOT / "docs/getting-started.md").read_text().split("## Policies that read arguments")[1]
    [settings], [policy] = (re.findall(rf"```{kind}\n(.*?)```", page, re.S) for kind in ("yaml", "cedar"))
    agents = f'agents: {{ dev: {{ key: "sha256:{"a" * 64}", groups: [engineers] }} }}\n'
    (tmp_path / "weir.yaml").write_text(agents + "mcp: { files: { command: [none] } }\n" + settings)
    (tmp_path / "policy.cedar").write_text(policy)

    def asked(arguments):
        command = "policy explain --agent dev --action mcp:call --server files --tool read_file --json --arguments"
        done = subprocess.run([str(WEIR), *command.split(), json.dumps(arguments)], cwd=tmp_path, capture_output=True,
                              text=True, timeout=60)
        said = json.loads(done.stdout)
        assert done.returncode == (said["decision"] == "refused"), done
        return said.get("code", said["decision"])

    path = "/srv/reports/may.txt"
    assert asked({"path": path}) == asked({"path": path, "limit": 100}) == "permitted"
    for arguments in ({}, {"path": "/etc/passwd"}, {"file": path}, {"path": "/srv/reports/../x"}, {"path": path, "limit": 101}):
        assert asked(arguments) == "policy.forbidden", arguments
    assert asked({"path": [path]}) == "policy.argument_type"
    # Without `has` it does not load.
    (tmp_path / "policy.cedar").write_text(policy.replace("context.arguments has path && ", ""))
    checked = subprocess.run([str(WEIR), "policy", "check"], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert checked.returncode == 1, checked


# What people and servers write in the place of a tool's name; none of them is the name.
SPELLINGS = [
    "Write_File", "WRITE_FILE", "write-file", "write.file", "write/file", "writefile", "writeFile", "write file", "write_file ",
    " write_file", "write_file\t", "write_file\n", "write__file", "_write_file", "write_file_", "files/write_file",
    "files.write_file", "files__write_file", "write_file/", "./write_file", "write_file\x00", "write\u200b_file", "write_fil\u0435",
    "wr\u0131te_file", "\uff57rite_file", "write_f\u0131le", "edit_file", "move_file",
]


def gateway_of(tmp_path, policy):
    agents = {"dev": {"key": "sha256:" + "a" * 64, "groups": ["engineers"]}}
    settings = {"agents": agents, "mcp": {"files": {"command": ["cat"]}}, "policy": "policy.cedar"}
    (tmp_path / "weir.yaml").write_text(json.dumps(settings))
    (tmp_path / "policy.cedar").write_text(policy)

    def asked(action, *item):
        command = ["policy", "explain", "--agent", "dev", "--action", action, "--server", "files", "--json", *item]
        done = subprocess.run([str(WEIR), *command], cwd=tmp_path, capture_output=True, text=True, timeout=60)
        assert done.stdout, done.stderr
        return json.loads(done.stdout)["decision"]

    return asked


def policies_of_pages():
    page = (ROOT / "docs/getting-started.md").read_text()
    yield "getting-started", re.findall(r"```cedar\n(.*?)```", page.split("## Policies that read arguments")[0], re.S)[0]
    yield "README", re.findall(r"```cedar\n(.*?)```", (ROOT / "README.md").read_text(), re.S)[0]
    yield "weir init", (ROOT / "crates/weir/src/cli/init/policy.cedar").read_text()


@pytest.mark.parametrize(("page", "policy"), policies_of_pages(), ids=lambda value: value.split("\n")[0])
def test_the_policies_of_the_pages_let_no_spelling_of_another_tool_pass(tmp_path, page, policy):
    policy = "\n".join(line.removeprefix("   ") for line in policy.splitlines())
    asked = gateway_of(tmp_path, policy)
    assert asked("mcp:call", "--tool", "read_text_file") == "permitted", page
    assert asked("mcp:list") == asked("mcp:use") == "permitted"
    for spelled in ["write_file", *SPELLINGS]:
        if "\x00" not in spelled:  # No command line can hold one.
            assert asked("mcp:call", "--tool", spelled) == "refused", (page, spelled)


def test_the_resources_of_the_example_are_those_of_one_folder(tmp_path):
    policy = dict(policies_of_pages())["getting-started"]
    asked = gateway_of(tmp_path, policy)
    assert asked("mcp:read", "--resource", "file:///srv/files/notes/may.txt") == "permitted"
    for uri in ["file:///srv/files/other.txt", "file:///srv/files/notes", "https://files/notes/may.txt", "FILE:///srv/files/notes/a"]:
        assert asked("mcp:read", "--resource", uri) == "refused", uri


def test_the_pages_about_deploying_are_read_by_what_they_are_for(tmp_path):
    """nginx takes the server of the page as it stands, weir the settings."""
    page = (ROOT / "docs/deploying.md").read_text()
    [server], [settings], [unit] = (re.findall(rf"```{kind}\n(.*?)```", page, re.S) for kind in ("nginx", "yaml", "ini"))
    certificate = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=try",
                   "-keyout", str(tmp_path / "key"), "-out", str(tmp_path / "crt")]
    subprocess.run(certificate, check=True, capture_output=True, timeout=60)
    server = re.sub(r"/etc/ssl/\S+\.pem", str(tmp_path / "crt"), server)
    server = re.sub(r"/etc/ssl/\S+\.key", str(tmp_path / "key"), server).replace("443", "127.0.0.1:8443")
    (tmp_path / "nginx.conf").write_text(f"pid {tmp_path}/pid; error_log stderr; events {{}} http {{ access_log off; {server} }}")
    nginx = shutil.which("nginx") or "/usr/sbin/nginx"
    checked = subprocess.run([nginx, "-t", "-c", str(tmp_path / "nginx.conf"), "-p", str(tmp_path)], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stderr
    (tmp_path / "weir.yaml").write_text(
        'agents: { dev: { key: "sha256:' + "a" * 64 + '" } }\nmcp: { files: { command: [cat] } }\npolicy: policy.cedar\n' + settings)
    (tmp_path / "policy.cedar").write_text("permit (principal, action, resource);\n")
    checked = subprocess.run([str(WEIR), "config", "check"], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    lines = [line for line in unit.splitlines() if line and not line.startswith(("#", "["))]
    assert all(re.match(r"\w+=.", line) for line in lines), unit
