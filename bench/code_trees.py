"""Trees of other people's code to search in, made from what is installed: Python packages, crates, npm packages.

A package belongs to the development split or to the test split by the hash of its name, so constants can be tuned on
the one and judged on the other. Each language has a tree of the files as they are and, where questions are made from
documentation, a bare one without it. Packages are taken in the order of the hash until the bounds are met. Copies of
others' code inside packages are left out, because the same file would be in both splits.
"""

import hashlib
import re
import subprocess
import sysconfig
from dataclasses import dataclass
from pathlib import Path

import code_read as read

ROOT = Path(__file__).resolve().parents[1]
SEED = "weir-code-1"
SPLITS = ("development", "test")
# Bounds of one language of one split, and of what is taken.
FILES_MAX, BYTES_MAX = 700, 9 << 20
PACKAGE_FILES_MAX, FILE_BYTES_MAX = 220, 150_000
KINDS = set("py pyi rs js mjs cjs ts c h toml md txt rst json yml yaml cfg ini html css sh".split())
NOT_TAKEN = {"__pycache__", "_vendor", "vendor", "vendored", "node_modules", "site-packages", "dist-packages", "target"}
# Where headers are: of node and of GoogleTest, as Debian installs them.
HEADERS = (Path("/usr/include/node"), Path("/usr/include/gtest"))
# Of the history: commits between two states of the tree, files that a commit may change, and questions.
STATE_EVERY, CHANGED_MAX = 20, 8


@dataclass
class Tree:
    """A folder to search in, with its texts by path."""

    name: str
    folder: Path
    texts: dict

    def is_hidden(self, place):
        """Whether a macro stands before the name that is defined in a line."""
        path, line, _ = place
        return bool(read.HIDDEN.match(self.texts[path].split("\n")[line - 1]))

    def commented(self):
        return [found for path, text in sorted(self.texts.items()) for found in read.long_comments(path, text)]

    def definitions(self):
        return [found for path, text in sorted(self.texts.items()) for found in read.definitions(path, text)]


def split_of(name):
    return SPLITS[hashlib.sha256(f"{SEED} split {name}".encode()).digest()[0] & 1]


def turn(name):
    return hashlib.sha256(f"{SEED} turn {name}".encode()).hexdigest()


# Packages: name, and the paths that it is made of with the names that they get.

def python_packages():
    """Of the virtual environment, of Debian, and of the standard library; of a name that is there twice the first."""
    standard = Path(sysconfig.get_paths()["stdlib"])
    sites = sorted((ROOT / ".setup/venv/lib").glob("python3*/site-packages"))
    skipped = {"test", "idlelib", "turtledemo", "lib2to3", "encodings", "pydoc_data", "ensurepip"}
    found = {}
    for folder in (*sites, Path("/usr/lib/python3/dist-packages"), standard):
        for path in sorted(folder.iterdir()) if folder.is_dir() else []:
            is_package = (path / "__init__.py").is_file()
            if (is_package or path.suffix == ".py") and path.stem not in NOT_TAKEN | skipped:
                found.setdefault(path.stem.lower(), path)
    return found


def crates():
    """Of Cargo's registry; of several versions the last."""
    found = {}
    for folder in sorted(Path.home().glob(".cargo/registry/src/*/*")):
        parted = re.fullmatch(r"(.+?)-(\d+)\.(\d+)\.(\d+).*", folder.name)
        if parted and (folder / "src").is_dir():
            version = tuple(int(part) for part in parted.groups()[1:])
            found[parted[1]] = max(found.get(parted[1], ((), folder)), (version, folder))
    return {name: folder for name, (_, folder) in found.items()}


def node_packages():
    found = {}
    for folder in (Path("/usr/lib/node_modules/npm/node_modules"), ROOT / ".setup/node/node_modules"):
        for manifest in sorted([*folder.glob("*/package.json"), *folder.glob("@*/*/package.json")]):
            found.setdefault(str(manifest.parent.relative_to(folder)), manifest.parent)
    return found


def files_of(package):
    """The files of a package that are taken, with their paths in the tree."""
    if package.is_file():
        return [(package, package.name)]
    found = []
    for path in sorted(package.rglob("*")):
        inside = path.relative_to(package)
        is_taken = path.suffix[1:] in KINDS and not NOT_TAKEN.intersection(inside.parts)
        if is_taken and not any(part.startswith(".") for part in inside.parts) and path.is_file():
            found.append((path, f"{package.name}/{inside.as_posix()}"))
    return found


