"""Roles belong to a server: two databases of it may use the same ones, and drop them at once."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial

from wakeful.deploy.stack import Endpoints
from wakeful.projections import probe
from wakeful.projections.database import drop, install

TIMES = 2


def test_two_databases_drop_the_same_roles_at_once(endpoints: Endpoints, namespace: str) -> None:
    names = [f"{namespace}_{one}" for one in "ab"]
    try:
        urls = [probe.create_database(endpoints.postgres, name) for name in names]
        for _ in range(TIMES):
            for url in urls:
                install(url, namespace)
            with ThreadPoolExecutor(len(urls)) as pool:
                list(pool.map(partial(drop, namespace=namespace), urls))
    finally:
        for name in names:
            probe.drop_database(endpoints.postgres, name)
