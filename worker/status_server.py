"""`/metrics`, `/healthz` and `/readyz`, answered by a thread: also while the loop is stuck."""

import threading
from collections.abc import Callable, Iterable
from socketserver import ThreadingMixIn
from typing import TYPE_CHECKING, Final
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import REGISTRY, make_wsgi_app  # pyright: ignore[reportUnknownVariableType]

from ..schemas import SluiceError

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

# What a probe gets: None when all is well, else a sentence that says what is not.
Probe = Callable[[], str | None]
_JOIN_TIMEOUT_S: Final = 5.0


class PortTaken(SluiceError):
    """The port for metrics and health can't be had."""


class _Server(ThreadingMixIn, WSGIServer):
    """A thread for each request: a client that dawdles holds up nobody, not even the end."""

    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that went away, or said nothing, is no news."""


class _QuietHandler(WSGIRequestHandler):
    timeout = 10  # seconds: a client that says nothing doesn't hold the thread

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Probes come every few seconds; nobody wants to read of them."""


class StatusServer:
    """Serves until it is closed. `alive` and `ready` are called in the server's thread."""

    def __init__(self, host: str, port: int, *, alive: Probe, ready: Probe) -> None:
        self._probes = {"/healthz": alive, "/readyz": ready}
        self._metrics: WSGIApplication = make_wsgi_app(REGISTRY)
        try:
            self._server = make_server(
                host, port, self._answer, server_class=_Server, handler_class=_QuietHandler
            )
        except OSError as error:
            raise PortTaken(
                f"can't listen on {host}:{port} ({error.strerror}); set metrics_port to another "
                "port, or to 0 for any free one"
            ) from error
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="status", daemon=True
        )
        self._thread.start()

    @property
    def port(self) -> int:
        """The port it listens on."""
        return self._server.server_port

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(_JOIN_TIMEOUT_S)

    def _answer(self, environ: "WSGIEnvironment", start: "StartResponse") -> Iterable[bytes]:
        path = str(environ.get("PATH_INFO", ""))
        if path == "/metrics":
            return self._metrics(environ, start)
        probe = self._probes.get(path)
        if probe is None:
            return _say(start, "404 Not Found", "try /metrics, /healthz or /readyz")
        trouble = probe()
        status = "200 OK" if trouble is None else "503 Service Unavailable"
        return _say(start, status, trouble or "ok")


def _say(start: "StartResponse", status: str, text: str) -> Iterable[bytes]:
    start(status, [("Content-Type", "text/plain; charset=utf-8")])
    return [text.encode() + b"\n"]
