# SPDX-License-Identifier: Apache-2.0
"""Property tests without a time limit per example, so that a busy machine cannot fail them."""

from hypothesis import HealthCheck, settings

settings.register_profile("untimed", deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")
