"""Starting servers: the port, the command line, the links, and ends that leave nothing behind."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tools import links, processes
from tools.ports import free_port, port_is_free
from tools.server import ComfyServer, PortTaken, ServerError

FAKE = """
import http.server, sys
port = int(sys.argv[sys.argv.index("--port") + 1])
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.send_header("Content-Length", "2"); self.end_headers()
        self.wfile.write(b"{}")
print("ready", flush=True)
http.server.HTTPServer(("127.0.0.1", port), Handler).serve_forever()
"""


@pytest.fixture
def tree(tmp_path):
    """A folder that starts like a ComfyUI and answers like one."""
    folder = tmp_path / "tree"
    (folder / "comfy").mkdir(parents=True)
    (folder / "comfy" / "cli_args.py").write_text('add("--port")\nadd("--listen")\nadd("--cpu")\n')
    (folder / "main.py").write_text(FAKE)
    return folder


@pytest.fixture
def taken_port():
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        yield holder.getsockname()[1]


def test_a_taken_port_is_one_sentence(tree, tmp_path, taken_port):
    assert not port_is_free(taken_port) and port_is_free(free_port())
    server = ComfyServer(tree, tmp_path / "base", port=taken_port)
    with pytest.raises(PortTaken, match=f"Port {taken_port} of 127.0.0.1 is in use") as caught:
        server.start()
    assert "\n" not in str(caught.value)


def test_a_server_starts_answers_and_is_gone_afterwards(tree, tmp_path):
    with ComfyServer(tree, tmp_path / "base") as server:
        process = server.process
        assert server.client().get_json("/system_stats") == {}
        assert server.log_text().startswith("ready")
    assert process.returncode is not None and port_is_free(server.port)
    server.stop()


def test_a_server_that_dies_shows_the_end_of_its_log(tree, tmp_path):
    (tree / "main.py").write_text("import sys; print('no such model'); sys.exit(3)")
    with pytest.raises(ServerError, match="exit code 3.*\nno such model$"):
        ComfyServer(tree, tmp_path / "base").start()


def test_an_answer_of_another_program_on_the_port_is_not_taken_for_the_servers(tree, tmp_path):
    told = '{"system": {"argv": ["another"]}}'
    other = FAKE.replace('b"{}"', f"b'{told}'").replace('"2"', f'"{len(told)}"')
    (tree / "main.py").write_text(other)
    with pytest.raises(ServerError, match="did not answer within 2 s"):
        ComfyServer(tree, tmp_path / "base", start_timeout=2).start()


def test_a_server_that_hangs_is_given_up_and_ended(tree, tmp_path):
    (tree / "main.py").write_text("import time; time.sleep(60)")
    server = ComfyServer(tree, tmp_path / "base", start_timeout=0.2)
    with pytest.raises(ServerError, match="did not answer within 0.2 s"):
        server.start()
    assert server.process is None


def test_only_flags_that_the_tree_knows_are_passed(tree, tmp_path):
    server = ComfyServer(tree, tmp_path / "base", args=["--cache-none"])
    words = server.command()
    assert words[2:] == ["--cpu", "--listen", "127.0.0.1", "--port", "0", "--cache-none"]


def test_a_simulated_gpu_is_started_through_its_launcher_without_the_cpu_flag(tree, tmp_path):
    server = ComfyServer(tree, tmp_path, simulate_mib=2048)
    words = server.command()
    assert Path(words[1]).parts[-3:] == ("lab", "simgpu", "main.py")
    assert words[2:6] == ["--capacity-mib", "2048", str(tree), "--"]
    assert "--cpu" not in words and "--cpu" not in ComfyServer(tree, tmp_path, gpu=True).command()


def test_the_pack_is_linked_not_copied(tree, tmp_path):
    pack, extra = tmp_path / "pack", tmp_path / "extra"
    pack.mkdir()
    extra.mkdir()
    base = tmp_path / "base"
    with ComfyServer(tree, base, pack=pack, packs=[extra]):
        (pack / "later.py").write_text("")
    assert (base / "custom_nodes" / "headroom" / "later.py").exists()
    assert links.is_link(base / "custom_nodes" / "extra")


def test_a_link_follows_its_target_and_never_replaces_a_real_folder(tmp_path):
    one, two, link = tmp_path / "one", tmp_path / "two", tmp_path / "link"
    one.mkdir()
    two.mkdir()
    links.link_folder(link, one)
    links.link_folder(link, one)
    links.link_folder(link, two)
    assert Path(os.path.realpath(link)) == two and one.exists()
    with pytest.raises(FileExistsError, match="is a real folder"):
        links.link_folder(one, two)


@pytest.mark.skipif(os.name == "nt", reason="needs POSIX process groups")
def test_ending_a_stubborn_process_also_ends_its_children(tmp_path):
    child = "import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN); time.sleep(60)"
    parent = (
        "import signal, subprocess, sys, time; signal.signal(signal.SIGINT, signal.SIG_IGN);"
        f"p = subprocess.Popen([sys.executable, '-c', {child!r}]); print(p.pid, flush=True);"
        "time.sleep(60)"
    )
    process = processes.start_process(
        [sys.executable, "-c", parent], cwd=tmp_path, env=os.environ, output=subprocess.PIPE
    )
    with process.stdout:
        grandchild = int(process.stdout.readline())
        processes.end_process(process, grace_seconds=0.1)
        assert process.returncode == -signal.SIGKILL
        # The pipe closes only when the grandchild, which has it too, is gone.
        assert process.stdout.read() == b""
    assert grandchild != process.pid


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a process with its parent")
def test_a_process_ends_with_a_parent_that_was_killed(tmp_path):
    code = (
        "import os, subprocess, sys; sys.path.insert(0, sys.argv[1])\n"
        "from tools.processes import start_process\n"
        "from pathlib import Path\n"
        "start_process([sys.executable, '-c', 'import time; time.sleep(60)'],"
        " cwd=Path('.'), env=os.environ, output=1)\n"
        "print('up', flush=True); os.kill(os.getpid(), 9)"
    )
    root = Path(processes.__file__).resolve().parent.parent
    words = [sys.executable, "-c", code, str(root)]
    done = subprocess.run(words, capture_output=True, cwd=tmp_path, timeout=30)
    # The output ends only when the child, which inherited it, has ended as well.
    assert done.returncode == -signal.SIGKILL and done.stdout == b"up\n"


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGHUP")
@pytest.mark.parametrize("before, after", [("SIG_DFL", b"cleaned up\n"), ("SIG_IGN", b"went on\n")])
def test_a_closed_terminal_lets_a_command_clean_up_unless_it_is_to_go_on(tmp_path, before, after):
    code = (
        "import os, signal, sys; sys.path.insert(0, sys.argv[1])\n"
        "from tools.processes import end_like_ctrl_c\n"
        f"signal.signal(signal.SIGHUP, signal.{before}); end_like_ctrl_c()\n"
        "try:\n    os.kill(os.getpid(), signal.SIGHUP); print('went on')\n"
        "except KeyboardInterrupt:\n    print('cleaned up')"
    )
    root = Path(processes.__file__).resolve().parent.parent
    words = [sys.executable, "-c", code, str(root)]
    assert subprocess.run(words, capture_output=True, cwd=tmp_path, timeout=30).stdout == after
