"""The status page tells the truth as far as a test can see: each test that it names exists."""

import re

from gateway import ROOT

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
