"""Evaluation of any agent on any registered env: the same episodes, honest statistics, everything saved.

An agent is a Python function, a program, the name of a model, a policy that the env brings along, or one trained here
(`grpo.agents`). A `Player` plays the episodes as it does in training, `Results` keeps them, `summarise` counts them. No
torch is needed. The commands are `grpo-eval`, `grpo-compare` and `grpo-view`.

    from grpo.eval import Answer

    def my_agent(task, tools, model):
        hits = tools[0](keywords=["budget"])
        return Answer("42", sources=("m12",))

    $ grpo-eval --env EmailSearch-v0 --agent my_module:my_agent
"""

from grpo.types import AgentTask, Answer, Model

__all__ = ["AgentTask", "Answer", "Model"]
