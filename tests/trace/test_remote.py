"""Traces at URLs are read as local ones are; what cannot be read is one line without secrets."""

import json
import shutil
import sys
import tempfile
from pathlib import Path

import pytest
from click.testing import CliRunner
from werkzeug import Request, Response

import tracekit
from tests.conftest import OWN_TRACES
from tests.kit import object_store
from tests.kit.serving import served
from tests.kit.traces import document
from tracekit.commands import cli
from tracekit.errors import TracekitError
from tracekit.text import shown

started, bucket, store = object_store.started, object_store.bucket, object_store.store
OVERHEAD = OWN_TRACES / "simulated-overhead-bound.json.gz"
COMPUTE = OWN_TRACES / "simulated-compute-bound.json.gz"


class Site:
    """Serves files by their paths; `spoil` may give another answer. Has what huggingface_hub asks
    of https://huggingface.co about a data set, too."""

    def __init__(self):
        self.files = {"runs/a.json.gz": OVERHEAD.read_bytes()}
        self.spoil = lambda path, request: None
        self.seen: list[str] = []

    def __call__(self, environ, start_response):
        request = Request(environ)
        self.seen.append(request.full_path)
        path = request.path.removeprefix("/datasets/acme/nightly/resolve/main")
        answer = self.spoil(path, request) or self.answer(path, request)
        answer.headers |= {"X-Repo-Commit": "a" * 40}
        return answer(environ, start_response)

    def answer(self, path, request):
        if request.method == "POST":
            found = [
                self.info(each) for each in request.get_json(True)["paths"] if each in self.files
            ]
        elif path.startswith("/api/datasets/acme/nightly/tree/"):
            found = [self.info(each) for each in self.files]
        elif path.startswith("/api/datasets/acme/nightly"):
            found = {"id": "acme/nightly", "sha": "a" * 40, "private": False, "siblings": []}
        elif data := self.files.get(path.lstrip("/")):
            answer = Response(data, headers={"ETag": '"1"'})
            return answer.make_conditional(request, True, len(data))
        else:
            return Response(status=404)
        return Response(json.dumps(found))

    def info(self, name):
        size = len(self.files[name])
        return {"type": "file", "path": name, "size": size, "oid": str(size)}


@pytest.fixture
def site():
    site = Site()
    with served(site) as site.url:
        yield site


@pytest.fixture
def memory():
    fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed (the extra `remote`)")
    fs = fsspec.filesystem("memory")
    fs.pipe_file("/night/overhead.json.gz", OVERHEAD.read_bytes())
    fs.pipe_file("/night/compute.json.gz", COMPUTE.read_bytes())
    yield fs
    fs.rm("/night", recursive=True)


def done(*arguments):
    """What a command prints on standard output."""
    return CliRunner().invoke(cli, list(map(str, arguments)), catch_exceptions=False).stdout


def regime(printed):
    return json.loads(printed)["verdict"]["regime"]


def refused(*arguments):
    """The one line of a command that is refused, which has no secret."""
    found = CliRunner().invoke(cli, list(map(str, arguments)))
    assert isinstance(found.exception, TracekitError | SystemExit)
    said = found.stderr.strip() if found.exit_code == 2 else str(found.exception)
    assert "\n" not in said and "hunter2" not in said + found.stdout
    return said


# -- any file system -------------------------------------------------------------------------------


@pytest.mark.thorough
def test_commands_take_urls_folders_and_patterns(memory, tmp_path):
    a = "memory://night/overhead.json.gz"
    assert regime(done("analyze", a, "--json")) == "overhead-bound"
    database = tmp_path / "a.duckdb"
    for given in (["memory://night"], ["memory://night/*.json.gz", "--resume"]):
        done("load", *given, "-o", database, "--no-verdict")
        with tracekit.open_database(database) as run:
            paths = [path for (path,) in run.fetch("SELECT path FROM trace ORDER BY path")[1]]
        assert [Path(each).name for each in paths] == ["compute.json.gz", "overhead.json.gz"]
    done("lake", "add", a, "--to", "memory://lake", "--without-verdicts")
    assert done("sql", "memory://lake", "SELECT count(*) AS n FROM trace", "--format", "csv") == (
        "n\n1\n"
    )
    with tracekit.load(a, verdicts=False) as run:
        assert run.traces()[0]["path"] == "memory:///night/overhead.json.gz"
    with pytest.raises(
        TracekitError, match=r"^memory://none/a\.json: there is no trace at this URL"
    ):
        tracekit.load("memory://none/a.json")


