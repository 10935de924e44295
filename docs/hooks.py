"""MkDocs' hooks: the site's pages and its navigation, from docs/generate."""

import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from mkdocs.config.defaults import MkDocsConfig  # noqa: E402
from mkdocs.structure.files import File, Files  # noqa: E402

from docs.generate.site import linked_files, navigation, pages  # noqa: E402


def on_config(config: MkDocsConfig, **_: Any) -> MkDocsConfig:
    config.nav = navigation()
    return config


def on_files(files: Files, config: MkDocsConfig, **_: Any) -> Files:
    for path, text in (pages() | linked_files()).items():
        files.append(File.generated(config, path, content=text))
    return files
