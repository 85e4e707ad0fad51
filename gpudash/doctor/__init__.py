"""Why gpudash sees what it sees: the driver, the environment and this installation, checked."""