@pytest.mark.thorough
def test_other_commands_take_urls(memory, tmp_path):
    a, b = "memory://night/overhead.json.gz", "memory://night/compute.json.gz"
    assert json.loads(done("diff", a, b, "--json"))["b"].endswith("compute.json.gz")
    done("annotate", a, "-o", tmp_path / "a.json")
    assert (tmp_path / "a.json").exists()


@pytest.mark.thorough
def test_a_database_at_a_url_is_read_as_a_local_one(site, memory, tmp_path, judged):
    local, url = judged, "memory://night/run.duckdb"
    memory.pipe_file("/night/run.duckdb", local.read_bytes())
    site.files["run"] = local.read_bytes()
    for command in (["analyze"], ["query", "top_kernels"], ["sql", "FROM trace"]):
        expected = done(command[0], local, *command[1:], "--json")
        for each in (url, f"{site.url}/run?signature=hunter2"):
            assert done(command[0], each, *command[1:], "--json") == expected
    done("load", url, COMPUTE, "-o", tmp_path / "both.duckdb", "--no-verdict")
    with tracekit.open_database(tmp_path / "both.duckdb") as run:
        assert [each["path"] for each in run.traces()] == [str(OVERHEAD), str(COMPUTE)]
    assert "is a database: add its original traces" in refused(
        "lake", "add", url, "--to", tmp_path / "lake"
    )


