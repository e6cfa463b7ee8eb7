#!/usr/bin/env python3
"""All tests in all builds, counted. Started by script/test; the steps and their names are STEPS below.

Every step builds in build-test/STEP (or TEST_BUILDS/STEP). The trees of later steps are built while the tests of a step run: tests
wait for most of their time, and the compilers take only what they leave. A cmocka program counts by its tests, any other program as one, a build that
fails as one failure. Prints what failed as it goes, the end of each failure once more at the end, and
`N passed, N failed` as its last line.
"""
import base64
import concurrent.futures
import fcntl
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / 'tools' / 'wiki'))
import mediawiki                     # noqa: E402  pylint: disable=wrong-import-position
BUILDS = pathlib.Path(os.environ.get('TEST_BUILDS', ROOT / 'build-test')).resolve()
FUZZ_SECONDS = int(os.environ.get('FUZZ_SECONDS', '10'))
FUZZ_SEED = int(os.environ.get('FUZZ_SEED', '1'))      # 0: another each time, for runs that look for something new
FUZZ_KEPT = re.compile(r'Test unit written to (\S+)')
FUZZ_TOLD_BYTES = 2400
SLOWER = {'asan': 12, 'tsan': 20}    # meson's limits of time are multiplied by this; a hang ends, a slow machine does not
SLOWER_OTHERS = 6
BESIDE = 2 * os.cpu_count()          # programs of meson and files of scenes beside each other: they wait half of their time
LONG_S = 10                          # tests and files of scenes that took longer are named at the end of their step
PROGRESS_S = 30
TOLD_LINES, TOLD_COLUMNS = 30, 3600  # of each failure
REPEATED_MAX = 20                    # failures; of more, their names
MAY_SKIP = ' gate_format'            # judges by one version of the formatter; all else that skips lacks what deps installs
SANITIZER_ENV = {
    'ASAN_OPTIONS': 'detect_leaks=1:strict_string_checks=1',
    'UBSAN_OPTIONS': 'print_stacktrace=1:halt_on_error=1',
    'TSAN_OPTIONS': 'halt_on_error=1:second_deadlock_stack=1:die_after_fork=0',   # a test forks itself to kill the child
}
MEMORY, MEMORY_FREE_BYTES = '/dev/shm', 4 << 30
RAN = re.compile(r'^\[==========\] .*?(\d+) test\(s\) run\.', re.M)
FAILED = re.compile(r'^\[  FAILED  \] .*?(\d+) test\(s\), listed below', re.M)


NOISE = re.compile(r'\[ +(OK|RUN) +\]|#\d+\s+(NEW|REDUCE|RELOAD|INITED|pulse)|ok |INFO: ')  # how lines begin that tell of no failure
CAUSE = re.compile(r'ERROR: |WARNING: ThreadSanitizer|runtime error: |invariant|\[  FAILED  \]|\[   LINE   \]', re.I)


def digest(output):
    """The lines that tell why: from the first cause on, else the last ones."""
    lines = [line[:TOLD_COLUMNS] for line in output.splitlines() if line and not NOISE.match(line)]
    first = next((number for number, line in enumerate(lines) if CAUSE.search(line)), None)
    if first is None:
        return lines[-TOLD_LINES:]
    return lines[max(first - 3, 0):][:TOLD_LINES]


class Counts:
    def __init__(self):
        self.passed = self.failed = 0
        self.failures = []           # (name, output)

    def add(self, passed, failed):
        self.passed += passed
        self.failed += failed

    def join(self, others):
        self.add(others.passed, others.failed)
        self.failures += others.failures

    def tell(self, name, output=''):
        """Says what failed now, and again at the end."""
        say('\n'.join([f'FAILED {name}', *digest(output)]))
        self.failures.append((name, output))

    def repeat(self):
        for number, (name, output) in enumerate(self.failures):
            say(f'---- FAILED {name}')
            if number < REPEATED_MAX:
                say('\n'.join(f'     {line}' for line in digest(output)))


def say(text):
    sys.stdout.write(f'{text}\n')    # in one piece: the build of a later step speaks beside the tests
    sys.stdout.flush()


