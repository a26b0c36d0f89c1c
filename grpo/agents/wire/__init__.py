"""The forms in which agents ask a model: each is read to one request, and one turn is written back in each.

    chat.py         OpenAI's chat completions, POST /v1/chat/completions
    responses.py    OpenAI's responses, POST /v1/responses
    anthropic.py    Anthropic's messages, POST /v1/messages; by its path alone, /v1/messages/count_tokens

A form says nothing of who answers. What it cannot carry over is refused with a ValueError, in words for who asked.
"""

from grpo.agents.wire import anthropic, chat, responses
from grpo.agents.wire.form import Asked, Form, Said, SaidCall, Spoken, unread

CHAT = chat.Chat.path
SPOKEN: dict[str, Spoken] = {form.path: form for form in (chat.Chat(), responses.Responses())}
"""What OpenAI-compatible servers and litellm speak themselves, by the path under ``/v1/``."""
FORMS: dict[str, Form] = {**SPOKEN, anthropic.Messages.path: anthropic.Messages()}
"""All, by the path."""

__all__ = ["CHAT", "FORMS", "SPOKEN", "Asked", "Form", "Said", "SaidCall", "Spoken", "unread"]
