"""`make certify-code`: is code search right and steady over files that nobody here wrote? About ten minutes.

1. Exact: the files that are found are those of `git ls-files`; random texts and expressions (seeded) are found in exactly
   the lines of `git grep`. The files are those of this machine's package caches, at least 10,000.
2. Ignored: what .gitignore names is not found, and nothing else is left out. (git finds files that were tracked in
   spite of it; code search does not: docs/code-search.md.)
3. Tenants: canaries of one root are never found through another, whatever is asked, and a data folder that was of
   other roots tells nothing of them.
4. Branch: 1,000 files change by a branch and change back; what comes back is not parsed again.
5. Kills: the server is killed at random moments while it indexes files that change; it starts again within two seconds,
   says what is in the files, and in the end what an index made from nothing says.
6. Agents: 50 sessions search through the gateway, its log on `os`, for the rest of the time: no error, flat memory.

Times are due on an idle machine; what is due in time is judged only with --strict, and CPU time and load stand beside it.
It prints a table, writes target/bench/code/certify.json and ends with 1 when anything failed.
"""

import argparse
import json
import os
import random
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import generators as g
from checks import Table

WORK = g.ROOT / "target/bench/code"
SEED = 6
FILES, BYTES_MAX, FILE_BYTES_MAX = 12_000, 400 << 20, 4 << 20
TEXTS_MIN, EXPRESSIONS_MIN = 40, 20
# Lines of one question that are compared one by one; of more the first are, and the number (or that it is not over git's).
LINES_MAX = 1_000
CHANGED = 1_000
KILLS, START_S_DUE, BRANCH_S_DUE, P95_MS_DUE = 100, 2.0, 2.0, 10.0
AGENTS, CALLS_A_SECOND = 50, 100
FLAT, FLAT_MB = 1.05, 8
CALL_S = 120
TICK = os.sysconf("SC_CLK_TCK")
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "certify", "version": "1"}}


# The server over stdio

class Server:
    """`weir tools code --stdio` and one session with it. Ends with the block."""

    def __init__(self, options, roots, data, hello=True):
        command = [options.weir, "tools", "code", "--stdio", "--data", str(data)]
        for root in roots:
            command += ["--root", str(root)]
        environment = {"PATH": os.environ["PATH"], "HOME": str(options.home)}
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment,
                                        stderr=subprocess.DEVNULL, start_new_session=True)
        self.number, self.rest = 0, b""
        if hello:
            self.request("initialize", HELLO)
            self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()

    def end(self, number=signal.SIGKILL):
        if self.process.poll() is None:
            self.process.send_signal(number)
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()

    def send(self, message):
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def line(self):
        deadline = time.monotonic() + CALL_S
        while b"\n" not in self.rest:
            ready, _, _ = select.select([self.process.stdout], [], [], max(0, deadline - time.monotonic()))
            more = os.read(self.process.stdout.fileno(), 1 << 20) if ready else b""
            if not more:
                sys.exit(f"certify: the server is silent or gone: {self.process.poll()}")
            self.rest += more
        line, _, self.rest = self.rest.partition(b"\n")
        return json.loads(line)

    def request(self, method, params):
        self.number += 1
        self.send({"jsonrpc": "2.0", "id": self.number, "method": method, "params": params})
        while True:
            message = self.line()
            if message.get("id") == self.number:
                return message

    def tool(self, name, /, **arguments):
        """What a tool answers: (structure, None) or (None, what is wrong)."""
        message = self.request("tools/call", {"name": name, "arguments": arguments})
        result = message.get("result")
        if result is None:
            return None, json.dumps(message.get("error"))
        text = "".join(part.get("text", "") for part in result["content"])
        return (None, text) if result.get("isError") else (result["structuredContent"], None)

    def ask(self, name, /, **arguments):
        said, wrong = self.tool(name, **arguments)
        if said is None:
            sys.exit(f"certify: {name} {arguments}: {wrong}")
        return said

    def indexed(self, **arguments):
        while True:
            job = self.ask("index_repository", wait_s=50, **arguments)
            if job["state"] in ("done", "failed", "cancelled"):
                return job

    def pages(self, name, key, /, **arguments):
        """Every page of an answer: what stands under the key, and the last page."""
        found = []
        while True:
            page = self.ask(name, **arguments)
            found += page[key]
            if not page.get("cursor"):
                return found, page
            arguments["cursor"] = page["cursor"]

    def cpu_s(self):
        return cpu_s(self.process.pid)

    def parsers(self):
        return [pid for pid in tree_of(self.process.pid) if "--parse" in words_of(pid)]


