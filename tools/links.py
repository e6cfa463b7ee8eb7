#!/usr/bin/env python3
"""Fails on links that lead nowhere, in all documents of the tree, and in comments of its C and Python.

Usage: links.py [ROOT]. Prints file:line: what is wrong; exit 1 if anything is.

It looks at links and images of Markdown ([text](path#anchor), <a href>, <img src>), at paths that a text names (src/base/str.h,
docs/adr/0001), and at sections that it cites (FILE.md, "Limits"). Addresses of the web are not asked for.
"""
import functools
import pathlib
import re
import sys
import urllib.parse

import words

ENDINGS = ('*.md', '*.c', '*.h', '*.py')
FOLDERS = ('src', 'docs', 'test', 'tools', 'script', 'bench', 'example', 'packaging')
LINK = re.compile(r'\[(?:[^\[\]]|\[[^\]]*\])*\]\(<?([^()\s<>]*(?:\([^()]*\)[^()\s<>]*)*)>?(?:\s+"[^"]*")?\)')
DEFINITION = re.compile(r'^\s{0,3}\[([^\]]+)\]:\s+<?(\S+?)>?(?:\s|$)')
USED = re.compile(r'\[(?:[^\[\]]*)\]\[(\w[\w .-]*)\]')
ATTRIBUTE = re.compile(r'<(?:a|img|source)\b[^>]*?\s(?:href|src|srcset)="([^"]*)"')
PATH = re.compile(r"(?<![\w/.<{$-])(?<!'s )((?:" + '|'.join(FOLDERS) + r')/[\w./*-]*[\w*/])(?![\w<{$])')
# FILE.md, "Leases"; FILE.md, Wikis; a second title may follow: ..., "Leases" and "Fences"
CITED = re.compile(r'\b((?:(?:\.\./)*(?:docs|bench)/)?[\w-]+\.md)\)?,? ("[^"]+"(?:,? (?:and )?"[^"]+")*|[A-Z][\w\' -]*)')
TARGET = re.compile(r'(?<=\])\([^()\s]*\)')
HISTORY = ('docs/adr/', 'CHANGELOG.md')    # which tell of paths that were
MADE = re.compile(r'NNNN|NAME|STEP|FILE|FOLDER|AREA|DIR|TARGET')    # a path with a part to fill in


def blanks(found):
    return ' ' * len(found[0])


def slug(heading, seen):
    """The anchor of a heading as GitHub makes it; seen counts those of the document."""
    text = words.LINK.sub(lambda match: match[1], heading)
    text = re.sub(r'[^\w\- ]', '', re.sub(r'[`*]', '', text).strip().lower()).replace(' ', '-')
    count = seen.get(text, 0)
    seen[text] = count + 1
    return f'{text}-{count}' if count else text


@functools.lru_cache(maxsize=None)
def headings(path):
    """([titles], {anchors}) of a document. Bold words at the head of a paragraph are a title without an anchor."""
    text, seen = path.read_text(), {}
    found = words.texts_of(path, text)
    titles = [pieces[0][1] for kind, pieces in found if kind == 'heading']
    anchors = {slug(title, seen) for title in titles} | set(re.findall(r'<\w+[^>]*\s(?:id|name)="([^"]+)"', text))
    titles += [match[1] for kind, pieces in found for match in [re.match(r'\*\*(.+?)\*\*', pieces[0][1])] if match]
    return [re.sub(r'[`*]', '', title) for title in titles], anchors


def is_there(root, path):
    """Whether a path that a text names is in the tree. 0001 stands for the decision of this number; a * for anything."""
    path = re.sub(r'\*{2,}', '', path).rstrip('/.')
    if '*' in path:
        return any(root.glob(path))
    return (root / path).exists() or re.search(r'/\d{4}$', path) and any(root.glob(f'{path}-*.md')) or any(root.glob(f'{path}.*'))


