"""A group after a run of a real 0.5B policy that was asked about the TVA mail.

The mistakes, the tool arguments and o4-mini's four scores are the run's; explanations and tool results are shortened.
"""

import json

import judges
from judges.scoring.prompt import build_prompts
from tests.support.judge_server import shown_trajectories, verdict

SYSTEM = {
    "role": "system",
    "content": "You are an email search agent. Use the provided tools to search and read emails. You may take up to 10 turns. "
    "User's email address is joe.hartsoe@enron.com. Today's date is 1999-12-11.",
}
USER = {"role": "user", "content": "When did Steve Whitley say TVA would implement the NERC letter?"}
MAIL = "<18156447.1075846144018.JavaMail.evans@thyme>"


def calls(name, **arguments):
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "call_0", "type": "function", "function": function}],
    }


def said(text):
    return {"role": "assistant", "content": text}


def result(text):
    return {"role": "tool", "tool_call_id": "call_0", "content": text}


# (messages after the question, score, explanation)
JUDGED_GROUP = [
    (
        [calls("read_email", message_id="none"), result("Error: no such mail")],
        0.1,
        "It read a mail without searching and never answered.",
    ),
    (
        [calls("search_inbox", keywords=["TVA", "NERC"]), result(f"{MAIL} TVA to implement")],
        0.4,
        "It searched well but stopped before reading.",
    ),
    (
        [calls("read_email", message_id=MAIL), result("TVA ..."), said("In January.")],
        0.2,
        "It read the mail, then guessed.",
    ),
    (
        [said('{"name": "search_inbox", "arguments": {"keywords": [')],
        0.0,
        "Its search was malformed and it gave no answer.",
    ),
]

GROUP = [[SYSTEM, USER, *tail] for tail, _, _ in JUDGED_GROUP]


def by_table(messages):
    """Scores each trajectory of JUDGED_GROUP as o4-mini did; the entries come in reverse of the order shown."""
    table = {_key(tail): (score, why) for tail, score, why in JUDGED_GROUP}
    shown = shown_trajectories(messages)
    return verdict((label, *table[_key(shown[label])]) for label in reversed(shown))


def _key(messages):
    plain = [{name: value for name, value in message.items() if value is not None} for message in messages]
    return json.dumps(plain, sort_keys=True).replace("call_1", "call_0")


def prompt_of(lists, **options):
    """The first prompt that a judge of these trajectories is sent."""
    return build_prompts(lists, **options)[0]


async def judge(server, lists=GROUP, **options):
    """RULER's scores of the groups by a local judge."""
    options = {"timeout_seconds": 20, "backoff_seconds": 0.01, **options}
    return await judges.ruler(lists, options.pop("judge_model", "openai/o4-mini"), api_base=server.url, **options)
