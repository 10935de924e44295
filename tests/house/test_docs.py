"""The documentation site: generated pages cover the code, and `make docs` finds no fault."""

import re
from functools import cache

import pytest

from docs.generate import site, sources
from docs.generate.commands import all_commands
from docs.generate.markdown import code, fence, prose, table
from docs.generate.pictures import PICTURES
from tracekit.database.catalog import queries
from tracekit.database.remedies import all_remedies

# One worker makes the pages.
pytestmark = pytest.mark.xdist_group("docs")
FENCE = re.compile(r"^(`{3,}).*?^\1$", re.MULTILINE | re.DOTALL)


@cache
def pages() -> dict[str, str]:
    return site.pages()


def listed(entries: list) -> list[str]:
    """The paths of a navigation, in order."""
    found: list[str] = []
    for each in entries:
        inner = [[each]] if isinstance(each, str) else map(listed, each.values())
        found += [path for paths in inner for path in paths]
    return found


def test_every_command_is_documented_with_its_options():
    text = pages()["reference/commands.md"]
    for context, command in all_commands():
        assert f"## {context.command_path}\n" in text
        for parameter in command.get_params(context):
            record = parameter.get_help_record(context)
            assert record is None or not record[1] or code(record[0]) in text


def test_every_question_has_its_columns_parameters_and_sql():
    for name, query in queries().items():
        text = pages()[f"reference/questions/{query.topic}.md"]
        section = text.split(f"## {name} {{ #{name} }}")[1]
        assert fence(query.sql, "sql") in section
        for each in (*query.columns, *query.parameters):
            assert code(each.name) in section
        assert f"({query.topic}.md#{name})" in pages()["reference/questions/index.md"]


def test_every_remedy_has_a_page_with_the_words_of_advise():
    for name, remedy in all_remedies().items():
        text = pages()[f"howto/remedies/{name}.md"]
        for _, words, is_code in remedy.sections:
            assert (fence(words, "python") if is_code else prose(words)) in text
        assert all(source in text for source in remedy.sources)


def test_every_table_and_view_has_its_columns(shared_database):
    text = pages()["reference/schema.md"]
    _, rows = shared_database("simulated-overhead-bound.json.gz").fetch("SHOW TABLES")
    assert rows
    assert all(f"### {name} {{ #{name} }}" in text for (name,) in rows)


def test_each_page_stands_in_the_navigation_once():
    assert sorted(listed(site.navigation())) == sorted(pages())


def test_no_page_has_a_placeholder_or_a_broken_table():
    for path, text in pages().items():
        assert text.startswith("# "), path
        told = FENCE.sub("", text)
        assert "{{" not in told, path
        for rows in re.findall(r"(?:^\|.*\|$\n?)+", told, re.MULTILINE):
            cells = {len(re.findall(r"(?<!\\)\|", row)) for row in rows.splitlines()}
            assert len(cells) == 1, (path, rows[:200])


def test_pictures_are_drawn_where_pages_ask_for_them():
    text = "".join(
        pages()[f"explanation/{name}.md"] for name in ("definitions", "units", "verdict")
    )
    assert text.count("<svg ") == len(PICTURES)
    assert "<!-- picture" not in "".join(pages().values())


def test_text_of_the_code_is_shown_as_it_is():
    assert prose("a < b | c, see `x|y<z>`.") == (
        "a &lt; b \\| c, see <code>x&#124;y&lt;z&gt;</code>."
    )
    assert fence("a ``` b", "sql") == "````sql\na ``` b\n````"
    assert table(("a",), []) == ""


def test_a_link_to_a_file_that_is_not_a_page_is_an_error():
    with pytest.raises(ValueError, match=r"tests/nowhere\.md is not a page"):
        sources.relinked("[there](tests/nowhere.md)", "README.md")
