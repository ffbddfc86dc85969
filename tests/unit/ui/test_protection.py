"""Which requests the page answers."""

import pytest

from lanes.ui.protection import Guard

GUARD = Guard(hosts=frozenset({"127.0.0.1:8320", "localhost:8320"}), token="secret")
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
