# SPDX-License-Identifier: Apache-2.0
"""Which job options annotations may set."""

from typing import Any, get_args

import pytest
from tests.unit.bridge.build import pod

from slinky.bridge import names
from slinky.bridge.config import BridgeSettings, Policy, PolicyMode, PolicyRule, PriorityRule
from slinky.bridge.views import WorkloadPod
from slinky.bridge.workload.annotations import BY_NAME, TABLE, Protection
from slinky.bridge.workload.grouping import Workload, WorkloadRoot
from slinky.bridge.workload.job_spec import JobContext, build_job_spec
from slinky.bridge.workload.policy import PolicyError
from slinky.slurm import JobRequest, number

STRICT, TRUSTING = Policy("strict"), Policy("trust-annotations")
#: Values that an annotation may have only if a rule allows them.
PRIVILEGED = {"user-id": "alice", "group-id": "alice", "priority": "9", "nice": "-1", "reservation": "course"}
CHOSEN = {"account": "physics", "qos": "high", "partition": "gpu"}


def request(*pods: WorkloadPod, options: dict[str, str] | None = None, **settings: Any) -> JobRequest:
    root = WorkloadRoot({names.OPTION + name: value for name, value in (options or {}).items()})
    workload = Workload("ns", "Pod", "p") if len(pods) < 2 else Workload("ns", "PodGroup", "g")
    return build_job_spec(workload, root, pods or (pod(),), JobContext(BridgeSettings(**settings))).request


def field(name: str, **arguments: Any) -> object:
    return getattr(request(**arguments), BY_NAME[name].field)


def test_the_table_of_options_names_those_that_need_a_rule() -> None:
    protection = {option.name: option.protection for option in TABLE if option.protection is not Protection.NONE}
    assert protection == {
        **dict.fromkeys(PRIVILEGED, Protection.ALWAYS),
        **dict.fromkeys(CHOSEN, Protection.STRICT),
        "nice": Protection.NEGATIVE,
    }


@pytest.mark.parametrize(("name", "value"), PRIVILEGED.items())
def test_a_privileged_option_needs_a_rule_and_the_message_contains_it(name: str, value: str) -> None:
    given = {name: value}
    example = rf"a rule in policy.rules must allow it, such as {{namespaces: \[ns\], allow: {{{name}: \['{value}'\]}}}}"
    for policy in (Policy(), STRICT):
        with pytest.raises(PolicyError, match=f"the option {name} is not allowed in namespace ns: {example}"):
            request(options=given, policy=policy)
    silent = Policy(rules=(PolicyRule("guests", default={name: value}),))
    with pytest.raises(PolicyError, match=rf"rule guests must allow it, such as by allow: {{{name}: \['{value}'\]}}"):
        request(options=given, policy=silent)
    expected = field(name, options=given, policy=TRUSTING)
    assert field(name, options=given, policy=Policy(rules=(PolicyRule(allow={name: (value,)}),))) == expected
    assert field(name, policy=silent) == expected  # the administrator wrote it
    assert field(name, options={name: "7"}, policy=Policy(rules=(PolicyRule(force=given),))) == expected


@pytest.mark.parametrize(("name", "value"), CHOSEN.items())
def test_account_qos_and_partition_need_a_rule_only_in_strict_mode(name: str, value: str) -> None:
    assert field(name, options={name: value}) == value
    with pytest.raises(PolicyError, match=f"{name} is not allowed"):
        request(options={name: value}, policy=STRICT)
    assert field(name, options={name: value}, policy=Policy("strict", (PolicyRule(allow={name: ("*",)}),))) == value


@pytest.mark.parametrize("mode", get_args(PolicyMode))
def test_other_options_need_no_rule(mode: PolicyMode) -> None:
    assert field("timelimit", options={"timelimit": "5"}, policy=Policy(mode)) == number(5)
    assert field("nice", options={"nice": "100"}, policy=Policy(mode)) == 100


def test_a_rule_allows_the_values_that_it_lists_and_no_others() -> None:
    policy = Policy(rules=(PolicyRule("team", allow={"user-id": ("alice", "svc-*")}),))
    assert request(options={"user-id": "svc-a"}, policy=policy).user_id == "svc-a"
    with pytest.raises(PolicyError, match=r"user-id 'root' is not allowed in namespace ns; rule team allows: alice"):
        request(options={"user-id": "root"}, policy=policy)


