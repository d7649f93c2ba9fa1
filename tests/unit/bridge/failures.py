# SPDX-License-Identifier: Apache-2.0
"""What happens when something fails: the table from which docs/bridge/failures.md is generated.

Each row has the effect in Slurm and in Kubernetes, and the tests that prove it, on real daemons or on the pure
decision. `known` lists the known failures that a row covers: the rows of the failure matrix (6.n) and of the list of
defects of other bridges (11.4.n). A test checks that the cited tests exist and that every known failure is covered.

`python -m tests.unit.bridge.failures docs/bridge/failures.md` rewrites the page.
"""

import sys
from pathlib import Path
from typing import NamedTuple

from slinky.bridge.reference import BEGIN, END

MATRIX_ROWS, DEFECTS = 33, 18


class Failure(NamedTuple):
    """One failure, its effects, and the tests that prove them."""

    event: str
    slurm: str
    kubernetes: str
    tests: tuple[str, ...]
    known: tuple[str, ...] = ()


KILLED = "test_a_bridge_that_crashes_at_any_write_is_continued_by_the_next"
UNREACHABLE = "test_an_unreachable_slurm_costs_no_pod"
PREEMPTED = "test_a_preempted_pod_is_evicted_and_the_other_waits_for_the_empty_node"
SUCCESSOR = "test_a_failed_gang_member_costs_no_other_and_its_successor_gets_its_own_job"

