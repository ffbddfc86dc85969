"""What an answer means for its batch: AWS's conditions of success and failure."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanes.mapping.answer import BatchOutcome, judge, read_answer

IDS = ("m1", "m2", "m3")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.sampled_from(IDS),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["batchItemFailures", "itemIdentifier", "x"]), inner, max_size=3)
    ),
)


def verdict(answer, *, function_error=None, reports_failures=True):
    payload = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
    return judge(payload, message_ids=IDS, function_error=function_error, reports_failures=reports_failures)


@pytest.mark.parametrize(
    "answer",
    [b"", b" ", b"null", b"{}", {"batchItemFailures": []}, {"batchItemFailures": None}, {"statusCode": 200}],
)
def test_an_empty_or_null_answer_is_success(answer):
    """Nothing reported means that every message is deleted."""
    assert verdict(answer).outcome is BatchOutcome.SUCCEEDED
    assert not verdict(answer).failed_ids


@pytest.mark.parametrize(
    "answer",
    [
        b"{not json",
        b"\xff",
        b'"done"',
        b"[]",
        b"0",
        {"batchItemFailures": "m1"},
        {"batchItemFailures": ""},
        {"batchItemFailures": {}},
        {"batchItemFailures": [{"itemIdentifier": ""}]},
        {"batchItemFailures": [{"itemIdentifier": None}]},
        {"batchItemFailures": [{"messageId": "m1"}]},
        {"batchItemFailures": ["m1"]},
        {"batchItemFailures": [{"itemIdentifier": "m1"}, {"itemIdentifier": "unknown"}]},
    ],
)
def test_an_unusable_answer_fails_the_whole_batch(answer):
    """Malformed JSON, wrong keys and empty, null or unknown ids keep every message."""
    found = verdict(answer)

    assert found.outcome is BatchOutcome.FAILED
    assert found.failed_ids == set(IDS)
    assert found.reason


def test_a_function_error_fails_the_whole_batch_despite_its_answer():
    """An exception or a timeout deletes nothing."""
    assert verdict({"batchItemFailures": []}, function_error="Unhandled").failed_ids == set(IDS)


@given(JSON)
def test_every_answer_deletes_either_nothing_or_all_but_its_ids(answer):
    """No JSON raises, and none keeps a message of another batch."""
    found = read_answer(answer, message_ids=IDS)

    assert found.failed_ids <= set(IDS)
    assert bool(found.reason) is (found.outcome is BatchOutcome.FAILED)
    if found.outcome is BatchOutcome.FAILED:
        assert found.failed_ids == set(IDS)
    if found.outcome is BatchOutcome.PARTIAL:
        assert {one["itemIdentifier"] for one in answer["batchItemFailures"]} == found.failed_ids


@given(st.binary(max_size=30))
def test_every_payload_gets_a_verdict(payload):
    """Bytes that are no text fail the batch like malformed JSON."""
    assert verdict(payload).failed_ids <= set(IDS)
