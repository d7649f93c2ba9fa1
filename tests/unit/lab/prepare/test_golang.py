# SPDX-License-Identifier: Apache-2.0
"""Releases of Kubernetes of which only the API server is built."""

import pytest

from slinky.lab.errors import LabError
from slinky.lab.kubernetes.control_plane import FEATURES
from slinky.lab.prepare import golang
from slinky.lab.prepare.golang import OTHER_RELEASES, RELEASES, KubernetesRelease

GO_MOD = """\
module k8s.io/kubernetes

go 1.25.0

godebug default=go1.25

require (
	github.com/google/go-cmp v0.7.0
	k8s.io/api v0.0.0
)

replace (
	k8s.io/api => ./staging/src/k8s.io/api
	k8s.io/kms => ./staging/src/k8s.io/kms
)
"""


def test_the_libraries_of_a_release_come_from_the_proxy_in_the_version_of_the_release() -> None:
    assert golang.release_module(KubernetesRelease("1.35.8", ""), GO_MOD) == (
        "module slinky.slurm.net/api-server\n"
        "go 1.26\n"
        "godebug default=go1.25\n"
        "require k8s.io/kubernetes v1.35.8\n"
        "replace (\n"
        "\tk8s.io/api => k8s.io/api v0.35.8\n"
        "\tk8s.io/kms => k8s.io/kms v0.35.8\n"
        ")\n"
    )


def test_every_release_is_known_by_its_minor_and_has_features() -> None:
    for minor, release in (RELEASES | OTHER_RELEASES).items():
        assert release.minor == minor
    assert set(FEATURES) == set(RELEASES) | set(OTHER_RELEASES)


def test_an_unknown_release_is_refused_with_a_choice() -> None:
    with pytest.raises(LabError, match=r"API server of Kubernetes 1\.12 is not known here") as problem:
        golang.other_release("1.12")
    assert "1.35" in str(problem.value.hint)
