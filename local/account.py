"""The account that AWS on this machine pretends to be: its number, region and access keys."""

import os
import re
from collections.abc import Mapping

HOST = "127.0.0.1"
ACCOUNT = "123456789012"
REGION = "eu-central-1"
USER_KEY = "lanes_user"
PLATFORM_KEY = "lanes_platform"
MAPPING_KEY = "lanes_mapping"
DEPLOY_KEY = "lanes_deploy"
LOGS_KEY = "lanes_logs"
NO_FILES = {"AWS_CONFIG_FILE": os.devnull, "AWS_SHARED_CREDENTIALS_FILE": os.devnull}
"""Variables that leave the settings of the user's AWS files out."""
SECRET = "not-a-secret"  # noqa: S105 - the server checks no signature


def function_key(function_name: str) -> str:
    """The access key id under which a function's own AWS calls are counted."""
    return "function_" + re.sub(r"\W", "_", function_name)


def connection_variables(endpoint_url: str, access_key: str = USER_KEY) -> dict[str, str]:
    """Environment variables that lead every AWS SDK and the CDK to this machine."""
    return {
        "AWS_ENDPOINT_URL": endpoint_url,
        "AWS_ACCESS_KEY_ID": access_key,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_REGION": REGION,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_EC2_METADATA_DISABLED": "true",
    }


def isolated_variables(endpoint_url: str, access_key: str) -> dict[str, str]:
    """The same for a process that we start: it reads no settings of the user either."""
    return connection_variables(endpoint_url, access_key) | NO_FILES


def without_aws_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment without a user's own profile, keys and endpoints: no call may reach a real account."""
    return {name: value for name, value in environment.items() if not name.startswith("AWS_")}
