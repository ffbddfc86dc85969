"""Options of the data source are read as a whole, and every problem is named."""

import base64
import json

import pytest

from lanes.errors import ConfigurationError
from spark_jobs.options import WriterOptions
from tests.support.sending import make_deployment


def problems_of(**options):
    """Give the problems of these options."""
    with pytest.raises(ConfigurationError) as caught:
        WriterOptions.from_options(options)
    return caught.value.problems


def test_defaults_are_bulk_priority_and_no_limit():
    """A stack alone is enough; everything else has a default."""
    read = WriterOptions.from_options({"stack": "Shop"})

    assert read == WriterOptions(stack="Shop")
    assert read.priority == -100


def test_names_are_read_in_any_case():
    """Spark ignores the case of option names, and so does the source."""
    read = WriterOptions.from_options({"STACK": "Shop", "maxsendrate": "2.5", "Endpointurl": "http://here"})

    assert read == WriterOptions(stack="Shop", max_send_rate=2.5, endpoint_url="http://here")


def test_a_dict_may_hold_numbers_and_none():
    """As Spark's own `option` takes them."""
    read = WriterOptions.from_options({"stack": "Shop", "maxBacklog": 12, "maxSendRate": 0.5, "runId": None})

    assert read == WriterOptions(stack="Shop", max_backlog=12, max_send_rate=0.5)


@pytest.mark.parametrize(("text", "priority"), [("BULK", -100), ("high", 50), ("0", 0), ("-7", -7)])
def test_priority_is_a_name_or_a_number(text, priority):
    """The named priorities may be written by name."""
    assert WriterOptions.from_options({"stack": "Shop", "priority": text}).priority == priority


def test_all_problems_are_reported_at_once():
    """One error lists the unknown option with its likely name, and every wrong value with the allowed ones."""
    problems = problems_of(
        stak="Shop",
        priority="urgent",
        maxBacklog="0",
        maxSendRate="-1",
        kind="a kind",
        endpointUrl="x",
    )

    text = "\n".join(problems)
    assert len(problems) == 7
    assert "unknown option 'stak'; did you mean 'stack'?" in text
    assert "option priority is 'urgent'; a whole number or one of BULK" in text
    assert "option maxBacklog is '0'; a whole number from 1 to 1000000000 is needed" in text
    assert "option maxSendRate is '-1'; a number of messages a second above 0 is needed" in text
    assert "option kind: kind is 'a kind'" in text
    assert "option endpointUrl is 'x'" in text
    assert "set exactly one of the options stack and deployment" in text


def test_stack_and_deployment_exclude_each_other():
    """Two places to send to are a contradiction."""
    problems = problems_of(stack="Shop", deployment="{}")

    assert any("exactly one of the options" in problem for problem in problems)


@pytest.mark.parametrize("rate", ["nan", "inf", "0", "", "fast"])
def test_a_rate_is_a_positive_number(rate):
    """An invalid rate is refused and never means no limit."""
    assert len(problems_of(stack="Shop", maxSendRate=rate)) == 1


def test_a_broken_deployment_names_its_option():
    """A problem inside the deployment document is reported under the option that holds it."""
    (problem,) = problems_of(deployment=json.dumps({"version": 99}))

    assert problem.startswith("option deployment: version 99")


def test_a_deployment_may_be_encoded_or_in_a_file(tmp_path):
    """EMR on EC2 is reported to strip closing braces from arguments."""
    document = make_deployment().to_json()
    file = tmp_path / "lanes.json"
    file.write_text(document)

    for form in (document, base64.b64encode(document.encode()).decode(), str(file)):
        assert WriterOptions.from_options({"deployment": form}).deployment == make_deployment()


def test_a_deployment_that_is_nowhere_is_refused(tmp_path):
    """The error has the three forms."""
    with pytest.raises(ConfigurationError, match=r"deployment is '.*none'; the document as JSON, its base64"):
        WriterOptions.from_options({"deployment": str(tmp_path / "none")})


def test_a_source_that_no_message_can_have_is_refused():
    """Before any row is read."""
    assert WriterOptions.from_options({"stack": "S", "source": "nightly/loader"}).source == "nightly/loader"
    (problem,) = problems_of(stack="S", source=" ")
    assert "source" in problem


def test_a_run_to_follow_has_a_name_and_a_manifest():
    """Its members are in the manifest."""
    run = {"stack": "Shop", "follow": "true", "runId": "spring", "manifestPath": "runs"}
    read = WriterOptions.from_options({**run, "onComplete": "sent.all"})
    assert (read.follow, read.on_complete) == (True, "sent.all")

    assert problems_of(stack="Shop", follow="true") == [
        "option follow needs runId and manifestPath: the members are the ids recorded there"
    ]
    assert problems_of(**run | {"runId": "-spring"}) == [
        "option runId is '-spring'; with option follow it must begin with a letter or digit"
    ]
    assert problems_of(**run | {"follow": "false", "onComplete": "a.kind"}) == [
        "option onComplete is about the end of a run, which needs option follow",
    ]
