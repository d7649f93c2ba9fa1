# SPDX-License-Identifier: Apache-2.0
"""Child objects and conditions of an Accounting."""

from base64 import b64decode

import pytest
from tests.unit.operator.samples import accounting

from slinky.api.names import metadata
from slinky.kube.views import SECRETS, SERVICES, STATEFUL_SETS, ReplicaStatus
from slinky.operator.accounting.plan import AccountingInputs
from slinky.operator.accounting.plan import plan as accounting_plan
from slinky.operator.accounting.status import health as accounting_health
from slinky.operator.build.pod_parts import Images
from slinky.operator.framework.references import accounting_secrets
from slinky.slurm.conf import ConfError, parse

IMAGES = Images("reg/{daemon}:1")


def test_slurmdbd_gets_its_password_through_a_secret_only() -> None:
    made = accounting_plan(accounting(), AccountingInputs("k", b"j", "", "geheim"), IMAGES)
    assert [resource for resource, _ in made.apply] == [SERVICES, SECRETS, STATEFUL_SETS]
    conf = b64decode(made.apply[1][1]["data"]["slurmdbd.conf"]).decode()
    assert [line[0].value for line in parse(conf) if line[0].has_key("StoragePass")] == ["geheim"]
    assert "geheim" not in str(made.apply[0]) + str(made.apply[2])


def test_a_changed_password_restarts_slurmdbd() -> None:
    def observed(password: str) -> str:
        made = accounting_plan(accounting(), AccountingInputs("k", b"j", "", password), IMAGES).apply[2][1]
        return str(made["spec"]["template"]["metadata"]["annotations"][metadata.SLURMDBD_CONF_HASH])

    assert observed("a") != observed("b")
    assert "db" in accounting_secrets(accounting())


def test_a_password_cannot_add_a_line() -> None:
    with pytest.raises(ConfError) as refused:
        accounting_plan(accounting(), AccountingInputs(password="geheim\nStorageHost=evil"), IMAGES)
    assert "geheim" not in str(refused.value), "the words go into conditions and events"


def test_an_external_accounting_has_no_children() -> None:
    parent = accounting(external=True, externalConfig={"host": "x", "port": 1})
    made = accounting_plan(parent, AccountingInputs(), IMAGES)
    assert made.apply == ()
    assert len(made.delete) == 3


OUTPUTS = [
    ("", None, ""),
    ("error: mysql_real_connect failed: 1045 Access denied for user 'slurm'@'x'", "DatabaseRefuses", "Secret db"),
    ("error: mysql_real_connect failed: 2002 Can't connect to server on 'db'", "DatabaseUnreachable", "db:3306"),
    ("error: only a complaint", None, ""),
]


@pytest.mark.parametrize(("output", "reason", "words"), OUTPUTS, ids=[str(case[1]) + case[2] for case in OUTPUTS])
def test_errors_of_slurmdbd_are_reported_in_conditions(output: str, reason: str | None, words: str) -> None:
    result = accounting_health(accounting(), ReplicaStatus(), True, output)
    assert result.degraded.value is (reason is not None)
    assert reason is None or (result.degraded.reason, result.ready.reason) == (reason, reason)
    assert words in result.degraded.message
    ready = ReplicaStatus(ready_replicas=1, updated_replicas=1)
    assert accounting_health(accounting(), ready, True, output).degraded.value is False
