"""Email search as a Gymnasium environment: `gymnasium.make("EmailSearch-v0")` after `import email_env`.

Importing registers the id and does nothing else; `gymnasium.make("email_env:EmailSearch-v0")` does the import itself.

    env.py               the environment
    tools/               reads an assistant turn, runs its calls, words the results
    search/              the mail database: searches and reads within one inbox, up to one day
    scenarios/           the questions
    reward.py            what an episode is worth; the rule for right answers is `judges.answers`'
    policies/            experts and baselines without a model
    ingest/, cli.py      from mail to a database: `build-enron-db`
    demo/, cache.py      the bundled mailboxes
    make_scenarios/      new questions about any mail, written by an LLM: `make-scenarios`
"""

from gymnasium.envs.registration import register

from email_env.versions import __version__

ENV_ID = "EmailSearch-v0"

register(id=ENV_ID, entry_point="email_env.env:EmailSearchEnv")

__all__ = ["ENV_ID", "__version__"]
