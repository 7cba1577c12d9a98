"""Each option's good values, and the sentence that each wrong one gets."""

from __future__ import annotations

import pytest

from dlog.model import MessageId
from spark_connector.errors import SparkSourceError, spark_errors
from spark_connector.options.log_choice import LogPattern, NamedLogs
from spark_connector.options.read_options import NAMES, ReadOptions, parse_options

GOOD = {"metadata": "sqlite:////data/meta.db", "log": "orders"}


def test_two_options_are_enough() -> None:
    assert parse_options(GOOD) == ReadOptions(metadata="sqlite:////data/meta.db", logs=NamedLogs(("orders",)))


def test_names_ignore_case_and_path_is_a_log() -> None:
    options = parse_options({"METADATA": "memory:m", "Path": "orders", "STARTINGID": "1:2:3"})
    assert (options.logs, options.starting) == (NamedLogs(("orders",)), MessageId(1, 2, 3))


def test_words_and_ids_bound_a_read() -> None:
    options = parse_options({**GOOD, "startingId": "latest", "endingId": "7:0:0"})
    assert (options.starting, options.ending) == ("latest", MessageId(7, 0, 0))


@pytest.mark.parametrize(
    ("text", "microseconds"),
    [
        ("0", 0),
        ("1357388100123", 1_357_388_100_123_000),
        ("2013-01-05", 1_357_344_000_000_000),
        (" 2013-01-05T12:15:00.000001 ", 1_357_388_100_000_001),
        ("2013-01-05T13:15+01:00", 1_357_388_100_000_000),
        ("1950-01-01", 0),
    ],
)
def test_a_time_is_text_in_utc_or_milliseconds(text: str, microseconds: int) -> None:
    options = parse_options({**GOOD, "startingTimestamp": text, "endingTimestamp": text})
    assert (options.starting_time_us, options.ending_time_us) == (microseconds, microseconds)


@pytest.mark.parametrize("time", ["startingTimestamp", "endingTimestamp"])
def test_an_id_that_a_time_beats_contradicts_no_other(time: str) -> None:
    options = parsed(startingId="2:0:0", endingId="1:0:0", log="orders", **{time: "2013-01-05"})
    assert options.starting == MessageId(2, 0, 0)


def test_several_logs_are_named_or_matched() -> None:
    assert parsed(logs="bills, orders").logs == NamedLogs(("bills", "orders"))
    assert parsed(logsPattern="orders-.*").logs == LogPattern("orders-.*")
    assert LogPattern("a|ab").matching(["a", "ab", "abc", "ba"]) == ["a", "ab"]


def test_a_position_for_each_log_is_json() -> None:
    options = parsed(
        logs="orders,bills",
        startingId='{"orders": "17:0:0", "bills": "earliest"}',
        endingId=' {"bills": "5:0:0", "orders": "latest"}',
    )
    assert options.starting == {"orders": MessageId(17, 0, 0), "bills": "earliest"}
    assert options.ending == {"bills": MessageId(5, 0, 0), "orders": "latest"}
    assert parsed(log="orders", startingId='{"orders": "1:2:3"}').starting == {"orders": MessageId(1, 2, 3)}
    assert parsed(logs="orders", startingId="1:2:3").starting == MessageId(1, 2, 3)


def test_each_bound_has_its_own_form() -> None:
    """An id for each log to begin with, and one word for all of them to end with."""
    options = parsed(logs="a,b", startingId='{"a": "9:0:0", "b": "latest"}', endingId="latest")
    assert options.ending == "latest"


def parsed(**options: str) -> ReadOptions:
    return parse_options({"metadata": "m", **options})


LIMIT_OF = {
    "minPartitions": "1 to 100000",
    "targetPartitionBytes": "1 to 1099511627776",
    "maxRecordsPerPartition": "1 to 4611686018427387904",
    "batchRows": "1 to 1000000",
    "readTimeoutMs": "1 to 86400000",
}
NO_NUMBERS = ("", " ", "0", "-1", "1.5", "1e3", "many", "64MiB", "²", "0x10", "7" * 5000)
NO_IDS = (
    "",
    "7",
    "7:1",
    "7:1:2:3",
    "a:b:c",
    "-1:0:0",
    "7:0:2147483648",
    "Earliest",
    "oldest",
    "[]",
    '"latest"',
)
NO_TIMES = ("", "noon", "-1", "2013-13-01", "12:30", "1e9", "9" * 30, "10m", "2013-01-05T25:00")
NO_NAMES = ("", "a/b", "..", ".", "ä", "x" * 201)

