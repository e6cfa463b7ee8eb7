"""What scenes that walk through a document stand on: its commands are run as a reader runs them, in one shell and one folder.

    walk = Walk(binary, text, {'7231': free_port(), 'https://wiki.example.org': wiki.base})
    with walk:
        walk.go()                       # or go('A section'): the commands below that heading alone

An indented block that begins with `$ ` is a session: each such line is a command, what follows is its output. A block that
begins with `# NAME.yaml` (or .php, .vcl, .cfg) is a file of that name. A command `# words` is done by a person: `by_hand`
has a function for it. Output is compared without what differs each time (plain); `...` stands for any lines. A command
that only looks is repeated until its output is as shown, or for too long.
WALK_SHOW=1 prints each command with its real output.
"""
import contextlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import time

from harness import SceneError

ROOT = pathlib.Path(__file__).resolve().parents[2]
END = '\x1e'
COMMAND_TIMEOUT = 240
LOOK_TIMEOUT = 60       # of commands that only look
END_TIMEOUT = 60
FILE = re.compile(r'# ([\w.-]+\.(?:yaml|php|vcl|cfg))$')
LOOKS = re.compile(r'(?:curl (?!.*(?: -X | --json | -d ))|palimpsest (?:get|history|explain|fresh why|fresh ls|stash ls|queue stats|queue peek'
                   r'|change ls|flight ls|policy show) )')
NAMES = re.compile(r'[0-9a-f]{8}-[0-9a-f]{4}-1[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}|\b[0-9A-Za-z]{27}\b')
CHANGING = (
    (r'\b\d+(\\?/NAME| +NAME)', r'REV\1'),
    (r'\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z', 'INSTANT'),
    (r'\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT', 'DATE'),
    (r'\(\d+ ms\)', '(N ms)'),
    (r'(?i)\b(age|content-length): \d+', r'\1: N'),
    (r'\basked \d+ s ago', 'asked N s ago'),
    (r'\b(revision|page|version) \d+', r'\1 N'),
    (r'\b\d+(?:\.\d+)? (?:B|kB|MB)(?=\W|$)', 'SIZE'),
    (r'(X-Varnish:) \d+ \d+', r'\1 N N'),
    (r'(X-Varnish:) \d+$', r'\1 N'),
    (r'(?m)\b\d+(?:\.\d+)?(?:us|ms|s|m)\b', 'TIME'),
    (r'\t| {2,}', '  '),     # a table is aligned on a terminal alone
)


def plain(text):
    """Without what is different each time. The same name of a render or an item stays the same."""
    text = text.replace('\r', '')
    names = list(dict.fromkeys(NAMES.findall(text)))
    text = NAMES.sub(lambda found: f'NAME{names.index(found.group())}', text)
    for pattern, instead in CHANGING:
        text = re.sub(pattern, instead, text, flags=re.M)
    return [line.strip() for line in text.splitlines() if line.strip()]


def matches(want, got):
    """Are the lines of got those of want, where `...` stands for any number?"""
    if not want:
        return not got
    if want[0].strip() == '...':
        return any(matches(want[1:], got[n:]) for n in range(len(got) + 1))
    return bool(got) and want[0] == got[0] and matches(want[1:], got[1:])


def blocks(text):
    """(section, [lines]) of each indented block; the section is the last heading above."""
    section, block, found = '', [], []
    for line in [*text.splitlines(), 'end']:
        if line.startswith('    ') or (not line.strip() and block):
            block.append(line[4:])
            continue
        while block and not block[-1].strip():
            block.pop()
        if block:
            found.append((section, block))
        block = []
        heading = re.match(r'#+ (.*)', line)
        section = heading.group(1) if heading else section
    return found


def steps(block):
    """What a block says to do: ('file', name, text), or ('run', command, wanted lines) of each command."""
    named = FILE.match(block[0])
    if named:
        return [('file', named.group(1), '\n'.join(block) + '\n')]
    found = []
    for line in block:
        if line.startswith('$ '):
            found.append(['run', line[2:], []])
        elif found and found[-1][1].endswith('\\'):
            found[-1][1] = found[-1][1][:-1] + line.strip()
        elif found:
            found[-1][2].append(line)
    return [tuple(step) for step in found]


