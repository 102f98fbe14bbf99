"""stub."""


def tail() -> None:
    """Tail."""
