"""Ways to tamper with a chronicle."""


def on(kind, change):
    """A tamper that changes facts of one kind; `change` gives what is written instead."""

    def tamper(body):
        return change(body) if isinstance(body, kind) else [body]

    return tamper


def without(records, index):
    return [*records[:index], *records[index + 1 :]]
