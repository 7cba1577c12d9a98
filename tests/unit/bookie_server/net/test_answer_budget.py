"""Three limits for answers that nobody has taken: of everybody, of who takes his answers, and of a takeover."""

from __future__ import annotations

from bookie_server.config import Limits
from bookie_server.net.answer_budget import LIGHT_BYTES, AnswerBudget

MIB = 1024 * 1024
LIMITS = Limits(unsent_bytes_max=64 * MIB, unsent_reserve_bytes=64 * MIB)


def places(budget: AnswerBudget) -> tuple[bool, bool, bool]:
    """For a peer that has answers to take, one that has taken its answers, and a fencing read of that one."""
    return (
        budget.has_place(MIB, 0, urgent=True),
        budget.has_place(LIGHT_BYTES, 0, urgent=False),
        budget.has_place(0, 0, urgent=True),
    )


def test_each_limit_ends_one_kind_of_reads() -> None:
    budget = AnswerBudget(LIMITS)
    for unsent_mib, expected in (
        (63, (True, True, True)),
        (64, (False, True, True)),
        (95, (False, True, True)),
        (96, (False, False, True)),
        (127, (False, False, True)),
        (128, (False, False, False)),
    ):
        budget.unsent_bytes = unsent_mib * MIB
        assert places(budget) == expected, unsent_mib


def test_a_running_read_counts_as_a_frame_and_its_peer_as_one_that_has_answers_to_take() -> None:
    budget = AnswerBudget(LIMITS)
    budget.running_reads = 13
    assert places(budget) == (False, True, True)
    assert not budget.has_place(0, 1, urgent=True)


def test_a_refusal_is_remembered() -> None:
    budget = AnswerBudget(LIMITS)
    assert budget.has_place(0, 0, urgent=False)
    assert not budget.refused
    budget.unsent_bytes = 100 * MIB
    assert not budget.has_place(0, 0, urgent=False)
    assert budget.refused
