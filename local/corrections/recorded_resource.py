"""A resource that CloudFormation remembers and nothing acts upon: policies of queues, alarms, metadata."""

from typing import Any

from moto.core.common_models import CloudFormationModel


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
