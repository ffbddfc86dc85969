"""AWS calls are counted per access key id and operation."""

from local.deployed import make_client


def test_calls_are_told_apart_by_key_and_operation(server):
    """JSON, query and REST services are counted, and a reset starts from zero."""
    make_client("sqs", server.endpoint_url, access_key="function_a").list_queues()
    dynamodb = make_client("dynamodb", server.endpoint_url, access_key="function_b")
    dynamodb.list_tables()
    dynamodb.list_tables()
    make_client("sts", server.endpoint_url, access_key="someone").get_caller_identity()
    make_client("s3", server.endpoint_url, access_key="someone").list_buckets()

    calls = server.calls(reset=True)

    assert calls["function_a"] == {"sqs.ListQueues": 1}
    assert calls["function_b"] == {"dynamodb.ListTables": 2}
    assert calls["someone"] == {"sts.GetCallerIdentity": 1, "s3.GET": 1}
    assert server.calls() == {}


def test_calls_about_messages_of_fifo_queues_are_counted_too(server):
    """The short way that these calls take passes the counter."""
    sqs = make_client("sqs", server.endpoint_url, access_key="function_c")
    url = sqs.create_queue(QueueName="counted.fifo", Attributes={"FifoQueue": "true"})["QueueUrl"]
    sqs.send_message(QueueUrl=url, MessageBody="x", MessageGroupId="g", MessageDeduplicationId="d")
    sqs.receive_message(QueueUrl=url)

    counted = server.calls()["function_c"]

    assert counted == {"sqs.CreateQueue": 1, "sqs.SendMessage": 1, "sqs.ReceiveMessage": 1}
