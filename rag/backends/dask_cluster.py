"""An existing Dask cluster, on which functions of this package run."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from distributed import Client, KilledWorker, Status, as_completed, get_worker

from rag.errors import ProviderUnreachable, SettingsError

_SCHEMES = {"dask": "tcp", "dask+tls": "tls"}
_TIMEOUT_S = 10.0
_ENDING = (Status.closing, Status.closed, Status.failed)
"""The states of a worker that ends, also after its scheduler; it waits up to 30 s for what it runs."""


class DaskCluster:
    """A connection to the scheduler of a Dask cluster.

    Dask pickles functions by name, so the package must be installed on all nodes.

    Args:
        address: `dask://HOST:PORT`, or `dask+tls://…` with the certificates of Dask's own configuration.

    Raises:
        SettingsError: the address is not of this form.
        ProviderUnreachable: no scheduler answers there.
    """

    def __init__(self, address: str) -> None:
        scheme, _, place = address.partition("://")
        host, _, port = place.rpartition(":")
        if scheme not in _SCHEMES or not host or not port.isdecimal():
            raise SettingsError(f"unknown executor {address!r}; use dask://HOST:PORT or dask+tls://HOST:PORT")
        self.address = address
        for name in ("distributed", "distributed.client"):
            logging.getLogger(name).setLevel(logging.CRITICAL)  # errors are raised below
        try:
            self._client = Client(
                f"{_SCHEMES[scheme]}://{place}", timeout=_TIMEOUT_S, set_as_default=False, name="rag"
            )
        except (OSError, ValueError, RuntimeError) as error:  # refused, silent, no certificate, no scheduler
            raise self._unreachable(str(error)) from error

    @property
    def threads(self) -> int:
        """How many functions run at once; 0 while no worker has joined."""
        return sum(self._client.nthreads().values())

    def on_scheduler(self, function: Callable[..., Any], *args: Any) -> Any:
        """Return what a function returns on the scheduler, or the exception that it raises."""
        try:
            return self._client.run_on_scheduler(function, *args)
        except Exception as error:  # noqa: BLE001 - whatever a node raises is a result
            return error

    def on_workers(self, function: Callable[..., Any], *args: Any) -> dict[str, Any]:
        """Return what a function returns on each worker, or the exception, by the worker's address."""
        found: dict[str, Any] = self._client.run(function, *args, on_error="return")
        return found

    def run(self, function: Callable[..., Any], calls: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
        """Run `function(argument, is_cancelled)` for each argument; yield names and results as they end.

        The result is an exception if the function raised one, or its worker ended several times meanwhile. If
        the iteration is ended, waiting calls are dropped; in those that run, `is_cancelled()` becomes true.

        Args:
            function: a function of a module.
            calls: an argument by a name that is used once in the life of the cluster.

        Raises:
            ProviderUnreachable: the connection to the scheduler was lost.
        """
        futures = self._client.map(
            partial(_call, function), list(calls.values()), key=list(calls), pure=False
        )
        try:
            for future in as_completed(futures, loop=self._client.loop, raise_errors=False):
                if future.status in ("cancelled", "lost"):
                    raise self._unreachable("the connection to the scheduler was lost")
                yield future.key, _result(future)
                future.release()  # else it is computed again if the worker with the result ends
        finally:
            with suppress(OSError, TimeoutError):
                self._client.cancel(futures, force=True)

    def close(self) -> None:
        """Close the connection. Closing twice is allowed."""
        self._client.close()

    def _unreachable(self, why: str) -> ProviderUnreachable:
        return ProviderUnreachable(
            f"the Dask cluster {self.address} cannot be reached: {why}; start its scheduler, or correct "
            "--executor, then run the command again: it continues",
            provider="dask",
            retryable=True,
        )


def _call(function: Callable[..., Any], argument: Any) -> Any:
    """Run a function on a worker. Dask cannot end it, but its worker knows that it is cancelled."""
    worker = get_worker()
    tasks, key = worker.state.tasks, worker.get_current_task()

    def is_cancelled() -> bool:
        task = tasks.get(key)
        return task is None or task.state != "executing" or worker.status in _ENDING

    return function(argument, is_cancelled)


def _result(future: Any) -> Any:
    if future.status == "finished":
        return future.result()
    error = future.exception()
    if isinstance(error, KilledWorker):
        return RuntimeError(
            "its Dask worker ended each time it ran, see the worker's log; check that there is enough memory"
        )
    return error
