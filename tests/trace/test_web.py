"""Servers that answer without an end, or with anything, are one line, and so are odd addresses."""

import gzip
import json

import pytest
from click.testing import CliRunner
from werkzeug import Response

import tracekit
from tests.house.test_readme import ROOT
from tests.kit import traces
from tests.kit.hostile import EVENTS
from tests.kit.serving import FAULTS, hostile, served
from tests.trace.test_remote import refused
from tracekit.capture.server import Server
from tracekit.commands import cli
from tracekit.errors import StorageError, TracekitError
from tracekit.text import shown
from tracekit.trace import budget, remote, web

fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed (the extra `remote`)")
http = pytest.importorskip("fsspec.implementations.http")
PARTIAL = b"HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-9/10\r\n\r\n"
LONG = b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\nAccept-Ranges: bytes\r\n\r\n"
CLOSED = "http://me:hunter2@127.0.0.1:9"


@pytest.fixture(autouse=True)
def _new_sessions():
    """A session keeps the limits that it began with."""
    http.HTTPFileSystem.clear_instance_cache()
    yield
    http.HTTPFileSystem.clear_instance_cache()


@pytest.fixture
def impatient(monkeypatch):
    for name, value in (("SILENCE_S", 0.1), ("CALL_S", 0.4), ("MOST_ANSWERED_BYTES", 4 << 20)):
        monkeypatch.setattr(web, name, value)
    monkeypatch.setattr(remote, "MOST_BYTES", 5 << 20)


HEADS = {"plain": b"HTTP/1.1 200 OK\r\n\r\n", "part": PARTIAL, "long": LONG}


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_server_without_an_end_is_left(fault, head):
    with hostile(fault, HEADS[head]) as server:
        for place in ("t.json", "folder", "folder/*.json"):
            assert f"{server.url}/" in refused("analyze", f"{server.url}/{place}?signature=hunter2")
        assert server.all_left()


@pytest.mark.parametrize("fault", FAULTS)
def test_a_call_takes_no_longer_than_it_may_and_reads_no_more_than_it_shows(fault):
    with hostile(fault) as server:
        if fault == "endless":
            assert len(web.ask(server.url, "health", 30).says) == web._SHORT_BYTES
            assert server.all_left()
        else:
            said = rf"^{server.url}: cannot be reached: (timed out|no answer within 0\.2 s)"
            with pytest.raises(StorageError, match=said):
                web.ask(server.url, "health", 0.2, {"a": 1})


@pytest.mark.parametrize("fault", FAULTS)
def test_a_server_to_profile_is_waited_for_no_longer_than_its_timeout(fault, tmp_path):
    said = "cannot be reached: |wrote no trace"
    with hostile(fault) as server, pytest.raises(TracekitError, match=said):
        Server(url=server.url, folder=tmp_path).capture(1, 0.05, 0.5, stacks=False, shapes=False)


ODD = [
    "notaurl", "http://[::1", "-x", "", "http://", "http:///x", "file:///etc/passwd", "http://h:x",
    "http://h:99999", "ftp://h", "http://me:hunter2@h", "//h", "http://a b", "http://h\n", "h:80",
    "http://h\0", f"http://{'a' * 300}.invalid", "http://\ud800", "http://h:8\0",
]  # fmt: skip


@pytest.mark.parametrize("url", ODD, ids=range(len(ODD)))
def test_what_is_no_address_of_a_server_is_one_line(url, tmp_path):
    found = CliRunner().invoke(cli, ["capture", f"--server={url}", "-o", str(tmp_path)])
    assert isinstance(found.exception, TracekitError)
    assert str(found.exception).startswith(f"{shown(url)}: ")
    assert "hunter2" not in str(found.exception)


