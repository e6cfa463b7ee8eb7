#!/usr/bin/env python3
"""Runs every scene_*.py against each binary given and counts.

Usage: run.py BINARY... [-- FILE...]. SCENE_JOBS files run beside each other (twice as many as processors); the longest
begin first, so that none of them ends alone. What a file said is shown when it is over, below `== FILE BINARY: N s`. The last line is `N passed, N failed`; exit 1 when anything
failed.
"""
import concurrent.futures
import os
import pathlib
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).parent
FILE_TIMEOUT = 1500
LONG = ['queue_pg_harm', 'fresh_rerender', 'queue_pg', 'import_git', 'queue_sizes', 'run', 'queue_own', 'import_xml', 'cli_exits',
        'streams', 'queue_cli', 'timeline', 'table_model', 'fresh_rest']
JOBS = int(os.environ.get('SCENE_JOBS', 2 * os.cpu_count()))


def run_file(path, binary):
    """(passed, failed, what it said, seconds) of one file; one more failed when it ends other than by its own count."""
    began = time.monotonic()
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
    passed = failed = 0
    for line in output.splitlines():
        passed += line.startswith('ok ')
        failed += line.startswith('FAILED ')
    if ended != (1 if failed else 0) or passed + failed == 0:
        output += f'FAILED {path.stem}: ended with {ended} after {passed} ok and {failed} failed\n'
        failed += 1
    return passed, failed, output, time.monotonic() - began


def main():
    arguments = sys.argv[1:]
    split = arguments.index('--') if '--' in arguments else len(arguments)
    binaries, names = arguments[:split], arguments[split + 1:]
    files = sorted(HERE.glob('scene_*.py')) if not names else [pathlib.Path(name) for name in names]
    if not binaries:
        print(__doc__, file=sys.stderr)
        return 2
    if not names:
        files.sort(key=lambda path: path.stem.removeprefix('scene_') not in LONG)
    runs = [(path, binary) for binary in binaries for path in files]
    passed = failed = 0
    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        runs = {pool.submit(run_file, *run): run for run in runs}
        for done in concurrent.futures.as_completed(runs):
            path, binary = runs[done]
            one_passed, one_failed, output, seconds = done.result()
            passed += one_passed
            failed += one_failed
            print(f'== {path.name} {binary}: {seconds:.0f} s')
            print(output, end='', flush=True)
    print(f'{passed} passed, {failed} failed')
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