def test_a_pod_that_no_rule_matches_gets_no_job() -> None:
    rules = (PolicyRule("team", ("team-*",)), PolicyRule(service_accounts=("robot",)))
    for mode in ("standard", "strict"):
        with pytest.raises(
            PolicyError, match=r"matches namespace ns and service account default \(rule team, rule 2\)"
        ):
            request(policy=Policy(mode, rules))
    assert request(pod(namespace="team-a"), policy=Policy(rules=rules)).name
    assert request(policy=Policy("trust-annotations", rules)).name


def test_the_rules_of_all_service_accounts_in_a_gang_must_allow_an_option() -> None:
    robot = PolicyRule("robots", service_accounts=("robot",), allow={"user-id": ("*",)})
    policy = Policy(rules=(robot, PolicyRule("others")))
    members = [pod(f"p-{account}", spec={"serviceAccountName": account}) for account in ("robot", "default")]
    assert request(members[0], options={"user-id": "alice"}, policy=policy).user_id == "alice"
    with pytest.raises(PolicyError, match="rule others must allow it"):
        request(*members, options={"user-id": "alice"}, policy=policy)


def test_a_long_value_is_cut_in_the_message() -> None:
    with pytest.raises(PolicyError) as error:
        request(options={"user-id": "x" * 1024})
    assert len(str(error.value)) < 300


@pytest.mark.parametrize("policy", [Policy(), Policy(rules=(PolicyRule(),))])
def test_the_policy_applies_to_options_with_the_old_prefix(policy: Policy) -> None:
    root = WorkloadRoot({names.OLD_OPTION + "user-id": "root"})
    with pytest.raises(PolicyError, match="user-id is not allowed"):
        build_job_spec(Workload("ns", "Pod", "p"), root, [pod()], JobContext(BridgeSettings(policy=policy)))


POLICY = Policy(
    rules=(
        PolicyRule(
            namespaces=("team-*",), force={"account": "team"}, allow={"qos": ("normal", "high")}, refuse=("licenses",)
        ),
        PolicyRule(default={"account": "guests"}),
    )
)


def test_a_forced_option_overrides_annotations() -> None:
    result = request(pod(namespace="team-a"), options={"account": "rich", "qos": "high"}, policy=POLICY)
    assert (result.account, result.qos) == ("team", "high")
    assert request(policy=POLICY).account == "guests"
    assert request(policy=POLICY, options={"account": "mine"}).account == "mine"


@pytest.mark.parametrize(
    ("options", "words"), [({"qos": "vip"}, "rule 1 allows: normal, high"), ({"licenses": "a"}, "rule 1 refuses it")]
)
def test_policy_refuses_what_is_not_allowed(options: dict[str, str], words: str) -> None:
    with pytest.raises(PolicyError, match=words):
        request(pod(namespace="team-a"), options=options, policy=POLICY)


LISTS = {
    "partition": ("gpu*",),
    "licenses": ("matlab:*",),
    "gres": ("gres/gpu:*",),
    "constraints": ("a*",),
    "reservation": ("course*", "a,b"),
}


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("partition", "gpu1,gpu2", True),
        ("partition", "gpu,admin", False),
        ("partition", ",", False),
        ("licenses", "matlab:1, matlab:2", True),
        ("licenses", "matlab:1,ansys:500", False),
        ("licenses", "matlab:1;ansys:500", False),
        ("gres", "gres/gpu:1,gres/fpga:8", False),
        ("constraints", "a1&a2|[a3*2]", True),
        ("constraints", "a1&b2", False),
        ("constraints", "a1|b2", False),
        ("constraints", "(a1&(b2))", False),
        ("reservation", "course1,maintenance", False),
        ("reservation", "a,b", True),
        ("reservation", "a", False),
    ],
)
def test_every_part_of_a_list_must_be_allowed(name: str, value: str, allowed: bool) -> None:
    policy = Policy(rules=(PolicyRule(allow=LISTS),))
    if allowed:
        assert getattr(request(options={name: value}, policy=policy), BY_NAME[name].field) == value
        return
    with pytest.raises(PolicyError, match="is not allowed"):
        request(options={name: value}, policy=policy)


def test_a_priority_class_sets_the_configured_options() -> None:
    ranks = {"urgent": PriorityRule(qos="high", nice=-5)}
    result = request(pod(spec={"priorityClassName": "urgent"}), priority_classes=ranks)
    assert (result.qos, result.nice) == ("high", -5)
    assert (
        request(pod(spec={"priorityClassName": "urgent"}), options={"qos": "low"}, priority_classes=ranks).qos == "low"
    )