class Progress:
    """Says now and then how far a long step is: every PROGRESS_S seconds one line."""

    def __init__(self, what):
        self.what, self.next = what, time.monotonic() + PROGRESS_S

    def __call__(self, done, total=None):
        if time.monotonic() >= self.next:
            self.next = time.monotonic() + PROGRESS_S
            say(f'   {self.what} {done}' + (f' of {total}' if total else ''))


COUNTED = re.compile(r'\s*\[?(\d+)/(\d+)')    # how ninja and meson begin a line


# Runs its arguments at the lowest priority. A kernel that shares the processor between sessions first wants that said of the session.
LAST_IN_LINE = ('sh', '-c', '(echo 19 >/proc/self/autogroup) 2>/dev/null; exec nice -n 19 "$@"', 'sh')


def run_counted(command, what, env=None, behind=None):
    """As run, for what tells on each line how far it is. behind: a list; the command gives way to all others, and is in it."""
    progress, lines = Progress(what), []
    process = subprocess.Popen([str(part) for part in (*(LAST_IN_LINE if behind is not None else ()), *command)], cwd=ROOT,
                               env={**os.environ, **(env or {})}, text=True, errors='replace', stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, start_new_session=behind is not None)
    if behind is not None:
        behind.append(process)
    for line in process.stdout:
        lines.append(line)
        counted = COUNTED.match(line)
        if counted:
            progress(*counted.groups())
    return process.wait() == 0, ''.join(lines)


def run(command, env=None, timeout=None):
    """(whether it ended with 0, its output)"""
    try:
        done = subprocess.run([str(part) for part in command], cwd=ROOT, env={**os.environ, **(env or {})},
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=timeout, check=False)
    except subprocess.TimeoutExpired as expired:
        return False, (expired.output or b'').decode(errors='replace') + f'\nnot over after {timeout} s'
    return done.returncode == 0, done.stdout.decode(errors='replace')


def say_longest(what, durations):
    longest = sorted((item for item in durations if item[1] > LONG_S), key=lambda item: -item[1])
    if longest:
        say(f'   {what}: longest: ' + ', '.join(f'{name} {seconds:.0f} s' for name, seconds in longest))


def tests_of(name, wanted):
    """(names of tests, targets to build for them): those of build-test/name that wanted(test, files) is true for. test: as meson
    introspects it; files: the paths that its command names."""
    folder = BUILDS / name
    said = subprocess.run(['meson', 'introspect', '--tests', folder], stdout=subprocess.PIPE, text=True, check=True).stdout
    names, targets = [], []
    for test in json.loads(said):
        files = [pathlib.Path(os.path.normpath(folder / word)) for word in test['cmd']]
        if wanted(test, files):
            names.append(test['name'])
            targets += [file.relative_to(folder) for file in files if folder in file.parents]
    return names, targets


def in_suite(name, suite):
    """The targets of build-test/name that its tests of a suite want."""
    return tests_of(name, lambda test, _: any(one.split(':')[-1] == suite for one in test['suite']))[1]


def build(name, options, targets=(), env=None, behind=None):
    """'' when build-test/name is set up and built, else what the compilers said. targets: paths, or a function that says them once the
    tree is set up; none: all."""
    folder = BUILDS / name
    with TREE_LOCKS[name]:
        if not (folder / 'build.ninja').exists():
            shutil.rmtree(folder, ignore_errors=True)
            fine, output = run(['meson', 'setup', folder, ROOT, *options], env)
            if not fine:
                return output[-4000:]
        elif '-Dfuzz=true' in options:             # a new target is seen at setup only
            run(['meson', 'setup', '--reconfigure', folder, ROOT])
        targets = targets(name) if callable(targets) else targets
        fine, output = run_counted(['ninja', '-C', folder, '-k', '0', *targets], f'{name}: built', env, behind)
    return '' if fine else '\n'.join(line for line in output.splitlines() if not line.startswith('['))[:6000] or output[-6000:]


class Ahead:
    """Builds trees one after another, beside the steps. Nothing runs beside the first: it is built as fast as can be."""

    def __init__(self, names):
        self.processes = []
        self.pool = concurrent.futures.ThreadPoolExecutor(1)
        self.built = {name: self.pool.submit(self.build, name, self.processes if number else None)
                      for number, name in enumerate(names)}

    @staticmethod
    def build(name, behind):
        began = time.monotonic()
        options, targets, env = TREES[name]
        return build(name, options, targets, env, behind), time.monotonic() - began

    def wait(self, name):
        """What the compilers of this tree said, '' when it is built; says how long that took."""
        began = time.monotonic()
        broken, seconds = self.built[name].result()
        say(f'   {name}: built in {seconds:.0f} s, waited for {time.monotonic() - began:.0f} s')
        return broken

    def end(self):
        self.pool.shutdown(wait=False, cancel_futures=True)
        for process in self.processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)


