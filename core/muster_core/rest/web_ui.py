"""The web UI: static files below `/ui/` that read the REST interface from a browser.

The files of the folder `ui` are read once, and only they are served, so no path leads elsewhere. They contain no state
of the cluster and need no token; the requests of the UI need one where REST does. All addresses in them are relative,
so that the UI also works below a path prefix.
"""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Final

from aiohttp import hdrs, web

from muster_core.rest.http import etag_of, whole

_FOLDER: Final = Path(__file__).parent / "ui"
_INDEX: Final = "index.html"
_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}

#: Headers of every response of the server. Nothing inline, and nothing from another origin; scripts change styles
#: through the object model, which is permitted.
HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    hdrs.REFERRER_POLICY: "no-referrer",
    hdrs.X_CONTENT_TYPE_OPTIONS: "nosniff",
}


@dataclass(frozen=True, slots=True)
class _File:
    """A file with its content type. The keys of both forms are whether the form is compressed."""

    content_type: str
    bodies: Mapping[bool, bytes]
    etags: Mapping[bool, str]


@cache
def files() -> Mapping[str, _File]:
    """Returns the files by their path below `/ui/`."""
    paths = sorted(path for path in _FOLDER.rglob("*") if path.suffix in _TYPES)
    return {path.relative_to(_FOLDER).as_posix(): _read(path) for path in paths}


def _read(path: Path) -> _File:
    body = path.read_bytes()
    bodies = {False: body, True: gzip.compress(body, mtime=0)}
    return _File(_TYPES[path.suffix], bodies, {packed: etag_of(form) for packed, form in bodies.items()})


def add_routes(application: web.Application) -> None:
    """Adds a route for each file, and redirects from `/` and `/ui`."""
    router = application.router
    for name, file in files().items():
        router.add_get(f"/ui/{'' if name == _INDEX else name}", partial(_serve, file))
    for path in ("/", "/ui"):
        router.add_get(path, _redirect)


async def _serve(file: _File, request: web.Request) -> web.Response:
    packs = "gzip" in request.headers.get(hdrs.ACCEPT_ENCODING, "").lower()
    return whole(request, file.bodies[packs], file.content_type, is_packed=packs, etag=file.etags[packs])


async def _redirect(request: web.Request) -> web.Response:
    """Redirects to a relative address, because a proxy may have removed a prefix of the path."""
    return web.Response(status=302, headers={hdrs.LOCATION: "ui/"})
