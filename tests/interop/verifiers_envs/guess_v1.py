"""An environment of verifiers in which the env is the user: guess a number by words, with three guesses. No tools."""

import verifiers.v1 as vf

__all__ = ["GuessEnv", "GuessTaskset"]


class GuessData(vf.TaskData):
    number: int


class GuessTask(vf.Task[GuessData, vf.State, vf.TaskConfig]):
    pass


class GuessEnvConfig(vf.EnvConfig):
    player: vf.AgentConfig = vf.AgentConfig()


class GuessEnv(vf.Env[GuessEnvConfig]):
    async def run(self, task, agents):
        reward = 0.0
        async with agents.player.interaction(task) as interaction:
            segment = await interaction.turn()
            for guesses_left in (2, 1, 0):
                guess = segment.last_reply
                if guess == str(task.data.number):
                    reward = 1.0
                if reward or not guesses_left or segment.terminated:
                    break
                segment = await interaction.turn("higher" if guess < str(task.data.number) else "lower")
        interaction.trace.record_reward("guessed", reward, 1.0)


class GuessTaskset(vf.Taskset[GuessTask, vf.TasksetConfig]):
    def load(self):
        for number in range(10):
            yield GuessTask(GuessData(prompt="Guess my number from 0 to 9.", number=number), self.config.task)
