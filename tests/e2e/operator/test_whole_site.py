# SPDX-License-Identifier: Apache-2.0
"""A whole site by the plain manifests of the example: database, accounting, login host, and a token."""

import asyncio
import contextlib
import json
import threading
import urllib.request
from base64 import b64decode
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import jwt
import pytest
import yaml
from tests.e2e.operator.site import EXTRA, EXTRA_CONF, Operator, Site, kind, secret, until

from slinky.lab.prepare.images import reference
from slinky.slurm import AuthError, FixedToken, SlurmClient, SlurmError

pytestmark = pytest.mark.lab

EXAMPLE = Path(__file__).parents[3] / "examples/operator/whole.yaml"
# A password that a shell, a configuration file or SQL would stumble over.
PASSWORD = r"it's a \n$(secret) #1"
#: What the lab needs of the objects in the example, by kind.
SUITED: dict[str, dict[str, Any]] = {
    "Controller": {"extraConf": EXTRA_CONF.replace(" Default=YES", ""), "configFileRefs": [{"name": "extra"}]},
    "NodeSet": {"template": {"spec": {"terminationGracePeriodSeconds": 5}}},
}


def example() -> Iterator[dict[str, Any]]:
    """The manifests as people get them, with the lab's image of the database and a password of ours."""
    for found in yaml.safe_load_all(EXAMPLE.read_text()):
        if found["metadata"]["name"] == "mariadb-password":
            found["stringData"]["password"] = PASSWORD
        if found["kind"] == "Deployment":
            found["spec"]["template"]["spec"]["containers"][0]["image"] = reference("mariadb")
        found.get("spec", {}).update(SUITED.get(found["kind"], {}))
        yield found


@pytest.fixture(scope="module")
def whole(site: Site, operator: Operator) -> Site:
    keys = {"name": "slurm-keys", "key": "jwt.key"}
    token = {"jwtKeyRef": keys, "username": "slurm"}
    site.apply(EXTRA, *example(), kind("Token", "mine", **token, lifetime="20s"), kind("Token", "lasting", **token))
    until(lambda: site.settled(2, "cpu"), "two workers", 240)
    for what in (
        "accounting/slurm",
        "loginset/login",
        "token/mine",
        "controller/slurm",
        "restapi/slurm",
        "nodeset/cpu",
    ):
        site.kubectl("wait", what, "--for=condition=Ready", "--timeout=280s")
    return site


def login(site: Site, *argv: str, check: bool = True) -> str:
    return site.kubectl("exec", "deploy/login", "-c", "login", "--", *argv, check=check)


def test_people_submit_from_the_login_host(whole: Site) -> None:
    found = until(lambda: login(whole, "srun", "--chdir=/tmp", "-N2", "hostname", check=False).split(), "a job", 30)
    assert sorted(found) == ["cpu-0", "cpu-1"]


def test_the_cluster_is_known_to_accounting_and_its_jobs_are_kept(whole: Site) -> None:
    clusters = until(
        lambda: login(whole, "sacctmgr", "-nP", "show", "cluster", "format=cluster").split(), "the cluster"
    )
    assert clusters == [f"{whole.namespace}_slurm"]
    job = login(whole, "sbatch", "--parsable", "--chdir=/tmp", "-o", "/dev/null", "--wrap=true").strip()
    until(lambda: "COMPLETED" in login(whole, "sacct", "-nXP", "-j", job, "-o", "state"), "the job's record", 30)


def test_workers_are_found_by_their_short_names(whole: Site) -> None:
    assert login(whole, "getent", "hosts", "cpu-0").split()[1].startswith("cpu-0.slurm-workers-slurm.")


def test_a_token_opens_the_rest_api_and_is_replaced_in_time(whole: Site) -> None:
    def token() -> str:
        return b64decode(whole.get("secret", "mine-jwt-slurm")["data"]["SLURM_JWT"]).decode()

    first = token()
    address = next(iter(whole.pods("slurmrestd").values()))["status"]["podIP"]
    asked = urllib.request.Request(f"http://{address}:6820/slurm/v0.0.44/nodes/", headers={"X-SLURM-USER-TOKEN": first})
    with urllib.request.urlopen(asked, timeout=10) as answer:  # noqa: S310 - an address of the lab
        assert len(json.load(answer)["nodes"]) == 2
    until(lambda: token() != first, "a new token", 30)


