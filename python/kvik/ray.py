"""Kvik on many machines, as an application of Ray Serve: `serve run kvik.ray:app model=fable max_replicas=8`.

Every replica runs the server of `kvik serve` with the models; an ingress takes requests of OpenAI's and Ollama's interfaces and streams the answers.
Ray starts, scales, checks and replaces replicas. A request goes to the replica that has computed the longest beginning of its prompt, else to
the one that consistent hashing chooses, and to any other if that one is full.

If a replica dies, requests that it had not begun to answer run again on another one. Those that had begun end with an error: an event
{"error": …} in a stream, a closed connection otherwise. Other requests do not notice.
"""
from __future__ import annotations

import asyncio
import json
from typing import Any, AsyncIterator

import httpx
from ray import serve
from ray.exceptions import RayActorError
from ray.serve.config import AutoscalingConfig, RequestRouterConfig
from ray.serve.request_router import FIFOMixin, PendingRequest, ReplicaID, RequestRouter, RunningReplica
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from . import serving
from .prefixes import PrefixTable, blocks_of, consistent_choice, prompt_text

_ATTEMPTS = 4  # of a request that no replica began to answer
_FORWARDED = ("content-type", "authorization", "accept", "user-agent")
_LOST = "the replica that ran the request was lost; send the request again"


class PrefixRouter(FIFOMixin, RequestRouter):  # type: ignore[misc]
    """Ray's router, but replicas are ordered by prefix; `request()` gets the hashes of blocks_of() as `blocks`."""

    def initialize_state(self, **_: Any) -> None:
        self._table = PrefixTable()

    async def choose_replicas(
        self, candidate_replicas: list[RunningReplica], pending_request: PendingRequest | None = None
    ) -> list[list[RunningReplica]]:
        blocks = _blocks(pending_request)
        if not blocks or not candidate_replicas:
            return [candidate_replicas]
        by_name = {str(replica.replica_id): replica for replica in candidate_replicas}
        best = self._table.longest(blocks, list(by_name)) or consistent_choice(blocks[0], list(by_name))
        rest = [replica for name, replica in by_name.items() if name != best]
        return [[by_name[best]], rest] if rest else [[by_name[best]]]

    def on_request_routed(self, pending_request: PendingRequest, replica_id: ReplicaID, result: Any) -> None:
        self._table.record(_blocks(pending_request), str(replica_id))

    def on_replica_actor_died(self, replica_id: ReplicaID) -> None:
        super().on_replica_actor_died(replica_id)
        self._table.forget(str(replica_id))


def _blocks(pending: PendingRequest | None) -> list[int]:
    blocks: list[int] = pending.kwargs.get("blocks", []) if pending is not None else []
    return blocks


class Replica:
    """The server of `kvik serve` on a free local port, which only this process uses."""

    def __init__(self, models: list[str], load: dict[str, Any], options: dict[str, Any]) -> None:
        self._server = serving.Server(models, {**options, "host": "127.0.0.1", "port": 0}, load)  # type: ignore[arg-type]
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=64)
        self._client = httpx.AsyncClient(base_url=self._server.url, timeout=None, limits=limits)

    async def request(self, method: str, path: str, headers: dict[str, str], body: bytes, blocks: list[int]) -> AsyncIterator[Any]:
        """(status, content type), then the parts of the answer. Leaving it closes the connection, which cancels the generation."""
        async with self._client.stream(method, path, headers=headers, content=body) as response:
            yield response.status_code, response.headers.get("content-type", "application/json")
            async for part in response.aiter_raw():
                yield part

    async def check_health(self) -> None:
        (await self._client.get("/health", timeout=10)).raise_for_status()


class Ingress:
    """Takes requests and streams the answers of replicas."""

    def __init__(self, replicas: Any) -> None:
        self._replicas = replicas.options(stream=True)

    async def __call__(self, request: Request) -> Response:
        body = await request.body()
        headers = {name: value for name, value in request.headers.items() if name in _FORWARDED}
        path = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        for attempt in range(_ATTEMPTS):
            answer = self._replicas.request.remote(request.method, path, headers, body, blocks=blocks_of(prompt_text(body)))
            try:
                parts = answer.__aiter__()
                status, kind = await parts.__anext__()
                first = await anext(parts, None)
            except RayActorError:
                await asyncio.sleep(0.1 * 2**attempt)
                continue
            return StreamingResponse(_rest(first, parts, kind), status, media_type=kind)
        return JSONResponse({"error": {"message": "no replica could run the request", "type": "server_error"}}, 503)


async def _rest(first: bytes | None, parts: Any, kind: str) -> AsyncIterator[bytes]:
    try:
        if first is not None:
            yield first
        async for part in parts:
            yield part
    except RayActorError:
        error = json.dumps({"error": {"message": _LOST, "type": "server_error", "code": "replica_lost"}})
        if kind.startswith("text/event-stream"):
            yield f"data: {error}\n\n".encode()
        elif kind.startswith("application/x-ndjson"):
            yield f'{json.dumps({"error": _LOST})}\n'.encode()
        else:
            raise


def app(args: dict[str, Any]) -> serve.Application:
    """The application. Arguments:

    model: name or folder; several are separated by commas
    min_replicas (1), max_replicas (1): replicas; more are started while each has more than target_requests (16) at a time
    upscale_delay_s (30), downscale_delay_s (600): how long that must be so before Ray starts or stops replicas
    max_requests (64): that a replica runs at a time; others wait
    num_cpus (1): processors of a replica; also the number of its threads
    max_ongoing_ingress (1000): requests that the ingress handles at a time
    Any other argument is an option of the model, such as weights=q8.
    """
    args = dict(args)
    models = [name.strip() for name in str(args.pop("model")).split(",")]
    n_min, n_max = int(args.pop("min_replicas", 1)), int(args.pop("max_replicas", 1))
    target, most = float(args.pop("target_requests", 16)), int(args.pop("max_requests", 64))
    up, down = float(args.pop("upscale_delay_s", 30)), float(args.pop("downscale_delay_s", 600))
    num_cpus = float(args.pop("num_cpus", 1))
    ongoing = int(args.pop("max_ongoing_ingress", 1000))
    load = {"threads": max(int(num_cpus), 1), **args}
    replicas = serve.deployment(
        Replica,
        name="KvikReplica",
        autoscaling_config=AutoscalingConfig(
            min_replicas=n_min,
            max_replicas=max(n_max, n_min),
            target_ongoing_requests=target,
            upscale_delay_s=up,
            downscale_delay_s=down,
        ),
        max_ongoing_requests=most,
        ray_actor_options={"num_cpus": num_cpus},
        request_router_config=RequestRouterConfig(request_router_class="kvik.ray:PrefixRouter"),
        health_check_period_s=5,
    )
    ingress = serve.deployment(Ingress, name="KvikIngress", max_ongoing_requests=ongoing, ray_actor_options={"num_cpus": 0})
    return ingress.bind(replicas.bind(models, load, {"max_sequences": most}))
