# SPDX-License-Identifier: Apache-2.0
"""Converts values of the charts of slurm-operator 1.2 and 1.3 to values of our charts. Pure.

Most values have the same names. What differs is a table: values that name other images, that had no effect, or whose
effect would change. docs/operator/migration.md explains each.
"""

import copy
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any

from slinky.cli.conversion.result import Conversion, Untaken

#: Top-level values of the charts, in which a misspelt one is recognized.
OPERATOR_VALUES = (
    "nameOverride", "fullnameOverride", "namespaceOverride", "imagePullSecrets", "imagePullPolicy", "priorityClassName",
    "crds", "operator", "webhook", "propagatedNodeConditions", "certManager", "extraObjects", "global",
)  # fmt: skip
CLUSTER_VALUES = (
    "nameOverride", "fullnameOverride", "namespaceOverride", "asciiArt", "imagePullSecrets", "imagePullPolicy",
    "priorityClass", "slurmKey", "jwtKey", "jwksKeys", "clusterName", "configFiles", "prologScripts", "epilogScripts",
    "prologSlurmctldScripts", "epilogSlurmctldScripts", "prologScriptRefs", "epilogScriptRefs",
    "prologSlurmctldScriptRefs", "epilogSlurmctldScriptRefs", "controller", "restapi", "accounting", "sssd",
    "loginsetDefaults", "loginsets", "nodesetDefaults", "nodesets", "partitions", "tokens", "vendor", "extraObjects",
    "global",
)  # fmt: skip
#: Values with a meaning only there.
NO_EFFECT = "it has no effect here"
SIDECAR = "a sidecar has the image of the daemon beside it"
FOREIGN_IMAGE = "it names an image of slurm-operator; build/images.yaml names ours"
IGNORED = "slurm-operator ignores it, here it would replace that of slurmd"
DROPPED = "slurm-operator drops a setting of 0 or false, here it would take effect"
WEBHOOK_SECRET = "slurm-operator-webhook-tls"  # noqa: S105 -- a name
OLD_WEBHOOK_SECRET = "slurm-operator-webhook-ca"  # noqa: S105


def convert_values(values: Mapping[str, Any], release: str) -> Conversion:
    """Convert values of the chart slurm-operator or slurm, of the release of this name."""
    converted = copy.deepcopy(dict(values))
    is_operator = "operator" in values or "webhook" in values
    untaken: list[Untaken] = list(_unknown(converted, OPERATOR_VALUES if is_operator else CLUSTER_VALUES))
    notes: list[str] = []
    if is_operator:
        _convert_operator(converted, untaken, notes)
    else:
        _convert_cluster(converted, untaken, notes, release)
    return Conversion("slurm-operator" if is_operator else "slurm", converted, tuple(untaken), tuple(notes))


def _unknown(values: dict[str, Any], known: tuple[str, ...]) -> Iterator[Untaken]:
    for name in [name for name in values if name not in known]:
        near = get_close_matches(str(name), known, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        del values[name]
        yield Untaken(str(name), f"the chart has no such value{hint}")


def _convert_operator(values: dict[str, Any], untaken: list[Untaken], notes: list[str]) -> None:
    for process in ("operator", "webhook"):
        section = values.get(process)
        if isinstance(section, dict) and "slinkyproject" in str(section.get("image", "")):
            del section["image"]
            untaken.append(Untaken(f"{process}.image", FOREIGN_IMAGE))
    _remove(values, "webhook.leaderElection", NO_EFFECT, untaken)
    certificates = values.setdefault("certManager", {})
    if isinstance(certificates, dict) and certificates.get("secretName", OLD_WEBHOOK_SECRET) == OLD_WEBHOOK_SECRET:
        certificates["secretName"] = WEBHOOK_SECRET
        notes.append("the webhook keeps its certificates in a Secret of its own, certManager.secretName")
    notes.append("use the values with `-f build/images.yaml`, which `make images` writes")


def _convert_cluster(values: dict[str, Any], untaken: list[Untaken], notes: list[str], release: str) -> None:
    _remove(values, "asciiArt", NO_EFFECT, untaken)
    for path in _sidecars(values):
        _remove(values, path, SIDECAR, untaken)
    for name, node_set in _section(values, "nodesets").items():
        for field in ("image", "resources"):
            if isinstance(node_set, dict) and node_set.get(field):
                _remove(values, f"nodesets.{name}.{field}", IGNORED, untaken)
    _remove_falsy(values, "", untaken)
    if _section(values, "controller").get("external") or _section(values, "accounting").get("external"):
        return  # the keys are those of the Slurm outside
    kept: list[str] = []
    for name, suffix, key in (("slurmKey", "auth-slurm", "slurm.key"), ("jwtKey", "auth-jwt", "jwt.key")):
        section = values.setdefault(name, {}) or {}
        reference = section.get("secretRef") or {}
        secret = reference.get("name") or f"{release}-{suffix}"
        if not reference.get("name") or section.get("create"):
            kept.append(secret)
        values[name] = {**section, "create": False, "secretRef": {"name": secret, "key": reference.get("key") or key}}
    if kept:
        notes.append(
            f"keep the keys before the upgrade: `kubectl annotate secret {' '.join(kept)} "
            "helm.sh/resource-policy=keep` in the namespace of the release"
        )


def _sidecars(values: dict[str, Any]) -> list[str]:
    paths = ["controller.logfile.image", "nodesetDefaults.logfile.image", "loginsetDefaults.initconf.image"]
    paths += [f"nodesets.{name}.logfile.image" for name in _section(values, "nodesets")]
    paths += [f"loginsets.{name}.initconf.image" for name in _section(values, "loginsets")]
    return [path for path in paths if "alpine" in str(_find(values, path))]


def _remove_falsy(value: Any, path: str, untaken: list[Untaken]) -> None:
    """Remove settings of 0 and false from maps for slurm.conf, which were never written."""
    if not isinstance(value, dict):
        return
    for name, inner in list(value.items()):
        where = f"{path}.{name}" if path else str(name)
        if name in ("extraConfMap", "configMap") and isinstance(inner, dict):
            for key in [key for key, setting in inner.items() if setting is False or setting == 0]:
                untaken.append(Untaken(f"{where}.{key}", DROPPED))
                del inner[key]
        elif name not in ("podSpec", "extraObjects", "configFiles"):
            _remove_falsy(inner, where, untaken)


def _section(values: Mapping[str, Any], name: str) -> dict[str, Any]:
    section = values.get(name)
    return section if isinstance(section, dict) else {}


def _find(values: Any, path: str) -> Any:
    for name in path.split("."):
        if not isinstance(values, dict) or name not in values:
            return None
        values = values[name]
    return values


def _remove(values: dict[str, Any], path: str, why: str, untaken: list[Untaken]) -> None:
    parent, _, name = path.rpartition(".")
    section = _find(values, parent) if parent else values
    if isinstance(section, dict) and name in section:
        del section[name]
        untaken.append(Untaken(path, why))
