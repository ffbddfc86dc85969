"""The example that turns on active tracing, from an app that has the constructs under their installed name."""

import sys

from aws_cdk.assertions import Template

import cdk
from tests.support.infrastructure import allowed, foreign_stack, lanes_config, resources


def test_active_tracing_needs_a_property_and_two_actions(monkeypatch):
    """Both on the function's own resources, so the construct needs no prop for it."""
    monkeypatch.setitem(sys.modules, "lanes_cdk", cdk)
    from examples.tracing.active_tracing import trace_actively

    stack = foreign_stack(lanes_config(1), then=lambda _stack, _queues, consumer: trace_actively(consumer))
    template = Template.from_stack(stack)

    (function,) = resources(template, "AWS::Lambda::Function").values()
    assert function["TracingConfig"] == {"Mode": "Active"}
    assert {action for action, resource in allowed(template, "Consumer") if resource == "*"} == {
        "xray:PutTraceSegments",
        "xray:PutTelemetryRecords",
    }
