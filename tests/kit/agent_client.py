"""The official client of the Model Context Protocol, speaking with `tracekit mcp` in a process."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
from collections.abc import Coroutine
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

# Imported on use: each worker imports this module to collect its tests.
if find_spec("mcp") is None:
    pytest.skip(
        "the server for agents needs the extra mcp: pip install '.[mcp]'", allow_module_level=True
    )

LIMIT_S = 120
ROOT = Path(__file__).parents[2]


class AgentClient:
    """Starts `tracekit mcp` with these arguments, and calls its tools."""

    def __init__(self, *arguments: str | Path) -> None:
        self._loop = asyncio.new_event_loop()
        self._ended = asyncio.Event()
        self._is_up = threading.Event()
        self.session: Any = None
        from mcp import StdioServerParameters

        self._server = StdioServerParameters(
            command=sys.executable,
            args=["-m", "tracekit", "mcp", *map(str, arguments)],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> AgentClient:
        self._thread.start()
        assert self._is_up.wait(LIMIT_S)
        assert self.session is not None, "the server did not start"
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join(LIMIT_S)

    def call(self, tool: str, **arguments: Any) -> tuple[bool, str]:
        """Whether the tool reports an error, and its text."""
        assert self.session is not None
        found = self.wait(self.session.call_tool(tool, arguments))
        (content,) = found.content
        return bool(found.is_error), content.text

    def answer(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The answer of a tool."""
        is_error, text = self.call(tool, **arguments)
        assert not is_error, text
        return json.loads(text)

    def error(self, tool: str, **arguments: Any) -> str:
        """The one line of a tool's error."""
        is_error, text = self.call(tool, **arguments)
        assert is_error, text
        assert "\n" not in text and "Traceback" not in text
        return text

    def wait(self, asked: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(asked, self._loop).result(LIMIT_S)

    def _run(self) -> None:
        self._loop.run_until_complete(self._hold())

    async def _hold(self) -> None:
        from mcp import ClientSession
        from mcp.client.stdio import stdio_client

        try:
            async with (
                stdio_client(self._server) as (reading, writing),
                ClientSession(reading, writing) as session,
            ):
                self.initialized = await session.initialize()
                self.session = session
                self._is_up.set()
                await self._ended.wait()
        finally:
            self._is_up.set()
