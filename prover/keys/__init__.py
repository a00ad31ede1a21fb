# SPDX-License-Identifier: GPL-3.0-or-later
"""The proving keys a provider holds, and how a key from elsewhere is tried before it proves anything.  SPEC A.9."""
