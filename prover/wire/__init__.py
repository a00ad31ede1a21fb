# SPDX-License-Identifier: GPL-3.0-or-later
"""The provider on the wire: gRPC services and their callers, HTTP edges."""
