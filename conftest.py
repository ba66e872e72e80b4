"""Pages and snippets are tests: doccheck collects them."""

pytest_plugins = ["doccheck.plugin"]
