"""The address of the page, and the requests that it refuses."""

import socket

import pytest

from lanes.errors import ConfigurationError, LanesError
from lanes.ui.protection import Address, ProxyGuard, TokenGuard


def test_a_free_port_of_this_machine_is_taken():
    """The address holds a token where no server and no log sees it."""
    address = Address.take("127.0.0.1", 0)
    with address.socket:
        assert address.socket.getsockname() == ("127.0.0.1", address.port)
        assert address.hosts == {f"127.0.0.1:{address.port}", f"localhost:{address.port}"}
        assert address.url == f"http://127.0.0.1:{address.port}/#token={address.token}"
        assert len(address.token) >= 43


def test_each_start_has_a_token_of_its_own():
    """An old address opens nothing."""
    tokens = set()
    for _ in range(2):
        address = Address.take("localhost", 0)
        address.socket.close()
        tokens.add(address.token)

    assert len(tokens) == 2


def test_the_other_loopback_stands_in_brackets():
    """As addresses are written."""
    address = Address.take("::1", 0)
    with address.socket:
        assert address.url.startswith(f"http://[::1]:{address.port}/")
        assert f"[::1]:{address.port}" in address.hosts


EVERYWHERE = "0.0.0.0"  # noqa: S104 - what must be refused


@pytest.mark.parametrize("host", [EVERYWHERE, "192.168.1.7", "::", "example.com", ""])
def test_addresses_that_others_can_reach_are_refused(host):
    """With what to do instead."""
    with pytest.raises(ConfigurationError, match="ssh -L"):
        Address.take(host, 0)


def test_a_port_in_use_is_said():
    """With what to do about it."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        with pytest.raises(LanesError, match=f"port {port}.*--port"):
            Address.take("127.0.0.1", port)


GUARD = TokenGuard(hosts=frozenset({"127.0.0.1:8320", "localhost:8320"}), token="secret")
OWN = {
    "host": "127.0.0.1:8320",
    "origin": "http://127.0.0.1:8320",
    "sec-fetch-site": "same-origin",
    "x-lanes-token": "secret",
    "content-type": "application/json",
}


def status(method="POST", path="/api/lanes", without=(), **changed):
    """Give the status of a refusal, None where there is none; names of headers with underscores."""
    headers = {name: value for name, value in OWN.items() if name not in without}
    headers |= {name.replace("_", "-"): value for name, value in changed.items()}
    refusal = GUARD.refusal(method, path, headers)
    return refusal and refusal.status


def test_the_pages_own_calls_are_answered():
    """Under both names of this machine, also from programs that send no more than they need."""
    assert status() is None
    assert status(host="localhost:8320", origin="http://localhost:8320") is None
    assert status(without=("origin", "sec-fetch-site")) is None
    assert status(content_type="application/json; charset=utf-8") is None


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"host": "evil.example:8320"}, 421),
        ({"host": "127.0.0.1:8321"}, 421),
        ({"host": ""}, 421),
        ({"origin": "http://localhost:8320"}, 403),
        ({"origin": "https://127.0.0.1:8320"}, 403),
        ({"origin": "null"}, 403),
        ({"sec_fetch_site": "none"}, 403),
        ({"sec_fetch_site": "same-site"}, 403),
        ({"sec_fetch_site": "cross-site"}, 403),
        ({"x_lanes_token": "secre"}, 401),
        ({"x_lanes_token": "sécret"}, 401),
        ({"without": ("x-lanes-token",)}, 401),
        ({"method": "GET"}, 405),
        ({"method": "OPTIONS"}, 405),
        ({"content_type": "text/plain"}, 415),
        ({"without": ("content-type",)}, 415),
    ],
    ids=str,
)
def test_one_thing_wrong_is_enough(changed, expected):
    """Each check stands by itself."""
    assert status(**changed) == expected


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"sec_fetch_site": "none"}, None),
        ({"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate", "sec_fetch_dest": "document"}, None),
        ({"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate", "sec_fetch_dest": "iframe"}, 403),
        ({"sec_fetch_site": "cross-site", "sec_fetch_mode": "no-cors", "sec_fetch_dest": "script"}, 403),
        ({"host": "evil.example"}, 421),
    ],
    ids=str,
)
def test_the_page_itself_opens_from_a_link_and_is_embedded_nowhere(headers, expected):
    """It shows nothing without the token."""
    without = ("origin", "x-lanes-token", "content-type")

    assert status("GET", "/", without=without, **headers) == expected


def test_the_pages_files_are_only_read():
    """Nothing is sent to them."""
    assert status("POST", "/") == 405
    assert status("HEAD", "/main.js") is None


SECRET = "a-secret-of-32-characters-at-least"
PROXY = ProxyGuard(
    origin="https://lanes.example.com",
    secret=SECRET,
    user_header="x-forwarded-user",
    operators=frozenset({"olga"}),
)
THROUGH_PROXY = {
    "host": "10.0.0.7:8320",
    "origin": "https://lanes.example.com",
    "sec-fetch-site": "same-origin",
    "x-lanes-proxy-secret": SECRET,
    "x-forwarded-user": "rita",
    "content-type": "application/json",
}


def status_behind_proxy(method="POST", path="/api/lanes", without=(), **changed):
    """Give the status of a refusal by the guard of a team's page."""
    headers = {name: value for name, value in THROUGH_PROXY.items() if name not in without}
    headers |= {name.replace("_", "-"): value for name, value in changed.items()}
    refusal = PROXY.refusal(method, path, headers)
    return refusal and refusal.status


