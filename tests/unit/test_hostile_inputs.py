# SPDX-License-Identifier: Apache-2.0
"""Any text and any number from outside is parsed or refused by the parser's own error, within time and memory.

Time is the CPU time of the thread, which a busy machine does not change.
"""

import contextlib
import itertools
import socket
import time
import tracemalloc
from collections.abc import Callable, Iterator
from functools import partial
from http.client import HTTPException
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.hostile_texts import PIECES
from tests.support.schema_values import admitted_object
from tests.unit.operator import samples

from slinky import bounds
from slinky.api.fields import amounts
from slinky.bridge.devices import cel, cores, inventory
from slinky.bridge.devices.cel_values import Evaluation, EvaluationError, UnsupportedExpression
from slinky.bridge.workload.annotations import TABLE as OPTIONS
from slinky.bridge.workload.annotations import parse_value
from slinky.cli.bundle.redaction import Redactor
from slinky.http_connections import HttpConnection, HttpExchange, ResponseSizeError
from slinky.insight import limit_reasons, pending_reasons, tres
from slinky.kube import Quantity
from slinky.kube.timestamps import parse_timestamp
from slinky.observe import redact
from slinky.operator.nodeset.decisions import ordering, placement
from slinky.slurm import HostlistError, SlurmError, TokenError, expand
from slinky.slurm.conf import ConfError, parse, parse_devices, parse_fragment, topology
from slinky.slurm.conf.slurm import find_problems
from slinky.slurm.model.responses import JobsResponse, NodesResponse, StatesResponse
from slinky.slurm.model.results import checked_job_id
from slinky.slurm.tokens import read_claims
from slinky.slurm.transport.decode import RawResponse, parse_response
from slinky.slurm.transport.response_guard import remaining_bytes
from slinky.webhook.application import RULES
from slinky.webhook.evaluate import AdmissionChange, RuleContext, evaluate

CPU_SECONDS = 2.0
BYTES = 64 * bounds.MIB


class Parser(NamedTuple):
    """A function of a text from outside, and the errors by which it may refuse the text."""

    parse: Callable[[str], object]
    errors: tuple[type[Exception], ...] = ()


DEVICE: dict[str, Any] = {"driver": "d", "attributes": {}, "capacity": {}}


def evaluate_selector(text: str) -> object:
    return cel.compile_expression(text).evaluate(Evaluation({"device": DEVICE}))


def response_parser(kind: type[Any]) -> Callable[[str], object]:
    return lambda text: parse_response(RawResponse(200, "application/json", text.encode("utf-8", "replace")), kind)


def read_http_reply(text: str) -> object:
    """What the command makes of these bytes of a server."""
    server, sock = socket.socketpair()
    connection = HttpConnection("localhost", 80, "", None, "")
    connection.sock = sock
    with server, contextlib.closing(connection):
        server.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            server.send(text.encode("utf-8", "replace"))
        server.shutdown(socket.SHUT_WR)
        return HttpExchange("GET", "/", {}, None).run(connection, bounds.MIB)


PARSERS = {
    "hostlist": Parser(expand, (HostlistError,)),
    "slurm.conf": Parser(parse, (ConfError,)),
    "fragment": Parser(parse_fragment, (ConfError,)),
    "slurm.conf problems": Parser(find_problems, (ConfError, HostlistError)),
    "devices": Parser(parse_devices, (ConfError,)),
    "topology": Parser(topology.parse_topologies, (ConfError,)),
    "token": Parser(read_claims, (TokenError,)),
    "job id": Parser(checked_job_id, (ValueError,)),
    "jobs": Parser(response_parser(JobsResponse), (SlurmError,)),
    "nodes": Parser(response_parser(NodesResponse), (SlurmError,)),
    "states": Parser(response_parser(StatesResponse), (SlurmError,)),
    "response head": Parser(lambda text: remaining_bytes(text.encode("utf-8", "replace"))),
    "http reply": Parser(read_http_reply, (OSError, ValueError, HTTPException, ResponseSizeError)),
    "tres": Parser(tres.parse_tres),
    "gres of a job": Parser(tres.parse_gres),
    "gres of a host": Parser(inventory.parse_gres),
    "cpus": Parser(cores.parse_ranges),
    "core bitmap": Parser(cores.parse_bitmap, (ValueError,)),
    "pending reason": Parser(lambda text: pending_reasons.explain(text, text)),
    "limit": Parser(limit_reasons.parse_limit),
    "selector": Parser(evaluate_selector, (UnsupportedExpression, EvaluationError)),
    "quantity": Parser(Quantity.parse, (ValueError,)),
    "timestamp": Parser(parse_timestamp),
    "duration": Parser(amounts.seconds, (ValueError,)),
    "share": Parser(lambda text: amounts.scaled_value(text, 100), (ValueError,)),
    "log": Parser(redact),
    "support bundle": Parser(Redactor([b"planted-value"]).redact_text),
    "number": Parser(lambda text: bounds.parse_integer(text, 0, 9)),
    **{f"option {option.name}": Parser(partial(parse_value, option), (ValueError,)) for option in OPTIONS},
}  # fmt: skip


TEXTS = st.one_of(
    st.lists(st.sampled_from(PIECES), max_size=6).map("".join),
    st.builds(lambda piece, count: (piece * count)[:20_000], st.sampled_from(PIECES), st.integers(1, 3000)),
    st.text(max_size=200),
)


@contextlib.contextmanager
def within_cpu_time() -> Iterator[None]:
    before = time.thread_time()
    yield
    assert time.thread_time() - before < CPU_SECONDS


@pytest.mark.parametrize("name", PARSERS)
@settings(deadline=None, max_examples=40)
@given(text=TEXTS)
def test_a_text_is_parsed_or_refused(name: str, text: str) -> None:
    parser = PARSERS[name]
    with within_cpu_time(), contextlib.suppress(*parser.errors):
        parser.parse(text)


@pytest.mark.parametrize("name", PARSERS)
def test_a_large_text_takes_bounded_time_and_memory(name: str) -> None:
    parser = PARSERS[name]
    for piece in PIECES:
        text = (piece * 20_000)[:20_000] + "[0-8191]"
        tracemalloc.start()
        try:
            with within_cpu_time(), contextlib.suppress(*parser.errors):
                parser.parse(text)
            assert tracemalloc.get_traced_memory()[1] < BYTES, piece
        finally:
            tracemalloc.stop()


CONTEXT = RuleContext(controllers=[samples.controller()], node_sets=[samples.node_set("other", replicas=9)])


#: Objects of each kind.
SEEDS = range(2000)


@pytest.mark.parametrize("kind", RULES)
def test_rules_answer_for_any_object_that_the_schema_admits(kind: str) -> None:
    objects = [item for seed in SEEDS if (item := admitted_object(RULES[kind].view, seed)) is not None]
    assert len(objects) > len(SEEDS) / 10
    for item, earlier in itertools.pairwise(objects):
        for old in (None, earlier):
            with within_cpu_time():
                evaluate(RULES[kind], AdmissionChange(item, old, CONTEXT))


@given(TEXTS, TEXTS)
def test_metadata_of_workers_is_read_or_ignored(cost: str, label: str) -> None:
    worker = samples.worker_of(samples.pod(pod_deletion_cost=cost))
    assert ordering.removal_order([worker]) == [worker]
    expression = {"key": "k", "operator": "Gt", "values": [cost]}
    assert placement._matches_expression(expression, {"k": label}) in {True, False}


def test_the_page_of_the_bounds_is_up_to_date() -> None:
    page = Path(__file__).parents[2] / "docs/bounds.md"
    assert page.read_text() == bounds.render_page()
