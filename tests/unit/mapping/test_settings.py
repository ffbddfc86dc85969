"""Settings as the Lambda API returns them."""

from lanes.mapping.rules import MappingSettings


def test_settings_are_read_from_the_lambda_api():
    """Batch size, concurrency, answer type and state are those of the deployed mapping."""
    settings = MappingSettings.from_api(
        {
            "BatchSize": 4,
            "ScalingConfig": {"MaximumConcurrency": 3},
            "State": "Disabled",
            "FunctionResponseTypes": ["ReportBatchItemFailures"],
        }
    )

    assert settings == MappingSettings(
        batch_size=4, maximum_concurrency=3, enabled=False, reports_failures=True
    )


def test_a_receive_asks_for_no_more_than_a_receive_can_bring():
    """Even if a standard queue's batch is larger."""
    assert MappingSettings(batch_size=100).receive_size == 10
