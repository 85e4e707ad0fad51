"""What the stand-in can tell of a machine in trouble, through real pynvml."""

from __future__ import annotations

from pathlib import Path

from tests.fakenvml.asking import ask

FIELD = "N.nvmlDeviceGetFieldValues(D[0], [({0}, {1})])[0].value.ullVal"


def test_counters_rise_as_configured(fakenvml: Path) -> None:
    before, after = (
        ask(
            fakenvml,
            "\n".join(
                [
                    FIELD.format(74, 0),
                    FIELD.format(163, 3),
                    FIELD.format(163, 4),
                    "N.nvmlDeviceGetNvLinkErrorCounter(D[0], 3, 2)",
                    "N.nvmlDeviceGetPcieReplayCounter(D[1])",
                ]
            ),
            RISE="0:74:5e8,0:163.3:2,1:94:3",
            TIME=1_700_000_100 + seconds,
        )
        for seconds in (0, 10)
    )
    risen = [late - early for early, late in zip(before, after, strict=True)]
    assert risen == [5_000_000_000, 20, 0, 20, 30]


def test_a_link_is_down_as_configured(fakenvml: Path) -> None:
    states = "[N.nvmlDeviceGetNvLinkState(D[{0}], link) for link in range(12)]"
    down, up = ask(
        fakenvml,
        f"{states.format(1)}\n{states.format(0)}",
        TOPO="nvswitch",
        LINK_DOWN="1:4,1:11",
    )
    assert [link for link, state in enumerate(down) if not state] == [4, 11]
    assert all(up)


def test_memory_can_be_unowned(fakenvml: Path) -> None:
    used = "N.nvmlDeviceGetMemoryInfo(D[{0}]).used >> 20"
    ordinary, orphaned = ask(
        fakenvml, f"{used.format(0)}\n{used.format(1)}", LOAD="idle", ORPHANED="1:5000"
    )
    assert orphaned - ordinary == 5000


def test_calls_answer_what_they_are_told(fakenvml: Path) -> None:
    rows = "[*N.nvmlDeviceGetRemappedRows(D[{0}])]"
    fields = "[x.nvmlReturn for x in N.nvmlDeviceGetFieldValues(D[{0}], [226, 230])]"
    assert ask(
        fakenvml,
        "\n".join([rows.format(0), rows.format(1), fields.format(0), fields.format(1)]),
        ANSWER="nvmlDeviceGetRemappedRows:1:_/7/1,field226:*:1,field230:1:-",
    ) == [[0, 0, 0, 0], [0, 7, 1, 0], [0, 0], [0, 3]]


def test_the_fabric_is_as_configured(fakenvml: Path) -> None:
    asked = """
    !info = N.c_nvmlGpuFabricInfo_v2_t()
    code(N.nvmlDeviceGetGpuFabricInfoV, D[0], N.byref(info))
    (info.state, info.status, info.healthMask)
    """
    assert ask(fakenvml, asked, FABRIC="3:0:1") == [0, (3, 0, 1)]
    assert ask(fakenvml, asked)[0] == "error 3"


def test_performance_monitoring_is_there_when_configured(fakenvml: Path) -> None:
    supported = "N.nvmlGpmQueryDeviceSupport(D[0]).isSupportedDevice"
    assert ask(fakenvml, supported, GPM=1) == [1]
    assert ask(fakenvml, supported) == [0]


def test_xids_are_reported_once_each_time_the_settings_change(
    fakenvml: Path, tmp_path: Path
) -> None:
    control = tmp_path / "control"
    control.touch()
    answers = ask(
        fakenvml,
        """
        !sets = [N.nvmlEventSetCreate() for _ in D]
        ![N.nvmlDeviceRegisterEvents(d, 8, s) for d, s in zip(D, sets)]
        code(N.nvmlEventSetWait_v2, sets[1], 0)
        !configure(DEVICES=2, XID="1:79,1:31")
        [N.nvmlEventSetWait_v2(sets[1], 0).eventData for _ in range(2)]
        code(N.nvmlEventSetWait_v2, sets[1], 0)
        code(N.nvmlEventSetWait_v2, sets[0], 0)
        !configure(DEVICES=2, XID="0:13")
        N.nvmlEventSetWait_v2(sets[0], 0).eventData
        """,
        DEVICES=2,
        CONTROL=control,
    )
    assert answers == ["error 10", [79, 31], "error 10", "error 10", 13]
