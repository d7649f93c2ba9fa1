# SPDX-License-Identifier: Apache-2.0
"""The admission webhook for pods that the bridge schedules and for objects with job options."""