def test_requests_through_the_proxy_are_answered():
    """Under whatever host the proxy calls the page."""
    assert status_behind_proxy() is None
    assert status_behind_proxy("GET", "/", without=("origin", "content-type")) is None


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"without": ("x-lanes-proxy-secret",)}, 403),
        ({"x_lanes_proxy_secret": SECRET[:-1]}, 403),
        ({"x_lanes_proxy_secret": f"{SECRET}, {SECRET}"}, 403),
        ({"without": ("x-forwarded-user",)}, 401),
        ({"x_forwarded_user": ""}, 401),
        ({"x_forwarded_user": "olga, rita"}, 401),
        ({"x_forwarded_user": "ol\nga"}, 401),
        ({"x_forwarded_user": "ölga"}, 401),
        ({"x_forwarded_user": "o" * 201}, 401),
        ({"origin": "https://evil.example"}, 403),
        ({"origin": "http://lanes.example.com"}, 403),
        ({"without": ("origin",)}, 403),
        ({"sec_fetch_site": "same-site"}, 403),
        ({"sec_fetch_site": "none"}, 403),
        ({"method": "GET"}, 405),
        ({"content_type": "text/plain"}, 415),
        ({"method": "GET", "path": "/", "without": ("x-lanes-proxy-secret",)}, 403),
        ({"method": "GET", "path": "/main.js", "without": ("x-forwarded-user",)}, 401),
        ({"method": "GET", "path": "/", "sec_fetch_site": "cross-site"}, 403),
    ],
    ids=str,
)
def test_behind_a_proxy_one_thing_wrong_is_enough(changed, expected):
    """Files of the page too: they say which release runs."""
    assert status_behind_proxy(**changed) == expected


def test_only_named_operators_may_make_changes():
    """All others read; the name is compared as it is."""
    assert PROXY.user({**THROUGH_PROXY, "x-forwarded-user": "olga"}).may_write
    assert not PROXY.user({**THROUGH_PROXY, "x-forwarded-user": "Olga"}).may_write
    assert PROXY.user(THROUGH_PROXY).name == "rita"
    assert not PROXY.user(THROUGH_PROXY).may_write


def test_the_operators_own_page_has_no_name():
    """Its entries have the ARN alone, as those of the verbs."""
    assert (GUARD.user(OWN).name, GUARD.user(OWN).may_write) == ("", False)
