"""Rights: grants whose answer is read, and roles that this app may not change."""

import json
from collections.abc import Mapping, Sequence

import jsii
from aws_cdk import Annotations, Stack
from aws_cdk import aws_iam as iam
from constructs import Construct, DependencyGroup

from lanes.errors import ConfigurationError

from .findings import statements_to_paste


def allow(
    grantee: iam.IGrantable,
    actions: Sequence[str],
    resource_arns: Sequence[str],
    *,
    conditions: Mapping[str, Mapping[str, object]] | None = None,
) -> iam.Grant:
    """
    Grant actions by a policy of the grantee.

    Raises:
        ConfigurationError: The grantee has no policy in this app, for example an account or a service.

    """
    grant = iam.Grant.add_to_principal(
        grantee=grantee, actions=[*actions], resource_arns=[*resource_arns], conditions=conditions
    )
    if not grant.success:
        problem = (
            f"{grantee.grant_principal} can't be granted {', '.join(actions)}, since it has no policy in this app; "
            "grant it to a role"
        )
        raise ConfigurationError([problem])
    return grant


@jsii.implements(iam.IPrincipal)
class FixedRole:
    """
    A role that this app may not change: collects the rights that it needs.

    Args:
        role: The role.

    """

    def __init__(self, role: iam.IRole) -> None:
        self._role = role
        self._needed: list[iam.PolicyStatement] = []

    @property
    def grant_principal(self) -> iam.IPrincipal:
        """Itself."""
        return self

    @property
    def assume_role_action(self) -> str:
        """That of the role."""
        return self._role.assume_role_action

    @property
    def policy_fragment(self) -> iam.PrincipalPolicyFragment:
        """That of the role, for policies of resources."""
        return self._role.policy_fragment

    @property
    def principal_account(self) -> str | None:
        """That of the role."""
        return self._role.principal_account

    @jsii.member(jsii_name="addToPrincipalPolicy")
    def add_to_principal_policy(self, statement: iam.PolicyStatement) -> iam.AddToPrincipalPolicyResult:
        """Note a right."""
        self._needed.append(statement)
        return iam.AddToPrincipalPolicyResult(statement_added=True, policy_dependable=DependencyGroup())

    def report(self, scope: Construct) -> None:
        """Warn of what this app can't grant, as a policy to paste."""
        statements = statements_to_paste(scope, *self._needed)
        Annotations.of(scope).add_warning_v2(
            "lanes:fixedRole",
            f"The role of {scope.node.path} can't be changed by this app. Give it these rights where it is defined, "
            f"in which ${{...}} is a value of this app: "
            f"{json.dumps({'Version': '2012-10-17', 'Statement': statements})}",
        )


def role_here(scope: Construct, construct_id: str, role: iam.IRole) -> iam.IRole | FixedRole:
    """
    Give a role as this stack can grant it rights; a `FixedRole` if the app must not change it.

    The rights of a role of another stack are a policy of this one: in that stack they would refer to this one, which
    refers to the role.

    Raises:
        ConfigurationError: The role of another stack has a path, which its name can't be read from.

    """
    # The CDK tells nobody that it drops the rights of such a role: `Role.from_role_arn(mutable=False)` makes another
    # one beside it, and `without_policy_updates` has a name of its own.
    name, parent = role.node.id, role.node.scope
    beside = None if parent is None else parent.node.try_find_child(f"MutableRole{name}")
    if beside is not None or name.startswith("ImmutableRole"):
        return FixedRole(role)
    if Stack.of(role).node.path == Stack.of(scope).node.path:
        return role
    made = role.node.default_child
    if not isinstance(made, iam.CfnRole):
        return iam.Role.from_role_arn(scope, construct_id, role.role_arn)
    if made.path not in (None, "/"):
        problem = (
            f"the role {role.node.path} of another stack has the path {made.path}; pass a role without a path"
        )
        raise ConfigurationError([problem])
    return iam.Role.from_role_name(scope, construct_id, role.role_name)
