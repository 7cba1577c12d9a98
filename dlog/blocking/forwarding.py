"""The table by which the blocking API forwards: each row is a signature, and the asyncio method that does the work.

    @forwards(LogClient.shrink)
    def shrink(self, log: str, before: MessageId | str, *, timeout_s: float | None = None) -> LogMetadata: ...

The signature stands in the blocking class, where people and type checkers read it. Behaviour and documentation are
those of the asyncio method. tests/unit/dlog/blocking/test_signatures.py compares the parameters of both.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar, cast

P = ParamSpec("P")
T = TypeVar("T")

_TIMEOUT = "After `timeout_s` seconds the call is cancelled and raises CallTimeoutError."


def forwards(
    method: Callable[..., Any], convert: Callable[[Any, Any], Any] | None = None
) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Have a blocking method, whose body is `...`, call `method` of its object's `_target`.

    It runs on the loop. If its signature has `timeout_s`, the method is awaited, for at most this time. `convert` makes
    what the caller gets from the blocking object and the result; it runs on the loop, too.
    """

    def implement(row: Callable[P, T]) -> Callable[P, T]:
        checks: Callable[..., Any] = row
        waits = "timeout_s" in inspect.signature(row).parameters

        @wraps(row)
        def call(blocking: Any, *args: Any, **options: Any) -> Any:
            checks(blocking, *args, **options)  # refuses what its signature does not have
            timeout_s = options.pop("timeout_s", None)

            def begin() -> Any:
                return method(blocking._target, *args, **options)

            def converted(found: Any) -> Any:
                return found if convert is None else convert(blocking, found)

            async def wait() -> Any:
                return converted(await begin())

            if waits:
                return blocking._thread.run_within(timeout_s, row.__name__, wait)
            # Not here: the client notes what it opens in a dict, over which the loop may be iterating to close it.
            return blocking._thread.call(lambda: converted(begin()))

        call.__doc__ = _documentation(method, waits)
        return cast(Callable[P, T], call)

    return implement


def _documentation(method: Callable[..., Any], waits: bool) -> str:
    text = inspect.getdoc(method) or ""
    text = (
        text.replace("LogClient", "Client").replace("LogWriter", "Writer").replace("LogProducer", "Producer")
    )
    return f"{text}\n\n{_TIMEOUT}" if waits else text