WRONG_VALUES: list[tuple[dict[str, str], str]] = [
    *(
        ({name: text}, f"option {name!r} must be a whole number from {limit}, got {text!r}")
        for name, limit in LIMIT_OF.items()
        for text in NO_NUMBERS
    ),
    *(
        ({name: text}, f"option {name!r} must be true or false, got {text!r}")
        for name in ("includeHeaders", "includeProducer")
        for text in ("", "yes", "1", "true ")
    ),
    *(
        ({name: text}, f"option {name!r}: message id {text!r} is not valid")
        for name in ("startingId", "endingId")
        for text in NO_IDS
    ),
    ({"startingId": "7"}, "for example 17:420:3, or use earliest or latest"),
    ({"startingId": "-1:-1:0"}, "'-1:-1:0' is the id of no message, or use earliest or latest"),
    ({"endingId": "earliest"}, "for example 17:420:3, or use latest"),
    *(
        ({name: text}, f"option {name!r} must be a time like 2013-01-05T12:30")
        for name in ("startingTimestamp", "endingTimestamp")
        for text in NO_TIMES
    ),
    *(({"namespace": text}, "option 'namespace': name ") for text in NO_NAMES),
    *(({"passwordFile": text}, "option 'passwordFile' must be the path of a file") for text in ("", "a\0")),
    *(({"log": text}, "option 'log': name ") for text in NO_NAMES[1:]),
    ({"metadata": ""}, "option 'metadata' is missing: set it to the address that `dlog standalone` prints"),
    ({"log": ""}, "option 'log' is missing: set it to the name of the log, or set 'logs' or 'logsPattern'"),
    ({"path": "other"}, "options 'log' ('orders') and 'path' ('other') name two logs: set only one of them"),
    ({"logs": "bills"}, "options 'log' and 'logs' each say which logs are read: set only one of them"),
    ({"logsPattern": ".*"}, "options 'log' and 'logsPattern' each say which logs are read: set only one of"),
    ({"startingId": "2:0:0", "endingId": "1:0:0"}, "startingId 2:0:0 is after endingId 1:0:0: swap them"),
    (
        {"startingTimestamp": "2013-01-06", "endingTimestamp": "2013-01-05"},
        "startingTimestamp 2013-01-06 is after endingTimestamp 2013-01-05: swap them",
    ),
    ({"startingOffsets": "x"}, "option 'startingoffsets' is unknown, or is not for batch reads, which have"),
]

