"""The documentation: every link leads somewhere, every page is in the navigation, and pages agree with the code."""

import inspect
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import pvn
from pvn.corpus.store import classes_of, pack_segments
from pvn.simulator.environment import FieldVectorEnv

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
BUILT = DOCS / "results_tables.md"
"""Written when the site is built, and not in the repository."""
SITE = sorted({*DOCS.rglob("*.md")} - {BUILT})
PAGES = [*(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")), *SITE]
FENCED = re.compile(r"^ *(`{3,}).*?^ *\1`*$", re.DOTALL | re.MULTILINE)


def name_of(page):
    return str(page.relative_to(ROOT))


def prose(page):
    """A page without its code."""
    return re.sub(r"`[^`\n]+`", "code", FENCED.sub("", page.read_text()))


def links(page):
    """Targets of a page's links and pictures."""
    return re.findall(r"\]\(<?([^)>\s]+)>?(?:\s+\"[^\"]*\")?\)", prose(page))


def anchors(page):
    """What its headings are called in links, on GitHub and on the site, where those of the deepest levels have none."""
    level = re.search(r"^myst_heading_anchors = (\d)", (ROOT / "docs" / "conf.py").read_text(), re.MULTILINE)[1]
    headings = re.findall(rf"^#{{1,{level}}} +(.+?) *$", FENCED.sub("", page.read_text()), re.MULTILINE)
    shown = [re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading) for heading in headings]
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in shown}


def broken_links(page):
    for target in links(page):
        if re.match(r"(https?|mailto):", target):
            continue
        path, _, anchor = target.partition("#")
        aim = (page.parent / path).resolve() if path else page
        if aim == BUILT:
            continue
        if not aim.exists():
            yield f"{target}: no such file"
        elif anchor and (aim.suffix != ".md" or anchor not in anchors(aim)):
            yield f"{target}: no such heading"


PROVENANCE = (
    "a large language model wrote them one by one, in assumed voices; nobody's own words have been measured yet"
)
"""What stands on every page that speaks of the instructions in the box."""
ABOUT_INSTRUCTIONS = re.compile(r"natural (?:instruction|dev|text|segment)|--source natural", re.IGNORECASE)
INVENTED_PEOPLE = re.compile(
    r"(?:by|from) (?:a person|people|persons)\b|(?:people|persons?) (?:wrote|who wrote|typed|told)|"
    r"(?:people|person|author)'s own words|newcomers?\b|our users|users (?:report|ask|told|say)",
    re.IGNORECASE,
)


def flowing(page):
    """A page's text without its line breaks."""
    return " ".join(page.read_text().split())


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_pages_say_that_no_person_wrote_the_instructions(page):
    named = (
        "README.md",
        "CHANGELOG.md",
        *(f"docs/{name}.md" for name in ("index", "corpus", "python", "narrator", "results", "formats")),
    )
    if name_of(page) in named or ABOUT_INSTRUCTIONS.search(prose(page)):
        assert PROVENANCE in flowing(page)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_no_page_speaks_of_people_who_do_not_exist(page):
    """Nobody's words, reports or wishes have come in yet."""
    text = flowing(page).replace("No person wrote", "")
    assert INVENTED_PEOPLE.findall(text) == []


def included(page):
    return re.findall(r"^```\{include\} (.+)$", page.read_text(), re.MULTILINE)


def table(page, heading):
    """Rows of the first table under a heading, as lists of cells without their code marks."""
    section = page.read_text().split(f"\n## {heading}\n", 1)[1]
    lines = re.search(r"(?:^\|.*\n)+", section, re.MULTILINE)[0].splitlines()
    return [[cell.strip().strip("`") for cell in line.strip("|").split("|")] for line in lines[2:]]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_link_anchor_and_picture_leads_somewhere(page):
    assert list(broken_links(page)) == []
    assert all((page.parent / target).exists() for target in included(page))


def test_a_broken_link_is_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# One page\n[a](page.md#one-page) [b](#nowhere) ![c](none.png) [d](https://x.org) `[e](f)`\n")
    assert list(broken_links(page)) == ["#nowhere: no such heading", "none.png: no such file"]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_nothing_is_left_to_fill_in(page):
    assert not re.search(r"TODO|TBD|FIXME|_TABLE", page.read_text())


@pytest.mark.parametrize("page", [page for page in PAGES if page.name != "CHANGELOG.md"], ids=name_of)
def test_files_that_are_named_exist(page):
    """In code, by their path in the checkout, or in src/pvn/ by the end of it."""
    text = page.read_text()
    paths = re.findall(r"(?<![\w/])(?:src|tests|runs)/[\w/]+\.\w+", text)
    assert [path for path in paths if not (ROOT / path).exists()] == []
    modules = [f"/{path.relative_to(ROOT).as_posix()}" for path in (ROOT / "src" / "pvn").rglob("*.py")]
    ends = re.findall(r"`((?:\w+/)*\w+\.py)`", text)
    assert [end for end in ends if not (ROOT / end).exists() and not any(m.endswith(f"/{end}") for m in modules)] == []


