"""Hooks: MkDocs gets the editions of every page as files. All that is seen on a page is a Markdown extension's work."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.plugins import event_priority
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from mkdocs.structure.toc import get_toc

from doccheck import checks
from doccheck.page import Page as Source
from doccheck.project import Project
from publish import editions, examples, fonts
from publish.cells import address
from publish.gallery import fresh
from publish.notebooks import contents, dress
from publish.places import BuildStopped, project_at

# Outside docs/ and snippets/: what is written there would start the live reload again.
FOLDER = ".cache/editions"
EXAMPLES = "capstone/index.md"  # the page that shows the reports of the example models
FONTS = ".cache/fonts"


@event_priority(100)  # before mkdocs-jupyter looks for notebooks
def on_files(files: Files, config: MkDocsConfig) -> Files:
    project = project_at(Path(config.config_file_path), Path(config.docs_dir))
    site = config.site_url or ""
    for source in list(files.documentation_pages()):
        if source.abs_src_path is None or source.src_uri.endswith(".ipynb"):
            continue
        page = checks.load(project, Path(source.abs_src_path))
        _stop_at_an_include(page)
        if page.fatal or not page.blocks:
            continue
        made = _made(project, page, site)
        for kind, text in made.items():
            files.append(File.generated(config, downloads(source.src_uri)[kind], content=text))
        if source.src_uri.startswith(editions.NOTEBOOK_PAGES):
            _notebook_page(files, config, project.root / FOLDER, source.src_uri, made["ipynb"])
    if files.get_file_from_path(EXAMPLES):
        for path, text in examples.reports().items():
            files.append(File.generated(config, path, content=text))
    return files


def _stop_at_an_include(page: Source) -> None:
    """pymdownx.snippets says neither the page nor the line of an include that it cannot follow."""
    lines = page.source.split("\n")
    for problem in [*page.problems, *(problem for block in page.blocks for problem in block.problems)]:
        if problem.place.path == page.name and "--8<--" in lines[problem.place.line - 1]:
            raise BuildStopped(f"{problem.place}: {problem.message}; {problem.hint}")


def _made(project: Project, page: Source, site: str) -> dict[str, str]:
    """Both editions; a page that did not change, nor any figure, is not written anew while the site is served."""
    state = (page.hash, site, fresh())
    if _kept.get(page.name, ("", {}))[0] != state:
        _kept[page.name] = (
            state,
            {"py": editions.script(project, page, site), "ipynb": editions.notebook(project, page, site)},
        )
    return _kept[page.name][1]


_kept: dict[str, tuple[object, dict[str, str]]] = {}


def downloads(source: str) -> dict[str, str]:
    """Where the script and the notebook of a page lie: beside its index.html, under its own name."""
    name = PurePosixPath(source).stem
    return {kind: f"{address(source)}{name}.{kind}" for kind in ("py", "ipynb")}


def _notebook_page(files: Files, config: MkDocsConfig, folder: Path, source: str, text: str) -> None:
    """mkdocs-jupyter renders only what lies on disk. Written only when it changed, so that its cache holds."""
    name = f"notebooks/{PurePosixPath(source).stem}.ipynb"
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text("utf-8") != text:
        path.write_text(text, "utf-8")
    files.append(File(name, str(folder), config.site_dir, config.use_directory_urls))


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """A notebook repeats its page, so the search leaves it out."""
    if page.file.src_uri.endswith(".ipynb"):
        page.meta["search"] = {"exclude": True}
        page.toc = get_toc(contents(html))
    return html


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    output = dress(output) if page.file.src_uri.endswith(".ipynb") else output
    _letters.update(fonts.letters(output))
    return output


_letters: set[str] = set()


def on_post_build(config: MkDocsConfig) -> None:
    root = project_at(Path(config.config_file_path), Path(config.docs_dir)).root
    fonts.reduce(Path(config.site_dir), frozenset(_letters), root / FONTS)
