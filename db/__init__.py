"""The plan database: the only folder that knows SQL."""

if __name__ != "autotune.db":
    raise ImportError("import this package as autotune.db: the bare name 'db' is not ours to take")
