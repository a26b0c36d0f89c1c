"""An agent of the OpenAI Agents SDK.

grpo-eval --env EmailSearch-v0 --agent examples.agents.openai_agents_agent:agent --model openai:gpt-5@https://api.openai.com/v1
"""

from agents import Agent, OpenAIResponsesModel, Runner, function_tool, set_tracing_disabled
from openai import AsyncOpenAI

set_tracing_disabled(True)


async def agent(task, tools, model):
    client = AsyncOpenAI(base_url=model.base_url, api_key=model.api_key)
    searcher = Agent(
        name="mail searcher",
        instructions=task.instructions,
        tools=[function_tool(tool, strict_mode=False) for tool in tools],  # arguments may be objects, and left out
        model=OpenAIResponsesModel(model.name, client),
    )
    result = await Runner.run(searcher, task.question, max_turns=20)
    return str(result.final_output)
