"""Node classes and model files, as the registry and the lookup of a server tell them."""

from headroom.base.node_types import ClassInfo


class FilesAndClasses:
    """The files are those of one folder; classes that are not named are ComfyUI's own."""

    def __init__(self, folder, types=None, classes=None):
        self.folder, self.types, self.classes = folder, types or {}, classes

    def node_type(self, class_type):
        return self.types.get(class_type)

    def class_info(self, class_type):
        return ClassInfo() if self.classes is None else self.classes.get(class_type)

    def files_named(self, name):
        return [path for path in [self.folder / name] if path.is_file()]
