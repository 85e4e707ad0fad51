from __future__ import annotations

from pathlib import Path

import pytest

from gpudash.system.container import container


@pytest.mark.parametrize(
    ("path", "text", "environ", "kind"),
    [
        (".dockerenv", "", {}, "docker"),
        ("run/.containerenv", "", {}, "podman"),
        ("proc/self/cgroup", "0::/kubepods.slice/kubepods-pod1.slice/cri.scope\n", {}, "kubepods"),
        ("proc/self/cgroup", "0::/garden/abc\n", {}, "garden"),
        ("proc/self/cgroup", "0::/user.slice\n", {"KUBERNETES_SERVICE_HOST": "::1"}, "kubernetes"),
        ("proc/self/cgroup", "0::/user.slice\n", {"container": "lxc"}, "lxc"),
        ("proc/self/cgroup", "0::/user.slice\n", {"container": ""}, None),
        ("proc/self/cgroup", "0::/user.slice\n", {}, None),
    ],
)
def test_kinds(
    tmp_path: Path, path: str, text: str, environ: dict[str, str], kind: str | None
) -> None:
    file = tmp_path / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    assert container(str(tmp_path), environ) == kind
