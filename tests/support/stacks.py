"""The templates that several tests read; each is synthesised once for a whole run."""

import pytest


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


@pytest.fixture(scope="session", params=[1, 7], ids="{} lanes".format)
def foreign(request):
    """Give the template of another app's stack, with the configuration of its lanes."""
    from tests.support.infrastructure import foreign_template, lanes_config

    config = lanes_config(request.param)
    return config, foreign_template(config)
