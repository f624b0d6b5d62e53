"""What ran against what and was seen to be the same, as the table in README.md: nothing in it that was not run.

A test hands over its rows when it has compared everything. After a complete run the block in README.md must be what was
just seen, as far as it speaks of the versions that this machine has; `WRITE_TABLE=1` in the environment rewrites it.
"""

from __future__ import annotations

from dataclasses import dataclass

BEGIN = "<!-- runtimes:begin -->\n"
END = "<!-- runtimes:end -->\n"
_HEAD = ("runtime", "plugins", "cniVersion", "verbs", "what ran, with probes and without", "seen")


@dataclass(frozen=True)
class Row:
    """One scenario that ran with and without probes and was the same; `records` is how many the probes wrote.

    `runtime` and `plugins` are name and version ("cnitool 1.3.1", "Debian 1.1.1"), `verbs` those that the probes saw,
    blank-separated, `what` a few words for a person.
    """

    runtime: str
    plugins: str
    spec: str
    verbs: str
    what: str
    records: int


class Table:
    def __init__(self) -> None:
        self.rows: list[Row] = []

    def add(self, runtime: str, *, plugins: str, spec: str, verbs: str, what: str, records: int) -> None:
        self.rows.append(Row(runtime, plugins, spec, verbs, what, records))

    def markdown(self) -> str:
        """One line for each runtime, set of plugins and spec version, in that order; what ran as it ran."""
        groups: dict[tuple[str, str, str], list[Row]] = {}
        for row in self.rows:
            groups.setdefault((row.runtime, row.plugins, row.spec), []).append(row)
        lines = [_HEAD, tuple("---" for _ in _HEAD)]
        for key in sorted(groups):
            rows = groups[key]
            verbs = dict.fromkeys(verb for row in rows for verb in row.verbs.split())
            what = dict.fromkeys(row.what for row in rows)
            records = sum(row.records for row in rows)
            lines.append((*key, " ".join(verbs), "; ".join(what), f"the same; {records} records, as expected"))
        return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def lines_by_versions(markdown: str) -> dict[tuple[str, ...], str]:
    """The lines of a table by runtime, plugins and spec version."""
    lines = markdown.splitlines()[2:]
    return {tuple(line.strip("| ").split(" | ")[:3]): line for line in lines}


def block(readme: str) -> str:
    """What stands between the two marks of README.md."""
    return readme.partition(BEGIN)[2].partition(END)[0]


def replace_block(readme: str, markdown: str) -> str:
    """The text of README.md with another table between its two marks; ValueError when it has not both."""
    before, begin, rest = readme.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"README.md has no lines {BEGIN.strip()} and {END.strip()} to put the table between")
    return f"{before}{begin}{markdown}{end}{after}"
