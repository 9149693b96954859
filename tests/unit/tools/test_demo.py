"""`dev.py demo`: how it ends where something else ends first."""

from urllib.error import URLError

import pytest

from tools import demo


@pytest.fixture
def ended_by(monkeypatch, capsys):
    """A function that runs the part in the environment, which meets this error."""

    def run(error):
        def meet(args):
            raise error

        monkeypatch.setattr("sys.argv", ["demo", "--comfyui", "ComfyUI"])
        monkeypatch.setattr(demo, "end_like_ctrl_c", lambda: None)
        monkeypatch.setattr(demo, "demo", meet)
        return demo.inside(), capsys.readouterr().err

    return run


@pytest.mark.parametrize("error", [ConnectionError("closed"), URLError("refused")])
def test_a_server_that_ends_in_the_middle_is_told_in_one_sentence(ended_by, error):
    code, told = ended_by(error)
    assert code == 1 and told.startswith("Error: ComfyUI ended in the middle of the prompt")
    assert str(demo.base_folder()) in told and told.count("\n") == 1


def test_ctrl_c_in_the_middle_is_no_success(ended_by):
    assert ended_by(KeyboardInterrupt()) == (130, "Stopped.\n")
