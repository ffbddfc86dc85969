"""
Correction of moto 5.2.5's server: it looks up some things anew for each request, and always finds them alike.

These are the services in the folder of its package and the methods of a service: a fifth of the time of a request.
"""

import functools

from moto import backends
from moto.core import responses

from .moto_version import check_moto_version

_MARK = "_lanes_lookups"


def install() -> None:
    """
    Keep the lookups in this process; calling it again changes nothing.

    Raises:
        MotoVersionError: another moto is installed than the one this correction was written for.
    """
    check_moto_version()
    if getattr(backends, _MARK, False):
        return
    services = tuple(backends.list_of_moto_modules())
    backends.list_of_moto_modules = lambda: services
    responses.method_names_from_class = functools.cache(responses.method_names_from_class)
    setattr(backends, _MARK, True)