def tree_of(pid):
    """A process and all below it."""
    found = [pid]
    for one in found:
        try:
            for task in Path(f"/proc/{one}/task").iterdir():
                found += map(int, (task / "children").read_text().split())
        except OSError:
            pass
    return found


def words_of(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    except OSError:
        return []


def cpu_s(pid):
    """CPU seconds of a process and all below it, those that ended and were waited for too, to a tick of 10 ms."""
    total = 0
    for one in tree_of(pid):
        try:
            fields = Path(f"/proc/{one}/stat").read_text().rsplit(")", 1)[1].split()
            total += sum(int(field) for field in fields[11:15])
        except OSError:
            pass
    return total / TICK


def pss_mb(pid):
    """Memory of a process and all below it, what they share counted once, in MB of 2^20 bytes."""
    total = 0
    for one in tree_of(pid):
        try:
            total += int(re.search(r"^Pss:\s+(\d+)", Path(f"/proc/{one}/smaps_rollup").read_text(), re.M)[1])
        except (OSError, TypeError):
            pass
    return total / 1024


# Trees

def git(folder, *arguments, check=True):
    environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_GLOBAL": "/dev/null",
                   "GIT_CONFIG_SYSTEM": "/dev/null", "LC_ALL": "C.UTF-8"}
    names = ["-c", "user.name=a", "-c", "user.email=a@example", "-c", "init.defaultBranch=main", "-c", "gc.auto=0"]
    done = subprocess.run(["git", *names, *arguments], cwd=folder, env=environment, capture_output=True, timeout=600)
    if check and done.returncode:
        sys.exit(f"certify: git {arguments}: {done.stderr.decode()[-500:]}")
    return done.stdout


def packages():
    """The folders of packages in the caches of this machine."""
    found = []
    cargo = Path(os.environ.get("CARGO_HOME", Path.home() / ".cargo")) / "registry/src"
    places = [*cargo.glob("*"), *(g.ROOT / ".setup").glob("venv*/lib/python3*/site-packages"),
              g.ROOT / ".setup/node/node_modules", *Path("/usr/lib").glob("python3*")]
    for place in places:
        if place.is_dir():
            found += [(f"{place.name}/{one.name}", one) for one in sorted(place.iterdir()) if one.is_dir()]
    return found


def copied(tree, draw, files, skip=()):
    """Copies whole packages, drawn at random, until there are so many files. What speaks to code search alone, or
    changes what git takes for text, is left out."""
    all_packages = packages()
    draw.shuffle(all_packages)
    count = size = 0
    for name, folder in all_packages:
        for path in sorted(folder.rglob("*")):
            below = path.relative_to(folder)
            if ".git" in below.parts or path.name in (".gitattributes", ".ignore", ".mcpignore", ".codebaseignore", *skip):
                continue
            try:
                str(below).encode()
                if path.is_symlink() or not path.is_file() or path.stat().st_size > FILE_BYTES_MAX:
                    continue
                to = tree / name / below
                to.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, to)
            except (OSError, UnicodeError):
                continue
            count, size = count + 1, size + to.stat().st_size
        if count >= files or size > BYTES_MAX:
            break
    return count, size


def repository(folder):
    git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "all")


# 1. Exact

def lines_of_git(tree, arguments):
    """The lines that git finds, as (path, number)."""
    found = set()
    for line in git(tree, "grep", "-I", "-n", "-z", "--no-color", *arguments, check=False).split(b"\n"):
        parts = line.split(b"\0", 2)
        if len(parts) == 3 and parts[1].isdigit():
            found.add((parts[0].decode(errors="surrogateescape"), int(parts[1])))
    return found


