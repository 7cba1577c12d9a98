"""`dlog retention`, and what `dlog gc` makes of it, on a real cluster."""

from __future__ import annotations

import json

import pytest

from tests.helpers.processes.command import Command

pytestmark = pytest.mark.integration

HERE = ("--namespace", "retained")


def ids_of(dlog: Command, log: str) -> list[str]:
    return [line.split("\t")[0] for line in dlog.here("read", log, *HERE).must_succeed().splitlines()]


def test_a_log_is_trimmed_by_gc_as_its_retention_says(dlog: Command) -> None:
    for number in range(6):
        dlog("append", "weekly", "--create", *HERE, stdin=b"%d\n" % number).must_succeed()
    before = ids_of(dlog, "weekly")
    assert dlog.here("retention", "weekly", *HERE).must_succeed() == "keeps  everything\n"
    tried = dlog.here("retention", "weekly", "--max-bytes", "1", "--dry-run", *HERE).must_succeed()
    assert f"messages before {before[5]}" in tried
    assert dlog.here("retention", "weekly", *HERE).must_succeed() == "keeps  everything\n"
    dlog.here("retention", "weekly", "--max-bytes", "1", "--max-age", "0.001s", *HERE).must_succeed()
    shown = json.loads(dlog.here("retention", "weekly", "-o", "json", *HERE).must_succeed())
    assert (shown["max_bytes"], shown["max_age_s"], shown["keep_unread"]) == (1, 0.001, False)
    assert (shown["trims_now"]["before"], shown["trims_now"]["ledgers"]) == (before[5], 5)
    would = dlog.here("gc", "--dry-run", *HERE).must_succeed()
    assert would.startswith(f"would trim weekly before {before[5]}: 5 ledgers, ")
    assert would.endswith("\n5 ledgers would be trimmed\n")
    assert ids_of(dlog, "weekly") == before
    done = dlog.here("gc", *HERE).must_succeed()
    assert done.startswith(f"trimmed weekly before {before[5]}: 5 ledgers, ")
    assert done.endswith("\n5 ledgers deleted\n")
    assert ids_of(dlog, "weekly") == before[5:]
    assert dlog.here("gc", *HERE).must_succeed() == "0 ledgers deleted\n"
    *_, trims, kept_by = dlog.here("retention", "weekly", *HERE).must_succeed().splitlines()
    assert (trims.split(), kept_by.split()) == (
        ["trims", "now", "nothing"],
        ["kept", "by", "newest", "ledger"],
    )
    assert dlog.here("retention", "weekly", "--forever", *HERE).must_succeed() == "keeps  everything\n"


@pytest.mark.parametrize(
    ("given", "shown"), [("0.4s", "0.4 s"), ("1.5s", "1.5 s"), ("90s", "90 s"), ("7d", "604,800 s")]
)
def test_the_age_is_shown_as_it_is_kept(dlog: Command, given: str, shown: str) -> None:
    """An age of half a second is not shown as none."""
    log = f"aged-{given}"
    dlog.here("create", log, *HERE).must_succeed()
    out = dlog.here("retention", log, "--max-age", given, "--dry-run", *HERE).must_succeed()
    assert out.splitlines()[0].split(maxsplit=2) == ["max", "age", shown]


def test_wrong_rules_are_refused_with_a_sentence(dlog: Command) -> None:
    dlog.here("create", "refused", *HERE).must_succeed()
    for options, parts in (
        (("--max-age", "week"), ("--max-age must be a time like 90s", "'week'")),
        (("--max-age", "0s"), ("--max-age must be positive",)),
        (("--max-bytes", "10 GB"), ("--max-bytes must be a size like", "'10 GB'")),
        (("--max-bytes", "0"), ("--max-bytes must be positive",)),
        (("--max-messages", "0"), ("--max-messages must be positive",)),
        (("--forever", "--keep-unread"), ("--forever keeps everything",)),
    ):
        dlog.here("retention", "refused", *options, *HERE).must_fail(2, *parts)
    dlog.here("retention", "absent", *HERE).must_fail(1, "log retained/absent does not exist")
    assert dlog.here("retention", "refused", *HERE).must_succeed() == "keeps  everything\n"