def count_program(test):
    """(passed, failed) of one entry of meson's testlog.json. A program that was skipped compared nothing: a failure here."""
    text = (test.get('stdout') or '') + '\n' + (test.get('stderr') or '')
    fine = test['result'] in ('OK', 'EXPECTEDFAIL') or test['result'] == 'SKIP' and test['name'].endswith(MAY_SKIP)
    ran = sum(map(int, RAN.findall(text)))
    failed = sum(map(int, FAILED.findall(text)))
    if ran == 0:
        return (1, 0) if fine else (0, 1)
    if not fine and failed == 0:
        failed = 1                    # it broke down outside its tests
    return max(ran - failed, 0), failed


def test_env(name):
    """What the tests of build-test/name run with. Those of gcc write to a disk; the others write to memory, and so wait for no sync."""
    if name == 'gcc' or 'TMPDIR' in os.environ or not os.access(MEMORY, os.W_OK) or shutil.disk_usage(MEMORY).free < MEMORY_FREE_BYTES:
        return SANITIZER_ENV
    return {**SANITIZER_ENV, 'TMPDIR': MEMORY}


def meson_test(name, arguments, counts):
    """Runs meson's tests of build-test/name and counts them."""
    folder = BUILDS / name
    log = folder / 'meson-logs' / 'testlog.json'
    log.unlink(missing_ok=True)
    _, said = run_counted(['meson', 'test', '-C', folder, '--no-rebuild', '--timeout-multiplier',
                           SLOWER.get(name, SLOWER_OTHERS), '--num-processes', BESIDE, *arguments], f'{name}: ran', test_env(name))
    tests = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    for test in tests:
        passed, failed = count_program(test)
        counts.add(passed, failed)
        if failed:
            output = (test.get('stderr') or '') + '\n' + (test.get('stdout') or '')
            counts.tell(f'{name} {test["name"]} ({test["result"]}, {test["duration"]:.0f} s)', output)
    say_longest(name, ((test['name'].rpartition(' ')[2], test['duration']) for test in tests))
    if not tests:
        counts.tell(f'{name}: no tests ran', said)
        counts.add(0, 1)


def build_and_test(name, arguments, counts, ahead):
    broken = ahead.wait(name)
    if broken:
        counts.tell(f'{name}: the build', broken)
        counts.add(0, 1)              # what was built is tested all the same
    meson_test(name, arguments, counts)


FUZZ_SOURCES = sorted((ROOT / 'test' / 'fuzz').glob('fuzz_*.c'))
LOOSE = '-Db_lundef=false'
GCC = [], {'CC': 'gcc'}
LINES_ONLY = '-Dc_args=-g1'          # a backtrace needs no more; the places of variables are what takes long
ASAN = ['-Db_sanitize=address,undefined', LOOSE, LINES_ONLY], {'CC': 'clang'}    # sees more than gcc does, as NULL + 0
TREES = {                             # name: (options, targets, environment)
    'gcc': (GCC[0], (), GCC[1]),
    'release': (['--buildtype=release'], ('palimpsest', 'bench'), GCC[1]),
    'asan': (ASAN[0], (), ASAN[1]),
    'tsan': (['-Db_sanitize=thread', LOOSE, LINES_ONLY], lambda name: in_suite(name, 'tsan'), GCC[1]),
    'fuzz': (['-Dfuzz=true', '-Db_sanitize=address,undefined', LOOSE, f'{LINES_ONLY} -fsanitize=fuzzer-no-link'],
             tuple(f'test/fuzz/{source.stem}' for source in FUZZ_SOURCES), {'CC': 'clang'}),
}
TREE_LOCKS = {name: threading.Lock() for name in TREES}
TREES_OF = {'gcc': ('gcc',), 'release': ('release',), 'asan': ('asan',), 'tsan': ('tsan',), 'fuzz': ('fuzz',)}


def step_gcc(counts, ahead):
    build_and_test('gcc', ['--no-suite', 'long'], counts, ahead)


