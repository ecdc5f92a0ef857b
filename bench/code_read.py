"""Reads code a little: what is defined where, and what documentation says of it. Python by its own parser; Rust
by a reader of its words that knows strings, comments and braces, so macros may fool it; JavaScript by how lines
begin."""

import ast
import itertools
import re
from dataclasses import dataclass

# What stands in Rust: comments, strings, characters, words, signs.
LEXEMES = re.compile(r"""
    (?P<skip> //[^\n]* | /\*.*?\*/ | b?r(?P<hashes>\#*)".*?"(?P=hashes) | b?"(?:\\.|[^"\\])*"
      | b?'(?:\\.[^']*|[^'\\\n])' )
  | (?P<lifetime> '\w+ ) | (?P<word> \w+ ) | (?P<sign> [][{}();,=<>*&] ) | (?P<line> \n )""", re.X | re.S)
RUST_DOC = re.compile(r"\s*(///(?!/)|//!)")
FUNCTION = re.compile(r"(pub(\([^)]*\))? )?(default )?(const )?(async )?(unsafe )?(extern \"\w+\" )?fn \w")
RUST_KINDS = {"fn", "struct", "enum", "trait", "type", "const", "static", "union"}


@dataclass(frozen=True)
class Definition:
    """A name that is defined: lines count from 1, and `line` is where the name stands."""

    path: str
    name: str
    parent: str
    kind: str
    first: int
    line: int
    last: int


@dataclass(frozen=True)
class Documented:
    """The first sentence about a definition, or about a file (then `name` is empty)."""

    sentence: str
    path: str
    name: str
    first: int
    last: int


def definitions(path, text):
    suffix = path.rsplit(".", 1)[-1]
    if suffix == "py":
        return python_definitions(path, text)
    if suffix == "rs":
        return rust_definitions(path, text)
    if suffix == "h":
        return cpp_definitions(path, text)
    return javascript_definitions(path, text) if suffix in ("js", "mjs", "cjs") else []


# Python

def parsed(text):
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return None


def python_definitions(path, text):
    found = []

    def visit(node, parent):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                kind = "class" if isinstance(child, ast.ClassDef) else "fn"
                first = min([child.lineno, *(one.lineno for one in child.decorator_list)])
                found.append(Definition(path, child.name, parent, kind, first, child.lineno, child.end_lineno))
                visit(child, child.name if kind == "class" else "")
            elif not isinstance(child, ast.expr):
                visit(child, parent)

    tree = parsed(text)
    if tree:
        visit(tree, "")
    return found


def docstring(node):
    """The node of a docstring, or nothing."""
    first = node.body[0] if node.body else None
    value = first.value if isinstance(first, ast.Expr) else None
    return first if isinstance(value, ast.Constant) and isinstance(value.value, str) else None


def stands_alone(node, lines):
    """Whether nothing else is on its lines."""
    before, after = lines[node.lineno - 1][:node.col_offset], lines[node.end_lineno - 1].encode()[node.end_col_offset:]
    return not before.strip() and not after.strip()


def without_docstrings(path, text):
    tree = parsed(text)
    if tree is None:
        return text, []
    lines, said, gone = text.split("\n"), [], set()
    for node in ast.walk(tree):
        if not isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        doc = docstring(node)
        if doc is None or not stands_alone(doc, lines):
            continue
        if not isinstance(node, ast.ClassDef):
            said.append((node, doc.value.value))
        rows = range(doc.lineno, doc.end_lineno + 1)
        if len(node.body) == 1 and not isinstance(node, ast.Module):
            lines[doc.lineno - 1] = lines[doc.lineno - 1][:doc.col_offset] + "pass"
            rows = rows[1:]
        gone.update(rows)
    kept = [line for row, line in enumerate(lines, 1) if row not in gone]
    left = list(itertools.accumulate((row not in gone for row in range(1, len(lines) + 1)), initial=0))
    documented = []
    for node, doc in said:
        is_file = isinstance(node, ast.Module)
        first, last = (1, len(kept)) if is_file else (left[node.lineno], left[node.end_lineno])
        documented.append(Documented(sentence(doc), path, "" if is_file else node.name, first, last))
    return "\n".join(kept), documented


