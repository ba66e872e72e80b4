"""Preview: a built site served on this machine as a host would, packed by gzip, and what of it went out."""

from __future__ import annotations

import functools
import gzip
import mimetypes
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

COMPRESSED = (".html", ".css", ".js", ".json", ".xml", ".svg", ".txt")


@dataclass
class Site:
    """What is served: its address, its pages, and how many bytes of each path went out."""

    folder: Path
    address: str
    pages: list[str]
    sent: list[tuple[str, int]] = field(default_factory=list)


def listed(folder: Path) -> tuple[str, list[str]]:
    """The published address and the paths of the sitemap, relative to it."""
    sitemap = folder / "sitemap.xml"
    if not sitemap.exists():
        raise FileNotFoundError(f"{folder} is no built site (no sitemap.xml)")
    addresses = re.findall(r"<loc>([^<]+)</loc>", sitemap.read_text(encoding="utf-8"))
    published = min(addresses, key=len)
    return published, [address.removeprefix(published) for address in addresses]


@functools.lru_cache(maxsize=512)
def body_of(file: Path, replacing: tuple[str, str] | None, packed: bool) -> bytes:
    content = file.read_bytes()
    if replacing:
        content = content.replace(replacing[0].encode(), replacing[1].encode())
    return gzip.compress(content, 6) if packed else content


def handler(site: Site, published: str) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            path = unquote(urlsplit(self.path).path).lstrip("/")
            file = (site.folder / path).resolve()
            if file.is_dir():
                file /= "index.html"
            status = 200
            if not file.is_relative_to(site.folder) or not file.is_file():
                file, status = site.folder / "404.html", 404
            packed = file.suffix in COMPRESSED and "gzip" in self.headers.get("Accept-Encoding", "")
            # Instant navigation follows only addresses of the sitemap: it must name the port that was free today.
            replacing = (published, site.address) if file.name == "sitemap.xml" else None
            body = body_of(file, replacing, packed)
            site.sent.append((path, len(body)))
            self.send_response(status)
            self.send_header("Content-Type", mimetypes.guess_type(file.name)[0] or "application/octet-stream")
            self.send_header("Content-Length", str(len(body)))
            if packed:
                self.send_header("Content-Encoding", "gzip")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: Any) -> None:
            """Failures are told by the tests."""

    return Handler


@contextmanager
def served(folder: Path) -> Iterator[Site]:
    """The site on a free port, until the block ends."""
    folder = folder.resolve()
    published, pages = listed(folder)
    site = Site(folder, "", pages)
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler(site, published))
    server.daemon_threads = True
    site.address = f"http://127.0.0.1:{server.server_port}/"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield site
    finally:
        server.shutdown()
        server.server_close()
