"""What Linux tells of a process's group, in files below a folder that stands for the root."""


def group(root, groups="0::/\n", top="", **files):
    """The files of a group: a name of the folder `top` below the cgroups, _ for a dot: its text."""
    (root / "proc/self").mkdir(parents=True, exist_ok=True)
    (root / "proc/self/cgroup").write_text(groups)
    folder = root / "sys/fs/cgroup" / top
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        kind, _, rest = name.partition("_")
        (folder / f"{kind}.{rest}").write_text(f"{text}\n")
    return root
