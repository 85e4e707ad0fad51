"""The program, as `gpudash` and as `python -m gpudash`."""

import signal

# Ctrl-C ends it silently while the rest is imported.
if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)

from gpudash.cli import main

if __name__ == "__main__":
    main()
