"""The HTTP service: ``/best`` and what it needs. Importing this package imports nothing else."""
