"""How long Postgres takes for a page of each list, by each filter, of very many rows; the first page and one far down.

    python -m bench.pages --rows 1000000

One JSON line per way to read a list: milliseconds of 50 rows and of the buffers that were touched.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from wakeful.deploy.stack import Stack
from wakeful.projections.counts import counts
from wakeful.projections.database import drop, install
from wakeful.projections.listings import LISTINGS, SINCE, Listing, Route
from wakeful.projections.pages import statement_of
from wakeful.projections.queries import Queries
from wakeful.projections.sessions import WAITS

from .many_rows import T0_MS, fill

TENANT = "t0"
PAGE = 50

VALUES: dict[str, str | int] = {
    "status": "Failed",
    "workflow": "flow-3",
    "opened_by": "user-3",
    "held": 1,
    "attributes": "customer=c-3&region=r-2",
    "id_prefix": "s-12",
    "session_id": "s-80",
    "open": 1,
    "approver": "rule-1",
    "action": "tool-2",
    "name": "job-1",
    "reason": "reason-1",
    "kind": "kind-3",
    **{f"waiting_{kind}": 1 for kind in WAITS},
}
OTHERS: dict[str, dict[str, str | int]] = {
    "approvals": {"status": "granted"},
    "ledger": {"status": "failed"},
    "sessions": {"workflow": "flow-6"},
}


def wanted_of(listing: Listing, route: Route) -> dict[str, str | int]:
    """A value for each filter of this way."""
    values = {**VALUES, **OTHERS.get(listing.name, {})}
    wanted = {name: values[name] for name in route.filters}
    return wanted if route.ranged is None else {**wanted, route.ranged + SINCE: T0_MS}


def measure(queries: Queries, listing: Listing, route: Route, reps: int) -> None:
    """The first page, and the page behind a thousand rows."""
    wanted = wanted_of(listing, route)
    statement, values = statement_of(listing, route, wanted, None)
    rows = queries.walk(statement, tenant=TENANT, limit=1_000, **values)
    behind = [rows[-1][f"key_{column}"] for column in route.order]
    for page, key in (("first", None), ("deep", behind)):
        statement, values = statement_of(listing, route, wanted, key)
        took = []
        for _ in range(reps):
            began = time.perf_counter()
            found = queries.walk(statement, tenant=TENANT, limit=PAGE + 1, **values)
            took.append((time.perf_counter() - began) * 1000)
        tell(f"{listing.name} by {'+'.join(route.filters) or route.ranged}", page, took, len(found))


def tell(what: str, page: str, took: Sequence[float], rows: int) -> None:
    """One line."""
    line = {
        "measure": "page",
        "list": what,
        "page": page,
        "rows": rows,
        "ms_median": round(statistics.median(took), 2),
        "ms_max": round(max(took), 2),
    }
    print(json.dumps(line), flush=True)


def main() -> None:
    """On a stack of its own, or the one that the environment names."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--reps", type=int, default=20)
    asked = parser.parse_args()
    namespace = f"bench-pages-{os.getpid()}"
    with tempfile.TemporaryDirectory(prefix="wakeful-bench-") as folder:
        stack = Stack(Path(folder), environ=os.environ)
        try:
            stack.up()
            endpoints = stack.endpoints()
            assert endpoints is not None
            url = endpoints.postgres
            install(url, namespace)
            fill(url, namespace, {TENANT: asked.rows, "t1": 1_000})
            with Queries(url, namespace, tenant=TENANT) as queries:
                for listing in LISTINGS:
                    for route in listing.routes:
                        measure(queries, listing, route, asked.reps)
                took = []
                for _ in range(asked.reps):
                    began = time.perf_counter()
                    counts(queries, T0_MS + asked.rows)
                    took.append((time.perf_counter() - began) * 1000)
                tell("overview", "all", took, 1)
            drop(url, namespace)
        finally:
            stack.reset()


if __name__ == "__main__":
    main()