#: The tables of the page, by title.
TABLE: dict[str, tuple[Failure, ...]] = {
    "Pods end": (
        Failure(
            "A pod succeeds or fails.",
            "The job ends; outcome, exit code and reason are in accounting.",
            "The finalizer is removed; that of one pod of the job when accounting has the outcome, after at most 30 s.",
            (
                "test_the_end_of_a_pod_ends_its_job_and_records_the_outcome",
                "test_a_finished_pod_keeps_its_finalizer_until_its_outcome_is_recorded_unless_it_is_deleted",
                "test_the_outcome_of_pods_is_the_worst_that_happened_to_any_of_them",
            ),
            ("6.1",),
        ),
        Failure(
            "The same with the completer.",
            "COMPLETED 0:0 or FAILED 3:0; CANCELLED if the pod was deleted.",
            "The finalizer is removed.",
            ("test_a_job_ends_with_the_outcome_of_its_pod",),
            ("6.1",),
        ),
        Failure(
            "The completer is missing, does not answer, or rejects the request.",
            "CANCELLED, with the outcome in accounting.",
            "The finalizer is removed without delay.",
            (
                "test_a_job_that_the_completer_cannot_end_is_cancelled",
                "test_without_the_completer_the_outcome_is_in_accounting",
            ),
        ),
        Failure(
            "One pod of a gang ends.",
            "The job stays until all pods have ended.",
            "The other pods keep running.",
            ("test_a_job_ends_only_when_every_pod_of_it_is_gone", SUCCESSOR),
            ("6.2",),
        ),
        Failure(
            "A running pod is deleted.",
            "The job stays until the containers have stopped.",
            "The grace period applies as usual.",
            ("test_a_deleted_pod_keeps_its_job_until_its_containers_are_gone",),
            ("6.3",),
        ),
        Failure(
            "A waiting pod is deleted.",
            "The job is cancelled at once.",
            "The pod is removed at once.",
            ("test_deleting_a_waiting_pod_cancels_its_job",),
            ("6.4",),
        ),
        Failure(
            "A pod object is removed by force while the bridge is down.",
            "The job is cancelled when the bridge starts.",
            "-",
            ("test_a_job_whose_pod_vanished_while_the_bridge_was_down_is_cancelled",),
            ("6.5",),
        ),
        Failure(
            "A new pod has the name of an old one.",
            "The old job is cancelled, and a new one is submitted.",
            "-",
            ("test_a_new_pod_with_an_old_name_gets_its_own_job",),
            ("6.5", "11.4.3"),
        ),
        Failure(
            "A pod is deleted whose kubelet does not answer.",
            "The job ends after the grace period and `deadKubeletSeconds`.",
            "The finalizer is removed, with an event `PodGivenUp`.",
            ("test_a_dead_kubelet_does_not_hold_its_job_for_ever",),
            ("6.6",),
        ),
        Failure(
            "A node object is removed.",
            "The host is drained, and removed once it is idle.",
            "The finalizers of its deleted pods are removed.",
            ("test_a_deleted_pod_of_a_removed_node_is_released", "test_a_host_is_deleted_with_its_node"),
        ),
        Failure(
            "A node of a running gang is removed.",
            "The job continues with the other pods; the host is removed after the job.",
            "Only the pod of that node ends.",
            ("test_a_node_deleted_below_a_running_gang_costs_only_its_own_pod",),
        ),
        Failure(
            "A group contains a finished, deleted or foreign pod.",
            "That pod does not count.",
            "A pod that is added to a running gang gets a job of its own size.",
            (
                "test_finished_pods_do_not_complete_a_gang",
                "test_a_newcomer_to_a_running_gang_gets_a_job_of_its_own_size",
                SUCCESSOR,
            ),
            ("11.4.5", "11.4.12"),
        ),
        Failure(
            "Two namespaces have a group of the same name.",
            "Each group has its own job.",
            "The groups are independent.",
            ("test_groups_of_the_same_name_in_other_namespaces_are_separate",),
            ("11.4.4",),
        ),
        Failure(
            "The batch job or JobSet of a running gang is deleted.",
            "The job stays until the last container has stopped.",
            "The pods have their grace period, also across a restart of the bridge.",
            (
                "test_a_gang_keeps_its_job_when_its_batch_job_is_deleted_before_its_pods",
                "test_a_pod_with_the_job_of_a_gang_stays_in_it_when_its_root_is_gone",
            ),
        ),
        Failure(
            "Pods of a running gang are moved to another group.",
            "The job stays until the last of them has ended.",
            "The pods keep running.",
            ("test_a_job_stays_until_its_last_pod_even_if_that_left_the_gang",),
        ),
        Failure(
            "A pod is visible before the object that created it.",
            "No job is submitted yet.",
            "The pod waits, with the reason `GroupMissing` if that lasts.",
            ("test_a_pod_waits_until_the_watch_has_its_owner",),
        ),
    ),
    "Jobs end": (
        Failure(
            "`scancel` of a running job.",
            "The node is free at once.",
            "The pod is deleted with the reason (also as DisruptionTarget) and an event; pods of the next job on the "
            "node wait until it has stopped.",
            (
                "test_cancelling_a_job_evicts_its_pod_with_the_reason",
                "test_an_exclusive_pod_waits_until_its_node_is_empty",
            ),
            ("6.7", "11.4.14"),
        ),
        Failure(
            "`scancel` of a pending job.",
            "CANCELLED.",
            "The pod stays with the reason `SlurmJobCancelled`, and is not submitted again.",
            ("test_a_users_cancel_of_a_waiting_job_sticks",),
            ("6.8", "11.4.8"),
        ),
        Failure(
            "`scancel` of one component of a mixed gang.",
            "The other components end when their containers have stopped.",
            "All pods of the gang are deleted.",
            ("test_a_cancelled_component_ends_the_whole_gang",),
        ),
        Failure(
            "The time limit is reached.",
            "TIMEOUT.",
            "The pod is deleted with the reason.",
            ("test_the_time_limit_evicts_a_pod_with_the_reason",),
            ("6.9",),
        ),
        Failure(
            "`scancel` or the time limit ends the pod of a batch job.",
            "CANCELLED or TIMEOUT.",
            "The pod has the condition `SlurmJobEnded`; with a podFailurePolicy for it, the batch job fails and "
            "creates no other pod.",
            (
                "test_a_batch_job_can_fail_when_its_slurm_job_is_cancelled",
                "test_the_time_limit_evicts_a_pod_with_the_reason",
            ),
            ("6.7", "6.9"),
        ),
        Failure(
            "Preemption by cancel or requeue.",
            "PREEMPTED in both cases: Slurm never requeues external jobs.",
            "The pod is deleted with the reason; pods of the preempting job wait for the node.",
            (
                f"{PREEMPTED}[cancelled]",
                f"{PREEMPTED}[requeued]",
                "test_running_pods_of_an_ended_job_are_evicted_with_its_reason",
            ),
            ("6.10", "6.11"),
        ),
        Failure(
            "A job is suspended.",
            "SUSPENDED; preemption by suspension does nothing to external jobs.",
            "Running containers continue, pods without a node wait; the reason is `Suspended` until it is resumed.",
            (
                "test_a_suspended_job_keeps_its_pod_and_the_pod_shows_it",
                "test_preemption_by_suspension_leaves_the_pod_running",
                "test_an_unbound_pod_of_a_suspended_job_starts_when_it_is_resumed",
            ),
            ("6.12",),
        ),
        Failure(
            "Preemption with a grace time.",
            "slurmctld marks the host as not responding (see below); use GraceTime=0.",
            "The grace period of the pod applies, from the end of the job on.",
            (
                "test_a_pod_that_is_preempted_with_a_grace_time_ends_and_its_host_serves_the_other",
                "test_a_host_that_does_not_respond_is_registered_again_once_it_is_empty",
            ),
            ("6.13",),
        ),
        Failure(
            "A job ends before its pods are bound.",
            "-",
            "The pods are submitted again, unless the end was deliberate.",
            (
                "test_a_job_that_ended_before_its_pods_started_is_submitted_again",
                "test_a_pod_is_not_bound_to_the_node_of_a_failed_job",
            ),
            ("6.14", "11.4.7"),
        ),
        Failure(
            "Slurm ends a pending job.",
            "FAILED or NODE_FAIL; DEADLINE counts as deliberate.",
            "The pods are submitted again; after DEADLINE they stay with the reason.",
            (
                "test_a_job_that_ended_before_its_pods_started_is_submitted_again",
                "test_a_users_cancel_of_a_waiting_job_sticks",
            ),
            ("6.15",),
        ),
        Failure(
            "The job of a waiting pod is unknown to slurmctld and to accounting.",
            "-",
            "The pod is submitted again.",
            ("test_a_pod_whose_label_names_a_purged_job_gets_a_new_job",),
            ("6.25", "11.4.10"),
        ),
        Failure(
            "The job of a running pod ends while the bridge is down, and slurmctld purges it (`MinJobAge`).",
            "-",
            "Accounting says how the job ended; the pod is treated as if the bridge had been there.",
            ("test_the_end_of_a_purged_job_is_read_from_accounting",),
            ("6.25",),
        ),
        Failure(
            "slurmctld loses jobs of running pods (crash, restored state).",
            "A new job is submitted on the same nodes with the highest priority.",
            "The pods keep running; pods whose node was reallocated are evicted, at most `lostPodsEvicted` in ten "
            "minutes.",
            (
                "test_running_pods_of_a_lost_job_get_a_new_one_on_their_nodes",
                "test_evictions_of_pods_whose_nodes_have_other_jobs_are_limited",
            ),
            ("6.23",),
        ),
        Failure(
            "The same for a mixed gang.",
            "Each role gets a new job on its nodes.",
            "The pods keep running.",
            (
                "test_running_pods_of_a_lost_mixed_gang_get_a_job_for_each_role",
                "test_every_role_of_a_mixed_gang_gets_a_job_on_its_nodes",
            ),
            ("6.23",),
        ),
        Failure(
            "slurmctld rejects the new job for another reason (host drained, account missing, partition down).",
            "The submission is repeated.",
            "The pods keep running with the reason `LostJobNotReplaced`.",
            ("test_a_pod_stays_while_its_node_is_refused_without_another_job_on_it",),
            ("6.23",),
        ),
        Failure(
            "The job of running pods is lost, and their group or options no longer exist.",
            "-",
            "The pods keep running with the reason `LostJobNotReplaced`.",
            ("test_pods_whose_requests_are_no_longer_known_keep_running",),
            ("6.23",),
        ),
    ),
    "Nodes": (
        Failure(
            "A Slurm node goes down.",
            "NODE_FAIL.",
            "The pod is deleted with the reason.",
            ("test_pods_of_a_host_that_fails_in_slurm_are_evicted",),
            ("6.16",),
        ),
        Failure(
            "A Kubernetes node is not ready.",
            "The host is drained after `notReadySeconds`, and undrained when the node is ready.",
            "-",
            ("test_a_node_that_is_not_ready_is_drained_until_it_is_ready",),
            ("6.17",),
        ),
        Failure(
            "A pod on a ready node does not stop after Slurm has ended its job (a process in state D, a hung file "
            "system).",
            "The host is drained after the grace period and `stuckPodSeconds`, with pod, job and time in the reason, "
            "and undrained when the pod is gone.",
            "The node has the condition `SlurmAvailable=False`. Pods whose job already has the host get another one.",
            (
                "test_a_host_is_drained_while_a_pod_does_not_stop_after_its_job",
                "test_a_host_is_drained_with_pod_job_and_time_if_a_pod_does_not_stop",
                "test_a_job_that_waits_for_a_stuck_pod_gets_another_host",
            ),
        ),
        Failure(
            "Slurm ends the job of pods on a host that also runs native jobs.",
            "The host is drained until the containers have stopped. A job that starts before the bridge hears of the "
            "end is not prevented.",
            "The pods are evicted.",
            (
                "test_native_jobs_wait_until_the_pods_of_an_ended_job_have_stopped",
                "test_a_native_job_starts_only_when_the_containers_of_a_cancelled_job_have_stopped",
                "test_only_a_host_with_a_slurmd_is_drained_while_pods_stop_in_time",
            ),
        ),
        Failure(
            "Two nodes claim the name of one host.",
            "The host belongs to the node for which it was registered, then to the node of that name, then to the "
            "older node.",
            "The other node gets no pods; it has the condition `SlurmAvailable=False` and an event `HostNameClaimed`.",
            (
                "test_a_node_that_claims_the_host_of_another_gets_no_pods",
                "test_a_node_cannot_take_the_name_of_another_node",
            ),
        ),
        Failure(
            "A node is labelled as external and also runs a worker of the same Slurm.",
            "The external host is drained and removed, so that Slurm counts the node once. It is registered again "
            "when the worker is gone.",
            "The node has the condition `SlurmAvailable=False` and an event `WorkerOnNode`.",
            ("test_a_node_with_a_worker_of_the_same_slurm_is_not_counted_twice",),
        ),
        Failure(
            "Every node is labelled, and slurmctld, the operator or the bridge do not tolerate the taint.",
            "-",
            "The nodes where they run, and the last node where they can run, get no taint; they have the reason "
            "`OpenUntainted`.",
            (
                "test_the_taint_never_evicts_slurms_own_pods",
                "test_the_taint_never_takes_the_last_node_of_slurms_own_pods",
            ),
        ),
        Failure(
            "Two bridges use one node with a slurmd.",
            "A drain because of pods names its bridge, and only that bridge ends it.",
            "The node keeps the taint of the bridge that was first; pods of both tolerate it.",
            (
                "test_the_taint_of_another_bridge_is_left_in_place",
                "test_a_drain_by_an_administrator_or_another_bridge_is_left_alone",
            ),
        ),
        Failure(
            "A node is cordoned.",
            "The host is drained, and undrained when the cordon ends.",
            "Running pods stay.",
            ("test_a_cordon_drains_and_its_end_undrains",),
            ("6.18",),
        ),
        Failure(
            "A busy node is cordoned, resized or removed.",
            "One drain, which no other rule undoes.",
            "The taint follows.",
            (
                "test_a_node_that_changed_its_size_is_replaced_once_empty_and_not_undrained_meanwhile",
                "test_a_host_with_jobs_is_deleted_only_when_they_have_ended",
            ),
            ("11.4.15", "11.4.16"),
        ),
        Failure(
            "An administrator drains a host.",
            "The bridge never undoes the drain.",
            "The node has the condition `SlurmAvailable=False`.",
            ("test_an_administrators_drain_stays_and_shows_on_the_node",),
            ("6.19",),
        ),
        Failure(
            "An allocated node no longer suits its pods (taint, volume, size, host port).",
            "The job is cancelled.",
            "The pods get the reason `NodeUnsuitable` and are submitted again.",
            ("test_a_node_that_became_infeasible_is_given_back",),
            ("6.20",),
        ),
        Failure(
            "An allocated node is cordoned or not ready before its pods are bound.",
            "The job is cancelled once the host is drained.",
            "The pods wait with the reason `NodeNotReady`; they start there if the node recovers, otherwise elsewhere.",
            (
                "test_a_node_that_is_not_ready_gets_no_pod",
                "test_a_cordoned_node_gets_no_pod_even_if_its_job_runs_there",
            ),
            ("6.17", "6.18", "6.20"),
        ),
        Failure(
            "A host port is in use on a shared node.",
            "The host is excluded.",
            "Two pods with the same host port never share a node.",
            (
                "test_two_pods_with_one_host_port_never_share_a_node",
                "test_a_host_port_of_a_foreign_pod_is_respected",
            ),
        ),
        Failure(
            "Pods of other schedulers (DaemonSets, Slurm workers) leave too little room on a node.",
            "The host is excluded. If too few hosts are left, no job is submitted.",
            "The pod gets another node, or waits with the reason `InsufficientNodeResources`; no pod of a gang starts "
            "before all have room.",
            (
                "test_a_pod_goes_to_the_node_that_has_room_beside_foreign_pods",
                "test_a_pod_waits_until_the_foreign_pod_on_the_only_node_has_gone",
                "test_every_resource_of_the_kubelet_counts",
                "test_no_pod_of_a_gang_starts_while_a_foreign_pod_occupies_one_of_its_nodes",
                "test_a_pod_of_a_whole_node_waits_beside_a_daemon_set",
            ),
        ),
        Failure(
            "A pod of another scheduler takes the room of an allocated node before the pods are bound.",
            "The job is cancelled, and the host is excluded until the pods fit there.",
            "No pod is bound; the pods get the reason `InsufficientNodeResources` and are submitted again.",
            (
                "test_a_job_is_given_back_if_a_foreign_pod_comes_before_the_binding",
                "test_the_job_of_a_gang_is_given_back_whole",
                "test_pods_of_other_jobs_and_foreign_pods_together_fill_a_shared_node",
            ),
        ),
        Failure(
            "A kubelet rejects a pod (OutOfcpu, OutOfmemory, OutOfpods and so on).",
            "The job ends, and the host is excluded for such pods for 30 s, and longer after each repetition.",
            "The pod has the reason `KubeletRejected` with the message of the kubelet; a new pod gets another node.",
            ("test_a_node_whose_kubelet_rejected_a_pod_is_not_used_again_at_once",),
        ),
        Failure(
            "A node, its room or a host port becomes suitable for a waiting pod.",
            "The pending job is updated, and keeps its position.",
            "The pod starts there.",
            (
                "test_a_pending_job_may_use_a_host_whose_room_is_free_again",
                "test_a_waiting_job_may_use_a_node_that_became_feasible",
                "test_a_waiting_job_may_use_a_host_whose_port_is_free_again",
            ),
        ),
        Failure(
            "A volume or its claim is missing.",
            "No job is submitted, or the job keeps its nodes and waits.",
            "The pod names the volume (`VolumePending`); no pod of a gang starts before all volumes exist.",
            (
                "test_a_claim_that_waits_for_its_pod_gets_a_local_volume_of_the_pods_node",
                "test_no_pod_of_a_gang_starts_before_all_have_their_volumes",
            ),
        ),
        Failure(
            "Another claim still uses an allocated device.",
            "The job keeps its nodes and waits.",
            "The pod has the reason `DevicesHeld`, and starts when the device is free.",
            ("test_a_pod_waits_for_a_device_of_another_claim_and_shows_it",),
        ),
        Failure(
            "A job ends before its pods are bound, after their devices were claimed.",
            "-",
            "The devices are free at once.",
            ("test_a_job_that_ends_before_its_pods_start_frees_their_devices",),
        ),
        Failure(
            "gres.conf of a node with a slurmd lists more devices than the driver offers, or devices without index.",
            "Jobs that need more devices than the node has do not get the host.",
            "The node has an event `DevicesDiffer`; pods use the devices that both have.",
            (
                "test_pods_use_the_devices_that_gres_conf_and_the_driver_both_have",
                "test_a_device_that_the_node_does_not_have_is_not_allocated",
                "test_a_host_that_only_counts_its_devices_is_not_used",
                "test_a_host_with_a_slurmd_provides_at_most_what_its_drivers_offer",
                "test_a_whole_node_job_uses_the_devices_that_the_node_has",
                "test_no_index_stands_for_two_devices",
            ),
        ),
        Failure(
            "A claim requests more devices than a claim can have.",
            "No job is submitted.",
            "The pod has the reason `InvalidOption` with the sum and the limit.",
            (
                "test_more_devices_than_a_claim_can_have_are_refused_before_submission",
                "test_more_devices_in_sum_than_a_claim_can_have_are_refused_on_the_pod",
            ),
        ),
        Failure(
            "The selector of a claim is expensive to evaluate.",
            "Beyond the limits no job is submitted.",
            "Other pods do not wait for it; beyond the limits the pod has the reason `InvalidOption`.",
            (
                "test_the_event_loop_runs_while_an_expensive_selector_is_evaluated",
                "test_a_usual_selector_does_not_wait_for_an_expensive_one",
                "test_a_selector_beyond_the_limits_is_refused_on_the_pod",
            ),
        ),
        Failure(
            "The API server answers a request for a claim late.",
            "-",
            "Only pods of the same node wait.",
            ("test_a_slow_request_delays_only_the_pods_of_its_node",),
        ),
        Failure(
            "The devices of a node change while pods run.",
            "The host is drained, and registered again once it is idle.",
            "The pods stay.",
            ("test_a_node_whose_devices_change_is_registered_again",),
        ),
        Failure(
            "The bridge is killed at random moments, together with cancellations, cordons, deletions, and faults of "
            "slurmctld, slurmrestd, the API server and nodes.",
            "No job is left without pods.",
            "No device or core is used twice; no pod is left without its job, and no claim or finalizer is left.",
            ("test_no_device_or_core_is_held_twice",),
        ),
        Failure(
            "Two pods could be assigned to the same slot of a node.",
            "-",
            "No slot is assigned twice.",
            ("test_no_slot_is_assigned_twice", "test_an_assignment_from_a_stale_watch_is_the_same", KILLED),
            ("11.4.6",),
        ),
        Failure(
            "An external job receives a signal, and slurmctld marks the host as not responding.",
            "The host is drained, and registered again once it is idle.",
            "The pod keeps running.",
            ("test_a_host_that_does_not_respond_is_registered_again_once_it_is_empty",),
        ),
    ),
    "Daemons and networks": (
        Failure(
            "slurmrestd is down, unreachable or does not answer.",
            "-",
            "No pod is deleted and no finalizer removed; the bridge continues when slurmrestd is back.",
            ("test_a_restart_of_slurmrestd_costs_no_pod_and_waiting_pods_continue", f"{UNREACHABLE}[hang]"),
            ("6.21",),
        ),
        Failure(
            "The bridge is restarted before accounting has the outcome of pods.",
            "The next bridge records it, on the record with the SLUID of the job.",
            "One pod of the job keeps its finalizer until then, unless it is deleted.",
            (
                "test_a_restarted_bridge_records_the_outcome_of_pods_that_ended_before",
                "test_one_pod_of_a_gang_waits_for_accounting_unless_it_is_deleted",
                "test_an_outcome_is_never_written_to_the_record_of_another_job_with_the_id",
            ),
        ),
        Failure(
            "slurmdbd or its database is down.",
            "Scheduling continues; outcomes are recorded when slurmdbd is back.",
            "Pods start and end; nodes with partitions of their own are registered when slurmdbd is back.",
            (
                "test_without_accounting_pods_run_and_their_outcome_is_recorded_later",
                "test_pods_do_not_wait_for_accounting_for_ever",
            ),
        ),
        Failure(
            "Many jobs end at once as NODE_FAIL, BOOT_FAIL or FAILED.",
            "-",
            "Running pods of at most `failedJobsEvicted` jobs, or of a quarter of all jobs, are evicted in ten "
            "minutes; the others keep running with the reason EvictionLimited.",
            (
                "test_pods_of_many_failed_jobs_are_evicted_within_a_limit",
                "test_many_failed_jobs_are_evicted_slowly_and_cancelled_ones_at_once",
                "test_failed_jobs_are_limited_by_number_and_by_share",
            ),
        ),
        Failure(
            "A host does not suit the pods again and again, for example because gres.conf and the driver differ.",
            "The job is ended, and the next jobs of the workload exclude the host, longer each time, until its node, "
            "devices, free host ports or GRES change.",
            "The pods wait for other nodes with the reason NodeUnsuitable.",
            (
                "test_a_host_that_did_not_suit_reconciles_its_workload_when_it_changes",
                "test_a_host_that_does_not_suit_is_given_back_once_and_excluded_from_the_next_job",
                "test_a_job_that_is_given_back_again_and_again_slows_down",
            ),
        ),
        Failure(
            "Slurm rejects the jobs of many pods.",
            "One record for each request of a namespace, after one minute up to half an hour; none for a job that can "
            "never fit.",
            "Reason SlurmRefused; many different rejected jobs delay the namespace (SubmissionsLimited).",
            (
                "test_pods_that_request_the_same_learn_from_one_rejection",
                "test_a_pod_that_no_node_can_ever_run_leaves_no_record_in_slurm",
                "test_pods_on_a_cluster_that_others_use_leave_at_most_one_failed_record",
                "test_a_namespace_with_many_rejections_waits",
            ),
        ),
        Failure(
            "A submission is cut off before its answer: by a deadline, a stop or a lost lease.",
            "Slurm is searched for the job before the next submission; there is one job.",
            "The pod waits until then.",
            ("test_slurm_is_searched_after_a_submission_that_was_cancelled",),
        ),
        Failure(
            "slurmctld is so slow that the state of a job is out of date.",
            "Nothing is cancelled or submitted.",
            "The pods are left alone and looked at again after seconds.",
            ("test_a_job_that_is_not_known_is_left_alone_and_looked_at_again",),
        ),
        Failure(
            "A proxy answers 404.",
            "-",
            "Unknown does not mean gone: nothing is done.",
            (f"{UNREACHABLE}[404]",),
            ("6.22", "11.4.9"),
        ),
        Failure(
            "The token expires or is rejected.",
            "-",
            "Nothing is done until there is another token, which is read without a restart.",
            ("test_an_expired_token_stops_the_bridge_only_until_it_is_replaced", f"{UNREACHABLE}[401]"),
            ("6.26",),
        ),
        Failure(
            "The response to a submission is lost.",
            "There is one job, which the bridge finds by its signature.",
            "-",
            ("test_a_submission_whose_response_is_lost_is_adopted_and_not_repeated",),
            ("11.4.11",),
        ),
        Failure(
            "slurmctld restarts.",
            "The jobs survive.",
            "Nothing changes.",
            ("test_a_slurmctld_restart_costs_no_pod",),
        ),
        Failure(
            "slurmctld crashes and forgets recent jobs.",
            "-",
            "Waiting pods are submitted again, and running pods get a new job.",
            ("test_after_a_crash_of_slurmctld_every_pod_has_a_live_job_again",),
            ("6.23",),
        ),
        Failure(
            "slurmctld crashes and forgets the end of jobs, so that they run again.",
            "The bridge finds and ends them within a minute.",
            "Pods that were released keep their outcome.",
            (
                "test_jobs_whose_end_slurmctld_has_lost_are_ended_again",
                "test_a_job_whose_end_slurmctld_has_lost_is_registered_again",
            ),
        ),
        Failure(
            "slurmrestd carries out a submission after the bridge has given it up, or after another replica leads.",
            "The bridge finds the second job within a minute and ends it.",
            "The pod keeps its job.",
            (
                "test_a_submission_that_is_carried_out_late_is_ended",
                "test_a_search_repeats_after_one_submit_deadline_and_costs_two_calls_a_minute",
            ),
        ),
        Failure(
            "Slurm has many jobs of other users.",
            "Each of them is read once; the full list of jobs is never read.",
            "-",
            (
                "test_a_large_slurm_is_read_in_batches_that_survive_a_failure",
                "test_concurrent_callers_share_one_search_that_begins_after_their_call",
                "test_a_search_reads_no_job_twice",
            ),
        ),
        Failure(
            "A host is removed, then slurmctld restarts.",
            "The jobs survive: hosts are excluded, never required.",
            "-",
            ("test_deleting_a_host_that_a_waiting_job_excludes_costs_no_pod",),
            ("6.24",),
        ),
        Failure(
            "The API server restarts.",
            "-",
            "Everything that happened in the meantime is handled when it is back.",
            ("test_the_bridge_continues_after_a_restart_of_the_api_server",),
        ),
        Failure(
            "The bridge is killed before or after any step (submit, label, claim, bind, end, finalizer).",
            "There is one job, never two.",
            "The next bridge continues.",
            (KILLED,),
            ("6.28", "6.29", "11.4.11"),
        ),
        Failure(
            "Another replica becomes the leader.",
            "Nothing is submitted twice.",
            "-",
            ("test_another_replica_takes_over_and_submits_nothing_twice",),
            ("6.28",),
        ),
        Failure(
            "The leader is killed.",
            "Another replica adopts every job.",
            "Waiting pods start.",
            ("test_another_replica_takes_over_when_the_leader_is_gone",),
            ("6.28",),
        ),
        Failure(
            "Pods come and go for weeks while a replica waits for the lease.",
            "That replica sends nothing to Slurm.",
            "Its memory does not grow; when it leads, it reconciles the pods that exist, once.",
            (
                "test_a_replica_without_the_lease_sends_nothing_to_slurm_and_is_ready",
                "test_a_replica_that_waits_for_the_lease_collects_nothing",
                "test_a_loop_that_starts_reconciles_everything_in_its_caches_once",
            ),
        ),
        Failure(
            "The API server is so slow that all requests of reconciles wait.",
            "-",
            "The lease is renewed over a connection of its own, so the leader stays.",
            ("test_the_lease_is_renewed_while_all_other_requests_hang",),
        ),
        Failure(
            "The code of the bridge fails on one object that a watch reports.",
            "-",
            "The failure is logged and counted (`slinky_listener_errors_total`); all other objects are handled.",
            ("test_a_listener_that_fails_on_an_object_ends_neither_the_watch_nor_other_listeners",),
        ),
        Failure(
            "Pods end while the bridge is down.",
            "Their jobs end when the bridge starts.",
            "Their finalizers stay until then.",
            (KILLED, "test_a_job_whose_pod_vanished_while_the_bridge_was_down_is_cancelled"),
            ("6.29",),
        ),
        Failure(
            "The admission webhook is down.",
            "Jobs of pods that end are ended.",
            "No new pods of the bridge can be created. Existing pods continue, and their controllers can remove "
            "finalizers, so that Jobs end; other pods are not affected. The API server still protects the link between "
            "pods and jobs.",
            (
                "test_only_the_bridge_labels_pods_with_jobs_and_it_works_without_admission",
                "test_controllers_update_pods_while_admission_is_down",
                "test_the_api_server_protects_the_job_metadata_without_the_webhook",
            ),
            ("6.27",),
        ),
    ),
    "Wrong requests": (
        Failure(
            "A partition, account or resource does not exist.",
            "The submission is rejected.",
            "The pod has the reason `SlurmRefused` with the name that was written, the nearest known one and the next "
            "step; the bridge tries again every minute and on changes.",
            (
                "test_a_refused_job_shows_what_to_change",
                "test_the_unknown_name_is_repeated_with_the_nearest_known_one",
            ),
            ("6.30",),
        ),
        Failure(
            "A job can never fit.",
            "The submission is rejected.",
            "The pod has the reason `SlurmRefused`.",
            ("test_infeasible_nodes_are_excluded",),
            ("6.31",),
        ),
        Failure(
            "An option is invalid.",
            "Nothing is submitted.",
            "Admission rejects it; a pod that exists has the reason `InvalidOption` until it is corrected.",
            ("test_an_invalid_option_is_shown_and_can_be_corrected", "test_options_are_checked_on_owners_too"),
            ("11.4.18",),
        ),
        Failure(
            "An option is on several objects above a pod with different values, misspelt, or has the old prefix.",
            "The job has the topmost value.",
            "The pod has an event (`JobOption`) that names the value without effect, or the right name.",
            (
                "test_options_of_every_object_above_a_pod_of_a_native_group_count",
                "test_the_topmost_value_counts_and_the_others_are_merged",
                "test_an_unknown_option_is_not_dropped_in_silence",
            ),
        ),
        Failure(
            "A pod of another scheduler tolerates the taint of the bridge, or names one of its nodes.",
            "Slurm does not account for it; its requests are counted when nodes are chosen.",
            "The node has a warning event (`ForeignPods`); the metric `slinky_bridge_foreign_pods` counts such pods.",
            (
                "test_a_pod_that_tolerates_the_taint_is_reported_on_the_node",
                "test_an_unexpected_pod_is_reported_once",
            ),
        ),
        Failure(
            "A number in a label, annotation or spec is absurd (2,147,483,647 replicas, an index of 5,000 digits).",
            "Nothing is submitted; running jobs are not affected.",
            "Waiting pods have the reason `InvalidOption` or `GangIncomplete`.",
            (
                "test_absurd_numbers_of_running_and_waiting_pods",
                "test_the_job_of_hostile_pods_is_built_or_rejected",
                "test_the_size_of_a_jobset_is_computed_without_a_loop_over_its_replicas",
            ),
        ),
        Failure(
            "A pod requires what Slurm cannot provide (pod affinity, topology spread).",
            "Nothing is submitted.",
            "Admission rejects it; a pod that exists has the reason `NotSupported`.",
            (
                "test_unsupported_constraints_and_forged_job_metadata_are_rejected",
                "test_a_pod_with_an_unsupported_field_shows_it_and_gets_no_job",
            ),
        ),
        Failure(
            "An option exceeds the rights of the namespace (gres, partition, user).",
            "Nothing is submitted.",
            "`policy` limits, replaces or rejects the option. Without a rule, options of Slurm operators are rejected.",
            (
                "test_policy_refuses_what_is_not_allowed",
                "test_a_forced_option_overrides_annotations",
                "test_a_privileged_option_needs_a_rule_and_the_message_contains_it",
                "test_a_pod_shows_the_rule_that_its_options_violate",
            ),
            ("11.4.17",),
        ),
        Failure(
            "A pod requests fractions of a CPU or of a MiB.",
            "They are rounded up, never down.",
            "The kubelet admits what Slurm reserved.",
            ("test_requests_of_pods_are_rounded_up",),
            ("11.4.13",),
        ),
    ),
    "Other users of Slurm": (
        Failure(
            "Two bridges use one Slurm.",
            "Each has its own jobs and hosts.",
            "-",
            ("test_two_bridges_on_one_slurm_do_not_disturb_each_other",),
            ("6.32", "11.4.2"),
        ),
        Failure(
            "Two clusters with the same names use one Slurm.",
            "Each has its own jobs and hosts.",
            "A node whose host belongs to the other cluster has an event `HostTaken` and gets no pods.",
            ("test_two_clusters_with_the_same_names_on_one_slurm_do_not_disturb_each_other",),
            ("6.32", "11.4.2"),
        ),
        Failure(
            "A foreign job has any comment.",
            "It is never changed.",
            "-",
            ("test_foreign_jobs_are_never_touched",),
            ("6.33", "11.4.1"),
        ),
        Failure(
            "Slurm reuses a job id for a foreign job.",
            "The foreign job is never changed.",
            "The pod is submitted again.",
            ("test_a_label_with_the_id_of_a_foreign_job_is_ignored",),
            ("11.4.10",),
        ),
        Failure(
            "A user writes the id of a foreign job to a pod.",
            "The foreign job is never changed.",
            "Admission rejects it; without admission the bridge ignores it.",
            (
                "test_job_metadata_can_only_be_removed_and_only_before_the_pod_runs",
                "test_a_bound_pod_is_recognised_by_sluid_unless_the_job_is_of_others",
                "test_a_pod_that_claims_the_job_of_another_user_does_not_end_it",
                "test_a_label_with_the_id_of_a_foreign_job_is_ignored[sluid]",
            ),
            ("11.4.1",),
        ),
        Failure(
            "`bridgeId` is changed.",
            "Jobs of existing pods are kept and signed again; jobs without pods end if the old name is in "
            "`formerBridgeIds`, and are otherwise reported in the log and in `slinky_bridge_other_bridge_jobs`.",
            "Pods keep their jobs and their positions in the queue.",
            (
                "test_a_bridge_with_a_new_id_keeps_its_waiting_jobs_and_ends_those_without_pods",
                "test_a_bridge_with_a_new_id_keeps_its_waiting_jobs_even_if_the_old_id_is_not_listed",
                "test_jobs_of_another_bridge_of_the_cluster_are_reported",
            ),
        ),
        Failure(
            "A user changes the admin comment of a job.",
            "-",
            "Nothing happens: bound pods know their job by its SLUID.",
            ("test_a_rewritten_comment_costs_no_pod",),
        ),
        Failure(
            "Many pods wait.",
            "Fewer than four requests a second in total, and no list of jobs.",
            "-",
            ("test_waiting_pods_cost_few_requests",),
        ),
    ),
}


def all_failures() -> list[Failure]:
    """Every row of the table."""
    return [failure for part in TABLE.values() for failure in part]


def known_failures() -> set[str]:
    """Every known failure."""
    return {f"6.{row}" for row in range(1, MATRIX_ROWS + 1)} | {f"11.4.{row}" for row in range(1, DEFECTS + 1)}


def render_tables() -> str:
    """The tables as Markdown."""
    rows: list[str] = []
    for title, part in TABLE.items():
        rows += [f"## {title}", "", "| event | in Slurm | in Kubernetes | tests |", "| --- | --- | --- | --- |"]
        for failure in part:
            tests = ", ".join(f"`{test}`" for test in failure.tests)
            rows.append(f"| {failure.event} | {failure.slurm} | {failure.kubernetes} | {tests} |")
        rows.append("")
    return "\n".join(rows)


def main(page: Path) -> None:
    """Replace the generated part of the page."""
    before, _, rest = page.read_text().partition(BEGIN)
    page.write_text(f"{before}{BEGIN}\n{render_tables()}\n{END}{rest.partition(END)[2]}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
