"""What the command of the benchmarks refuses before it measures anything."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks.__main__ import main


def test_kafka_without_its_jars_is_refused_in_a_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "java").touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("DLOG_KAFKA_LIBS", str(tmp_path / "nothing"))
    monkeypatch.setattr(sys, "argv", ["benchmarks", "spark_scan", "--kafka", "--quick"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert "no Kafka broker in" in capsys.readouterr().err
