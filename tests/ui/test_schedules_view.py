"""Periodic messages and those for later in the browser; a stack without them shows nothing of them."""

import dataclasses
import json
from datetime import timedelta

import pytest
from playwright.sync_api import expect

from lanes.aws.scheduler import SchedulerCalls
from lanes.aws.sending import SqsSender
from lanes.config import Schedule
from lanes.producer import Producer
from lanes.schedules import PERIODIC, Scheduler, expression_of, occurrence
from tests.support.operating import STACK
from tests.support.page import PageProcess

SCHEDULER = Scheduler(
    group="page",
    role_arn="arn:aws:iam::123456789012:role/scheduler",
    role_id="AROASCHEDULER",
    dead_letter_arn="arn:aws:sqs:eu-central-1:123456789012:undelivered",
)
NIGHTLY = Schedule(name="nightly", kind="render", cron="0 3 * * *", timezone="Europe/Zurich")
STAGE = "later"


@pytest.fixture
def page(scene):
    """The page of a stack of the same queues, with a schedule and a message for later."""
    deployment = dataclasses.replace(scene.deployment, scheduler=SCHEDULER)
    scene.client("ssm").put_parameter(
        Name=f"/lanes/{STACK}-{STAGE}", Value=deployment.to_json(), Type="String", Overwrite=True
    )
    client = scene.client("scheduler")
    client.create_schedule_group(Name=SCHEDULER.group)
    client.create_schedule(
        Name=PERIODIC + NIGHTLY.name,
        GroupName=SCHEDULER.group,
        ScheduleExpression=expression_of(NIGHTLY),
        ScheduleExpressionTimezone=NIGHTLY.timezone,
        State="ENABLED",
        FlexibleTimeWindow={"Mode": "OFF"},
        Target={
            "Arn": "arn:aws:scheduler:::aws-sdk:sqs:sendMessage",
            "RoleArn": SCHEDULER.role_arn,
            "Input": json.dumps(occurrence(NIGHTLY, deployment.queues["MEDIUM"].url)),
        },
    )
    sender = SqsSender.to_lanes(deployment, scene.client("sqs"))
    calls = SchedulerCalls(SCHEDULER, client)
    producer = Producer(deployment=deployment, sqs=sender, source="app", later=lambda: calls)
    producer.send("reminder", 1, id="r-7", group="g", not_before=timedelta(hours=24))
    with PageProcess(scene, "--stage", STAGE) as started:
        yield started


def test_both_are_shown_with_their_times(page, tab):
    """In tables of their own."""
    tab.goto(page.url)
    tab.goto(f"{page.base}#move")

    schedule = tab.get_by_role("region", name="Periodic messages").locator("tbody tr")
    expect(schedule).to_have_count(1)
    expect(schedule).to_contain_text("nightly")
    expect(schedule).to_contain_text("cron(0 3 * * ? *) Europe/Zurich")
    later = tab.get_by_role("region", name="Messages for later").locator("tbody tr")
    expect(later).to_contain_text("r-7")
    expect(later).to_contain_text("reminder")


def test_a_stack_without_them_has_no_panel_for_them(reading, tab):
    """As most have none."""
    tab.goto(reading.url)
    tab.goto(f"{reading.base}#move")

    expect(tab.locator("#overrides-title")).to_be_visible()
    expect(tab.locator("#schedules-title")).to_have_count(0)
