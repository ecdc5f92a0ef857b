"""The figures of docs/performance.md: how each says where it comes from, and which are older than their crates.

Every figure carries the day, the commit and the command of its measurement, in this form:

    Measured 2026-11-21 at `9216a78` with `bench/bench.py --weir target/dist/weir`

A program of `make bench` writes its part of the page between two marks, and that line stands first. Figures in the prose
have one in their paragraph. `tests/test_figures.py` fails where one is missing. Run as a program, this prints which
figures are older than the last change of the crates that they are about.
"""

import re
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/performance.md"
SOURCE = re.compile(r"Measured\s+(\d{4}-\d\d-\d\d)\s+at\s+`([0-9a-f]{7,40})(?:\+changes)?`\s+with\s+`([^`]+)`")
# Of what is measured: a number with its unit. Sizes of inputs are in KB and no figures.
FIGURE = re.compile(r"\d\s(?:ns|µs|ms|MB|requests/s)\b|requests/s \||instructions \|")
# The crates that a command measures, by a part of the command.
ABOUT = {
    "bench/bench.py": ("base", "gate", "identity", "mcp", "net", "policy", "scan", "store"),
    "bench/call_instructions.py": ("base", "gate", "identity", "mcp", "net", "policy", "scan", "store"),
    "bench/call_scan.py": ("gate", "scan"),
    "bench/code_search.py": ("tools",),
    "bench/identities.py": ("base", "gate", "identity", "mcp", "net", "store"),
    "bench/flow.py": ("flow", "tools"),
    "bench/idle_connections.py": ("net",),
    "bench/lab.py": ("lab",),
    "bench/llm_lane.py": ("base", "gate", "identity", "llm", "net", "policy", "scan", "store"),
    "bench/mcp_lane.py": ("base", "gate", "identity", "mcp", "net", "policy", "scan", "store"),
    "bench/web_lane.py": ("base", "gate", "net", "policy", "scan", "store", "web"),
    "bench/runs.py": ("base", "gate", "llm", "mcp", "net", "run", "store"),
    "bench/relay.py": ("net", "relay", "seal"),
    "bench/scan.py": ("scan",),
    "bench-scan": ("scan",),
    "-p seal --example cost": ("seal",),
}


class Source(NamedTuple):
    """Where a figure comes from."""
    day: str
    commit: str
    command: str

    def crates(self):
        """The crates that it is about; none where the command is not known."""
        return next((crates for part, crates in ABOUT.items() if part in self.command), ())


def sources(text):
    """Every source in a text, without those that stand there twice."""
    return list(dict.fromkeys(Source(*found) for found in SOURCE.findall(text)))


def git(*arguments):
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else None


# Writing

def measured():
    """The words that a program's part of the page begins with: today, this commit, this command."""
    commit = git("rev-parse", "--short=7", "HEAD") or "unknown"
    changed = git("status", "--porcelain", "--", "crates", "bench", "Cargo.toml", "Cargo.lock")
    short = [argument.replace(f"{ROOT}/", "") for argument in (str(Path(sys.argv[0]).resolve()), *sys.argv[1:])]
    day = time.strftime("%Y-%m-%d", time.gmtime())
    return f"Measured {day} at `{commit}{'+changes' if changed else ''}` with `{shlex.join(short)}`"


def write(name, text, page=PAGE):
    """Puts a text between the two marks of a name, or where the name alone says that nothing was measured yet."""
    begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
    before = page.read_text().replace(f"<!-- {name} -->", f"{begin}\n{end}")
    head, rest = before.split(begin, 1)
    page.write_text(f"{head}{begin}\n{text}\n{end}{rest.split(end, 1)[1]}")


# Reading

def without_source(page):
    """The paragraphs and tables of a page that hold a figure and do not say where it comes from."""
    wrong, inside = [], None
    for part in re.split(r"\n\s*\n", re.sub(r"```.*?```", "", page, flags=re.S)):
        begins = re.search(r"<!-- ([a-z-]+):begin -->", part)
        if begins:
            inside = SOURCE.search(part) is not None
            if not inside:
                wrong.append(part.strip())
        # What is due is no figure; where it stands in a table with figures, that has a source.
        due = re.match(r"\s*(Due:|\| what \| at most \|)", part)
        if FIGURE.search(part) and not due and not inside and not SOURCE.search(part) and not begins:
            wrong.append(part.strip())
        if re.search(r"<!-- [a-z-]+:end -->", part):
            inside = None
    return wrong


def age(source):
    """How a figure stands to its crates, as a line; nothing where no crate changed since."""
    what = f"{source.day} {source.commit} {source.command}"
    if not source.crates():
        return f"{what}: which crates it is about is not known"
    if git("cat-file", "-e", f"{source.commit}^{{commit}}") is None:
        return f"{what}: its commit is not in this clone"
    newer = []
    for crate in source.crates():
        changes = git("log", "--format=%h %as", f"{source.commit}..HEAD", "--", f"crates/{crate}") or ""
        lines = changes.splitlines()
        if lines:
            newer.append(f"{crate} ({len(lines)}, last {lines[0].split()[1]})")
    return f"{what}: older than {', '.join(newer)}" if newer else None


def main():
    found = sources(PAGE.read_text())
    old = [line for line in map(age, found) if line]
    print(f"docs/performance.md: {len(old)} of {len(found)} measurements are older than a crate that they are about")
    for line in old:
        print(f"  {line}")


if __name__ == "__main__":
    main()
