# SPDX-License-Identifier: Apache-2.0
"""The example of a whole site as plain manifests: accounting, a login host, tokens and the rotation of their key."""

import asyncio
import contextlib
import json
import threading
from base64 import b64decode
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import jwt
import pytest
import yaml
from tests.e2e.operator.site import EXTRA_CONF, EXTRA_FILES, OperatorSite, manifest, secret
from tests.support.waiting import until

from slinky.api.names import metadata
from slinky.lab.prepare.images import reference
from slinky.slurm import AuthError, FixedToken, SlurmClient, SlurmError

pytestmark = pytest.mark.lab

EXAMPLES = Path(__file__).parents[3] / "examples/operator"
EXAMPLE = EXAMPLES / "whole.yaml"
#: What the lab needs in the specs of the example, by kind.
LAB_SPECS: dict[str, dict[str, Any]] = {
    "Controller": {
        "extraConf": EXTRA_CONF.replace(" Default=YES", ""),
        "configFileRefs": [{"name": "extra"}],
        "prologScriptRefs": [{"name": "job-users"}],
    },
    "NodeSet": {"template": {"spec": {"terminationGracePeriodSeconds": 5}}},
}
KINDS = ("accounting/slurm", "loginset/login", "token/lasting", "controller/slurm", "restapi/slurm", "nodeset/cpu")
STAGES = ("Opening", "Crossing", "Switching", "Landing", "Settled")
NEW_KEY = "another " * 16


def example() -> Iterator[dict[str, Any]]:
    """The manifests of the example, with the lab's image of the database."""
    for item in yaml.safe_load_all(EXAMPLE.read_text()):
        if item["kind"] == "Deployment":
            item["spec"]["template"]["spec"]["containers"][0]["image"] = reference("mariadb")
        item.get("spec", {}).update(LAB_SPECS.get(item["kind"], {}))
        yield item


def build(site: OperatorSite) -> None:
    key = {"name": "slurm-keys", "key": "jwt.key"}
    prolog = yaml.safe_load((EXAMPLES / "job-users.yaml").read_text())
    site.apply(EXTRA_FILES, prolog, *example(), manifest("Token", "lasting", jwtKeyRef=key, username="slurm"))
    site.wait_workers(2, "cpu")
    for name in KINDS:
        site.kubectl("wait", name, "--for=condition=Ready", "--timeout=280s")


def login(site: OperatorSite, *argv: str, check: bool = True) -> str:
    """Run a command on the login host."""
    return site.kubectl("exec", "deploy/login", "-c", "login", "--", *argv, check=check)


class TokenUser:
    """Uses a Token as a pod does that mounts its Secret: two seconds late, and again and again."""

    def __init__(self, site: OperatorSite) -> None:
        self.site = site
        self.ended = threading.Event()
        self.answers, self.refusals = list[str](), list[str]()
        self.thread = threading.Thread(target=lambda: asyncio.run(self.run()))

    async def run(self) -> None:
        while not self.ended.is_set():
            token = b64decode(self.site.get("secret", "lasting-jwt-slurm")["data"]["SLURM_JWT"]).decode()
            await asyncio.sleep(2)
            with contextlib.suppress(StopIteration, KeyError):
                address = next(iter(self.site.pods("slurmrestd").values()))["status"]["podIP"]
                await self.ask(f"http://{address}:6820", token)

    async def ask(self, url: str, token: str) -> None:
        algorithm = jwt.get_unverified_header(token)["alg"]
        async with SlurmClient(url, FixedToken(token)) as client:
            for daemon, call in (("slurmctld", client.nodes), ("slurmdbd", client.accounting.accounts)):
                try:
                    await call()
                    self.answers.append(f"{daemon} {algorithm}")
                except AuthError as error:
                    self.refusals.append(f"{daemon} {algorithm}: {error}")
                except SlurmError:  # the pod of a daemon is being replaced
                    pass


@contextlib.contextmanager
def using_token(site: OperatorSite) -> Iterator[TokenUser]:
    user = TokenUser(site)
    user.thread.start()
    try:
        yield user
    finally:
        user.ended.set()
        user.thread.join()


