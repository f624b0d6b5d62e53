from __future__ import annotations

import os

import pytest

from tests.runtimes.host import CHECKOUT
from tests.runtimes.table import Table, block, lines_by_versions, replace_block

README = CHECKOUT / "README.md"


def test_rows_of_one_runtime_and_spec_version_share_a_line() -> None:
    """A line sums up what ran, in the order it ran in, and counts the records."""
    table = Table()
    table.add("tool 1.0", plugins="Debian 1.1.1", spec="1.0.0", verbs="ADD DEL", what="bridge", records=4)
    table.add("tool 1.0", plugins="Debian 1.1.1", spec="0.4.0", verbs="ADD", what="bridge", records=2)
    table.add("tool 1.0", plugins="Debian 1.1.1", spec="1.0.0", verbs="ADD CHECK", what="ptp", records=4)
    expected = (
        "| runtime | plugins | cniVersion | verbs | what ran, with probes and without | seen |\n"
        "| --- | --- | --- | --- | --- | --- |\n"
        "| tool 1.0 | Debian 1.1.1 | 0.4.0 | ADD | bridge | the same; 2 records, as expected |\n"
        "| tool 1.0 | Debian 1.1.1 | 1.0.0 | ADD DEL CHECK | bridge; ptp | the same; 8 records, as expected |\n"
    )
    assert expected == table.markdown()


def test_lines_are_known_by_their_versions() -> None:
    """What was seen of one runtime, with one set of plugins at one spec version, can be held against what is shown."""
    table = Table()
    table.add("tool 1.0", plugins="Debian 1.1.1", spec="1.0.0", verbs="ADD", what="bridge", records=2)
    line = "| tool 1.0 | Debian 1.1.1 | 1.0.0 | ADD | bridge | the same; 2 records, as expected |"
    readme = f"a\n<!-- runtimes:begin -->\n{table.markdown()}<!-- runtimes:end -->\nb\n"
    assert {("tool 1.0", "Debian 1.1.1", "1.0.0"): line} == lines_by_versions(block(readme))


def test_only_what_is_between_the_marks_is_replaced() -> None:
    """The rest of README.md stays as it is, and a README.md without marks is refused."""
    readme = "# Title\n<!-- runtimes:begin -->\nold\n<!-- runtimes:end -->\nmore\n"
    assert readme.replace("old\n", "| new |\n") == replace_block(readme, "| new |\n")
    with pytest.raises(ValueError, match="no lines <!-- runtimes:begin --> and <!-- runtimes:end -->"):
        replace_block("# Title\n", "| new |\n")


def test_the_table_in_the_readme_is_what_was_just_seen(table: Table, all_ran: bool) -> None:
    """After a complete run README.md shows that run, for the versions that are here; WRITE_TABLE=1 makes it so."""
    if not all_ran:
        pytest.skip("not every runtime's tests ran and passed: nothing to compare README.md with")
    now = README.read_text()
    seen = replace_block(now, table.markdown())
    if os.environ.get("WRITE_TABLE"):
        README.write_text(seen)
        return
    shown, ran = lines_by_versions(block(now)), lines_by_versions(table.markdown())
    assert {key: line for key, line in ran.items() if key in shown} == {
        key: line for key, line in shown.items() if key in ran
    }, "WRITE_TABLE=1 rewrites the table in README.md"
    if shown.keys() != ran.keys():
        pytest.skip(f"README.md has other versions than this machine: {sorted(shown.keys() ^ ran.keys())}")
