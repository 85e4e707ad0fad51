"""What the keys and the mouse do, a topic a module; `GpudashApp` joins them."""
