# SPDX-License-Identifier: Apache-2.0
"""A user that exists only in an LDAP server logs in with a key from there, gets a home directory, and runs a job."""

import shlex
from collections.abc import Iterator

import pytest
from tests.conftest import MakeLab
from tests.e2e.operator.chart_site import key_pair
from tests.e2e.operator.site import OperatorSite, cluster, node_set, operator_site, secret
from tests.e2e.users.directory import GID, GROUP, UID, USER, login_set, server
from tests.support.waiting import until

from slinky.lab.prepare.images import reference
from slinky.lab.prepare.inventory import ArtifactInventory
from slinky.lab.progress import Progress

pytestmark = [pytest.mark.fault, pytest.mark.timeout(1200)]

SSH = ("ssh", "-i", "/key/id", "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null")
PROVIDERS = ("ad", "ipa", "krb5", "ldap", "proxy")


class DirectorySite:
    """A cluster, its login host, and a workstation with the user's private key."""

    def __init__(self, site: OperatorSite) -> None:
        self.site = site

    def build(self) -> None:
        host = f"ldap.{self.site.namespace}.svc.cluster.local"
        private, public = key_pair()
        *parts, _ = cluster()
        self.site.apply(*parts, node_set(1), *server(host, public), *login_set(host))
        self.site.apply(secret("key", id=private), self._workstation())
        self.site.wait_workers(1)
        self.site.kubectl("wait", "pod/ldap", "pod/workstation", "--for=condition=Ready", "--timeout=280s")
        self.site.kubectl("wait", "loginset/main", "--for=condition=Ready", "--timeout=280s")

    def login(self, *argv: str, check: bool = True) -> str:
        """Run a command on the login host, as root."""
        pod = next(iter(self.site.pods("login")))
        return self.site.kubectl("exec", pod, "-c", "login", "--", *argv, check=check).strip()

    def ssh(self, *argv: str, user: str = USER, check: bool = True) -> str:
        """Run a command on the login host over ssh."""
        remote = ("exec", "workstation", "--", *SSH, f"{user}@main", shlex.join(argv))
        return self.site.kubectl(*remote, check=check).strip()

    def diagnose(self) -> str:
        logs = ("logs", "--tail=60", "--prefix", "--all-containers", "-l")
        return "\n".join(self.site.kubectl(*logs, f"app.kubernetes.io/name={app}", check=False) for app in ("login",))

    def _workstation(self) -> dict[str, object]:
        container = {
            "name": "workstation",
            "image": reference("login"),
            "command": ["sleep", "infinity"],
            "volumeMounts": [{"name": "key", "mountPath": "/key", "readOnly": True}],
        }
        volume = {"name": "key", "secret": {"secretName": "key", "defaultMode": 0o400}}
        spec = {"terminationGracePeriodSeconds": 1, "containers": [container], "volumes": [volume]}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "workstation"}, "spec": spec}


@pytest.fixture(scope="module")
def people(make_lab: MakeLab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DirectorySite]:
    archive = ArtifactInventory.of().extra_image("slapd", Progress())
    lab = make_lab(nodes=1, gpus=0)
    lab.load_image(archive)
    with operator_site(lab, tmp_path_factory.mktemp("users")) as site:
        people = DirectorySite(site)
        people.build()
        yield people


def test_the_login_host_knows_the_users_and_groups_of_the_directory(people: DirectorySite) -> None:
    expected = f"{USER}:*:{UID}:{GID}:{USER}:/home/{USER}:/bin/bash"
    until(lambda: people.login("getent", "passwd", USER, check=False) == expected, "the user")
    assert people.login("id", "-nG", USER) == GROUP


def test_a_user_logs_in_with_the_key_of_the_directory_and_has_a_home_directory(people: DirectorySite) -> None:
    until(lambda: people.ssh("id", "-un", check=False) == USER, "a login")
    assert people.ssh("sh", "-c", "pwd; stat -c '%U %G %a' .") == f"/home/{USER}\n{USER} {GROUP} 700"
    assert people.ssh("id", "-un", user="mallory", check=False) == ""


def test_a_job_of_the_user_runs_on_a_worker_that_knows_no_users(people: DirectorySite) -> None:
    assert people.site.exec("gpu-0", "getent", "passwd", USER, check=False) == ""
    ids = people.ssh("srun", "--chdir=/tmp", "sh", "-c", "hostname; id -u; id -g")
    assert ids.split() == ["g-0", str(UID), str(GID)]


@pytest.mark.parametrize("provider", PROVIDERS)
def test_the_image_has_the_providers_of_sssd(people: DirectorySite, provider: str) -> None:
    people.login("sh", "-c", f"test -e /usr/lib/*/sssd/libsss_{provider}.so")
