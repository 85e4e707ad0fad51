"""The kind of container that a machine is, if any."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from gpudash.system.files import read_start

_MARKS = {".dockerenv": "docker", "run/.containerenv": "podman"}
_CGROUP = re.compile(r"docker|libpod|kubepods|containerd|crio|lxc|garden")
_MAX_BYTES = 1 << 16


def container(root: str, environ: Mapping[str, str]) -> str | None:
    """Return the kind of container with this file system and environment, None outside one."""
    for path, kind in _MARKS.items():
        if os.path.lexists(os.path.join(root, path)):
            return kind
    if environ.get("KUBERNETES_SERVICE_HOST"):
        return "kubernetes"
    text = read_start(os.path.join(root, "proc/self/cgroup"), _MAX_BYTES) or b""
    found = _CGROUP.search(text.decode("utf-8", "replace"))
    return found[0] if found else environ.get("container") or None
