"""A LangGraph agent: a model node and a tool node in a loop.

grpo-eval --env EmailSearch-v0 --agent examples.agents.langgraph_agent:agent --model openai:qwen3@http://127.0.0.1:8000/v1
"""

from langchain_openai import ChatOpenAI
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition


async def agent(task, tools, model):
    llm = ChatOpenAI(model=model.name, base_url=model.base_url, api_key=model.api_key).bind_tools(tools)

    async def think(state: MessagesState):
        return {"messages": [await llm.ainvoke(state["messages"])]}

    graph = StateGraph(MessagesState)
    graph.add_node("think", think)
    graph.add_node("tools", ToolNode(tools))
    graph.add_edge(START, "think")
    graph.add_conditional_edges("think", tools_condition)
    graph.add_edge("tools", "think")
    result = await graph.compile().ainvoke({"messages": [("system", task.instructions), ("user", task.question)]})
    return result["messages"][-1].text