def differ(server, tree, query, mode, ignore_case):
    """What only we find and what only git finds; nothing where they agree. And how many lines there are."""
    how = ["-F" if mode == "text" else "-E"] + (["-i"] if ignore_case else [])
    theirs = lines_of_git(tree, [*how, "-e", query])
    arguments = {"query": query, "mode": mode, "ignore_case": ignore_case, "detail": "paths", "limit": 50}
    first = server.ask("search_code", **arguments)
    exact, total = first["total_exact"], first["total"]
    if total > LINES_MAX or len(theirs) > LINES_MAX:
        same = total == len(theirs) if exact else total <= len(theirs)
        same = same and {(hit["path"], hit["start_line"]) for hit in first["hits"]} <= theirs
        return ("" if same else f"{total} lines (exact: {exact}), git {len(theirs)}"), len(theirs)
    hits, _ = server.pages("search_code", "hits", **arguments)
    ours = {(hit["path"], hit["start_line"]) for hit in hits}
    only = [f"only {who}: {sorted(lines)[:3]}" for who, lines in (("ours", ours - theirs), ("git's", theirs - ours)) if lines]
    if len(hits) != len(ours) or (total != len(ours) if exact else total > len(ours)):
        only.append(f"{len(hits)} hits, {len(ours)} lines, total {total} (exact: {exact})")
    return "; ".join(only), len(theirs)


class Questions:
    """Texts and expressions of lines that stand in the files, drawn from a seed."""

    def __init__(self, tree, draw):
        self.draw, self.files = draw, []
        names = [name.decode(errors="surrogateescape") for name in git(tree, "ls-files", "-z").split(b"\0") if name]
        for name in draw.sample(names, min(len(names), 3_000)):
            data = (tree / name).read_bytes()
            try:
                lines = [line for line in data.decode().split("\n") if len(line.strip()) > 6]
            except UnicodeError:
                continue
            if b"\0" not in data and lines:
                self.files.append(lines)

    def line(self):
        return self.draw.choice(self.draw.choice(self.files)).strip("\r")[:400]

    def text(self):
        """A text, and whether its letters' case does not matter."""
        while True:
            line = self.line()
            length = min(self.draw.randint(3, 24), len(line))
            start = self.draw.randint(0, len(line) - length)
            text = line[start:start + length]
            if len(text.strip()) >= 2:
                return text, text.isascii() and self.draw.random() < 0.3

    def expression(self):
        """An expression that both read alike: POSIX extended, over ASCII."""
        while True:
            words = re.findall(r"[A-Za-z_]\w{2,15}", self.line(), re.ASCII)
            if len(words) >= 2:
                break
        one, two = self.draw.sample(words, 2)
        cut = self.draw.randint(1, len(one) - 1)
        middle = self.draw.randint(0, len(one) - 1)
        return self.draw.choice([
            f"{one[:cut]}[a-z_]*{one[cut:]}", f"{one[:middle]}.{one[middle + 1:]}", f"^ *{one}", f"{one}$",
            f"({one}|{two})", f"{one}.*{two}", f"{one}[^a-zA-Z]", f"{one[:cut]}(x|{one[cut:]})+", f"{one} ?[(=:]",
            f"[{one[0]}{two[0]}]{one[1:]}", f"{one[:-1]}{one[-1]}{{1,2}}[^a-z]", f"^{one}.?{two}", f"[0-9]+ {one}",
            f"({one[:cut]})?{one[cut:]} *{two}", f"{one}\\.{two}", f"{one}\\(.*\\)",
        ]), self.draw.random() < 0.2


