"""Questions whose answers are known, made from trees: each class is one way in which people and agents ask.

An answer is a place: a file, or lines of a file. What several places answer has all of them; what more than a few
answer is no question. Chance is seeded by the class and the tree, so that a new class changes no other.
"""

import random
import re
from collections import defaultdict
from dataclasses import dataclass, replace

SEED = 1
ANSWERS_MAX, OF_FILE_MAX, OF_PACKAGE_MAX = 4, 3, 14
# Questions of one class in one tree.
MOST = {"docstring": 140, "file summary": 50, "symbol": 100, "path": 60, "misspelling": 60, "change": 120,
        "long comment": 40, "letter case": 40, "language": 80, "macro": 60}
LETTERS = "abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True)
class Question:
    """`answers` are (path, first line, last line); a whole file has no lines."""

    kind: str
    form: str
    tree: str
    text: str
    answers: tuple

    @property
    def of_files(self):
        return self.answers[0][1] is None


def parts(name):
    """The parts of a name in lower case: `parseHTTPHeader` and `parse_http_header` are the same three."""
    return tuple(part.lower() for part in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_]+", name))


def sampled(kind, form, tree, found, most):
    """Up to `most` questions out of (text, answers), few of one file and of one package."""
    draw, questions, counts, seen = random.Random(f"{SEED} {kind} {form} {tree.name}"), [], defaultdict(int), set()
    found = sorted(found.items())
    draw.shuffle(found)
    for text, answers in found:
        answers = tuple(sorted(set(answers)))
        path = answers[0][0]
        package = path.split("/")[0]
        is_common = len(answers) > ANSWERS_MAX or text in seen
        if is_common or counts[path] >= OF_FILE_MAX or counts[package] >= OF_PACKAGE_MAX:
            continue
        seen.add(text)
        counts[path] += 1
        counts[package] += 1
        questions.append(Question(kind, form, tree.name, text, answers))
        if len(questions) >= most:
            break
    return questions


def documentation(tree, documented):
    """What documentation says in its first sentence, to the function or to the file that it was taken from."""
    functions, files = defaultdict(list), defaultdict(list)
    for one in documented:
        if one.sentence and one.name:
            functions[one.sentence].append((one.path, one.first, one.last))
        elif one.sentence:
            files[one.sentence].append((one.path, None, None))
    return (sampled("docstring", "sentence", tree, functions, MOST["docstring"])
            + sampled("file summary", "sentence", tree, files, MOST["file summary"]))


def forms(tree, kind, makers):
    share = MOST[kind] // len(makers)
    return [one for form, found in makers.items() for one in sampled(kind, form, tree, found, share)]


def by_parts(definitions):
    """Where each name is defined, by its parts; and by each run of two or more of them that it holds."""
    names, runs = defaultdict(list), defaultdict(list)
    for one in definitions:
        of, place = parts(one.name), (one.path, one.line, one.line)
        names[of].append(place)
        for run in {of[at:at + size] for size in (2, 3) for at in range(len(of) - size + 1)}:
            runs[run].append(place)
    return names, runs


def symbols(tree, definitions):
    """Names that are defined: with their parent, as they are, in part, and written in another way."""
    plain, qualified, fragments, swapped = (defaultdict(list) for _ in range(4))
    alike, holding = by_parts(definitions)
    for one in definitions:
        place = (one.path, one.line, one.line)
        of = parts(one.name)
        if len(one.name) >= 5 and not one.name.startswith("__"):
            plain[one.name].append(place)
            if one.parent:
                qualified[one.parent + ("::" if one.path.endswith(".rs") else ".") + one.name].append(place)
            if len(of) >= 2:
                swapped[swap(one.name, of)] = alike[of]
            if len(of) >= 3 and one.name[0].isupper() and not one.name.isupper() and of[1].isalpha():
                piece = of[1:] if len(of) == 3 else of[1:3]
                fragments["".join(part.capitalize() for part in piece)] = holding[piece]
    makers = {"name": plain, "other writing": swapped}
    makers |= {"Type::method": qualified} if qualified else {}
    makers |= {"CamelCase fragment": fragments} if len(fragments) >= 10 else {}
    return forms(tree, "symbol", makers)


def swap(name, of):
    """snake_case for a name in CamelCase, and the other way round."""
    return of[0] + "".join(part.capitalize() for part in of[1:]) if "_" in name else "_".join(of)