def step_release(counts, ahead):
    """Builds what benchmarks measure: its optimizer sees more, and so warns of more."""
    broken = ahead.wait('release')
    counts.add(not broken, bool(broken))
    if broken:
        counts.tell('release: the build', broken)


def step_asan(counts, ahead):
    """By clang, so that both compilers warn, and both compile what is tested."""
    build_and_test('asan', ['--no-suite', 'long', '--no-suite', 'gates'], counts, ahead)


def step_tsan(counts, ahead):
    build_and_test('tsan', ['--suite', 'tsan', '--no-suite', 'long'], counts, ahead)


def git(*words):
    return subprocess.run(['git', *words], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()


def changed():
    """(files, folders of src whose code or tests are among them): what differs from the last commit, or in it."""
    paths = git('diff', '--name-only', 'HEAD') + git('ls-files', '--others', '--exclude-standard')
    paths = paths or git('diff', '--name-only', 'HEAD~', 'HEAD')
    found = (re.match(r'(?:src|test/unit|test)/(\w+)/', path) for path in paths)
    return paths, sorted({match[1] for match in found if match and (ROOT / 'src' / match[1]).is_dir()})


def tests_of_areas(name, areas):
    """As tests_of: those in test/unit/AREA and test/AREA."""
    folder = BUILDS / name
    homes = [home / area for area in areas for home in (folder / 'test/unit', folder / 'test', ROOT / 'test/unit', ROOT / 'test')]
    return tests_of(name, lambda _, files: any(home in file.parents for home in homes for file in files))


def step_quick(counts, _ahead):
    """What changed alone: the tests of its folders in the build of the step gcc, and the gates."""
    paths, areas = changed()
    broken = build('gcc', GCC[0], ['build.ninja'], GCC[1])
    names, targets = ([], []) if broken else tests_of_areas('gcc', areas)
    say(f'   changed: {" ".join(areas) or "no folder of src"}; tests: {len(names)} and the gates')
    broken = broken or build('gcc', GCC[0], ['palimpsest', *targets], GCC[1])
    if broken:
        counts.tell('quick: the build', broken)
        counts.add(0, 1)
        return
    fine, output = run([sys.executable, ROOT / 'tools' / 'format.py', ROOT, *paths])
    counts.add(fine, not fine)
    if not fine:
        counts.tell('quick: format.py', output)
    meson_test('gcc', [*names, 'gate_layers', 'gate_tidy', 'gate_reference', 'gate_words', 'gate_links'], counts)


def fuzz_one(program, artifacts):
    """A short run over a copy of the seeds: (its name, whether it went well, what it said)."""
    name = program.name.removeprefix('fuzz_')
    with tempfile.TemporaryDirectory() as found:
        seeds = ROOT / 'test' / 'fuzz' / 'corpus' / name
        fine, output = run([program, f'-max_total_time={FUZZ_SECONDS}', f'-seed={FUZZ_SEED}', '-timeout=100', '-rss_limit_mb=2048',
                            f'-artifact_prefix={artifacts}/{name}-', found, *([seeds] if seeds.is_dir() else [])],
                           SANITIZER_ENV, timeout=FUZZ_SECONDS * 3 + 600)
    kept = FUZZ_KEPT.search(output)
    if not fine and kept:                                    # the machine that found it may be gone when somebody looks
        found = base64.b64encode(pathlib.Path(kept.group(1)).read_bytes()[:FUZZ_TOLD_BYTES]).decode()
        output = f'ERROR: the input in base64: {found}\n{output}'
    return name, fine, output


def step_fuzz(counts, ahead):
    """A crash keeps its input in build-test/fuzz/artifacts."""
    broken = ahead.wait('fuzz')
    if broken:
        counts.tell('fuzz: the build', broken)
        counts.add(0, 1)
        return
    artifacts = BUILDS / 'fuzz' / 'artifacts'
    artifacts.mkdir(exist_ok=True)
    programs = [BUILDS / 'fuzz' / 'test' / 'fuzz' / source.stem for source in FUZZ_SOURCES]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for name, fine, output in pool.map(lambda program: fuzz_one(program, artifacts), programs):
            counts.add(fine, not fine)
            if not fine:
                counts.tell(f'fuzz {name}', output)


SCENE_FILE = re.compile(r'== (\S+) .*: (\d+) s$')    # as test/scene/run.py heads what a file said


def run_scenes(step, name, counts, *files, jobs=BESIDE):
    """Runs the scenes of these files, or all of test/scene, with the binary of a build."""
    binary = BUILDS / name / 'palimpsest'
    if not binary.exists():
        counts.tell(f'{step}: {binary} was not built')
        counts.add(0, 1)
        return
    command = [sys.executable, ROOT / 'test' / 'scene' / 'run.py', binary, *(['--', *files] if files else [])]
    env = {**os.environ, 'SCENE_JOBS': str(jobs)}
    process = subprocess.Popen(command, cwd=ROOT, env=env, stdout=subprocess.PIPE, text=True, errors='replace')
    said = ['']                       # since the last one that passed
    progress, passed, durations = Progress(f'{step}: passed'), 0, []
    for line in process.stdout:
        took = SCENE_FILE.match(line)
        if took:
            durations.append((took[1], int(took[2])))
        if line.startswith('ok '):
            said, passed = [''], passed + 1
            progress(passed)
            continue
        print(line, end='', flush=True)
        said.append(line)
        if line.startswith('FAILED '):
            counts.failures.append((f'{step} {name} {line[7:].partition(":")[0].strip()}', ''.join(said)))
            said = ['']
    process.wait()
    say_longest(f'{step} {name}', durations)
    total = re.match(r'(\d+) passed, (\d+) failed', said[-1])
    if total is None:
        counts.tell(f'{step} {name}: ended with {process.returncode}', ''.join(said))
    counts.add(*(map(int, total.groups()) if total else (0, 1)))


def step_scene(counts, _ahead):
    run_scenes('scene', 'gcc', counts)


def step_scene_asan(counts, _ahead):
    run_scenes('scene', 'asan', counts)


def build_server(step, name, counts):
    options, _, env = TREES[name]
    broken = build(name, options, ['palimpsest'], env)
    if broken:
        counts.tell(f'{step} {name}: the build', broken)


def step_wiki(counts, _ahead):
    e2e = ROOT / 'test' / 'e2e'
    build_server('wiki', 'gcc', counts)
    files = [e2e / 'scene_run_wiki.py', e2e / 'scene_wiki.py', e2e / 'scene_told.py', e2e / 'scene_fresh.py',
             e2e / 'scene_edges.py', e2e / 'scene_rest.py', e2e / 'scene_quickstart.py']
    if mediawiki.editor_is_wired(os.environ.get('WIKI_VERSION') or None):
        files += [e2e / 'scene_editor.py', e2e / 'scene_robin.py']
    else:
        say('   left out: scene_editor.py, scene_robin.py: the VisualEditor of this MediaWiki asks no server beside it')
    if os.environ.get('EVENTBUS_DIR'):
        files += [e2e / 'scene_eventbus.py', e2e / 'scene_jobs.py']
    else:
        say('   left out: scene_eventbus.py, scene_jobs.py: EVENTBUS_DIR names no folder with the extension EventBus')
    run_scenes('wiki', 'gcc', counts, *files, jobs=1)         # each file has a wiki and a browser of its own: these do not wait


def step_wiki_asan(counts, _ahead):
    build_server('wiki', 'asan', counts)
    run_scenes('wiki', 'asan', counts, ROOT / 'test' / 'e2e' / 'scene_wiki.py')


def run_slow_wiki(step, counts):
    """One file of test/e2e that waits for most of its time."""
    build_server(step, 'gcc', counts)
    run_scenes(step, 'gcc', counts, ROOT / 'test' / 'e2e' / f'scene_{step}.py', jobs=1)


def step_lag(counts, _ahead):
    """A wiki on MariaDB whose replica is behind."""
    run_slow_wiki('lag', counts)


def step_faults(counts, _ahead):
    """What breaks around a wiki, and the wiki itself."""
    run_slow_wiki('faults', counts)


def run_cassandra(step, counts, *patterns):
    """The files of test/cassandra of these names, one after another. Each starts and ends nodes of its own: of the tables of many
    files a node has no memory left."""
    programs = ['palimpsest', 'example/cql', 'test/cassandra/client', 'bench/cql_strategies',
                *(f'test/unit/cassandra/{path.stem}' for path in sorted((ROOT / 'test/unit/cassandra').glob('test_*.c')))]
    broken = build('gcc', GCC[0], programs, GCC[1])
    if broken:
        counts.tell(f'{step}: the build', broken)
    files = sorted(path for pattern in patterns for path in (ROOT / 'test' / 'cassandra').glob(pattern))
    run_scenes(step, 'gcc', counts, *files, jobs=1)


def step_node(counts, _ahead):
    """A real Cassandra of one node: what servers keep there, and that they are one store."""
    run_cassandra('node', counts, *(f'scene_{name}.py' for name in ('cql', 'pages_served', 'quickstart', 'server')))


def step_cassandra(counts, _ahead):
    """All that one node is enough for."""
    run_cassandra('cassandra', counts, 'test_*.py', 'scene_*.py')


def step_cassandra_long(counts, _ahead):
    """Three nodes and two data centres; a real wiki on one node."""
    run_cassandra('cassandra-long', counts, 'long_*.py')


def step_fresh(counts, _ahead):
    """What the README tells a newcomer, and the wiki, on a Debian with nothing on it."""
    process = subprocess.Popen([ROOT / 'script' / 'fresh', 'tools/newcomer.sh'], cwd=ROOT, text=True, errors='replace',
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    last, failed = '', []
    for line in process.stdout:
        print(line, end='', flush=True)
        last = line
        if line.startswith('FAILED '):
            failed.append(line)
    process.wait()
    total = re.match(r'(\d+) passed, (\d+) failed', last)
    counts.add(*(map(int, total.groups()) if total else (0, 1)))
    if process.returncode != 0:
        counts.failures.append(('fresh', ''.join([*failed, last])))     # again: what is far above may be lost


def step_model(counts, _ahead):
    """The protocol between servers, searched by Spin; MODEL_BUDGET=large for days that have the time."""
    fine, output = run([sys.executable, ROOT / 'test' / 'models' / 'run.py'])
    total = re.search(r'^(\d+) passed, (\d+) failed\n?\Z', output, re.M)
    counts.add(*(map(int, total.groups()) if total else (0, 1)))
    if not fine:
        counts.tell('model', output)


STEPS = {
    'gcc': step_gcc, 'release': step_release, 'asan': step_asan, 'tsan': step_tsan, 'model': step_model, 'scene': step_scene,
    'scene-asan': step_scene_asan, 'wiki': step_wiki, 'wiki-asan': step_wiki_asan,
    'fuzz': step_fuzz, 'lag': step_lag, 'faults': step_faults, 'fresh': step_fresh, 'quick': step_quick,
    'node': step_node, 'cassandra': step_cassandra, 'cassandra-long': step_cassandra_long,
}
ALONE = ('lag', 'faults', 'fresh', 'quick', 'node', 'cassandra', 'cassandra-long')    # run by name only: lag and faults wait for most of their time, fresh wants root and takes what others do, the others do more than quick


def main():
    wanted = sys.argv[1:] or [name for name in STEPS if name not in ALONE]
    for name in wanted:
        if name not in STEPS:
            print(f'no step {name}; there are: {" ".join(STEPS)}', file=sys.stderr)
            return 2
    BUILDS.mkdir(parents=True, exist_ok=True)
    lock = open(BUILDS / '.lock', 'w', encoding='ascii')
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        say(f'another run is at work in {BUILDS}; waiting for it')
        fcntl.flock(lock, fcntl.LOCK_EX)
    counts = Counts()
    ahead = Ahead(dict.fromkeys(tree for name in wanted for tree in TREES_OF.get(name, ())))
    try:
        for name in wanted:
            counts.join(run_step(name, ahead))
    finally:
        ahead.end()
    counts.repeat()
    say(f'{counts.passed} passed, {counts.failed} failed')
    return 1 if counts.failed or counts.passed == 0 else 0


def run_step(name, ahead):
    counts, began = Counts(), time.monotonic()
    say(f'== {name}')
    try:
        STEPS[name](counts, ahead)
    except Exception:                 # pylint: disable=broad-except    # the other steps are run all the same
        counts.tell(f'{name}: the step itself', traceback.format_exc())
        counts.add(0, 1)
    say(f'   {name}: {counts.passed} passed, {counts.failed} failed, {time.monotonic() - began:.0f} s')
    return counts


if __name__ == '__main__':
    sys.exit(main())
