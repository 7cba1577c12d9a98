"""What a scan refuses before it connects."""

from __future__ import annotations

import pytest

from ledger.errors import ConfigurationError


@pytest.mark.parametrize("policy", ["on_trimmed", "on_data_loss"])
def test_a_scan_refuses_gaps_and_names_what_returns_them(policy: str) -> None:
    """It has no `batch_items` of its own, and there is no cluster at this address."""
    scan = pytest.importorskip("dlog.arrow").scan
    with pytest.raises(ConfigurationError, match=r"connect\(uri\)\.reader\(log, .*batch_items\(\)"):
        scan("sqlite:////no-such/meta.db", "orders", **{policy: "gap"})
