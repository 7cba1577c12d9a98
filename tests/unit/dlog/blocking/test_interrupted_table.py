"""A table that is complete when its call is interrupted is not returned, and its messages are not acknowledged."""

from __future__ import annotations

from typing import Any

import pytest

from ledger.errors import ConfigurationError
from tests.helpers.log.blocking_log import blocking_log


def test_what_an_interrupted_table_has_read_is_not_acknowledged(monkeypatch: pytest.MonkeyPatch) -> None:
    with blocking_log() as log:
        client = log.client()
        with client.open_writer("orders", create=True) as writer:
            ids = [writer.append(b"%d" % number) for number in range(3)]
        with client.reader("orders", until="latest", cursor="c") as reader:
            run_within = reader._thread.run_within

            def interrupted(*call: Any) -> None:
                run_within(*call)
                raise KeyboardInterrupt

            with monkeypatch.context() as patched:
                patched.setattr(reader._thread, "run_within", interrupted)
                with pytest.raises(KeyboardInterrupt):
                    reader.to_arrow()
            assert reader.position > ids[-1]
            with pytest.raises(ConfigurationError, match="cannot be acknowledged"):
                reader.ack()
            assert reader.cursor is not None and reader.cursor.position == ids[0]
        with client.reader("orders", until="latest", cursor="c") as reader:
            assert reader.to_arrow().num_rows == 3
            reader.ack()
