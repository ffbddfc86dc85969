"""What the page says when what it shows is old, and that it goes on by itself."""

import json

from playwright.sync_api import expect

EXPIRED = {
    "status": 502,
    "title": "Your AWS credentials have expired or are not valid",
    "advice": "Sign in again",
    "details": "GetQueueAttributes: ExpiredToken: said",
    "needs_sign_in": True,
}


def test_expired_credentials_are_explained_and_the_page_goes_on_after_signing_in(writing, tab):
    """What was shown stays, marked as stale, with its age and the time of the next try."""
    tab.goto(writing.url)
    expect(tab.locator("#connection")).to_have_text("live")

    tab.route("**/api/lanes", lambda route: route.fulfill(status=502, body=json.dumps(EXPIRED)))

    expect(tab.locator("#banner")).to_contain_text("Your AWS credentials have expired")
    expect(tab.locator("#connection")).to_contain_text("stale: as of")
    expect(tab.locator("#connection")).to_contain_text("next try in")
    expect(tab.locator("tr[data-lane]")).to_have_count(3)

    tab.unroute("**/api/lanes")

    expect(tab.locator("#connection")).to_have_text("live")
    expect(tab.locator("#banner")).to_be_hidden()


def test_a_server_that_has_ended_is_said(writing, tab):
    """Disconnected is another thing than an error of AWS."""
    tab.goto(writing.url)
    expect(tab.locator("#connection")).to_have_text("live")

    tab.route("**/api/**", lambda route: route.abort())

    expect(tab.locator("#connection")).to_contain_text("disconnected")
    expect(tab.locator("#banner")).to_contain_text("lanes ui does not answer")


def test_an_error_before_anything_was_shown_is_shown_in_place_of_it(writing, tab):
    """Also that is tried again by itself."""
    tab.route("**/api/target", lambda route: route.fulfill(status=502, body=json.dumps(EXPIRED)))
    tab.goto(writing.url)
    expect(tab.locator("main .fault")).to_contain_text("expired")

    tab.unroute("**/api/target")

    expect(tab.locator("tr[data-lane]")).to_have_count(3)
