"""Tables for people."""

import pytest

from tonnage.cli.tables import print_table


@pytest.mark.parametrize("rows", [[], iter(())])
def test_a_table_without_rows_has_its_header(rows: list[list[str]], capsys: pytest.CaptureFixture[str]) -> None:
    print_table(["category", "jobs"], rows, right=["jobs"], give_way=["jobs"])
    assert capsys.readouterr().out == "category  jobs\n"
