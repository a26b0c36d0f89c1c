"""New questions from mail, written by an LLM and kept only where they pass every check: `make-scenarios`.

    draw (which mails, which split) -> proposal (an LLM writes) -> checks -> a line of the questions or of the rejected

Only `llm` knows an LLM library; everything else asks a `Chat`, an async function from messages to text.
"""
