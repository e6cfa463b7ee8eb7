#!/usr/bin/env python3
"""Fails on an include that goes against tools/layers.txt: upwards, sideways, into a folder's private parts, or of a
sealed header through others.

Usage: layers.py [ROOT]. Prints file:line: what is wrong; exit 1 if anything is.
"""
import pathlib
import re
import sys

INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"')


def read_layers(path):
    """{folder: (folders it may include, its public headers or None for all)}, [(header, its words, who may see it)]"""
    layers = {}
    seals = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        line = line.split('#', 1)[0].strip()
        if not line:
            continue
        name, colon, rest = line.partition(':')
        if colon and name.startswith('sealed '):
            _, header, *words = name.split()
            seals.append((header, re.compile(r'\b(' + '|'.join(map(re.escape, words)) + r')\b'), rest.split()))
            continue
        if not colon or name in layers:
            sys.exit(f'{path}:{number}: not "folder: folders [| public headers]", or said twice')
        below, bar, public = rest.partition('|')
        headers = public.split() if bar else [name + '.h']
        layers[name] = (below.split(), None if headers == ['*'] else headers)
    for name, (below, _) in layers.items():
        for other in below:
            if other not in layers:
                sys.exit(f'{path}: {name} may include {other}, which has no line')
            if name == other or name in layers[other][0]:
                sys.exit(f'{path}: {name} and {other} include each other')
    return layers, seals


def check_include(layers, folder, target):
    """What is wrong with an include of target in a file of folder, or None."""
    other, slash, header = target.partition('/')
    if not slash or '..' in target:
        return f'"{target}" is not written as folder/header.h'
    if other == folder:
        return None
    if other not in layers:
        return f'"{target}" is in no folder of tools/layers.txt'
    below, _ = layers[folder]
    if other not in below:
        return f'{folder} may not include from {other}'
    public = layers[other][1]
    if public is not None and header not in public:
        return f'{target} is private to {other}'
    return None


def reached(headers, name, seen):
    """Adds to seen all headers of src that are seen through the file called name: {header: the one it came by}."""
    for target in headers.get(name, ('', []))[1]:
        if target not in seen and target in headers:
            seen[target] = name
            reached(headers, target, seen)
    return seen


def check_seals(seals, headers):
    """What is wrong with who sees sealed headers, or says their words."""
    wrong = []
    for sealed, words, places in seals:
        for name in sorted(headers):
            if any(name == place or name.startswith(place + '/') for place in places):
                continue
            seen = reached(headers, name, {})
            if sealed in seen:
                wrong.append(f'src/{name}:1: sees {sealed}, through {seen[sealed]}')
                continue
            word = words.search(headers[name][0])
            if word:
                number = headers[name][0].count('\n', 0, word.start()) + 1
                wrong.append(f'src/{name}:{number}: {word.group()} is sealed in {sealed}')
            wrong += [f'src/{name}:1: {header}, which it sees, names what is sealed in {sealed}'
                      for header in seen if words.search(headers[header][0])]
    return wrong


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent)
    layers, seals = read_layers(root / 'tools' / 'layers.txt')
    wrong = []
    files = {}      # name below src: (its text, what it includes)
    count = 0
    for path in sorted((root / 'src').rglob('*.[ch]')):
        folder = path.relative_to(root / 'src').parts[0]
        count += 1
        if folder not in layers:
            wrong.append(f'{path.relative_to(root)}:1: src/{folder} has no line in tools/layers.txt')
            continue
        text = path.read_text()
        includes = [found.group(1) for found in map(INCLUDE.match, text.splitlines()) if found]
        files[path.relative_to(root / 'src').as_posix()] = (text, includes)
        for number, line in enumerate(text.splitlines(), 1):
            include = INCLUDE.match(line)
            problem = include and check_include(layers, folder, include.group(1))
            if problem:
                wrong.append(f'{path.relative_to(root)}:{number}: {problem}')
    wrong += check_seals(seals, files)
    print('\n'.join(wrong) if wrong else f'{count} files keep the layers')
    return 1 if wrong else 0


if __name__ == '__main__':
    sys.exit(main())
