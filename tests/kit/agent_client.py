"""The official client of the Model Context Protocol, speaking with `tracekit mcp` in a process."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncIterator, Coroutine
from contextlib import ExitStack, asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tracekit.errors import install

# Imported on use: each worker imports this module to collect its tests.
if find_spec("mcp") is None:
    pytest.skip(
        f"the server for agents needs the extra mcp: {install('mcp')}", allow_module_level=True
    )

LIMIT_S = 120
ROOT = Path(__file__).parents[2]


class AgentClient(ExitStack):
    """Starts `tracekit mcp` with these arguments, and calls its tools."""

    def __init__(self, *arguments: str | Path) -> None:
        from anyio.from_thread import start_blocking_portal

        super().__init__()
        self._portal = self.enter_context(start_blocking_portal())
        connection = self._portal.wrap_async_context_manager(_connected(arguments))
        self.session = self.enter_context(connection)
        self.initialized = self.wait(self.session.initialize())

    def call(self, tool: str, **arguments: Any) -> tuple[bool, str]:
        """Whether the tool reports an error, and its text."""
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
        return self._portal.start_task_soon(lambda: asked).result(LIMIT_S)


@asynccontextmanager
async def _connected(arguments: tuple[str | Path, ...]) -> AsyncIterator[Any]:
    from mcp import ClientSession, StdioServerParameters
    from mcp.client.stdio import stdio_client

    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "tracekit", "mcp", *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    async with stdio_client(server) as streams, ClientSession(*streams) as session:
        yield session
