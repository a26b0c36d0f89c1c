"""An AutoGen agent."""

from autogen_agentchat.agents import AssistantAgent
from autogen_ext.models.openai import OpenAIChatCompletionClient

ABLE = {
    "vision": False,
    "function_calling": True,
    "json_output": False,
    "family": "unknown",
    "structured_output": False,
}


async def agent(task, tools, model):
    llm = OpenAIChatCompletionClient(model=model.name, base_url=model.base_url, api_key=model.api_key, model_info=ABLE)
    searcher = AssistantAgent(
        "searcher", llm, tools=list(tools), system_message=task.instructions, max_tool_iterations=12
    )
    return (await searcher.run(task=task.question)).messages[-1].to_text()
