"""An object store: a real S3 API on the loopback interface, whose answers a test may spoil.

A test module imports the fixtures, and is skipped if the store cannot run.
"""

import itertools
import time
from importlib.util import find_spec

import pytest

from tests.kit.serving import served

# Imported on use: each worker imports this module to collect its tests.
for needed in ("s3fs", "moto"):
    if find_spec(needed) is None:
        pytest.skip(f"{needed} is not installed (the extra `lake`)", allow_module_level=True)


class Store:
    """moto's server, which can be told to fail or to answer late."""

    def __init__(self):
        from moto.moto_server import werkzeug_app as moto

        self.fault = lambda number, path: None
        self._app = moto.DomainDispatcherApplication(moto.create_backend_app)
        self._numbers = itertools.count()

    def __call__(self, environ, start_response):
        fault = self.fault(next(self._numbers), environ["PATH_INFO"])
        if isinstance(fault, float):
            time.sleep(fault)
        if not isinstance(fault, str):
            return self._app(environ, start_response)
        # A client may wait for this before it sends more.
        environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        start_response(fault, [("Content-Type", "application/xml")])
        code = "SlowDown" if fault.startswith("503") else "InternalError"
        return [f"<Error><Code>{code}</Code><Message>{fault}</Message></Error>".encode()]


@pytest.fixture(scope="module")
def started():
    store = Store()
    with served(store) as address:
        yield store, address


@pytest.fixture
def store(started, bucket):
    """The store behind `bucket`, which answers correctly before and after the test."""
    yield started[0]
    started[0].fault = lambda number, path: None


@pytest.fixture
def bucket(started, monkeypatch):
    import s3fs

    for name, value in {
        "AWS_ENDPOINT_URL": started[1], "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    s3fs.S3FileSystem.clear_instance_cache()
    fs = s3fs.S3FileSystem()
    if fs.exists("traces"):
        fs.rm("traces", recursive=True)
    fs.mkdir("traces")
    yield fs
    s3fs.S3FileSystem.clear_instance_cache()
