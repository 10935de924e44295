"""Traces at URLs are read as local ones are; what cannot be read is one line without secrets."""

import gzip
import json
import os
import shutil
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from click.testing import CliRunner

import tracekit
from tests.conftest import OWN_TRACES
from tests.kit import object_store
from tracekit.commands import cli
from tracekit.errors import TracekitError
from tracekit.trace.remote import shown

started, bucket, store = object_store.started, object_store.bucket, object_store.store
OVERHEAD = OWN_TRACES / "simulated-overhead-bound.json.gz"
COMPUTE = OWN_TRACES / "simulated-compute-bound.json.gz"


class Site(ThreadingHTTPServer):
    """Serves files by their paths; `spoil` may change an answer. Has what huggingface_hub asks of
    https://huggingface.co about a data set, too."""

    daemon_threads = True

    def __init__(self):
        self.files: dict[str, bytes] = {}
        self.spoil = lambda path, answer: None
        self.seen: list[str] = []
        super().__init__(("127.0.0.1", 0), _Answer)

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}"


class _Answer(BaseHTTPRequestHandler):
    def do_HEAD(self):
        self.do_GET(with_body=False)

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.answer(200, json.dumps([self.info(each) for each in asked["paths"]
                                     if each in self.server.files]).encode())  # fmt: skip

    def info(self, name):
        size = len(self.server.files[name])
        return {"type": "file", "path": name, "size": size, "oid": str(size)}

    def do_GET(self, with_body=True):
        path = unquote(urlsplit(self.path).path).removeprefix("/datasets/acme/nightly/resolve/main")
        self.server.seen.append(f"{self.command} {self.path}")
        if self.server.spoil(path, self):
            return
        files = self.server.files
        if path.startswith("/api/datasets/acme/nightly/tree/"):
            found = json.dumps([self.info(each) for each in files]).encode()
            self.answer(200, found)
            return
        if path.startswith("/api/datasets/acme/nightly"):
            found = {"id": "acme/nightly", "sha": "a" * 40, "private": False, "siblings": []}
            self.answer(200, json.dumps(found).encode())
            return
        data = files.get(path.lstrip("/"))
        if data is None:
            self.answer(404, b"")
            return
        status, first, last = 200, 0, len(data) - 1
        if given := self.headers.get("Range"):
            begin, _, end = given.removeprefix("bytes=").partition("-")
            status, first, last = 206, int(begin), min(int(end or last), last)
        part = data[first : last + 1] if with_body else b""
        self.answer(status, part, last + 1 - first, f"bytes {first}-{last}/{len(data)}")

    def answer(self, status, data, length=None, place=None):
        self.send_response(status)
        self.send_header("Content-Length", str(len(data) if length is None else length))
        self.send_header("ETag", '"1"')
        self.send_header("X-Repo-Commit", "a" * 40)
        if place is not None:
            self.send_header("Accept-Ranges", "bytes")
            self.send_header("Content-Range", place)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


@pytest.fixture
def site():
    with Site() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        server.files = {"runs/a.json.gz": OVERHEAD.read_bytes()}
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def memory():
    fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed (the extra `remote`)")
    fs = fsspec.filesystem("memory")
    fs.pipe_file("/night/overhead.json.gz", OVERHEAD.read_bytes())
    fs.pipe_file("/night/compute.json.gz", COMPUTE.read_bytes())
    yield fs
    fs.rm("/night", recursive=True)


def invoke(*arguments):
    return CliRunner().invoke(cli, list(map(str, arguments)), catch_exceptions=False)


def regime(done):
    return json.loads(done.output)["verdict"]["regime"]


def test_each_command_takes_urls(memory, tmp_path):
    a, b = "memory://night/overhead.json.gz", "memory://night/compute.json.gz"
    assert regime(invoke("analyze", a, "--json")) == "overhead-bound"
    local = json.loads(invoke("advise", OVERHEAD, "--json").output)
    assert json.loads(invoke("advise", a, "--json").output)["advice"] == local["advice"]
    assert json.loads(invoke("diff", a, b, "--json").output)["b"].endswith("compute.json.gz")
    assert invoke("report", a, "-o", tmp_path / "a.html").exit_code == 0
    assert invoke("annotate", a, "-o", tmp_path / "a.json").exit_code == 0
    assert invoke("load", "memory://night", "-o", tmp_path / "a.duckdb").exit_code == 0
    with tracekit.open_database(tmp_path / "a.duckdb") as run:
        paths = [path for (path,) in run.fetch("SELECT path FROM trace ORDER BY path")[1]]
    assert [Path(each).name for each in paths] == ["compute.json.gz", "overhead.json.gz"]
    again = ("load", "memory://night/*.json.gz", "-o", tmp_path / "a.duckdb", "--resume")
    assert invoke(*again).exit_code == 0