def exact(options, table):
    draw = random.Random(SEED)
    tree = options.folder / "exact"
    tree.mkdir()
    count, size = copied(tree, draw, FILES)
    repository(tree)
    begin, load = time.monotonic(), os.getloadavg()[0]
    with Server(options, [tree], options.folder / "exact-index") as server:
        job = server.indexed()
        wall, cpu = time.monotonic() - begin, server.cpu_s()
        names = {name for name in git(tree, "ls-files", "-z").decode(errors="surrogateescape").split("\0") if name}
        table.add("at least 10,000 files of others", len(names) >= 10_000 and job["state"] == "done",
                  f"{len(names):,} files, {size / 1e6:.0f} MB; indexed in {wall:.1f} s, {cpu:.1f} s CPU, load {load:.1f}")
        files, _ = server.pages("find_files", "files", query="", limit=1000)
        ours = {one["path"] for one in files}
        utf8 = {name for name in names if name.isprintable() or "\udc80" > max(name)}
        table.add("the files are git's", ours == utf8,
                  f"{len(ours):,}; only ours {sorted(ours - utf8)[:3]}, only git's {sorted(utf8 - ours)[:3]}")
        questions = Questions(tree, draw)
        begin = time.monotonic()
        for mode, most, share, make in (("text", TEXTS_MIN, 0.5, questions.text),
                                        ("regex", EXPRESSIONS_MIN, 1.0, questions.expression)):
            asked, lines, wrong = 0, 0, []
            while asked < most or time.monotonic() - begin < options.exact_s * share:
                query, ignore_case = make()
                different, found = differ(server, tree, query, mode, ignore_case)
                asked, lines = asked + 1, lines + found
                if different:
                    wrong.append({"query": query, "ignore_case": ignore_case, "differ": different})
                    print(f"     {mode} {query!r} {'in any case' if ignore_case else ''}: {different}", flush=True)
            table.add(f"{mode}: the lines of git grep", not wrong, f"{asked} questions, {lines:,} lines, {len(wrong)} differ",
                      wrong=wrong)


# 2. Ignored

def ignored(options, table):
    tree = options.folder / "ignored"
    files = {".gitignore": "dist/\n*.gen\n/secret.txt\n!kept.gen\n", "dist/forced.js": "canary one\n", "a.gen": "canary two\n",
             "sub/secret.txt": "canary three\n", "src/c.py": "canary = 4\n", "vendored/.gitignore": "*\n!d.c\n",
             "vendored/d.c": "int canary;\n", "vendored/e.c": "int canary;\n", "sub/kept.gen": "canary\n"}
    loose = {"dist/loose.js": "loose_canary\n", "e.gen": "loose_canary\n", "secret.txt": "loose_canary\n"}
    for name, text in {**files, **loose}.items():
        path = tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    git(tree, "init", "-q")
    git(tree, "add", "-f", *files)
    git(tree, "commit", "-qm", "all")

    def names(*arguments):
        return set(git(tree, "ls-files", "-z", *arguments).decode().split("\0")) - {""}

    forced = names("-ci", "--exclude-standard")
    with Server(options, [tree], options.folder / "ignored-index") as server:
        server.indexed()
        files, _ = server.pages("find_files", "files", query="")
        found, due = {one["path"] for one in files}, names() - forced
        table.add("what .gitignore names is left out", forced and found == due,
                  f"{len(found)} files; {len(forced)} tracked in spite of it; differ: {sorted(found ^ due)[:3]}")
        loose = server.ask("search_code", query="loose_canary", mode="text")
        lines, _ = server.pages("search_code", "hits", query="canary", mode="text")
        theirs = {path for path, _ in lines_of_git(tree, ["-F", "-e", "canary"])} - forced
        table.add("and is in no text", loose["total"] == 0 and {hit["path"] for hit in lines} == theirs,
                  f"{len(lines)} lines of other files")


# 3. Tenants

