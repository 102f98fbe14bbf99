"""The local stack: Kafka, Postgres and a Redis-compatible server on one machine."""

from .errors import StackError
from .stack import Endpoints, ServiceStatus, Stack, stack_home

__all__ = ["Endpoints", "ServiceStatus", "Stack", "StackError", "stack_home"]
