"""The status page tells the truth as far as a test can see: each test that it names exists."""

import json
import re
import subprocess

from gateway import ROOT, WEIR

SYSTEMS = {"Cullis Mastio", "AgentZero gateway", "MTE Relay", "codebase-mcp and workflow-mcp", "Pipelock"}
NAMED = re.compile(r"`([\w/]+\.(?:py|rs))::(\w+)`")


def rows():
    for line in (ROOT / "docs/status.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and len(cells) == 3 and cells[0] in SYSTEMS:
            yield cells


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
