"""What the terminal is sent and what it sends: the one package with private names of Textual.

Each of them is listed here, for a test that the installed version has it.
"""

from __future__ import annotations

PRIVATE = {
    "textual.app:App": (
        "_display",
        "_batch_count",
        "_running",
        "_closed",
        "_driver",
        "_sync_available",
        "_previous_cursor_position",
        "_handle_exception",
        "_close_messages_no_wait",
        "_bindings",
        "_keymap",
    ),
    "textual.screen:Screen": ("_compositor", "_layout_required", "_modal_binding_chain"),
    "textual.widget:Widget": ("_styles_cache",),
    "textual._styles_cache:StylesCache": ("get_inner_outer",),
    "textual.strip:Strip": ("_segments",),
    "textual.drivers.linux_driver:LinuxDriver": (
        "_file",
        "_writer_thread",
        "_enable_mouse_support",
        "_disable_mouse_support",
        "_mouse",
        "_debug",
        "fileno",
        "_request_terminal_sync_mode_support",
    ),
    "textual.driver:Driver": (
        "_app",
        "_loop",
    ),
    "textual.drivers._writer_thread:WriterThread": ("_queue",),
    "textual._xterm_parser:XTermParser": ("_timeout_time",),
}
"""Where each private name that this module uses is looked up."""
