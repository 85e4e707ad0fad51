from gpudash.model.records import AccountedProcess, EccLocation, RetiredPage


def test_records_are_a_line_each() -> None:
    location = EccLocation(name="sram", corrected_volatile_count=7, corrected_aggregate_count=17)
    assert str(location) == "sram 7 corrected, - uncorrected (17, - in its lifetime)"
    assert str(RetiredPage(address=4096, cause="double-bit")) == "0x1000 (double-bit)"
    ended = AccountedProcess(
        pid=7, max_gpu_memory_bytes=5 << 30, gpu_utilization_percent=71, active_seconds=61
    )
    assert str(ended) == "PID 7 5.0 GiB at most, 71% busy, for 1m01s"
    assert str(AccountedProcess(pid=7, is_running=True)).endswith("still running")
