# SPDX-License-Identifier: Apache-2.0
"""What happens when something breaks: one table, from which docs/bridge/failures.md is printed and checked.

Each line has what happens on both sides and the tests that prove it on real daemons, or by a law over the pure
decision. `of` says which known way to fail it answers: the numbered lines of the failure matrix (6.n) and of the list
of defects (11.4.n) of other bridges; none of them may be left without an answer.
"""

from typing import NamedTuple

MATRIX, DEFECTS = 33, 18


class Line(NamedTuple):
    """One way to fail."""

    event: str
    slurm: str
    kubernetes: str
    proofs: tuple[str, ...]
    of: tuple[str, ...] = ()


KILLS = "test_a_bridge_killed_at_any_step_is_carried_on_by_the_next"
SIGHT = "test_a_slurm_out_of_sight_costs_no_pod"
SUCCESSOR = "test_a_member_that_fails_costs_nobody_else_and_its_successor_gets_a_job_of_its_own"

#: Parts of the page, each a table.
TABLE: dict[str, tuple[Line, ...]] = {
    "Pods end": (
        Line("pod succeeds or fails", "job ended; outcome, exit code and reason in accounting", "our hold is removed",
             ("test_the_end_of_a_pod_ends_its_job_with_the_truth_in_accounting",
              "test_the_fate_of_pods_is_the_worst_that_happened_to_any_of_them"), ("6.1",)),
        Line("the same with the completer", "COMPLETED 0:0, FAILED 3:0; CANCELLED if the pod was deleted",
             "our hold is removed", ("test_what_becomes_of_a_pod_becomes_of_its_job",), ("6.1",)),
        Line("the completer is away, silent or refuses", "CANCELLED, outcome in accounting", "nobody waits for it",
             ("test_what_cannot_be_ended_natively_is_cancelled",), ()),
        Line("one member of a gang ends", "job stays until all are gone", "siblings keep running",
             ("test_a_job_ends_only_when_every_pod_of_it_is_gone", SUCCESSOR), ("6.2",)),
        Line("pod deleted while running", "job kept until its containers are gone", "usual grace",
             ("test_a_deleted_pod_keeps_its_job_until_its_containers_are_gone",), ("6.3",)),
        Line("pod deleted while waiting", "job cancelled at once", "gone at once",
             ("test_a_pod_deleted_while_it_waits_takes_its_job_along",), ("6.4",)),
        Line("pod object removed by force, bridge down", "cancelled at the next start", "-",
             ("test_a_job_whose_pod_vanished_while_nobody_looked_is_cancelled",), ("6.5",)),
        Line("new pod under an old name", "old job cancelled, new job", "-",
             ("test_a_new_pod_under_an_old_name_gets_a_job_of_its_own",), ("6.5", "11.4.3")),
        Line("kubelet dead, pod deleted", "job ended after grace and `deadKubeletSeconds`", "let go, with an event",
             ("test_a_dead_kubelet_does_not_hold_its_job_for_ever",), ("6.6",)),
        Line("node object removed", "host drained, deleted when empty", "deleted pods let go",
             ("test_a_pod_of_a_removed_node_is_given_up", "test_a_host_leaves_with_its_node"), ()),
        Line("node removed under a running gang", "job stays with the other members; host leaves when it is over",
             "only the pod of that node is given up",
             ("test_a_node_deleted_under_a_running_gang_costs_only_its_own_pod",), ()),
        Line("a finished, deleted or foreign pod in a group", "does not count",
             "a latecomer to a running gang gets a job of its own size",
             ("test_finished_pods_do_not_make_a_gang_whole",
              "test_a_newcomer_to_a_running_gang_gets_a_job_of_its_own_size", SUCCESSOR), ("11.4.5", "11.4.12")),
        Line("a group of the same name in another namespace", "two jobs", "strangers",
             ("test_groups_of_the_same_name_elsewhere_are_strangers",), ("11.4.4",)),
        Line("batch job or JobSet of a running gang deleted", "job kept until the last container is gone",
             "pods have their grace; the same after a restart of the bridge",
             ("test_a_gang_keeps_its_job_when_its_root_goes_before_its_pods",
              "test_a_pod_with_the_job_of_a_gang_stays_in_it_when_its_root_is_gone"), ()),
        Line("pods of a running gang moved to another group", "job kept until the last of them has ended",
             "they run on",
             ("test_a_job_stays_until_the_last_pod_of_it_wherever_that_belongs_now",), ()),
        Line("a pod seen before the object that made it", "no job yet",
             "waits; says `GroupMissing` if that lasts", ("test_a_pod_waits_until_what_made_it_is_seen",), ()),
    ),
    "Jobs end": (
        Line("scancel of a running job", "node free at once",
             "pod deleted with the reason (also as DisruptionTarget) and an event; the next owner waits",
             ("test_a_cancelled_job_takes_its_pod_along_with_the_reason",
              "test_the_next_owner_of_a_whole_node_waits_until_it_is_empty"), ("6.7", "11.4.14")),
        Line("scancel of a waiting job", "CANCELLED", "pod stays and says so; never submitted behind your back",
             ("test_a_users_cancel_of_a_waiting_job_sticks",), ("6.8", "11.4.8")),
        Line("scancel of one component of a mixed gang", "the rest ends when its containers are gone",
             "the whole gang leaves", ("test_a_component_that_somebody_cancels_takes_the_whole_gang_along",), ()),
        Line("time limit", "TIMEOUT", "pod deleted with the reason",
             ("test_the_time_limit_sends_a_pod_away_with_its_reason",), ("6.9",)),
        Line("scancel or time limit of a batch job's pod", "CANCELLED, TIMEOUT",
             "the pod says `SlurmJobEnded`: with a podFailurePolicy the batch job gives up, and makes no other",
             ("test_a_batch_job_can_give_up_when_somebody_cancels_its_slurm_job",
              "test_the_time_limit_sends_a_pod_away_with_its_reason"), ("6.7", "6.9")),
        Line("preemption, by cancel or requeue", "PREEMPTED either way: external jobs are never requeued",
             "pod deleted with the reason; preemptor waits for the node",
             ("test_a_preempted_pod_leaves_and_the_other_waits_for_the_empty_node",
              "test_running_pods_of_an_ended_job_are_evicted_with_its_reason"), ("6.10", "6.11")),
        Line("suspended", "SUSPENDED; preemption by suspension does nothing to external jobs",
             "containers go on, unbound pods wait, the condition says so until it is resumed",
             ("test_a_suspended_job_keeps_its_pod_and_says_so_until_it_is_resumed",
              "test_an_unbound_pod_of_a_suspended_job_starts_when_it_is_resumed"), ("6.12",)),
        Line("preemption with a grace time", "the signal poisons the host: see there; use GraceTime=0",
             "the pod's own grace counts, from the end of its job on",
             ("test_a_poisoned_host_is_registered_anew_once_it_is_empty",), ("6.13",)),
        Line("job ends before its pods are bound", "-", "submitted again, unless somebody decided it",
             ("test_a_job_that_ended_before_its_pods_started_is_submitted_again",
              "test_a_job_that_failed_before_its_pod_was_bound_is_not_followed_there"), ("6.14", "11.4.7")),
        Line("waiting job ended by Slurm", "FAILED, NODE_FAIL: submitted again; DEADLINE: a decision",
             "submitted again, or the pod says so",
             ("test_a_job_that_ended_before_its_pods_started_is_submitted_again",
              "test_a_users_cancel_of_a_waiting_job_sticks"), ("6.15",)),
        Line("job purged or unknown while its pod waits", "-", "submitted again",
             ("test_a_label_that_names_a_forgotten_job_is_no_dead_end",), ("6.25", "11.4.10")),
        Line("slurmctld loses jobs of running pods (crash, restored state)",
             "a new job on the very nodes, at the highest priority",
             "pods keep running; where the node was given away they leave, at most `lostPodsEvicted` in ten minutes",
             ("test_running_pods_of_a_lost_job_get_a_new_one_on_their_nodes",
              "test_pods_whose_nodes_were_given_away_leave_a_few_at_a_time"), ("6.23",)),
        Line("the same for a mixed gang", "a job for each role on its nodes", "pods keep running",
             ("test_running_pods_of_a_lost_mixed_gang_get_a_job_for_each_role",
              "test_every_role_of_a_mixed_gang_gets_a_job_on_its_nodes"), ("6.23",)),
        Line("slurmctld refuses such nodes for another reason (drained, account gone, partition down)", "asked again",
             "pods keep running and say `LostJobNotReplaced`",
             ("test_a_pod_stays_while_its_node_is_refused_for_another_reason_than_other_work",), ("6.23",)),
        Line("the job of a pod is lost, and the group or options that made it are gone too", "-",
             "as above", ("test_pods_whose_wishes_are_not_known_any_more_stay",), ("6.23",)),
    ),
    "Nodes": (
        Line("Slurm node down", "NODE_FAIL", "pod deleted with the reason",
             ("test_a_node_that_fails_in_slurm_sends_its_pods_away",), ("6.16",)),
        Line("Kubernetes node not ready", "drained after `notReadySeconds`, undrained when it answers", "-",
             ("test_a_silent_node_is_drained_and_opened_again",), ("6.17",)),
        Line("cordon", "drained, undrained with it", "running pods stay",
             ("test_a_cordon_drains_and_its_end_undrains",), ("6.18",)),
        Line("cordon, resize or removal of a busy node", "one drain, never undone by another rule", "taint follows",
             ("test_a_node_that_changed_its_size_is_replaced_once_empty_and_not_undrained_meanwhile",
              "test_a_host_with_work_leaves_only_when_the_work_is_done"), ("11.4.15", "11.4.16")),
        Line("drained by an administrator", "never undone", "condition on the node",
             ("test_somebody_elses_drain_stays_and_shows_on_the_node",), ("6.19",)),
        Line("allocated node does not suit any more (taint, volume, size, host port)", "job given back",
             "pod says why, submitted again", ("test_a_node_that_does_not_suit_any_more_is_given_back",), ("6.20",)),
        Line("allocated node is cordoned or falls silent before its pods are bound", "job given back once drained",
             "pod waits and says `NodeNotReady`; starts there if the node answers again, else elsewhere",
             ("test_a_silent_node_gets_no_pod_until_it_answers",
              "test_a_cordoned_node_gets_no_pod_of_a_job_that_had_it"),
             ("6.17", "6.18", "6.20")),
        Line("host port taken on a shared node", "that host is left out", "never two pods with one port on a node",
             ("test_two_pods_with_one_host_port_never_share_a_node",
              "test_a_port_of_somebody_elses_pod_keeps_ours_away"), ()),
        Line("a node or a host port suits a waiting pod that did not before",
             "its job is told, and keeps its place", "starts there",
             ("test_a_waiting_job_is_told_of_a_node_that_suits_now",
              "test_a_waiting_job_is_told_of_a_port_that_is_free_again"), ()),
        Line("a volume or its claim is missing", "no job, or the job waits with its nodes",
             "pod says which; no pod of a gang starts before all volumes are there",
             ("test_a_claim_that_waits_for_its_pod_gets_a_local_volume_of_the_pods_node",
              "test_no_pod_of_a_gang_starts_before_all_have_their_volumes"), ()),
        Line("a granted device is still held by another claim", "job waits with its nodes",
             "pod says so, starts when the device is free",
             ("test_a_device_that_another_claim_holds_is_told_and_waited_for",), ()),
        Line("job ends before its pods are bound, devices claimed already", "-", "the devices are free again at once",
             ("test_a_job_that_ends_before_its_pods_start_frees_what_they_claimed",), ()),
        Line("the devices of a node change under running pods", "drained, registered anew once empty", "pods stay",
             ("test_a_node_whose_devices_change_is_registered_anew",), ()),
        Line("bridge killed at any moment, scancels, cordons, deletions, at random", "no leaked job, no second job",
             "no device or core held twice, no leaked claim", ("test_no_device_or_core_is_held_twice",), ()),
        Line("two members on one node by mistake", "-", "no place is given twice",
             ("test_no_place_is_given_twice",), ("11.4.6",)),
        Line("somebody signals an external job (the poisoned host)", "host drained, deleted and created once empty",
             "pod works on", ("test_a_poisoned_host_is_registered_anew_once_it_is_empty",), ()),
    ),
    "Daemons and networks": (
        Line("slurmrestd dead, unreachable or hanging", "-",
             "nothing is deleted, nothing let go; goes on by itself",
             ("test_a_slurmrestd_that_dies_costs_no_pod_and_what_waited_goes_on", f"{SIGHT}[hang]"), ("6.21",)),
        Line("slurmdbd or its database dead", "schedules on; outcomes are added when it is back",
             "pods come and go; nodes with partitions of their own are registered when it is back",
             ("test_without_accounting_pods_come_and_go_and_their_outcome_is_told_later",), ()),
        Line("a proxy answers 404", "-", "unknown is not gone", (f"{SIGHT}[404]",), ("6.22", "11.4.9")),
        Line("token ends or is refused", "-", "as above; another token is read without a restart",
             ("test_a_token_that_ends_stops_the_bridge_only_until_there_is_another", f"{SIGHT}[401]"), ("6.26",)),
        Line("answer to a submission lost", "one job, found by its signature", "-",
             ("test_a_submission_nobody_heard_of_is_adopted_and_not_repeated",), ("11.4.11",)),
        Line("slurmctld restarts", "jobs survive", "nothing happens",
             ("test_a_slurmctld_restart_costs_no_pod",), ()),
        Line("slurmctld crashes and forgets young jobs", "-", "submitted again, or a new job for pods that run",
             ("test_after_a_crash_of_slurmctld_every_pod_has_a_live_job_again",), ("6.23",)),
        Line("a host is deleted, then slurmctld restarts", "jobs survive: hosts are excluded, never required", "-",
             ("test_a_host_deleted_behind_a_waiting_job_kills_nothing",), ("6.24",)),
        Line("API server restarts", "-", "what happened meanwhile is carried out when it is back",
             ("test_an_api_server_that_restarts_is_met_again",), ()),
        Line("bridge killed before or after any step (submit, label, claim, bind, end, farewell)",
             "one job, never two", "the next bridge carries on", (KILLS,), ("6.28", "6.29", "11.4.11")),
        Line("another replica takes over", "nothing submitted twice", "-",
             ("test_another_replica_takes_over_and_submits_nothing_twice",), ("6.28",)),
        Line("the leading replica is killed", "another adopts every job", "waiting pods start",
             ("test_another_replica_takes_over_when_the_leader_is_gone",), ("6.28",)),
        Line("bridge down while pods end", "jobs end at the next start", "held until then",
             (KILLS, "test_a_job_whose_pod_vanished_while_nobody_looked_is_cancelled"), ("6.29",)),
        Line("admission down", "jobs of pods that end are ended",
             "new pods of ours cannot be made; those that are there go on, nobody else notices",
             ("test_the_job_of_a_pod_is_written_by_the_bridge_alone_and_without_admission_it_goes_on",), ("6.27",)),
    ),
    "Mistakes": (
        Line("partition, account or resource unknown", "refused",
             "pod says what to change, tried again every minute and on change",
             ("test_a_refused_job_says_what_to_change",), ("6.30",)),
        Line("can never fit", "refused", "pod says so", ("test_nodes_that_do_not_suit_are_left_out",), ("6.31",)),
        Line("an option that cannot be used", "not asked", "refused at admission; told on the pod until it is mended",
             ("test_an_option_that_cannot_be_used_is_told_and_mended", "test_options_are_checked_on_owners_too"),
             ("11.4.18",)),
        Line("a demand that Slurm cannot honour (pod affinity, topology spread)", "not asked",
             "refused at admission; told on the pod",
             ("test_what_slurm_cannot_honour_or_would_pose_as_another_is_refused",
              "test_a_pod_that_demands_what_slurm_cannot_give_says_so_and_gets_no_job"), ()),
        Line("an option above one's rights (gres, partition, user)", "not asked",
             "bounded, forced or refused by `policy`",
             ("test_policy_refuses_what_is_not_allowed", "test_policy_has_the_last_word"), ("11.4.17",)),
        Line("fractions of CPU and memory", "rounded up, never down", "the kubelet admits what Slurm reserved",
             ("test_what_pods_ask_for_reaches_slurm_rounded_up",), ("11.4.13",)),
    ),
    "Others": (
        Line("two bridges on one Slurm", "each its own jobs and hosts", "-",
             ("test_two_bridges_on_one_slurm_leave_each_other_alone",), ("6.32", "11.4.2")),
        Line("two clusters with the same names on one Slurm", "each its own jobs and hosts",
             "a node whose name the other has in Slurm says `HostTaken` and gets no pods",
             ("test_two_clusters_with_the_same_names_on_one_slurm_leave_each_other_alone",), ("6.32", "11.4.2")),
        Line("foreign job with any comment", "never touched", "-",
             ("test_foreign_jobs_are_never_touched",), ("6.33", "11.4.1")),
        Line("job id used again by somebody else", "never touched", "our pod is submitted again",
             ("test_an_id_that_means_somebody_elses_job_is_dropped",), ("11.4.10",)),
        Line("somebody writes another's job on a pod", "never touched", "refused at admission; not believed without it",
             ("test_what_ties_a_pod_to_its_job_can_only_be_taken_off_and_only_before_it_runs",
              "test_a_placed_pod_knows_its_job_unless_the_job_names_others",
              "test_an_id_that_means_somebody_elses_job_is_dropped[name]"), ("11.4.1",)),
        Line("somebody rewrites a job's admin comment", "-",
             "placed pods know their job by its SLUID: nothing happens", ("test_a_rewritten_comment_costs_no_pod",)),
        Line("many pods wait", "under four requests a second in all, no list of jobs", "-",
             ("test_waiting_costs_next_to_nothing",), ()),
    ),
}  # fmt: skip


def lines() -> list[Line]:
    """Every line."""
    return [line for part in TABLE.values() for line in part]


def demanded() -> set[str]:
    """Every known way to fail."""
    return {f"6.{number}" for number in range(1, MATRIX + 1)} | {f"11.4.{number}" for number in range(1, DEFECTS + 1)}


def document() -> str:
    """The tables as Markdown."""
    rows: list[str] = []
    for title, part in TABLE.items():
        rows += [f"## {title}", "", "| event | Slurm side | Kubernetes side | proof |", "| --- | --- | --- | --- |"]
        for line in part:
            proofs = ", ".join(f"`{proof}`" for proof in line.proofs)
            rows.append(f"| {line.event} | {line.slurm} | {line.kubernetes} | {proofs} |")
        rows.append("")
    return "\n".join(rows)


if __name__ == "__main__":
    print(document(), end="")
