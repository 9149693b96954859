"""The pages of errors in docs/, from the table of errors: `python -m tools.error_pages`."""

import json
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "headroom" / "base" / "errors.json"
WORDS = ROOT / "locales" / "zh" / "main.json"
Words = Callable[[str], str]  # of an English sentence

ENGLISH = {
    "page": "errors.md",
    "head": """# What an error means

[中文](errors.zh-CN.md)

Made from `headroom/base/errors.json` by `python -m tools.error_pages`. The panel and the advice for
a failed run say the same, with flags that your ComfyUI has. The first row whose text is in the
error counts. A rerun is offered only where it can help.

| In the error's text | Kind | What happened | What to do | Worth a rerun? |
|---|---|---|---|---|""",
    "yes": "Yes.", "no": "No.", "or": " or ",
    "families": {},
}
CHINESE = {
    "page": "errors.zh-CN.md",
    "head": """# 错误的含义

[English](errors.md)

本页由 `python -m tools.error_pages` 根据 `headroom/base/errors.json` 生成。
面板和失败运行的建议中也有同样的说明，并且只提到你的 ComfyUI 具有的启动参数。
错误文字中最先匹配的一行有效。只有在有用时才会提供重新运行。

| 错误文字中含有 | 类别 | 发生了什么 | 怎么办 | 重新运行有用吗 |
|---|---|---|---|---|""",
    "yes": "有用。", "no": "没有用。", "or": " 或 ",
    "families": {"device memory": "显存", "RAM": "内存", "pinned memory": "锁页内存",
                 "page file": "页面文件", "address space": "地址空间", "driver": "驱动",
                 "compiler": "编译器", "not memory": "与内存无关"},
}


def pages() -> dict[Path, str]:
    """Return the text of each page by its path."""
    chinese = json.loads(WORDS.read_text(encoding="utf-8"))["Headroom"]
    return {ROOT / "docs" / "errors.md": _page(ENGLISH, str),
            ROOT / "docs" / "errors.zh-CN.md": _page(CHINESE, chinese.__getitem__)}


def _page(language: dict, words: Words) -> str:
    table = json.loads(TABLE.read_text(encoding="utf-8"))
    lines = [language["head"]]
    for row in table["errors"]:
        helps = [_help(table["do"][one], language, words) for one in row["do"]]
        worth = language["yes" if row["retry"] else "no"]
        joint = "" if language is CHINESE else " "
        lines.append("| " + " | ".join([
            "<br>".join(f"`` {text} ``" if "`" in text else f"`{text}`" for text in row["texts"]),
            language["families"].get(row["family"], row["family"]),
            words(row["what"]), "<br>".join(helps),
            f"{worth}{joint}{words(row['why'])}",
        ]) + " |")
    return "\n".join(lines) + "\n"


def _help(one: dict, language: dict, words: Words) -> str:
    flags = language["or"].join(f"`{flag}`" for flag in one.get("flags", ()))
    text = words(one["text"]).replace("{flag}", flags)
    return text[:1].upper() + text[1:]


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
