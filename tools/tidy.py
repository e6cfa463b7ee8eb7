#!/usr/bin/env python3
"""Fails on what a compiler lets through and this tree keeps out: sizes, banned calls, TODOs nobody owns, guards, and
citations of documents that are not here.

Usage: tidy.py [ROOT]. Prints file:line: what is wrong; exit 1 if anything is.
Without universal-ctags nothing is said of functions, and the exit is 77 when all else is right: not checked.
"""
import json
import pathlib
import re
import shutil
import subprocess
import sys

NOT_CHECKED = 77        # meson: skipped
FUNCTION_LINES_MAX = 70
PARAMETERS_MAX = 6
SOURCE_LINES_MAX = 600  # of src, without those that are comments
FILE_LINES_MAX = 800    # of src, with them
TEST_LINES_MAX = 800    # of test and bench
HEADER_LINES_MAX = 250
COLUMNS_MAX = 100
FOLDERS = ('src', 'test', 'bench')

# Everywhere; and in src outside loop, which is the only door to clocks and randomness.
BANNED = ('strcpy', 'strncpy', 'stpcpy', 'strcat', 'strncat', 'sprintf', 'vsprintf', 'strtok', 'strtok_r', 'atoi',
          'atol', 'atoll', 'atof', 'strtol', 'strtoll', 'strtoul', 'strtoull', 'gets', 'alloca', 'setjmp', 'longjmp',
          'rand', 'srand', 'random', 'srandom', 'rand_r', 'drand48', 'tmpnam', 'mktemp')
BANNED_OUTSIDE_LOOP = ('time', 'gettimeofday', 'clock_gettime', 'getrandom', 'arc4random')
CALL = re.compile(r'(?<![\w.>])(\w+)\s*\(')
NOT_CODE = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
COMMENT_LINES = re.compile(r'^[ ]*/\*.*?\*/[ ]*\n', re.M | re.S)
OPENING = re.compile(r'/\* [a-z0-9_]+\.c - \S')
# Names of documents that only those had who wrote this; and paths of documents, with the section that may follow.
CITED_ELSEWHERE = re.compile(r'\b(D(?:ESIGN)|C(?:ONTRACT)|C(?:ONVENTIONS)|notes (?:of the peer|\d+\.\d|[\w-]+\.md))\b')
CITED_FILE = re.compile(r'\b((?:docs|bench)/(?:adr/\d{4}\b|[\w./-]+\.md)|[a-z_-]+\.md(?= \d))(?:,? (\d\d?)\b)?')
CITING = ('src', 'test', 'bench', 'tools', 'script', 'packaging', 'docs')
CITING_SUFFIXES = ('.c', '.h', '.py', '.pml', '.md', '.build', '.sh', '.txt', '')
NOT_OURS = ('corpus', 'data', '__pycache__')
TODO = re.compile(r'\b(TODO|FIXME|XXX)\b(?!\(?:? ?#\d+)')

# What there is one of in src: how another one would show, its home (and who else may), what it is.
ONE_OF_EACH = (
    (re.compile(r'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789[+-]'), 'src/codec/base64.c', 'base64'),
    (re.compile(r"""u00"|'u', '0', '0'|\\\\u%"""), 'src/codec/json_text.c', 'JSON strings'),
    (re.compile(r"""!#\$%&'\*\+-|\['!'\] = 1"""), 'src/http/negotiate.c', 'HTTP tokens'),
    (re.compile(r'\b(sigaction|signal|pthread_sigmask|sigprocmask) *\('),
     ('src/loop/signals.c', 'src/engine/map_guard.c'), 'what signals do'),
    (re.compile(r'\bjson_load'), 'src/codec/json.c', 'reading JSON into a tree'),
    (re.compile(r'bfnrtu'), 'src/codec/json_scan.c', 'reading JSON token by token'),
    (re.compile(r'#include <curl/'), 'src/http/client_impl.h', 'the client of HTTP'),
    (re.compile(r'"wait="|STR\("wait"\)'), 'src/http/negotiate.c', 'Prefer'),
)


def code_only(text):
    """The text with comments and literals blanked, line for line."""
    return NOT_CODE.sub(lambda found: re.sub(r'[^\n]', ' ', found.group()), text)


def check_lines(path, text):
    lines = text.splitlines()
    limit = FILE_LINES_MAX if path.parts[0] == 'src' else TEST_LINES_MAX
    limit = HEADER_LINES_MAX if path.suffix == '.h' else limit
    if len(lines) > limit:
        yield limit + 1, f'{len(lines)} lines, {limit} are the limit'
    if path.parts[0] == 'src' and path.suffix == '.c':
        count = sum(1 for line in COMMENT_LINES.sub('', text).splitlines())
        if count > SOURCE_LINES_MAX:
            yield SOURCE_LINES_MAX + 1, f'{count} lines without comments, {SOURCE_LINES_MAX} are the limit'
    for number, line in enumerate(lines, 1):
        if len(line) > COLUMNS_MAX:
            yield number, f'{len(line)} columns, {COLUMNS_MAX} are the limit'
        if TODO.search(line):
            yield number, 'a TODO carries an issue number: TODO #12'
        if line != line.rstrip():
            yield number, 'space at the end of the line'
        if '\t' in line:
            yield number, 'a tab'


