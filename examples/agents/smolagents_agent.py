"""A smolagents agent. Its framework wants a last call of its own tool `final_answer`.

grpo-eval --env EmailSearch-v0 --agent examples.agents.smolagents_agent:agent --model openai:qwen3@http://127.0.0.1:8000/v1
"""

from smolagents import LogLevel, OpenAIModel, ToolCallingAgent, tool


def agent(task, tools, model):
    llm = OpenAIModel(model.name, api_base=model.base_url, api_key=model.api_key)
    searcher = ToolCallingAgent([tool(each) for each in tools], llm, max_steps=20, verbosity_level=LogLevel.OFF)
    return str(searcher.run(str(task)))
