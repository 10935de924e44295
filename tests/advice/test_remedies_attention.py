"""The remedies of attention on traces that PyTorch itself recorded."""

import re
import shlex

import pytest

import tracekit
from tests.house.test_readme import PAGES

torch = pytest.importorskip("torch")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    from torch.nn.attention import SDPBackend, sdpa_kernel

    q = torch.rand(1, 4, 64, 32)
    kept = torch.tril(torch.ones(64, 64)).bool()

    def again():
        mask = torch.tril(torch.ones(64, 64)).bool()
        scores = q @ q.transpose(-1, -2)
        scores = scores.masked_fill(~mask, -1e9)
        with sdpa_kernel(SDPBackend.MATH):
            torch.nn.functional.scaled_dot_product_attention(q, q, q)

    def better():
        scores = q @ q.transpose(-1, -2)
        scores.masked_fill_(~kept, -1e9)

    path = tmp_path_factory.mktemp("attention") / "t.json"
    with torch.no_grad(), tracekit.profile(path, steps=2, stacks=True) as run:
        for _ in range(6):
            again(), better()
            run.step()
    with tracekit.load(path) as loaded:
        yield loaded


@pytest.mark.parametrize(("remedy", "calls"), [("in_place", 2), ("mask_again", 4)])
def test_a_tensor_built_and_copied_in_each_call_is_found_at_its_line_only(recorded, remedy, calls):
    rows = recorded.ask(remedy)
    assert len(rows) == calls
    assert all(row["place"].endswith(": again") for row in rows)


def test_the_math_backend_has_the_name_and_the_parent_that_its_remedy_looks_for(recorded):
    ((count,),) = recorded.fetch(
        "SELECT count(*) FROM cpu_ops AS f JOIN host_slice AS h USING (trace_id, event_id) "
        "JOIN cpu_ops AS c ON h.trace_id = c.trace_id AND h.parent_id = c.event_id "
        "WHERE f.name = 'aten::_scaled_dot_product_attention_math' "
        "AND c.name = 'aten::scaled_dot_product_attention'"
    )[1]
    assert count == 2


@pytest.mark.thorough
def test_the_third_part_of_the_walkthrough_runs(run):
    part = PAGES["examples/walkthrough.md"].partition("## Attention is all you profile")[2]
    lines = "".join(re.findall(r"^```sh\n(.*?)^```", part, re.DOTALL | re.MULTILINE)).splitlines()
    assert len(lines) == 10
    rows = {}
    for line in lines:
        done = run(*shlex.split(line)[1:])
        assert done.returncode == 0, (line, done.stderr)
        rows[line] = done.stdout
    # A table may cut the name in its middle.
    assert "aten::mas" in rows["tracekit query naive.json.gz in_place"]
    assert "aten::" not in rows["tracekit query inplace.json.gz in_place"]