def check_opening(path, text):
    """A source says what it is: a comment that begins with its name, `/* heap.c - ...`, or `/* A heap: ...`."""
    if path.parts[0] == 'src' and path.suffix == '.c' and not OPENING.match(text):
        yield 1, f'opens with no comment that says what it is: /* {path.name} - ... */'


def check_calls(path, text):
    banned = set(BANNED)
    if path.parts[0] == 'src' and path.parts[1] != 'loop':
        banned.update(BANNED_OUTSIDE_LOOP)
    for number, line in enumerate(code_only(text).splitlines(), 1):
        for call in CALL.finditer(line):
            if call.group(1) in banned:
                yield number, f'{call.group(1)}() is banned'


def check_guard(path, text):
    """#ifndef FOLDERS_FILE_H, #define of the same, #endif at the end; outside src any name that ends so."""
    if path.suffix != '.h':
        return
    name = re.sub(r'\W', '_', '_'.join(path.parts[1:])).upper()
    if path.parts[0] != 'src':
        name = r'\w*' + re.sub(r'\W', '_', path.name).upper()
    code = code_only(text).strip()
    if not re.match(rf'#ifndef ({name})\s*\n\s*#define \1\s*\n', code) or not code.endswith('#endif'):
        yield 1, f'no include guard {name} around the whole header'


def check_one_of_each(path, text):
    for pattern, homes, what in ONE_OF_EACH:
        homes = (homes,) if isinstance(homes, str) else homes
        if path.parts[0] != 'src' or str(path) in homes:
            continue
        for number, line in enumerate(text.splitlines(), 1):
            if pattern.search(line):
                yield number, f'{what}: {homes[0]} has it already'


def citations(path, text):
    """(line, words) that may cite: of C the comments, of what else there is all."""
    if path.suffix in ('.c', '.h'):
        text = ''.join(re.sub(r'[^\n]', ' ', part) if number % 2 == 0 else part
                       for number, part in enumerate(re.split(r'(/\*.*?\*/|//[^\n]*)', text, flags=re.S)))
    return enumerate(text.splitlines(), 1)


def check_citations(root, path):
    """Whoever reads has the tree alone: a document that is cited is in it, and a section that is named in the document."""
    for number, line in citations(path, (root / path).read_text(errors='replace')):
        for name in CITED_ELSEWHERE.findall(line):
            yield number, f'cites {name.strip()}, which is not in this tree'
        for name, section in CITED_FILE.findall(line):
            found = [place for place in (root / name, (root / path).parent / name) if place.is_file()]
            found = found or list(root.glob(f'{name}-*.md'))       # docs/adr/0001
            if not found:
                yield number, f'cites {name}, which is not in this tree'
            elif section and not re.search(rf'^## {section}\.', found[0].read_text(), re.M):
                yield number, f'cites section {section} of {name}, which it has not'


def parameters(signature):
    """How many a signature as "(int a, void (*f)(int, int))" has."""
    inside, depth, count = signature.strip()[1:-1].strip(), 0, 1
    for c in inside:
        depth += (c == '(') - (c == ')')
        count += c == ',' and depth == 0
    return 0 if inside in ('', 'void') else count


def check_parameters(tag):
    count = parameters(tag.get('signature', '()'))
    if count > PARAMETERS_MAX:
        yield (tag['path'], tag['line'],
               f"{tag['name']} has {count} parameters, {PARAMETERS_MAX} are the limit: give it a struct")


def check_functions(root, paths):
    """(path, line, problem) of functions with too many lines or parameters, as universal-ctags measures them."""
    ctags = subprocess.run(
        ['ctags', '--languages=C', '--langmap=C:.c.h', '--kinds-C=f', '--fields=+neS', '--output-format=json', '-f',
         '-', '-L', '-'],
        input='\n'.join(map(str, paths)), cwd=root, capture_output=True, text=True, check=True)
    for line in ctags.stdout.splitlines():
        tag = json.loads(line)
        if tag.get('_type') != 'tag' or 'end' not in tag:
            continue
        length = tag['end'] - tag['line'] + 1
        if length > FUNCTION_LINES_MAX:
            yield (tag['path'], tag['line'],
                   f"{tag['name']} has {length} lines, {FUNCTION_LINES_MAX} are the limit")
        if tag['path'].startswith('src/'):
            yield from check_parameters(tag)


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent)
    paths = sorted(path.relative_to(root) for folder in FOLDERS for path in (root / folder).rglob('*.[ch]'))
    measured = shutil.which('ctags') is not None
    wrong = list(check_functions(root, paths)) if paths and measured else []
    for path in paths:
        text = (root / path).read_text()
        for check in (check_lines, check_opening, check_calls, check_guard, check_one_of_each):
            wrong += [(str(path), number, problem) for number, problem in check(path, text)]
    documents = [path for folder in CITING for path in (root / folder).rglob('*') if path.suffix in CITING_SUFFIXES]
    for path in sorted([*documents, *root.glob('*.md')]):
        inside = path.relative_to(root)
        if path.is_file() and not set(inside.parts) & set(NOT_OURS):
            wrong += [(str(inside), number, problem) for number, problem in check_citations(root, inside)]
    for path, number, problem in sorted(wrong):
        print(f'{path}:{number}: {problem}')
    if wrong:
        return 1
    print(f'{len(paths)} files are tidy' if measured else 'no universal-ctags here: functions were not checked')
    return 0 if measured else NOT_CHECKED


if __name__ == '__main__':
    sys.exit(main())
