"""
Corrections of moto's CloudFormation for queues, functions, mappings and parameters.

Creates follow the whole template, updates change only the template's changes, and moto's own event source
mapping stays off.
"""

import base64
from collections.abc import Callable, Mapping
from typing import Any

import moto.awslambda.models as functions
import moto.dynamodb.models.table as tables
import moto.sqs.models as queues
import moto.ssm.models as parameters
from moto.awslambda.exceptions import LambdaClientError
from moto.cloudformation.exceptions import ValidationError
from moto.s3.models import s3_backends
from moto.sqs.models import sqs_backends

from lanes.mapping.rules import MAX_BATCH

from ..polled_queue import without_qualifier
from .models import correct_versions, is_true, replace_method

_FIFO = ".fifo"
_QUEUE_NAME_LENGTH = 80
# AWS: the defaults of SetQueueAttributes, API reference of SQS.
_QUEUE_DEFAULTS = {
    "DelaySeconds": 0,
    "MaximumMessageSize": 1_048_576,
    "MessageRetentionPeriod": 345_600,
    "ReceiveMessageWaitTimeSeconds": 0,
    "VisibilityTimeout": 30,
}


def correct() -> None:
    """Correct the resources of a stack in this process."""
    _switch_off_motos_mapping()
    _correct_queues()
    _correct_functions()
    correct_versions()
    _correct_mappings()
    _refuse_mappings()
    _correct_parameters()


def _switch_off_motos_mapping() -> None:
    """
    Hide mappings from moto's data plane.

    It runs the function inside SendMessage, one message at a time, and deletes messages that it could not run.
    """

    def mappings(_owner: Any) -> dict[str, Any]:
        return {}

    def ignore(_owner: Any, _value: Any) -> None:
        """Nothing is kept: there is nothing to fire."""

    for owner in (queues.Queue, tables.Table):
        owner.lambda_event_source_mappings = property(mappings, ignore)


def _correct_queues() -> None:
    def named(original: Any) -> Callable[..., Any]:
        def create(
            cls: Any, resource_name: str, cloudformation_json: Any, account: str, region: str, **kw: Any
        ) -> Any:
            properties = cloudformation_json["Properties"]
            name = str(resource_name)
            if not properties.get("QueueName"):
                name = _generated_queue_name(name, is_fifo=is_true(properties.get("FifoQueue")))
            if name in queues.sqs_backends[account][region].queues:
                raise ValidationError(message=f"the queue {name} already exists")
            return original(cls, name, cloudformation_json, account, region, **kw)

        return create

    def all_attributes(_original: Any) -> Callable[..., Any]:
        def update(_cls: Any, original_resource: Any, cloudformation_json: Any, **_kw: Any) -> Any:
            properties = cloudformation_json["Properties"]
            if is_true(properties.get("FifoQueue")) != original_resource.fifo_queue:
                # AWS: another FifoQueue means another queue ("Update requires: Replacement").
                raise ValidationError(
                    message=f"the type of the queue {original_resource.name} can't be changed on this machine, where "
                    "queues are not replaced; give the new queue another logical id"
                )
            fixed = {"QueueName", "FifoQueue", "Tags"}
            changed = {key: value for key, value in properties.items() if key not in fixed}
            changed.setdefault("RedrivePolicy", {})
            original_resource._set_attributes({**_QUEUE_DEFAULTS, **changed})  # noqa: SLF001
            return original_resource

        return update

    replace_method(queues.Queue, "create_from_cloudformation_json", named)
    replace_method(queues.Queue, "update_from_cloudformation_json", all_attributes)


def _correct_parameters() -> None:
    """AWS: the tags of a parameter are a map (CloudFormation, AWS::SSM::Parameter); moto reads the list of others."""

    def with_tags(original: Any) -> Callable[..., Any]:
        def create(cls: Any, resource_name: str, cloudformation_json: Any, *args: Any, **kw: Any) -> Any:
            properties = dict(cloudformation_json["Properties"])
            if isinstance(tags := properties.get("Tags"), dict):
                properties["Tags"] = [{"Key": key, "Value": value} for key, value in tags.items()]
            return original(
                cls, resource_name, {**cloudformation_json, "Properties": properties}, *args, **kw
            )

        return create

    replace_method(parameters.Parameter, "create_from_cloudformation_json", with_tags)


