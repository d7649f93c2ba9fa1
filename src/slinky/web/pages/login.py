# SPDX-License-Identifier: Apache-2.0
"""The page that asks for a token. Pure."""

from slinky.web.markup import Html, tag
from slinky.web.pages.frame import PageContext, message_page


def login_page(why: str, target: str, context: PageContext) -> Html:
    """A form for a Kubernetes token; `target` is the address to go to after the login."""
    field = tag(
        "input", id="token", name="token", type="password", required=True, autocomplete="off", aria_describedby="hint"
    )
    form = tag(
        "form",
        tag("p", tag("label", "Kubernetes token", for_="token"), field),
        tag("input", type="hidden", name="target", value=target),
        tag("p", tag("button", "Log in", type="submit")),
        method="post",
        action="/login",
        class_="filters",
    )
    hint = tag("p", "For example the output of `kubectl create token`, or the token of your kubeconfig.", id="hint")
    return message_page("Log in", why, context, form, hint)
