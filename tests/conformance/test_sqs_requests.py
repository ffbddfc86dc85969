"""What corrected moto answers to the requests of boto3, beyond what the model decides."""

import json

import pytest
from botocore.exceptions import ClientError

KIB = 1024
MIB = KIB * KIB


def entry(number, body="body", **changes):
    """Return one valid entry of a batch, with changes; None removes a member."""
    members = {
        "Id": str(number),
        "MessageBody": body,
        "MessageGroupId": "A",
        "MessageDeduplicationId": f"id-{number}",
    } | changes
    return {name: value for name, value in members.items() if value is not None}


def send_batch(queue, *entries):
    """Send a batch and return the answer's two lists."""
    answer = queue.client.send_message_batch(QueueUrl=queue.url, Entries=list(entries))
    return answer.get("Successful", []), answer.get("Failed", [])


def receive(queue, **options):
    """Receive up to ten messages with everything there is to know."""
    answer = queue.client.receive_message(
        QueueUrl=queue.url, **{"MaxNumberOfMessages": 10, "MessageSystemAttributeNames": ["All"]} | options
    )
    return answer.get("Messages", [])


def text(value, data_type="String"):
    """Return a message attribute."""
    return {"DataType": data_type, "StringValue": value}


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"DelaySeconds": 5}, "InvalidParameterValue"),
        ({"MessageGroupId": "g" * 129}, "InvalidParameterValue"),
        ({"MessageGroupId": "with space"}, "InvalidParameterValue"),
        ({"MessageGroupId": ""}, "InvalidParameterValue"),
        ({"MessageDeduplicationId": "d" * 129}, "InvalidParameterValue"),
        ({"MessageDeduplicationId": "ümlaut"}, "InvalidParameterValue"),
        ({"MessageBody": ""}, "MissingParameter"),
        ({"MessageBody": "\x00"}, "InvalidMessageContents"),
        ({"MessageBody": "\ufffe"}, "InvalidMessageContents"),
        ({"MessageBody": "x" * (2 * KIB + 1)}, "InvalidParameterValue"),
        ({"MessageBody": "ü" * (KIB + 1)}, "InvalidParameterValue"),
        ({"MessageBody": "x" * 2040, "MessageAttributes": {"n": text("12")}}, "InvalidParameterValue"),
        ({"MessageAttributes": {f"n{i}": text("1") for i in range(11)}}, "InvalidParameterValue"),
        ({"MessageAttributes": {"n": text("1", "Letter")}}, "InvalidParameterValue"),
    ],
)
def test_a_bad_entry_fails_alone(corrected, changes, code):
    """The other entries are accepted in order, and a single send is refused with the same code."""
    corrected.client.set_queue_attributes(
        QueueUrl=corrected.url, Attributes={"MaximumMessageSize": str(2 * KIB)}
    )
    bad = entry(1, **changes)

    successful, failed = send_batch(corrected, entry(0), bad, entry(2))
    with pytest.raises(ClientError) as refused:
        corrected.client.send_message(
            QueueUrl=corrected.url, **{name: value for name, value in bad.items() if name != "Id"}
        )

    assert [sent["Id"] for sent in successful] == ["0", "2"]
    assert [(entry["Id"], entry["Code"], entry["SenderFault"]) for entry in failed] == [("1", code, True)]
    assert refused.value.response["Error"]["Code"] == code
    assert corrected.counts() == (2, 0, 0)


@pytest.mark.parametrize(
    ("missing", "code"),
    [("MessageGroupId", "MissingParameter"), ("MessageDeduplicationId", "InvalidParameterValue")],
)
def test_a_message_without_an_id_of_the_queue_is_refused(corrected, missing, code):
    """With the code that its batch is refused with."""
    request = {name: value for name, value in entry(0).items() if name not in {"Id", missing}}

    with pytest.raises(ClientError) as refused:
        corrected.client.send_message(QueueUrl=corrected.url, **request)

    assert refused.value.response["Error"]["Code"] == code


