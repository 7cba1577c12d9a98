"""Where the jars of a Kafka broker and of Spark's Kafka source are: `tools/fetch-java-libs --kafka` puts them there."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_NEEDED = (
    ("broker", "kafka_2.13-*.jar", "Kafka broker"),
    ("spark-source", "spark-sql-kafka-0-10_2.13-*.jar", "Kafka source of Spark"),
)


class KafkaMissingError(Exception):
    """What is not there, and what brings it, in one sentence."""


@dataclass(frozen=True, slots=True)
class KafkaLibs:
    """Two directories, because the broker and Spark's source need different versions of Kafka's client."""

    directory: Path

    @property
    def broker_class_path(self) -> str:
        """For `java -cp`."""
        return f"{self.directory}/broker/*"

    @property
    def spark_jars(self) -> str:
        """For the setting `spark.jars`, which a JVM reads when it starts."""
        return ",".join(map(str, sorted((self.directory / "spark-source").glob("*.jar"))))

    @property
    def versions(self) -> str:
        """Of what is compared with, as the names of the jars say."""
        found = [path.stem for folder, jar, _ in _NEEDED for path in (self.directory / folder).glob(jar)]
        return ", ".join(name.replace("_2.13-", " ") for name in found)


def find_kafka(environment: Mapping[str, str] = os.environ) -> KafkaLibs:
    """Check that a broker and Spark's source can start.

    Raises:
        KafkaMissingError: there is no Java runtime, or a jar is missing.
    """
    if shutil.which("java", path=environment.get("PATH")) is None:
        raise KafkaMissingError("Kafka needs a Java runtime: install openjdk-17-jre-headless")
    cache = Path(environment.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    directory = Path(environment.get("DLOG_KAFKA_LIBS") or cache / "dlog" / "kafka-libs")
    for folder, jar, name in _NEEDED:
        if not list((directory / folder).glob(jar)):
            raise KafkaMissingError(
                f"no {name} in {directory / folder}: run tools/fetch-java-libs --kafka, or name a directory in "
                "DLOG_KAFKA_LIBS"
            )
    return KafkaLibs(directory)