def tenants(options, table):
    top = options.folder / "tenants"
    names = [f"canary_{number}_{random.Random(number).getrandbits(64):x}" for number in range(4)]
    for name in names:
        folder = top / name
        folder.mkdir(parents=True)
        (folder / f"{name}.py").write_text(f'def {name}():\n    """What {name} keeps."""\n')
        (folder / "same.py").write_text("def shared_word():\n    pass\n")
    (top / names[0] / "way").symlink_to(top / names[1])
    told = []

    def everything(server, who):
        """All that a stranger may ask about the others' canaries: whatever comes back must not have one."""
        for other in (name for name in names if name != who):
            asked = [("search_code", {"query": other, "mode": mode}) for mode in ("auto", "text", "regex", "symbol", "semantic")]
            asked += [("get_symbol", {"name": other}), ("get_symbol", {"want": "outline", "path": f"{other}.py"}),
                      ("find_files", {"query": ""}), ("index_status", {}), ("list_repositories", {}),
                      ("read_chunk", {"path": f"../{other}/{other}.py"}), ("read_chunk", {"path": f"way/{other}.py"}),
                      ("read_chunk", {"repository": other, "path": f"{other}.py"}),
                      ("find_related", {"ref": f"{other}:{other}.py@0000000000000000#L1-L2"}),
                      ("search_code", {"query": other, "repositories": [other]}),
                      ("index_repository", {"path": str(top / other)}), ("index_repository", {"path": f"../{other}"}),
                      ("search_code", {"query": "shared_word", "project": other}),
                      ("remove_repository", {"repository": other})]
            for tool, arguments in asked:
                said, wrong = server.tool(tool, **arguments)
                # What was asked may be said back; what stands in the files, or that there are such files, may not.
                text = json.dumps(said) if said is not None else ""
                if f"def {other}" in text + (wrong or "") or f"{other}.py" in text or f"What {other}" in text:
                    told.append((who, tool, arguments))

    for name in names:
        with Server(options, [top / name], options.folder / "tenants-index" / name) as server:
            server.indexed()
            own = server.ask("search_code", query=name, mode="text")
            if own["total"] != 2:
                told.append((name, "its own", own["total"]))
            everything(server, name)
    table.add("canaries of other roots", not told, f"{len(names)} roots; told: {told[:3]}")
    told.clear()
    shared = options.folder / "tenants-shared"
    with Server(options, [top / names[0]], shared) as first:
        first.indexed()
        with Server(options, [top / names[1]], shared) as second:
            everything(second, names[1])
    with Server(options, [top / names[1]], shared) as later:
        later.indexed()
        everything(later, names[1])
    table.add("a data folder that is of other roots", not told, f"told: {told[:3]}")


# 4. Branch

def branch(options, table):
    draw = random.Random(SEED + 4)
    tree = options.folder / "branch"
    tree.mkdir()
    copied(tree, draw, 3 * CHANGED, skip=(".gitignore",))
    repository(tree)
    names = git(tree, "ls-files", "-z").decode(errors="surrogateescape").strip("\0").split("\0")
    texts = [name for name in names if name.endswith((".py", ".rs", ".js", ".ts", ".c", ".h", ".md"))]
    changed = draw.sample(texts, min(CHANGED, len(texts)))
    git(tree, "checkout", "-qb", "other")
    for number, name in enumerate(changed):
        with open(tree / name, "ab") as file:
            file.write(f"\nother_branch_{number} = changed_word_of_it\n".encode())
    git(tree, "commit", "-qam", "other")
    git(tree, "checkout", "-q", "main")
    with Server(options, [tree], options.folder / "branch-index") as server:
        server.indexed()

        def switch(to, due):
            while server.parsers():
                time.sleep(0.1)
            cpu, parsers = server.cpu_s(), set()
            git(tree, "checkout", "-q", to)
            begin = time.monotonic()
            while time.monotonic() - begin < 120:
                parsers.update(server.parsers())
                found = server.ask("search_code", query="changed_word_of_it", mode="text", limit=1)
                standing = server.ask("list_repositories")["repositories"][0]
                if bool(found["total"]) == bool(due) and standing["pending"] == 0 and standing["coverage"] == 1:
                    break
            wall, cpu = time.monotonic() - begin, server.cpu_s() - cpu
            job = server.indexed()
            # A total is exact where few files can match: all are counted page by page.
            hits, _ = server.pages("search_code", "hits", query="changed_word_of_it", mode="text", limit=50)
            return len(hits) == due and job["files_indexed"] == 0, wall, cpu, parsers

        for to, due, what in (("other", len(changed), f"a branch of {len(changed):,} files"), ("main", 0, "and back")):
            load = os.getloadavg()[0]
            ok, wall, cpu, parsers = switch(to, due)
            if to == "main":
                table.add("nothing is parsed again", not parsers, f"{len(parsers)} parsers ran")
            table.add(what, ok and (wall < BRANCH_S_DUE or not options.strict),
                      f"{wall:.2f} s, {cpu:.2f} s CPU, load {load:.1f}; due {BRANCH_S_DUE:.0f} s", wall=wall, cpu=cpu)


