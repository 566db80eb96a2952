"""Documentation that runs: sessions give what they show, links resolve, the map is complete."""

import doctest
import importlib
import re
from pathlib import Path

import pytest

import flambeau

ROOT = Path(__file__).parent.parent
SOURCES = [path.relative_to(ROOT) for path in sorted((ROOT / "flambeau").rglob("*.py"))]
PAGES = [
    path.relative_to(ROOT) for path in sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
]
WITH_SESSIONS = [path for path in SOURCES + PAGES if ">>> " in (ROOT / path).read_text()]


def sessions(path):
    """The examples of a page, or of the docstrings of a module."""
    text = (ROOT / path).read_text()
    names = {"torch": flambeau, "flambeau": flambeau}
    if path.suffix == ".md":
        return [doctest.DocTestParser().get_doctest(text, names, str(path), str(path), 0)]
    module = importlib.import_module(".".join(path.with_suffix("").parts).removesuffix(".__init__"))
    return doctest.DocTestFinder(exclude_empty=True).find(module, extraglobs=names)


@pytest.mark.parametrize("path", WITH_SESSIONS, ids=str)
def test_sessions_give_what_they_show(path, capsys):
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    for session in sessions(path):
        runner.run(session)
    assert runner.failures == 0, capsys.readouterr().out


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_links_lead_to_files(page):
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", (ROOT / page).read_text())
    missing = [link for link in links if not (ROOT / page.parent / link).exists()]
    assert not missing


def entries():
    """The files that the map lists, as paths: a heading names the folder, each item a file."""
    folder, found = None, []
    for line in (ROOT / "docs/map.md").read_text().splitlines():
        if heading := re.match(r"#+ (.*)", line):
            folder = heading[1] if heading[1].startswith("flambeau/") else None
        elif folder and (item := re.match(r"- `(\w+\.py)`: .", line)):
            found.append(Path(folder) / item[1])
    return found


def test_the_map_has_a_line_for_every_file():
    missing = {path for path in SOURCES if (ROOT / path).stat().st_size} - set(entries())
    assert not missing, sorted(map(str, missing))


def test_the_map_lists_no_file_twice_and_none_that_is_gone():
    assert len(entries()) == len(set(entries()))
    assert not [str(path) for path in entries() if path not in SOURCES]


def test_the_map_mentions_no_other_file():
    text = (ROOT / "docs/map.md").read_text()
    names = {path.name for path in ROOT.rglob("*.py") if ".venv" not in str(path)}
    assert set(re.findall(r"\b\w+\.py\b", text)) <= names