def check_link(root, path, target):
    """Why a link of a document leads nowhere, or None."""
    if re.match(r'[a-z][a-z0-9+.-]*:', target):
        return None
    name, _, anchor = urllib.parse.unquote(target).partition('#')
    file = (root / path).parent / name if name else root / path
    if root.resolve() not in [file.resolve(), *file.resolve().parents]:
        return f'the link {target} leaves the tree'
    if not file.exists():
        return f'the link {target} leads to no file'
    if anchor and file.suffix == '.md' and anchor not in headings(file)[1]:
        return f'the link {target} leads to no heading of {file.name}'
    return None


def check_cited(root, path, name, cited):
    """The titles that a citation names and the document has not."""
    file = next((place for place in (root / name, (root / path).parent / name) if place.is_file()), None)
    if file is None:
        return                          # tools/tidy.py says so
    titles = [re.sub(r'^\d+\. ', '', title).lower() for title in headings(file)[0]]
    for quote in re.findall(r'"([^"]+)"', cited):
        if not any(title.startswith(quote.rstrip('.').lower()) for title in titles):
            yield f'{name} has no heading "{quote}"'
    bare = f'{cited.lower()} '
    if cited[0] != '"' and not any(bare.startswith(f'{title} ') or title.startswith(bare.strip()) for title in titles):
        yield f'{name} has no heading "{cited.strip()}"'


def texts(root, path):
    """(kind, text, function that says the line of a match) of the texts of a file."""
    for kind, pieces in words.texts_of(path, (root / path).read_text()):
        joined, starts = '', []
        for number, piece in pieces:
            starts.append((len(joined), number))
            joined += piece + ' '
        yield kind, joined, lambda found, starts=starts: [number for start, number in starts if start <= found.start()][-1]


def check_prose(root, path):
    """(line, problem) of paths and sections that the texts of a file name."""
    named_freely = str(path).startswith(HISTORY) or path.suffix == '.py'    # Python names what is built, or made for a test
    for _, text, line_of in texts(root, path):
        plain = '' if named_freely else TARGET.sub(blanks, words.ADDRESS.sub(blanks, text))
        for found in PATH.finditer(plain):
            if not MADE.search(found[1]) and not is_there(root, found[1]):
                yield line_of(found), f'names {found[1]}, which is not in this tree'
        for found in CITED.finditer(text.replace('`', ' ')):
            for problem in check_cited(root, path, found[1], found[2]):
                yield line_of(found), problem


def check_links(root, path):
    """(line, problem) of the links of a document."""
    lines = (root / path).read_text().splitlines()
    found = [(number, DEFINITION.match(line)) for number, line in enumerate(lines, 1)]
    defined = {match[1].lower(): (number, match[2]) for number, match in found if match}
    targets = list(defined.values())
    named_freely = str(path).startswith(HISTORY) or path.suffix == '.py'    # Python names what is built, or made for a test
    for _, text, line_of in texts(root, path):
        plain = words.SPAN.sub(blanks, text)
        targets += [(line_of(link), link[1]) for pattern in (LINK, ATTRIBUTE) for link in pattern.finditer(plain)]
        for used in USED.finditer(plain):
            if used[1].lower() not in defined:
                yield line_of(used), f'the link [{used[1]}] is defined nowhere'
    for number, target in targets:
        problem = check_link(root, path, target)
        if problem:
            yield number, problem


def check(root, path):
    yield from check_prose(root, path)
    if path.suffix == '.md':
        yield from check_links(root, path)


def main():
    root = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else words.TOOLS.parent
    paths = words.all_of(root, ENDINGS)
    wrong = {(str(path), number, problem) for path in paths for number, problem in check(root, path)}
    for path, number, problem in sorted(wrong):
        print(f'{path}:{number}: {problem}')
    if not wrong:
        print(f'the links of {len(paths)} files lead somewhere')
    return 1 if wrong else 0


if __name__ == '__main__':
    sys.exit(main())
