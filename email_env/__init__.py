"""Email search as a Gymnasium environment: `gymnasium.make("EmailSearch-v0")` after `import email_env`.

Importing registers the id and nothing else; `gymnasium.make("email_env:EmailSearch-v0")` does the import
itself. The environment is in `email_env.env`, the mail database in `email_env.database`, its builder in
`email_env.ingest`.
"""

from gymnasium.envs.registration import register

from email_env._version import __version__

ENV_ID = "EmailSearch-v0"

register(id=ENV_ID, entry_point="email_env.env:EmailSearchEnv")

__all__ = ["ENV_ID", "__version__"]