POSITIONS = '{"orders": "17:0:0", "bills": "latest"}'
WRONG_LOGS: list[tuple[dict[str, str], str]] = [
    (
        {},
        "option 'log' is missing: set it to the name of the log, or set 'logs' or 'logsPattern' to read sever",
    ),
    ({"path": ""}, "option 'log' is missing: set it to the name of the log"),
    ({"path": "a/b"}, "option 'log': name 'a/b' is not valid"),
    ({"path": "a", "logs": "b"}, "options 'path' and 'logs' each say which logs are read"),
    ({"logs": "a", "logsPattern": "b"}, "options 'logs' and 'logsPattern' each say which logs are read"),
    (
        {"log": "a", "path": "a", "logs": "b", "logsPattern": "c"},
        "options 'log' and 'path' and 'logs' and 'logsPattern' each say which logs are read",
    ),
    ({"logs": ""}, "option 'logs' has an empty name in '': separate names by one comma, like orders,bills"),
    ({"logs": "a,,b"}, "option 'logs' has an empty name in 'a,,b': separate names by one comma"),
    ({"logs": "a,"}, "option 'logs' has an empty name in 'a,': separate names by one comma"),
    ({"logs": "a, b, a"}, "option 'logs' names 'a' twice: name it once"),
    ({"logs": "a,b/c"}, "option 'logs': name 'b/c' is not valid"),
    ({"logsPattern": ""}, "option 'logsPattern' is empty and matches no name: use a regular expression"),
    (
        {"logsPattern": "orders-("},
        "option 'logsPattern' 'orders-(' is not a valid regular expression of Python",
    ),
    (
        {"logsPattern": "*"},
        "option 'logsPattern' '*' is not a valid regular expression of Python: nothing to",
    ),
    (
        {"logs": "a,b", "startingId": "1:2:3"},
        "option 'startingId' is the id 1:2:3, which is of one log, but several may be read: give a position for each "
        "as JSON, like",
    ),
    (
        {"logsPattern": "a", "endingId": "1:2:3"},
        "option 'endingId' is the id 1:2:3, which is of one log, but",
    ),
    (
        {"logs": "orders,bills,refunds", "startingId": POSITIONS},
        "option 'startingId' lacks log 'refunds', which is read: give a position for each of bills, orders, refunds",
    ),
    (
        {"log": "orders", "startingId": POSITIONS},
        "option 'startingId' has a position for log 'bills', which is not read: leave it out; logs that are read: "
        "orders",
    ),
    ({"log": "a", "startingId": '{"a": "1:2:3"'}, "option 'startingId' is not valid JSON (Expecting ',' del"),
    (
        {"log": "a", "startingId": '{"a":' * 100_000},
        "option 'startingId' is not valid JSON (maximum recursion",
    ),
    (
        {"log": "a", "startingId": '{"a": 7}'},
        "option 'startingId' has 7 for log 'a': write it as a text, like",
    ),
    ({"log": "a", "startingId": '{"a": {"a": 7}}'}, "for log 'a': write it as a text, like"),
    ({"log": "a", "endingId": '{"a": null}'}, "option 'endingId' has null for log 'a': write it as a text"),
    ({"log": "a", "endingId": '{"a": "earliest"}'}, "option 'endingId': message id 'earliest' is not valid"),
    ({"log": "a", "startingId": '{"a": "1:2"}'}, "option 'startingId': message id '1:2' is not valid"),
    ({"log": "a", "startingId": "{}"}, "option 'startingId' lacks log 'a', which is read"),
    (
        {"log": "a", "startingId": '{"a": "latest", "a": "latest"}'},
        "option 'startingId' has log 'a' twice: give one position",
    ),
    (
        {
            "logs": "a,b",
            "startingId": '{"a": "2:0:0", "b": "9:0:0"}',
            "endingId": '{"a": "3:0:0", "b": "5:0:0"}',
        },
        "startingId 9:0:0 of log 'b' is after endingId 5:0:0: swap them",
    ),
    (
        {"logsPattern": ".", "startingId": '{"b": "9:0:0"}', "endingId": '{"b": "5:0:0"}'},
        "startingId 9:0:0 of log 'b' is after endingId 5:0:0: swap them",
    ),
]


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        *(({**GOOD, **wrong}, sentence) for wrong, sentence in WRONG_VALUES),
        *(({"metadata": "m", **wrong}, sentence) for wrong, sentence in WRONG_LOGS),
    ],
)
def test_a_wrong_value_is_named_with_what_to_do(wrong: dict[str, str], sentence: str) -> None:
    """As the first line that Spark shows."""
    with pytest.raises(SparkSourceError) as caught, spark_errors():
        parse_options(wrong)
    line = str(caught.value)
    assert line.startswith("DLOG_BAD_OPTION: ") and sentence in line
    assert "\n" not in line


def test_every_option_has_wrong_values_in_the_table() -> None:
    tried = {name for wrong, _ in (*WRONG_VALUES, *WRONG_LOGS) for name in wrong}
    assert set(NAMES) <= tried


def test_errors_reach_spark_with_a_token() -> None:
    with pytest.raises(SparkSourceError) as caught, spark_errors():
        parse_options({})
    assert str(caught.value).startswith("DLOG_BAD_OPTION: option 'metadata' is missing")
    assert caught.value.token == "DLOG_BAD_OPTION"
