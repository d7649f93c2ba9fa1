# SPDX-License-Identifier: Apache-2.0
"""Labels, selectors and addresses of what the operator makes. Pure: names in, names out."""

from typing import NamedTuple

from slinky.api.names import metadata

FALLBACK_DOMAIN = "cluster.local"


class DaemonRole(NamedTuple):
    """A program of Slurm and the part it plays."""

    app: str
    component: str

    def selector(self, instance: str) -> dict[str, str]:
        """Labels that pick the pods of one object."""
        return {metadata.APP_NAME: self.app, metadata.APP_INSTANCE: instance}

    def selector_text(self, instance: str) -> str:
        """The selector as autoscalers read it from a status."""
        return ",".join(f"{key}={value}" for key, value in sorted(self.selector(instance).items()))

    def labels(self, instance: str) -> dict[str, str]:
        """Labels that everything made for one object carries."""
        return {**self.selector(instance), metadata.APP_COMPONENT: self.component}


SLURMCTLD = DaemonRole("slurmctld", "controller")
SLURMDBD = DaemonRole("slurmdbd", "accounting")
SLURMRESTD = DaemonRole("slurmrestd", "restapi")
SLURMD = DaemonRole("slurmd", "worker")
LOGIN = DaemonRole("login", "login")

ROLES = (SLURMCTLD, SLURMDBD, SLURMRESTD, SLURMD, LOGIN)


def short_address(service: str, namespace: str) -> str:
    """A Service as pods of the same cluster of machines can call it."""
    return f"{service}.{namespace}"


def long_address(service: str, namespace: str, domain: str = FALLBACK_DOMAIN) -> str:
    """A Service by its full name."""
    return f"{service}.{namespace}.svc.{domain}"


def cluster_domain(resolv_conf: str) -> str:
    """The cluster's DNS domain, from a pod's resolv.conf: what follows the first search entry `svc.`."""
    for line in resolv_conf.splitlines():
        words = line.split()
        if words[:1] == ["search"]:
            found = next((word for word in words[1:] if word.startswith("svc.")), "")
            if found:
                return found.removeprefix("svc.").rstrip(".")
    return FALLBACK_DOMAIN


def worker_service(controller: str) -> str:
    """The headless Service that all workers of a cluster share."""
    return f"slurm-workers-{controller}"


def worker_budget(controller: str) -> str:
    """The disruption budget that all workers of a cluster share."""
    return f"slurm-workers-pdb-{controller}"
