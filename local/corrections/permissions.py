"""What `lanes check` asks of an account and moto does not answer: the rights of a role, and the limits of Lambda."""

from itertools import chain
from typing import Any

from moto.awslambda import urls
from moto.awslambda.responses import LambdaResponse
from moto.core.responses import ActionResult
from moto.iam.access_control import IAMPolicy, IAMPolicyStatement, PermissionResult
from moto.iam.responses import IamResponse

from .moto_version import check_moto_version

# AWS: the default quota of an account (Lambda quotas, "Concurrent executions").
CONCURRENCY = 1000


def install() -> None:
    """Answer both calls in this process; called again it changes nothing."""
    check_moto_version()
    IamResponse.simulate_principal_policy = _simulate_principal_policy
    LambdaResponse.get_account_settings = _get_account_settings
    urls.url_paths[r"{0}/(?P<api_version>[^/]+)/account-settings/?$"] = LambdaResponse.dispatch


def _simulate_principal_policy(response: Any) -> ActionResult:
    """Decide by the policies of the role alone, as AWS does without a resource policy in the call."""
    role = response.backend.get_role_by_arn(response._get_param("PolicySourceArn"))  # noqa: SLF001
    statements = _statements(role)
    actions = response._get_param("ActionNames", [])  # noqa: SLF001
    resources = response._get_param("ResourceArns", []) or ["*"]  # noqa: SLF001
    return ActionResult(
        {
            "EvaluationResults": [
                {
                    "EvalActionName": action,
                    "EvalResourceName": resource,
                    "EvalDecision": _decision(
                        [one.is_action_permitted(action, resource) for one in statements]
                    ),
                }
                for action in actions
                for resource in resources
            ],
            "IsTruncated": False,
        }
    )


def _statements(role: Any) -> list[IAMPolicyStatement]:
    """Return the statements of a role that hold for a call without values for their conditions."""
    policies = [IAMPolicy(one) for one in chain(role.policies.values(), role.managed_policies.values())]
    found = chain.from_iterable(
        one if isinstance(one, list) else [one]
        for one in (policy._policy_json["Statement"] for policy in policies)  # noqa: SLF001
    )
    return [
        IAMPolicyStatement({name: value for name, value in one.items() if name != "Condition"})
        for one in found
        if all(map(_holds_without_a_value, one.get("Condition", {})))
    ]


def _holds_without_a_value(operator: str) -> bool:
    # AWS: both are true for a key that a request lacks, any other one but Null is false (IAM User Guide, "Condition
    # operators", "Multivalued context keys").
    return operator.startswith("ForAllValues:") or operator.endswith("IfExists")


def _decision(results: list[PermissionResult]) -> str:
    if PermissionResult.DENIED in results:
        return "explicitDeny"
    return "allowed" if PermissionResult.PERMITTED in results else "implicitDeny"


def _get_account_settings(response: Any) -> ActionResult:
    functions = list(response.backend.list_functions())
    reserved = sum(int(function.reserved_concurrency or 0) for function in functions)
    limit = {"ConcurrentExecutions": CONCURRENCY, "UnreservedConcurrentExecutions": CONCURRENCY - reserved}
    return ActionResult({"AccountLimit": limit, "AccountUsage": {"FunctionCount": len(functions)}})
