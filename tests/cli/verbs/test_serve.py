import socket
from contextlib import ExitStack

from gpudash.cli.verbs.serve import Address, Exporter, Server
from tests.waiting import LIMIT_SECONDS

CLIENTS = 64


def test_clients_that_come_at_once_are_kept_until_they_are_served() -> None:
    exporter = Exporter("legacy", 1.0)
    with ExitStack() as stack:
        server = stack.enter_context(Server(Address("127.0.0.1", 0), exporter, None))
        where = server.socket.getsockname()
        for _ in range(CLIENTS):
            stack.enter_context(socket.create_connection(where, LIMIT_SECONDS / CLIENTS))
