#!/usr/bin/env python3
"""Fails when clang-format (.clang-format) would write a C file in another way.

Usage: format.py [--write] [ROOT [FILE...]]. Looks at all files, or at those of FILE, below ROOT, that it would look at.
--write: rewrites such files instead. Versions of the formatter differ in what they
write, so only the one below judges (Debian 12 has it); with another one, or none, exit 77: not checked.
"""
import pathlib
import re
import subprocess
import sys

MAJOR = 14
FOLDERS = ('src', 'test', 'bench')
NOT_CHECKED = 77        # meson: skipped
FILES_A_CALL = 50


def formatter():
    """The name of a clang-format of version MAJOR, or None."""
    for name in (f'clang-format-{MAJOR}', 'clang-format'):
        try:
            said = subprocess.run([name, '--version'], capture_output=True, text=True, check=True).stdout
        except (OSError, subprocess.CalledProcessError):
            continue
        found = re.search(r'version (\d+)\.', said)
        if found and int(found.group(1)) == MAJOR:
            return name
    return None


def main():
    words = [word for word in sys.argv[1:] if word != '--write']
    root = pathlib.Path(words[0] if words else pathlib.Path(__file__).parent.parent)
    paths = sorted(str(path) for folder in FOLDERS for path in (root / folder).rglob('*.[ch]'))
    if words[1:]:
        wanted = {str(root / word) for word in words[1:]}
        paths = [path for path in paths if path in wanted]
    name = formatter()
    if name is None:
        print(f'no clang-format {MAJOR} here: nothing was checked')
        return NOT_CHECKED
    how = ['-i'] if '--write' in sys.argv else ['--dry-run', '-Werror']
    failed = 0
    for at in range(0, len(paths), FILES_A_CALL):
        done = subprocess.run([name, *how, *paths[at:at + FILES_A_CALL]], capture_output=True, text=True, check=False)
        failed |= done.returncode
        for line in sorted(set(re.findall(r'^(.*?:\d+):\d+: (?:error|warning)', done.stderr, re.M))):
            print(f'{line}: clang-format writes this in another way; tools/format.py --write')
    if not failed:
        print(f'{len(paths)} files are as clang-format {MAJOR} writes them')
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
