"""A run of many steps with a tiny model: does anything grow that should not?

A table says for the second fifth of the run and for its last: resident memory, open files and threads of each process, the
seconds of a step, and the run's folder. It ends with 1 where one has grown by more than a tenth and a bit.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from judges.common.files import read_jsonl
from tests.support.policy_server import TinyPolicyServer, tiny_run
from tests.support.sessions import processes_in
from tests.support.tiny_model import tiny_chat_model_folder

LOOK_SECONDS = 2.0
KEPT = 20
ROOM = {"MiB": 30.0, "files": 4.0, "threads": 3.0, "seconds a step": 0.05, "folder, MiB": 1.0}
"""By how much more than a tenth each may grow."""
TRAIN = """
import sys
from pathlib import Path
from grpo.cli.train import run_training
from grpo.config import TrainConfig
run_training(TrainConfig.model_validate_json(sys.argv[1]), Path(sys.argv[2]), resume=False, quiet=False)
"""


def look(session: int, run: Path) -> dict[str, float]:
    """What the processes of a session hold, by the name of each, and how large the run's folder is."""
    found: dict[str, float] = {}
    for number, pid in enumerate(sorted(processes_in(session))):
        try:
            status = dict(
                line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":\t" in line
            )
            found[f"process {number}, MiB"] = int(status["VmRSS"].split()[0]) / 1024
            found[f"process {number}, threads"] = float(status["Threads"])
            found[f"process {number}, files"] = float(len(os.listdir(f"/proc/{pid}/fd")))
        except (OSError, KeyError):
            continue
    found["folder, MiB"] = sum(path.stat().st_size for path in run.rglob("*") if path.is_file()) / 2**20
    return found


def room(name: str) -> float:
    """Of ``ROOM``, for something that a process may have."""
    return ROOM[name.partition(", ")[2] if name.startswith("process") else name]


def train(steps: int) -> list[tuple[str, float, float]]:
    """Each thing with its median in the second fifth of the run and in the last."""
    with (
        tempfile.TemporaryDirectory() as folder,
        TinyPolicyServer(tiny_chat_model_folder(Path(folder) / "model")) as server,
    ):
        run, output = Path(folder) / "run", Path(folder) / "output"
        settings = {
            "steps": steps,
            "keep_trajectories": KEPT,
            "rollout.env_workers": 1,
            "optimizer.learning_rate": 1e-4,
        }
        config = tiny_run(Path(folder) / "model", server.url, **settings)
        with output.open("wb") as out:
            command = [sys.executable, "-c", TRAIN, config.model_dump_json(), str(run)]
            process = subprocess.Popen(command, stdout=out, stderr=out, start_new_session=True)
        looks: list[tuple[int, dict[str, float]]] = []
        while process.poll() is None:
            time.sleep(LOOK_SECONDS)
            if (run / "metrics.jsonl").exists():
                done = len(read_jsonl(run / "metrics.jsonl"))
                looks.append((done, look(process.pid, run)))
        if process.returncode:
            print(output.read_text()[-3000:])
            raise SystemExit(1)
        times = [record["time/step"] for record in read_jsonl(run / "metrics.jsonl")]
        assert len(list(run.glob("trajectories/*.jsonl"))) == KEPT, "as many as are to be kept"

    def fifth(number: int) -> range:
        return range(number * steps // 5, (number + 1) * steps // 5)

    early, late = ([found for done, found in looks if done in fifth(number)] for number in (1, 4))
    names = [name for name in early[0] if all(name in found for found in (*early, *late))]
    rows = [(name, *(median(found[name] for found in part) for part in (early, late))) for name in names]
    seconds = [median(times[step] for step in fifth(number)) for number in (1, 4)]
    return [(name, before, after) for name, before, after in (*rows, ("seconds a step", *seconds))]


def main() -> None:
    """Run it, print the table, and end with 1 where something grows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    rows = train(arguments.steps)
    grown = [name for name, early, late in rows if late > 1.1 * early + room(name)]
    if arguments.json:
        print(json.dumps(rows))
    for name, early, late in rows:
        print(f"{name:24} {early:10.3f} {late:10.3f}{'  GROWS' if name in grown else ''}")
    sys.exit(bool(grown))


if __name__ == "__main__":
    main()
