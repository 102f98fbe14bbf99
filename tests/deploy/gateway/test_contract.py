"""What the application does is what its OpenAPI document says: requests made up from it find nothing undocumented."""

from __future__ import annotations

import json

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from wakeful.deploy.gateway import terms, viewing
from wakeful.deploy.telling.asyncapi import asyncapi
from wakeful.projections.database import drop, install

from .posting import PROBLEM, Gateway

CHECKS = (
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
)

STREAMS = "text/event-stream"

EXAMPLES_MAX = 300


@pytest.fixture(scope="module")
def gateway(postgres_url, tmp_path_factory):
    install(postgres_url, "desk")
    found = Gateway(tmp_path_factory.mktemp("gateway"), url=postgres_url)
    found.open("s1")
    found.run(80)
    yield found
    found.close()
    drop(postgres_url, "desk")


def test_the_document_is_of_openapi_3_1_and_knows_every_problem(gateway):
    document = gateway.client.get("/openapi.json").json()
    assert document["openapi"].startswith("3.1")
    operations = [
        (path, method, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
        if path.startswith("/v1")
    ]
    assert len(operations) >= 12
    for path, method, operation in operations:
        for status, answer in operation["responses"].items():
            assert (PROBLEM in answer.get("content", {})) == (int(status) >= 400), (path, status)
        assert {"400", "401", "403", "404", "422", "500", "503"} <= set(operation["responses"])
        assert operation["security"] == ([] if "/hooks/" in path else [{"bearer": []}])
        if method == "post":
            assert {"409", "412", "413", "415", "429"} <= set(operation["responses"])


def test_beside_it_stands_what_the_topics_are(gateway):
    answer = gateway.client.get("/asyncapi.json")
    assert answer.headers["content-type"] == "application/json"
    given = gateway.services.settings
    assert answer.json() == json.loads(json.dumps(asyncapi(given.topics, given.partitions)))


def test_made_up_requests_find_nothing_that_is_not_documented(gateway, monkeypatch):
    monkeypatch.setattr(viewing, "WAIT_MS", 50)  # most positions that are made up never come
    monkeypatch.setattr(terms, "WAIT_MAX_S", 1)
    key = gateway.key("operator")
    schema = schemathesis.openapi.from_asgi("/openapi.json", gateway.client.app)
    operations = [found.ok() for found in schema.include(path_regex="^/v1/").get_all_operations()]
    cases = st.one_of([each.as_strategy() for each in operations if not streams(each)])
    seen: dict[int, int] = {}

    @settings(
        max_examples=EXAMPLES_MAX,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=cases)
    def ask(case):
        answer = case.call(headers={"authorization": f"Bearer {key}"})
        seen[answer.status_code] = seen.get(answer.status_code, 0) + 1
        case.validate_response(answer, checks=CHECKS)

    ask()
    assert sum(seen.values()) >= EXAMPLES_MAX
    assert {202, 404, 422} <= set(seen), seen


def streams(operation):
    return any(
        STREAMS in answer.get("content", {})
        for answer in operation.definition.raw["responses"].values()
    )
