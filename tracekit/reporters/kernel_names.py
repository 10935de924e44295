"""Short names of kernels: the function and the template arguments that tell kernels apart."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

# A name of C++: a function with template arguments or parameters, maybe after the returned type.
# Not `train.py(41): <listcomp>`, nor `Memcpy HtoD (Pageable -> Device)`.
_CPP = re.compile(r"(void |std::enable_if<)|[\w#]<|::\w+\(|^\w+\([^)]*(\*|int|float)")
_NOT_CPP = re.compile(r"Mem(cpy|set) |.*\.py\(\d+\)|nn\.Module|aten::|autograd::")
# A returned type with a condition, whose `>` may compare.
_RETURNED = re.compile(r"^std::enable_if<.*?>::type ")
# hipBLASLt's and Tensile's: layout, types, and the tile among a hundred parameters.
_TENSILE = re.compile(r"(Cijk_\w+?_\w+?_[A-Z0-9]+)_.*?(MT\d+x\d+x\d+)")
# What ROCm's tools append: the symbol is the kernel's descriptor.
_DESCRIPTOR = re.compile(r"( \[clone )?\.kd\]?$")
# Functions that only call what their first template argument names.
_WRAPPERS = {
    "Kernel", "Kernel2", "Kernel#", "device_kernel", "gpu_index_kernel", "gpu_kernel_impl",
    "gpu_kernel_impl_nocast", "kentry",
}  # fmt: skip
_TUNING = re.compile(r"^\d+$|\bgfx\w+$")
# Template arguments that nearly all kernels of one function have.
_COMMON = re.compile(
    r"-?\d\w*|true|false|\(.*|(unsigned )?(int|long|char|short)|bool|[aA]rray|NullType|void"
    r"|(Trivial)?OffsetCalculator|(Load|Store)With(out)?Cast\w*|TensorList\w*Metadata|Policy\w*"
)
_TYPES = re.compile(f"{_COMMON.pattern}|float|double|[hH]alf|__half|\\w*(bf|BF|f|F)loat16\\w*")
# Levels of template arguments, and which of them are left out: what fits is shown.
_DETAILS = ((3, _COMMON), (3, _TYPES), (2, _COMMON), (2, _TYPES), (1, _TYPES))
# The last argument of the last argument: of functors in functors, the one that computes.
_INNERMOST = re.compile(r"[\w:]+(?=>+$)")
_VAGUE = {"kernel", "type", "run", "main_kernel", "operator()"}
# The rest of a longer name is not read: a trace may say anything.
_LONGEST = 4_000
# A name that is cut keeps this many letters of its end.
_END = 12
_OPENING, _CLOSING = "<({", ">)}"


@lru_cache(4096)
def short_name(name: str, most: int = 60) -> str:
    """The kernel's function without namespaces, and those of its template arguments that say what
    it computes. If the kernel is a lambda, the function that contains it. At most `most`
    characters, cut if need be; names of another form are only cut.

    "void cutlass::Kernel2<cutlass_80_s1688gemm>(Params)" -> "cutlass_80_s1688gemm"
    """
    name = _DESCRIPTOR.sub("", name)[:_LONGEST]
    if name.startswith("_Z"):
        return _cut(_mangled(name) or name, most)
    if tensile := _TENSILE.match(name):
        return _cut(f"{tensile[1]} {tensile[2]}", most)
    if not _CPP.search(name) or _NOT_CPP.match(name):
        return _cut(name, most)
    *_, last = _split(_RETURNED.sub("", name.removesuffix(" const")), " ")
    made = [_named(last, depth, dropped) for depth, dropped in _DETAILS]
    if innermost := _INNERMOST.search(made[1]):
        made.insert(2, f"{made[-1]}<{innermost[0]}>")
    return next((each for each in made if len(each) <= most), "") or _cut(made[-1], most)


def _mangled(name: str) -> str:
    """The function of a name that the profiler left mangled, since its own demangler does not know
    all types; of a wrapper, the first template argument.
    https://itanium-cxx-abi.github.io/cxx-abi/abi.html#mangling
    """
    own, at = _identifier(name, 0)
    return _identifier(name, at)[0] or own if own in _WRAPPERS else own


def _identifier(name: str, at: int) -> tuple[str, int]:
    """The last of the next identifiers in a row, each after its length, and where it ends."""
    own = ""
    while match := re.compile(r"\d{1,4}" if own else r"(?<=[NZS_IE])[1-9]\d{,3}").search(name, at):
        if own and match.start() != at:
            break
        at = match.end() + int(match[0])
        own = name[match.end() : at]
    return own, at


def _cut(text: str, most: int) -> str:
    """The text with its end, which tells the tiles and layouts of a library's kernels apart."""
    end = min(_END, most // 3)
    return text if len(text) <= most else f"{text[: most - 1 - end]}…{text[-end:]}"


def _named(text: str, depth: int, dropped: re.Pattern[str]) -> str:
    """A qualified name with `depth` levels of template arguments, itself included."""
    parts = list(_split(text.strip(), "::"))
    lambdas = [at for at, part in enumerate(parts) if part.startswith("{lambda")]
    at = max(lambdas[0] - 1, 0) if lambdas else len(parts) - 1
    own, arguments = _opened(parts[at])
    if own in _WRAPPERS and arguments:
        # Before what it calls, ck_tile's names the architecture and a number.
        called = (argument for argument in arguments if not _TUNING.search(argument))
        return _named(next(called, arguments[0]), depth, dropped)
    if own in _VAGUE and at:
        own = f"{_opened(parts[at - 1])[0]}::{own}"
    if depth <= 1 or lambdas:
        return own
    named = (_named(argument, depth - 1, dropped) for argument in arguments)
    telling = dict.fromkeys(each for each in named if not dropped.fullmatch(each))
    return f"{own}<{', '.join(telling)}>" if telling else own


def _opened(part: str) -> tuple[str, list[str]]:
    """The identifier of a part of a qualified name, and its template arguments."""
    match = re.match(r"[\w~# ]+", part)
    own = match[0].strip().removesuffix(" const") if match else part
    rest = part[match.end() :] if match else ""
    if not rest.startswith("<"):
        return own, []
    inside = rest[1 : next(_outside(rest), len(rest))]
    return own, [each.strip() for each in _split(inside, ",")]


def _outside(text: str) -> Iterator[int]:
    """The places outside brackets; where a bracket closes is outside."""
    depth = 0
    for at, letter in enumerate(text):
        depth += (letter in _OPENING) - (letter in _CLOSING)
        if not depth:
            yield at


def _split(text: str, by: str) -> Iterator[str]:
    """The parts between separators outside brackets."""
    begin = 0
    for at in _outside(text):
        if text.startswith(by, at):
            yield text[begin:at]
            begin = at + len(by)
    yield text[begin:]
