"""What runs on hardware, and the hardware that runs anywhere."""

if __name__ != "autotune.kernels":
    raise ImportError("import this package as autotune.kernels: the bare name 'kernels' is not ours to take")
