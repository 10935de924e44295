"""What torch_npu's and msprof's words mean, in a timeline and in a database.

Types of tasks: github.com/Ascend/msprof, analysis/csrc (deviceTaskAcsqTypeMap and
deviceTaskFftsPlusTypeMap). Arguments of operators: github.com/Ascend/pytorch,
torch_npu/profiler/analysis/prof_bean/_torch_op_bean.py.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache

_COPY = re.compile(r"MEMCPY|SDMA|PCIE_DMA", re.IGNORECASE)
# Tasks that order a stream, and compute nothing.
_ORDER = re.compile(
    r"EVENT|NOTIFY|PROFIL|PLACE_HOLDER|STREAM_|LABEL_|END_GRAPH|CAPTURE_|WRITE.VALUE|MODEL_MAINT",
    re.IGNORECASE,
)
_SHORT = 200
_json = json.JSONEncoder(separators=(",", ":")).encode
# A shape among those of an operator's inputs: "4,8;8,16;".
_SHAPE = re.compile(r"(\d{1,18}(,\d{1,18})*)?", re.ASCII)


def category_of(task: object) -> str:
    """The category of a task of a device, by its type."""
    text = str(task)
    return (_category if len(text) > _SHORT else _known_category)(text)


def _category(text: str) -> str:
    if _ORDER.search(text):
        return "npu_sync"
    return "npu_memcpy" if _COPY.search(text) else "npu_kernel"


# A device has few types of tasks, and very many tasks.
_known_category = lru_cache(1024)(_category)


def input_dims(text: str) -> object:
    """The shapes of an operator's inputs as lists; the text itself if it is of another form."""
    shapes = [shape.strip() for shape in text.split(";")]
    if not all(map(_SHAPE.fullmatch, shapes)):
        return text
    return [[int(size) for size in shape.split(",")] if shape else [] for shape in shapes]


def input_types(text: str) -> list[str]:
    """The types of an operator's inputs."""
    return [each.strip() for each in text.split(";")]


def dims_member(text: object) -> str | None:
    """The shapes of an operator's inputs, as a member of its arguments."""
    return _member("Input Dims", text)


def types_member(text: object) -> str | None:
    """The types of an operator's inputs, as a member of its arguments."""
    return _member("Input type", text)


def _member(key: str, text: object) -> str | None:
    if not isinstance(text, str):
        return None
    make = _made if len(text) > _SHORT else _known
    return make(key, text)


def _made(key: str, text: str) -> str:
    return f'"{key}":{_json(input_dims(text) if key == "Input Dims" else input_types(text))}'


# Most operators are called again and again with the same inputs.
_known = lru_cache(4096)(_made)
