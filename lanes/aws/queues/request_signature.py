"""Sign requests that differ only in body and time, byte for byte like botocore's SigV4Auth, but much faster."""

from __future__ import annotations

import hashlib
import hmac
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

ALGORITHM = "AWS4-HMAC-SHA256"
DATE = "x-amz-date"
TOKEN = "x-amz-security-token"  # noqa: S105 - the name of a header


class Credentials(Protocol):
    """Frozen credentials of botocore."""

    @property
    def access_key(self) -> str | None:
        """The access key id."""

    @property
    def secret_key(self) -> str | None:
        """The secret access key."""

    @property
    def token(self) -> str | None:
        """The session token; None for permanent credentials."""


class RequestSignature:
    """
    Makes the headers that sign a request.

    Args:
        method: of every request.
        path: of every request, as it goes over the wire; none has a query.
        headers: those that are signed and stay the same, `host` among them.
        region: that the signature is for.
        service: that the signature is for.
    """

    def __init__(
        self, *, method: str, path: str, headers: Mapping[str, str], region: str, service: str
    ) -> None:
        self._method = method
        self._path = path
        # AWS: sequences of spaces count as one (IAM user guide, canonical request).
        self._headers = {name.lower(): " ".join(value.split()) for name, value in headers.items()}
        self._region = region
        self._service = service
        self._key: tuple[str, str, bytes] = ("", "", b"")

    def with_target(self, old: str, new: str) -> RequestSignature:
        """Return the signature of requests whose headers have another text in place of one."""
        headers = {name: value.replace(old, new) for name, value in self._headers.items()}
        return RequestSignature(
            method=self._method, path=self._path, headers=headers, region=self._region, service=self._service
        )

    def headers(self, body: bytes, *, credentials: Credentials, now: datetime) -> dict[str, str]:
        """
        Give the headers to add for this body at this time, in UTC.

        AWS: the steps are those of IAM/UserGuide/reference_sigv-create-signed-request.
        """
        time = now.strftime("%Y%m%dT%H%M%SZ")
        scope = f"{time[:8]}/{self._region}/{self._service}/aws4_request"
        signed = self._headers | {DATE: time}
        if credentials.token:
            signed[TOKEN] = credentials.token
        names = sorted(signed)
        listed = ";".join(names)
        lines = "".join(f"{name}:{signed[name]}\n" for name in names)
        request = f"{self._method}\n{self._path}\n\n{lines}\n{listed}\n{hashlib.sha256(body).hexdigest()}"
        digest = hashlib.sha256(request.encode()).hexdigest()
        to_sign = f"{ALGORITHM}\n{time}\n{scope}\n{digest}"
        key = self._signing_key(credentials.secret_key or "", time[:8])
        signature = hmac.digest(key, to_sign.encode(), "sha256").hex()
        added = {
            DATE: time,
            "authorization": f"{ALGORITHM} Credential={credentials.access_key}/{scope}, "
            f"SignedHeaders={listed}, Signature={signature}",
        }
        if credentials.token:
            added[TOKEN] = credentials.token
        return added

    def _signing_key(self, secret: str, day: str) -> bytes:
        known_secret, known_day, key = self._key
        # AWS: the key depends on secret, day, region and service (IAM user guide), so one serves a whole day.
        if (known_secret, known_day) != (secret, day):
            key = f"AWS4{secret}".encode()
            for part in (day, self._region, self._service, "aws4_request"):
                key = hmac.digest(key, part.encode(), "sha256")
            self._key = (secret, day, key)
        return key
