"""A payment service that charges the same key twice: a process with a durable book, its client, and faults on demand.

It plays the outside world that no idempotency key protects. `python -m wakeful.deploy.demo.payments --file PATH`
starts it by hand, `Service` from Python; `Payments` talks to it, `read_book` tells afterwards what was really paid.
"""

from .book import Book, BookBroken, BookHeld, Charge, Undo, read_book
from .client import (
    PaymentError,
    PaymentRefused,
    Payments,
    PaymentsUnavailable,
    PaymentUnknown,
    SeveralCharges,
)
from .faults import Fault
from .process import Service

__all__ = [
    "Book",
    "BookBroken",
    "BookHeld",
    "Charge",
    "Fault",
    "PaymentError",
    "PaymentRefused",
    "PaymentUnknown",
    "Payments",
    "PaymentsUnavailable",
    "Service",
    "SeveralCharges",
    "Undo",
    "read_book",
]
