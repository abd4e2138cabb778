"""Flash attention on the host's CPU: the kernel in C, its build, and what a plan means to it."""
