# SPDX-License-Identifier: Apache-2.0
"""Labels, selectors and addresses of the objects that the operator creates. Pure functions."""

from typing import NamedTuple

from slinky.api.names import metadata

FALLBACK_DOMAIN = "cluster.local"


class DaemonRole(NamedTuple):
    """A Slurm program and its role, as in the labels `app.kubernetes.io/name` and `app.kubernetes.io/component`."""

    app: str
    component: str

    def selector(self, instance: str) -> dict[str, str]:
        """Labels that select the pods of one object."""
        return {metadata.APP_NAME: self.app, metadata.APP_INSTANCE: instance}

    def selector_text(self, instance: str) -> str:
        """The selector as text, as autoscalers read it from the status."""
        return ",".join(f"{key}={value}" for key, value in sorted(self.selector(instance).items()))

    def labels(self, instance: str) -> dict[str, str]:
        """Labels of everything that is created for one object."""
        return {**self.selector(instance), metadata.APP_COMPONENT: self.component}


SLURMCTLD = DaemonRole("slurmctld", "controller")
SLURMDBD = DaemonRole("slurmdbd", "accounting")
SLURMRESTD = DaemonRole("slurmrestd", "restapi")
SLURMD = DaemonRole("slurmd", "worker")
LOGIN = DaemonRole("login", "login")

#: A temporary slurmctld that tries a configuration.
SLURMCTLD_TRIAL = DaemonRole("slurmctld-trial", SLURMCTLD.component)
#: Pods that read the version of an image.
VERSION_READER = DaemonRole("slurm-version", SLURMCTLD.component)

ROLES = (SLURMCTLD, SLURMDBD, SLURMRESTD, SLURMD, LOGIN)


def short_address(service: str, namespace: str) -> str:
    """DNS name of a Service for pods of the same Kubernetes cluster."""
    return f"{service}.{namespace}"


def long_address(service: str, namespace: str, domain: str = FALLBACK_DOMAIN) -> str:
    """Fully qualified DNS name of a Service."""
    return f"{service}.{namespace}.svc.{domain}"


def cluster_domain(resolv_conf: str) -> str:
    """The DNS domain of the Kubernetes cluster: in a pod's resolv.conf, the rest of the search entry `svc.`."""
    for line in resolv_conf.splitlines():
        words = line.split()
        if words[:1] == ["search"]:
            entry = next((word for word in words[1:] if word.startswith("svc.")), "")
            if entry:
                return entry.removeprefix("svc.").rstrip(".")
    return FALLBACK_DOMAIN


def worker_service(controller: str) -> str:
    """Name of the headless Service that all workers of a Slurm cluster share."""
    return f"slurm-workers-{controller}"


def worker_budget(controller: str) -> str:
    """Name of the PodDisruptionBudget that all workers of a Slurm cluster share."""
    return f"slurm-workers-pdb-{controller}"
