"""
The pictures of the page in the docs: `make nightly` makes them anew, `make screenshots` puts them into the docs.

They show a story that is put together here, so that they are alike from one renewal to the next.
"""

import math
import re
import time
from pathlib import Path

import pytest
from playwright.sync_api import expect

from lanes.aws.items import sortable
from local.server import AwsServer
from tests.support.operating import put_dead_letters
from tests.support.page import ROOT, PageProcess, Scene

pytestmark = pytest.mark.nightly
IMAGES = ROOT / "docs" / "images"
WIDE, PHONE = {"width": 1280, "height": 820}, {"width": 390, "height": 844}
ME = {
    "message_id": "8c1f2a4e",
    "id": "backfill-2026-0417",
    "kind": "customer.loyalty_tier",
    "group": "customer-417",
}
RECEIVED, PARKED = 10, 7


@pytest.fixture(scope="module")
def story(tmp_path_factory):
    """A morning on which a backfill makes way for orders and payments."""
    with AwsServer(log_path=tmp_path_factory.mktemp("server") / "server.log") as server:
        scene = Scene(server)
        for lane, minute in (("HIGH", high), ("MEDIUM", medium), ("MAIN", main)):
            scene.figures(lane, [minute(ago) for ago in range(1, 63)])
        scene.send("MEDIUM", 38, prefix="now")
        scene.send("MAIN", 310, prefix="now")
        in_flight(scene)
        dead_letters(scene)
        entries(scene)
        scene.log(*sorted((*told(), *work()), key=lambda event: event[0]))
        with PageProcess(scene, "--write", "--interval", "0.5s") as page:
            yield page


def wave(ago, *, every, phase=0.0):
    """Rise and fall between 0 and 1."""
    return 0.5 + 0.5 * math.sin((ago / every + phase) * 2 * math.pi)


def high(ago):
    """Payments come in bursts and are done at once."""
    burst = max(0.0, wave(ago, every=23) - 0.72) * 260
    return figures(
        waiting=burst, in_flight=burst / 4, handled=40 + burst * 5, sent=40 + burst * 5, oldest=burst / 9
    )


def medium(ago):
    """Orders come all the time."""
    load = 30 + 55 * wave(ago, every=37, phase=0.2)
    return figures(
        waiting=load,
        in_flight=12,
        handled=260 + load,
        sent=262 + load,
        oldest=load / 4,
        yields=max(0.0, wave(ago, every=23) - 0.7) * 90,
    )


def main(ago):
    """A backfill that drains whenever the others leave room."""
    left = 310 + 24.5 * ago + 240 * wave(ago, every=23)
    busy = wave(ago, every=23) - 0.4
    return figures(
        waiting=left,
        in_flight=38,
        handled=420 - max(0.0, busy) * 330,
        sent=4,
        oldest=9_700 + 60 * (63 - ago),
        yields=max(0.0, busy) * 480 + 12,
        inversion=max(0.0, busy) * 900,
    )


def figures(*, waiting, in_flight, handled, sent, oldest, yields=0.0, inversion=0.0):
    """Name a minute's figures as CloudWatch does."""
    return {
        "ApproximateNumberOfMessagesVisible": round(waiting),
        "ApproximateNumberOfMessagesNotVisible": round(in_flight),
        "ApproximateAgeOfOldestMessage": round(oldest),
        "NumberOfMessagesSent": round(sent),
        "NumberOfMessagesDeleted": round(handled),
        "HandledMessages": round(handled),
        "YieldedMessages": round(yields),
        "InversionTime": round(inversion),
    }


def in_flight(scene):
    """Take some messages out of their lanes, and note some of them as parked."""
    for lane in ("MEDIUM", "MAIN"):
        scene.client("sqs").receive_message(
            QueueUrl=scene.deployment.queues[lane].url, MaxNumberOfMessages=RECEIVED, VisibilityTimeout=600
        )
    for number in range(PARKED):
        scene.client("dynamodb").put_item(
            TableName=scene.deployment.table,
            Item={
                "pk": {"S": f"message#MAIN#{number}"},
                "parked_lane": {"S": "MAIN"},
                "parked_until": {"S": sortable(time.time() + 600)},
            },
        )


def dead_letters(scene):
    """Give up some messages, as they are given up."""
    sqs, now = scene.client("sqs"), time.time()

    def put(lane, count, kind, **note):
        put_dead_letters(sqs, scene.deployment, lane, count, groups=count, kind=kind, **note)

    put("MEDIUM", 4, "order.placed", error="ValueError: order without a customer", dead_lettered_at=now - 400)
    put(
        "MEDIUM",
        2,
        "order.cancelled",
        error="TimeoutError: the warehouse did not answer within 2 s",
        dead_lettered_at=now - 2000,
    )
    put(
        "MAIN",
        3,
        "customer.loyalty_tier",
        error="ConnectionError: the tier service refused the connection",
        dead_lettered_at=now - 5400,
    )


def entries(scene):
    """Let some wait in the outbox."""

    def customers(number):
        return f"customer-{number % 9}"

    scene.write("newsletter.sent", 64, group=customers, priority=-100)
    scene.write("invoice.issued", 23, group=customers)
    scene.write("customer.imported", 41, group=lambda number: f"import-{number % 3}", priority=-50)
    scene.write("payment.captured", 3, priority=70)


