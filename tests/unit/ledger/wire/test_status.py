"""Status codes and what they prove."""

import pytest

from ledger.errors import ProtocolError
from ledger.wire.status import Answer, Status, answer_of, from_v2, from_v3, to_v3


@pytest.mark.parametrize("status", Status)
def test_codes_of_both_protocols_lead_back(status: Status) -> None:
    assert from_v3(to_v3(status)) is status
    assert from_v2(int(status)) is status


def test_v3_codes_are_those_of_the_protocol() -> None:
    assert [to_v3(status) for status in Status] == [0, 402, 403, 404, 501, 502, 503, 504, 505, 506, 507]


@pytest.mark.parametrize("code", [-1, 1, 100, 107, 401, 405, 508])
def test_foreign_v3_code_is_refused(code: int) -> None:
    with pytest.raises(ProtocolError, match=f"v3 status {code} "):
        from_v3(code)


def test_only_a_missing_entry_or_ledger_is_a_proved_no() -> None:
    """Everything else is unknown: counting it as a no would let recovery cut acknowledged entries."""
    proved = {status for status in Status if answer_of(status) is Answer.PROVED_NO}
    assert proved == {Status.ENOENTRY, Status.ENOLEDGER}
    assert [status for status in Status if answer_of(status) is Answer.YES] == [Status.EOK]
