# SPDX-License-Identifier: Apache-2.0
"""Property tests that a busy machine cannot fail: no example is judged by how long it takes."""

from hypothesis import HealthCheck, settings

settings.register_profile("calm", deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("calm")
