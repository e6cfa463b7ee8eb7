#!/usr/bin/env python3
"""Fails on an include that goes against tools/layers.txt: upwards, sideways, or into a folder's private parts.

Usage: layers.py [ROOT]. Prints file:line: what is wrong; exit 1 if anything is.
"""
import pathlib
import re
import sys

INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"')


def read_layers(path):
    """{folder: (folders it may include, its public headers or None for all)}"""
    layers = {}
    for number, line in enumerate(path.read_text().splitlines(), 1):
        line = line.split('#', 1)[0].strip()
        if not line:
            continue
        name, colon, rest = line.partition(':')
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
    return layers


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


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent)
    layers = read_layers(root / 'tools' / 'layers.txt')
    wrong = []
    count = 0
    for path in sorted((root / 'src').rglob('*.[ch]')):
        folder = path.relative_to(root / 'src').parts[0]
        count += 1
        if folder not in layers:
            wrong.append(f'{path.relative_to(root)}:1: src/{folder} has no line in tools/layers.txt')
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            include = INCLUDE.match(line)
            problem = include and check_include(layers, folder, include.group(1))
            if problem:
                wrong.append(f'{path.relative_to(root)}:{number}: {problem}')
    print('\n'.join(wrong) if wrong else f'{count} files keep the layers')
    return 1 if wrong else 0


if __name__ == '__main__':
    sys.exit(main())
