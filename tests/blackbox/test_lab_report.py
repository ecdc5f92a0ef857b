"""The report in a browser: Chromium reads it without a complaint, and prints it."""

import re
import shutil
import subprocess
import xml.etree.ElementTree as ElementTree

import pytest

from gateway import ROOT, WEIR

RUN = ROOT / "crates/lab/tests/report/run.json"
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """The page of the recorded run, twice, as a matrix of two."""
    folder = tmp_path_factory.mktemp("report")
    for cell in ("a", "b"):
        (folder / "runs" / cell).mkdir(parents=True)
        shutil.copy(RUN, folder / "runs" / cell / "run.json")
    page = folder / "report.html"
    done = subprocess.run([WEIR, "lab", "report", folder / "runs", "-o", page], capture_output=True, text=True,
                          timeout=60)
    assert done.returncode == 0, done.stderr
    assert "2 runs" in done.stdout
    return page


def chromium(page, tmp_path, *arguments):
    """Runs the browser once; the last lines of its log are what the page's console said."""
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
               "--no-first-run", f"--user-data-dir={tmp_path / 'profile'}", "--enable-logging=stderr", "--v=0",
               *arguments, page.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done


def test_the_page_is_read_without_a_complaint(report, tmp_path):
    done = chromium(report, tmp_path, "--dump-dom")
    assert "CONSOLE" not in done.stderr, done.stderr
    dom = done.stdout
    assert dom.count("<article") == 2
    assert "thresholds breached" in dom
    assert dom.count("<svg") >= 2 * 8 and "<script" not in dom.lower()


def test_pictures_are_xml_with_a_name_and_real_text(report):
    pictures = re.findall(r"<svg.*?</svg>", report.read_text(), re.DOTALL)
    assert pictures
    for picture in pictures:
        root = ElementTree.fromstring(picture)
        assert root.get("role") == "img" and root.get("aria-label")
        assert root.findtext(f"{SVG}title") == root.get("aria-label")
        assert root.findall(f"{SVG}text") and not root.findall(".//*[@id]")


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_it_is_drawn(report, tmp_path, mode):
    picture = tmp_path / "page.png"
    flags = ["--force-dark-mode"] if mode == "dark" else []
    chromium(report, tmp_path, f"--screenshot={picture}", "--window-size=1180,2000", "--hide-scrollbars", *flags)
    bytes_ = picture.read_bytes()
    assert bytes_.startswith(b"\x89PNG") and len(bytes_) > 20_000


def test_it_is_printed(report, tmp_path):
    paper = tmp_path / "page.pdf"
    chromium(report, tmp_path, f"--print-to-pdf={paper}", "--no-pdf-header-footer")
    bytes_ = paper.read_bytes()
    assert bytes_.startswith(b"%PDF") and len(bytes_) > 20_000


def test_what_is_no_run_is_refused(tmp_path):
    (tmp_path / "run.json").write_text("{}")
    done = subprocess.run([WEIR, "lab", "report", tmp_path, "-o", tmp_path / "x.html"], capture_output=True, text=True,
                          timeout=60)
    assert done.returncode == 2 and "run.json" in done.stderr
    assert not (tmp_path / "x.html").exists()
