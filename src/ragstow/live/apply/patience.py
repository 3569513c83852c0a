"""Bears an API server that is away for a moment: restarted, overloaded, or in the middle of an election.

Only for calls that may be made twice. What the server refuses for good is raised at once.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from ragstow.errors import ClusterError, TimeoutReached
from ragstow.live.failures import ApiError, Conflict, Forbidden

T = TypeVar("T")

_SECONDS = 90.0
_PAUSE_SECONDS = 0.5
_WARM_UP_SECONDS = 15.0
"""After a restart a server may refuse for some seconds what it will allow: it has not read the roles yet."""
_REFUSED_SECONDS = 5.0
"""The same where the restart itself was not seen, in a run that had its rights before."""


class Patience:
    """Makes calls again until they are answered.

    Args:
        seconds: how long one call may be tried.
        sleep, clock: how to wait and what time it is (tests give their own).
    """

    def __init__(
        self,
        seconds: float = _SECONDS,
        *,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._seconds = seconds
        self._sleep = sleep
        self._clock = clock
        self._troubled = -_WARM_UP_SECONDS
        self._answered = False
        self._refused: float | None = None

    def __call__(self, call: Callable[[], T]) -> T:
        """The answer of `call`.

        Raises:
            ApiError, ClusterError, TimeoutReached: those of the call, when they last or are final.
        """
        end = self._clock() + self._seconds
        while True:
            try:
                answer = call()
            except (ClusterError, TimeoutReached) as error:
                if not self.bears(error) or self._clock() >= end:
                    raise
            else:
                self._answered, self._refused = True, None
                return answer
            self._sleep(_PAUSE_SECONDS)

    def bears(self, error: ClusterError | TimeoutReached) -> bool:
        """Whether an error may be gone a moment later; remembers that there was trouble."""
        now = self._clock()
        if isinstance(error, TimeoutReached) or error.code in ("unreachable", "answer-broken"):
            self._troubled = now
            return True
        if isinstance(error, Forbidden) or error.code == "unauthorized":
            self._refused = now if self._refused is None else self._refused
            unseen = self._answered and now - self._refused < _REFUSED_SECONDS
            return unseen or now - self._troubled < _WARM_UP_SECONDS
        if isinstance(error, Conflict):
            return not error.owned and error.reason == "Conflict"
        if isinstance(error, ApiError) and (error.status >= 500 or error.status == 429):
            self._troubled = now
            return True
        return False
