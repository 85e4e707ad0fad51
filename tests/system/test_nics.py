from pathlib import Path

from gpudash.system.nics import nics

SWITCH = "pci0000:10/0000:10:01.0/0000:11:00.0"
"""A root port and the upstream port of a switch."""


def kernel(root: Path, devices: dict[str, int], cards: dict[str, str]) -> str:
    """The kernel's tree of these devices with their NUMA nodes, some of which are cards."""
    for path, node in devices.items():
        folder = root / "devices" / path
        folder.mkdir(parents=True)
        (folder / "numa_node").write_text(f"{node}\n")
        link = root / "bus/pci/devices" / folder.name
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(folder)
        for name in (name for name, of in cards.items() if of == path):
            card = root / "class/infiniband" / name
            card.mkdir(parents=True)
            (card / "device").symlink_to(folder)
    return str(root)


def test_how_far_a_card_is(tmp_path: Path) -> None:
    gpus = {
        f"{SWITCH}/0000:12:00.0/0000:13:00.0": 0,
        f"{SWITCH}/0000:12:01.0/0000:14:00.0/0000:15:00.0/0000:16:00.0": 0,
        "pci0000:10/0000:10:02.0/0000:17:00.0": 0,
        "pci0000:20/0000:20:01.0/0000:21:00.0": 0,
        "pci0000:80/0000:80:01.0/0000:81:00.0": 1,
    }
    card = f"{SWITCH}/0000:12:02.0/0000:18:00.0"
    root = kernel(tmp_path, {**gpus, card: 0}, {"mlx5_0": card})
    (nic,) = nics([path.rpartition("/")[2] for path in gpus], root)
    assert nic.name == "mlx5_0"
    assert nic.links == ("PIX", "PXB", "PHB", "NODE", "SYS", "X")


def test_cards_are_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    paths = [f"pci0000:00/0000:00:0{number}.0" for number in range(3)]
    cards = dict(zip(("mlx5_10", "mlx5_2", "mlx5_bond_0"), paths, strict=True))
    found = nics([None], kernel(tmp_path, dict.fromkeys(paths, 0), cards))
    assert [nic.name for nic in found] == ["mlx5_2", "mlx5_10", "mlx5_bond_0"]
    assert found[0].links == (None, "X", "PHB", "PHB")


def test_a_card_that_is_no_pci_device_is_nowhere(tmp_path: Path) -> None:
    (tmp_path / "class/infiniband/siw0").mkdir(parents=True)
    assert [nic.links for nic in nics(["0000:13:00.0"], str(tmp_path))] == [(None, "X")]


def test_a_host_without_cards_has_none(tmp_path: Path) -> None:
    assert nics(["0000:13:00.0"], str(tmp_path)) == ()
