"""Requests to a payment service, made by hand."""

import http.client
import json

from wakeful.deploy.demo.payments import Service

LIMIT_S = 20


def ask(service: Service, method: str, target: str, body: bytes = b"", **headers: str):
    """Status, headers and JSON of one request."""
    connection = http.client.HTTPConnection("127.0.0.1", port(service), timeout=LIMIT_S)
    try:
        connection.request(method, target, body, headers)
        answer = connection.getresponse()
        raw = answer.read()
        return answer.status, answer.headers, json.loads(raw) if raw else None
    finally:
        connection.close()


def port(service: Service) -> int:
    return int(service.url.rsplit(":", 1)[1])


def refund(key: str, order_id: str = "order-7", cents: int = 2_500) -> bytes:
    return json.dumps({"key": key, "order_id": order_id, "cents": cents}).encode()


def summary(service: Service) -> dict:
    return ask(service, "GET", "/summary")[2]
