"""
Correction of moto 5.2.5's answers to actions that it lacks: an error of the service in place of a page of HTML.

A client retries status 500, and then fails for an answer that it can't read.
"""

from collections.abc import Callable
from typing import Any

from moto.core.exceptions import ServiceException
from moto.core.responses import ActionResult, BaseResponse

from .moto_version import check_moto_version

_MARK = "_lanes_says_what_it_lacks"


def install() -> None:
    """
    Correct moto in this process; calling it again changes nothing.

    Raises:
        MotoVersionError: another moto is installed than the one this correction was written for.
    """
    check_moto_version()
    if getattr(BaseResponse, _MARK, False):
        return
    BaseResponse._dispatch = _answered(BaseResponse._dispatch)  # noqa: SLF001
    setattr(BaseResponse, _MARK, True)


def _answered(dispatch: Callable[..., Any]) -> Callable[..., Any]:
    def answered(self: Any, *request: Any) -> Any:
        try:
            return dispatch(self, *request)
        except NotImplementedError as error:
            text = f"{self._get_action()} is not emulated on this machine: {error}"
            # moto finds the service of an error by its module.
            refusal = type("NotEmulatedError", (ServiceException,), {"__module__": type(self).__module__})
            # AWS: that is the code of SQS for such an operation (SQS API, "Common errors").
            return self.serialized(ActionResult(refusal("UnsupportedOperation", text)))

    return answered
