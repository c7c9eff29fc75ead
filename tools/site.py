"""Tells MkDocs what it has to know of this repository (a hook of ``mkdocs.yml``); ``tools/pages.py`` knows it.

A built page that would load something from another host fails the build: the site is read without a network too.
"""

from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

from tools import pages


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Write out the folders of the navigation."""
    config.nav = pages.written_out(config.nav)
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add what the documents lead to outside of their folder."""
    for name, path in pages.outside().items():
        if path.suffix in pages.SHOWN:
            file = File.generated(config, name, content=pages.as_page(path))
        else:
            file = File.generated(config, name, abs_src_path=str(path))
        file.inclusion = InclusionLevel.NOT_IN_NAV  # unless the navigation names it
        files.append(file)
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Lead the links of a page to where their files are in the site."""
    return pages.led(markdown, Path(page.file.abs_src_path)) if page.file.abs_src_path else markdown


def on_post_build(config: MkDocsConfig) -> None:
    """Raise PluginError if the site needs another host."""
    if found := pages.remote_assets(Path(config.site_dir)):
        raise PluginError("the site would load from other hosts:\n" + "\n".join(found))
