"""The past of this machine: the history of `gpudash serve`, read like a recording.

The service passes descriptors of its segments, and each client reads them itself.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

from gpudash.feed.attached import PAST_NAMES, Service, ServiceError
from gpudash.feed.collector import service_socket
from gpudash.feed.recording import segments
from gpudash.feed.recording.reader import Recording, open_coarse

_NAME = "gpudash serve"


class ServiceSegments:
    """The segments of the service, which may be replaced in the meantime."""

    path = _NAME

    def __init__(self) -> None:
        self._service: Service | None = None

    def names(self) -> Sequence[str]:
        """Return the names of all; raises ServiceError if there are none."""
        names, _ = self._ask(PAST_NAMES)
        found = [each for each in names or () if isinstance(each, str) and segments.is_name(each)]
        if not found:
            raise ServiceError(f"{_NAME} has no history of this host yet")
        return found

    def open(self, name: str) -> int:
        """Return a descriptor; raises FileNotFoundError if the segment is gone, ServiceError."""
        _, descriptor = self._ask(name)
        if descriptor is None:
            raise FileNotFoundError(name)
        return descriptor

    def _ask(self, name: str) -> tuple[Any, int | None]:
        if self._service is not None:
            try:
                return self._service.past(name)
            except ServiceError:
                self._service.close()
                self._service = None
        self._service = _connected()
        weakref.finalize(self, self._service.close)
        return self._service.past(name)


def _connected() -> Service:
    path = service_socket()
    if not path:
        raise ServiceError("no gpudash serve that may be asked runs here")
    service = Service(path)
    if not service.has_past:
        service.close()
        raise ServiceError("gpudash serve keeps no history here: start it with --history DIR")
    return service


def open_past(*, is_coarse: bool = False) -> Recording:
    """Return the past of this machine as a recording; a coarse one is for long spans.

    Raises ServiceError if there is none, WireError if it is unreadable.
    """
    past = ServiceSegments()
    return open_coarse(past) if is_coarse else Recording(past)