def _generated_queue_name(name: str, *, is_fifo: bool) -> str:
    # AWS: CloudFormation gives a queue without QueueName a unique name, that of a FIFO queue ends in .fifo. moto cuts
    # the name behind its random end, so that long ids would give one name to several queues.
    ids, _, random_end = name.rpartition("-")
    ending = f"-{random_end}{_FIFO if is_fifo else ''}"
    return ids[: _QUEUE_NAME_LENGTH - len(ending)] + ending


def _correct_functions() -> None:
    def complete(original: Any) -> Callable[..., Any]:
        def create(cls: Any, resource_name: str, cloudformation_json: Any, *args: Any, **kw: Any) -> Any:
            function = original(cls, resource_name, cloudformation_json, *args, **kw)
            _apply_settings(function, cloudformation_json["Properties"])
            _publish_code(function)
            return function

        return create

    def everything(_original: Any) -> Callable[..., Any]:
        def update(cls: Any, original_resource: Any, cloudformation_json: Any, **_kw: Any) -> Any:
            properties = cloudformation_json["Properties"]
            original_resource.update_function_code(_code(cls, properties["Code"]))
            _apply_settings(original_resource, properties)
            _publish_code(original_resource)
            return original_resource

        return update

    replace_method(functions.LambdaFunction, "create_from_cloudformation_json", complete)
    replace_method(functions.LambdaFunction, "update_from_cloudformation_json", everything)
    _tell_log_groups()


def _tell_log_groups() -> None:
    """Add the log group to a function; moto leaves it out."""
    original = functions.LambdaFunction.get_configuration

    def get_configuration(function: Any, *args: Any, **kw: Any) -> dict[str, Any]:
        configuration: dict[str, Any] = original(function, *args, **kw)
        configuration["LoggingConfig"] = {"LogFormat": "Text", "LogGroup": function.logs_group_name}
        return configuration

    functions.LambdaFunction.get_configuration = get_configuration


def _apply_settings(function: Any, properties: dict[str, Any]) -> None:
    """Every setting of the template, with the defaults of AWS for the others."""
    variables = properties.get("Environment", {}).get("Variables", {})
    function.environment_vars = {key: str(value) for key, value in variables.items()}
    function.handler = properties.get("Handler")
    function.run_time = properties.get("Runtime")
    function.role = properties["Role"]
    function.description = properties.get("Description", "")
    # AWS: the defaults of CreateFunction are 128 MB and 3 seconds, API reference of Lambda.
    function.memory_size = int(properties.get("MemorySize", 128))
    function.timeout = int(properties.get("Timeout", 3))
    function.tracing_config = properties.get("TracingConfig") or {"Mode": "PassThrough"}
    function.architectures = properties.get("Architectures", ["x86_64"])
    logging = properties.get("LoggingConfig") or {}
    function.logs_group_name = logging.get("LogGroup") or f"/aws/lambda/{function.function_name}"
    reserved = properties.get("ReservedConcurrentExecutions")
    function.reserved_concurrency = None if reserved is None else int(reserved)


def _code(cls: Any, code: dict[str, Any]) -> dict[str, Any]:
    """Inline code comes as plain text; moto's update wants it as an encoded archive."""
    if "ZipFile" not in code:
        return code
    archive = cls._create_zipfile_from_plaintext_code(code["ZipFile"])
    return {"ZipFile": base64.b64encode(archive)}


def _publish_code(function: Any) -> None:
    """Put the code at GetFunction's Code.Location, in the bucket of Lambda itself."""
    if "S3Key" not in function.code:
        return
    buckets = s3_backends[function.account_id][function.partition]
    name = f"awslambda-{function.region}-tasks"
    if name not in buckets.buckets:
        buckets.create_bucket(name, function.region)
    buckets.put_object(name, function.code["S3Key"], function.code_bytes)


def _correct_mappings() -> None:
    def of_the_alias(original: Any) -> Callable[..., Any]:
        def create(cls: Any, resource_name: str, cloudformation_json: Any, *args: Any, **kw: Any) -> Any:
            mapping = original(cls, resource_name, cloudformation_json, *args, **kw)
            _keep_alias(mapping, cloudformation_json)
            return mapping

        return create

    def defaults_for_the_rest(original: Any) -> Callable[..., Any]:
        def update(cls: Any, original_resource: Any, cloudformation_json: Any, **kw: Any) -> Any:
            place = (kw["account_id"], kw["region_name"])
            # AWS: another EventSourceArn means another mapping ("Update requires: Replacement").
            if cloudformation_json["Properties"]["EventSourceArn"] != original_resource.event_source_arn:
                original_resource.delete(*place)
                return cls.create_from_cloudformation_json("", cloudformation_json, *place)
            properties = {
                "BatchSize": None,
                "Enabled": True,
                "FunctionResponseTypes": None,
                "ScalingConfig": None,
                "FilterCriteria": None,
                **cloudformation_json["Properties"],
            }
            changed = {"Properties": properties}
            mapping = original(cls, original_resource=original_resource, cloudformation_json=changed, **kw)
            _keep_alias(mapping, cloudformation_json)
            return mapping

        return update

    replace_method(functions.EventSourceMapping, "create_from_cloudformation_json", of_the_alias)
    replace_method(functions.EventSourceMapping, "update_from_cloudformation_json", defaults_for_the_rest)


