"""`make-scenarios`: new questions from mail, written by an LLM and kept only if they pass every check.

    draw (which mails, which split) -> proposal (an LLM writes) -> checks -> a line in the file of questions or rejected

The LLM is asked by `judges.llm`, as judges are.
"""
