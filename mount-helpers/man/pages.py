#!/usr/bin/env -S python3 -B
"""pages.py DIRECTORY  writes the topics of `reelfs help TOPIC` into DIRECTORY, a text file each; --list names them.

The pages of the project are written once, in Sources/reelfs/Documentation.docc. What a reader of the manual has no use
for is left out: the names of tests, and where links lead. `manual` makes man pages of the same pages.
"""

import pathlib
import re
import sys
import textwrap

PAGES = pathlib.Path(__file__).resolve().parents[2] / "Sources/reelfs/Documentation.docc"
WIDTH = 78

# A topic and its pages. A topic that is called as a command stands below the help of that command.
TOPICS = {
    "options": ["Options"],
    "mounting": ["Mounting"],
    "sources": ["TestedServers", "WebDAV", "FileServers", "Buckets"],
    "feeds": ["Feeds"],
    "hls": ["HLS"],
    "catalogue": ["Catalogues"],
    "logins": ["Logins"],
    "resolver": ["Resolver"],
    "mirrors": ["Mirrors"],
    "via": ["SharedCaches"],
    "tier": ["Tier"],
    "cache": ["Commands"],
    "encryption": ["Encryption"],
    "offline": ["Offline"],
    "freshness": ["Freshness", "Versions"],
    "http": ["Serving", "Metrics"],
    "servers": ["MediaServers"],
    "recipes": ["Recipes"],
    "fleet": ["Fleet"],
    "restart": ["Life"],
    "diagnosis": ["Diagnosis"],
    "errors": ["Errors"],
    "semantics": ["Semantics", "Deadlines", "Limits"],
}

TEST = r"(?:`\w+Tests\.\w+`(?:,? and |, )?)+"
TESTS = re.compile(rf"\s*\bTests?: {TEST}\.?|\s*\({TEST}\)")
LINK = re.compile(r"\[([^]]+)\]\(([^)]+)\)")
# Where an item of a list begins.
ITEM = re.compile(r"(?:-|\d+\.) +")


def plain(text):
    """A paragraph without tests and links; what is to be typed stays between backticks."""
    text = TESTS.sub("", " ".join(text.split()))
    return LINK.sub(r"\1", text).replace("**", "").replace("\\|", "|").strip()


def cells(line):
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))]


def table(lines):
    """Each row as its first cell and the texts of the others, which say what they are where there are several."""
    head = cells(lines[0])
    used = [i for i, name in enumerate(head) if i and name not in ("test", "tests")]
    for row in map(cells, lines[2:]):
        texts = [(f"{head[i]}: " if len(used) > 1 and used[0] != i else "") + row[i] for i in used if row[i]]
        yield plain(row[0]), [text for text in map(plain, texts) if text]


def blocks(name):
    """A page as (kind, content): title, section, code, row, item, text. A row or an item is a tag and texts."""
    text = re.sub(r"<!--.*?-->\n?", "", (PAGES / f"{name}.md").read_text(encoding="utf-8"), flags=re.DOTALL)
    lines, i = text.split("\n"), 0

    def until(ends):
        nonlocal i
        start = i
        while i < len(lines) and not ends(lines[i]):
            i += 1
        return lines[start:i]

    while i < len(lines):
        line = lines[i]
        if not line.strip():
            i += 1
        elif line.startswith("#"):
            yield ("title" if line.startswith("# ") else "section"), plain(line.lstrip("# "))
            i += 1
        elif line.startswith("```"):
            i += 1
            yield "code", until(lambda it: it.startswith("```"))
            i += 1
        elif line.startswith("    "):
            code = until(lambda it: it.strip() and not it.startswith("    "))
            yield "code", textwrap.dedent("\n".join(code)).rstrip().split("\n")
        elif line.startswith("|"):
            for row in table(until(lambda it: not it.startswith("|"))):
                yield "row", row
        elif match := ITEM.match(line):
            i += 1
            rest = until(lambda it: not it.strip() or ITEM.match(it) or it.startswith(("#", "|", "```")))
            yield "item", (match[0].strip(), [plain(" ".join([line[match.end() :], *rest]))])
        else:
            if paragraph := plain(
                " ".join(until(lambda it: not it.strip() or it.startswith(("#", "|", "```")) or ITEM.match(it)))
            ):
                yield "text", paragraph


def wrapped(text, indent, first=None):
    return textwrap.fill(
        text, WIDTH, initial_indent=indent if first is None else first, subsequent_indent=indent,
        break_long_words=False, break_on_hyphens=False)


def as_text(name):
    before = None
    for kind, content in blocks(name):
        # Items of one list stand together.
        if before and not before == kind == "item":
            yield ""
        before = kind
        if kind == "title":
            yield content.upper()
        elif kind == "section":
            yield content
        elif kind == "code":
            yield from (f"        {line}".rstrip() for line in content)
        elif kind == "row":
            yield wrapped(content[0].replace("`", ""), "      ", first="    ")
            yield from (wrapped(text, "        ") for text in content[1])
        elif kind == "item":
            yield wrapped(content[1][0], "    " + " " * (len(content[0]) + 1), first=f"    {content[0]} ")
        else:
            yield wrapped(content, "    ")


def summary(name):
    """The sentence below a page's title."""
    return next(content for kind, content in blocks(name) if kind == "text")


def main(directory):
    folder = pathlib.Path(directory)
    folder.mkdir(parents=True, exist_ok=True)
    topics = ["TOPICS", ""]
    for topic, names in TOPICS.items():
        text = "\n\n\n".join("\n".join(as_text(name)) for name in names)
        (folder / f"{topic}.txt").write_text(text + "\n", encoding="utf-8")
        topics.append(wrapped(summary(names[0]), " " * 17, first=f"    {topic:12} "))
    topics += ["", wrapped("`reelfs help TOPIC` shows one of them, `reelfs help COMMAND` the options of a command.", "    ")]
    (folder / "topics.txt").write_text("\n".join(topics) + "\n", encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1:] == ["--list"]:
        print(*(f"{topic}.txt" for topic in ["topics", *TOPICS]), sep="\n")
    else:
        main(*sys.argv[1:])