# Rust

def rust_words(text):
    """Words and signs with their lines; strings and comments are left out."""
    line = 1
    for match in LEXEMES.finditer(text):
        if match.lastgroup in ("word", "sign"):
            yield match[0], line
        line += match[0].count("\n")


def rust_definitions(path, text):
    """What is defined: a stack of braces, each with the definition or the header (`impl`, `mod`) that it belongs to."""
    words, found, open_ = list(rust_words(text)), [], []
    waits, nested = None, 0  # What the next brace belongs to, and how many brackets are open in it.
    for at, (word, line) in enumerate(words):
        before = words[at - 1][0] if at else ""
        name, name_line = words[at + 1] if at + 1 < len(words) else ("", line)
        is_name = re.fullmatch(r"[A-Za-z]\w*", name) and name not in ("fn", "unsafe", "extern", "async", "mut")
        if word in RUST_KINDS and is_name and before not in ("<", ",", "*", "&"):
            waits, nested = [path, name, parent_of(open_), word, line, name_line, name_line], 0
            found.append(waits)
        elif word in ("impl", "mod") and waits is None:
            waits, nested = (word, at), 0
        elif word == "{":
            open_.append((waits, words[waits[1] + 1:at] if isinstance(waits, tuple) else None))
            waits = None
        elif word == "}" and open_:
            end(open_.pop()[0], line)
            waits = None
        elif word in "([":
            nested += 1
        elif word in ")]":
            nested -= 1
        elif word == ";" and nested <= 0:
            end(waits, line)
            waits = None
    return [Definition(*one) for one in found]


def end(of, line):
    if isinstance(of, list):
        of[6] = line


def parent_of(open_):
    """The type or trait around a place; nothing inside of a function."""
    for of, header in reversed(open_):
        if isinstance(of, list):
            return of[1] if of[3] == "trait" else ""
        if isinstance(of, tuple) and of[0] == "impl":
            return header_name(header)
    return ""


def header_name(words):
    """The type that an `impl` is for: the last word outside of angle brackets, behind `for` where there is one."""
    names, depth = [], 0
    for word, _ in words:
        depth += {"<": 1, ">": -1}.get(word, 0)
        if depth <= 0 and word == "where":
            break
        if depth <= 0 and re.fullmatch(r"[A-Za-z_]\w*", word) and word not in ("dyn", "mut", "const", "unsafe"):
            names = [] if word == "for" else [*names, word]
    return names[-1] if names else ""


def without_rust_docs(path, text):
    text = re.sub(r"^[ \t]*/\*[*!](?!\*|/).*?\*/[ \t]*\n", "", text, flags=re.M | re.S)
    kept, said, doc, file_doc, in_doc = [], [], [], [], False
    for line in text.split("\n"):
        marked = RUST_DOC.match(line)
        if marked:
            (doc if marked[1] == "///" else file_doc).append(line[marked.end():].strip())
            continue
        if re.match(r"\s*#!?\[doc\s*=\s*\".*\"\]\s*$", line):
            continue
        kept.append(line)
        stripped = line.strip()
        if doc and FUNCTION.match(stripped):
            said.append((sentence("\n".join(doc)), len(kept)))
        if stripped and not stripped.startswith("#") and not stripped.startswith("//"):
            doc = []
    bare = "\n".join(kept)
    by_line = {one.line: one for one in rust_definitions(path, bare) if one.kind == "fn"}
    documented = [Documented(said_, path, by_line[line].name, line, by_line[line].last)
                  for said_, line in said if line in by_line]
    if file_doc:
        documented.append(Documented(sentence("\n".join(file_doc)), path, "", 1, len(kept)))
    return bare, documented


def without_documentation(path, text):
    """A text without its documentation, and what that said."""
    suffix = path.rsplit(".", 1)[-1]
    if suffix == "py":
        return without_docstrings(path, text)
    return without_rust_docs(path, text) if suffix == "rs" else (text, [])


