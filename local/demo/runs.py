"""The runs of a demo: the same flood on three stages of the app."""

from enum import StrEnum


class RunName(StrEnum):
    """A run, in the order in which runs are made and shown."""

    WITHOUT = "without"
    MAPPINGS = "mappings"
    PULL = "pull"

    @property
    def stage(self) -> str:
        """The stage of the app that it runs on."""
        return _STAGES[self]

    @property
    def words(self) -> str:
        """The run as people read it."""
        return "no priority" if self is RunName.WITHOUT else self.value

    def key(self, figure: str) -> str:
        """Return the name of one of its figures in the report; those of the run with mappings have their bare names."""
        return figure if self is RunName.MAPPINGS else f"{figure}_{self}"


_STAGES = {RunName.WITHOUT: "demo-off", RunName.MAPPINGS: "demo", RunName.PULL: "demo-pull"}
