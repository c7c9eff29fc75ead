"""The static files of the web UI: headers, ETags, compression, and that no other file is served."""

import asyncio
import hashlib
import re
from pathlib import Path

import aiohttp
import pytest
from yarl import URL

from muster_core.rest import http as rest_http
from muster_core.rest import web_ui
from muster_core.rest.auth import AccessSettings
from muster_core.rest.server import RestSettings
from tests.unit.core.rest.conftest import Serve

FOLDER = Path(web_ui.__file__).parent / "ui"
VENDOR = FOLDER / "vendor"
OWN = sorted(path for pattern in ("*.js", "*.css", "*.html") for path in FOLDER.glob(pattern))
#: What the size of the UI's own code may be, so that it stays readable.
MOST_LINES = 2_500


@pytest.mark.parametrize("path", ["", *sorted(name for name in web_ui.files() if name != "index.html")])
async def test_a_file_has_a_strict_policy_and_is_sent_once(http: aiohttp.ClientSession, path: str) -> None:
    plain = {"Accept-Encoding": "identity"}
    async with http.get(f"/ui/{path}", headers=plain) as answer:
        assert answer.status == 200
        body = await answer.read()
        policy = answer.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert "Access-Control-Allow-Origin" not in answer.headers
        etag = answer.headers["ETag"]
    assert body == (FOLDER / (path or "index.html")).read_bytes()
    async with http.get(f"/ui/{path}", headers={**plain, "If-None-Match": etag}) as answer:
        assert (answer.status, await answer.read(), answer.headers["ETag"]) == (304, b"", etag)
    async with http.get(f"/ui/{path}", headers={"Accept-Encoding": "gzip", "If-None-Match": etag}) as answer:
        assert (answer.status, await answer.read()) == (200, body)
        assert answer.headers["Content-Encoding"] == "gzip"
        assert answer.headers["ETag"] != etag
    async with http.head(f"/ui/{path}") as answer:
        assert (answer.status, await answer.read()) == (200, b"")


@pytest.mark.parametrize("path", ["/", "/ui/main.js", "/ui/absent.js", "/ws/v1/partitions", "/absent"])
async def test_every_response_has_the_policy(http: aiohttp.ClientSession, path: str) -> None:
    async with http.get(path, allow_redirects=False) as answer:
        assert {name: answer.headers.get(name) for name in web_ui.HEADERS} == web_ui.HEADERS


@pytest.mark.parametrize("path", ["/", "/ui"])
async def test_a_redirect_to_the_ui_is_relative(http: aiohttp.ClientSession, path: str) -> None:
    async with http.get(path, allow_redirects=False) as answer:
        assert (answer.status, answer.headers["Location"]) == (302, "ui/")


@pytest.mark.parametrize(
    "path",
    [
        "../auth.py",
        "..%2fauth.py",
        "%2e%2e/auth.py",
        "..%5cauth.py",
        "vendor/../../auth.py",
        "vendor/%2e%2e%2f%2e%2e%2fauth.py",
        "/etc/passwd",
        "%2fetc%2fpasswd",
        "vendor",
        "vendor/",
        "vendor/README.md",
        "index.html%00.js",
        "main.js/",
        "a" * 7_000,
    ],
)
async def test_no_other_file_is_served(http: aiohttp.ClientSession, path: str) -> None:
    """Sends the path as it is, because clients remove dots."""
    assert http._base_url is not None
    reader, writer = await asyncio.open_connection(http._base_url.host, http._base_url.port)
    writer.write(f"GET /ui/{path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    assert head.split(b" ", 2)[1] in {b"400", b"404"}
    assert b"def " not in body


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "TRACE"])
async def test_files_can_only_be_read(http: aiohttp.ClientSession, method: str) -> None:
    async with http.request(method, "/ui/main.js") as answer:
        assert answer.status == 405


async def test_a_range_of_any_size_gets_the_complete_file(http: aiohttp.ClientSession) -> None:
    ranges = ",".join(f"{number}-" for number in range(500))
    async with http.get("/ui/icon.svg", headers={"Range": f"bytes={ranges}", "Accept-Encoding": "identity"}) as answer:
        assert (answer.status, len(await answer.read())) == (200, (FOLDER / "icon.svg").stat().st_size)


async def test_files_need_no_token_and_data_do(serve: Serve, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("a-token-of-enough-characters")
    http = await serve(RestSettings(port=0, access=AccessSettings(token_file=tmp_path / "token", closed=True)))
    async with http.get("/ui/") as answer:
        assert answer.status == 200
    async with http.get("/ws/v1/partitions") as answer:
        assert answer.status == 401


async def test_the_ui_can_be_turned_off(serve: Serve) -> None:
    http = await serve(RestSettings(port=0, has_ui=False))
    for path in ("/", "/ui", "/ui/", "/ui/main.js"):
        async with http.get(path) as answer:
            assert answer.status == 404


async def test_data_that_did_not_change_are_sent_once(http: aiohttp.ClientSession) -> None:
    async with http.get("/ws/v1/partitions") as answer:
        etag = answer.headers["ETag"]
        assert answer.headers["Cache-Control"] == "private, no-cache"
    async with http.get("/ws/v1/partitions", headers={"If-None-Match": f'"other", {etag}'}) as answer:
        assert (answer.status, await answer.read()) == (304, b"")


async def test_a_connection_with_any_request_is_not_closed_as_silent(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rest_http, "_FIRST_REQUEST_S", 1.0)
    http = await serve(RestSettings(port=0))
    port = URL((await http.get("/livez")).url).port

    async def answered(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: str) -> int:
        writer.write(f"HEAD {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        return int((await reader.readuntil(b"\r\n\r\n")).split()[1])

    paths = ("/ui/", "/ui/main.js", "/", "/openapi.json", "/ws/v1/stack", "/nothing")
    opened = [await asyncio.open_connection("127.0.0.1", port) for _ in paths]
    for (reader, writer), path in zip(opened, paths, strict=True):
        assert await answered(reader, writer, path) in {200, 301, 302, 404, 405}
    silent, unused = await asyncio.open_connection("127.0.0.1", port)
    async with asyncio.timeout(30):
        assert await silent.read() == b"", "later than the others would be closed"
    unused.close()
    for (reader, writer), path in zip(opened, paths, strict=True):
        assert await answered(reader, writer, path) in {200, 301, 302, 404, 405}
        writer.close()


def test_every_library_is_the_one_of_the_list() -> None:
    listed = {
        row[1]: (int(row[2]), row[3])
        for row in re.finditer(
            r"^\| `([\w.]+)` .*\| (\d+) \| `(\w+)` \|$", (VENDOR / "README.md").read_text(), re.MULTILINE
        )
    }
    files = [path for path in VENDOR.iterdir() if path.suffix in {".js", ".css"}]
    assert listed == {path.name: (path.stat().st_size, _sum(path)) for path in files}


def _sum(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_modules_import_only_by_relative_path_and_write_no_markup() -> None:
    for path in [*OWN, *VENDOR.glob("*.js")]:
        text = path.read_text()
        imported = re.findall(r"""(?:\bfrom|\bimport)\s*\(?["'`]([^"'`]+)["'`]""", text)
        assert [name for name in imported if not name.startswith("./")] == [], path
    for path in OWN:
        text = path.read_text()
        assert [word for word in ("innerHTML", "eval(", "insertAdjacent", "document.write") if word in text] == [], path
        assert re.findall(r"https?://(?!www\.w3\.org/)", text) == [], path


def test_the_ui_stays_small() -> None:
    assert sum(len(path.read_text().splitlines()) for path in OWN) <= MOST_LINES
