"""`wakeful.pydantic_ai`: agents of Pydantic AI as workflows. It needs `pip install 'wakeful[pydantic-ai]'`."""

try:
    import pydantic_ai as _library
except ModuleNotFoundError as _error:
    if _error.name != "pydantic_ai":
        raise
    raise ImportError(
        "wakeful.pydantic_ai needs the library: pip install 'wakeful[pydantic-ai]'"
    ) from _error

from .processors.activities.inside import key_of_call as idempotency_key
from .processors.agents.pydantic_agents.agent import DurableAgent, durable
from .processors.agents.pydantic_agents.asking import TooManyRetries
from .processors.agents.pydantic_agents.talk import Talk
from .processors.agents.pydantic_agents.tools import Rules, Undeclared

__all__ = [
    "DurableAgent",
    "Rules",
    "Talk",
    "TooManyRetries",
    "Undeclared",
    "durable",
    "idempotency_key",
]
del _library