def test_a_damaged_database_at_a_url_is_one_line(site, tmp_path, monkeypatch, judged):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    data = judged.read_bytes()
    site.files = {"cut.duckdb": data[: len(data) // 2], "text.duckdb": b"no database"}
    for name in ("cut", "text", "none"):
        url = f"{site.url}/{name}.duckdb"
        assert f"{url}: " in refused("analyze", url)
        assert f"{url}: " in refused("load", url, "-o", tmp_path / "all.duckdb")
    assert [each.name for each in tmp_path.iterdir() if each.is_file()] == []


def test_a_url_in_a_trace_is_never_opened(site, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    trace = document(OVERHEAD)
    trace["traceName"] = f"{site.url}/runs/a.json.gz"
    folder = tmp_path / "http:" / site.url.removeprefix("http://")
    folder.mkdir(parents=True)
    shutil.copy(OVERHEAD, folder / "a.json.gz")
    (tmp_path / "t.json").write_text(json.dumps(trace))
    done("load", ".", "-o", "all.duckdb", "--no-verdict")
    done("analyze", "all.duckdb")
    assert site.seen == []


def test_a_missing_extra_is_one_line_that_names_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "gcsfs", None)
    said = refused("analyze", "gs://bucket/a.json.gz")
    assert (
        said.startswith("gs://bucket/a.json.gz: ")
        and "pip install 'torch-tracekit[remote]'" in said
    )


def test_a_lake_does_not_keep_secrets(tmp_path):
    said = refused("lake", "add", "https://me:hunter2@site/a.json", "--to", tmp_path / "lake")
    assert "https://site/a.json: a lake stores its sources' addresses" in said


def test_possible_secrets_are_not_shown():
    assert shown("s3://key:s/e@bucket/a.json?x=y#z is bad") != "s3://key:s/e@bucket/a.json"
    assert (
        shown("at https://u:p@host/a b?c=d, 'http://x/y?z'")
        == "at https://host/a b?c=d, 'http://x/y'"
    )


# -- a bucket --------------------------------------------------------------------------------------


def test_from_a_bucket_s_address_to_a_verdict_is_one_command(bucket):
    bucket.put_file(str(OVERHEAD), "traces/night/rank0.json.gz")
    address = "s3://traces/night/rank0.json.gz"
    assert regime(done("analyze", address, "--json", "--memory-mb", "600")) == "overhead-bound"
    for each in ("s3://traces/night", "s3://traces/*/*.gz"):
        with tracekit.load(each, verdicts=False) as run:
            assert [row["path"] for row in run.traces()] == [address]


def test_a_store_that_fails_is_one_line(store, bucket, monkeypatch):
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    address = "s3://traces/night/rank0.json.gz"
    bucket.put_file(str(OVERHEAD), address.removeprefix("s3://"))
    reads = []

    def dies(number, path):
        # The head is answered, the content is not.
        reads.append(path)
        return "500 Internal Server Error" if len(reads) > 1 else None

    store.fault = dies
    assert f"{address}: " in refused("analyze", address)
    store.fault = lambda number, path: "403 Forbidden"
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hunter2")
    said = refused("analyze", address)
    assert f"{address}: " in said and "Forbidden" in said


# -- a site ----------------------------------------------------------------------------------------


@pytest.mark.sampled(2)
@pytest.mark.parametrize("takes_ranges", [True, False])
def test_a_site_may_answer_ranges_or_not(site, takes_ranges, tmp_path, judged):
    if not takes_ranges:
        # Without its length.
        site.spoil = lambda path, request: Response(iter([site.files["runs/a.json.gz"]]))
    database, address = tmp_path / "run.duckdb", f"{site.url}/runs/a.json.gz?signature=hunter2"
    done("load", address, "-o", database, "--resume", "--no-verdict")
    # The signature was sent, and is not stored.
    assert any("hunter2" in each for each in site.seen)
    assert b"hunter2" not in database.read_bytes()
    with tracekit.open_database(database) as run, tracekit.open_database(judged) as same:
        ((found, expected),) = zip(run.traces(), same.traces(), strict=True)
        assert found == expected | {"path": f"{site.url}/runs/a.json.gz"}


def test_a_site_that_refuses_or_breaks_off_is_one_line_without_the_signature(site):
    def cut(path, request):
        data = site.files["runs/a.json.gz"]
        place = {
            "Content-Length": str(len(data)),
            "Content-Range": f"bytes 0-{len(data) - 1}/{len(data)}",
        }
        return None if request.method == "HEAD" else Response([data[:1000]], 206, place)

    address = site.url.replace("//", "//user:hunter2@") + "/runs/a.json.gz?X-Amz-Signature=hunter2"
    for status in (401, 403, 404, 500):
        site.spoil = lambda path, request, status=status: Response(status=status)
        said = refused("analyze", address)
        assert f"{site.url}/runs/a.json.gz: " in said and str(status) in said
    site.spoil = cut
    assert f"{site.url}/runs/a.json.gz: " in refused("analyze", address)


def test_data_sets_of_hugging_face_are_folders(site, run):
    """In a process, since huggingface_hub reads its address when it is imported."""
    pytest.importorskip("huggingface_hub", reason="huggingface_hub is not installed")
    given = {"HF_ENDPOINT": site.url, "HF_TOKEN": "hunter2"}
    found = run("analyze", "hf://datasets/acme/nightly", "--json", **given)
    assert regime(found.stdout) == "overhead-bound", found.stderr
    address = "hf://datasets/acme/nightly/runs/a.json.gz"
    assert run("load", address, "-o", "a.duckdb", "--no-verdict", **given).returncode == 0
    site.spoil = lambda path, request: Response(status=401)
    found = run("analyze", address, **given)
    assert (found.returncode, found.stdout, found.stderr.count("\n")) == (2, "", 1)
    assert f"{address}: " in found.stderr and "hunter2" not in found.stderr
