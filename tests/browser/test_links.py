"""Every address in the built pages: links lead to a page and a place that exist, nothing is fetched from elsewhere.

Read from the files, so that what a browser would fetch late, such as a picture far down the page, is seen too.
"""

import re
from html.parser import HTMLParser
from urllib.parse import unquote, urljoin, urlsplit

import pytest

pytestmark = pytest.mark.browser

HOST = "http://site.invalid/"
FETCHED = {"script", "img", "iframe", "source", "video", "audio", "embed", "object", "track", "input"}
NOT_FETCHED = {"canonical", "next", "prev", "alternate", "license", "author"}  # values of rel on a <link>


class Addresses(HTMLParser):
    def __init__(self):
        super().__init__()
        self.places, self.links, self.fetched = set(), [], []

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.places |= {found["id"]} if found.get("id") else set()
        address = found.get("src") or found.get("href") or found.get("data")
        if tag == "a" and found.get("href") is not None:
            self.links.append(found["href"])
        asked = tag == "link" and not NOT_FETCHED & set((found.get("rel") or "").split())
        if address and (asked or tag in FETCHED):
            self.fetched.append(address)
        self.fetched += [each.split()[0] for each in (found.get("srcset") or "").split(",") if each.strip()]
        self.fetched += outside(found.get("style") or "")

    handle_startendtag = handle_starttag


def outside(css):
    """What a style sheet fetches."""
    css = re.sub(r"/\*.*?\*/", "", css, flags=re.DOTALL)
    return [
        address
        for address in re.findall(r"""(?:url\(|@import)\s*["']?([^"')\s;]+)""", css)
        if not address.startswith(("data:", "#"))
    ]


def read(file):
    found = Addresses()
    found.feed(file.read_text(encoding="utf-8"))
    return found


def target(site, address):
    """The file that an address of the site leads to."""
    file = site.folder / unquote(urlsplit(address).path).lstrip("/")
    return file / "index.html" if file.is_dir() else file


def test_links_lead_to_a_place_that_exists(site):
    pages = {path: read(site.folder / path / "index.html") for path in site.pages}
    known, lost = {}, []
    for path, page in pages.items():
        for link in page.links:
            address = urljoin(HOST + path, link)
            if not address.startswith(HOST):
                continue
            file, anchor = target(site, address), unquote(urlsplit(address).fragment)
            if not file.is_file():
                lost.append(f"/{path}: {link}: no such file")
                continue
            if file.suffix == ".html" and anchor:
                known.setdefault(file, None)
                known[file] = known[file] or read(file).places
                if anchor not in known[file]:
                    lost.append(f"/{path}: {link}: no such place")
    assert lost == []


def test_nothing_is_fetched_from_another_host(site):
    foreign, lost = [], []
    files = [file for file in site.folder.rglob("*") if file.suffix in (".html", ".css")]
    for file in files:
        text = file.read_text(encoding="utf-8")
        name = file.relative_to(site.folder).as_posix()
        base = HOST if name == "404.html" else HOST + name
        for each in read(file).fetched if file.suffix == ".html" else outside(text):
            address = urljoin(base, each)
            if address.startswith("data:"):
                continue
            if not address.startswith(HOST):
                foreign.append(f"{name}: {each}")
            elif not target(site, address).is_file():
                lost.append(f"{name}: {each}")
    assert foreign == [] and lost == []
