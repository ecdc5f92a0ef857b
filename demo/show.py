"""How the demo speaks: a title for each step, a line for each thing tried, colour on a terminal only."""

import os
import sys
import textwrap

COLOUR = sys.stdout.isatty() and "NO_COLOR" not in os.environ
WIDTH = 110
FAILED = []


def paint(code, text):
    return f"\x1b[{code}m{text}\x1b[0m" if COLOUR else text


def step(title):
    print(f"\n{paint('1', title)}", flush=True)


def check(what, right, detail=""):
    """One thing tried: whether it went as the demo says, and what was seen."""
    mark = paint("32", "ok") if right else paint("31", "WRONG")
    print(f"  {mark} {what}", flush=True)
    if not right:
        FAILED.append(what)
    for line in detail.splitlines()[:3]:
        for piece in textwrap.wrap(line, WIDTH)[:3]:
            print(paint("2", f"     {piece}"), flush=True)


def failed():
    return FAILED
