"""The pages for users: what they link to and what they list is there."""

import json
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"),
                *(ROOT / "benchmarks").glob("*.md")])
HELP = ROOT / "js" / "docs"


def anchors(page):
    """The anchors that GitHub makes of a page's headings."""
    text = re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.DOTALL)
    return {re.sub(r"[^\w -]", "", heading).strip().lower().replace(" ", "-")
            for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE)}


def test_every_link_from_page_to_page_leads_to_a_file_and_a_heading_that_are_there():
    links = [(page, link) for page in PAGES
             for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text("utf-8"))
             if not link.startswith("http")]
    assert len(links) > 100
    lost = []
    for page, link in links:
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            lost.append((page.name, link))
    assert lost == []


def test_bold_words_that_end_in_a_chinese_mark_are_bold():
    """A mark before the closing stars and a letter behind them: CommonMark leaves the stars."""
    lost = [(page.name, words) for page in [*PAGES, *HELP.glob("*/zh.md")] for words in re.findall(
        r"\*\*[^*\s][^*\n]*[？！。，：；）]\*\*\w", page.read_text("utf-8"))]
    assert lost == []


def test_the_table_of_settings_has_every_environment_variable_and_no_other():
    read = {name for path in (ROOT / "headroom").rglob("*.py")
            for name in re.findall(r'"(HEADROOM_[A-Z_]+)"', path.read_text("utf-8"))}
    for page in ("settings.md", "settings.zh-CN.md"):
        table = (ROOT / "docs" / page).read_text("utf-8").split("\n## ")[0]
        assert set(re.findall(r"HEADROOM_[A-Z_]+", table)) == read, page


def test_a_page_has_as_many_points_and_rows_in_chinese_as_in_english():
    both = [(page.with_name(page.name.replace(".zh-CN", "")), page) for page in PAGES
            if page.name.endswith(".zh-CN.md")]
    both += [(page.with_name("en.md"), page) for page in HELP.glob("*/zh.md")]
    counts = {pages[0]: [len(re.findall(r"(?m)^ *(?:- |\d+\. |\|)", page.read_text("utf-8")))
                         for page in pages] for pages in both}
    assert len(counts) > 20
    assert {page: count for page, count in counts.items() if count[0] != count[1]} == {}


def test_the_help_page_of_the_guard_tells_what_was_measured_last():
    records = json.loads((ROOT / "benchmarks/results/simulated-gpu-0.3.75.json").read_text("utf-8"))
    found = records["benchmarks"]["oom_overhead"]["result"]
    told = {f"{found['own_us'] / 1000:.2f} ", f"{found['guard']['added_percent']:.2f} %"}
    for page in ("en.md", "zh.md"):
        text = (HELP / "HeadroomOOMGuard" / page).read_text("utf-8")
        assert [figure for figure in told if figure not in text] == [], page
