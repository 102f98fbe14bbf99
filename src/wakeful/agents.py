"""`wakeful.agents`: agents as workflows, models behind one port, and the `chat` activity. No client library is loaded before its first call."""

from .processors.agents.anthropic_messages import AnthropicModel
from .processors.agents.chat import chat
from .processors.agents.conversation import Conversation
from .processors.agents.errors import (
    FINAL,
    ClientMissing,
    EmptyAnswer,
    EndpointFailed,
    Evidence,
    ModelFailed,
    RateLimited,
    Refused,
    RequestRejected,
    StreamCut,
    Unreachable,
    Unreadable,
    evidence_of,
)
from .processors.agents.loop import AgentLoop
from .processors.agents.openai_compatible import OpenAIModel
from .processors.agents.port import (
    Answer,
    ChatMessage,
    Chunk,
    Model,
    ToolCall,
    ToolModel,
    ToolSpec,
    Usage,
)
from .processors.agents.scripted import Cut, FunctionModel, ScriptedModel

__all__ = [
    "FINAL",
    "AgentLoop",
    "Answer",
    "AnthropicModel",
    "ChatMessage",
    "Chunk",
    "ClientMissing",
    "Conversation",
    "Cut",
    "EmptyAnswer",
    "EndpointFailed",
    "Evidence",
    "FunctionModel",
    "Model",
    "ModelFailed",
    "OpenAIModel",
    "RateLimited",
    "Refused",
    "RequestRejected",
    "ScriptedModel",
    "StreamCut",
    "ToolCall",
    "ToolModel",
    "ToolSpec",
    "Unreachable",
    "Unreadable",
    "Usage",
    "chat",
    "evidence_of",
]
