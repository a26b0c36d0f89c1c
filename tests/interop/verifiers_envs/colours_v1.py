"""A taskset of verifiers with a tool server: what colour is a thing? The tool knows, and the last reply is the answer."""

import verifiers.v1 as vf

__all__ = ["ColoursTaskset"]
COLOURS = {"sky": "blue", "grass": "green", "coal": "black", "snow": "white"}


class Things(vf.Toolset[vf.ToolsetConfig]):
    TOOL_PREFIX = None

    @vf.tool
    async def look_up(self, thing: str) -> str:
        """Say what colour a thing has."""
        return COLOURS.get(thing, "nobody knows")


class ColourData(vf.TaskData):
    answer: str


class ColourTask(vf.Task[ColourData, vf.State, vf.TaskConfig]):
    @classmethod
    def toolsets(cls, config):
        return [Things(vf.ToolsetConfig())]

    @vf.reward
    async def right(self, trace) -> float:
        return float(trace.last_reply.strip() == self.data.answer)


class ColoursTaskset(vf.Taskset[ColourTask, vf.TasksetConfig]):
    def load(self):
        for thing, colour in COLOURS.items():
            data = ColourData(prompt=f"What colour is {thing}?", system_prompt="Answer in one word.", answer=colour)
            yield ColourTask(data, self.config.task)


if __name__ == "__main__":
    Things.run()
