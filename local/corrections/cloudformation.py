"""
CloudFormation as a real `cdk deploy` needs it, corrected over moto.

Owns stacks, change sets, parameters and templates, and the types that moto does not know; `resources`
corrects how known resources are created, updated and deleted.
"""

from collections.abc import Callable
from typing import Any
from urllib.parse import urlparse

import moto.cloudformation.models as stacks
import moto.cloudformation.utils as templates
from moto.cloudformation import parsing, responses
from moto.cloudformation.exceptions import CloudFormationError, ValidationError
from moto.core.responses import ActionResult, EmptyResult
from moto.s3.models import s3_backends

from .models import RecordedResource

_REVIEW = "REVIEW_IN_PROGRESS"


def correct() -> None:
    """Correct moto's CloudFormation in this process."""
    _record_unknown_types()
    _read_templates_from_any_host()
    _read_outputs_of_other_stacks()
    _keep_resources_without_an_update()
    _name_the_resource_that_fails()
    _keep_what_a_deletion_policy_retains()
    _delete_after_everything_else()
    _resolve_previous_parameter_values()
    _complete_change_sets()
    _fail_fast()


def _record_unknown_types() -> None:
    """
    Record the types that moto drops, so that Ref and GetAtt on them resolve.

    Custom resources are recorded too: moto would run their function in Docker.
    """
    known = parsing.resource_class_from_type

    def resource_class(resource_type: str) -> Any:
        if resource_type in parsing.NULL_MODELS:
            return known(resource_type)
        custom = resource_type.startswith("Custom::")
        if custom or resource_type not in parsing.get_model_map():
            return RecordedResource
        return known(resource_type)

    parsing.resource_class_from_type = resource_class


def _read_templates_from_any_host() -> None:
    """Take bucket and key from the path of a TemplateURL; moto does so for `localhost` alone."""

    def read(template_url: str, account_id: str, partition: str) -> str:
        parts = urlparse(template_url)
        path = parts.path.lstrip("/")
        if ".s3." in parts.netloc:
            path = f"{parts.netloc.split('.s3.')[0]}/{path}"
        bucket, key = path.split("/", 1)
        stored = s3_backends[account_id][partition].get_object(bucket, key)
        if stored is None:
            raise ValidationError(message=f"S3 error: there is no template at {template_url}")
        return bytes(stored.value).decode()

    for module in (templates, stacks, responses):
        module.get_stack_from_s3_url = read


def _read_outputs_of_other_stacks() -> None:
    """Resolve Fn::GetStackOutput, by which a CDK app with weak references reads from its other stacks."""
    resolve = parsing.clean_json

    def clean(resource_json: Any, resources_map: Any) -> Any:
        if isinstance(resource_json, dict) and "Fn::GetStackOutput" in resource_json:
            return _output(resolve(resource_json["Fn::GetStackOutput"], resources_map), resources_map)
        return resolve(resource_json, resources_map)

    parsing.clean_json = clean


def _output(wanted: dict[str, str], resources_map: Any) -> str:
    name, region = wanted["StackName"], wanted.get("Region", resources_map._region_name)  # noqa: SLF001
    backend = stacks.cloudformation_backends[resources_map._account_id][region]  # noqa: SLF001
    outputs = {one.key: one.value for one in backend.get_stack(name).output_map.values() if one}
    if wanted["OutputName"] not in outputs:
        raise ValidationError(message=f"stack {name} has no output {wanted['OutputName']}")
    return str(outputs[wanted["OutputName"]])


def _keep_resources_without_an_update() -> None:
    """Keep a resource of a type that moto cannot update; moto replaces it by nothing."""
    update = parsing.parse_and_update_resource

    def parse_and_update(
        logical_id: str, resource_json: Any, resources_map: Any, *args: Any, **kw: Any
    ) -> Any:
        updated = update(logical_id, resource_json, resources_map, *args, **kw)
        return updated if updated is not None else resources_map[logical_id]

    parsing.parse_and_update_resource = parse_and_update


def _name_the_resource_that_fails() -> None:
    """Say which resource moto can't create or update; its own errors are those of its code."""

    def named(act: Callable[..., Any]) -> Callable[..., Any]:
        def attempt(logical_id: str, resource_json: Any, *args: Any, **kw: Any) -> Any:
            try:
                return act(logical_id, resource_json, *args, **kw)
            except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
                properties = ", ".join(sorted(resource_json.get("Properties", {})))
                raise ValidationError(
                    message=f"{logical_id} ({resource_json.get('Type')}) can't be deployed on this machine: "
                    f"{type(error).__name__}: {error}; its properties are {properties}"
                ) from error

        return attempt

    parsing.parse_and_create_resource = named(parsing.parse_and_create_resource)
    parsing.parse_and_update_resource = named(parsing.parse_and_update_resource)


