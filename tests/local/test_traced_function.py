"""A traced consumer, deployed for real and run where nobody listens for traces."""

import json
import threading
from pathlib import Path

import boto3

from lanes import Producer
from local.deploy import CdkApp
from local.platform import Platform

APP = Path(__file__).with_name("traced_app")
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


class _Log:
    """Waits for events in the function's log."""

    def __init__(self):
        self._changed = threading.Condition()
        self._lines = []

    def __call__(self, _function, line):
        with self._changed:
            self._lines.append(line)
            self._changed.notify_all()

    def _found(self, name, **fields):
        for line in self._lines:
            event = json.loads(line) if line.startswith("{") else {}
            if event.get("event") == name and fields.items() <= event.items():
                return event
        return None

    def wait_for(self, name, **fields):
        with self._changed:
            assert self._changed.wait_for(lambda: self._found(name, **fields), 60), self._lines
            return self._found(name, **fields)

    def others(self):
        """Give the lines that are no JSON, as a library writes that has something to complain of."""
        with self._changed:
            return [line for line in self._lines if not line.startswith("{")]


def test_messages_are_handled_and_their_trace_goes_on_without_anybody_to_record_it(tmp_path):
    """From the producer over the deployed function to what its handler sends; X-Ray's daemon is not there."""
    log = _Log()
    with Platform(app=CdkApp(directory=APP), on_line=log, build_directory=tmp_path) as platform:
        variables = platform.variables()
        session = boto3.Session(
            aws_access_key_id=variables["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=variables["AWS_SECRET_ACCESS_KEY"],
            region_name=variables["AWS_REGION"],
        )
        producer = Producer.from_stack("Traced", endpoint_url=platform.endpoint_url, session=session)

        producer.send("order.placed", None, traceparent=f"00-{TRACE}-00f067aa0ba902b7-01")
        first = log.wait_for("message_handled", kind="order.placed")
        second = log.wait_for("message_handled", kind="receipt.printed")
        recording = log.wait_for("recording")
        (function,) = platform.functions.values()
        complaints = log.others()

    assert function.settings.is_traced
    assert (recording["name"], recording["sampled"]) == ("order.placed", True)
    assert [(one["lane"], one["trace_id"]) for one in (first, second)] == [("MEDIUM", TRACE), ("HIGH", TRACE)]
    assert complaints == []
