"""Each figure of docs/performance.md says when, at which commit and with which command it was measured."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "bench"))
import figures  # noqa: E402

PAGE = figures.PAGE.read_text()
SOURCE = "Measured 2026-01-02 at `0123abc` with `bench/bench.py`"


def test_no_figure_is_without_source():
    assert figures.without_source(PAGE) == []


@pytest.mark.parametrize("source", figures.sources(PAGE), ids=lambda source: f"{source.day}-{source.commit}")
def test_a_source_names_what_there_is(source):
    assert source.crates(), f"bench/figures.py does not know what {source.command} is about"
    for crate in source.crates():
        assert (ROOT / "crates" / crate).is_dir(), crate
    script = source.command.split()[0]
    assert not script.endswith(".py") or (ROOT / script).is_file(), script
    shallow = figures.git("rev-parse", "--is-shallow-repository")
    if shallow == "false":
        known = figures.git("log", "-1", "--format=%as", source.commit)
        assert known is not None, f"{source.commit} is no commit"


@pytest.mark.parametrize("page, wrong", [
    ("A call costs 5 µs.", 1),
    (f"A call costs 5 µs. {SOURCE}.", 0),
    ("Due: a call costs at most 5 µs.", 0),
    ("| what | at most |\n|---|---|\n| a call | 5 µs |", 0),
    ("| what | CPU |\n|---|---|\n| a call | 5 µs |", 1),
    ("It echoes 10 KB eight times.", 0),
    ("```\n5 µs\n```", 0),
    (f"<!-- a:begin -->\n{SOURCE} on two cores.\n\n| a call | 5 µs |\n<!-- a:end -->", 0),
    (f"<!-- a:begin -->\n{SOURCE} on two cores.\n\n| a call | 5 µs |\n<!-- a:end -->\n\nIdle: 20 MB.", 1),
    ("<!-- a:begin -->\nMeasured 2026-01-02 with `bench/bench.py`.\n\n| a call | 5 µs |\n<!-- a:end -->", 2),
    ("A call costs 5 µs. Measured 2026-01-02 at `0123abc`.", 1),
])
def test_what_lacks_a_part_is_found(page, wrong):
    assert len(figures.without_source(page)) == wrong


def test_the_ages_are_printed():
    done = subprocess.run([sys.executable, ROOT / "bench/figures.py"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("docs/performance.md: "), done.stdout
