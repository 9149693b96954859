"""The templates that a ComfyUI pins: fetched once, or said why not."""

import json
import zipfile

import pytest

from tools import template_package
from tools.errors import NotHere

VERSION = "0.99.1"  # no such version is installed anywhere


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """A ComfyUI that pins templates which must be fetched; `fetched` says what was."""
    (tmp_path / "requirements.txt").write_text(f"comfyui-workflow-templates=={VERSION}\n")
    monkeypatch.setenv("HEADROOM_DEV_HOME", str(tmp_path / "home"))
    return tmp_path


def wheels(monkeypatch, requires):
    """Let the registry have the package, which names this requirement, and its part."""
    fetched = []
    contents = {
        f"comfyui-workflow-templates=={VERSION}":
            {f"comfyui_workflow_templates-{VERSION}.dist-info/METADATA":
             f"Name: comfyui-workflow-templates\nRequires-Dist: {requires}\n"},
        "comfyui-workflow-templates-json==0.1.2": {
            "comfyui_workflow_templates_json/templates/a.json": json.dumps({"nodes": []}),
            "comfyui_workflow_templates_json/templates/index.json": "[]",
            "comfyui_workflow_templates_json/templates/a-1.webp": "picture"},
    }

    def wheel(requirement, folder):
        fetched.append(requirement)
        folder.mkdir(parents=True)
        with zipfile.ZipFile(folder / "a.whl", "w") as archive:
            for name, text in contents[requirement].items():
                archive.writestr(name, text)
        return folder / "a.whl"

    monkeypatch.setattr(template_package, "_wheel", wheel)
    return fetched


def test_the_workflows_are_fetched_once_without_their_pictures(tree, monkeypatch):
    fetched = wheels(monkeypatch, "comfyui-workflow-templates-json==0.1.2")
    assert template_package.templates_of(tree) == {"a": {"nodes": []}}
    assert template_package.templates_of(tree) == {"a": {"nodes": []}}
    assert fetched == [f"comfyui-workflow-templates=={VERSION}",
                       "comfyui-workflow-templates-json==0.1.2"]


def test_workflows_among_videos_are_not_fetched_and_nothing_is_left(tree, monkeypatch):
    fetched = wheels(monkeypatch, "comfyui-workflow-templates-media-video==0.3.1")
    with pytest.raises(NotHere, match="has its workflows beside its videos"):
        template_package.templates_of(tree)
    assert len(fetched) == 1
    assert [path.name for path in (tree / "home").iterdir()] == ["locks"]
