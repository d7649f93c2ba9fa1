# SPDX-License-Identifier: Apache-2.0
"""The policy: which options the workloads of a namespace or service account may set, and what a PriorityClass means.

The first rule that matches the pod applies: `refuse` and `allow` limit the annotations, `default` fills in missing
options, and `force` overrides annotations. The bridge submits jobs with the rights of an administrator, so options by
which a pod could exceed the rights of a Slurm user are taken from annotations only if the rule lists them under
`allow`; the mode of the policy selects these options. If there are rules, a pod that none of them matches gets no job.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase

from slinky.bridge import names
from slinky.bridge.config import ConfigError, Policy, PolicyMode, PolicyRule, PriorityRule
from slinky.bridge.views import WorkloadPod
from slinky.bridge.workload.annotations import (
    BY_NAME,
    OptionError,
    Protection,
    option_values,
    parse_options,
    parse_value,
)

_SEPARATOR = re.compile(r"[,;&|()\[\]]")
#: The mode in which annotations may set every option that no rule forbids, as in slurm-bridge 1.3.
TRUSTING: PolicyMode = "trust-annotations"
#: A longer value is not repeated in messages.
_SHOWN_MAX = 80


class PolicyError(OptionError):
    """The policy does not allow an option."""


def check_policy(policy: Policy, priorities: Mapping[str, PriorityRule]) -> None:
    """Raises `ConfigError` for an option that does not exist and for a value that cannot be parsed."""
    labels = [rule.name for rule in policy.rules if rule.name]
    if len(set(labels)) < len(labels):
        raise ConfigError("policy: two rules have the same name")
    for rule in policy.rules:
        where = f"policy: {_label(policy, rule)}"
        for name in (*rule.force, *rule.default, *rule.allow, *rule.refuse):
            if name not in BY_NAME:
                raise ConfigError(f"{where}: there is no option {name!r}")
        for name, value in (*rule.force.items(), *rule.default.items()):
            try:
                parse_value(BY_NAME[name], value)
            except ValueError as error:
                raise ConfigError(f"{where}: {name}: {value!r} {error}") from None
    for name, priority in priorities.items():
        if not (options := _priority_options(priority)):
            raise ConfigError(f"priorityClasses: {name} sets none of qos, priority and nice")
        try:
            parse_options(_annotations(options))
        except OptionError as error:
            raise ConfigError(f"priorityClasses: {name}: {error}") from None


def matching_rule(rules: Iterable[PolicyRule], pod: WorkloadPod) -> PolicyRule | None:
    """The first rule that matches a pod."""
    account = pod.spec.service_account_name or "default"
    for rule in rules:
        if _matches_any(rule.namespaces, pod.metadata.namespace) and _matches_any(rule.service_accounts, account):
            return rule
    return None


def apply_to_pods(
    annotations: Mapping[str, str],
    pods: Sequence[WorkloadPod],
    policy: Policy,
    priorities: Mapping[str, PriorityRule],
) -> dict[str, str]:
    """The options of a workload after the policy has been applied, as annotations. Raises `PolicyError`.

    The rules of all service accounts in the workload must allow the options; the first pod decides on the values.
    """
    of_each_account = {pod.spec.service_account_name: pod for pod in reversed(pods)}
    for pod in of_each_account.values():
        apply_policy(annotations, pod, policy, priorities)
    return apply_policy(annotations, pods[0], policy, priorities)


def apply_policy(
    annotations: Mapping[str, str],
    pod: WorkloadPod,
    policy: Policy,
    priorities: Mapping[str, PriorityRule],
) -> dict[str, str]:
    """The options of a pod after the policy has been applied, as annotations. Raises `PolicyError`."""
    given = option_values(annotations)
    rule = matching_rule(policy.rules, pod)
    if rule is None and policy.rules and policy.mode != TRUSTING:
        raise PolicyError(_no_rule(policy, pod))
    _check_annotations(given, pod, policy, rule)
    rule = rule or PolicyRule()
    from_priority = _priority_options(priorities.get(pod.spec.priority_class_name))
    merged = {**rule.default, **from_priority, **given, **rule.force}
    for name, allowed in rule.allow.items():
        value = merged.get(name)
        if value is not None and not _is_allowed(value.strip(), allowed):
            choices = ", ".join(allowed) or "none"
            raise PolicyError(
                f"{name} {_shown(value)} is not allowed in namespace {pod.metadata.namespace}; "
                f"{_label(policy, rule)} allows: {choices}"
            )
    return _annotations(merged)


def _check_annotations(given: Mapping[str, str], pod: WorkloadPod, policy: Policy, rule: PolicyRule | None) -> None:
    """Raises `PolicyError` for the first option that annotations may not set."""
    for name, value in sorted(given.items()):
        reason = ""
        if rule is not None and name in rule.refuse:
            reason = f"{_label(policy, rule)} refuses it"
        elif rule is None and _needs_rule(name, value, policy.mode):
            example = f"{{namespaces: [{pod.metadata.namespace}], allow: {{{name}: [{_shown(value)}]}}}}"
            reason = f"a rule in policy.rules must allow it, such as {example}"
        elif rule is not None and name not in {*rule.allow, *rule.force} and _needs_rule(name, value, policy.mode):
            reason = f"{_label(policy, rule)} must allow it, such as by allow: {{{name}: [{_shown(value)}]}}"
        if reason:
            raise PolicyError(f"the option {name} is not allowed in namespace {pod.metadata.namespace}: {reason}")


def _needs_rule(name: str, value: str, mode: PolicyMode) -> bool:
    """Whether a rule must allow an annotation with this value."""
    if mode == TRUSTING:
        return False
    protection = BY_NAME[name].protection
    if protection is Protection.NEGATIVE:
        return value.strip().startswith("-")
    return protection is Protection.ALWAYS or (protection is Protection.STRICT and mode == "strict")


def _no_rule(policy: Policy, pod: WorkloadPod) -> str:
    account = pod.spec.service_account_name or "default"
    labels = ", ".join(_label(policy, rule) for rule in policy.rules)
    return (
        f"no rule of the policy matches namespace {pod.metadata.namespace} and service account {account} ({labels}); "
        "add a rule to policy.rules that matches them"
    )


def _label(policy: Policy, rule: PolicyRule) -> str:
    return f"rule {rule.name or policy.rules.index(rule) + 1}"


def _shown(value: str) -> str:
    return repr(value.strip()) if len(value) <= _SHOWN_MAX else repr(value.strip()[:_SHOWN_MAX]) + "..."


def _is_allowed(value: str, patterns: Sequence[str]) -> bool:
    """Whether a value is listed literally, or each part of it matches a pattern: `gpu,admin` does not match `gpu*`."""
    parts = split_list(value)
    return value in patterns or (bool(parts) and all(_matches_any(patterns, part) for part in parts))


def split_list(value: str) -> list[str]:
    """The parts of a value that Slurm reads as a list: names are separated by commas, licences also by semicolons,
    features also by `&`, `|`, parentheses and brackets.
    """
    return [part.strip() for part in _SEPARATOR.split(value) if part.strip()]


def _priority_options(rule: PriorityRule | None) -> dict[str, str]:
    if rule is None:
        return {}
    options = {"qos": rule.qos or None, "priority": rule.priority, "nice": rule.nice}
    return {name: str(value) for name, value in options.items() if value is not None}


def _annotations(options: Mapping[str, str]) -> dict[str, str]:
    return {names.OPTION + name: value for name, value in options.items()}


def _matches_any(patterns: Iterable[str], value: str) -> bool:
    return any(fnmatchcase(value, pattern) for pattern in patterns)