def texts_of(packages, split):
    """The texts of one language of one split, by path."""
    texts, size = {}, 0
    for name in sorted((name for name in packages if split_of(name) == split), key=turn):
        files = files_of(packages[name])
        if len(files) > PACKAGE_FILES_MAX:
            continue
        for path, inside in files:
            data = path.read_bytes()
            if len(data) <= FILE_BYTES_MAX and b"\0" not in data[:8000]:
                size += len(data)
                texts[inside] = data.decode(errors="replace").replace("\r\n", "\n")
        if len(texts) >= FILES_MAX or size >= BYTES_MAX:
            break
    return texts


def write(folder, texts):
    for inside, text in texts.items():
        path = folder / inside
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def made(folder, name, texts):
    """A tree of these texts in `folder`/`name`."""
    write(folder / name, texts)
    return Tree(name, folder / name, texts)


def trees(folder, split):
    """The trees of a split, and for each bare one the documentation that was taken out of it."""
    whole, bare = {}, {}
    for language, packages in (("python", python_packages()), ("rust", crates()), ("javascript", node_packages())):
        texts = texts_of(packages, split)
        if not texts:
            continue
        whole[language] = made(folder, language, texts)
        if language != "javascript":
            stripped, documented = {}, []
            for path, text in sorted(texts.items()):
                stripped[path], said = read.without_documentation(path, text)
                documented += said
            bare[language] = (made(folder, f"{language}-bare", stripped), documented)
    return whole, bare


def mixed(folder, bare):
    """One tree of the files of several languages; and what the documentation of each said."""
    texts = {}
    for tree, _ in bare.values():
        texts |= tree.texts
    return made(folder, "mixed-bare", texts), {language: documented for language, (_, documented) in bare.items()}


def headers(folder, split):
    """Headers of C++ that this machine has; each is a package of its own. Nothing where there are none."""
    texts = {}
    for of in HEADERS:
        for path in sorted(of.rglob("*.h")):
            if split_of(path.stem) == split and path.stat().st_size <= FILE_BYTES_MAX:
                texts[f"{path.stem}/{path.name}"] = path.read_text(errors="replace")
    return made(folder, "cpp", texts) if texts else None


# The history of this repository: what a commit says, to the files that it changed.

def git(*arguments, **more):
    return subprocess.run(["git", "-C", str(ROOT), *arguments], check=True, capture_output=True, **more).stdout


def history(split):
    """Of the older half of the commits, or of the newer: states of the tree before some commits, each with the subjects
    of those commits and the paths that they changed. Nothing where there is no history."""
    try:
        log = git("log", "--no-merges", "--reverse", "--no-renames", "--name-status", "--format=%x01%H%x00%s").decode()
    except (OSError, subprocess.CalledProcessError):
        return
    commits = [parse_commit(one) for one in log.split("\x01")[1:]]
    half = len(commits) // 2
    chosen = range(STATE_EVERY, half) if split == SPLITS[0] else range(max(half, STATE_EVERY), len(commits))
    for first in chosen[::STATE_EVERY]:
        asked = [(subject, changed) for _, subject, changed in commits[first:min(first + STATE_EVERY, chosen.stop)]]
        yield commits[first - 1][0], asked


def parse_commit(text):
    head, _, rest = text.partition("\n")
    digest, _, subject = head.partition("\0")
    changed = [line.split("\t")[1] for line in rest.splitlines() if line[:2] in ("M\t", "D\t", "A\t")]
    return digest, without_crate(subject), changed


def without_crate(subject):
    """A subject without the names of crates that this repository's begin with: others have no such habit."""
    return "; ".join(re.sub(r"^[a-z0-9_, -]+: ", "", part) for part in subject.split("; "))


def state(folder, digest):
    """Makes `folder` the tree of a commit. Gives its texts by path."""
    listed = git("ls-tree", "-r", "-z", "--long", digest).decode().split("\0")[:-1]
    texts = {}
    for line in listed:
        about, path = line.split("\t")
        mode, _, _, size = about.split()
        if mode.startswith("100") and int(size) <= FILE_BYTES_MAX and Path(path).suffix[1:] in KINDS:
            texts[path] = None
    blobs = git("cat-file", "--batch", input="".join(f"{digest}:{path}\n" for path in texts).encode())
    at = 0
    for path in texts:
        end = blobs.index(b"\n", at)
        size = int(blobs[at:end].split()[-1])
        texts[path] = blobs[end + 1:end + 1 + size].decode(errors="replace")
        at = end + size + 2
    return texts
