"""Options of tables in Spark's catalog, for queries that read them. Needs pyspark.

Spark gives the options of `CREATE TABLE … USING dlog OPTIONS (…)` to `schema()` and forgets them: a query of the table
gets only those of its own. But the catalog stores the schema with the metadata of its columns, and gives it to each
read, so the options are kept there.

Invariant: only reads look for them. For `INSERT INTO one SELECT … FROM other` Spark may give the writer the columns of
`other` with the metadata of `other`, and rows would be written to the wrong log. tests/spark/test_sql.py pins both.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from pyspark.sql.types import StructField, StructType

from spark_connector.errors import BadOptionError

_KEY = "dlog.options"
_PREFIX = "option."
"""Before the options of a table in its properties; without it they are there a second time."""

_ALTERNATIVES = (
    ("log", "path", "logs", "logspattern"),
    ("startingid", "startingtimestamp"),
    ("endingid", "endingtimestamp"),
    ("maxrecordspertrigger", "maxbytespertrigger"),
)
"""A query that sets one of a group has none of the table's: that would be used instead, or refused next to it."""


def table_options(options: Mapping[str, str]) -> dict[str, str] | None:
    """What `OPTIONS (…)` of a new table sets; None if the schema is not that of a table."""
    given = {name.lower(): value for name, value in options.items()}
    if "provider" not in given:  # a property of every table, and no option of this source
        return None
    found = {name.removeprefix(_PREFIX): value for name, value in given.items() if name.startswith(_PREFIX)}
    if "path" in given:  # LOCATION
        found["path"] = given["path"]
    return found


def with_options(schema: StructType, options: Mapping[str, str]) -> StructType:
    """The schema of a table, with its options in the metadata of each column."""
    text = json.dumps(dict(options), sort_keys=True)
    return StructType(
        [StructField(field.name, field.dataType, field.nullable, {_KEY: text}) for field in schema]
    )


def read_options(given: Mapping[str, str], schema: StructType) -> dict[str, str]:
    """The options of a query that reads: its own, before those of the table that it reads, if it is one."""
    own = {name.lower(): value for name, value in given.items()}
    if "metadata" in own:
        return own
    kept = next((field.metadata[_KEY] for field in schema if _KEY in field.metadata), None)
    if kept is not None:
        replaced = {name for group in _ALTERNATIVES if not own.keys().isdisjoint(group) for name in group}
        of_table = {name: value for name, value in json.loads(kept).items() if name not in replaced}
        return {**of_table, **own}
    if not any(name.startswith("log") or name == "path" for name in own):
        raise BadOptionError(
            "options 'metadata' and 'log' are missing: set them; for a table, create it with OPTIONS and without a "
            "list of columns, since Spark keeps no options of one with a list",
            option="metadata",
        )
    return own


def check_write_options(given: Mapping[str, str]) -> None:
    """Refuse a write that names no log, as one into a table does.

    Raises:
        BadOptionError: there is neither a cluster nor a log.
    """
    if not {name.lower() for name in given} & {"metadata", "log", "path"}:
        raise BadOptionError(
            "options 'metadata' and 'log' are missing: set them; for a table, write INSERT INTO … WITH (metadata = "
            "'…', log = '…'), since Spark does not pass on the options of the table",
            option="metadata",
        )
