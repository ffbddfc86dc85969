"""Versions and aliases of functions as resources of a stack: moto's version has no attributes, and it has no alias."""

from contextlib import suppress
from typing import Any

import moto.awslambda.models as functions
from moto.awslambda.exceptions import UnknownFunctionException
from moto.core.common_models import CloudFormationModel


def install() -> None:
    """Correct versions in this process; called once by `resources.install`. The alias is known by being a model."""
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


class FunctionAlias(CloudFormationModel):  # type: ignore[misc]
    """An alias of a function: made, moved and deleted with its stack."""

    # moto files the instances of a model under the second part of its module's name.
    __module__ = "moto.awslambda.alias"

    def __init__(self, arn: str) -> None:
        self.arn = arn

    @property
    def physical_resource_id(self) -> str:
        """Value of Ref."""
        return self.arn

    @staticmethod
    def cloudformation_name_type() -> str:
        """The property that names the resource."""
        return "Name"

    @staticmethod
    def cloudformation_type() -> str:
        """Type in a template."""
        return "AWS::Lambda::Alias"

    @classmethod
    def has_cfn_attr(cls, attr: str) -> bool:
        """Whether GetAtt knows the attribute."""
        return attr == "AliasArn"

    def get_cfn_attribute(self, _attribute_name: str) -> str:
        """Value of GetAtt."""
        return self.arn

    @classmethod
    def create_from_cloudformation_json(
        cls, _name: str, cloudformation_json: Any, account_id: str, region_name: str, **_kw: Any
    ) -> "FunctionAlias":
        """Make the alias."""
        backend = functions.get_backend(account_id, region_name)
        return cls(backend.create_alias(**_settings(cloudformation_json)).arn)

    @classmethod
    def update_from_cloudformation_json(
        cls, original_resource: "FunctionAlias", cloudformation_json: Any, **place: Any
    ) -> "FunctionAlias":
        """Move the alias."""
        backend = functions.get_backend(place["account_id"], place["region_name"])
        backend.update_alias(**_settings(cloudformation_json))
        return original_resource

    def delete(self, account_id: str, region_name: str) -> None:
        """Delete the alias; it may have gone with its function."""
        function, _, name = self.arn.rpartition(":")
        with suppress(UnknownFunctionException):
            functions.get_backend(account_id, region_name).delete_alias(name=name, function_name=function)


def _settings(cloudformation_json: Any) -> dict[str, str]:
    properties = cloudformation_json["Properties"]
    return {
        "name": properties["Name"],
        "function_name": properties["FunctionName"],
        "function_version": str(properties["FunctionVersion"]),
        "description": properties.get("Description", ""),
        "routing_config": "",
    }