class Shell:
    """One bash for all commands: what one of them sets or starts, the next ones find."""

    def __init__(self, folder, env):
        self.said = folder / '.said'
        take, self.give = os.pipe()
        loop = f'while IFS= read -r -d "" -u {take} line; do eval "$line" {take}<&-; printf "\\036%d\\036" "$?"; done'
        with open(self.said, 'wb') as said:
            self.process = subprocess.Popen(['bash', '-c', loop], stdin=subprocess.DEVNULL, stdout=said, stderr=said, pass_fds=(take,),
                                            cwd=folder, env=env, start_new_session=True)
        os.close(take)

    def run(self, command):
        """(what it printed, its exit status)"""
        began, until = self.said.stat().st_size, time.monotonic() + COMMAND_TIMEOUT
        os.write(self.give, command.encode() + b'\0')
        while True:
            said = self.said.read_bytes()[began:].decode(errors='replace')
            ended = re.search(f'{END}(\\d+){END}', said)
            if ended:
                return said[:ended.start()], int(ended.group(1))
            if time.monotonic() > until or self.process.poll() is not None:
                raise SceneError(f'{command}: no end: {said}')
            time.sleep(0.02)

    def end(self):
        """With all that it started and did not end."""
        os.close(self.give)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGTERM)
        until = time.monotonic() + END_TIMEOUT
        with contextlib.suppress(ProcessLookupError):
            while True:
                self.process.poll()
                os.killpg(self.process.pid, signal.SIGKILL if time.monotonic() > until else 0)
                time.sleep(0.05)


class Walk:
    """One document. swap: texts of it, and by what they are replaced here, as ports and names. by_hand: by the words of
    a command `# words`, or of any command that is not to be run here, what is done instead. files: by the name of a file
    that is somewhere else here, what takes its text."""

    def __init__(self, binary, text, swap=None, by_hand=None, files=None, **env):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix='walk-'))
        self.swaps, self.by_hand, self.files = swap or {}, by_hand or {}, files or {}
        (self.folder / 'build').mkdir()
        (self.folder / 'build/palimpsest').symlink_to(pathlib.Path(binary).resolve())
        clean = {name: value for name, value in os.environ.items() if not name.startswith('PALIMPSEST_')}
        listen = self.swap('127.0.0.1:7231')
        self.shell = Shell(self.folder, {
            **clean, 'PATH': f'{self.folder}/build:{os.environ["PATH"]}:/usr/sbin', 'HOME': str(self.folder), 'LC_ALL': 'C.UTF-8',
            'PALIMPSEST_LISTEN': listen, 'PALIMPSEST_SERVER': f'http://{listen}', **env})
        self.text, self.ran = text, 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.shell.end()
        shutil.rmtree(self.folder, ignore_errors=True)

    def swap(self, text):
        for said, here in self.swaps.items():
            text = re.sub(rf'(?<![\w.]){re.escape(said)}(?![\w])', str(here), text)
        return text

    def go(self, *sections):
        """All commands and files, or those of these sections."""
        for section, block in blocks(self.text):
            if sections and section not in sections:
                continue
            for kind, first, rest in steps(block):
                if kind == 'file':
                    self.write(first, self.swap(rest))
                else:
                    self.run(first, rest)
        return self.ran

    def write(self, name, text):
        if name in self.files:
            self.files[name](text)
        else:
            (self.folder / name).write_text(text)

    def run(self, command, wanted):
        self.ran += 1
        if command in self.by_hand:
            self.by_hand[command]()
            return
        if command.startswith('# '):
            raise SceneError(f'nobody does this by hand: {command}')
        here, want = self.swap(command), plain(self.swap('\n'.join(wanted)))
        until, first = time.monotonic() + LOOK_TIMEOUT, None
        while True:
            said, status = self.shell.run(here)
            first = first or said
            if matches(want, plain(said)) and status == 0:
                break
            if not LOOKS.match(command) or time.monotonic() > until:
                raise SceneError(f'$ {command}\nwanted:\n' + '\n'.join(want) + f'\nexit {status}, got:\n{said}\nat first:\n{first}')
            time.sleep(0.2)
        if os.environ.get('WALK_SHOW'):
            print(f'$ {here}\n{said}', flush=True)
