"""An agno agent."""

from agno.agent import Agent
from agno.models.openai import OpenAIChat


def agent(task, tools, model):
    llm = OpenAIChat(id=model.name, base_url=model.base_url, api_key=model.api_key)
    searcher = Agent(model=llm, tools=list(tools), instructions=task.instructions, telemetry=False)
    return str(searcher.run(task.question).content)
