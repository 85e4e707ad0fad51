"""Checks of the driver, the environment and this installation, for `gpudash doctor`."""
