# SPDX-License-Identifier: GPL-3.0-or-later
"""The health service of every server: whether it serves, for whoever asks; nobody is kept waiting for a change.

``grpc_health``'s own servicer lets anybody watch: a call that never ends, keeps its request, and is written to under
a lock that setting a status takes as well, so that one watcher who does not read stops a server from ending.  The
protocol allows a server to offer no Watch; callers then ask by Check.
"""

from __future__ import annotations

from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

SERVICE = health_pb2.DESCRIPTOR.services_by_name["Health"].full_name

_STATUS = {True: health_pb2.HealthCheckResponse.SERVING, False: health_pb2.HealthCheckResponse.NOT_SERVING}


class Health(health_pb2_grpc.HealthServicer):  # type: ignore[misc]
    """Of some services and, under the name "", of the whole server; nothing serves before :meth:`say`."""

    def __init__(self, *services: str) -> None:
        self._serving = dict.fromkeys(("", SERVICE, *services), False)

    def mount(self, server: Any) -> None:
        """Add the service to a grpc.aio server."""
        health_pb2_grpc.add_HealthServicer_to_server(self, server)

    def say(self, serving: bool, *services: str) -> None:
        """From now on, of these services, or of all of them.  Waits for nobody."""
        self._serving |= dict.fromkeys(services or self._serving, serving)

    async def Check(self, request: health_pb2.HealthCheckRequest, context: Any) -> Any:
        serving = self._serving.get(request.service)
        if serving is None:
            await context.abort(grpc.StatusCode.NOT_FOUND, "this server has no such service")
        return health_pb2.HealthCheckResponse(status=_STATUS[bool(serving)])

    async def Watch(self, request: health_pb2.HealthCheckRequest, context: Any) -> None:
        await context.abort(grpc.StatusCode.UNIMPLEMENTED, "ask by Check: nobody is told of changes")