# 5. Kills

def kills(options, table):
    draw = random.Random(SEED + 5)
    tree, data = options.folder / "kills", options.folder / "kills-index"
    tree.mkdir()
    copied(tree, draw, 600, skip=(".gitignore",))
    (tree / "changing").mkdir()
    starts, fresh, wrong, rounds = [], [], [], 0
    deadline = time.monotonic() + options.kills_s
    while rounds < options.kills and (rounds < 10 or time.monotonic() < deadline):
        server = Server(options, [tree], data)
        server.number += 1
        server.send({"jsonrpc": "2.0", "id": server.number, "method": "tools/call",
                     "params": {"name": "index_repository", "arguments": {"force": rounds % 2 == 1}}})
        for number in range(20):
            (tree / f"changing/{number}.py").write_text(f"def of_round_{rounds}_{number}():\n    return 'always_there'\n")
        # At any moment of starting, indexing and ending.
        time.sleep(draw.uniform(0.0, 1.2))
        server.end()
        begin = time.monotonic()
        with Server(options, [tree], data) as server:
            found = server.ask("search_code", query=f"of_round_{rounds}_", mode="text")
            starts.append(time.monotonic() - begin)
            # What is said to be pending may be missing; what is not has to be there.
            while found["pending"] and time.monotonic() - begin < 60:
                found = server.ask("search_code", query=f"of_round_{rounds}_", mode="text")
            fresh.append(time.monotonic() - begin)
            if found["total"] != 20 or found["pending"]:
                wrong.append(f"round {rounds}: {found['total']} lines, {found['pending']} pending")
            if rounds % 10 == 9 or rounds == options.kills - 1:
                wrong += unlike_new(options, server, tree, rounds)
        rounds += 1
    slowest = max(starts)
    table.add(f"killed {rounds} times", not wrong, f"wrong: {wrong[:3]}", rounds=rounds)
    table.add("started again", slowest < START_S_DUE or not options.strict,
              f"slowest {slowest:.2f} s, median {sorted(starts)[len(starts) // 2]:.2f} s; due {START_S_DUE:.0f} s; "
              f"slowest to see every change {max(fresh):.2f} s; "
              f"load {os.getloadavg()[0]:.1f}", slowest=slowest)
    begin = time.monotonic()
    while (left := orphans(options)) and time.monotonic() - begin < 20:
        time.sleep(0.1)
    table.add("no parser is left behind", not left, f"{len(left)} parsers")


def orphans(options):
    """Parsers of the binary under test whose parent is gone."""
    found = []
    for entry in Path("/proc").iterdir():
        words = words_of(entry.name) if entry.name.isdigit() else []
        if words[:1] == [options.weir] and "--parse" in words:
            try:
                if Path(f"/proc/{entry.name}/stat").read_text().rsplit(")", 1)[1].split()[1] == "1":
                    found.append(int(entry.name))
            except OSError:
                pass
    return found


def unlike_new(options, server, tree, number):
    """Where an index that was killed answers other than one that is made from nothing."""
    server.indexed()
    wrong = []
    with Server(options, [tree], options.folder / f"kills-new-{number}") as new:
        new.indexed()
        for query, mode in (("always_there", "text"), (f"of_round_{number}_7", "symbol"), ("read a file", "auto"),
                            ("def [a-z]+_round", "regex"), ("return value of", "semantic"), ("main", "symbol")):
            arguments = {"query": query, "mode": mode, "limit": 50, "detail": "paths"}
            one, other = server.ask("search_code", **arguments), new.ask("search_code", **arguments)
            if [hit["ref"] for hit in one["hits"]] != [hit["ref"] for hit in other["hits"]]:
                wrong.append(f"round {number}: {query!r} ({mode})")
    return wrong


