"""pytest fixtures: `simulated_cluster` for async tests, `dlog_cluster` with real processes.

    async def test_orders_survive(simulated_cluster): ...

    @pytest.mark.dlog(seeds=20, bookies=5)
    async def test_with_any_luck(simulated_cluster): ...

    def test_with_processes(dlog_cluster): ...

A test that takes `simulated_cluster` runs on the simulated machine, once for each seed: `seeds` of the mark is their
number or the seeds themselves. `--dlog-seed N` runs all such tests with this seed only; `--dlog-timeline` adds the
messages between nodes to the report of a failure. Other fixtures of such a test are set up outside of the simulation,
so they cannot be coroutines.

Registered as an entry point, so it is loaded in every run of pytest where dlog is installed. Nothing but pytest is
imported before a fixture is used, and no feature of a newer pytest than 6.2: an import that fails ends all such runs.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NoReturn
from weakref import WeakKeyDictionary

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from dlog.testing.cluster import SimulatedCluster, Simulation
    from dlog.testing.real_cluster import RealCluster

_FIXTURE = "simulated_cluster"
_SETTINGS = ("seeds", "bookies", "config")
_simulations: WeakKeyDictionary[pytest.Item, Simulation] = WeakKeyDictionary()
_LINES = 200
"""Lines of the timeline in a failure report."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("dlog")
    group.addoption("--dlog-seed", type=int, metavar="N", help="simulated clusters: run only this seed")
    group.addoption(
        "--dlog-timeline",
        action="store_true",
        help="simulated clusters: print the messages between nodes when a test fails",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "dlog(seeds=1, bookies=3, config=None): the clusters of this test; `seeds` is their number or a list of seeds, "
        "`config` a dlog.testing.ClusterConfig",
    )


# ---- simulated


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if _FIXTURE in metafunc.fixturenames:
        seeds = _seeds(metafunc.config, _mark(metafunc.definition))
        metafunc.parametrize(_FIXTURE, seeds, indirect=True, ids=[f"seed-{seed}" for seed in seeds])


@pytest.fixture
def simulated_cluster(request: pytest.FixtureRequest) -> Iterator[SimulatedCluster]:
    """The simulated cluster, on the machine that the test itself runs on; its bookies serve when the test begins."""
    if _coroutine_function(request.function) is None:
        pytest.fail(f"{_FIXTURE} needs an async test: write 'async def {request.function.__name__}'")
    from dlog.testing.cluster import ClusterConfig, Simulation

    mark = _mark(request.node)
    config = mark.get("config")
    if config is None:
        config = ClusterConfig(bookies=mark.get("bookies", 3))
    elif not isinstance(config, ClusterConfig):
        _refuse(f"takes a dlog.testing.ClusterConfig as config, got {config!r:.80}")
    with_events = bool(request.config.getoption("--dlog-timeline"))
    simulation = Simulation(request.param, config=config, with_events=with_events)
    _simulations[request.node] = simulation
    try:
        yield simulation.cluster
    finally:
        simulation.close()


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Iterator[None]:
    """Runs before any asyncio plugin can run the test on a loop of its own."""
    simulation = _simulations.get(pyfuncitem)
    if simulation is not None:
        test = _coroutine_function(pyfuncitem.obj)
        assert test is not None, "checked by the fixture"
        pyfuncitem.obj = functools.partial(_run, simulation, test)
    outcome: Any = yield
    if simulation is not None and outcome.excinfo is not None:
        pyfuncitem.add_report_section("call", "dlog timeline", simulation.cluster.trace.timeline(_LINES))


def _run(simulation: Simulation, test: Callable[..., Any], **arguments: Any) -> None:
    simulation.run(lambda _: test(**arguments))


def _coroutine_function(test: Callable[..., Any]) -> Callable[..., Any] | None:
    """The test as written, if that is a coroutine function; another plugin may have wrapped it."""
    for each in (test, inspect.unwrap(test)):
        if inspect.iscoroutinefunction(each):
            return each
    return None


def _seeds(config: pytest.Config, mark: dict[str, Any]) -> Sequence[int]:
    one: int | None = config.getoption("--dlog-seed")
    if one is not None:
        return [one]
    given = mark.get("seeds", 1)
    seeds = range(given) if type(given) is int else given
    # pytest skips a test that has none, as if that were meant.
    if not isinstance(seeds, Sequence) or not seeds or not {int}.issuperset(map(type, seeds)):
        _refuse(f"takes as seeds their number, at least 1, or a list of them, got {given!r:.80}")
    return seeds


def _mark(node: pytest.Item | pytest.Collector) -> dict[str, Any]:
    """The settings of the nearest mark. One that would have no effect fails the test or its collection."""
    mark = node.get_closest_marker("dlog")
    if mark is None:
        return {}
    if mark.args:
        _refuse("takes its settings by name, as in @pytest.mark.dlog(seeds=20)")
    for name in mark.kwargs:
        if name not in _SETTINGS:
            _refuse(f"has no {name!r}: use {', '.join(_SETTINGS)}")
    if "bookies" in mark.kwargs and mark.kwargs.get("config") is not None:
        _refuse(f"has bookies and config: set ClusterConfig(bookies={mark.kwargs['bookies']}) instead")
    return dict(mark.kwargs)


def _refuse(what: str) -> NoReturn:
    pytest.fail(f"the mark 'dlog' {what}", pytrace=False)


# ---- real


@pytest.fixture
def dlog_cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RealCluster]:
    """A cluster of bookie processes for this test alone; their data and logs are in its `tmp_path`."""
    from dlog.testing.real_cluster import RealCluster

    mark = _mark(request.node)
    if mark.keys() - {"bookies"}:
        _refuse("has only bookies where a test takes dlog_cluster: seeds and config are of simulated_cluster")
    with RealCluster(tmp_path / "dlog", mark.get("bookies", 3)) as cluster:
        yield cluster
