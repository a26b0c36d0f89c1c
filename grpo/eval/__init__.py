"""Evaluation of any agent on any registered env: the same episodes, honest statistics, everything saved.

An agent gets in by one of several doors (a Python function, a program, a model's name, a policy trained here); behind
all of them stands one `episode.Episode`. `runner.Runner` plays the episodes, `results.Results` keeps them, `summary`
counts them. Torch-free; the commands are `grpo.cli.evaluate` and its neighbours.

    from grpo.eval import Answer

    def my_agent(task, tools, model):
        hits = tools[0](keywords=["budget"])
        return Answer("42", sources=("m12",))

    $ grpo-eval --env EmailSearch-v0 --agent my_module:my_agent
"""

from grpo.eval.contract import Answer, Model, Task

__all__ = ["Answer", "Model", "Task"]
