"""`make-scenarios`: new questions from mail, written by an LLM and kept only if they pass every check.

    draw (which mails, which split) -> proposal (an LLM writes) -> checks -> a line in the file of questions or rejected

Only `llm` knows an LLM library; everything else calls a `Chat`, an async function from messages to text.
"""
