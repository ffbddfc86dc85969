"""Lanes beside what a shop has: HIGH is the queue of its older function, which another stack owns."""

from pathlib import Path

from aws_cdk import App
from lanes_cdk import PriorityLanesStack

from lanes import LanesConfig

HERE = Path(__file__).parent
QUEUES = "arn:aws:sqs:eu-central-1:123456789012"


def add_lanes(app: App, config: LanesConfig) -> PriorityLanesStack:
    """Add the lanes, with the shop's queue as HIGH."""
    return PriorityLanesStack(
        app,
        "Lanes",
        config=config,
        function_folder=HERE / "function",
        existing={"HIGH": f"{QUEUES}:orders.fifo"},
        dead_letter_queues={"HIGH": f"{QUEUES}:orders-dead.fifo"},
    )


if __name__ == "__main__":
    app = App()
    add_lanes(app, LanesConfig.load(HERE / "lanes.toml"))
    app.synth()
