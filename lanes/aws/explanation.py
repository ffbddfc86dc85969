"""Explain errors of AWS to an operator, with advice."""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING

from lanes.aws.errors import NOT_AWS
from lanes.fault_codes import NO_CREDENTIALS, Cause, bare, cause_of

if TYPE_CHECKING:
    from lanes.errors import AwsError

# AWS: "User: ARN is not authorized to perform: ACTION on resource: ARN because ..." (IAM, troubleshoot access denied
# messages); SQS and some others name neither.
ACTION = re.compile(r"not authorized to perform: ([\w-]+:\w+)(?: on resource: (\S+))?")

SIGN_IN = (
    "Sign in again in a terminal, for example with `aws sso login`, or renew the keys in the variables "
    "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN: they have priority over a profile."
)
FIND_CREDENTIALS = (
    "None are in the variables AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile of the AWS configuration "
    "(--profile, AWS_PROFILE, or default), or from a container or instance. Sign in, for example "
    "with `aws sso login`, or name a profile. For a whole shell with AWS on this machine, paste the export lines that "
    "`lanes local up` prints."
)
RETRIEVE = (
    "The next line names their source: custom-process is the credential_process of the profile, which you can run in a "
    "terminal; container-role an address in AWS_CONTAINER_CREDENTIALS_RELATIVE_URI or _FULL_URI; Environment the "
    "variables AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY. For another one sign in again, for example with "
    "`aws sso login`."
)
CORRECT = (
    "Correct the setting in the AWS configuration (~/.aws/config and ~/.aws/credentials, or the files that "
    "AWS_CONFIG_FILE and AWS_SHARED_CREDENTIALS_FILE name) or in its variable; `aws configure list` shows the "
    "source of each value."
)
# AWS: a signature is valid for five minutes from its time (IAM, "Elements of an AWS API request signature").
SKEWED = re.compile(r"Signature expired|Signature not yet current|RequestTimeTooSkewed|RequestExpired")
SET_CLOCK = (
    "AWS refuses a request whose time differs from its own by more than five minutes; the next line has both times. "
    "Set the clock, for example with `timedatectl set-ntp true`; in a container it is that of its host."
)
INSTALL = "Install the package that the next line names into the environment of this command."
MAKING = frozenset({"Client", "Session"})
"""Operations that read the AWS configuration and call nothing."""
FIND_AWS = (
    "Check the network, the VPN, the region and --endpoint (or AWS_ENDPOINT_URL). For AWS on this machine, check that "
    "`lanes local up` still runs and prints this address."
)
RIGHTS = "The reference of the `lanes` command lists the rights of each verb; the page needs the same."


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """
    The meaning of an error.

    Attributes:
        title: the meaning, without a full stop.
        advice: the next step; empty if it is unknown.
        needs_sign_in: whether new credentials fix it.
        passes: whether it may pass by itself.
    """

    title: str
    advice: str = ""
    needs_sign_in: bool = False
    passes: bool = False


def explained(error: AwsError) -> Explanation:
    """Explain an error of AWS; the message of AWS is in the error itself."""
    code, cause = bare(error.code), cause_of(error.code)
    if cause is Cause.CREDENTIALS:
        return _credentials(code, str(error))
    if cause is Cause.PERMISSION:
        return _denied(error)
    if cause is Cause.THROTTLED:
        title = f"AWS asks for fewer calls of {error.operation}"
        return Explanation(title=title, advice="Try again in a moment.", passes=True)
    if cause is Cause.UNREACHABLE and NOT_AWS not in str(error):
        return Explanation(title="AWS can't be reached", advice=FIND_AWS, passes=True)
    return _other(error, code)


def _credentials(code: str, text: str) -> Explanation:
    if SKEWED.search(text):
        return Explanation(title="The clock of this machine is wrong", advice=SET_CLOCK)
    if code == "CredentialRetrievalError":
        title, advice = "AWS credentials could not be retrieved", RETRIEVE
    elif code == "NoCredentialsError":
        title, advice = "There are no AWS credentials", FIND_CREDENTIALS
    elif code in NO_CREDENTIALS:
        title, advice = "AWS credentials are incomplete", FIND_CREDENTIALS
    else:
        title, advice = "Your AWS credentials have expired or are not valid", SIGN_IN
    return Explanation(title=title, advice=advice, needs_sign_in=True)


def _denied(error: AwsError) -> Explanation:
    """Name the missing right, if AWS does."""
    found = ACTION.search(str(error))
    action, resource = found.groups() if found else (error.operation, None)
    where = f" on {resource}" if resource else ""
    return Explanation(
        title=f"You may not call {action}{where}", advice=f"Ask for the right to {action}. {RIGHTS}"
    )


def _other(error: AwsError, code: str) -> Explanation:
    if code == "ProfileNotFound":
        advice = (
            "List your profiles with `aws configure list-profiles`; name one with --profile or AWS_PROFILE."
        )
        return Explanation(title="There is no such profile in the AWS configuration", advice=advice)
    if code == "MissingDependencyException":
        return Explanation(title="A package of the AWS SDK is missing", advice=INSTALL)
    if error.operation in MAKING:
        return Explanation(title="The AWS configuration can't be used", advice=CORRECT)
    if cause_of(code) is Cause.MISSING:
        advice = "Run `lanes check` to find the missing part of the stack, then deploy the stack again."
        return Explanation(title=f"{error.operation} names a resource that does not exist", advice=advice)
    if NOT_AWS in str(error):
        return Explanation(title=f"{error.operation} was not answered by AWS", advice=FIND_AWS)
    advice = "It may pass: try again in a moment." if error.retryable else ""
    return Explanation(title=f"{error.operation} failed", advice=advice, passes=error.retryable)
