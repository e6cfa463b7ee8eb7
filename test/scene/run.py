#!/usr/bin/env python3
"""Runs every scene_*.py against each binary given and counts.

Usage: run.py BINARY... [-- FILE...]. The last line is `N passed, N failed`; exit 1 when anything failed.
"""
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent
FILE_TIMEOUT = 1500


def run_file(path, binary):
    """(passed, failed) of one file; one more failed when it ends other than by its own count."""
    print(f'== {path.name} {binary}', flush=True)
    passed = failed = 0
    with tempfile.TemporaryFile() as said:      # no pipe: what a scene leaves running would hold its end
        process = subprocess.Popen([sys.executable, str(path), binary], stdout=said, stderr=subprocess.STDOUT)
        try:
            ended = process.wait(FILE_TIMEOUT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            ended = f'nothing within {FILE_TIMEOUT} s'
        said.seek(0)
        output = said.read().decode(errors='replace')
    for line in output.splitlines():
        passed += line.startswith('ok ')
        failed += line.startswith('FAILED ')
        print(line, flush=True)
    if ended != (1 if failed else 0) or passed + failed == 0:
        print(f'FAILED {path.stem}: ended with {ended} after {passed} ok and {failed} failed')
        failed += 1
    return passed, failed


def main():
    arguments = sys.argv[1:]
    split = arguments.index('--') if '--' in arguments else len(arguments)
    binaries, names = arguments[:split], arguments[split + 1:]
    files = sorted(HERE.glob('scene_*.py')) if not names else [pathlib.Path(name) for name in names]
    if not binaries:
        print(__doc__, file=sys.stderr)
        return 2
    passed = failed = 0
    for binary in binaries:
        for path in files:
            one_passed, one_failed = run_file(path, binary)
            passed += one_passed
            failed += one_failed
    print(f'{passed} passed, {failed} failed')
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
