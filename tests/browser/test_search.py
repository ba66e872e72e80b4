"""The search answers what people ask, in their words: tests/questions.yml."""

from pathlib import Path

import pytest
import yaml

pytestmark = pytest.mark.browser

QUESTIONS = yaml.safe_load((Path(__file__).parents[1] / "questions.yml").read_text(encoding="utf-8"))
HITS = 3  # pages; each comes with the sections that match

FOUND = """hits => [...document.querySelectorAll(".md-search-result__item")].slice(0, hits)
    .map(item => [...item.querySelectorAll("a.md-search-result__link")].map(link => link.href))"""


def test_answers_are_places_of_the_site(site):
    for question in QUESTIONS:
        path, _, anchor = question["answer"].partition("#")
        text = (site.folder / path / "index.html").read_text(encoding="utf-8")
        assert f'id="{anchor}"' in text, f"{question['ask']}: {question['answer']} is no place of the site"


@pytest.fixture(scope="module")
def searching(browser, site):
    """One page with the search open: every question is typed into it."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, reduced_motion="reduce")
    page = context.new_page()
    assert page.goto(site.address).status == 200
    page.keyboard.press("/")
    yield page
    context.close()


@pytest.mark.parametrize("question", QUESTIONS, ids=[question["ask"] for question in QUESTIONS])
def test_finds_the_answer_in_the_first_hits(searching, site, question):
    page = searching
    field = page.locator("input[name=query]")
    for text, waiting in (("", "!"), (question["ask"], "!!")):
        field.fill(text)
        field.press("End")  # Material looks when a key comes up
        page.wait_for_function(f"{waiting}document.querySelector('.md-search-result__item')", timeout=5000)
    found = page.evaluate(FOUND, HITS)
    places = [
        [link.split("?")[0] + ("#" + link.partition("#")[2] if "#" in link else "") for link in hit] for hit in found
    ]
    assert site.address + question["answer"] in [place for hit in places for place in hit], places