def test_contributing_answers_twelve_questions_by_one_path_each():
    answers = [row[1] for row in table(ROOT / "CONTRIBUTING.md", "Where would I change X?")]
    assert len(answers) == 12
    assert [path for path in answers if not (ROOT / path).exists()] == []


def test_every_page_is_in_the_navigation_once():
    trees = re.findall(r"^```\{toctree\}\n(.*?)^```", (DOCS / "index.md").read_text(), re.DOTALL | re.MULTILINE)
    listed = [line for tree in trees for line in tree.splitlines() if line and not line.startswith(":")]
    pages = {str(page.relative_to(DOCS).with_suffix("")) for page in (*SITE, BUILT)} - {"index"}
    assert sorted(listed) == sorted(pages)


def test_the_readme_is_a_first_page():
    text = (ROOT / "README.md").read_text()
    assert len(text.splitlines()) <= 100
    assert text.count("![") == 1, "one film"


def test_hints_name_our_distribution_and_not_someone_elses():
    for page in PAGES:
        assert not re.search(r"pip install \S*pvn(?!-drone)", page.read_text()), name_of(page)


def test_the_formats_page_lists_every_column_of_a_corpus():
    lines = re.findall(r"^\| (`.*?) \|", (DOCS / "formats.md").read_text().split("\n## Corpus\n")[1], re.MULTILINE)
    names = {name for line in lines for name in re.findall(r"`(\w+)`", line) if name != "_offset"}
    names |= {f"{name}_offset" for line in lines if "`_offset`" in line for name in re.findall(r"`(\w+)`", line)}
    segments = pvn.sample_paragraph(seed=3)
    assert names - {"_offset_offset"} == pack_segments(segments, classes_of(segments)).keys()


def test_the_version_is_the_same_everywhere():
    released = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert released[0] == pvn.__version__
    cited = re.search(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    assert cited[1] == pvn.__version__


def test_the_api_page_has_every_public_name():
    shown = re.findall(r"^\.\. auto\w+:: pvn\.(\w+)$", (DOCS / "api.md").read_text(), re.MULTILINE)
    assert sorted(shown) == sorted(pvn.__all__)


def test_the_environment_page_lists_every_option_with_its_default():
    told = {name: default for name, default, _ in table(DOCS / "environment.md", "Options")}
    options = {
        name: str(option.default) if not isinstance(option.default, str) else f'"{option.default}"'
        for name, option in inspect.signature(FieldVectorEnv).parameters.items()
    }
    options["config"] = "SimulatorConfig()"
    assert told == options


def test_the_environment_page_tells_the_spaces_as_they_are():
    environment = FieldVectorEnv(num_tours=1, quality="none")
    observation, action = environment.single_observation_space, environment.single_action_space
    keys = {row[0]: row[1] for row in table(DOCS / "environment.md", "Observation space")}
    assert list(keys) == ["image", "pose", "instruction"] and set(keys) == set(observation.spaces)
    assert keys["image"] == f"Box(0, 255, {observation['image'].shape}, {observation['image'].dtype})"
    assert keys["pose"] == f"Box(low, high, {observation['pose'].shape}, {observation['pose'].dtype})"
    assert keys["instruction"] == f"Text(max_length={observation['instruction'].max_length})"
    limits = np.array([row[1:3] for row in table(DOCS / "environment.md", "Action space")], float).T
    assert np.allclose(limits, [action.low, action.high], atol=1e-3)
    _, info = environment.reset(seed=0)
    assert [row[0] for row in table(DOCS / "environment.md", "Info")] == list(info)


@pytest.mark.long
def test_the_site_builds_without_a_warning(tmp_path):
    for tool in ("sphinx", "myst_parser", "furo", "sphinx_copybutton"):
        pytest.importorskip(tool, reason='needs the extra docs: pip install ".[docs]"')
    command = [sys.executable, "-m", "sphinx", "--fail-on-warning", "--fresh-env", "--quiet", str(DOCS), str(tmp_path)]
    built = subprocess.run(command, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    for page in (*SITE, BUILT):
        assert (tmp_path / page.relative_to(DOCS).with_suffix(".html")).exists()


def test_the_agent_page_says_what_the_literal_preset_takes_back():
    from pvn.learning.recipes import LITERAL

    assert [row[0] for row in table(DOCS / "agent.md", "The paper's recipe as written")] == list(LITERAL)