def told():
    """Tell what became of one message."""
    messages = [{**ME, "receive_count": 1}]
    yielded = {"event": "batch_yielded", "lane": "MAIN", "to_lane": "HIGH", "records": 1, "delay": 9}
    failed = {"event": "message_failed", "lane": "MAIN", "attempt": 1, "receive_count": 2, "delay": 4}
    return [
        (-75, {**yielded, "messages": messages}),
        (
            -71,
            {
                "event": "batch_woken",
                "lane": "MAIN",
                "by_lane": "HIGH",
                "records": 1,
                "message_ids": [ME["message_id"]],
            },
        ),
        (-70, {**failed, **ME, "error": "ConnectionError: the tier service refused the connection"}),
        (-62, {**yielded, "to_lane": "MEDIUM", "messages": [{**ME, "receive_count": 3}]}),
        (-52, {"event": "message_handled", "lane": "MAIN", "attempt": 2, "receive_count": 5, **ME}),
    ]


def work():
    """Tell of the last minute: waits by kind, failures, and an invocation at work."""
    kinds = (("HIGH", "payment.captured", 0.03, 0.2), ("MEDIUM", "order.placed", 0.4, 2.1))
    for lane, kind, shortest, step in (*kinds, ("MAIN", "customer.loyalty_tier", 140.0, 31.0)):
        for number in range(12):
            me = {"message_id": f"{kind}-{number}", "id": f"{kind}-{number}", "kind": kind, "group": "g"}
            times = {"sent_at": 1_000.0, "started_at": 1_000.0 + shortest + step * (number / 11) ** 2}
            request = "request-1" if lane == "MAIN" else "request-0"
            line = {"event": "message_handled", "lane": lane, **me, **times, "correlation_id": request}
            yield -30 + number, line
    for number in range(7):
        me = {
            "message_id": f"o-{number}",
            "id": f"order-{4_700 + number}",
            "kind": "order.placed",
            "group": "g",
        }
        error = f"ValueError: order {4_700 + number} without a customer"
        yield -25 + number, {"event": "message_failed", "lane": "MEDIUM", **me, "error": error}
    yield -21, "START RequestId: request-0 Version: 7"
    yield -19, "REPORT RequestId: request-0 Duration: 900 ms"
    yield -18, "START RequestId: request-1 Version: 7"


@pytest.fixture
def picture(request, tmp_path):
    """Take a picture; into the docs where they are to be renewed, else beside the test, of the same size as there."""

    def take(tab, name):
        tab.mouse.move(0, 0)
        kept = IMAGES / f"page-{name}.png"
        target = kept if request.config.getoption("--renew-screenshots") else tmp_path / kept.name
        target.parent.mkdir(exist_ok=True)
        tab.screenshot(path=target, animations="disabled")
        assert size_of(target) == size_of(kept), "run `make screenshots`"
        pages = [ROOT / "README.md", ROOT / "docs" / "how-to" / "page.md"]
        assert any(f"images/{kept.name}" in page.read_text(encoding="utf-8") for page in pages)

    return take


def size_of(path):
    """Read width and height of a PNG."""
    header = Path(path).read_bytes()[:24]
    assert header.startswith(b"\x89PNG")
    return int.from_bytes(header[16:20], "big"), int.from_bytes(header[20:24], "big")


@pytest.fixture
def sheet(browser):
    """Make tabs of a size and a colour scheme."""
    contexts = []

    def make(size, scheme="light"):
        contexts.append(browser.new_context(viewport=size, color_scheme=scheme, timezone_id="Europe/Berlin"))
        return contexts[-1].new_page()

    yield make
    for context in contexts:
        context.close()


def open_lanes(tab, page):
    """Open the lanes and wait for their past."""
    tab.goto(page.url)
    tab.goto(f"{page.base}#lanes?span=3600")
    expect(tab.locator("#waits tbody tr").first).to_be_visible()
    expect(tab.locator("svg.timeline")).to_contain_text("Inversion")
    expect(tab.locator("td[data-label='yields/min']").last).to_have_text(re.compile("[0-9]"))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_lanes(story, sheet, picture, scheme):
    """By day and by night."""
    tab = sheet(WIDE, scheme)
    open_lanes(tab, story)

    picture(tab, f"lanes-{scheme}")


def test_work(story, sheet, picture):
    """Waits by kind, running work, and failures."""
    tab = sheet({"width": 1280, "height": 640})
    open_lanes(tab, story)
    tab.locator("#waits-title").evaluate("node => window.scrollTo(0, node.getBoundingClientRect().top - 24)")

    picture(tab, "work")


def test_phone(story, sheet, picture):
    """As wide as a phone."""
    tab = sheet(PHONE)
    open_lanes(tab, story)

    picture(tab, "phone")


def test_dead_letters(story, sheet, picture):
    """What a redrive would do, before it does."""
    tab = sheet(WIDE)
    tab.goto(story.url)
    tab.goto(f"{story.base}#dead-letters?lane=MEDIUM")
    tab.get_by_role("button", name="Redrive all that match").click()
    expect(tab.locator("#act")).to_be_focused()

    picture(tab, "dead-letters")


def test_outbox(story, sheet, picture):
    """What waits by kind, group and lane."""
    tab = sheet(WIDE)
    tab.goto(story.url)
    tab.goto(f"{story.base}#outbox")
    tab.get_by_text("Waiting by kind, group and lane").click()
    expect(tab.locator(".spread li").first).to_be_visible()
    expect(tab.locator("#found tbody tr").first).to_be_visible()

    picture(tab, "outbox")


def test_trace(story, sheet, picture):
    """Every receive of a message and its cause."""
    tab = sheet({"width": 1280, "height": 520})
    tab.goto(story.url)
    tab.goto(f"{story.base}#trace?id={ME['id']}")
    expect(tab.locator(".summary")).to_be_visible()

    picture(tab, "trace")
