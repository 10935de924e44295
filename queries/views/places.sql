-- Where in the program the events of a trace come from, in a few words: for remedies.

-- Whether a Python frame is a line of the program or of a library that it uses, rather than of PyTorch's own
-- machinery or Python's: what a reader would look up. Kineto names a frame FILE(FIRST LINE): FUNCTION, the
-- file from where it was imported, so a module of Python's library has no folder before it.
-- https://docs.python.org/3/library/index.html
CREATE OR REPLACE MACRO is_program_line(name) AS
    regexp_matches(name, '\.pyx?\(\d+\): ')
    AND NOT regexp_matches(name, '(^|/)(torch|torch_npu|_?pytest|pluggy|multiprocessing|concurrent|asyncio)/'
        || '|(^|/)(contextlib|functools|threading|queue|runpy|selectors|socket|subprocess)\.py\('
        || '|^(abc|argparse|ast|bisect|codecs|contextvars|copy|copyreg|csv|dataclasses|datetime|decimal|dis|'
        || 'enum|fractions|genericpath|glob|hashlib|heapq|inspect|io|linecache|numbers|operator|os|pathlib|'
        || 'pickle|pkgutil|platform|posixpath|pprint|random|re|shutil|signal|statistics|string|tempfile|'
        || 'textwrap|timeit|tokenize|traceback|types|typing|uuid|warnings|weakref)\.py\('
        || '|^(collections|ctypes|email|encodings|http|importlib|json|logging|re|unittest|urllib|xml)/'
        || '|(^|/)python\d[^/]*/[^/]+\.py\(|^<');

-- The place of each of these events of the host (a relation with trace_id and event_id, by its name): the
-- innermost line of the program around it; where stacks were not recorded, the module, else the outermost
-- operator. And the innermost operator around it or itself, and that operator's id.
CREATE OR REPLACE MACRO places_of(events) AS TABLE
WITH RECURSIVE around AS (
    SELECT c.trace_id, c.event_id, c.event_id AS around_id, 0 AS level
    FROM (SELECT DISTINCT trace_id, event_id FROM query_table(events)) AS c
    UNION ALL
    SELECT a.trace_id, a.event_id, h.parent_id, level + 1
    FROM around AS a JOIN host_slice AS h ON a.trace_id = h.trace_id AND a.around_id = h.event_id
    WHERE h.parent_id IS NOT NULL
)
SELECT
    a.trace_id, a.event_id,
    coalesce(
        arg_min(o.name, level) FILTER (kind = 'python' AND is_program_line(o.name)),
        arg_min(module_name(o.name), level) FILTER (kind = 'python' AND is_module_frame(o.name)),
        arg_max(o.name, level) FILTER (kind = 'cpu_op')
    ) AS place,
    arg_min(o.name, level) FILTER (kind = 'cpu_op') AS cpu_op,
    arg_min(o.event_id, level) FILTER (kind = 'cpu_op') AS cpu_op_id
FROM around AS a
LEFT JOIN (SELECT trace_id, event_id, name, kind FROM slices) AS o ON a.trace_id = o.trace_id
    AND a.around_id = o.event_id
GROUP BY a.trace_id, a.event_id;