def _keep_alias(mapping: Any, cloudformation_json: Any) -> None:
    """Keep the alias that a mapping invokes; moto writes down the version that it points to at this moment."""
    named = str(cloudformation_json["Properties"]["FunctionName"])
    # A name has no colon, and an ARN without a qualifier ends in a name.
    function, _, qualifier = named.rpartition(":")
    if function and not function.endswith(":function"):
        mapping.function_arn = f"{without_qualifier(mapping.function_arn)}:{qualifier}"


class MappingExistsError(LambdaClientError):  # type: ignore[misc]
    """The queue is mapped to the function already."""

    code = 409

    def __init__(self, mapping: Any) -> None:
        super().__init__(
            "ResourceConflictException",
            f'An event source mapping with SQS arn (" {mapping.event_source_arn} ") and function '
            f'(" {mapping.function_arn} ") already exists. Please update or delete the existing mapping with UUID '
            f"{mapping.uuid}",
        )


def _refuse_mappings() -> None:
    """
    Refuse the mappings on queues that Lambda refuses.

    moto accepts a queue with a visibility timeout below the function timeout, a batching window on a FIFO queue and a
    second mapping of the same queue and function, and answers too large a batch size with a server error.
    """
    backend = functions.LambdaBackend
    create, update = backend.create_event_source_mapping, backend.update_event_source_mapping

    def create_event_source_mapping(self: Any, spec: dict[str, Any]) -> Any:
        arn, name = spec.get("EventSourceArn", ""), spec.get("FunctionName", "")
        queue = _queue(self, arn)
        if queue is not None and name:
            function = self.get_function(name)
            for mapping in self._event_source_mappings.values():
                if (mapping.event_source_arn, mapping.function_arn) == (arn, function.function_arn):
                    raise MappingExistsError(mapping)
            _check(queue, function, spec)
        return create(self, spec)

    def update_event_source_mapping(self: Any, uuid: str, spec: dict[str, Any]) -> Any:
        mapping = self.get_event_source_mapping(uuid)
        queue = None if mapping is None else _queue(self, mapping.event_source_arn)
        if queue is not None:
            function = self.get_function(spec.get("FunctionName") or mapping.function_arn)
            _check(queue, function, mapping.get_configuration() | spec)
        return update(self, uuid, spec)

    backend.create_event_source_mapping = create_event_source_mapping
    backend.update_event_source_mapping = update_event_source_mapping


def _queue(backend: Any, arn: str) -> Any:
    """Return the queue with an ARN; None for a stream."""
    queue = sqs_backends[backend.account_id][backend.region_name].queues.get(arn.rpartition(":")[2])
    return queue if queue is not None and queue.queue_arn == arn else None


def _check(queue: Any, function: Any, wanted: Mapping[str, Any]) -> None:
    # AWS: the function timeout is at most the visibility timeout (Lambda developer guide, "Configuring a queue to use
    # with Lambda"); batch size and batching window are those of "SQS event source mapping parameters".
    if queue.visibility_timeout < function.timeout:
        raise _refusal(
            f"Queue visibility timeout: {queue.visibility_timeout} seconds is less than "
            f"Function timeout: {function.timeout} seconds"
        )
    if not queue.fifo_queue:
        return
    if int(wanted.get("MaximumBatchingWindowInSeconds") or 0):
        raise _refusal("Batching window is not supported for FIFO queues.")
    size = int(wanted.get("BatchSize") or MAX_BATCH)
    if size > MAX_BATCH:
        raise _refusal(f"BatchSize {size} exceeds {MAX_BATCH}, the maximum for FIFO queues.")


def _refusal(message: str) -> LambdaClientError:
    return LambdaClientError("InvalidParameterValueException", message)
