"""How a call of an MCP server's tool fails; the names are what a model reads, and what `Retry.never` goes by.

```
ToolFailed       the server says that the tool failed (isError): whatever it did before that is done
ToolRefused      the same of a tool whose errors are certain, by its manifest: nothing was done
ServerError      the server answered with a protocol error, or with what the protocol does not know
Disconnected     the connection broke in the middle of the call: it may have been carried out
NotConnected     there was no connection, so nothing was sent
SchemaChanged    the server describes the tool otherwise than people have reviewed it, so nothing was sent
```
"""

from __future__ import annotations

from ..activities.contracts import NothingDone
from ..activities.signatures import Declined


class ToolFailed(Exception):
    """See the module."""


class ToolRefused(NothingDone):
    """See the module."""


class ServerError(Exception):
    """See the module."""


class Disconnected(Exception):
    """See the module."""


class NotConnected(NothingDone):
    """See the module."""


class SchemaChanged(NothingDone):
    """See the module."""


class WrongManifest(Declined):
    """A manifest that cannot be used; says which, where, and what to write."""
