"""Logs as Arrow data: what pandas, Polars, DuckDB and Spark read. Needs the extra `arrow`.

    dlog.arrow.scan(uri, "orders").read_pandas()

Readers have the same as `to_arrow` and `arrow_batches`.
`scan` is loaded on first use: Spark's processes need the columns, and not the client.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ledger.extras import require

require("dlog.arrow", "arrow", "pyarrow", "numpy")

if TYPE_CHECKING:
    from dlog.arrow.scanning import scan

__all__ = ["scan"]

if not TYPE_CHECKING:  # a type checker that saw it would take every name for known

    def __getattr__(name: str) -> Any:
        if name != "scan":
            raise AttributeError(f"module 'dlog.arrow' has no attribute {name!r}")
        from dlog.arrow.scanning import scan

        return globals().setdefault(name, scan)


def __dir__() -> list[str]:
    return sorted(__all__)
