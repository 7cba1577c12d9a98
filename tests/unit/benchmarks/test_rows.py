"""Values of several rounds become one row with their median."""

from benchmarks.rows import Runs


def test_a_row_has_the_median_and_keeps_every_round() -> None:
    runs = Runs()
    for value in (3.0, 1.0, 2.0):
        runs.add("1 KiB", "ours", value)
    row = runs.row("1 KiB", "ours", "entries/s", floor=4.0, target=3.0)
    assert (row.value, row.runs, row.ratio, row.reached) == (2.0, (3.0, 1.0, 2.0), 0.5, False)
    assert runs.median("1 KiB", "ours") == 2.0