class Watcher:
    """Uses a Token as a pod does that mounts its Secret: a little late, and again and again."""

    def __init__(self, site: Site) -> None:
        self.site, self.ended = site, threading.Event()
        self.answered, self.refused = list[str](), list[str]()
        self.thread = threading.Thread(target=lambda: asyncio.run(self.watch()))

    async def watch(self) -> None:
        while not self.ended.is_set():
            token = b64decode(self.site.get("secret", "lasting-jwt-slurm")["data"]["SLURM_JWT"]).decode()
            await asyncio.sleep(2)
            with contextlib.suppress(StopIteration, KeyError):
                address = next(iter(self.site.pods("slurmrestd").values()))["status"]["podIP"]
                await self.ask(f"http://{address}:6820", token)

    async def ask(self, url: str, token: str) -> None:
        algorithm = jwt.get_unverified_header(token)["alg"]
        async with SlurmClient(url, FixedToken(token)) as client:
            for who, call in (("slurmctld", client.nodes), ("slurmdbd", client.accounting.accounts)):
                try:
                    await call()
                    self.answered.append(f"{who} {algorithm}")
                except AuthError as error:
                    self.refused.append(f"{who} {algorithm}: {error}")
                except SlurmError:  # it is on its way from one pod to the next
                    pass


STAGES = ("Opening", "Crossing", "Switching", "Landing", "Settled")


def test_another_jwt_key_refuses_nobody(whole: Site, operator: Operator) -> None:
    """Slurmctld and slurmdbd are started anew three times; the operator is killed at every stage."""
    operator.settings |= {"key_settle": 10.0}
    operator.kill()
    operator.start()
    new = "another " * 16

    def stage() -> str:
        ring = whole.get("secret", "slurm-keys-jwt-keyring")
        found: str = ring["metadata"]["annotations"]["slinky.slurm.net/key-stage"]
        return "" if found == "Settled" and b64decode(ring["data"]["jwt.key"]) != new.encode() else found

    def reached(later: tuple[str, ...]) -> bool:
        return stage() in later

    watcher = Watcher(whole)
    watcher.thread.start()
    try:
        until(lambda: watcher.answered, "an answer")
        patch = json.dumps({"stringData": {"jwt.key": new}})
        whole.kubectl("patch", "secret", "slurm-keys", "--type=merge", "-p", patch)
        for place in range(len(STAGES)):
            # Each lasts a few seconds, and nobody promises to look in time.
            until(partial(reached, STAGES[place:]), f"stage {STAGES[place]}", 240)
            operator.kill()
            operator.start()
        until(lambda: "jwks" not in whole.get("cm", "slurm-config")["data"]["slurm.conf"], "the end of the bridge")
        until(lambda: whole.settled(2, "cpu"), "two workers", 120)
        count = len(watcher.answered)
        until(lambda: len(watcher.answered) > count + 3, "answers to the new key", 120)
    finally:
        watcher.ended.set()
        watcher.thread.join()
    assert watcher.refused == []
    assert set(watcher.answered) == {f"{who} {how}" for who in ("slurmctld", "slurmdbd") for how in ("HS256", "RS256")}
    assert watcher.answered[-1].endswith("HS256")


def test_the_password_is_nowhere_but_in_secrets(whole: Site) -> None:
    text = whole.kubectl("get", "cm,sts,deploy,pods,accountings,events", "-o", "yaml")
    assert "$(secret)" not in text


def test_a_changed_password_reaches_slurmdbd(whole: Site) -> None:
    before = whole.pods("slurmdbd")["slurm-accounting-0"]["metadata"]["uid"]
    whole.apply(secret("mariadb-password", password="another"))

    def replaced() -> bool:
        found = whole.pods("slurmdbd").get("slurm-accounting-0")
        return found is not None and found["metadata"]["uid"] != before

    until(replaced, "a new slurmdbd", 60)

    def refused() -> bool:
        said = whole.get("accounting", "slurm")["status"]["conditions"]
        return any(c["reason"] == "DatabaseRefuses" and "Access denied" in c["message"] for c in said)

    # The database still has the old one.
    until(refused, "the refusal in the database's own words", 90)
