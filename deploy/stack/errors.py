"""What the local stack says when it cannot do what was asked."""


class StackError(Exception):
    """The local stack cannot go on: the message names the value and the next step."""
