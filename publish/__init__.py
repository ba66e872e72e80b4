"""Pages to site: Markdown extensions that MkDocs loads by name from `mkdocs.yml`."""