def _keep_what_a_deletion_policy_retains() -> None:
    """Keep a resource that leaves the template if its deletion policy is to retain it."""
    delete = parsing.ResourceMap._delete_resource  # noqa: SLF001

    def delete_resource(resources_map: Any, parsed_resource: Any, resource_json: dict[str, Any]) -> None:
        if not str(resource_json.get("DeletionPolicy", "")).startswith("Retain"):
            delete(resources_map, parsed_resource, resource_json)

    parsing.ResourceMap._delete_resource = delete_resource  # noqa: SLF001


def _delete_after_everything_else() -> None:
    """
    Update a stack in the order of AWS, and create a resource again that returns to the template.

    # AWS: resources that left the template are deleted in the clean-up, once everything else is updated and created
    # (CloudFormation User Guide, "Stack update status codes"). moto deletes first, and remembers what it deleted.
    """

    def update(
        resources_map: Any, template: dict[str, Any], parameters: dict[str, Any] | None = None
    ) -> None:
        names = resources_map.build_resource_diff(template, parameters)
        former = {name: resources_map._resource_json_map[name] for name in names["Remove"]}  # noqa: SLF001
        _load(resources_map, template, parameters)
        _each(names["Modify"], lambda name: _modify(resources_map, name))
        # A changed resource has made the new ones that it refers to.
        _each(names["Add"], resources_map.__getitem__)
        _each(names["Remove"], lambda name: _remove(resources_map, name, former[name]))

    parsing.ResourceMap.update = update


def _load(resources_map: Any, template: dict[str, Any], parameters: dict[str, Any] | None) -> None:
    resources_map._template = template  # noqa: SLF001
    resources_map.input_parameters = parameters or resources_map.input_parameters
    resources_map.load_mapping()
    resources_map.load_parameters()
    resources_map.load_conditions()
    resources_map._resource_json_map = template["Resources"]  # noqa: SLF001


def _modify(resources_map: Any, name: str) -> None:
    resource_json = resources_map._resource_json_map[name]  # noqa: SLF001
    place = {"account_id": resources_map._account_id, "region_name": resources_map._region_name}  # noqa: SLF001
    changed = parsing.parse_and_update_resource(name, resource_json, resources_map, **place)
    resources_map._parsed_resources[name] = changed  # noqa: SLF001


def _remove(resources_map: Any, name: str, resource_json: dict[str, Any]) -> None:
    resource = resources_map._parsed_resources.get(name)  # noqa: SLF001
    if resource is not None:
        resources_map._delete_resource(resource, resource_json)  # noqa: SLF001
    resources_map._parsed_resources.pop(name, None)  # noqa: SLF001


def _each(names: list[str], act: Callable[[str], object]) -> None:
    """Act on all; one that depends on another of them succeeds in a later pass."""
    left = list(names)
    for last in (False,) * (parsing.MAX_UPDATE_ATTEMPTS - 1) + (True,):
        for name in list(left):
            try:
                act(name)
            except Exception:
                if last:
                    raise
            else:
                left.remove(name)


def _resolve_previous_parameter_values() -> None:
    """
    UsePreviousValue means the value that was passed, or the default if none was.

    moto knows no defaults there, and takes the value that an SSM parameter's name stood for as the name.
    """

    def values(stack: Any) -> dict[str, Any]:
        declared = stack.template_dict.get("Parameters", {})
        defaults = {name: parameter.get("Default") for name, parameter in declared.items()}
        return {**defaults, **stack.parameters}

    def resolve(_backend: Any, instance: Any, incoming_params: list[dict[str, Any]]) -> dict[str, Any]:
        previous = values(instance)
        return {
            item["ParameterKey"]: previous[item["ParameterKey"]]
            if item.get("UsePreviousValue")
            else item["ParameterValue"]
            for item in incoming_params
        }

    stack_sets = stacks.CloudFormationBackend._resolve_update_parameters  # noqa: SLF001

    def resolve_any(backend: Any, instance: Any, incoming_params: list[dict[str, Any]]) -> dict[str, Any]:
        resolver = resolve if isinstance(instance, stacks.Stack) else stack_sets
        return dict(resolver(backend, instance, incoming_params))

    stacks.CloudFormationBackend._resolve_update_parameters = resolve_any  # noqa: SLF001
    stacks.Stack.stack_parameters = property(values)


