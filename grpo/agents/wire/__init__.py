"""The forms in which agents ask a model: each is read to one request, and one turn is written back in each.

    chat.py         OpenAI's chat completions, POST /v1/chat/completions
    responses.py    OpenAI's responses, POST /v1/responses
    anthropic.py    Anthropic's messages, POST /v1/messages; by its path alone, /v1/messages/count_tokens

A form says nothing of who answers. What it cannot carry over is refused with a ValueError, in words for who asked.
"""

from grpo.agents.wire import anthropic, chat, responses
from grpo.agents.wire.form import Asked, Form, Said, SaidCall, unread

FORMS: dict[str, Form] = {form.path: form for form in (chat.Chat(), responses.Responses(), anthropic.Messages())}
"""By the path under ``/v1/``."""

__all__ = ["FORMS", "Asked", "Form", "Said", "SaidCall", "unread"]