# 6. Agents

POLICY = 'permit (principal, action, resource);\n'


def agents(options, table):
    draw = random.Random(SEED + 6)
    folder = options.folder / "agents"
    tree = folder / "tree"
    tree.mkdir(parents=True)
    count, _ = copied(tree, draw, options.agent_files)
    repository(tree)
    questions = Questions(tree, draw)
    made = json.loads(subprocess.run([options.weir, "agent", "key", "--json"], check=True, capture_output=True).stdout)
    (folder / "policy.cedar").write_text(POLICY)
    (folder / "key").touch(mode=0o600)
    (folder / "key").write_text(made["key"])
    port = g.free_port()
    (folder / "weir.yaml").write_text(json.dumps({
        "listen": f"127.0.0.1:{port}", "state": "state", "agents": {"dev": {"key": made["hash"]}}, "policy": "policy.cedar",
        "log": {"durability": "os"}, "logs": {"level": "warn"}, "tools": {"code": {"roots": [str(tree)]}},
        "limits": {"agent_per_minute": 10_000_000}}, indent=1))
    errors = open(folder / "weir.log", "wb")
    gateway = subprocess.Popen([options.weir, "serve", "-c", "weir.yaml"], cwd=folder, stdout=errors, stderr=errors,
                               env={"PATH": os.environ["PATH"], "HOME": str(options.home)}, start_new_session=True)
    try:
        url = f"http://127.0.0.1:{port}/mcp/code"
        warm(options, url, folder)
        through(options, table, gateway, url, folder, questions, count)
    finally:
        gateway.send_signal(signal.SIGTERM)
        gateway.wait(60)
    verified = subprocess.run([options.weir, "audit", "verify", str(folder / "state")], capture_output=True, text=True)
    table.add("the log verifies", verified.returncode == 0, (verified.stdout or verified.stderr).strip()[:120])