def test_a_delay_of_zero_is_no_delay(corrected):
    """DelaySeconds=0 is accepted on a FIFO queue."""
    successful, failed = send_batch(corrected, entry(0, DelaySeconds=0))

    assert (len(successful), failed) == (1, [])


def test_a_message_may_fill_the_limit_to_the_last_byte(corrected):
    """The limit is inclusive and counts bytes."""
    successful, _failed = send_batch(corrected, entry(0, "ü" * (MIB // 2)))

    assert len(successful) == 1


def test_a_batch_over_one_mebibyte_is_refused_as_a_whole(corrected):
    """Nothing of it is sent, and attributes count."""
    halves = [entry(number, "x" * (MIB // 2)) for number in range(2)]
    halves[1]["MessageAttributes"] = {"n": text("1")}

    with pytest.raises(ClientError) as refused:
        send_batch(corrected, *halves)

    assert refused.value.response["Error"]["Code"].endswith("BatchRequestTooLong")
    assert corrected.counts() == (0, 0, 0)


@pytest.mark.parametrize(
    ("entries", "code"),
    [
        ([], "EmptyBatchRequest"),
        ([entry(number) for number in range(11)], "TooManyEntriesInBatchRequest"),
        ([entry(0), entry(0)], "BatchEntryIdsNotDistinct"),
        ([entry("not an id")], "InvalidBatchEntryId"),
        ([entry(0), entry(1, MessageDeduplicationId=None)], "InvalidParameterValue"),
        ([entry(0), entry(1, MessageGroupId=None)], "MissingParameter"),
    ],
)
def test_an_ill_formed_batch_is_refused_as_a_whole(corrected, entries, code):
    """Faults of the request itself are no partial failures."""
    with pytest.raises(ClientError) as refused:
        send_batch(corrected, *entries)

    assert refused.value.response["Error"]["Code"].endswith(code)
    assert corrected.counts() == (0, 0, 0)


def test_answers_to_a_duplicate_name_the_original(corrected):
    """Within one batch too."""
    successful, _failed = send_batch(corrected, entry(0), entry(1, MessageDeduplicationId="id-0"))

    assert successful[0]["MessageId"] == successful[1]["MessageId"]
    assert successful[0]["SequenceNumber"] == successful[1]["SequenceNumber"]
    assert corrected.counts() == (1, 0, 0)


def test_attributes_travel_with_the_message_and_only_those_asked_for_return(corrected):
    """Strings, binaries and a trace header; names select exactly or by prefix."""
    corrected.client.send_message(
        QueueUrl=corrected.url,
        MessageBody="body",
        MessageGroupId="A",
        MessageDeduplicationId="one",
        MessageAttributes={
            "trace.id": text("abc"),
            "raw": {"DataType": "Binary", "BinaryValue": b"\x00\xff"},
            "other": text("7", "Number"),
        },
        MessageSystemAttributes={"AWSTraceHeader": text("Root=1-2-3")},
    )
    everything = receive(corrected, MessageAttributeNames=["All"], VisibilityTimeout=0)[0]
    selected = receive(corrected, MessageAttributeNames=["trace.*", "raw"], VisibilityTimeout=0)[0]
    nothing = receive(corrected)[0]

    assert set(everything["MessageAttributes"]) == {"trace.id", "raw", "other"}
    assert everything["MessageAttributes"]["raw"]["BinaryValue"] == b"\x00\xff"
    assert everything["Attributes"]["AWSTraceHeader"] == "Root=1-2-3"
    assert set(selected["MessageAttributes"]) == {"trace.id", "raw"}
    assert "MessageAttributes" not in nothing


def test_only_the_system_attributes_asked_for_return(corrected):
    """By either of the two names of the parameter."""
    corrected.send("A1")
    by_old_name = receive(
        corrected,
        MessageSystemAttributeNames=[],
        AttributeNames=["ApproximateReceiveCount"],
        VisibilityTimeout=0,
    )[0]
    by_new_name = receive(corrected, MessageSystemAttributeNames=["MessageGroupId"], VisibilityTimeout=0)[0]
    without = receive(corrected, MessageSystemAttributeNames=[])[0]

    assert by_old_name["Attributes"] == {"ApproximateReceiveCount": "1"}
    assert by_new_name["Attributes"] == {"MessageGroupId": "A"}
    assert "Attributes" not in without


@pytest.mark.parametrize("role", [None, "AROAEXAMPLE:session"])
def test_each_message_has_the_id_of_its_sender(corrected, role):
    """All have one, but for the emulated Scheduler, which says which role it has."""
    more = {"MessageSystemAttributes": {"SenderId": text(role)}} if role else {}
    corrected.client.send_message(
        QueueUrl=corrected.url, MessageBody="b", MessageGroupId="A", MessageDeduplicationId="one", **more
    )

    assert receive(corrected)[0]["Attributes"]["SenderId"] == (role or "AIDAIT2UOQQY3AUEKVGXU")


def test_a_batch_of_deletes_fails_entry_by_entry(corrected):
    """Expired and unknown handles fail, the others delete."""
    for group in "ABC":
        corrected.send("body", group=group)
    expired, second, third = (message["ReceiptHandle"] for message in receive(corrected))
    corrected.change_visibility(expired, 0)
    answer = corrected.client.delete_message_batch(
        QueueUrl=corrected.url,
        Entries=[
            {"Id": name, "ReceiptHandle": handle}
            for name, handle in [("a", expired), ("b", second), ("c", "unknown"), ("d", third)]
        ],
    )

    assert [done["Id"] for done in answer["Successful"]] == ["b", "d"]
    assert [(failed["Id"], failed["Code"]) for failed in answer["Failed"]] == [
        ("a", "InvalidParameterValue"),
        ("c", "ReceiptHandleIsInvalid"),
    ]
    assert corrected.counts() == (1, 0, 0)


def test_a_batch_of_visibility_changes_fails_entry_by_entry(corrected):
    """Out of range, not in flight and unknown handles fail, the others change."""
    for group in "ABC":
        corrected.send("body", group=group)
    first, second, third = (message["ReceiptHandle"] for message in receive(corrected))
    corrected.change_visibility(second, 0)
    answer = corrected.client.change_message_visibility_batch(
        QueueUrl=corrected.url,
        Entries=[
            {"Id": name, "ReceiptHandle": handle, "VisibilityTimeout": seconds}
            for name, handle, seconds in [
                ("a", first, 43_201),
                ("b", second, 5),
                ("c", third, 0),
                ("d", "unknown", 5),
            ]
        ],
    )

    assert [done["Id"] for done in answer["Successful"]] == ["c"]
    assert [(failed["Id"], failed["Code"]) for failed in answer["Failed"]] == [
        ("a", "InvalidParameterValue"),
        ("b", "MessageNotInflight"),
        ("d", "ReceiptHandleIsInvalid"),
    ]
    assert corrected.counts() == (2, 1, 0)


@pytest.mark.parametrize(
    "options",
    [
        {"MaxNumberOfMessages": 0},
        {"MaxNumberOfMessages": 11},
        {"WaitTimeSeconds": 21},
        {"VisibilityTimeout": 43_201},
        {"VisibilityTimeout": -1},
    ],
)
def test_a_receive_out_of_range_is_refused(corrected, options):
    """Each number has its documented range."""
    with pytest.raises(ClientError) as refused:
        receive(corrected, **options)

    assert refused.value.response["Error"]["Code"] == "InvalidParameterValue"


def test_all_attributes_of_a_queue_can_be_asked_for(corrected):
    """Counts and settings together, as strings."""
    corrected.send("A1")
    attributes = corrected.client.get_queue_attributes(QueueUrl=corrected.url, AttributeNames=["All"])[
        "Attributes"
    ]

    assert attributes["ApproximateNumberOfMessages"] == "1"
    assert attributes["FifoQueue"] == "true"
    assert attributes["VisibilityTimeout"] == "30"


def test_an_unknown_attribute_of_a_queue_is_refused(corrected):
    """The code says so."""
    with pytest.raises(ClientError) as refused:
        corrected.client.get_queue_attributes(QueueUrl=corrected.url, AttributeNames=["Colour"])

    assert refused.value.response["Error"]["Code"] == "InvalidAttributeName"


@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"FifoQueue": "true", "VisibilityTimeout": "43201"},
        {"FifoQueue": "true", "DelaySeconds": "901"},
        {"FifoQueue": "true", "MessageRetentionPeriod": "59"},
        {
            "FifoQueue": "true",
            "RedrivePolicy": json.dumps(
                {
                    "deadLetterTargetArn": "arn:aws:sqs:eu-central-1:123456789012:dead.fifo",
                    "maxReceiveCount": 1001,
                }
            ),
        },
    ],
)
def test_a_queue_with_impossible_attributes_is_not_created(corrected, attributes):
    """A FIFO name needs a FIFO queue, and numbers have ranges."""
    with pytest.raises(ClientError):
        corrected.client.create_queue(QueueName="bad.fifo", Attributes=attributes)

    assert len(corrected.client.list_queues()["QueueUrls"]) == 2


def test_a_standard_queue_takes_no_fifo_dead_letter_queue(corrected):
    """Both must be of one type."""
    policy = {
        "deadLetterTargetArn": "arn:aws:sqs:eu-central-1:123456789012:dead.fifo",
        "maxReceiveCount": 5,
    }

    with pytest.raises(ClientError):
        corrected.client.create_queue(QueueName="plain", Attributes={"RedrivePolicy": json.dumps(policy)})


def test_standard_queues_stay_as_moto_has_them(corrected):
    """Send, receive and delete on a queue without order."""
    url = corrected.client.create_queue(QueueName="plain")["QueueUrl"]
    corrected.client.send_message(QueueUrl=url, MessageBody="body")
    (message,) = corrected.client.receive_message(QueueUrl=url)["Messages"]
    corrected.client.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])

    assert message["Body"] == "body"
    assert "Messages" not in corrected.client.receive_message(QueueUrl=url, VisibilityTimeout=0)


@pytest.mark.parametrize(
    "message",
    [
        {"MessageBody": ""},
        {
            "MessageBody": "body",
            "MessageAttributes": {"tenant-ü": {"DataType": "String", "StringValue": "a"}},
        },
        {"MessageBody": "x" * 1_048_577},
    ],
    ids=["empty", "name of an attribute", "too large"],
)
def test_a_queue_keeps_nothing_that_it_refuses(corrected, message):
    """A message with such an attribute would make every receive of the queue fail."""
    url = corrected.client.create_queue(QueueName="plain")["QueueUrl"]

    with pytest.raises(ClientError):
        corrected.client.send_message(QueueUrl=url, **message)
    with pytest.raises(ClientError):
        corrected.client.send_message(
            QueueUrl=corrected.url, MessageGroupId="A", MessageDeduplicationId="1", **message
        )

    assert "Messages" not in corrected.client.receive_message(QueueUrl=url)
    assert corrected.receive() == []


def test_a_deleted_dead_letter_queue_loses_no_message(corrected):
    """Without its target a message stays where it is."""
    corrected.configure(max_receive_count=1)
    corrected.send("A1")
    corrected.receive(visibility=0)
    corrected.client.delete_queue(QueueUrl=corrected.dead_url)

    assert [delivery.receive_count for delivery in corrected.receive()] == [2]


@pytest.mark.parametrize("name", ["typed.fifo", "typed"])
def test_an_existing_queue_keeps_its_type(corrected, name):
    """FifoQueue with another value is refused, with its own value it changes nothing."""
    is_fifo = name.endswith(".fifo")
    url = corrected.client.create_queue(QueueName=name, Attributes={"FifoQueue": "true"} if is_fifo else {})[
        "QueueUrl"
    ]

    with pytest.raises(ClientError) as refused:
        corrected.client.set_queue_attributes(
            QueueUrl=url, Attributes={"FifoQueue": "false" if is_fifo else "true"}
        )

    corrected.client.set_queue_attributes(QueueUrl=url, Attributes={"FifoQueue": str(is_fifo).lower()})
    assert refused.value.response["Error"]["Code"] == "InvalidAttributeValue"
