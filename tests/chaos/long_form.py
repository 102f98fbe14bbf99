"""What `make test` leaves out, and `make chaos-tests` runs."""

import os

import pytest

whole = pytest.mark.skipif(
    "WAKEFUL_CHAOS_KILLS" not in os.environ, reason="a part of the long form: 'make chaos-tests'"
)
"""For tests of which another, that `make test` runs, is the short form."""