# JavaScript

JAVASCRIPT = re.compile(r"^(?:export\s+(?:default\s+)?)?(?:async\s+)?(function\*?|class)\s+([A-Za-z_$][\w$]*)", re.M)


def javascript_definitions(path, text):
    found = []
    for match in JAVASCRIPT.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        found.append(Definition(path, match[2], "", "class" if match[1] == "class" else "fn", line, line, line))
    return found


# C++

HIDDEN = re.compile(r"\s*(?:template\s*<.*>\s*)?(?:class|struct|enum class)\s+[A-Z][A-Z0-9_]+(?:\([^()]*\))?\s+\w")
CPP = re.compile(r"^[ \t]*(?:template\s*<[^\n]*>\s*)?(class|struct|enum class|enum)[ \t]+(?:[A-Z][A-Z0-9_]+(?:\([^()]*\))?[ \t]+)*"
                 r"([A-Za-z_]\w*)(?:[ \t]+final)?\s*(?:\{|:[^:])", re.M)


def cpp_definitions(path, text):
    found = []
    for match in CPP.finditer(text):
        line = text.count("\n", 0, match.start(2)) + 1
        found.append(Definition(path, match[2], "", "class", line, line, line))
    return found


# Long comments

LONG_BYTES_MIN = 900
BLOCK = re.compile(r"^[ \t]*/\*\*(?P<doc>(?:(?!\*/).)*)\*/[ \t]*\n(?P<next>[^\n]*)", re.M | re.S)
JAVASCRIPT_HEAD = re.compile(r"\s*(?:export\s+)?(?:default\s+)?(?:async\s+)?(?:function\b|class\b|static\b|const\s+\w+\s*=|[\w.$]+\s*=\s*function|\w+\([^()]*\)\s*\{)")


def long_comments(path, text):
    """(First sentence, path, line of what is defined behind it) of long comments before definitions."""
    suffix = path.rsplit(".", 1)[-1]
    found = []
    if suffix in ("js", "mjs", "cjs", "ts"):
        for match in BLOCK.finditer(text):
            if len(match["doc"]) >= LONG_BYTES_MIN and JAVASCRIPT_HEAD.match(match["next"]):
                doc = re.sub(r"^[ \t]*\*[ ]?", "", match["doc"].strip("*"), flags=re.M)
                found.append((sentence(doc), path, text.count("\n", 0, match.start("next")) + 1))
    elif suffix == "rs":
        doc = []
        for row, line in enumerate(text.split("\n"), 1):
            marked = RUST_DOC.match(line)
            if marked and marked[1] == "///":
                doc.append(line[marked.end():].strip())
                continue
            if line.strip().startswith("#") and doc:
                continue
            if sum(map(len, doc)) >= LONG_BYTES_MIN and FUNCTION.match(line.strip()):
                found.append((sentence("\n".join(doc)), path, row))
            doc = []
    return [one for one in found if one[0]]


# Sentences

END = re.compile(r"(?:(?<=\w\w)|(?<=[)`'\"]))\.(?:\s|$)|(?<=\w):(?:\s|$)")
UNPLAIN = re.compile(r"^[#=>*@-]|>>>|https?:|\{\{|[|]{2}|::=|[~=_-]{4}")


def sentence(doc):
    """The first sentence of documentation, as plain words; empty where it is no sentence."""
    paragraph = re.split(r"\n\s*\n", doc.strip(), maxsplit=1)[0]
    text = " ".join(paragraph.split())
    text = re.sub(r"\[([^\]]+)\](\([^)]*\)|\[[^\]]*\])?", r"\1", text)
    text = re.sub(r":\w+:`~?([^`<]+)(<[^>]*>)?`", r"\1", text)
    text = END.split(text.replace("``", "`"), maxsplit=1)[0]
    text = text.replace("`", "").strip()
    words = re.findall(r"[A-Za-z]{2,}", text)
    is_prose = 4 <= len(words) <= 30 and text.isascii() and not UNPLAIN.search(text)
    return text if is_prose else ""
