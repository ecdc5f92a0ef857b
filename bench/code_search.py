"""`make bench`, sixth part: how well code search finds, beside raw BM25 and ripgrep's first matches.

Trees are made of packages that others wrote (code_trees), questions of what is known of them (code_questions); the
same questions go to `weir tools code --stdio`, in one session, and to its rivals (code_rivals). The packages of the
test split are kept back: constants are tuned on the development split (`--split development`). The result of the test
split is written between two marks in docs/code-search.md. A figure is no verdict: it ends with 1 only where something
was wrong.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

import code_questions as questions
import code_rivals as rivals
import code_score as score
import code_trees as trees
import figures

NAMES = ("weir", "BM25", "BM25, names cut", "ripgrep")
DUE = 0.10
WAIT_S, INDEX_S_MAX = 50, 300


class Session:
    """One session of `weir tools code --stdio`."""

    def __init__(self, weir, roots, data):
        command = [weir, "tools", "code", "--stdio", "--data", str(data)]
        for root in roots:
            command += ["--root", str(root)]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL)
        self.next = 0
        about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
        self.ask("initialize", about)
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait(30)

    def send(self, message):
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def ask(self, method, params):
        self.next += 1
        self.send({"jsonrpc": "2.0", "id": self.next, "method": method, "params": params})
        for line in self.process.stdout:
            answer = json.loads(line)
            if answer.get("id") == self.next:
                if "error" in answer:
                    sys.exit(f"bench: {method}: {answer['error']}")
                return answer["result"]
        sys.exit("bench: weir ended")

    def call(self, name, **arguments):
        result = self.ask("tools/call", {"name": name, "arguments": arguments})
        if result.get("isError"):
            sys.exit(f"bench: {name} {arguments}: {result['content']}")
        return result["structuredContent"]

    def index(self, root):
        ends = time.monotonic() + INDEX_S_MAX
        while self.call("index_repository", path=str(root), wait_s=WAIT_S)["state"] != "done":
            if time.monotonic() > ends:
                sys.exit(f"bench: {root} is not indexed after {INDEX_S_MAX} s")

    def search(self, question):
        most = rivals.PLACES if question.of_files else score.DEPTH
        of = {"query": question.text, "repositories": [question.tree], "detail": "paths", "limit": most}
        answer = self.call("search_code", **of)
        return [(hit["path"], hit["start_line"], hit["end_line"]) for hit in answer["hits"]]

    def cpu_s(self):
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Asking:
    """Asks all, and keeps what each answer was worth."""

    def __init__(self, options):
        self.options, self.rows, self.cpu_s, self.files = options, [], 0.0, 0
        # Of each question with ten places or more: the files that these are of.
        self.spread = []

    def tree(self, session, tree, asked):
        if not asked:
            return
        session.index(tree.folder)
        self.files += len(tree.texts)
        found = {}
        if not self.options.only_weir:
            for name, cut in zip(NAMES[1:3], (rivals.tokens, rivals.cut_tokens)):
                bm25 = rivals.Bm25(tree.texts, cut)
                found[name] = [bm25.search(one.text) for one in asked]
            grep = rivals.Grep(tree.texts)
            found["ripgrep"] = [grep.search(one.text, one.kind == "path") for one in asked]
        before = session.cpu_s()
        found["weir"] = [session.search(one) for one in asked]
        self.cpu_s += session.cpu_s() - before
        ten = [places[:score.DEPTH] for places in found["weir"] if len(places) >= score.DEPTH]
        self.spread += [len({path for path, *_ in places}) for places in ten]
        for at, one in enumerate(asked):
            scores = {name: score.scored(one, places[at]) for name, places in found.items()}
            self.rows.append((one, scores))
            if self.options.log:
                self.log(one, scores, found, at)

    def log(self, one, scores, found, at):
        said = {"kind": one.kind, "form": one.form, "tree": one.tree, "text": one.text, "answers": one.answers,
                "scores": scores, "places": {name: places[at][:10] for name, places in found.items()}}
        self.options.log.write(json.dumps(said) + "\n")


def ask_all(options, folder):
    """Makes the trees, and asks about them."""
    asking = Asking(options)
    whole, bare = trees.trees(folder / "trees", options.split)
    mixed = trees.mixed(folder / "trees", bare) if len(bare) > 1 else None
    headers = trees.headers(folder / "trees", options.split)
    history = folder / "history"
    history.mkdir()
    roots = [*(tree.folder for tree in whole.values()), *(tree.folder for tree, _ in bare.values()), history]
    roots += [tree.folder for tree in (mixed and mixed[0], headers) if tree]
    with Session(options.weir, roots, folder / "data") as session:
        for tree, documented in bare.values():
            asking.tree(session, tree, questions.documentation(tree, documented))
        for tree in whole.values():
            defined = tree.definitions()
            asked = questions.symbols(tree, defined) + questions.misspellings(tree, defined)
            asked += questions.letter_cases(tree, defined) + questions.long_comments(tree, tree.commented())
            asking.tree(session, tree, asked + questions.paths(tree))
        if mixed:
            tree, said = mixed
            asking.tree(session, tree, [one for language, documented in said.items()
                                        for one in questions.of_language(tree, language, documented)])
        if headers:
            asking.tree(session, headers, questions.macros(headers, headers.definitions()))
        left = questions.MOST["change"]
        for digest, asked in trees.history(options.split):
            texts = trees.state(history, digest)
            subprocess.run(["find", str(history), "-mindepth", "1", "-delete"], check=True)
            tree = trees.made(folder, "history", texts)
            asked = questions.changes(tree, asked, trees.CHANGED_MAX)[:left]
            left -= len(asked)
            asking.tree(session, tree, asked)
    return asking


def summary(asking):
    """By class, and by form: for each rival the means, and weir's lead with its interval."""
    groups = defaultdict(list)
    for one, scores in asking.rows:
        groups[one.kind, ""].append(scores)
        groups[one.kind, f"{one.form}, {one.tree.removesuffix('-bare')}"].append(scores)
    found = []
    for (kind, form), rows in sorted(groups.items()):
        found.append(row_of(kind, form, [rows]))
    found.append(row_of("all", "", [rows for (_, form), rows in sorted(groups.items()) if not form]))
    return found


