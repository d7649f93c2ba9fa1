# SPDX-License-Identifier: Apache-2.0
"""Keys of Slurm: generating them, and rotating them without an interruption.

`keyring` and `rotation` contain what both rotations share; `slurm_*` and `jwt_*` contain the two policies.
"""
