"""What a benchmark leaves behind."""

import json
from pathlib import Path

import pytest

from benchmarks.report import Report, Row, amount


def a_report() -> Report:
    report = Report("example", "How fast?", facts={"machine": "a box"})
    report.add(
        Row(
            contender="ours",
            case="1 KiB",
            unit="entries/s",
            value=60_000,
            runs=(50_000, 70_000),
            floor=100_000,
        )
    )
    report.add(Row(contender="ours", case="one at a time", unit="ms", value=0.5, target=0.4))
    return report


def test_json_holds_every_run_and_the_machine(tmp_path: Path) -> None:
    path = a_report().save(tmp_path)
    content = json.loads(path.read_text())
    assert content["facts"] == {"machine": "a box"}
    assert content["rows"][0]["runs"] == [50_000, 70_000]
    assert [file.name for file in tmp_path.iterdir()] == ["example.json"]


def test_table_shows_ratio_and_missed_target(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a_report().finish(tmp_path)
    printed = capsys.readouterr().out
    for words in ("How fast?", "a box", "60,000 entries/s", "50,000 to 70,000", "60%", "0.4 missed"):
        assert words in printed
    assert {file.name for file in tmp_path.iterdir()} == {"example.json", "example.png"}


@pytest.mark.parametrize(
    ("unit", "value", "target", "reached"),
    [("entries/s", 10, 9, True), ("entries/s", 8, 9, False), ("ms", 10, 9, False), ("ms", 8, 9, True)],
)
def test_a_rate_must_reach_its_target_and_a_duration_stay_below(
    unit: str, value: float, target: float, reached: bool
) -> None:
    assert Row(contender="ours", case="", unit=unit, value=value, target=target).reached is reached


def test_amounts_have_three_digits_or_thousands() -> None:
    assert [amount(value) for value in (1_234_567.8, 100.4, 12.345, 0.04589)] == [
        "1,234,568",
        "100",
        "12.3",
        "0.0459",
    ]