def has_reached(site: OperatorSite, stages: tuple[str, ...]) -> bool:
    """Whether the rotation to the new key is in one of these stages."""
    keyring = site.get("secret", "slurm-keys-jwt-keyring")
    stage: str = keyring["metadata"]["annotations"][metadata.KEY_STAGE]
    has_new_key = b64decode(keyring["data"]["jwt.key"]) == NEW_KEY.encode()
    return stage in stages and (stage != "Settled" or has_new_key)


def test_users_submit_from_the_login_host_and_accounting_has_the_job(site: OperatorSite) -> None:
    hosts = until(lambda: login(site, "srun", "--chdir=/tmp", "-N2", "hostname", check=False).split(), "a job")
    assert sorted(hosts) == ["cpu-0", "cpu-1"]
    clusters = ("sacctmgr", "-nP", "show", "cluster", "format=cluster")
    assert until(lambda: login(site, *clusters).split(), "the cluster") == [f"{site.namespace}_slurm"]
    job = login(site, "sbatch", "--parsable", "--chdir=/tmp", "-o", "/dev/null", "--wrap=true").strip()
    record = ("sacct", "-nXP", "-j", job, "-o", "state")
    until(lambda: "COMPLETED" in login(site, *record), "the record of the job")


def test_the_user_of_a_job_has_a_name_on_workers_that_do_not_know_it(site: OperatorSite) -> None:
    login(site, "useradd", "--uid=5001", "--create-home", "carol")
    for worker in ("cpu-0", "cpu-1"):
        assert not site.exec(worker, "getent", "passwd", "5001", check=False)
    carol = ("setpriv", "--reuid=carol", "--regid=carol", "--init-groups", "env", "HOME=/home/carol")
    script = "echo $(hostname) $(id -un) $(id -gn) $(id -u)"
    lines = login(site, *carol, "srun", "--chdir=/tmp", "-N2", "sh", "-c", script).splitlines()
    assert sorted(lines) == ["cpu-0 carol carol 5001", "cpu-1 carol carol 5001"]
    job = login(site, *carol, "sbatch", "--parsable", "--chdir=/tmp", "-o", "/dev/null", "--wrap=true").strip()
    until(lambda: "COMPLETED|carol" in login(site, "sacct", "-nXP", "-j", job, "-o", "state,user"), "the record")


def test_no_token_is_refused_while_the_jwt_key_is_replaced(site: OperatorSite) -> None:
    """The operator is killed at every stage; slurmctld and slurmdbd restart three times."""
    site.operator.kill()
    site.operator.start(key_settle=4.0)
    with using_token(site) as user:
        until(lambda: user.answers, "an answer")
        data = json.dumps({"stringData": {"jwt.key": NEW_KEY}})
        site.kubectl("patch", "secret", "slurm-keys", "--type=merge", "-p", data)
        for number, stage in enumerate(STAGES):
            # A stage takes a few seconds only, so the test may see a later one.
            until(partial(has_reached, site, STAGES[number:]), f"stage {stage}")
            site.operator.kill()
            site.operator.start()
        until(lambda: "jwks" not in site.get("configmap", "slurm-config")["data"]["slurm.conf"], "the end of the JWKS")
        site.wait_workers(2, "cpu")
        count = len(user.answers)
        until(lambda: len(user.answers) > count + 3, "answers to tokens of the new key")
    assert user.refusals == []
    assert set(user.answers) == {f"{name} {way}" for name in ("slurmctld", "slurmdbd") for way in ("HS256", "RS256")}
    assert user.answers[-1].endswith("HS256")


def test_a_refusal_of_the_database_is_reported_in_its_own_words(site: OperatorSite) -> None:
    site.is_spent = True
    before = site.uids("slurmdbd")["slurm-accounting-0"]
    site.apply(secret("mariadb-password", password="another"))  # the database keeps the old password
    until(lambda: site.uids("slurmdbd").get("slurm-accounting-0", before) != before, "another slurmdbd")

    def is_reported() -> bool:
        conditions = site.status("accounting", "slurm")["conditions"]
        return any(entry["reason"] == "DatabaseRefuses" and "Access denied" in entry["message"] for entry in conditions)

    until(is_reported, "the refusal in the condition")
