"""The output of nvidia-smi's -h, --help-query-... and --version, in its layout and our words."""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import fill
from typing import Any

from gpudash.model.device import device_fields
from gpudash.model.snapshot import Host
from gpudash.output.queries import QUERIES
from gpudash.output.smi import SmiField
from gpudash.output.smi_details import SECTIONS

_USAGE = """\
NVIDIA System Management Interface -- v{driver}

gpudash answers in place of nvidia-smi, and changes no GPU: an option that does, and one that is
not listed here, is handed to the next nvidia-smi in PATH with all that stands beside it.

nvidia-smi [OPTION1 [ARG1]] [OPTION2 [ARG2]] ...

    -h,   --help                Print this and exit.

          --version             Print the versions of driver, NVML and CUDA, and exit.

  LIST OPTIONS:

    -L,   --list-gpus           Print a line for each GPU and MIG instance, with its UUID.

    -B,   --list-excluded-gpus  Print the GPUs that the settings of the driver exclude.

  SUMMARY OPTIONS:

    <no arguments>              Print a table of the GPUs and their processes.

    [plus any of]

    -i,   --id=                 Only these GPUs: indices, UUIDs or PCI bus ids.
    -f,   --filename=           Write to a file.
    -l,   --loop=               Repeat after that many seconds, until Ctrl+C.
    -lms, --loop-ms=            Repeat after that many milliseconds, until Ctrl+C.

  QUERY OPTIONS:

    -q,   --query               Print all that is known of each GPU.

    [plus any of]

    -u,   --unit                Of units in place of GPUs.
    -i,   --id=                 Only these GPUs.
    -f,   --filename=           Write to a file.
    -x,   --xml-format          Print XML.
          --dtd                 With its document type inside.
    -d,   --display=            Only these sections, separated by commas:
{sections}
    -l,   --loop=               Repeat after that many seconds.
    -lms, --loop-ms=            Repeat after that many milliseconds.

  SELECTIVE QUERY OPTIONS:

    [one of]

    --query-gpu                 Properties of GPUs.
                                Call --help-query-gpu for their names.
    --query-supported-clocks    Clocks that can be set.
                                Call --help-query-supported-clocks for their names.
    --query-compute-apps        Processes that compute.
                                Call --help-query-compute-apps for their names.
    --query-accounted-apps      Processes of which the driver kept what they used.
                                Call --help-query-accounted-apps for their names.
    --query-retired-pages       Pages of memory that were retired.
                                Call --help-query-retired-pages for their names.
    --query-remapped-rows       Rows of memory that were replaced.
                                Call --help-query-remapped-rows for their names.

    [mandatory]

    --format=                   Separated by commas:
                                  csv - comma separated values (MANDATORY)
                                  noheader - without the line of names
                                  nounits - without units behind numbers

    [plus any of]

    -i,   --id=                 Only these GPUs.
    -f,   --filename=           Write to a file.
    -l,   --loop=               Repeat after that many seconds.
    -lms, --loop-ms=            Repeat after that many milliseconds.

 Device Monitoring:
    dmon                        A line for each GPU and second.

 Process Monitoring:
    pmon                        A line for each process and second.

 TOPOLOGY:
    topo                        The links between GPUs.

 NVLINK:
    nvlink                      The state of each NVLink.

 GRID vGPU:
    vgpu                        Virtual GPUs.

 MIG:
    mig                         GPU instances and compute instances.
"""
_OWN = {
    "timestamp": "Local time of the sample: YYYY/MM/DD HH:MM:SS.msec.",
    "driver_version": "Version of the NVIDIA driver.",
    "count": "Number of GPUs.",
    "gpu_uuid": "Identity of the GPU, stable over reboots.",
    "pci.domain": "PCI domain, in hex.",
    "pci.bus": "PCI bus, in hex.",
    "pci.device": "PCI device, in hex.",
    "pid": "Process id on the host.",
    "process_name": "Program as it was started.",
    "used_gpu_memory": "Device memory that the process holds.",
    "retired_pages.address": "Where the page is in device memory.",
    "retired_pages.timestamp": "When it was retired.",
    "retired_pages.cause": "Why: several single bit errors, or a double bit error.",
    "memory": "Memory clock.",
    "graphics": "Graphics clock, at that memory clock.",
    "vgpu_instance": "Always N/A here.",
    "gpu_utilization": "Share of its lifetime in which the process computed.",
    "mem_utilization": "Share of its lifetime in which it read or wrote device memory.",
    "max_memory_usage": "The most device memory that it held at once.",
    "time": "How long its context existed, 0 while it runs.",
}
"""Fields that no metric declares."""


def usage(driver_version: str) -> str:
    """Return the output of -h."""
    margin = " " * 36
    sections = fill(", ".join(SECTIONS), 90, initial_indent=margin, subsequent_indent=margin)
    return _USAGE.format(driver=driver_version, sections=sections)


def query_fields(query: str) -> str:
    """Return the output of --help-query-gpu and its siblings: a paragraph for each field."""
    return "".join(f"{line}\n" for line in _paragraphs(query))


def versions(host: Host) -> str:
    """Return the output of --version."""
    driver = host.driver_version or "N/A"
    # NVML's own version begins with CUDA's, and nvidia-smi omits its last number.
    nvml = ".".join((host.nvml_version or "").split(".")[1:3]) or "N/A"
    return (
        f"NVIDIA-SMI version  : {driver}\n"
        f"NVML version        : {nvml}\n"
        f"DRIVER version      : {driver}\n"
        f"CUDA Version        : {host.cuda_driver_version or 'N/A'}\n"
    )


def _paragraphs(query: str) -> Iterator[str]:
    yield f'List of valid properties to query for the switch "--query-{query}":'
    yield ""
    for name, field in QUERIES[query].fields.items():
        if name == field.name:
            yield " or ".join(f'"{each}"' for each in (field.name, *field.aliases))
            yield _description(field)
            yield ""


def _description(field: SmiField[Any]) -> str:
    if field.name in _OWN:
        return _OWN[field.name]
    declared = device_fields()
    metric = next((declared[name] for name in field.reads if name in declared), None)
    return metric.help.replace("null", "N/A") if metric else "Always [N/A] here."
