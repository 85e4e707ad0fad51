"""The lists of nvidia-smi mig, as in driver 535: profiles, instances, placements."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from gpudash.model.details import MigInstance, MigLayout, MigProfile
from gpudash.output.smi_table import fit

Layouts = Sequence[tuple[int, MigLayout]]
"""Indices of GPUs in MIG mode, and how each is divided."""


class MigListing(NamedTuple):
    """One of the lists."""

    lines: Callable[[Layouts], Iterator[str]]
    what: str
    """Its subject, as in the message for a failure."""
    headings: str = ""


def _gpu_profiles(layouts: Layouts) -> Iterator[str]:
    for gpu, layout in layouts:
        for each in layout.profiles or ():
            p2p = "Yes" if each.has_p2p else "No"
            yield (
                f"|{gpu:>4}  {fit(each.name, 17)} {f'{each.id:>2}':<4}{each.free_count:>4}/"
                f"{each.total_count:<9}{f'{each.memory_mib / 1024:.2f}':<11}{p2p:<7}"
                f"{each.multiprocessor_count:<4}{each.decoder_count:>4}{each.encoder_count:>6}   |"
            )
            yield f"|{each.copy_engine_count:>62}{each.jpeg_count:>6}{each.ofa_count:>6}   |"
            yield _rule(77)


def _gpu_instances(layouts: Layouts) -> Iterator[str]:
    for gpu, each in _instances(layouts):
        at = each.placement
        yield (
            f"|{gpu:>4}  {fit(each.profile_name, 17)}{each.profile_id:>5}{each.id:>9}"
            f"{at.start:>11}:{at.size:<6}|"
        )
        yield _rule(55)


def _compute_profiles(layouts: Layouts) -> Iterator[str]:
    for gpu, instance in _instances(layouts):
        for each in instance.profiles:
            mark = "*" if each.slice_count == _slices(layouts, gpu, instance) else " "
            yield (
                f"|{gpu:>4}{instance.id:>7}       {fit(each.name, 18)}{each.id:>4}{mark}"
                f"{each.free_count:>6}/{each.total_count:<12}{each.multiprocessor_count:<4}"
                f"{each.decoder_count:>7}{each.encoder_count:>6}{each.ofa_count:>6}   |"
            )
            yield f"|{each.copy_engine_count:>71}{each.jpeg_count:>6}         |"
            yield _rule(86)


def _slices(layouts: Layouts, gpu: int, instance: MigInstance) -> int | None:
    """Return how many slices a GPU instance has: its default compute instance takes all."""
    profiles = dict(layouts)[gpu].profiles or ()
    found = [each.slice_count for each in profiles if each.id == instance.profile_id]
    return found[0] if found else None


def _compute_instances(layouts: Layouts) -> Iterator[str]:
    for gpu, instance in _instances(layouts):
        for each in instance.instances:
            at = each.placement
            yield (
                f"|{gpu:>4}{instance.id:>7}       {fit(each.profile_name, 18)}"
                f"{each.profile_id:>4}{each.id:>10}{at.start:>11}:{at.size:<6}|"
            )
            yield _rule(68)


def _gpu_placements(layouts: Layouts) -> Iterator[str]:
    for gpu, layout in layouts:
        for each in layout.profiles or ():
            yield f"GPU {gpu:>2} {_placements(each)}"


def _compute_placements(layouts: Layouts) -> Iterator[str]:
    for gpu, instance in _instances(layouts):
        for each in instance.profiles:
            yield f"GPU {gpu:>2} GI {instance.id:>2} {_placements(each)}"


def _placements(profile: MigProfile) -> str:
    starts = ",".join(str(each.start) for each in profile.placements)
    word = "Placement " if len(profile.placements) == 1 else "Placements"
    size = profile.placements[0].size if profile.placements else 0
    return f"Profile ID {profile.id:>2} {word}: {{{starts}}}:{size}"


def _instances(layouts: Layouts) -> Iterator[tuple[int, MigInstance]]:
    for gpu, layout in layouts:
        yield from ((gpu, each) for each in layout.instances or ())


def _rule(width: int) -> str:
    return f"+{'-' * width}+"


LISTINGS: Mapping[str, MigListing] = {
    "-lgip": MigListing(
        _gpu_profiles,
        "GPU instance profiles",
        f"""\
{_rule(77)}
| GPU instance profiles:                                                      |
| GPU   Name             ID    Instances   Memory     P2P    SM    DEC   ENC  |
|                              Free/Total   GiB              CE    JPEG  OFA  |
|=============================================================================|
""",
    ),
    "-lgipp": MigListing(_gpu_placements, "GPU instance placements"),
    "-lgi": MigListing(
        _gpu_instances,
        "GPU instances",
        f"""\
{_rule(55)}
| GPU instances:                                        |
| GPU   Name             Profile  Instance   Placement  |
|                          ID       ID       Start:Size |
|=======================================================|
""",
    ),
    "-lcip": MigListing(
        _compute_profiles,
        "compute instance profiles",
        f"""\
{_rule(86)}
| Compute instance profiles:                                                           |
| GPU     GPU       Name             Profile  Instances   Exclusive       Shared       |
|       Instance                       ID     Free/Total     SM       DEC   ENC   OFA  |
|         ID                                                          CE    JPEG       |
|======================================================================================|
""",
    ),
    "-lcipp": MigListing(_compute_placements, "compute instance placements"),
    "-lci": MigListing(
        _compute_instances,
        "compute instances",
        f"""\
{_rule(68)}
| Compute instances:                                                 |
| GPU     GPU       Name             Profile   Instance   Placement  |
|       Instance                       ID        ID       Start:Size |
|         ID                                                         |
|====================================================================|
""",
    ),
}
"""The lists by option; of several options, the first here counts."""
