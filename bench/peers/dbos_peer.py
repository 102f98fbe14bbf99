"""DBOS: a library in the worker's process, state in Postgres. `python -m bench.peers.dbos_peer URL` is the worker.

Sessions are started in the worker, told by lines on its stdin, since its queue is polled once a second; approvals are
sent from the driver's process. Run in the peer's own environment.
"""

import asyncio
import json
import sys

from dbos import DBOS, DBOSClient, SetWorkflowID

from bench.bodies import effect, step_result
from bench.measure import FINISHED
from bench.peers.worker import READY, Worker

POOL = 20
TOPIC = "approval"
DAY_S = 86_400


class Dbos:
    """The driver's side."""

    def __init__(self, worker: Worker, url: str) -> None:
        self._worker = worker
        self._url = url

    async def connect(self) -> None:
        """Opens what approvals are sent through."""
        self._client = DBOSClient(
            system_database_url=self._url, system_database_pool_size=POOL, lazy=False
        )

    async def start(self, session: str, before: int, after: int) -> None:
        """Starts a session."""
        self._worker.tell({"session": session, "before": before, "after": after})

    async def approve(self, session: str) -> None:
        """Returns once the decision is in the database."""
        await self._client.send_async(session, {"verdict": "approve", "actor": "bench"}, TOPIC)

    async def close(self) -> None:
        """Lets the connections go."""
        self._client.destroy()


@DBOS.step()
async def step(session: str, number: int) -> dict[str, object]:
    """One durable step."""
    return step_result(session, number)


@DBOS.workflow()
async def agent(session: str, before: int, after: int) -> str:
    """The workload."""
    for number in range(before):
        await step(session, number)
    while not await DBOS.recv_async(TOPIC, timeout_seconds=DAY_S):
        pass
    for number in range(before, before + after):
        await step(session, number)
    effect(session, FINISHED, "done")
    return "ok"


async def serve(url: str) -> None:
    """Runs what stdin asks for, until it ends."""
    DBOS(
        config={
            "name": "bench",
            "system_database_url": url,
            "sys_db_pool_size": POOL,
            "log_level": "ERROR",
            "application_version": "1",
            "executor_id": "bench",
        }
    )
    DBOS.launch()
    print(READY, flush=True)
    loop = asyncio.get_running_loop()
    asked = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(asked), sys.stdin)
    running = set()
    while line := await asked.readline():
        task = asyncio.create_task(begin(**json.loads(line)))
        running.add(task)
        task.add_done_callback(running.discard)


async def begin(session: str, before: int, after: int) -> None:
    """Starts one workflow under the session's name."""
    with SetWorkflowID(session):
        await DBOS.start_workflow_async(agent, session, before, after)


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1]))
