# SPDX-License-Identifier: Apache-2.0
"""Every path and field that the library names exists in the OpenAPI document of the installed slurmrestd."""

import json
import types
import typing
from typing import Any

import msgspec
import pytest

from slinky.lab.slurm.cluster import LabSlurm
from slinky.slurm import DataParserVersion
from slinky.slurm.errors import ERROR_TYPES
from slinky.slurm.model import (
    account_requests,
    accounting_jobs,
    accounts,
    partitions,
    qos,
    requests,
    states,
    statistics,
    values,
    views,
)
from slinky.slurm.transport.endpoints import ENDPOINTS

NEWEST = max(DataParserVersion)

#: Which schema a struct is a part of.
SCHEMAS: dict[type[msgspec.Struct], str] = {
    views.Job: "job_info",
    views.Host: "node",
    partitions.Partition: "partition_info",
    views.Reservation: "reservation_info",
    views.License: "license",
    statistics.ControllerPing: "controller_ping",
    views.Share: "assoc_shares_obj_wrap",
    statistics.Diag: "stats_msg",
    views.NodeResources: "node_resource_layout",
    statistics.ConfMeta: "slurm_conf_meta",
    requests.JobRequest: "job_desc_msg",
    requests.JobSelection: "kill_jobs_msg",
    requests.NodeUpdate: "update_node_msg",
    requests.ReservationRequest: "reservation_desc_msg",
    requests.SubmitBody: "job_submit_req",
    requests.RequeueBody: "openapi_jobs_requeue_query",
    requests.NewNodeBody: "openapi_create_node_req",
    accounts.Account: "account",
    accounts.User: "user",
    accounts.Association: "assoc",
    qos.Qos: "qos",
    accounts.Cluster: "cluster_rec",
    accounting_jobs.AccountingJob: "job",
    accounting_jobs.JobOutcome: "job_modify",
    accounts.Wckey: "wckey",
    account_requests.NewAccounts: "openapi_accounts_add_cond_resp",
    account_requests.NewUsers: "openapi_users_add_cond_resp",
    values.Tres: "tres",
}
#: Fields that only older data parsers have, or that only one user of a shared struct has.
ELSEWHERE = {
    (statistics.ControllerPing, "pinged"),
    (accounts.TresPer, "job"),
    (accounts.TresPer, "node"),
    (accounts.TresPer, "user"),
    (accounts.TresPer, "account"),
    (accounts.TresPer, "qos"),
}
JSON_TYPES = {str: "string", int: "integer", bool: "boolean"}


class Document:
    """An OpenAPI document with its references resolved."""

    def __init__(self, text: str, version: DataParserVersion) -> None:
        self.content = json.loads(text)
        self.version = version

    def schema(self, name: str) -> dict[str, Any]:
        return self.resolve({"$ref": f"#/components/schemas/{self.version}_{name}"})

    def resolve(self, part: dict[str, Any]) -> dict[str, Any]:
        while "$ref" in part:
            part = self.content["components"]["schemas"][part["$ref"].rsplit("/", 1)[-1]]
        return part

    def operations(self) -> set[tuple[str, str]]:
        return {(method.upper(), path) for path, methods in self.content["paths"].items() for method in methods}


@pytest.fixture(scope="module")
def documents(slurm: LabSlurm) -> dict[DataParserVersion, Document]:
    command = ["env", "SLURM_CONF=/dev/null", "slurmrestd", "--generate-openapi-spec"]
    parts = ["-s", "slurmctld,slurmdbd", "-d"]
    return {version: Document(slurm.exec(*command, *parts, str(version)), version) for version in DataParserVersion}


def mismatches(document: Document, struct: type[msgspec.Struct], schema: dict[str, Any]) -> list[str]:
    """Fields of a struct that a schema does not have, or has with another type."""
    differences = []
    hints = typing.get_type_hints(struct)
    for field in msgspec.structs.fields(struct):
        if (struct, field.name) in ELSEWHERE:
            continue
        where = f"{struct.__name__}.{field.name}"
        part = schema.get("properties", {}).get(field.encode_name)
        if part is None:
            differences.append(f"{where}: no {field.encode_name}")
        else:
            differences += disagreement(document, where, hints[field.name], document.resolve(part))
    return differences


def disagreement(document: Document, where: str, hint: Any, part: dict[str, Any]) -> list[str]:
    """Where a type hint and a schema part differ."""
    hint = next((arm for arm in arms(hint) if arm is not type(None)), hint)
    origin = typing.get_origin(hint)
    if origin is not None:
        inner = typing.get_args(hint)[0]
        if part.get("type") != "array":
            return [f"{where}: {part.get('type')} is not a list"]
        return disagreement(document, where, inner, document.resolve(part["items"]))
    if hint is values.Number:
        return [] if {"set", "infinite", "number"} <= part.get("properties", {}).keys() else [f"{where}: no number"]
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return mismatches(document, hint, part)
    expected = JSON_TYPES[hint]
    return [] if part.get("type") == expected else [f"{where}: {part.get('type')} is not {expected}"]


def arms(hint: Any) -> tuple[Any, ...]:
    return typing.get_args(hint) if isinstance(hint, types.UnionType) else ()


@pytest.mark.parametrize("struct", SCHEMAS, ids=lambda struct: struct.__name__)
def test_every_field_exists_with_the_type_we_read(
    documents: dict[DataParserVersion, Document], struct: type[msgspec.Struct]
) -> None:
    document = documents[NEWEST]
    assert mismatches(document, struct, document.schema(SCHEMAS[struct])) == []


@pytest.mark.parametrize("version", list(DataParserVersion))
@pytest.mark.parametrize("name", ENDPOINTS)
def test_every_path_exists_from_the_version_that_the_table_says(
    documents: dict[DataParserVersion, Document], version: DataParserVersion, name: str
) -> None:
    row = ENDPOINTS[name]
    path = f"/{row.api}/{version}/{row.path}"
    assert ((row.method, path) in documents[version].operations()) is (version >= row.since)


@pytest.mark.parametrize("version", list(DataParserVersion))
@pytest.mark.parametrize("struct", [views.Job, views.Host, partitions.Partition, views.Reservation])
def test_no_field_changes_its_type_between_versions(
    documents: dict[DataParserVersion, Document], struct: type[msgspec.Struct], version: DataParserVersion
) -> None:
    document = documents[version]
    differences = mismatches(document, struct, document.schema(SCHEMAS[struct]))
    assert [text for text in differences if ": no " not in text] == []


def test_every_state_is_known(documents: dict[DataParserVersion, Document]) -> None:
    document = documents[NEWEST]
    job = document.resolve(document.schema("job_info")["properties"]["job_state"])
    node = document.resolve(document.schema("node")["properties"]["state"])
    assert set(document.resolve(job["items"])["enum"]) == states.JOB_BASES | states.JOB_FLAGS
    assert set(document.resolve(node["items"])["enum"]) == states.NODE_BASES | states.NODE_FLAGS


def test_every_error_number_of_the_table_is_one_of_slurm(slurm: LabSlurm) -> None:
    numbers = [number for number in ERROR_TYPES if number > 0]
    script = "for n in {}; do scontrol errnumstr $n; done".format(" ".join(map(str, numbers)))
    texts = slurm.exec("sh", "-c", script).splitlines()
    assert len(texts) == len(numbers)
    assert not [text for text in texts if "Unknown" in text]
