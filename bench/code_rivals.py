"""What code search is compared with: BM25 over pieces of the same size, and the first lines that ripgrep would print.

All answer with places, best first, as code search does. BM25 gets what costs it nothing: the path stands before the
text of each piece, and names in snake case are cut where a plain tokenizer cuts them. It knows no fields and no stems.
Where names are cut (`cut_tokens`), it also knows each identifier in parts and whole, however it is written: what is
left over that is what ranking gives.
"""

import math
import re
from collections import Counter, defaultdict

# The constants of BM25 (Robertson and Zaragoza, 2009), the size of a piece, and the places of one answer.
K1, B = 1.2, 0.75
PIECE_BYTES = 1500
PLACES = 50
STOP_WORDS = set("""a all an and any are as at be by can do does for from get has have how if in into is it its not of
on or returns return that the then there this to was what when where which will with""".split())


def tokens(text):
    return re.findall(r"[^\W_]+", text.lower())


def cut_tokens(text):
    """Identifiers in parts, and whole where they have several."""
    found = []
    for name in re.findall(r"\w+", text):
        parts = [part.lower() for part in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_]+", name)]
        found += parts if len(parts) < 2 else [*parts, "".join(parts)]
    return found


def cuts(lines):
    """Pieces of a text as (first, last) lines: cut before the shallowest lines and joined again as long as they fit."""
    def depth(row):
        line = lines[row]
        return len(line) - len(line.lstrip()) if line.strip() else 1 << 20

    sums = [0]
    for line in lines:
        sums.append(sums[-1] + len(line) + 1)
    found, stack = [], [(0, len(lines))]
    while stack:
        start, stop = stack.pop()
        if sums[stop] - sums[start] <= PIECE_BYTES or stop <= start + 1:
            found.append((start, stop))
            continue
        least = min(depth(row) for row in range(start + 1, stop))
        edges = [start, *(row for row in range(start + 1, stop) if depth(row) == least), stop]
        groups, begin = [], edges[0]
        for left, right in zip(edges, edges[1:]):
            if left > begin and sums[right] - sums[begin] > PIECE_BYTES:
                groups.append((begin, left))
                begin = left
        groups.append((begin, stop))
        if len(groups) == 1:
            found.append((start, stop))
        else:
            stack += reversed(groups)
    return [(start + 1, stop) for start, stop in sorted(found) if stop > start]


class Bm25:
    """BM25 over the pieces of these texts."""

    def __init__(self, texts, cut=tokens):
        self.cut, self.places, self.sizes, self.postings = cut, [], [], defaultdict(list)
        for path, text in sorted(texts.items()):
            lines = text.split("\n")
            for first, last in cuts(lines):
                self.add((path, first, last), f"{path}\n" + "\n".join(lines[first - 1:last]))
        mean = sum(self.sizes) / max(len(self.sizes), 1)
        self.norms = [K1 * (1 - B + B * size / mean) for size in self.sizes]

    def add(self, place, text):
        counts = Counter(self.cut(text))
        for word, count in counts.items():
            self.postings[word].append((len(self.places), count))
        self.places.append(place)
        self.sizes.append(sum(counts.values()))

    def scores(self, query):
        scores, total = defaultdict(float), len(self.places)
        for word in self.cut(query):
            found = self.postings.get(word, ())
            rarity = math.log(1 + (total - len(found) + 0.5) / (len(found) + 0.5))
            for piece, count in found:
                scores[piece] += rarity * count * (K1 + 1) / (count + self.norms[piece])
        return scores

    def search(self, query):
        scores = self.scores(query)
        best = sorted(scores, key=lambda piece: (-scores[piece], piece))[:PLACES]
        return [self.places[piece] for piece in best]


class Grep:
    """The first lines that `rg --sort path -i` prints: of the whole question, and where none has that, of any of its
    words that say something. `rg --files | rg -i` for a question about a path. Lines of one text stand once."""

    def __init__(self, texts):
        self.paths = sorted(texts)
        self.whole = "\n".join(texts[path].lower() for path in self.paths)
        self.starts, at = [], 0
        for path in self.paths:
            self.starts.append(at)
            at += len(texts[path].lower()) + 1

    def search(self, query, of_path=False):
        query = query.lower()
        if of_path and query in (names := "\n".join(self.paths).lower()):
            rows = dict.fromkeys(names.count("\n", 0, found.start()) for found in re.finditer(re.escape(query), names))
            return [(self.paths[row], None, None) for row in rows][:PLACES]
        words = [word for word in tokens(query) if word not in STOP_WORDS and len(word) > 2] or [query]
        return self.lines(re.escape(query)) or self.lines("|".join(map(re.escape, words)))

    def lines(self, expression):
        found, at, row = [], 0, 0
        for match in re.finditer(f"(?:{expression})[^\n]*", self.whole):
            while at + 1 < len(self.paths) and self.starts[at + 1] <= match.start():
                at += 1
            row = self.whole.count("\n", self.starts[at], match.start()) + 1
            found.append((self.paths[at], row, row))
            if len(found) >= PLACES:
                break
        return found


def check():
    """BM25 against a case that was computed by hand: three pieces of 3, 5 and 4 tokens, so 4 on average."""
    ranking = Bm25({})
    for place, text in enumerate(("red fox runs", "the red red car stops", "a blue car stands")):
        ranking.add((str(place), 1, 1), text)
    ranking.norms = [K1 * (1 - B + B * size / 4) for size in ranking.sizes]
    # "red" is in two of three pieces: ln(1 + 1.5 / 2.5) = 0.470004; "car" too.
    # Piece 0: 2.2 / (1 + 1.2 * (0.25 + 0.75 * 3/4)) = 2.2 / 1.975. Piece 1: 4.4 / 3.425 + 2.2 / 2.425. Piece 2: 1.
    expected = {0: 0.470004 * 1.113924, 1: 0.470004 * (1.284672 + 0.907216), 2: 0.470004}
    scores = ranking.scores("red car")
    assert scores.keys() == expected.keys() and all(abs(scores[at] - expected[at]) < 1e-5 for at in expected), scores
    assert cut_tokens("parseHTTPHeader x2") == ["parse", "http", "header", "parsehttpheader", "x", "2", "x2"]
    assert cuts(["a" * 900, " b", "c" * 900, "d"]) == [(1, 2), (3, 4)]
