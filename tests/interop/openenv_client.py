"""OpenEnv's own client plays episodes: python openenv_client.py URL EPISODES.json. Prints what came of each, as JSON."""

import json
import sys

from openenv import GenericEnvClient


def main(url, path):
    with open(path) as file:
        episodes = json.load(file)
    found, errors = [], []
    with GenericEnvClient(base_url=url).sync() as client:
        for episode in episodes:
            seen = client.reset(scenario_id=episode["scenario_id"])
            tools, reward = seen.observation["tools"], 0.0
            for action in episode["actions"]:
                seen = client.step({"message": action})
                reward += seen.reward
            ending = ("truncated" if seen.observation["truncated"] else "terminated") if seen.done else ""
            late = client.step({"message": "More."})
            found.append({"reward": reward, "ending": ending, "tools": len(tools), "late": [late.reward, late.done]})
            found[-1]["state"] = client.state()
        for options in ({"scenario": "x"}, {"scenario_id": "nope"}):
            try:
                client.reset(**options)
            except RuntimeError as error:
                errors.append(str(error))
        client.reset(seed=3)
        call = {"name": "search_inbox", "arguments": {"keywords": ["budget"], "page": 2}}
        objects = [client.step(call).observation, client.step({"msg": "hello"}).observation]
    print(json.dumps({"episodes": found, "errors": errors, "objects": objects}))


main(*sys.argv[1:])
