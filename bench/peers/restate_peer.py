"""Restate: a server, and a worker that it calls over HTTP/2. `python -m bench.peers.restate_peer PORT` is the worker.

Approvals are sent, not called: accepted by the server at once, and taken in by the worker. Run in the peer's own
environment.
"""

import asyncio
import sys

import httpx
import restate
from hypercorn.asyncio import serve as serve_http
from hypercorn.config import Config

from bench.bodies import effect, step_result
from bench.measure import FINISHED
from bench.peers.worker import READY, Worker

CONNECTIONS = 64
LIMIT_S = 60.0
PROMISE = "approval"
NO_LIMIT = 2**31 - 1

agent = restate.Workflow("Agent")


class Restate:
    """The driver's side."""

    def __init__(self, worker: Worker, *, ingress: str, admin: str, service: str) -> None:
        del worker  # it is spoken to through the server
        self._ingress, self._admin, self._service = ingress, admin, service

    async def connect(self) -> None:
        """Tells the server where the worker is; a repeat replaces what it knew."""
        limits = httpx.Limits(max_connections=CONNECTIONS)
        self._client = httpx.AsyncClient(limits=limits, timeout=LIMIT_S, trust_env=False)
        deployment = {"uri": self._service, "use_http_11": False, "force": True}
        await self._post(f"{self._admin}/deployments", deployment)

    async def start(self, session: str, before: int, after: int) -> None:
        """Returns once the server has it."""
        asked = {"before": before, "after": after}
        await self._post(f"{self._ingress}/Agent/{session}/run/send", asked)

    async def approve(self, session: str) -> None:
        """Returns once the server has it."""
        decision = {"verdict": "approve", "actor": "bench"}
        await self._post(f"{self._ingress}/Agent/{session}/approve/send", decision)

    async def close(self) -> None:
        """Lets the connections go."""
        await self._client.aclose()

    async def _post(self, url: str, body: dict[str, object]) -> None:
        answer = await self._client.post(url, json=body)
        if answer.is_error:
            raise RuntimeError(f"{url} answered {answer.status_code}: {answer.text[:300]}")


async def step(session: str, number: int) -> dict[str, object]:
    """One durable step."""
    return step_result(session, number)


@agent.main()
async def run(ctx: restate.WorkflowContext, asked: dict[str, int]) -> str:
    """The workload."""
    session, before, after = ctx.key(), asked["before"], asked["after"]
    options = restate.RunOptions()
    for number in range(before):
        await ctx.run_typed(f"step {number}", step, options, session, number)
    await ctx.promise(PROMISE).value()
    for number in range(before, before + after):
        await ctx.run_typed(f"step {number}", step, options, session, number)
    effect(session, FINISHED, "done")
    return "ok"


@agent.handler()
async def approve(ctx: restate.WorkflowSharedContext, decision: dict[str, str]) -> None:
    """Lets the waiting session go on."""
    await ctx.promise(PROMISE).resolve(decision)


async def serve(port: int) -> None:
    """Answers the server until it is ended; without bounds that a long run would meet."""
    config = Config()
    config.bind = [f"127.0.0.1:{port}"]
    config.loglevel = "ERROR"
    config.h2_max_concurrent_streams = NO_LIMIT
    config.keep_alive_max_requests = NO_LIMIT
    config.wsgi_max_body_size = NO_LIMIT
    config.startup_timeout = LIMIT_S
    print(READY, flush=True)
    await serve_http(restate.app([agent]), config)


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1])))
