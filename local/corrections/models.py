"""
Models of the resources of a stack that moto lacks, or has in part.

Recorded ones that nothing acts upon, such as policies of queues, alarms and metadata; versions and aliases of
functions, of which moto's version has no attributes; schedules and their groups. moto finds direct subclasses of its
base class, so this module need only be imported.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Self

import moto.awslambda.models as functions
import moto.scheduler.models as scheduler
from moto.awslambda.exceptions import UnknownFunctionException
from moto.core.common_models import CloudFormationModel


def replace_method(owner: Any, name: str, make: Callable[[Any], Callable[..., Any]]) -> None:
    """Put `make(original)` in the place of a class method."""
    original = getattr(owner, name).__func__
    setattr(owner, name, classmethod(make(original)))


def is_true(value: Any) -> bool:
    """Read a flag of a template or a request, where it may be a text."""
    return str(value).lower() == "true"


class RecordedResource(CloudFormationModel):  # type: ignore[misc]
    """A resource of a type that moto has no model of; Ref, GetAtt, update and delete work on it."""

    # moto files the instances of a model under the second part of its module's name.
    __module__ = "moto.cloudformation.recorded"

    def __init__(self, name: str, properties: dict[str, Any], *, resource_type: str, place: str) -> None:
        self.name = name
        self.properties = properties
        self.resource_type = resource_type
        self._place = place

    @property
    def physical_resource_id(self) -> str:
        """Value of Ref."""
        return self.name

    @staticmethod
    def cloudformation_name_type() -> str:
        """No property names the resource."""
        return ""

    @staticmethod
    def cloudformation_type() -> str:
        """A type that no template has; the real one is kept per instance."""
        return "Lanes::Recorded::Resource"

    @classmethod
    def has_cfn_attr(cls, attr: str) -> bool:
        """Every attribute has a value."""
        return bool(attr)

    def get_cfn_attribute(self, attribute_name: str) -> str:
        """A plausible value: an ARN, the id, or a text that names the resource and the attribute."""
        if attribute_name.endswith("Arn"):
            parts = self.resource_type.split("::")
            service = parts[1].lower() if len(parts) > 1 else "cloudformation"
            return f"arn:aws:{service}:{self._place}:{self.name}"
        if attribute_name.endswith("Id"):
            return self.name
        return f"{self.name}-{attribute_name}"

    @classmethod
    def create_from_cloudformation_json(
        cls,
        resource_name: str,
        cloudformation_json: dict[str, Any],
        account_id: str,
        region_name: str,
        **_kwargs: Any,
    ) -> "RecordedResource":
        """Remember the resource."""
        return cls(
            resource_name,
            cloudformation_json.get("Properties", {}),
            resource_type=cloudformation_json["Type"],
            place=f"{region_name}:{account_id}",
        )

    @classmethod
    def update_from_cloudformation_json(
        cls,
        original_resource: "RecordedResource",
        new_resource_name: str,  # noqa: ARG003 - moto passes all of them by name
        cloudformation_json: dict[str, Any],
        account_id: str,  # noqa: ARG003
        region_name: str,  # noqa: ARG003
    ) -> "RecordedResource":
        """Remember its new properties."""
        original_resource.properties = cloudformation_json.get("Properties", {})
        return original_resource

    @classmethod
    def delete_from_cloudformation_json(cls, *_args: Any) -> None:
        """Nothing exists outside the stack."""


def correct_versions() -> None:
    """Correct versions in this process. The alias is known by being a model."""
    version = functions.LambdaVersion
    version.create_from_cloudformation_json = classmethod(_publish)
    version.physical_resource_id = property(lambda one: one.arn)
    version.has_cfn_attr = classmethod(lambda _cls, attribute: attribute == "Version")
    version.get_cfn_attribute = lambda one, _attribute: str(one.version)
    # A version goes with its function.
    version.delete = lambda *_place: None


def _publish(
    cls: Any, /, _name: str, cloudformation_json: Any, account_id: str, region_name: str, **_kw: Any
) -> Any:
    backend = functions.get_backend(account_id, region_name)
    published = backend.publish_version(cloudformation_json["Properties"]["FunctionName"])
    made = cls({"Version": published.version})
    made.arn = published.function_arn
    return made


class _Named:
    """The common part of resources with a name and an ARN."""

    arn_attribute = "Arn"

    def __init__(self, name: str, arn: str) -> None:
        self.name = name
        self.arn = arn

    @property
    def physical_resource_id(self) -> str:
        """Value of Ref."""
        return self.name

    @staticmethod
    def cloudformation_name_type() -> str:
        """Property with the name."""
        return "Name"

    @classmethod
    def has_cfn_attr(cls, attr: str) -> bool:
        """Attributes of GetAtt."""
        return attr == cls.arn_attribute

    def get_cfn_attribute(self, _attribute_name: str) -> str:
        """Value of GetAtt."""
        return self.arn


class FunctionAlias(_Named, CloudFormationModel):  # type: ignore[misc]
    """An alias of a function: made, moved and deleted with its stack."""

    # moto files the instances of a model under the second part of its module's name.
    __module__ = "moto.awslambda.alias"
    arn_attribute = "AliasArn"

    @property
    def physical_resource_id(self) -> str:
        """Value of Ref."""
        return self.arn

    @staticmethod
    def cloudformation_type() -> str:
        """Type in a template."""
        return "AWS::Lambda::Alias"

    @classmethod
    def create_from_cloudformation_json(
        cls, _name: str, cloudformation_json: Any, account_id: str, region_name: str, **_kw: Any
    ) -> "FunctionAlias":
        """Make the alias."""
        backend = functions.get_backend(account_id, region_name)
        settings = _alias_settings(cloudformation_json)
        return cls(settings["name"], backend.create_alias(**settings).arn)

    @classmethod
    def update_from_cloudformation_json(
        cls, original_resource: "FunctionAlias", cloudformation_json: Any, **place: Any
    ) -> "FunctionAlias":
        """Move the alias."""
        backend = functions.get_backend(place["account_id"], place["region_name"])
        backend.update_alias(**_alias_settings(cloudformation_json))
        return original_resource

    def delete(self, account_id: str, region_name: str) -> None:
        """Delete the alias; it may have gone with its function."""
        function, _, name = self.arn.rpartition(":")
        with suppress(UnknownFunctionException):
            functions.get_backend(account_id, region_name).delete_alias(name=name, function_name=function)


def _alias_settings(cloudformation_json: Any) -> dict[str, str]:
    properties = cloudformation_json["Properties"]
    return {
        "name": properties["Name"],
        "function_name": properties["FunctionName"],
        "function_version": str(properties["FunctionVersion"]),
        "description": properties.get("Description", ""),
        "routing_config": "",
    }


class ScheduleGroupResource(_Named, CloudFormationModel):  # type: ignore[misc]
    """
    A schedule group of a stack.

    moto finds direct subclasses of its base class, so this module need only be imported.
    """

    # moto files the instances of a model under the second part of its module's name.
    __module__ = "moto.scheduler.models"

    @staticmethod
    def cloudformation_type() -> str:
        """Its type in a template."""
        return "AWS::Scheduler::ScheduleGroup"

    @classmethod
    def create_from_cloudformation_json(
        cls, resource_name: str, _json: Any, account_id: str, region_name: str, **_kw: Any
    ) -> Self:
        """Create it."""
        group = _backend(account_id, region_name).create_schedule_group(resource_name, [])
        return cls(group.name, group.arn)

    def delete(self, account_id: str, region_name: str) -> None:
        """Delete it with its schedules."""
        _backend(account_id, region_name).schedule_groups.pop(self.name, None)


class ScheduleResource(_Named, CloudFormationModel):  # type: ignore[misc]
    """A schedule of a stack."""

    __module__ = "moto.scheduler.models"

    @staticmethod
    def cloudformation_type() -> str:
        """Its type in a template."""
        return "AWS::Scheduler::Schedule"

    @classmethod
    def create_from_cloudformation_json(
        cls, resource_name: str, cloudformation_json: Any, account_id: str, region_name: str, **_kw: Any
    ) -> Self:
        """Create it."""
        settings = _settings(resource_name, cloudformation_json["Properties"])
        made = _backend(account_id, region_name).create_schedule(**settings, action_after_completion=None)
        return cls(made.name, made.arn)

    @classmethod
    def update_from_cloudformation_json(
        cls, original_resource: Self, cloudformation_json: Any, account_id: str, region_name: str, **_kw: Any
    ) -> Self:
        """Change it."""
        settings = _settings(original_resource.name, cloudformation_json["Properties"])
        _backend(account_id, region_name).update_schedule(**settings)
        return original_resource

    def delete(self, account_id: str, region_name: str) -> None:
        """Delete it."""
        for group in _backend(account_id, region_name).schedule_groups.values():
            if getattr(group.schedules.get(self.name), "arn", None) == self.arn:
                del group.schedules[self.name]


def _backend(account_id: str, region_name: str) -> Any:
    return scheduler.scheduler_backends[account_id][region_name]


def _settings(name: str, properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": name,
        "group_name": properties.get("GroupName"),
        "description": properties.get("Description"),
        "schedule_expression": properties["ScheduleExpression"],
        "schedule_expression_timezone": properties.get("ScheduleExpressionTimezone"),
        "start_date": properties.get("StartDate"),
        "end_date": properties.get("EndDate"),
        "flexible_time_window": properties["FlexibleTimeWindow"],
        "kms_key_arn": properties.get("KmsKeyArn"),
        "state": properties.get("State", "ENABLED"),
        "target": dict(properties["Target"]),
    }
