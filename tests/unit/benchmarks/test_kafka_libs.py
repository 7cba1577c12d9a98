"""Where Kafka's jars are looked for, and the sentence that says what is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.kafka.libs import KafkaMissingError, find_kafka

BROKER = "broker/kafka_2.13-4.1.1.jar"
SOURCE = "spark-source/spark-sql-kafka-0-10_2.13-4.2.0.jar"
CLIENT = "spark-source/kafka-clients-3.9.2.jar"


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """With a program `java`, and no jar."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").touch(mode=0o755)
    return {"PATH": str(tmp_path / "bin"), "DLOG_KAFKA_LIBS": str(tmp_path / "libs")}


def add(environment: dict[str, str], *jars: str) -> None:
    for jar in jars:
        path = Path(environment["DLOG_KAFKA_LIBS"]) / jar
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


def test_the_jars_of_spark_are_those_of_its_source_and_not_of_the_broker(environment: dict[str, str]) -> None:
    add(environment, BROKER, SOURCE, CLIENT)
    found = find_kafka(environment)
    directory = environment["DLOG_KAFKA_LIBS"]
    assert found.spark_jars.split(",") == [f"{directory}/{CLIENT}", f"{directory}/{SOURCE}"]
    assert found.broker_class_path == f"{directory}/broker/*"
    assert found.versions == "kafka 4.1.1, spark-sql-kafka-0-10 4.2.0"


def test_without_a_directory_of_its_own_the_jars_are_in_the_cache(
    environment: dict[str, str], tmp_path: Path
) -> None:
    add(environment, BROKER, SOURCE)
    cache = tmp_path / "cache" / "dlog"
    cache.mkdir(parents=True)
    (tmp_path / "libs").rename(cache / "kafka-libs")
    found = find_kafka({"PATH": environment["PATH"], "XDG_CACHE_HOME": str(tmp_path / "cache")})
    assert found.directory == cache / "kafka-libs"


@pytest.mark.parametrize(
    ("there", "missing"),
    [((), "Kafka broker"), ((BROKER,), "Kafka source of Spark"), ((SOURCE,), "Kafka broker")],
)
def test_what_is_missing_is_named_with_what_brings_it(
    environment: dict[str, str], there: tuple[str, ...], missing: str
) -> None:
    add(environment, *there)
    with pytest.raises(KafkaMissingError, match=f"^no {missing} in .*: run tools/fetch-java-libs --kafka"):
        find_kafka(environment)


def test_without_java_nothing_else_is_looked_for(environment: dict[str, str]) -> None:
    with pytest.raises(KafkaMissingError, match="needs a Java runtime"):
        find_kafka({**environment, "PATH": ""})
