#!/usr/bin/env python3
"""Fails on prose that has to be read twice: sentences of more than 25 words, known knots (tools/words.txt), misspelt words.

Usage: words.py FILE...     these files: Markdown, or the comments of C files and headers
       words.py [ROOT]      the gate: the files that tools/words_clean.txt lists are clean, and no word is misspelt in any
                            document or comment of ROOT
       words.py --grow [ROOT]    adds to this list each document and header that is clean by now
Prints file:line: reason: sentence; exit 1 if anything is found. Without codespell no word is looked up, and the exit
of the gate is 77 when all else is right: not checked.

A text is a paragraph, a heading, an item of a list, or a cell of a table. A span of code, an address, and a path is one
word. Blocks of code are not read. In a comment, a line with gaps is a row of cells, and a sketch is not read.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

NOT_CHECKED = 77        # meson: skipped
WORDS_MAX = 25
CHAINS = (              # of these words two may be in one sentence
    (re.compile(r'\b(?:it|its|itself)\b', re.I), 'three of it, its: name the nouns'),
    (re.compile(r'\bthat\b', re.I), 'three of that: make two sentences'),
    (re.compile(r"\b(?:not|no|cannot|never|nothing|nobody|none|neither|nor|without)\b|n't\b", re.I), 'three negations: say what happens'),
)
CHAIN_MAX = 2
QUOTED_WORDS = 6
TOOLS = pathlib.Path(__file__).resolve().parent
CODE_WORD = '\N{LOWER RIGHT PENCIL}'       # stands for a span of code while sentences are judged
NOT_OURS = ('corpus', 'data', '__pycache__', 'subprojects')
PLACES = ('docs', 'src', 'example', 'bench', 'test', 'packaging', 'tools')

FENCE = re.compile(r'(`{3,}|~{3,})')
ITEM = re.compile(r'(\s*)([-*+]|\d{1,3}[.)])(\s+|$)')
HEADING = re.compile(r'(#{1,6})\s+(.*?)\s*#*\s*$')
DEFINITION = re.compile(r'\[[^\]]+\]:\s+\S+')
TAG = re.compile(r'</?[A-Za-z][^>]*>|<!--.*?-->')
SPAN = re.compile(r'(`+)(?!`)(.+?)(?<!`)\1(?!`)')
LINK = re.compile(r'!?\[([^\[\]]*)\](?:\([^()\s]*(?:\([^()]*\)[^()\s]*)*(?:\s+"[^"]*")?\)|\[[^\]]*\])')
ADDRESS = re.compile(r'<?\bhttps?://[^\s<>)]*[^\s<>).,;:]>?')
BEGIN = r"""["'“‘(\[*_]*(?:[A-Z0-9""" + CODE_WORD + r"""/-]|\w+/\w|\w+_\w|\w+\.(?:[a-z]\w*\b)|\w+\()"""    # a name may begin a sentence
END = re.compile(r"""([.!?]["'”’)\]*_]*)\s+(?=""" + BEGIN + ")")
ABBREVIATION = re.compile(r'(?:\b(?:e\.g|i\.e|vs|cf|St|Mr|Dr|approx|fig|No)|\b[A-Z])\.$')
WORD = re.compile(r'[A-Za-z0-9' + CODE_WORD + r']')
COMMENT = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
SKETCH = re.compile(r'[-=]{3,}|-+>|<-+|[|]|[{};]\s*$|^\s*[#$]')


def pieces_of_rows(line):
    """(offset, text) of the cells of a row `| a | b |`; a pipe in a span of code, or behind a backslash, parts nothing."""
    cells, began, inside, at = [], None, False, 0
    while at < len(line):
        if line[at] == '\\':
            at += 1
        elif line[at] == '`':
            inside = not inside
        elif line[at] == '|' and not inside:
            if began is not None:
                cells.append((began, line[began:at]))
            began = at + 1
        at += 1
    if began is not None and line[began:].strip():
        cells.append((began, line[began:]))
    return [(offset, text) for offset, text in cells if text.strip()]


class Texts:
    """The texts of a document: lists of (line, words), with what kind each is: text, heading, cell."""

    def __init__(self):
        self.found, self.open = [], []

    def add(self, number, line):
        if line.strip():
            self.open.append((number, line.strip()))

    def end(self, kind='text'):
        if self.open:
            self.found.append((kind, self.open))
        self.open = []

    def alone(self, number, line, kind):
        self.end()
        self.add(number, line)
        self.end(kind)


def markdown(lines, texts=None):
    """The texts of Markdown. lines: (number, line)."""
    texts = texts or Texts()
    fence, indents, blank, code, hidden = None, [0], True, False, False
    for number, line in lines:
        line = line.expandtabs(4).rstrip()
        inner = re.sub(r'^\s*(?:> ?)+', '', line)
        here = len(line) - len(line.lstrip())
        if fence:
            fence = None if inner.strip().startswith(fence) and not inner.strip().strip(fence[0]) else fence
            continue
        if hidden:
            hidden = '-->' not in line
            continue
        if not inner.strip():
            texts.end()
            blank = True
            continue
        opened = FENCE.match(inner.strip())
        if opened:
            texts.end()
            fence, blank = opened[1], False
            continue
        if inner.lstrip().startswith('<!--') and '-->' not in inner:
            texts.end()
            hidden = True
            continue
        if (blank or code) and here >= 4 and not (blank and ITEM.match(inner) and here < indents[-1] + 4):
            while len(indents) > 1 and here < indents[-1]:
                indents.pop()
            if here >= indents[-1] + 4:
                code, blank = True, True
                continue
        code = False
        item = ITEM.match(inner)
        if item and len(item[1]) < indents[-1] + 4:
            texts.end()
            while len(indents) > 1 and len(item[1]) < indents[-1]:
                indents.pop()
            indents.append(len(item[0]))
            inner = inner[item.end():]
        elif blank:
            while len(indents) > 1 and here < indents[-1]:
                indents.pop()
        blank = False
        heading = HEADING.match(inner.strip())
        if heading:
            texts.alone(number, heading[2], 'heading')
            blank, indents = True, [0]
        elif inner.lstrip().startswith('|'):
            if not re.fullmatch(r'[\s|:-]+', inner):
                for _, cell in pieces_of_rows(inner):
                    texts.alone(number, cell, 'cell')
        elif not DEFINITION.match(inner.strip()) and not re.fullmatch(r'\s*([-*_=])(\s*\1)*\s*', inner):
            texts.add(number, inner)
    texts.end()
    return texts.found


def comments(text):
    """The comments of C: lists of (number, line) without their frame."""
    for found in COMMENT.finditer(text):
        if found[0][0] != '/':
            continue
        first = text.count('\n', 0, found.start()) + 1
        lines = found[0].removeprefix('//').removeprefix('/*').removesuffix('*/').split('\n')
        yield [(first + number, re.sub(r'^\s*\*(?=\s|$)', '', line) if number else line) for number, line in enumerate(lines)]


def of_comments(text):
    """The texts of the comments of C. Sketches of states and layouts end a text, and rows have a text for each cell."""
    found = []
    for comment in comments(text):
        texts, prose, row = Texts(), [], False
        for number, line in [*comment, (0, '')]:
            line = line.rstrip()
            cells = re.split(r'(?<![.:;,!?\s])\s{2,}(?=\S)|\s{3,}(?=\S)', line.strip())
            deep = len(line) - len(line.lstrip()) > 3
            if not line.strip() or SKETCH.search(line) or len(cells) > 1 or (row and deep):
                found += markdown(prose)
                prose = []
                if len(cells) > 1 or (row and deep):
                    for cell in cells:
                        texts.alone(number, cell, 'cell')
                row = len(cells) > 1 or (row and deep)
            else:
                prose.append((number, re.sub(r'^ ', '', line)))
                row = False
        found += texts.found
    return found


def of_python(text):
    """The texts of the remarks and the long strings of Python."""
    found = []
    for match in re.finditer(r'"""(.*?)"""|(?<!["\'\w&])#(?: |$)[^\n]*', text, re.S):
        first = text.count('\n', 0, match.start()) + 1
        lines = (match[1] if match[1] is not None else match[0].lstrip('# ')).split('\n')
        found += markdown([(first + number, line.strip()) for number, line in enumerate(lines)])
    return found


def sentences(pieces):
    """(line, sentence) of a text, with CODE_WORD for each span of code, and (line, sentence) as it is written."""
    joined, starts = '', []
    for number, piece in pieces:
        starts.append((len(joined), number))
        joined += piece + ' '

    def line_of(offset):
        return [number for start, number in starts if start <= offset][-1]

    def keep(match, word):
        """The word in place of the match, as long as the match is, so that offsets stay."""
        return word + '\0' * (len(match[0]) - len(word))

    plain = SPAN.sub(lambda match: keep(match, CODE_WORD), joined)
    plain = LINK.sub(lambda match: keep(match, match[1]), plain)
    plain = ADDRESS.sub(lambda match: keep(match, CODE_WORD), plain)
    plain = TAG.sub(lambda match: keep(match, ''), plain)
    began, ends = 0, []
    squeezed = [(offset, char) for offset, char in enumerate(plain) if char != '\0']
    text = ''.join(char for _, char in squeezed)
    for end in END.finditer(text):
        if not ABBREVIATION.search(text[:end.end(1)].rstrip('"\')')) or end[1] != '.':
            ends.append(end.end())
    for end in [*ends, len(text)]:
        sentence = text[began:end].strip()
        if sentence:
            lead = len(text[began:end]) - len(text[began:end].lstrip())
            first, last = squeezed[began + lead][0], squeezed[end - 1][0]
            yield line_of(first), sentence, ' '.join(joined[first:last + 1].split())
        began = end


def count_words(sentence):
    return sum(1 for word in sentence.split() if WORD.search(word))


def told_words(path=TOOLS / 'words.txt'):
    """([(pattern, reason)], [words that are spelt right]) of the list. A line is a pattern, or `= WORD`, two spaces or more, and
    the reason; # begins a remark."""
    patterns, spelt = [], []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if line.strip() and not line.startswith('#'):
            pattern, _, reason = line.partition('  ')
            if not reason.strip():
                raise ValueError(f'{path}:{number}: no reason behind two spaces')
            if pattern.startswith('= '):
                spelt.append(pattern[2:])
            else:
                patterns.append((re.compile(pattern, re.I), reason.strip()))
    return patterns, spelt


def quoted(words):
    """The first words of what was found, as a reader may look for them."""
    words = words.replace(CODE_WORD, '`...`').split()
    return '"' + ' '.join(words[:QUOTED_WORDS]) + ('..."' if len(words) > QUOTED_WORDS else '"')


def faults(kind, sentence, known):
    """The reasons for which one sentence has to be written anew."""
    count = count_words(sentence)
    if count > WORDS_MAX:
        yield f'{count} words, {WORDS_MAX} are the limit'
    for pattern, reason in CHAINS:
        if len(pattern.findall(sentence)) > CHAIN_MAX:
            yield reason
    for pattern, reason in known:
        found = pattern.search(sentence)
        if found and (kind != 'heading' or not pattern.pattern.startswith('(?-i:^')):
            yield f'{quoted(found[0])}: {reason}'


def texts_of(path, text):
    """(kind, [(line, words)]) of the texts of a file, by its name."""
    if path.suffix in ('.c', '.h'):
        return of_comments(text)
    return of_python(text) if path.suffix == '.py' else markdown(enumerate(text.splitlines(), 1))


def check(path, known):
    """[(line, reason: sentence)] of a file."""
    wrong = []
    for kind, pieces in texts_of(path, path.read_text()):
        for number, plain, sentence in sentences(pieces):
            wrong += [(number, f'{reason}: {sentence}') for reason in faults(kind, plain, known)]
    return wrong


def spelt_wrong(root, paths, allowed):
    """[(path, line, reason)] of words that codespell knows as misspelt. Only what is read as prose is looked up."""
    with tempfile.TemporaryDirectory() as folder:
        for number, path in enumerate(paths):
            lines = [''] * (len((root / path).read_text().splitlines()) + 2)
            for _, pieces in texts_of(path, (root / path).read_text()):
                for line, piece in pieces:
                    lines[line] += ' ' + ADDRESS.sub('', SPAN.sub('', piece))
            (pathlib.Path(folder) / f'{number}').write_text('\n'.join(lines[1:]) + '\n')
        said = subprocess.run([shutil.which('codespell'), '--ignore-words-list', ','.join(allowed), '.'], cwd=folder,
                              capture_output=True, text=True, check=False, env={**os.environ, 'HOME': folder})
    if said.returncode not in (0, 65):
        raise RuntimeError(f'codespell: {said.stderr}')
    for line in said.stdout.splitlines():
        found = re.match(r'(?:\./)?(\d+):(\d+): (.*)', line)
        if found:
            path = paths[int(found[1])]
            yield str(path), int(found[2]), f'misspelt: {found[3]}'


def all_of(root, endings=('*.md', '*.c', '*.h')):
    """Documents and C files of the tree, or the files with these endings."""
    found = [path for place in PLACES for ending in endings for path in (root / place).rglob(ending)]
    inside = (path.relative_to(root) for path in sorted([*found, *root.glob('*.md')]))
    return [path for path in inside if not set(path.parts) & set(NOT_OURS)]


def clean_files(root):
    """(paths, [names of the list that are not there]). A name may be a pattern, of which nothing need be there."""
    listed, gone = [], []
    for line in (root / 'tools/words_clean.txt').read_text().splitlines():
        if line.strip() and not line.startswith('#'):
            found = sorted(root.glob(line.strip()))
            listed += [path.relative_to(root) for path in found]
            gone += [] if found or '*' in line else [line.strip()]
    return listed, gone


def grow(root):
    """Adds clean documents and headers to the list; prints their names."""
    known, (listed, _), path = told_words()[0], clean_files(root), root / 'tools/words_clean.txt'
    new = [str(name) for name in all_of(root, ('*.md', '*.h')) if name not in listed and not check(root / name, known)]
    path.write_text(path.read_text() + ''.join(f'{name}\n' for name in new))
    print('\n'.join([*new, f'{len(new)} more files are listed']))
    return 0


def tell(wrong):
    for path, number, problem in sorted(set(wrong)):
        print(f'{path}:{number}: {problem}')
    return 1 if wrong else 0


def main():
    if sys.argv[1:2] == ['--grow']:
        return grow(pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else TOOLS.parent)
    paths = [pathlib.Path(name) for name in sys.argv[1:]]
    gate = not paths or paths[0].is_dir()
    spelling = shutil.which('codespell') is not None
    if gate:
        root = paths[0] if paths else TOOLS.parent
        paths, gone = clean_files(root)
        wrong = [('tools/words_clean.txt', 1, f'lists {name}, which is not in this tree') for name in gone]
        spelt = all_of(root)
    else:
        root, wrong, spelt = pathlib.Path(), [], paths
    known, allowed = told_words()
    for path in paths:
        wrong += [(str(path), number, problem) for number, problem in check(root / path, known)]
    if spelling and spelt:
        wrong += spelt_wrong(root, spelt, allowed)
    if tell(wrong):
        return 1
    if not spelling:
        print('no codespell here: spelling was not checked')
        return NOT_CHECKED if gate else 0
    print(f'{len(paths)} files read well' + (f', {len(spelt)} are spelt right' if gate else ''))
    return 0


if __name__ == '__main__':
    sys.exit(main())