def long_comments(tree, commented):
    """What a long comment says first, to the line of the definition that it stands before."""
    found = defaultdict(list)
    for sentence, path, line in commented:
        found[sentence].append((path, line, line))
    return sampled("long comment", "sentence", tree, found, MOST["long comment"])


def letter_cases(tree, definitions):
    """Names that others have too but for the case of their letters: only those spelt so are right."""
    spelt, found = defaultdict(lambda: defaultdict(list)), {}
    for one in definitions:
        if len(one.name) >= 4 and not one.name.startswith("__"):
            spelt[one.name.lower()][one.name].append((one.path, one.line, one.line))
    for spellings in spelt.values():
        found |= spellings if len(spellings) > 1 else {}
    return sampled("letter case", "name", tree, found, MOST["letter case"])


def of_language(tree, language, documented):
    """What documentation says of a function, with the name of its language, among files of several."""
    found = defaultdict(list)
    for one in documented:
        if one.sentence and one.name:
            found[one.sentence].append((one.path, one.first, one.last))
    asked = sampled("language", language, tree, found, MOST["language"])
    # Every other question has the name behind it.
    forms = (lambda text: f"{language} {text}", lambda text: f"{text} in {language}")
    return [replace(one, text=forms[at % 2](one.text)) for at, one in enumerate(asked)]


def macros(tree, definitions):
    """Names of classes with a macro before them."""
    found = defaultdict(list)
    for one in definitions:
        found[one.name].append((one.path, one.line, one.line))
    hidden = {name: places for name, places in found.items() if any(tree.is_hidden(place) for place in places)}
    return sampled("macro", "name", tree, hidden, MOST["macro"])


def paths(tree):
    """Files by their stem, by the end of their path, by a part of it without an ending, and by words of it."""
    stems, ends, pieces, words = (defaultdict(list) for _ in range(4))
    for path in tree.texts:
        dirs, _, name = path.rpartition("/")
        stem, parent = name.split(".")[0], dirs.rsplit("/", 1)[-1]
        place = (path, None, None)
        if len(stem) >= 4:
            stems[stem].append(place)
        if parent:
            ends[f"{parent}/{name}"].append(place)
            pieces[f"{parent}/{stem}"].append(place)
            words[" ".join([*parts(parent), *parts(stem)])].append(place)
    return forms(tree, "path", {"stem": stems, "end": ends, "piece": pieces, "words": words})


def misspellings(tree, definitions):
    """Names and the words of names, with one edit in one word of five letters or more."""
    draw, names, words = random.Random(f"{SEED} edits {tree.name}"), {}, {}
    alike, _ = by_parts(definitions)
    for one in sorted(definitions, key=lambda one: (one.path, one.line, one.name)):
        of = parts(one.name)
        long = [at for at, part in enumerate(of) if len(part) >= 5]
        if not long or one.name.startswith("__") or not one.name.isascii():
            continue
        at = draw.choice(long)
        wrong = edit(draw, of[at])
        spelt = re.sub(of[at], lambda found: cased(found[0], wrong), one.name, count=1, flags=re.I)
        if spelt != one.name and of[at] in one.name.lower():
            names[spelt] = alike[of]
        if 2 <= len(of) <= 4:
            words[" ".join([*of[:at], wrong, *of[at + 1:]])] = alike[of]
    return forms(tree, "misspelling", {"name": names, "words": words})


def edit(draw, word):
    """A letter left out, put in, changed, or swapped with its neighbour; never the first, which people get right."""
    at, letter = draw.randrange(1, len(word) - 1), draw.choice(LETTERS)
    return draw.choice([word[:at] + word[at + 1:], word[:at] + letter + word[at:], word[:at] + letter + word[at + 1:],
                        word[:at] + word[at + 1] + word[at] + word[at + 2:]])


def cased(before, after):
    if before.isupper():
        return after.upper()
    return after.capitalize() if before[:1].isupper() else after


def changes(tree, asked, most):
    """What a commit says, to the files that it changed which were there before."""
    found = {}
    for subject, changed in asked:
        there = [path for path in changed if path in tree.texts]
        if there and len(changed) <= most and len(subject.split()) >= 4:
            found[subject] = tuple(sorted((path, None, None) for path in there))
    return [Question("change", "subject", tree.name, text, answers) for text, answers in sorted(found.items())]
