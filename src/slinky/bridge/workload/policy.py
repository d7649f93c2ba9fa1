# SPDX-License-Identifier: Apache-2.0
"""The policy: which options the workloads of a namespace or service account may set, and what a PriorityClass means.

Without rules, all annotations are allowed. With rules, the first one that matches the pod applies: `refuse` and `allow`
limit the annotations, `default` fills in missing options, and `force` overrides annotations. With rules, the options
that select the Slurm user or group are allowed only where a rule allows them.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase

from slinky.bridge import names
from slinky.bridge.config import ConfigError, PolicyRule, PriorityRule
from slinky.bridge.views import WorkloadPod
from slinky.bridge.workload.annotations import BY_NAME, TABLE, OptionError, option_values, parse_options, parse_value

_SEPARATOR = re.compile(r"[,;&|()\[\]]")
IDENTITY_OPTIONS = tuple(option.name for option in TABLE if option.sets_identity)


class PolicyError(OptionError):
    """The policy does not allow an option."""


def check_policy(rules: Iterable[PolicyRule], priorities: Mapping[str, PriorityRule]) -> None:
    """Raises `ConfigError` for an option that does not exist and for a value that cannot be parsed."""
    for rule in rules:
        for name in (*rule.force, *rule.default, *rule.allow, *rule.refuse):
            if name not in BY_NAME:
                raise ConfigError(f"policy: there is no option {name!r}")
        for name, value in (*rule.force.items(), *rule.default.items()):
            try:
                parse_value(BY_NAME[name], value)
            except ValueError as error:
                raise ConfigError(f"policy: {name}: {value!r} {error}") from None
    for name, priority in priorities.items():
        if not (annotations := _priority_annotations(priority)):
            raise ConfigError(f"priorityClasses: {name} sets none of qos, priority and nice")
        try:
            parse_options(annotations)
        except OptionError as error:
            raise ConfigError(f"priorityClasses: {name}: {error}") from None


def matching_rule(rules: Iterable[PolicyRule], pod: WorkloadPod) -> PolicyRule | None:
    """The first rule that matches a pod."""
    account = pod.spec.service_account_name or "default"
    for rule in rules:
        if _matches_any(rule.namespaces, pod.metadata.namespace) and _matches_any(rule.service_accounts, account):
            return rule
    return None


def apply_policy(
    annotations: Mapping[str, str],
    pod: WorkloadPod,
    rules: Iterable[PolicyRule],
    priorities: Mapping[str, PriorityRule],
) -> dict[str, str]:
    """The options after the policy has been applied, as annotations. Raises `PolicyError`."""
    given = _annotations(option_values(annotations))
    from_priority = _priority_annotations(priorities.get(pod.spec.priority_class_name))
    rules = tuple(rules)
    if not rules:
        return {**from_priority, **given}
    namespace = pod.metadata.namespace
    rule = matching_rule(rules, pod) or PolicyRule()
    identity = [name for name in IDENTITY_OPTIONS if name not in rule.allow and name not in rule.force]
    for name in (*rule.refuse, *identity):
        if names.OPTION + name in given:
            raise PolicyError(f"the option {name} is not allowed in namespace {namespace}")
    merged = {**_annotations(rule.default), **from_priority, **given, **_annotations(rule.force)}
    for name, allowed in rule.allow.items():
        value = merged.get(names.OPTION + name)
        if value is not None and not _is_allowed(value.strip(), allowed):
            choices = ", ".join(allowed) or "none"
            raise PolicyError(
                f"{name} {value.strip()!r} is not allowed in namespace {namespace}; allowed values: {choices}"
            )
    return merged


def _is_allowed(value: str, patterns: Sequence[str]) -> bool:
    """Whether a value is listed literally, or each part of it matches a pattern: `gpu,admin` does not match `gpu*`."""
    parts = split_list(value)
    return value in patterns or (bool(parts) and all(_matches_any(patterns, part) for part in parts))


def split_list(value: str) -> list[str]:
    """The parts of a value that Slurm reads as a list: names are separated by commas, licences also by semicolons,
    features also by `&`, `|`, parentheses and brackets.
    """
    return [part.strip() for part in _SEPARATOR.split(value) if part.strip()]


def _priority_annotations(rule: PriorityRule | None) -> dict[str, str]:
    if rule is None:
        return {}
    options = {"qos": rule.qos or None, "priority": rule.priority, "nice": rule.nice}
    return _annotations({name: str(value) for name, value in options.items() if value is not None})


def _annotations(options: Mapping[str, str]) -> dict[str, str]:
    return {names.OPTION + name: value for name, value in options.items()}


def _matches_any(patterns: Iterable[str], value: str) -> bool:
    return any(fnmatchcase(value, pattern) for pattern in patterns)