def test_a_database_at_a_url_is_read_as_a_local_one(site, memory, tmp_path):
    local = tmp_path / "run.duckdb"
    assert invoke("load", OVERHEAD, "-o", local).exit_code == 0
    memory.pipe_file("/night/run.duckdb", local.read_bytes())
    site.files["run"] = local.read_bytes()
    for url in ("memory://night/run.duckdb", f"{site.url}/run?signature=hunter2"):
        for command in (("analyze",), ("query", "top_kernels"), ("sql", "FROM trace")):
            name, *rest = command
            expected, found = (invoke(name, each, *rest, "--json") for each in (local, url))
            assert found.output == expected.output
    copied = ("load", "memory://night/run.duckdb", COMPUTE, "-o", tmp_path / "both.duckdb")
    assert invoke(*copied).exit_code == 0
    compared = json.loads(invoke("diff", "memory://night/run.duckdb", COMPUTE, "--json").output)
    assert compared["a"] == str(OVERHEAD)
    refused = invoke("lake", "add", "memory://night/run.duckdb", "--to", tmp_path / "lake")
    assert "is a database: add the traces" in refused.output


def test_a_damaged_database_at_a_url_is_one_line(site, run, tmp_path):
    _done(run("load", str(OVERHEAD), "-o", "run.duckdb"))
    data = (tmp_path / "run.duckdb").read_bytes()
    site.files = {"cut.duckdb": data[: len(data) // 2], "text.duckdb": b"no database"}
    for name in ("cut", "text", "none"):
        url = f"{site.url}/{name}.duckdb"
        _is_one_line(run("analyze", url, TMPDIR=str(tmp_path)), f"{url}: ")
        _is_one_line(run("load", url, "-o", "all.duckdb", TMPDIR=str(tmp_path)), f"{url}: ")
    assert {each.name for each in tmp_path.iterdir() if each.is_file()} == {"run.duckdb"}


def test_a_folder_at_a_url_may_be_a_lake(memory):
    lake = "memory://lake"
    assert invoke("lake", "add", "memory://night/overhead.json.gz", "--to", lake).exit_code == 0
    assert "1" in invoke("sql", lake, "SELECT count(*) FROM trace", "--format", "csv").output
    verdicts = json.loads(invoke("analyze", "memory://night", "--json").output)["analyses"]
    assert {each["verdict"]["regime"] for each in verdicts} == {"overhead-bound", "compute-bound"}


def test_from_a_bucket_s_address_to_a_verdict_is_one_command(bucket, run):
    bucket.put_file(str(OVERHEAD), "traces/night/rank0.json.gz")
    for address in ("s3://traces/night/rank0.json.gz", "s3://traces/night", "s3://traces/*/*.gz"):
        assert regime(_done(run("analyze", address, "--json", "--memory-mb", "600"))) == (
            "overhead-bound"
        )


def _done(done):
    assert done.returncode == 0, done.stderr
    done.output = done.stdout
    return done


def test_a_store_that_dies_while_it_is_read_is_one_line(store, bucket, run):
    bucket.put_file(str(OVERHEAD), "traces/night/rank0.json.gz")
    reads = []

    def fault(number, path):
        # The head is answered, the content is not.
        reads.append(path)
        return "500 Internal Server Error" if len(reads) > 1 else None

    store.fault = fault
    done = run("analyze", "s3://traces/night/rank0.json.gz", AWS_MAX_ATTEMPTS="1")
    _is_one_line(done, "s3://traces/night/rank0.json.gz: ")


def test_wrong_credentials_are_said_and_not_shown(store, bucket, run):
    store.fault = lambda number, path: "403 Forbidden"
    done = run("analyze", "s3://traces/night/rank0.json.gz", AWS_SECRET_ACCESS_KEY="hunter2")
    _is_one_line(done, "s3://traces/night/rank0.json.gz: ", "Forbidden")


def _is_one_line(done, *parts):
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1, done.stderr
    for part in parts:
        assert part in done.stderr
    assert "hunter2" not in done.stderr


@pytest.mark.parametrize("takes_ranges", [True, False])
def test_a_site_may_answer_ranges_or_not(site, run, takes_ranges, tmp_path):
    def whole(path, answer):
        if path != "/runs/a.json.gz" or takes_ranges:
            return False
        answer.send_response(200)
        answer.end_headers()
        if answer.command == "GET":
            answer.wfile.write(site.files["runs/a.json.gz"])
        return True

    site.spoil = whole
    address = f"{site.url}/runs/a.json.gz?signature=hunter2"
    assert regime(_done(run("analyze", address, "--json"))) == "overhead-bound"
    _done(run("load", address, "-o", "run.duckdb", "--resume"))
    # The signature was sent, and is not stored.
    assert any("hunter2" in each for each in site.seen)
    assert b"hunter2" not in (tmp_path / "run.duckdb").read_bytes()
    with tracekit.open_database(tmp_path / "run.duckdb") as run_:
        assert run_.traces()[0]["path"] == f"{site.url}/runs/a.json.gz"


def test_a_download_that_is_cut_is_said(site, run):
    def cut(path, answer):
        if answer.command == "HEAD" or not path.endswith("a.json.gz"):
            return False
        data = site.files["runs/a.json.gz"]
        answer.answer(206, data[:1000], len(data), f"bytes 0-{len(data) - 1}/{len(data)}")
        answer.close_connection = True
        return True

    site.spoil = cut
    _is_one_line(run("analyze", f"{site.url}/runs/a.json.gz"), f"{site.url}/runs/a.json.gz: ")


@pytest.mark.parametrize("status", [401, 403, 404, 500])
def test_a_site_that_refuses_is_one_line_without_the_signature(site, run, status):
    site.spoil = lambda path, answer: answer.answer(status, b"") or True
    address = site.url.replace("//", "//user:hunter2@") + "/runs/a.json.gz?X-Amz-Signature=hunter2"
    done = run("analyze", address)
    _is_one_line(done, f"{site.url}/runs/a.json.gz: ", str(status))


def test_data_sets_of_hugging_face_are_folders(site, run):
    pytest.importorskip("huggingface_hub", reason="huggingface_hub is not installed")
    given = {"HF_ENDPOINT": site.url, "HF_TOKEN": "hunter2"}
    found = run("analyze", "hf://datasets/acme/nightly/runs/a.json.gz", "--json", **given)
    assert regime(_done(found)) == "overhead-bound"
    assert regime(_done(run("analyze", "hf://datasets/acme/nightly", "--json", **given))) == (
        "overhead-bound"
    )
    site.spoil = lambda path, answer: answer.answer(401, b"") or True
    _is_one_line(
        run("analyze", "hf://datasets/acme/nightly/runs/a.json.gz", **given),
        "hf://datasets/acme/nightly/runs/a.json.gz: ",
    )


def test_a_missing_extra_is_one_line_that_names_it(run, tmp_path):
    # What stands for the file system cannot be imported.
    (tmp_path / "gcsfs.py").write_text("raise ImportError('no gcsfs')")
    done = run("analyze", "gs://bucket/a.json.gz", PYTHONPATH=str(tmp_path))
    _is_one_line(done, "gs://bucket/a.json.gz: ", "pip install 'tracekit[remote]'")


def test_a_url_in_a_trace_is_never_opened(site, tmp_path, run):
    trace = json.loads(gzip.decompress(OVERHEAD.read_bytes()))
    trace["traceName"] = f"{site.url}/runs/a.json.gz"
    folder = tmp_path / "http:"
    (folder / site.url.removeprefix("http://")).mkdir(parents=True)
    shutil.copy(OVERHEAD, folder / site.url.removeprefix("http://") / "a.json.gz")
    (tmp_path / "t.json").write_text(json.dumps(trace))
    _done(run("load", ".", "-o", "all.duckdb"))
    _done(run("analyze", "all.duckdb"))
    assert site.seen == []


def test_a_lake_does_not_keep_secrets(memory, run):
    done = run("lake", "add", "https://me:hunter2@site/a.json", "--to", "lake")
    assert done.returncode == 2
    assert "https://site/a.json: a lake keeps the addresses of its sources" in done.stderr
    assert "hunter2" not in done.stderr + done.stdout


def test_what_may_be_secret_is_not_shown():
    assert shown("s3://key:s/e@bucket/a.json?x=y#z is bad") != "s3://key:s/e@bucket/a.json"
    assert (
        shown("at https://u:p@host/a b?c=d, 'http://x/y?z'")
        == "at https://host/a b?c=d, 'http://x/y'"
    )


def test_a_pathless_library_call_takes_urls_too(memory):
    with tracekit.load("memory://night/overhead.json.gz") as run:
        assert run.verdict().verdict.regime == "overhead-bound"
    with pytest.raises(TracekitError, match=r"^memory://none/a\.json: no trace is there"):
        tracekit.load("memory://none/a.json")
    assert os.environ.get("AWS_SECRET_ACCESS_KEY") != "hunter2"
