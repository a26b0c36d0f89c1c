"""A pydantic-ai agent.

grpo-eval --env EmailSearch-v0 --agent examples.agents.pydantic_ai_agent:agent --model openai:qwen3@http://127.0.0.1:8000/v1
"""

from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider


async def agent(task, tools, model):
    provider = OpenAIProvider(base_url=model.base_url, api_key=model.api_key)
    searcher = Agent(OpenAIChatModel(model.name, provider=provider), instructions=task.instructions, tools=tools)
    return (await searcher.run(task.question)).output
