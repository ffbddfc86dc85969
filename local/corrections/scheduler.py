"""Schedules and schedule groups of EventBridge Scheduler as resources of a stack, which moto doesn't know."""

from typing import Any, Self

import moto.scheduler.models as scheduler
from moto.core.common_models import CloudFormationModel


class _Named:
    """The common part of both resources."""

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
        return attr == "Arn"

    def get_cfn_attribute(self, _attribute_name: str) -> str:
        """Value of GetAtt."""
        return self.arn


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