def _complete_change_sets() -> None:
    """Give a stack that a change set made or changed its template, parameters, outputs and exports."""

    def apply(change_set: Any) -> None:
        stack = change_set.stack
        stack.template = change_set.template
        stack._parse_template()  # noqa: SLF001
        stack.resource_map.tags.update(change_set.tags or {})
        stack.resource_map.update(stack.template_dict, change_set.parameters)
        stack.parameters = change_set.parameters
        stack.description = stack.template_dict.get("Description")
        stack.output_map = stack._create_output_map()  # noqa: SLF001

    create = stacks.CloudFormationBackend.create_change_set
    execute = stacks.CloudFormationBackend.execute_change_set
    update = stacks.CloudFormationBackend.update_stack

    def create_change_set(backend: Any, stack_name: str, *args: Any, **kw: Any) -> Any:
        if kw.get("change_set_type") == "CREATE":
            _forget_stacks_in_review(backend, stack_name)
        return create(backend, stack_name, *args, **kw)

    def execute_change_set(backend: Any, change_set_name: str, stack_name: str | None = None) -> None:
        change_set = _change_set(backend, change_set_name, stack_name)
        execute(backend, change_set.change_set_id, stack_name)
        _publish_exports(backend, change_set.stack)

    def update_stack(backend: Any, *args: Any, **kw: Any) -> Any:
        stack = update(backend, *args, **kw)
        _publish_exports(backend, stack)
        return stack

    stacks.CloudFormationBackend.update_stack = update_stack
    stacks.ChangeSet.apply = apply
    stacks.CloudFormationBackend.create_change_set = create_change_set
    stacks.CloudFormationBackend.execute_change_set = execute_change_set
    _name_change_sets_within_their_stack()


class _ChangeSetNotFoundError(CloudFormationError):  # type: ignore[misc]
    """The code by which the CDK CLI knows that an old change set is gone."""

    code = "ChangeSetNotFound"


def _name_change_sets_within_their_stack() -> None:
    """
    Find and delete change sets by stack and name, and say so when there is none.

    The CDK CLI gives the change set of every stack the same name; moto looks at the name alone.
    """

    def describe(response: Any) -> ActionResult:
        backend = response.cloudformation_backend
        return ActionResult(_change_set(backend, *_names(response)))

    def delete(response: Any) -> EmptyResult:
        backend = response.cloudformation_backend
        # AWS: deleting a change set that does not exist succeeds (DeleteChangeSet, API reference).
        for change_set in _change_sets(backend, *_names(response)):
            del backend.change_sets[change_set.change_set_id]
        return EmptyResult()

    responses.CloudFormationResponse.describe_change_set = describe
    responses.CloudFormationResponse.delete_change_set = delete


def _names(response: Any) -> tuple[str, str | None]:
    return response._get_param("ChangeSetName"), response._get_param("StackName")  # noqa: SLF001


def _change_set(backend: Any, name: str, stack_name: str | None) -> Any:
    found = _change_sets(backend, name, stack_name)
    if not found:
        raise _ChangeSetNotFoundError(f"ChangeSet [{name}] does not exist")
    return found[0]


def _publish_exports(backend: Any, stack: Any) -> None:
    """Exports follow each change of a stack; moto publishes them at CreateStack alone."""
    for name, export in list(backend.exports.items()):
        if export.exporting_stack_id == stack.stack_id:
            del backend.exports[name]
    backend.exports.update({export.name: export for export in stack.exports})


def _change_sets(backend: Any, name: str, stack_name: str | None) -> list[Any]:
    """Change sets of that name or id, the newest first."""
    return [
        one
        for identifier, one in reversed(list(backend.change_sets.items()))
        if name in {identifier, one.change_set_name}
        and (stack_name is None or stack_name in {one.stack_name, one.stack_id})
    ]


def _forget_stacks_in_review(backend: Any, stack_name: str) -> None:
    """A change set that was never run leaves a stack in review; the next one must not make a twin."""
    for stack_id, stack in list(backend.stacks.items()):
        if stack.name == stack_name and stack.status == _REVIEW:
            del backend.stacks[stack_id]


def _fail_fast() -> None:
    """
    Answer a template that moto cannot deploy with a client error and its reason.

    As a server error the CDK CLI would repeat the call for three quarters of a minute. A stack that
    could not be created is removed, as a rolled back one once it is deleted.
    """
    backend = stacks.CloudFormationBackend
    for name in ("create_stack", "update_stack", "execute_change_set"):
        setattr(backend, name, _with_a_reason(getattr(backend, name), forget=name == "create_stack"))


def _with_a_reason(call: Callable[..., Any], *, forget: bool) -> Callable[..., Any]:
    def guarded(backend: Any, *args: Any, **kw: Any) -> Any:
        before = set(backend.stacks)
        try:
            return call(backend, *args, **kw)
        except Exception as error:
            if forget:
                _discard(backend, set(backend.stacks) - before)
            if isinstance(error, CloudFormationError):
                raise
            raise ValidationError(message=f"{type(error).__name__}: {error}") from error

    return guarded


def _discard(backend: Any, stack_ids: set[str]) -> None:
    for stack_id in stack_ids:
        resource_map = backend.stacks.pop(stack_id).resource_map
        for resource_json in resource_map._resource_json_map.values():  # noqa: SLF001
            if resource_json.get("DeletionPolicy") == "RetainExceptOnCreate":
                del resource_json["DeletionPolicy"]
        resource_map.delete()