def row_of(kind, form, classes):
    """The means over classes of equal weight."""
    names = [name for name in NAMES if name in classes[0][0]]
    row = {"class": kind, "form": form, "questions": sum(map(len, classes)), "means": {}, "lead": {}}
    for name in names:
        row["means"][name] = [score.mean([score.mean([one[name][at] for one in rows]) for rows in classes])
                              for at in range(len(score.METRICS))]
    for name in names[1:] if not form else []:
        row["lead"][name] = [score.interval([[one["weir"][at] - one[name][at] for one in rows] for rows in classes])
                             for at in range(len(score.METRICS))]
    return row


def table(rows, metric):
    at, names = score.METRICS.index(metric), list(rows[0]["means"])
    columns = [metric, "questions", *names, *(f"over {name}" for name in names[1:])]
    lines = [f"| {' | '.join(columns)} |", "|---|--:" + "|--:" * (2 * len(names) - 1) + "|"]
    for row in rows:
        means = " | ".join(f"{row['means'][name][at]:.3f}" for name in names)
        leads = " | ".join("{:+.3f} ({:+.3f} to {:+.3f})".format(*row["lead"][name][at]) for name in names[1:])
        lines.append(f"| {row['class']} | {row['questions']} | {means} | {leads} |")
    return lines


def report(asking, rows, options):
    shown = [row for row in rows if not row["form"]]
    lines = [f"{figures.measured()}, on the {options.split} split: {asking.files:,} files "
             f"that were searched, {len(asking.rows):,} questions, {asking.cpu_s / len(asking.rows) * 1000:.1f} ms of "
             f"CPU time a question; {score.mean(asking.spread):.1f} files in ten places; differences with 95 % intervals."]
    for metric in score.METRICS:
        lines += ["", *table(shown, metric)]
    return "\n".join(lines)


def by_form(rows):
    for row in rows:
        means = "  ".join(f"{name} {values[0]:.3f}" for name, values in row["means"].items())
        print(f"{row['class']:13} {row['form']:34} {row['questions']:5}  {means}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--weir", required=True, help="the binary that ships")
    parser.add_argument("--split", choices=trees.SPLITS, default="test",
                        help="which packages; constants are tuned on the development split only")
    parser.add_argument("--json", type=Path, help="writes the figures there too")
    parser.add_argument("--log", type=argparse.FileType("w"), help="writes each question and its answers there")
    parser.add_argument("--only-weir", action="store_true", help="leaves the rivals out")
    options = parser.parse_args()
    rivals.check()
    score.check()
    with tempfile.TemporaryDirectory(prefix="weir-bench-code-") as folder:
        asking = ask_all(options, Path(folder))
    rows = summary(asking)
    by_form(rows)
    print(f"files in ten places: {score.mean(asking.spread):.2f} (of {len(asking.spread)} questions); "
          f"CPU {asking.cpu_s / len(asking.rows) * 1000:.2f} ms a question")
    if options.json:
        options.json.write_text(json.dumps({"split": options.split, "metrics": score.METRICS, "rows": rows}, indent=1))
    if options.only_weir:
        return
    text = report(asking, rows, options)
    print(f"\n{text}")
    lead = rows[-1]["lead"]["BM25"][0][0]
    print(f"\nover BM25 by {lead:.3f} NDCG@10; due: {DUE:.2f}")
    if options.split == "test":
        figures.write("bench-code", text, trees.ROOT / "docs/code-search.md")


if __name__ == "__main__":
    main()
