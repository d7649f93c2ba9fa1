# SPDX-License-Identifier: Apache-2.0
"""The configuration file and the policy."""

import pytest

from slinky.bridge import config
from slinky.bridge.config import ConfigError, Policy, PolicyRule, PriorityRule
from slinky.bridge.workload import policy


def test_an_existing_file_works_unchanged() -> None:
    text = """
schedulerName: slurm-bridge-scheduler
slurmRestApi: http://slurm-restapi.slurm:6820
managedNamespaces: [slurm-bridge]
managedNamespaceSelector:
mcsLabel: kubernetes
partition: slurm-bridge
clientQPS: 50
"""
    settings, unknown = config.parse(text)
    assert (settings.partition, settings.mcs_label, settings.managed_namespaces) == (
        "slurm-bridge",
        "kubernetes",
        ("slurm-bridge",),
    )
    assert unknown == ("clientQPS",)


@pytest.mark.parametrize("text", ["[1]", "partition: [1]", "a: b: c", "taint: Sometimes"])
def test_an_invalid_file_is_rejected(text: str) -> None:
    with pytest.raises(ConfigError):
        config.parse(text)


@pytest.mark.parametrize(
    "rule", [PolicyRule(force={"acount": "x"}), PolicyRule(default={"timelimit": "soon"}), PolicyRule(refuse=("x",))]
)
def test_a_policy_that_names_what_does_not_exist_is_refused(rule: PolicyRule) -> None:
    with pytest.raises(ConfigError):
        policy.check_policy(Policy(rules=(rule,)), {})


def test_a_priority_class_must_set_an_option() -> None:
    with pytest.raises(ConfigError):
        policy.check_policy(Policy(), {"high": PriorityRule()})
    with pytest.raises(ConfigError, match="between"):
        policy.check_policy(Policy(), {"high": PriorityRule(priority=-1)})
    policy.check_policy(Policy(), {"high": PriorityRule(priority=0)})


def test_rules_have_different_names() -> None:
    with pytest.raises(ConfigError, match="same name"):
        policy.check_policy(Policy(rules=(PolicyRule("a"), PolicyRule("a", ("x",)))), {})
    policy.check_policy(Policy(rules=(PolicyRule(), PolicyRule("a"))), {})


@pytest.mark.parametrize("text", ["{mod: strict}", "{mode: lenient}", "[{force: {}}]", "{rules: [{allowed: {}}]}"])
def test_a_misspelt_policy_is_rejected_and_not_ignored(text: str) -> None:
    with pytest.raises(ConfigError, match=r"\$\.policy"):
        config.parse(f"policy: {text}")
