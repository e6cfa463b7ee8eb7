#!/usr/bin/env python3
"""run.py - checks flight.pml with Spin: its claims hold in every order of the faults, and its mutants are found out.

Usage: run.py [NAME...]. MODEL_BUDGET=large takes the budgets of the note (minutes and gigabytes); without, small ones.
Prints `ok NAME`, `FAILED NAME: why` and, last, `N passed, N failed`; exit 1 when anything failed. Wants spin and cc.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

MODEL = pathlib.Path(__file__).with_name('flight.pml')
NAMES = ('LOSSES', 'CRASHES', 'PUSHES', 'ENDS', 'ERRORS', 'DROPS', 'STALES')
TIMEOUT = 1800
MEGABYTES = {'small': 1024, 'large': 8192}
DEPTH = 1_000_000

# name: claim, mutant, {size: budgets in the order of NAMES}. What is small ends within seconds.
RUNS = {
    'safe_losses': ('safe', None, {'small': (1, 0, 1, 1, 1, 0, 0), 'large': (2, 0, 1, 2, 1, 0, 0)}),
    'safe_crashes': ('safe', None, {'small': (0, 1, 1, 1, 1, 0, 0), 'large': (1, 1, 2, 1, 1, 0, 0)}),
    'safe_drops': ('safe', None, {'small': (1, 0, 0, 1, 0, 1, 0), 'large': (1, 1, 1, 1, 1, 1, 0)}),
    'live_faults': ('live', None, {'small': (0, 1, 1, 1, 0, 0, 0), 'large': (1, 2, 2, 1, 1, 0, 0)}),
    'live_drops': ('live', None, {'small': (0, 0, 1, 1, 0, 1, 0), 'large': (0, 1, 1, 1, 1, 1, 0)}),
    'safe_versions': ('safe', None, {'small': (0, 0, 0, 1, 0, 0, 2), 'large': (1, 1, 1, 1, 1, 0, 2)}),
    'safe_versions_drops': ('safe', None, {'small': (0, 0, 0, 0, 0, 1, 1), 'large': (1, 0, 1, 1, 0, 1, 1)}),
    'live_versions': ('live', None, {'small': (0, 0, 1, 1, 0, 0, 1), 'large': (0, 1, 1, 1, 0, 0, 2)}),
    'mutant_put_keeps_none': ('safe', 'PUT_KEEPS_NONE', {'small': (0, 0, 0, 0, 0, 0, 1)}),
    'mutant_drop_keeps': ('safe', 'DROP_KEEPS', {'small': (0, 0, 0, 0, 0, 1, 1)}),
    'mutant_drop_forgets_fence': ('safe', 'DROP_FORGETS_FENCE', {'small': (0, 0, 1, 0, 0, 1, 0)}),
    'mutant_put_trusts_all': ('safe', 'PUT_TRUSTS_ALL', {'small': (0, 0, 0, 1, 0, 0, 0)}),
    'mutant_no_timer_lost_push': ('live', 'NO_TIMER', {'small': (0, 0, 1, 0, 0, 0, 0)}),
    'mutant_no_timer_crash': ('live', 'NO_TIMER', {'small': (0, 1, 0, 0, 0, 0, 0)}),
}


class ModelError(Exception):
    """Why a run does not say what it has to say."""


def call(command, folder):
    done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors='replace', timeout=TIMEOUT, check=False)
    if done.returncode != 0:
        raise ModelError(f'{command[0]} ended with {done.returncode}: {done.stdout[-2000:]}')
    return done.stdout


def verify(claim, mutant, budget, megabytes):
    """(errors, states) that Spin found."""
    defines = [f'-D{name}={value}' for name, value in zip(NAMES, budget)]
    defines += [f'-D{mutant}'] if mutant else []
    defines += ['-DLIVE'] if claim == 'live' else []
    with tempfile.TemporaryDirectory(prefix='model-') as folder:
        call(['spin', '-a', *defines, str(MODEL)], folder)
        options = ['-DNFAIR=4'] if claim == 'live' else []
        call(['cc', '-O1', '-w', f'-DMEMLIM={megabytes}', '-DCOLLAPSE', *options, '-o', 'pan', 'pan.c'], folder)
        output = call(['./pan', '-a', *(['-f'] if claim == 'live' else []), f'-m{DEPTH}', '-N', claim], folder)
    found = re.search(r'errors: (\d+)', output)
    states = re.search(r'^\s*(\d+) states, stored', output, re.M)
    if not found or not states:
        raise ModelError(f'no result: {output[-2000:]}')
    # What was not searched to its end holds no claim; a mutant that was found out may end early.
    if found.group(1) == '0' and re.search(r'max search depth too small|memory limit|out of memory', output):
        raise ModelError(f'not searched to the end: {output[-2000:]}')
    return int(found.group(1)), int(states.group(1))


def check(name, size):
    """One line of what was checked; ModelError when it failed."""
    claim, mutant, budgets = RUNS[name]
    budget = budgets.get(size, budgets['small'])
    errors, states = verify(claim, mutant, budget, MEGABYTES[size])
    told = f'{claim} {" ".join(f"{n}={b}" for n, b in zip(NAMES, budget))}: {states} states'
    if mutant and errors == 0:
        raise ModelError(f'nobody noticed the mutant; {told}')
    if not mutant and errors > 0:
        raise ModelError(f'the claim does not hold; {told}')
    return told


def main():
    size = os.environ.get('MODEL_BUDGET', 'small')
    wanted = sys.argv[1:] or list(RUNS)
    if size not in MEGABYTES or set(wanted) - set(RUNS):
        print(f'{__doc__}\nThere are: {" ".join(RUNS)}', file=sys.stderr)
        return 2
    failed = 0
    for name in wanted:
        try:
            print(f'ok {name} ({check(name, size)})', flush=True)
        except (ModelError, OSError, subprocess.TimeoutExpired) as error:
            failed += 1
            print(f'FAILED {name}: {error}', flush=True)
    print(f'{len(wanted) - failed} passed, {failed} failed')
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