def warm(options, url, folder):
    """Waits until the tree is indexed, as an agent would."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        run = subprocess.run([options.weir, "lab", "load", url, "--protocol", "mcp", "--mcp-tool", "index_repository",
                              "--mcp-args", '{"wait_s": 50}', "--bearer", f"file:{folder / 'key'}", "-c", "1", "-d", "1s",
                              "--timeout", "60s", "--json", "--quiet"], capture_output=True)
        if run.returncode in (0, 91, 92, 93, 94) and json.loads(run.stdout)["total"]["good"]:
            return
        time.sleep(0.2)
    sys.exit(f"certify: the gateway does not index: {run.stdout[-800:]} {run.stderr[-800:]}")


def calls(questions):
    """What agents ask: words, names, texts, expressions, files. The lab takes 63 at most."""
    asked = []
    for _ in range(10):
        words = re.findall(r"[A-Za-z]\w{3,15}", questions.line() + " " + questions.line(), re.ASCII) or ["main"]
        asked += [("search_code", {"query": " ".join(words[:4])}), ("search_code", {"query": words[0], "mode": "symbol"}),
                  ("find_files", {"query": words[0]}), ("get_symbol", {"name": words[-1]})]
        text, _ = questions.text()
        asked.append(("search_code", {"query": text, "mode": "text"}))
        asked.append(("search_code", {"query": f"{words[0]}[a-z_]*\\(", "mode": "regex"}))
    # The lab reads ${…} as its own.
    return [{"tool": tool, "name": f"{tool}-{number}", "arguments": arguments}
            for number, (tool, arguments) in enumerate(asked) if "$" not in json.dumps(arguments)]


def through(options, table, gateway, url, folder, questions, count):
    seconds = max(20, round(options.agents_s))
    scenario = {"name": "agents", "scenarios": {"agents": {
        "url": url, "protocol": "mcp", "connections": AGENTS, "rate": options.rate, "duration": f"{seconds}s",
        "arrivals": "poisson", "timeout": "30s", "auth": {"bearer": f"file:{folder / 'key'}"},
        "mcp": {"revision": "2025-11-25", "calls": calls(questions)}}}}
    (folder / "scenario.yaml").write_text(json.dumps(scenario))
    memory, ended, cpu, load = [], threading.Event(), cpu_s(gateway.pid), os.getloadavg()[0]

    def watch():
        while not ended.wait(1):
            memory.append(pss_mb(gateway.pid))

    watching = threading.Thread(target=watch)
    watching.start()
    run = subprocess.run([options.load, "lab", "load", str(folder / "scenario.yaml"), "--json", "--quiet"],
                         capture_output=True, timeout=seconds + 120)
    processes = len(tree_of(gateway.pid))
    cpu = cpu_s(gateway.pid) - cpu
    ended.set()
    watching.join()
    try:
        total = json.loads(run.stdout)["total"]
    except (ValueError, KeyError):
        sys.exit(f"certify: the lab ended with {run.returncode}: {run.stdout.decode()[-1500:]}{run.stderr.decode()[-1500:]}")
    latency = total["latency"].get("response", {})
    p95 = latency.get("p95", 0) / 1e3
    table.add(f"{AGENTS} agents for {seconds / 60:.1f} minutes", total["requests"] > 0 and total["failed"] == 0,
              f"{total['requests']:,} calls over {count:,} files, {total['failed']} failed {total.get('errors') or ''}")
    table.add("p95", p95 < P95_MS_DUE or not options.strict,
              f"p50 {latency.get('p50', 0) / 1e3:.1f} ms, p95 {p95:.1f} ms, p99 {latency.get('p99', 0) / 1e3:.1f} ms; due "
              f"{P95_MS_DUE:.0f} ms; {cpu / max(total['requests'], 1) * 1e3:.2f} ms CPU a call; load {load:.1f}",
              latency_us=latency, cpu_s=cpu)
    third = len(memory) // 3
    before, after = (sum(part) / max(len(part), 1) for part in (memory[third:2 * third], memory[2 * third:]))
    table.add("flat memory", after <= before * FLAT + FLAT_MB,
              f"{before:.0f} MB, then {after:.0f} MB, in {processes} processes", memory_mb=memory)


PARTS = {"exact": exact, "ignored": ignored, "tenants": tenants, "branch": branch, "kills": kills, "agents": agents}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weir", required=True, help="the binary to certify")
    parser.add_argument("--load", help="the binary whose lab makes the load (default: the one to certify)")
    parser.add_argument("--minutes", type=float, default=10, help="about how long all of it takes, at least 8")
    parser.add_argument("--agent-minutes", type=float, help="how long the agents search (default: three tenths of all)")
    parser.add_argument("--agent-files", type=int, default=3_000, help="files that they search")
    parser.add_argument("--rate", type=int, default=CALLS_A_SECOND, help="calls a second of all agents")
    parser.add_argument("--kills", type=int, default=KILLS)
    parser.add_argument("--strict", action="store_true", help="judge times too; the machine should be idle")
    parser.add_argument("--only", choices=list(PARTS), action="append")
    options = parser.parse_args()
    options.weir = str(Path(options.weir).resolve())
    options.load = str(Path(options.load or options.weir).resolve())
    # Copying, indexing and starting take about two minutes beside these.
    minutes = max(options.minutes, 8) - 2
    options.exact_s, options.kills_s = 60 * minutes * 0.3, 60 * minutes * 0.4
    options.agents_s = 60 * (options.agent_minutes or minutes * 0.3)
    WORK.mkdir(parents=True, exist_ok=True)
    table, begin = Table(WORK / "certify.json"), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="weir-certify-") as folder:
        options.folder = Path(folder).resolve()
        options.home = options.folder / "home"
        options.home.mkdir()
        for name, part in PARTS.items():
            if options.only is None or name in options.only:
                part(options, table)
    sys.exit(table.write(time.monotonic() - begin))


if __name__ == "__main__":
    main()