def test_a_body_is_decoded_by_tracekit_s_own_readers_and_their_limits(monkeypatch, tmp_path):
    good = traces.write(tmp_path / "t.json", EVENTS).read_bytes()
    packed = {"/t.json": gzip.compress(good), "/bomb.json": gzip.compress(b" " * (4 << 20))}
    asked = []

    def application(environ, start_response):
        asked.append(environ.get("HTTP_ACCEPT_ENCODING"))
        answer = Response(packed[environ["PATH_INFO"]], headers={"Content-Encoding": "gzip"})
        return answer(environ, start_response)

    monkeypatch.setattr(budget, "TEXT_BYTES", 1 << 20)
    with served(application) as url:
        with tracekit.load(f"{url}/t.json", verdicts=False) as run:
            assert run.traces()[0]["events"] == len(json.loads(good)["traceEvents"])
            assert run.fetch("SELECT file_bytes FROM trace")[1] == [(len(packed["/t.json"]),)]
        assert "decompression bomb" in refused("analyze", f"{url}/bomb.json")
    assert set(asked) == {"identity"}


def test_only_listed_schemes_are_read():
    from fsspec.registry import known_implementations

    others = sorted({*known_implementations, "zip+http", "nothing"} - {*remote.SCHEMES, "file"})
    for scheme in others:
        if remote.is_url(f"{scheme}://a"):
            assert f"{scheme}:// is not supported" in refused(
                "analyze", f"{scheme}://me:hunter2@a/b.json"
            )
            assert "is not supported" in refused(
                "lake", "add", "t.json", "--to", f"{scheme}://a/lake"
            )
    for chain in ("memory://a.json::dir://b", "http://[::1", "http://[::1]:9/a.json", "http://"):
        refused("analyze", chain)


TRACE = f"{CLOSED}/a.json?signature=hunter2"
COMMANDS = """\
crosscheck T; mcp T; analyze T; analyze T T; T; T T T; load T -o x.duckdb; load t.json -o T; open T;
open --plain T; export T -o x.json; export t.json -o T; report T; sql T; sql T FROM; query T; query
T overview; query overview T; query T T T; whatif T host*0.5; advise T; diff T T; annotate T -o
x.json; baseline save a T; baseline compare a T; lake add T --to lake; lake add t.json --to T; lake
ask T T; lake clean T; history T; fleet T; analyze t.json --hardware T; analyze t.json --annotations
T; skill install T; capture T; capture --server T -o .; analyze --T; sweep T; probe T"""


@pytest.mark.sampled(7)
@pytest.mark.parametrize("command", [" ".join(each.split()) for each in COMMANDS.split(";")])
def test_no_command_shows_what_is_secret_in_an_address(command, run, tmp_path):
    traces.write(tmp_path / "t.json", EVENTS)
    done = run(*[word.replace("T", TRACE) for word in command.split()])
    assert "hunter2" not in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def test_the_list_of_schemes_is_that_of_the_documents():
    limits = (ROOT / "docs/explanation/limits.md").read_text()
    assert "| the schemes of URLs | " + ", ".join(f"`{each}`" for each in remote.SCHEMES) in limits
    security = (ROOT / "SECURITY.md").read_text()
    assert f"`tracekit/trace/remote.py`, {len(remote.SCHEMES)} of them" in security
    assert f"ends after {web.CALL_S} s, or {web.SILENCE_S} s without" in security
    most = f"{web.MOST_ANSWERED_BYTES >> 20} MB at most, and a file {remote.MOST_BYTES >> 30} GB"
    assert most in security


def test_secrets_are_taken_out_of_any_text():
    for url, expected in [
        ("https://me:hun/ter2@host/a?b", "https://host/a"),
        ("https://me:hu'nt\"er2@host/a", "https://host/a"),
        ("http://host:8000/a@b", "http://host:8000/a@b"), ("s3://bucket/a@b", "s3://bucket/a@b"),
    ]:  # fmt: skip
        assert shown(f"x {url} y") == f"x {expected} y"
        assert str(TracekitError(url)) == str(StorageError(url)) == expected
