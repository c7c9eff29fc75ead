"""MkDocs hook of ``mkdocs.yml``: adds the repository's files and links by the rules of ``tools/pages.py``.

The build fails if a page loads something from another host, because the site must work offline.
"""

from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

from tools import pages


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Replace folders in the navigation by their pages."""
    config.nav = pages.written_out(config.nav)
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add linked files outside of ``docs/``."""
    for name, path in pages.outside().items():
        if path.suffix in pages.SHOWN:
            file = File.generated(config, name, content=pages.as_page(path))
        else:
            file = File.generated(config, name, abs_src_path=str(path))
        file.inclusion = InclusionLevel.NOT_IN_NAV  # unless the navigation has it
        files.append(file)
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Rewrite the links of a page for the site."""
    return pages.led(markdown, Path(page.file.abs_src_path)) if page.file.abs_src_path else markdown


def on_post_build(config: MkDocsConfig) -> None:
    """Raise PluginError if a page loads something from another host."""
    if found := pages.remote_assets(Path(config.site_dir)):
        raise PluginError("the site loads from other hosts:\n" + "\n".join(found))
